"""Comity: one node through which AI agents of different owners find each other, agree on what they can do
together, prove who said what, and share messages, files and data directly.

Every public name can be imported from here. A name's module is loaded when the name is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from comity.release import __version__

if TYPE_CHECKING:
    from nacl.signing import VerifyKey as VerifyKey

    from comity.agents.behaviour import load_behaviour as load_behaviour
    from comity.agents.mcp_substrate import MCPClientSubstrate as MCPClientSubstrate
    from comity.agents.mcp_substrate import MCPTransport as MCPTransport
    from comity.agents.substrate import SubstrateBackend as SubstrateBackend
    from comity.agents.substrate import SubstrateError as SubstrateError
    from comity.agents.substrate import SubstrateRateLimitError as SubstrateRateLimitError
    from comity.agents.substrate import SubstrateRequest as SubstrateRequest
    from comity.agents.substrate import SubstrateResponse as SubstrateResponse
    from comity.agents.substrate import SubstrateUnavailableError as SubstrateUnavailableError
    from comity.client import Client as Client
    from comity.client import Reply as Reply
    from comity.clients.directory import DirectoryClient as DirectoryClient
    from comity.clients.directory import directory_search as directory_search
    from comity.clients.dispatch import DispatchResult as DispatchResult
    from comity.clients.dispatch import DispatchTransport as DispatchTransport
    from comity.clients.dispatch import build_envelope as build_envelope
    from comity.clients.dispatch import call_capability as call_capability
    from comity.clients.dispatch import call_local as call_local
    from comity.clients.dispatch import make_httpx_transport as make_httpx_transport
    from comity.clients.targets import ReputationOracle as ReputationOracle
    from comity.clients.vcp import VcpClient as VcpClient
    from comity.config import Settings as Settings
    from comity.config import VcpSettings as VcpSettings
    from comity.core.card.card import DEFAULT_HALO_VERSION as DEFAULT_HALO_VERSION
    from comity.core.card.card import MAX_SUPPORTED_HALO_VERSION as MAX_SUPPORTED_HALO_VERSION
    from comity.core.card.card import MIN_SUPPORTED_HALO_VERSION as MIN_SUPPORTED_HALO_VERSION
    from comity.core.card.card import CapabilityCard as CapabilityCard
    from comity.core.card.card import SubstrateSpec as SubstrateSpec
    from comity.core.card.card import deserialize as deserialize
    from comity.core.card.card import serialize as serialize
    from comity.core.card.errors import InvalidEventError as InvalidEventError
    from comity.core.card.lifecycle import RuntimeState as RuntimeState
    from comity.core.card.lifecycle import VacantState as VacantState
    from comity.core.card.lifecycle import Visibility as Visibility
    from comity.core.card.lifecycle import can_be_called as can_be_called
    from comity.core.card.logbook import Logbook as Logbook
    from comity.core.card.logbook import LogEntry as LogEntry
    from comity.core.card.resident import BehaviorBundle as BehaviorBundle
    from comity.core.card.resident import ResidentForm as ResidentForm
    from comity.core.context.response import CallerContext as CallerContext
    from comity.core.envelope.carrier import A2A_VACANT_METADATA_KEY as A2A_VACANT_METADATA_KEY
    from comity.core.envelope.carrier import from_a2a_jsonrpc as from_a2a_jsonrpc
    from comity.core.envelope.carrier import to_a2a_jsonrpc as to_a2a_jsonrpc
    from comity.core.envelope.chain import PairKey as PairKey
    from comity.core.envelope.chain import ReplayState as ReplayState
    from comity.core.envelope.chain import ReplayStore as ReplayStore
    from comity.core.envelope.envelope import EMPTY_PREV_HASH as EMPTY_PREV_HASH
    from comity.core.envelope.envelope import VacantEnvelope as VacantEnvelope
    from comity.core.envelope.errors import ChainForkError as ChainForkError
    from comity.core.envelope.errors import CoreError as CoreError
    from comity.core.envelope.errors import CryptoError as CryptoError
    from comity.core.envelope.errors import EnvelopeFormatError as EnvelopeFormatError
    from comity.core.envelope.errors import EnvelopeSignatureError as EnvelopeSignatureError
    from comity.core.envelope.errors import HashChainError as HashChainError
    from comity.core.envelope.errors import ProtocolError as ProtocolError
    from comity.core.envelope.errors import ReplayDetectedError as ReplayDetectedError
    from comity.core.envelope.errors import SignatureVerificationError as SignatureVerificationError
    from comity.core.envelope.errors import TargetNotFoundError as TargetNotFoundError
    from comity.core.envelope.errors import TargetUnavailableError as TargetUnavailableError
    from comity.core.envelope.errors import TypeIntegrityError as TypeIntegrityError
    from comity.core.envelope.errors import UnsupportedHaloVersionError as UnsupportedHaloVersionError
    from comity.core.envelope.message import A2AMessage as A2AMessage
    from comity.core.envelope.message import A2APart as A2APart
    from comity.core.envelope.message import SelfEval as SelfEval
    from comity.core.errors import ComityError as ComityError
    from comity.core.extensions.refusals import ExtensionError as ExtensionError
    from comity.core.identity.keys import SigningKey as SigningKey
    from comity.core.identity.keys import VacantId as VacantId
    from comity.core.negotiation.schema import HANDSHAKE_SCHEMA as HANDSHAKE_SCHEMA
    from comity.doors.a2a.app import BehaviorHandler as BehaviorHandler
    from comity.doors.a2a.app import build_a2a_app as build_a2a_app
    from comity.doors.a2a.app import build_a2a_router as build_a2a_router
    from comity.doors.a2a.app import make_response_envelope as make_response_envelope
    from comity.doors.mcp.toolkit import McpServer as McpServer
    from comity.doors.mcp.vacant import VacantAsMCPServer as VacantAsMCPServer
    from comity.node import Node as Node
    from comity.node import load_settings as load_settings
    from comity.pipeline.directory.reviews import StoredReputation as StoredReputation
    from comity.pipeline.directory.search import HaloMatch as HaloMatch
    from comity.pipeline.vcp.plugins import VcpExtension as VcpExtension
    from comity.pipeline.vcp.service import VcpServer as VcpServer
    from comity.store.replay_stores import InMemoryReplayStore as InMemoryReplayStore
    from comity.store.replay_stores import SqliteReplayStore as SqliteReplayStore
    from comity.store.replay_stores import check_envelope as check_envelope
    from comity.vcp_app import VcpApp as VcpApp


_NAMES = {
    "comity.agents.behaviour": ("load_behaviour",),
    "comity.agents.mcp_substrate": ("MCPClientSubstrate", "MCPTransport"),
    "comity.agents.substrate": (
        "SubstrateBackend",
        "SubstrateError",
        "SubstrateRateLimitError",
        "SubstrateRequest",
        "SubstrateResponse",
        "SubstrateUnavailableError",
    ),
    "comity.client": ("Client", "Reply"),
    "comity.clients.directory": ("DirectoryClient", "directory_search"),
    "comity.clients.dispatch": (
        "DispatchResult",
        "DispatchTransport",
        "build_envelope",
        "call_capability",
        "call_local",
        "make_httpx_transport",
    ),
    "comity.clients.targets": ("ReputationOracle",),
    "comity.clients.vcp": ("VcpClient",),
    "comity.config": ("Settings", "VcpSettings"),
    "comity.core.card.card": (
        "CapabilityCard",
        "DEFAULT_HALO_VERSION",
        "MAX_SUPPORTED_HALO_VERSION",
        "MIN_SUPPORTED_HALO_VERSION",
        "SubstrateSpec",
        "deserialize",
        "serialize",
    ),
    "comity.core.card.errors": ("InvalidEventError",),
    "comity.core.card.lifecycle": ("RuntimeState", "VacantState", "Visibility", "can_be_called"),
    "comity.core.card.logbook": ("LogEntry", "Logbook"),
    "comity.core.card.resident": ("BehaviorBundle", "ResidentForm"),
    "comity.core.context.response": ("CallerContext",),
    "comity.core.envelope.carrier": ("A2A_VACANT_METADATA_KEY", "from_a2a_jsonrpc", "to_a2a_jsonrpc"),
    "comity.core.envelope.chain": ("PairKey", "ReplayState", "ReplayStore"),
    "comity.core.envelope.envelope": ("EMPTY_PREV_HASH", "VacantEnvelope"),
    "comity.core.envelope.errors": (
        "ChainForkError",
        "CoreError",
        "CryptoError",
        "EnvelopeFormatError",
        "EnvelopeSignatureError",
        "HashChainError",
        "ProtocolError",
        "ReplayDetectedError",
        "SignatureVerificationError",
        "TargetNotFoundError",
        "TargetUnavailableError",
        "TypeIntegrityError",
        "UnsupportedHaloVersionError",
    ),
    "comity.core.envelope.message": ("A2AMessage", "A2APart", "SelfEval"),
    "comity.core.errors": ("ComityError",),
    "comity.core.extensions.refusals": ("ExtensionError",),
    "comity.core.identity.keys": ("SigningKey", "VacantId"),
    "comity.core.negotiation.schema": ("HANDSHAKE_SCHEMA",),
    "comity.doors.a2a.app": (
        "BehaviorHandler",
        "build_a2a_app",
        "build_a2a_router",
        "make_response_envelope",
    ),
    "comity.doors.mcp.toolkit": ("McpServer",),
    "comity.doors.mcp.vacant": ("VacantAsMCPServer",),
    "comity.node": ("Node", "load_settings"),
    "comity.pipeline.directory.reviews": ("StoredReputation",),
    "comity.pipeline.directory.search": ("HaloMatch",),
    "comity.pipeline.vcp.plugins": ("VcpExtension",),
    "comity.pipeline.vcp.service": ("VcpServer",),
    "comity.store.replay_stores": ("InMemoryReplayStore", "SqliteReplayStore", "check_envelope"),
    "comity.vcp_app": ("VcpApp",),
    "nacl.signing": ("VerifyKey",),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}

__all__ = ["__version__", *sorted(_HOMES)]  # noqa: PLE0604 - strings, gathered from the table


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'comity' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return list(__all__)
