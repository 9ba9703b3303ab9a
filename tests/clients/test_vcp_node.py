"""The client against a whole node, by both of its doors."""

import socket

import pytest

from comity.clients.vcp import VcpClient
from comity.clients.vcp_refusals import VcpRefusedError
from comity.clients.vcp_revocations import OwnRevocations
from comity.config import VcpSettings
from comity.core.identity.signed_token import issue_a, token_id
from comity.core.negotiation.capabilities import PERSONAL
from comity.core.revocation.crl import CRLEntry, RevocationReason
from comity.keys.identity import load_identity
from comity.store.memory import MemoryStore
from comity.system_clock import SystemClock
from comity.testing.nodes import running_node
from tests.core.negotiation.samples import WIRE

pytestmark = pytest.mark.usefixtures("patience")


@pytest.fixture
async def node():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = VcpSettings(identity_policy="required", identity_mode="verified", tcp_port=port)
    async with running_node(vcp=settings) as running:
        yield running


def urls(node):
    return node.url, f"tcp://127.0.0.1:{node.settings.vcp.tcp_port}"


def own_token(node):
    key = load_identity(node.settings.data)
    return key, issue_a(key, issuer=key.vacant_id.hex(), kind="user", subject="alice")


async def test_context_is_exchanged_by_either_door(node):
    _, token = own_token(node)
    for url in urls(node):
        async with VcpClient.connect(url, identity=token) as session:
            assert session.version == "3.1"
            assert all(session.core_features.values())
            assert session.warnings == ()
            answer = await session.send_context({"categorical": {"wire": WIRE}, "personal": {}})
            assert answer.message["accepted"] == ["categorical"]
            assert [ignored.field for ignored in answer.withheld] == ["personal"]


async def test_an_identity_is_demanded_and_a_revoked_one_refused(node):
    key, token = own_token(node)
    for url in urls(node):
        with pytest.raises(VcpRefusedError, match="IDENTITY_REQUIRED"):
            await VcpClient.connect(url, extensions=[PERSONAL]).__aenter__()
    entry = CRLEntry(
        bundle_id="",
        jti=token_id(token),
        revoked_at="2026-01-01T00:00:00Z",
        reason=RevocationReason.KEY_COMPROMISE,
    )
    OwnRevocations(node.settings.data, key.vacant_id).revoke(entry, key, 1_800_000_000)
    for url in urls(node):
        with pytest.raises(VcpRefusedError, match="IDENTITY_INVALID"):
            await VcpClient.connect(url, identity=token).__aenter__()


async def test_the_same_node_twice_alarms_nobody(node):
    store = MemoryStore(SystemClock())
    for _ in range(2):
        async with VcpClient.connect(node.url, store=store, audit_level=None) as session:
            assert session.alerts == ()
