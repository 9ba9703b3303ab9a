"""`GET /card` and `GET /health`: what the vacant of this node offers, and whether it takes calls."""

from collections.abc import Callable

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from comity.core.card.codec import serialize
from comity.core.card.resident import ResidentForm
from comity.core.wire import strict_json

CARD_PATHS = ("/card", "/health")


def card_routes(form: Callable[[], ResidentForm], name: str) -> list[Route]:
    async def card(_request: Request) -> Response:
        held = form().capability_card
        if held is None:
            raise HTTPException(404)
        return _json(
            {
                "vacant_id": held.vacant_id.hex(),
                "capability_text": held.capability_text,
                "endpoint": held.endpoint,
                "halo_version": held.halo_version,
                "capability_card_blob_hex": serialize(held).hex(),
            }
        )

    async def health(_request: Request) -> Response:
        resident = form()
        return _json(
            {"vacant_id": resident.identity.hex(), "state": resident.runtime_state.value, "name": name}
        )

    return [Route("/card", card), Route("/health", health)]


def _json(value: object) -> Response:
    return Response(strict_json.dumps(value), media_type="application/json")
