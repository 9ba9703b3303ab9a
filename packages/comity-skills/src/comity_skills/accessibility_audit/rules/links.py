"""Links and frames say where they lead, and the same words lead to the same place."""

import re
from bisect import bisect
from collections.abc import Callable, Iterator
from itertools import islice

from comity_skills.accessibility_audit.dom.tree import Element
from comity_skills.accessibility_audit.names.name import tidy
from comity_skills.accessibility_audit.rules.rule import (
    Finding,
    Rule,
    Subject,
    cannot_tell,
    failed,
    judge,
    passed,
    phrases,
)

_VAGUE = phrases(
    "more|read more|learn more|see more|view more|show more|find out more|more info|"
    "more information|here|click here|click|tap here|go|go here|link|this|this link|this page|"
    "details|view|view details|see details|continue|continue reading|open|next page here|read|"
    "read this|info|download|download now|website|page|article|see|details here|learn|visit|"
    # German, French, Spanish, Italian, Portuguese
    "mehr|hier|hier klicken|klicken sie hier|klick hier|weiterlesen|mehr lesen|mehr erfahren|mehr infos|"
    "mehr informationen|weitere informationen|weitere infos|"
    "plus|ici|cliquez ici|cliquer ici|clique ici|par ici|en savoir plus|lire la suite|lire plus|voir plus|"
    "plus d'infos|plus d'informations|plus d\u2019infos|plus d\u2019informations|savoir plus|"
    "más|aquí|haga clic aquí|haz clic aquí|clic aquí|pulse aquí|pulsa aquí|pincha aquí|pinche aquí|leer más|ver más|"
    "saber más|más información|más info|seguir leyendo|"
    "qui|clicca qui|cliccare qui|fai clic qui|leggi tutto|leggi di più|scopri di più|per saperne di più|"
    "maggiori informazioni|continua a leggere|"
    "aqui|clique aqui|clica aqui|carregue aqui|mais|ler mais|leia mais|saiba mais|saber mais|ver mais|mais informações|"
    "continuar a ler|continue lendo"
)
_FORMATS = phrases("html|pdf|epub|txt|plain text|csv|json|xml|docx|doc|xlsx|mp3|mp4|zip|kindle|mobi")
_SCHEME = re.compile(r"^(?:https?:)?//(?:www\.)?", re.IGNORECASE)
_INDEX = re.compile(r"index\.\w+", re.IGNORECASE)
_HERE = "\0"  # stands for the link itself; no page has it
_SENTENCE_ENDS = re.compile(r"[.!?](?=\s|$)")
_QUERY = re.compile(r"\?.*$", re.DOTALL)
_NEAR = 5
_PIECES = 500
_HEADERS = 100
_POINTING = re.compile(r"^(?:this|that|these|those)\s+\S+$")
_BLOCKS = frozenset(
    {"p", "li", "td", "th", "dd", "dt", "blockquote", "figcaption", "h1", "h2", "h3", "h4", "h5", "h6"}
)
_MOVES = re.compile(
    r"location(?:\.href)?\s*(?:\+?=|\.(?:assign|replace)\()\s*['\"]([^'\"]*)|window\.open\(\s*['\"]([^'\"]*)"
)


def _links(subject: Subject) -> Iterator[tuple[Element, str]]:
    for element in subject.document.elements:
        if subject.roles.is_a(element, "link") and subject.shown.told(element):
            name = subject.names.of(element)
            if name:
                yield element, name


def _vague(name: str) -> bool:
    words = tidy(name.lower()).strip(" .:!»>→…-")
    return words in _VAGUE or words in _FORMATS


def _describes(subject: Subject) -> Iterator[Finding]:
    for element, name in _links(subject):
        if _vague(name) or _POINTING.match(tidy(name.lower())):
            yield failed(element, f"{name[:60]!r} alone does not say where the link leads.")
        else:
            yield passed(element)


def _describes_in_context(subject: Subject) -> Iterator[Finding]:
    contexts = _Contexts(subject)
    for element, name in _links(subject):
        if not _vague(name) or contexts.of(element, name):
            yield passed(element)
        elif contexts.heading(element) is not None:
            yield cannot_tell(element, f"Only the heading before {name[:60]!r} may say where it leads.")
        else:
            yield failed(element, f"Neither {name[:60]!r} nor what is around it says where the link leads.")


