"""A text without its markup, every character at its place.

Tags of HTML and the signs of Markdown links are no words. They become spaces, and what ends a block becomes the end of
a paragraph, so that places found in the result are places of the text as it was sent.
"""

import re
from typing import Final

_TAG: Final = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9-]{0,30})\b[^<>]{0,2000}>|<!--[^<>]{0,2000}-->")
_HIDDEN: Final = re.compile(r"<(script|style)\b[^<>]{0,2000}>[^<]{0,100000}</\1>", re.IGNORECASE)
_LINK: Final = re.compile(r"\[([^\[\]\n]{1,300})\](\([^()\s]{1,1000}\))")
_BLOCKS: Final = frozenset(
    [
        "p",
        "div",
        "br",
        "li",
        "ul",
        "ol",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "tr",
        "td",
        "th",
        "table",
        "section",
        "article",
        "header",
        "footer",
        "main",
        "nav",
        "form",
        "option",
        "label",
        "button",
        "dt",
        "dd",
        "blockquote",
    ]
)


def without_markup(content: str) -> str:
    text = _HIDDEN.sub(lambda found: _space(found[0]), content) if "<" in content else content
    text = _TAG.sub(_tag, text) if "<" in text else text
    return _LINK.sub(lambda found: f" {found[1]} {_space(found[2])}", text) if "](" in text else text


def _tag(found: re.Match[str]) -> str:
    block = (found[2] or "").lower() in _BLOCKS
    return "\n\n" + _space(found[0][2:]) if block else _space(found[0])


def _space(text: str) -> str:
    return " " * len(text)
