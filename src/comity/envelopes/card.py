"""What the vacant of this node offers, and whether it takes calls: `/card`, `/health` and the card of A2A.

`/.well-known/agent-card.json` is an agent card of A2A 1.0 (a2a 1.6). It names one interface, under a binding of our own,
because the endpoint takes signed envelopes and nothing else: a plain A2A client must not take it for JSON-RPC or REST.
No member is empty or has its default value, so that all readers make the same canonical form of it.
"""

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from comity.envelopes.protocol.card import CapabilityCard, serialize
from comity.envelopes.protocol.carrier import A2A_VACANT_METADATA_KEY
from comity.envelopes.protocol.lifecycle import is_gone
from comity.envelopes.protocol.refusals import VacantGoneError
from comity.envelopes.protocol.resident import ResidentForm
from comity.release import __version__
from comity.wire import strict_json

AGENT_CARD_PATH = "/.well-known/agent-card.json"
CARD_PATHS = ("/card", "/health", AGENT_CARD_PATH)
CHAIN_RESET_PATH = "/a2a/chain/reset"
"""A later release of the reference forgets a chain there, so that all old envelopes can be sent again. We have no such
path, and say so to everybody: 404 (ruling 7)."""

MESSAGE_SEND_BINDING = "urn:comity:binding:a2a-message-send:v1"
A2A_VERSION = "1.0"

_TEXT = "text/plain"
_CACHED_SECONDS = 60


def card_routes(form: Callable[[], ResidentForm], name: str, freshness: float = 0.0) -> list[Route]:
    """`freshness`: how many seconds old an envelope may be; 0 if any age is accepted."""

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

    async def agent_card(request: Request) -> Response:
        resident = form()
        held = resident.capability_card
        if held is None or held.endpoint is None:
            raise HTTPException(404)
        if is_gone(resident.runtime_state):
            raise VacantGoneError(f"vacant is {resident.runtime_state}; calls permanently rejected")
        body = strict_json.dumps(a2a_agent_card(held, name, freshness))
        tag = f'"{sha256(body).hexdigest()[:32]}"'
        headers = {"etag": tag, "cache-control": f"public, max-age={_CACHED_SECONDS}"}
        if tag in [known.strip() for known in request.headers.get("if-none-match", "").split(",")]:
            return Response(status_code=304, headers=headers)
        return Response(body, media_type="application/json", headers=headers)

    return [Route("/card", card), Route("/health", health), Route(AGENT_CARD_PATH, agent_card)]


def a2a_agent_card(card: CapabilityCard, name: str, freshness: float) -> dict[str, Any]:
    offer = card.capability_text or "answers signed messages"
    params: dict[str, Any] = {"vacantId": card.vacant_id.hex(), "alg": "Ed25519", "hash": "blake2b-256"}
    if freshness:
        params["maxSkewSeconds"] = freshness
    return {
        "name": name,
        "description": offer,
        "version": __version__,
        "supportedInterfaces": [
            {
                "url": card.endpoint,
                "protocolBinding": MESSAGE_SEND_BINDING,
                "protocolVersion": A2A_VERSION,
            }
        ],
        "capabilities": {
            "extensions": [
                {
                    "uri": A2A_VACANT_METADATA_KEY,
                    "description": "Every message is a signed envelope, numbered and chained for each pair of agents.",
                    "required": True,
                    "params": params,
                }
            ]
        },
        "defaultInputModes": [_TEXT],
        "defaultOutputModes": [_TEXT],
        "skills": [{"id": "message", "name": name, "description": offer, "tags": ["signed-envelope"]}],
    }


def _json(value: Mapping[str, Any]) -> Response:
    return Response(strict_json.dumps(value), media_type="application/json")