class _Contexts:
    """The text that assistive technology can find for a link: its sentence, list, cell, headers, description."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._blocks: dict[int, str] = {}
        self._headers: dict[int, list[tuple[Element, int, int, bool]]] = {}
        self._headings = [one.index for one in subject.roles.with_role("heading") if subject.shown.told(one)]

    def of(self, element: Element, name: str) -> str:
        described = self._subject.document.referenced(element, "aria-describedby")[:_NEAR]
        title = (element.get("title") or "").strip()
        parts = [*(tidy(one.text()) for one in described), title if title != name else ""]
        block = next((above for above in element.ancestors() if above.tag in _BLOCKS), None)
        if block is not None:
            parts.append(self._around(block))
            lists = (above for above in block.ancestors() if above.tag == "li")
            parts.extend(_own_text(above) for above in islice(lists, _NEAR))
            if block.tag == "td":
                parts.extend(self._cell_headers(block))
        return " ".join(part for part in parts if re.search(r"[^\W\d_]{2,}", part))

    def sentence(self, element: Element) -> str:
        """The sentence that a link stands in, as far as its block goes."""
        block = next((above for above in element.ancestors() if above.tag in _BLOCKS), None)
        found: list[str] = []
        pending: list[Element | str] = [] if block is None else [block]
        while pending and len(found) < _PIECES:
            one = pending.pop()
            if isinstance(one, str) or one is element:
                found.append(one if isinstance(one, str) else _HERE)
            elif not self._subject.roles.is_a(one, "link"):
                pending.extend(reversed(one.children))
        sentences = _SENTENCE_ENDS.split(" ".join(found))
        return next((one for one in sentences if _HERE in one), "").replace(_HERE, "")

    def heading(self, element: Element) -> Element | None:
        """The heading of the same section before a link, that W3C's technique H80 lets speak for it."""
        place = bisect(self._headings, element.index) - 1
        if place < 0:
            return None
        heading = self._subject.document.elements[self._headings[place]]
        holder = heading.parent
        while holder is not None and holder.tag in {"header", "hgroup", "a"}:
            holder = holder.parent
        if holder is None or holder.tag in {"html", "body", "main"} or not holder.holds(element):
            return None
        return heading

    def _around(self, block: Element) -> str:
        """The text of a block without its links."""
        known = self._blocks.get(block.index)
        if known is not None:
            return known
        found: list[str] = []
        pending: list[Element | str] = [block]
        while pending and len(found) < _PIECES:
            one = pending.pop()
            if isinstance(one, str):
                found.append(one)
            elif not self._subject.roles.is_a(one, "link"):
                pending.extend(reversed(one.children))
        text = self._blocks[block.index] = tidy(" ".join(found))
        return text

    def _cell_headers(self, cell: Element) -> Iterator[str]:
        for header in self._subject.document.referenced(cell, "headers")[:_NEAR]:
            yield tidy(header.text())
        table = cell.closest("table")
        if table is None or cell.parent is None:
            return
        column = _column(cell)
        for header, row, place, wide in self._table_headers(table):
            if row == cell.parent.index or wide or place == column:
                yield tidy(header.text())

    def _table_headers(self, table: Element) -> list[tuple[Element, int, int, bool]]:
        known = self._headers.get(table.index)
        if known is None:
            cells = self._subject.document.inside(table, _PIECES)
            known = self._headers[table.index] = [
                (one, one.parent.index, _column(one), (one.get("colspan") or "1").strip() != "1")
                for one in cells
                if one.tag == "th" and one.parent is not None and self._subject.shown.told(one)
            ][:_HEADERS]
        return known


def _own_text(element: Element) -> str:
    return tidy(" ".join(child for child in element.children[:_PIECES] if isinstance(child, str)))


def _column(cell: Element) -> int:
    if cell.parent is None:
        return -1
    cells = (one for one in cell.parent.elements() if one.tag in {"td", "th"})
    return next((place for place, one in enumerate(islice(cells, _PIECES)) if one is cell), -1)


