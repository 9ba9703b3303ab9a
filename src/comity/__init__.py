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
    from comity.agents.mcp_tool import MCPClientSubstrate as MCPClientSubstrate
    from comity.agents.mcp_tool import MCPTransport as MCPTransport
    from comity.agents.substrate import SubstrateBackend as SubstrateBackend
    from comity.agents.substrate import SubstrateError as SubstrateError
    from comity.agents.substrate import SubstrateRateLimitError as SubstrateRateLimitError
    from comity.agents.substrate import SubstrateRequest as SubstrateRequest
    from comity.agents.substrate import SubstrateResponse as SubstrateResponse
    from comity.agents.substrate import SubstrateUnavailableError as SubstrateUnavailableError
    from comity.client.client import Client as Client
    from comity.client.client import Reply as Reply
    from comity.client.toolkit import McpServer as McpServer
    from comity.client.toolkit import VacantAsMCPServer as VacantAsMCPServer
    from comity.client.vcp_app import VcpApp as VcpApp
    from comity.directory.cards import HaloMatch as HaloMatch
    from comity.directory.client import DirectoryClient as DirectoryClient
    from comity.directory.client import directory_search as directory_search
    from comity.directory.outcomes import StoredReputation as StoredReputation
    from comity.envelopes.app import BehaviorHandler as BehaviorHandler
    from comity.envelopes.app import build_a2a_app as build_a2a_app
    from comity.envelopes.app import build_a2a_router as build_a2a_router
    from comity.envelopes.app import make_response_envelope as make_response_envelope
    from comity.envelopes.client.calls import DispatchResult as DispatchResult
    from comity.envelopes.client.calls import DispatchTransport as DispatchTransport
    from comity.envelopes.client.calls import ReputationOracle as ReputationOracle
    from comity.envelopes.client.calls import build_envelope as build_envelope
    from comity.envelopes.client.calls import call_capability as call_capability
    from comity.envelopes.client.calls import call_local as call_local
    from comity.envelopes.client.calls import make_httpx_transport as make_httpx_transport
    from comity.envelopes.protocol.card import DEFAULT_HALO_VERSION as DEFAULT_HALO_VERSION
    from comity.envelopes.protocol.card import MAX_SUPPORTED_HALO_VERSION as MAX_SUPPORTED_HALO_VERSION
    from comity.envelopes.protocol.card import MIN_SUPPORTED_HALO_VERSION as MIN_SUPPORTED_HALO_VERSION
    from comity.envelopes.protocol.card import CapabilityCard as CapabilityCard
    from comity.envelopes.protocol.card import RuntimeState as RuntimeState
    from comity.envelopes.protocol.card import SubstrateSpec as SubstrateSpec
    from comity.envelopes.protocol.card import VacantState as VacantState
    from comity.envelopes.protocol.card import Visibility as Visibility
    from comity.envelopes.protocol.card import can_be_called as can_be_called
    from comity.envelopes.protocol.card import deserialize as deserialize
    from comity.envelopes.protocol.card import serialize as serialize
    from comity.envelopes.protocol.chain import PairKey as PairKey
    from comity.envelopes.protocol.chain import ReplayState as ReplayState
    from comity.envelopes.protocol.chain import ReplayStore as ReplayStore
    from comity.envelopes.protocol.envelope import A2A_VACANT_METADATA_KEY as A2A_VACANT_METADATA_KEY
    from comity.envelopes.protocol.envelope import EMPTY_PREV_HASH as EMPTY_PREV_HASH
    from comity.envelopes.protocol.envelope import VacantEnvelope as VacantEnvelope
    from comity.envelopes.protocol.envelope import from_a2a_jsonrpc as from_a2a_jsonrpc
    from comity.envelopes.protocol.envelope import to_a2a_jsonrpc as to_a2a_jsonrpc
    from comity.envelopes.protocol.errors import ChainForkError as ChainForkError
    from comity.envelopes.protocol.errors import CoreError as CoreError
    from comity.envelopes.protocol.errors import CryptoError as CryptoError
    from comity.envelopes.protocol.errors import EnvelopeFormatError as EnvelopeFormatError
    from comity.envelopes.protocol.errors import EnvelopeSignatureError as EnvelopeSignatureError
    from comity.envelopes.protocol.errors import HashChainError as HashChainError
    from comity.envelopes.protocol.errors import InvalidEventError as InvalidEventError
    from comity.envelopes.protocol.errors import ProtocolError as ProtocolError
    from comity.envelopes.protocol.errors import ReplayDetectedError as ReplayDetectedError
    from comity.envelopes.protocol.errors import SignatureVerificationError as SignatureVerificationError
    from comity.envelopes.protocol.errors import TargetNotFoundError as TargetNotFoundError
    from comity.envelopes.protocol.errors import TargetUnavailableError as TargetUnavailableError
    from comity.envelopes.protocol.errors import TypeIntegrityError as TypeIntegrityError
    from comity.envelopes.protocol.errors import UnsupportedHaloVersionError as UnsupportedHaloVersionError
    from comity.envelopes.protocol.message import A2AMessage as A2AMessage
    from comity.envelopes.protocol.message import A2APart as A2APart
    from comity.envelopes.protocol.message import SelfEval as SelfEval
    from comity.envelopes.protocol.resident import BehaviorBundle as BehaviorBundle
    from comity.envelopes.protocol.resident import Logbook as Logbook
    from comity.envelopes.protocol.resident import LogEntry as LogEntry
    from comity.envelopes.protocol.resident import ResidentForm as ResidentForm
    from comity.envelopes.replay_stores import InMemoryReplayStore as InMemoryReplayStore
    from comity.envelopes.replay_stores import SqliteReplayStore as SqliteReplayStore
    from comity.envelopes.replay_stores import check_envelope as check_envelope
    from comity.identity.protocol.keys import SigningKey as SigningKey
    from comity.identity.protocol.keys import VacantId as VacantId
    from comity.node.node import Node as Node
    from comity.runtime.settings import Settings as Settings
    from comity.runtime.settings import VcpSettings as VcpSettings
    from comity.runtime.settings_file import load_settings as load_settings
    from comity.vcp.client import VcpClient as VcpClient
    from comity.vcp.plugins import VcpExtension as VcpExtension
    from comity.vcp.protocol.context import CallerContext as CallerContext
    from comity.vcp.protocol.extension_calls import ExtensionError as ExtensionError
    from comity.vcp.protocol.registry import HANDSHAKE_SCHEMA as HANDSHAKE_SCHEMA
    from comity.vcp.service import VcpServer as VcpServer
    from comity.wire.errors import ComityError as ComityError


