"""The client against a whole node, by both of its doors."""

import time

import httpx
import pytest

from comity.identity.key_files import load_identity
from comity.identity.protocol.revocation import CRLEntry, PublicKey, RevocationReason, signature_holds
from comity.identity.protocol.tokens import issue_a, issue_b, token_id
from comity.requests.record import Recorder
from comity.runtime.lazy import PARTS
from comity.runtime.part import Part
from comity.runtime.settings import VcpSettings
from comity.runtime.system_clock import SystemClock
from comity.store.memory import MemoryStore
from comity.testing.nodes import bearer, running_node
from comity.vcp.client import VcpClient
from comity.vcp.client_session import VcpRefusedError
from comity.vcp.issuers import OwnRevocations
from comity.vcp.part import Vcp
from comity.vcp.plugins import VcpExtension
from comity.vcp.protocol.messages import PERSONAL
from comity.wire.errors import KeyRefusedError
from tests.ports import unused_port
from tests.vcp.protocol.negotiation_samples import WIRE

pytestmark = pytest.mark.usefixtures("patience")


@pytest.fixture
async def node():
    port = unused_port()
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
    clock = SystemClock()
    store = MemoryStore(clock)
    record = Recorder(store, clock, audited=False)
    for _ in range(2):
        async with VcpClient.connect(node.url, store=store, record=record) as session:
            assert session.alerts == ()


async def test_a_node_publishes_the_lists_of_the_names_that_it_issues_under(node):
    key, _ = own_token(node)
    own = OwnRevocations(node.settings.data, key.vacant_id)
    async with httpx.AsyncClient(base_url=f"{node.url}/v1/revocations") as stranger:
        mine = await stranger.get(f"/{key.vacant_id.hex()}")
        assert (mine.status_code, mine.json()["entries"]) == (200, [])
        assert (await stranger.get("/acme")).status_code == 404
        own.open_list("acme", key, int(time.time()))
        acme = (await stranger.get("/acme")).json()
    assert (acme["issuer_id"], acme["entries"]) == ("acme", [])
    assert signature_holds(acme, PublicKey(key.vacant_id.public))


async def test_a_server_follows_the_list_of_another_node_also_after_restarts_without_it(tmp_path):
    data = tmp_path / "server"
    async with running_node() as issuer:
        key = load_identity(issuer.settings.data)
        own = OwnRevocations(issuer.settings.data, key.vacant_id)
        own.open_list("acme", key, int(time.time()))
        alice, bob = (issue_a(key, issuer="acme", kind="user", subject=name) for name in ("alice", "bob"))
        entry = CRLEntry(
            bundle_id="acme:alice",
            jti="",
            revoked_at="2026-01-01T00:00:00Z",
            reason=RevocationReason.KEY_COMPROMISE,
        )
        own.revoke(entry, key, int(time.time()), "acme")
        settings = VcpSettings(
            identity_mode="verified",
            issuers=(f"acme={key.vacant_id.hex()}",),
            crls=(f"acme={issuer.url}/v1/revocations/acme",),
        )
        async with running_node(data, vcp=settings) as server:
            async with VcpClient.connect(server.url, identity=bob) as session:
                assert session.version == "3.1"
            with pytest.raises(VcpRefusedError, match="revoked"):
                await VcpClient.connect(server.url, identity=alice).__aenter__()
    async with running_node(data, vcp=settings) as server:
        async with VcpClient.connect(server.url, identity=bob) as session:
            assert session.version == "3.1"
        with pytest.raises(VcpRefusedError, match="revoked"):
            await VcpClient.connect(server.url, identity=alice).__aenter__()
    [stored] = (data / "revocations" / "fetched").iterdir()
    stored.write_bytes(stored.read_bytes().replace(b"acme:alice", b"acme:carol"))
    async with running_node(data, vcp=settings) as server:
        with pytest.raises(VcpRefusedError, match="list of its issuer was not available"):
            await VcpClient.connect(server.url, identity=bob).__aenter__()
    assert not stored.exists()


async def test_tokens_under_a_shared_secret_are_verified(tmp_path):
    data = tmp_path / "data"
    (data / "issuers").mkdir(parents=True, mode=0o700)
    data.chmod(0o700)
    secret = data / "issuers" / "acme.secret"
    secret.touch(0o600)
    secret.write_bytes(b"a secret of at least sixteen bytes\n")
    now = int(time.time())
    good, old = (
        issue_b(b"a secret of at least sixteen bytes", issuer="acme", subject="bob", issued_at=at)
        for at in (now, now - 90_000)
    )
    settings = VcpSettings(identity_mode="verified", identity_policy="verified", secret_issuers=("acme",))
    async with running_node(data, vcp=settings) as server:
        async with VcpClient.connect(server.url, identity=good) as session:
            assert session.version == "3.1"
        with pytest.raises(VcpRefusedError, match="IDENTITY_INVALID"):
            await VcpClient.connect(server.url, identity=old).__aenter__()
    assert [check.mark for check in Vcp.checks(server.settings)] == ["ok"]
    secret.unlink()
    (check,) = Vcp.checks(server.settings)
    assert (check.mark, "does not exist" in check.finding) == ("fail", True)
    with pytest.raises(KeyRefusedError, match="does not exist"):
        async with running_node(data, vcp=settings):
            pass


async def test_the_settings_say_which_versions_are_offered():
    async with running_node(vcp=VcpSettings(versions=("2.0", "3.0"))) as server:
        async with VcpClient.connect(server.url) as session:
            assert session.version == "3.0"
        with pytest.raises(VcpRefusedError, match="VERSION_UNSUPPORTED") as refused:
            await VcpClient.connect(server.url, min_version="3.1").__aenter__()
        assert refused.value.error.supported_versions == ("2.0", "3.0")


async def test_those_who_watch_see_how_a_client_calls_itself():
    async with running_node() as server:
        async with VcpClient.connect(server.url, client_id="shop/1\n\x1b[31m" + "x" * 200) as session:
            assert session.version == "3.1"
            shown = "shop/1\\u000a\\u001b[31m" + "x" * 52
            (event,) = [
                each for each in server.runtime.events.since(0).events if each.kind == "HANDSHAKE_ACK"
            ]
            assert event.what == shown
        async with httpx.AsyncClient(base_url=server.url, headers=bearer(server)) as owner:
            panel = (await owner.get("/v1/status")).json()["panels"]["vcp"]
        assert ["last client", shown] in panel["rows"]


class Weather(Part):
    name = "weather"

    @classmethod
    def vcp_extensions(cls, runtime):
        async def answer(payload, _session):
            return {"node": (await runtime()).vacant_id.hex(), **payload}

        return [VcpExtension(id="VCP-X-Weather", answer=answer, conflicts=(PERSONAL,))]


async def test_a_part_brings_an_extension_of_its_own(monkeypatch):
    monkeypatch.setitem(PARTS, "weather", f"{__name__}:Weather")
    async with running_node() as server:
        async with VcpClient.connect(server.url, extensions=["VCP-X-Weather"], remember=False) as session:
            answer = await session.send_context({"extensions": {"VCP-X-Weather": {"place": "Ghent"}}})
            result = answer.message["extensions"]["VCP-X-Weather"]
            assert result == {"node": server.vacant_id.hex(), "place": "Ghent"}
        with pytest.raises(VcpRefusedError, match=f"VCP-X-Weather and {PERSONAL}"):
            await VcpClient.connect(
                server.url, extensions=["VCP-X-Weather", PERSONAL], remember=False
            ).__aenter__()