def _target(element: Element) -> str | None:
    """Where a link leads, made comparable; None when a script decides."""
    address = element.get("href") or element.get("xlink:href")
    if address is None:
        moves = _MOVES.search(element.get("onclick") or "")
        address = (moves[1] or moves[2]) if moves is not None else None
    if address is None or address.strip().lower().startswith("javascript:"):
        return None
    return _comparable(address)


def _comparable(address: str) -> str:
    """Without what seldom makes a difference: the scheme, www, and how a folder is written."""
    plain = _SCHEME.sub("", address.strip())
    folder, slash, file = plain.rpartition("/")
    return folder if slash and (not file or _INDEX.fullmatch(file)) else plain


def _same_purpose(*, in_context: bool) -> Callable[[Subject], Iterator[Finding]]:
    def check(subject: Subject) -> Iterator[Finding]:
        groups: dict[tuple[str, str], list[Element]] = {}
        contexts = _Contexts(subject)
        for element, name in _links(subject):
            around = ""
            if in_context:
                heading = contexts.heading(element)
                said = f"{contexts.of(element, name)} {contexts.sentence(element)}"
                around = tidy(said.lower()) + (f" #{heading.index}" if heading else "")
            groups.setdefault((tidy(name.lower()), around), []).append(element)
        for (name, _), links in groups.items():
            if len(links) < 2:
                continue
            targets = {_target(one) for one in links}
            yield from _compare(links, name, targets)

    return check


def _compare(links: list[Element], name: str, targets: set[str | None]) -> Iterator[Finding]:
    if len(targets) == 1 and None not in targets:
        yield from (passed(one) for one in links)
    elif None in targets:
        yield cannot_tell(links[0], "Scripts decide where links of the same name lead.")
    elif all(target.startswith("#") for target in targets if target is not None):
        yield failed(
            links[0], f"{len(links)} links named {name[:60]!r} lead to different places on the page."
        )
    elif len({_QUERY.sub("", target) for target in targets if target is not None}) > 1:
        yield failed(links[0], f"{len(links)} links named {name[:60]!r} lead to different addresses.")
    else:  # whether what differs in the query alone is another page is only seen on the pages
        yield cannot_tell(
            links[0],
            f"{len(links)} links named {name[:60]!r} have different addresses; see that they serve one purpose.",
        )


def _frames_differ(subject: Subject) -> Iterator[Finding]:
    groups: dict[str, list[Element]] = {}
    for element in subject.document.tagged("iframe"):
        name = subject.names.of(element).lower()
        if name and subject.shown.told(element):
            groups.setdefault(name, []).append(element)
    for name, frames in groups.items():
        if len(frames) > 1:
            addresses = {_comparable(one.get("src") or one.get("srcdoc") or "") for one in frames}
            note = f"Frames named {name[:60]!r} hold different pages."
            yield judge(frames[0], "" if len(addresses) == 1 else note)


RULES = (
    Rule(
        id="aizyf1",
        name="Link describes its purpose by itself",
        criteria=("2.4.9",),
        how="Names from a list of words that fit any link fail.",
        fix="Name the destination in the text of the link.",
        check=_describes,
    ),
    Rule(
        id="5effbb",
        name="Link describes its purpose in context",
        criteria=("2.4.4", "2.4.9"),
        how="A name that fits any link needs other text in its sentence, list item, cell, headers or description.",
        fix="Name the destination in the link or in the sentence around it.",
        check=_describes_in_context,
        seen="links whose words fit any link",
    ),
    Rule(
        id="b20e66",
        name="Links of the same name lead to the same place",
        criteria=("2.4.9",),
        how="Addresses of links with the same name are compared; those that differ in their query alone need a look.",
        fix="Give links with different destinations different names.",
        check=_same_purpose(in_context=False),
        seen="links of one name that may lead to different places",
    ),
    Rule(
        id="fd3a94",
        name="Links of the same name and context lead to the same place",
        criteria=("2.4.4", "2.4.9"),
        how="As above, for links with the same name and the same text around them.",
        fix="Give links with different destinations different names.",
        check=_same_purpose(in_context=True),
        seen="links of one name that may lead to different places",
    ),
    Rule(
        id="4b1c6c",
        name="Frames of the same name hold the same page",
        criteria=("4.1.2",),
        how="Addresses of frames with the same name are compared.",
        fix="Give frames with different content different names.",
        check=_frames_differ,
    ),
)
