"""The page at `/`, its files, and the page that a browser gets instead of an error in JSON.

The shell is made here, with everything that others wrote escaped. Its scripts read `/v1/status`, `/v1/views` and
`/v1/events`, and put what they find into the page as text.
"""

import shlex
from collections.abc import Awaitable, Callable
from html import escape
from importlib.resources import files
from string import Template
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from comity.core.clock import duration_words

PAGE_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
PAGE_HEADERS: Final = {
    "content-type": "text/html; charset=utf-8",
    "content-security-policy": PAGE_POLICY,
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
}

_FOLDER = files("comity.doors.http") / "assets"
_SCRIPT: Final = "text/javascript; charset=utf-8"
_ASSETS: Final = {"page.css": "text/css; charset=utf-8", "page.js": _SCRIPT, "draw.js": _SCRIPT}
_TITLES: Final = {
    401: "This page needs a link",
    403: "This link does not open the page",
    429: "Too many requests",
}

Asset = Callable[[Request], Awaitable[Response]]


def page(status: dict[str, Any]) -> str:
    shown = {
        **status,
        "uptime": duration_words(status["uptime"]),
        "token_file": shlex.quote(f"{status['data']}/token"),
    }
    template = Template((_FOLDER / "page.html").read_text("utf-8"))
    return template.substitute({key: escape(str(value)) for key, value in shown.items()})


def wants_page(accept: str) -> bool:
    """Whether a browser asks, which reads HTML and no JSON."""
    return "text/html" in accept


def refusal_page(status: int, sentence: str) -> str:
    template = Template((_FOLDER / "refused.html").read_text("utf-8"))
    title = _TITLES.get(status, "The node does not answer this")
    return template.substitute(title=escape(title), sentence=escape(sentence))


def assets() -> dict[str, Asset]:
    return {name: _asset((_FOLDER / name).read_bytes(), kind) for name, kind in _ASSETS.items()}


def _asset(content: bytes, kind: str) -> Asset:
    headers = {"content-type": kind, "cache-control": "max-age=300", "x-content-type-options": "nosniff"}

    async def serve(_request: Request) -> Response:
        return Response(content, headers=headers)

    return serve
