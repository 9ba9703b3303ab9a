"""The first page: what this node is, how it is doing, what to do next.

The page is whole when it arrives; its script only keeps the figures fresh.
"""

import shlex
from collections.abc import Awaitable, Callable
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

_FOLDER = files("comity.doors.http") / "assets"
_KINDS = {"status.css": "text/css; charset=utf-8", "status.js": "text/javascript; charset=utf-8"}

Asset = Callable[[Request], Awaitable[Response]]


def page(status: dict[str, Any]) -> str:
    template = Template((_FOLDER / "status.html").read_text("utf-8"))
    shown = {**status, "token_file": shlex.quote(f"{status['data']}/token")}
    escaped = {key: escape(str(value)) for key, value in shown.items()}
    panels = "\n".join(_panel(part, panel) for part, panel in status["panels"].items())
    return template.substitute({**escaped, "panels": panels})


def _panel(part: str, panel: dict[str, Any]) -> str:
    rows = "\n".join(
        f'      <li><strong id="panel-{part}-{row}">{escape(value)}</strong><span>{escape(label)}</span></li>'
        for row, (label, value) in enumerate(panel["rows"])
    )
    return (
        f'  <section aria-labelledby="panel-{part}">\n    <h2 id="panel-{part}">{escape(panel["title"])}</h2>\n'
        f'    <ul class="figures">\n{rows}\n    </ul>\n  </section>'
    )


def assets() -> dict[str, Asset]:
    return {name: _asset((_FOLDER / name).read_bytes(), kind) for name, kind in _KINDS.items()}


def _asset(content: bytes, kind: str) -> Asset:
    async def serve(_request: Request) -> Response:
        return Response(
            content,
            headers={
                "content-type": kind,
                "cache-control": "max-age=300",
                "x-content-type-options": "nosniff",
            },
        )

    return serve
