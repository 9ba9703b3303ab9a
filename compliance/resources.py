"""Resources: a text, some bytes, one that is watched, and a template."""

import re
from typing import Final

from comity.mcp.protocol.catalog import ReadHandler, Resources, resource
from comity.mcp.protocol.context import Context
from comity.mcp.protocol.results import Contents, Json
from comity.wire import strict_json
from comity.wire.errors import NotFoundError
from compliance.content import PIXEL, ROOM

_TEMPLATE: Final = re.compile(r"test://template/([^/]+)/data")


def _text(words: str) -> ReadHandler:
    def read(_context: Context, uri: str) -> Contents:
        return Contents([{"uri": uri, "mimeType": "text/plain", "text": words}])

    return read


def _bytes(_context: Context, uri: str) -> Contents:
    return Contents([{"uri": uri, "mimeType": "image/png", "blob": PIXEL}])


def _templated(_context: Context, uri: str) -> Contents:
    found = _TEMPLATE.fullmatch(uri)
    if found is None:
        raise NotFoundError("there is no such resource")
    data: Json = {"id": found[1], "templateTest": True, "data": f"Data for ID: {found[1]}"}
    words = strict_json.dumps(data).decode()
    return Contents([{"uri": uri, "mimeType": "application/json", "text": words}])


def fixture_resources() -> list[Resources]:
    return [
        resource(
            "test://static-text",
            _text("This is the content of the static text resource."),
            group=ROOM,
            name="static-text",
            mime_type="text/plain",
            description="A text that never changes",
        ),
        resource(
            "test://static-binary",
            _bytes,
            group=ROOM,
            name="static-binary",
            mime_type="image/png",
            description="One red pixel",
        ),
        resource(
            "test://watched-resource",
            _text("Watch this."),
            group=ROOM,
            name="watched-resource",
            mime_type="text/plain",
            description="A text to subscribe to",
        ),
        Resources(
            group=ROOM,
            owns=lambda uri: _TEMPLATE.fullmatch(uri) is not None,
            read=_templated,
            templates=[
                {
                    "uriTemplate": "test://template/{id}/data",
                    "name": "template",
                    "description": "Data for any id",
                    "mimeType": "application/json",
                }
            ],
        ),
    ]