_NAMES = {
    "comity.agents.behaviour": ("load_behaviour",),
    "comity.agents.mcp_tool": (
        "MCPClientSubstrate",
        "MCPTransport",
    ),
    "comity.agents.substrate": (
        "SubstrateBackend",
        "SubstrateError",
        "SubstrateRateLimitError",
        "SubstrateRequest",
        "SubstrateResponse",
        "SubstrateUnavailableError",
    ),
    "comity.client.client": (
        "Client",
        "Reply",
    ),
    "comity.client.toolkit": (
        "McpServer",
        "VacantAsMCPServer",
    ),
    "comity.client.vcp_app": ("VcpApp",),
    "comity.directory.cards": ("HaloMatch",),
    "comity.directory.client": (
        "DirectoryClient",
        "directory_search",
    ),
    "comity.directory.outcomes": ("StoredReputation",),
    "comity.envelopes.app": (
        "BehaviorHandler",
        "build_a2a_app",
        "build_a2a_router",
        "make_response_envelope",
    ),
    "comity.envelopes.client.calls": (
        "DispatchResult",
        "DispatchTransport",
        "ReputationOracle",
        "build_envelope",
        "call_capability",
        "call_local",
        "make_httpx_transport",
    ),
    "comity.envelopes.protocol.card": (
        "DEFAULT_HALO_VERSION",
        "MAX_SUPPORTED_HALO_VERSION",
        "MIN_SUPPORTED_HALO_VERSION",
        "CapabilityCard",
        "RuntimeState",
        "SubstrateSpec",
        "VacantState",
        "Visibility",
        "can_be_called",
        "deserialize",
        "serialize",
    ),
    "comity.envelopes.protocol.chain": (
        "PairKey",
        "ReplayState",
        "ReplayStore",
    ),
    "comity.envelopes.protocol.envelope": (
        "A2A_VACANT_METADATA_KEY",
        "EMPTY_PREV_HASH",
        "VacantEnvelope",
        "from_a2a_jsonrpc",
        "to_a2a_jsonrpc",
    ),
    "comity.envelopes.protocol.errors": (
        "ChainForkError",
        "CoreError",
        "CryptoError",
        "EnvelopeFormatError",
        "EnvelopeSignatureError",
        "HashChainError",
        "InvalidEventError",
        "ProtocolError",
        "ReplayDetectedError",
        "SignatureVerificationError",
        "TargetNotFoundError",
        "TargetUnavailableError",
        "TypeIntegrityError",
        "UnsupportedHaloVersionError",
    ),
    "comity.envelopes.protocol.message": (
        "A2AMessage",
        "A2APart",
        "SelfEval",
    ),
    "comity.envelopes.protocol.resident": (
        "BehaviorBundle",
        "LogEntry",
        "Logbook",
        "ResidentForm",
    ),
    "comity.envelopes.replay_stores": (
        "InMemoryReplayStore",
        "SqliteReplayStore",
        "check_envelope",
    ),
    "comity.identity.protocol.keys": (
        "SigningKey",
        "VacantId",
    ),
    "comity.node.node": ("Node",),
    "comity.runtime.settings": (
        "Settings",
        "VcpSettings",
    ),
    "comity.runtime.settings_file": ("load_settings",),
    "comity.vcp.client": ("VcpClient",),
    "comity.vcp.plugins": ("VcpExtension",),
    "comity.vcp.protocol.context": ("CallerContext",),
    "comity.vcp.protocol.extension_calls": ("ExtensionError",),
    "comity.vcp.protocol.registry": ("HANDSHAKE_SCHEMA",),
    "comity.vcp.service": ("VcpServer",),
    "comity.wire.errors": ("ComityError",),
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
