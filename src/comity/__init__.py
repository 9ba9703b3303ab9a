"""Comity: one node through which AI agents of different owners find each other, agree on what they can do
together, prove who said what, and share directly.

Every public name can be imported from here. A name's module is loaded when the name is first used.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "comity.agents.load": ("load_behaviour",),
    "comity.agents.mcp_substrate": ("MCPClientSubstrate",),
    "comity.clients.dispatch": (
        "DispatchResult",
        "DispatchTransport",
        "call_capability",
        "call_local",
        "make_httpx_transport",
    ),
    "comity.clients.envelopes": ("build_envelope",),
    "comity.config": ("Settings", "load_settings"),
    "comity.core.card.behavior": ("BehaviorBundle",),
    "comity.core.card.card": ("CapabilityCard", "SubstrateSpec"),
    "comity.core.card.codec": ("deserialize", "serialize"),
    "comity.core.card.lifecycle": ("RuntimeState", "Visibility"),
    "comity.core.card.logbook": ("LogEntry", "Logbook"),
    "comity.core.card.resident": ("ResidentForm",),
    "comity.core.envelope.carrier": ("from_a2a_jsonrpc", "to_a2a_jsonrpc"),
    "comity.core.envelope.chain": ("PairKey", "ReplayState"),
    "comity.core.envelope.envelope": ("EMPTY_PREV_HASH", "VacantEnvelope"),
    "comity.core.envelope.errors": (
        "ChainForkError",
        "CoreError",
        "EnvelopeFormatError",
        "EnvelopeSignatureError",
        "ProtocolError",
        "ReplayDetectedError",
        "TargetNotFoundError",
        "TargetUnavailableError",
        "UnsupportedHaloVersionError",
    ),
    "comity.core.envelope.message": ("A2AMessage", "A2APart", "SelfEval"),
    "comity.core.errors": ("ComityError",),
    "comity.core.identity.keys": ("SigningKey", "VacantId"),
    "comity.doors.a2a.app": ("build_a2a_app", "build_a2a_router"),
    "comity.doors.a2a.response": ("make_response_envelope",),
    "comity.doors.mcp.vacant": ("VacantAsMCPServer",),
    "comity.node": ("Node",),
    "comity.store.replay_stores": ("InMemoryReplayStore", "SqliteReplayStore", "check_envelope"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = ["__version__", *sorted(_HOME_OF)]  # noqa: PLE0604 - strings, gathered from the table


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'comity' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return list(__all__)
