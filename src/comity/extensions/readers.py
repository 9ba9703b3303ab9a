"""The resources of the extensions: what a model may read of a session of its own (vcp 7.2, ruling 49).

A personal state is a ModelSafeContext and nothing else; an intent is a category and its confidence.
"""

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from comity.extensions.handler import OperationRequest
from comity.extensions.protocol import calls, personal
from comity.extensions.protocol.calls import OperationCall
from comity.extensions.service import ExtensionService
from comity.requests.caller import vcp_identity
from comity.vcp.protocol.agreement import Session
from comity.vcp.protocol.extension_calls import ExtensionError
from comity.vcp.protocol.versions import V3_1
from comity.vcp.resource_addresses import EXTENSION_ADDRESSES
from comity.vcp.resource_readers import FadingContent, Owner, ResourceReader, ResourceReaders
from comity.vcp.sessions import LiveSessions
from comity.wire.errors import NotFoundError


def extension_readers(service: ExtensionService, sessions: LiveSessions) -> ResourceReaders:
    """`sessions` are those that are open; `VcpResources` has looked whose a session is before a reader is asked."""
    readers = ResourceReaders()
    for host, view in _VIEWS.items():
        readers.add(host, ResourceReader(_reading(service, host, view), _own(sessions)))
    readers.add(_CONSENSUS, ResourceReader(_reading_deliberation(service), _own_deliberations(service)))
    return readers


def _reading(service: ExtensionService, host: str, view: Callable[[OperationCall], Any]) -> Any:
    extension = EXTENSION_ADDRESSES[host].extension
    assert extension is not None

    async def read(session_id: str, owner: Owner) -> FadingContent:
        asking = owner.session or Session(
            id=session_id, version=str(V3_1), extensions=(extension,), identity=owner.identity
        )
        call = await service.view(replace(asking, id=session_id))
        state, rules = call.state.session.personal, call.rules.personal
        fades = host in _FADING
        return FadingContent(view(call), personal.unchanged_for(state, rules, call.now) if fades else 0.0)

    return read


def _reading_deliberation(service: ExtensionService) -> Any:
    async def read(delib_id: str, owner: Owner) -> dict[str, Any]:
        if owner.session is None:
            raise NotFoundError("there is no such deliberation for you here")
        request = OperationRequest(
            op="consensus.result", args={"delib_id": delib_id}, session=owner.session, audience="model"
        )
        try:
            result = await service.perform(request, vcp_identity(owner.id or ""), "mcp")
        except ExtensionError as refusal:
            # who takes no part does not learn whether there is one
            raise NotFoundError(refusal.message) from refusal
        told: dict[str, Any] = to_builtins(result)
        return told

    return read


def _own_deliberations(service: ExtensionService) -> Any:
    async def ids(owner: Owner) -> Iterable[str]:
        return [] if owner.session is None else await service.deliberations_of(owner.session)

    return ids


def _own(sessions: LiveSessions) -> Any:
    async def ids(owner: Owner) -> Iterable[str]:
        return sessions.ids_for(owner.session, owner.id)

    return ids


_VIEWS: dict[str, Callable[[OperationCall], Any]] = {
    "personal-state": calls.personal_view,
    "relational": calls.relational_view,
    "torch": calls.torch_view,
    "intent": calls.intent_view,
}
_CONSENSUS = "consensus"
_FADING = frozenset(("personal-state", "intent"))
