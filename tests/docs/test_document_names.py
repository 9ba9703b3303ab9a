"""The page that maps the names of the document is complete, and true."""

import importlib
import re

import comity
from tests.docs.markdown import DOCS

PAGE = (DOCS / "reference" / "vacant-protocol.md").read_text("utf-8")
# ruling 13 and ruling 41, and the contract's sections 1 to 5
NAMES = [
    "VacantEnvelope",
    "A2AMessage",
    "A2APart",
    "EMPTY_PREV_HASH",
    "build_envelope",
    "to_a2a_jsonrpc",
    "from_a2a_jsonrpc",
    "A2A_VACANT_METADATA_KEY",
    "PairKey",
    "ReplayState",
    "ReplayStore",
    "InMemoryReplayStore",
    "SqliteReplayStore",
    "check_envelope",
    "VacantId",
    "VerifyKey",
    "CapabilityCard",
    "SubstrateSpec",
    "serialize",
    "deserialize",
    "ResidentForm",
    "Logbook",
    "LogEntry",
    "BehaviorBundle",
    "VacantState",
    "can_be_called",
    "build_a2a_app",
    "build_a2a_router",
    "BehaviorHandler",
    "make_response_envelope",
    "call_local",
    "call_capability",
    "DispatchResult",
    "DispatchTransport",
    "make_httpx_transport",
    "ReputationOracle",
    "VacantAsMCPServer",
    "MCPClientSubstrate",
    "MCPTransport",
    "SubstrateBackend",
    "SubstrateRequest",
    "SubstrateResponse",
    "HaloMatch",
    "MIN_SUPPORTED_HALO_VERSION",
    "MAX_SUPPORTED_HALO_VERSION",
    "DEFAULT_HALO_VERSION",
    "CoreError",
    "ProtocolError",
    "EnvelopeSignatureError",
    "EnvelopeFormatError",
    "UnsupportedHaloVersionError",
    "ReplayDetectedError",
    "ChainForkError",
    "TargetUnavailableError",
    "TargetNotFoundError",
]


def test_every_name_of_the_document_is_public():
    assert [name for name in NAMES if not hasattr(comity, name)] == []


def test_every_module_on_the_page_has_the_names_of_its_row():
    rows = re.findall(r"^\| (.*?) \| .*? \| (`comity\.[^|]*) \|$", PAGE, re.MULTILINE)
    assert len(rows) > 15
    for names, modules in rows:
        homes = [importlib.import_module(module) for module in re.findall(r"`(comity[\w.]*)`", modules)]
        for name in re.findall(r"`([A-Za-z0-9_]+)`", names):
            if name in {"SigningKey", "VerifyKey"}:
                continue
            found = hasattr(comity, name) and getattr(comity, name)
            assert found is not False, name
            assert any(getattr(home, name, found) is found for home in homes), name
