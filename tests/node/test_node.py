"""The node: put together from the inside out, taken apart from the outside in, whatever happens in between."""

import asyncio
import contextlib
import gc
import os
import signal
import socket
import ssl
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

from comity.http.server import PortTakenError
from comity.node.node import Node
from comity.requests.handler import HandlerDefaults, Identified
from comity.runtime.node_runtime import NodeRuntime
from comity.runtime.settings import (
    AuditSettings,
    DispatchSettings,
    HttpSettings,
    RateSettings,
    Settings,
    StorageSettings,
    StoreSettings,
    TlsSettings,
)
from comity.runtime.system_clock import SystemClock
from comity.store.audit_log import tail, verify_chain
from comity.store.claim import running_node as holder_of
from comity.store.interface import CHAIN_BYTES, REPLIES, Append, ChainKey, KeepReply
from comity.store.sqlite import SqliteStore
from comity.testing import VirtualClock, bearer, running_node
from comity.wire.errors import (
    ConfigError,
    KeyRefusedError,
    StoreCorruptError,
    StoreFullError,
    StoreUnavailableError,
)
from tests.http.test_server import certificate
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("patience")


@pytest.fixture
def data(tmp_path):
    return tmp_path / "data"


def node_at(data, **named):
    keywords = {key: named.pop(key) for key in ("clock", "may_move_port", "passphrase") if key in named}
    return Node(Settings(data=data, **{"port": 0, "environment": "test", **named}), **keywords)


@contextlib.asynccontextmanager
async def asking(node):
    async with httpx.AsyncClient(base_url=node.url, headers=bearer(node)) as client:
        yield client


async def entries_at(data):
    """What the audit log holds, read as somebody else does: from the files."""
    reader = await SqliteStore.open_for_reading(data / "comity.db", SystemClock())
    try:
        return [entry async for entry in tail(reader, "main", 1000)]
    finally:
        await reader.close()


async def report_at(data, node):
    reader = await SqliteStore.open_for_reading(data / "comity.db", SystemClock())
    try:
        return await verify_chain(reader, "main", node.vacant_id.public, data / "audit")
    finally:
        await reader.close()


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


def files_open():
    gc.collect()
    descriptors = Path("/proc/self/fd")
    return len(list(descriptors.iterdir())) if descriptors.is_dir() else 0


def threads_of_ours():
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("comity")}


def others_running():
    return {
        task.get_coro().__qualname__ for task in asyncio.all_tasks() if task is not asyncio.current_task()
    }


async def test_the_first_start_makes_everything_and_shows_it_to_nobody(data):
    async with running_node(data) as node:
        assert mode_of(data) == 0o700
        for name in ("identity.json", "token", "vault.key", "comity.db", "node.json"):
            assert mode_of(data / name) == 0o600, name
        assert mode_of(data / "audit") == 0o700
        assert mode_of(data / "audit" / "main.head") == 0o600
        assert node.url.startswith("http://127.0.0.1:")
        assert node.entry_link.startswith(f"{node.url}/enter/")
        assert node.notices == []


async def test_the_second_start_finds_what_the_first_one_made(data):
    async with running_node(data) as node:
        first = (node.vacant_id, bearer(node), (data / "vault.key").read_bytes())
        sealed = node.runtime.vault.seal(b"a secret")
        link = node.entry_link.rpartition("/")[2]
    async with running_node(data) as node:
        assert (node.vacant_id, bearer(node), (data / "vault.key").read_bytes()) == first
        assert node.runtime.vault.open(sealed) == b"a secret"
        assert node.entry_link.rpartition("/")[2] != link


async def test_a_second_node_on_the_same_folder_is_told_where_the_first_one_is(data):
    async with running_node(data) as node:
        with pytest.raises(StoreUnavailableError) as refusal:
            await node_at(data).start()
        assert f"already running on {data} at {node.url} (process {os.getpid()})" in refusal.value.message
        assert holder_of(data).vacant_id == node.vacant_id.hex()
        async with asking(node) as client:
            assert (await client.get("/readyz")).json() == {"ready": True}
    assert holder_of(data) is None


async def test_a_taken_port_is_an_error_or_moves_and_says_so(data):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortTakenError, match=f"port {port}"):
            await node_at(data, port=port).start()
        node = node_at(data, port=port, may_move_port=True)
        await node.start()
        moved = int(node.url.rpartition(":")[2])
        assert node.notices == [f"port {port} was taken; listening on {moved} instead"]
        await node.stop()


def _unnamed(entry):
    """Its checks without who called and which request it was."""
    return tuple(check for check in entry.checks_passed if not check.startswith(("caller:", "request:")))


async def test_the_log_tells_of_the_start_the_calls_the_refusals_and_the_stop_and_verifies(data):
    async with running_node(data) as node, asking(node) as client:
        assert (await client.post("/v1/ping", json={})).status_code == 200
        assert (await client.post("/v1/ping", json={"nonce": 7})).status_code == 400
        for _ in range(3):
            assert (await client.get("/v1/status", headers={"authorization": "no"})).status_code == 401
        reader, writer = await asyncio.open_connection("127.0.0.1", int(node.url.rpartition(":")[2]))
        writer.write(b"garbage\r\n\r\n")
        assert b" 400 " in await reader.readline()
        writer.close()
    entries = await entries_at(data)
    result = [(entry.verification_result, entry.failed_step, _unnamed(entry)) for entry in entries]
    assert result == [
        ("NODE_STARTED", None, ()),
        ("PING_FAILED", "invalid", ("rate", "identity")),
        ("PING_OK", None, ("rate", "identity", "schema", "count:1")),
        ("REFUSED", "http:malformed", ("count:1",)),
        ("REFUSED", "http:unauthenticated", ("count:3",)),
        ("NODE_STOPPED", None, ()),
    ]
    report = await report_at(data, node)
    assert report.ok
    assert report.entries == 6


async def test_refusals_are_written_down_minute_by_minute_while_it_runs(data):
    clock = VirtualClock()
    async with running_node(data, clock=clock) as node, asking(node) as client:
        for _ in range(2):
            await client.get("/metrics", headers={"authorization": "no"})
        await clock.advance(60)
        await clock.advance(60)
        await node.store.commit()
        entries = await entries_at(data)
    assert [_unnamed(entry) for entry in entries if entry.verification_result == "REFUSED"] == [("count:2",)]


async def test_old_entries_are_forgotten_when_their_time_is_over(data):
    clock = VirtualClock()
    retention = AuditSettings(retention_days=1)
    async with running_node(data, clock=clock, audit=retention) as node, asking(node) as client:
        await client.post("/v1/ping", json={})
        node.runtime.record.flush()
        await node.store.commit()  # and with it the entry about the ping
        clock.jump(2 * 86_400)
        for _ in range(200):  # the chore runs in threads of the store
            await clock.advance(0)
            await node.store.commit()
            if (await entries_at(data))[-1].verification_result == "AUDIT_PRUNED":
                break
    entries = await entries_at(data)
    # NODE_STARTED is gone; the last entry of a log always stays
    assert [entry.verification_result for entry in entries] == ["PING_OK", "AUDIT_PRUNED", "NODE_STOPPED"]
    assert (await report_at(data, node)).ok


SEALED = 300_000 + 37  # a reply of that size, once the chore for rows of earlier releases has sealed it


async def test_replies_a_day_old_are_forgotten_where_much_is_stored_and_what_is_stored_is_told(data):
    def reply(number, at):
        chain = ChainKey("serve", str(number), "us")
        return KeepReply(chain=chain, seq=1, digest=b"", reply=bytes(300_000), at=at)

    clock = VirtualClock()
    storage = StorageSettings(replies_bytes=1_048_576)
    async with running_node(data, clock=clock, storage=storage) as node, asking(node) as client:
        # all of them before the clock jumps: the chore that then runs finds each
        moments = (clock.now(), clock.now(), clock.now() + 86_401)
        await node.store.commit(*(reply(number, at) for number, at in enumerate(moments)))
        clock.jump(86_401)

        async def is_shown():  # the chores run in threads of the store
            await clock.advance(1)
            held = f'comity_stored_bytes{{quota="replies"}} {SEALED + 3 * CHAIN_BYTES}.0'
            return held in (await client.get("/metrics")).text

        await eventually(is_shown, what="one sealed reply in the metrics")
        assert await node.store.held(REPLIES) == SEALED + 3 * CHAIN_BYTES


async def test_nothing_is_forgotten_unless_it_was_asked_for(data):
    clock = VirtualClock()
    async with running_node(data, clock=clock) as node, asking(node) as client:
        await client.post("/v1/ping", json={})
        await node.store.commit()
        clock.jump(1000 * 86_400)
        for _ in range(50):
            await clock.advance(3600)
            await node.store.commit()
    results = [entry.verification_result for entry in await entries_at(data)]
    assert results == ["NODE_STARTED", "PING_OK", "NODE_STOPPED"]


async def test_a_node_whose_store_does_not_answer_is_not_ready_and_says_why(data):
    node = node_at(data)
    await node.start()
    async with asking(node) as client:
        assert (await client.get("/readyz")).status_code == 200
        await node.store.close()
        answer = await client.get("/readyz", headers={"authorization": ""})
        assert answer.status_code == 503
        assert answer.json() == {"ready": False, "reason": "the store does not answer; run `comity doctor`"}
        status = (await client.get("/v1/status")).json()
        assert status["ready"] is False
        assert status["audit_entries"] == "unknown"
        page = await client.get("/")
        assert page.status_code == 200
        assert "the store does not answer" in page.text
        assert (await client.get("/healthz")).status_code == 200
    with pytest.raises(StoreUnavailableError):  # the last entry cannot be written, and that is told
        await node.stop()
    assert holder_of(data) is None


async def test_a_node_whose_last_commit_failed_is_not_ready_until_one_succeeds(data):
    clock = VirtualClock()
    async with running_node(data, clock=clock) as node, asking(node) as client:
        pages = node.store._writer.pragma("page_count")
        node.store._writer.pragma("max_page_count", pages)
        with pytest.raises(StoreFullError):
            await node.store.commit(Append(log="l", data=bytes(1_000_000)))
        answer = await client.get("/readyz", headers={"authorization": ""})
        assert answer.status_code == 503
        assert answer.json()["reason"].startswith("the disk is full; free some space")
        assert str(data) not in answer.text
        assert (await client.get("/v1/status")).json()["ready"] is False
        node.store._writer.pragma("max_page_count", 1_000_000)
        assert (await client.get("/readyz")).status_code == 503  # a look writes nothing
        await clock.advance(6)  # and an idle node tries by itself
        await node.store.commit()
        assert (await client.get("/readyz")).status_code == 200
    assert "STORE_WRITTEN_AGAIN" in [entry.verification_result for entry in await entries_at(data)]


async def test_a_node_that_is_stopping_says_so(data):
    async with running_node(data) as node, asking(node) as client:
        node.ask_to_stop()
        answer = await client.get("/readyz")
        assert (answer.status_code, answer.json()["reason"]) == (503, "stopping")


class SlowRoom(HandlerDefaults):
    """Takes the place of the ping; works until it is told."""

    name = "slow"
    deadline = 3600.0

    def __init__(self):
        self.began, self.go_on = asyncio.Event(), asyncio.Event()

    def identify(self, request):
        return Identified(request.caller)

    async def handle(self, call):
        self.began.set()
        await self.go_on.wait()
        return {"done": True}


async def test_stopping_lets_what_is_under_way_finish(data, monkeypatch):
    room = SlowRoom()
    monkeypatch.setattr("comity.node.http_server.PingHandler", lambda: room)
    async with running_node(data) as node, asking(node) as client:
        call = asyncio.create_task(client.post("/v1/ping", json={}))
        await room.began.wait()
        stops = [asyncio.create_task(node.stop()) for _ in range(2)]
        await asyncio.sleep(0)
        room.go_on.set()
        assert (await call).json() == {"done": True}
        await asyncio.gather(*stops)
        assert holder_of(data) is None
    results = [entry.verification_result for entry in await entries_at(data)]
    assert results == ["NODE_STARTED", "SLOW_OK", "NODE_STOPPED"]


async def test_stopping_ends_what_does_not_finish_in_time(data, monkeypatch, caplog):
    room = SlowRoom()
    monkeypatch.setattr("comity.node.http_server.PingHandler", lambda: room)
    async with running_node(data, http=HttpSettings(shutdown_seconds=0.05)) as node, asking(node) as client:
        call = asyncio.create_task(client.post("/v1/ping", json={}))
        await room.began.wait()
        began = time.monotonic()
        await node.stop()
        assert time.monotonic() - began < 3
        assert (await call).status_code == 500
    entries = await entries_at(data)
    assert [entry.verification_result for entry in entries] == ["NODE_STARTED", "SLOW_FAILED", "NODE_STOPPED"]
    assert entries[1].failed_step == "cancelled"


async def test_whoever_stops_it_second_waits_for_the_first(data):
    node = node_at(data)
    await node.start()
    first = asyncio.create_task(node.stop())
    await asyncio.sleep(0)
    await node.stop()
    assert first.done()
    await node.stop()
    assert [e.verification_result for e in await entries_at(data)] == ["NODE_STARTED", "NODE_STOPPED"]


async def test_a_node_that_was_never_started_can_be_stopped(data):
    await node_at(data).stop()
    assert not data.exists()


async def test_it_leaves_nothing_running_and_nothing_open(data):
    async with running_node(data) as node, asking(node) as client:
        await client.post("/v1/ping", json={})
    before = files_open()
    for _ in range(3):
        async with running_node(data) as node, asking(node) as client:
            await client.post("/v1/ping", json={})
    assert threads_of_ours() == set()
    assert others_running() == set()
    assert files_open() <= before


def corrupt_database(data, _tmp_path):
    (data / "comity.db").write_bytes(b"not a database" * 1000)
    return {}


def cut_log(data, _tmp_path):
    (data / "audit" / "main.head").write_bytes(b"forged")
    return {}


def bad_certificate(_data, tmp_path):
    (tmp_path / "cert.pem").write_text("no certificate")
    (tmp_path / "key.pem").write_text("no key")
    return {"tls": TlsSettings(cert=tmp_path / "cert.pem", key=tmp_path / "key.pem")}


def open_token(data, _tmp_path):
    (data / "token").chmod(0o644)
    return {}


def bad_vault_key(data, _tmp_path):
    (data / "vault.key").write_text("no key")
    return {}


TROUBLES = {
    corrupt_database: StoreCorruptError,
    cut_log: StoreCorruptError,
    bad_certificate: ConfigError,
    open_token: KeyRefusedError,
    bad_vault_key: KeyRefusedError,
}


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.__name__)
async def test_a_start_that_fails_half_way_leaves_nothing_behind_and_nothing_changed(trouble, data, tmp_path):
    async with running_node(data) as node:
        vacant_id = node.vacant_id
    settings = trouble(data, tmp_path)
    kept = {
        path: path.read_bytes()
        for path in data.rglob("*")
        if path.is_file() and "comity.db-" not in path.name
    }
    before = files_open()
    with pytest.raises(TROUBLES[trouble]):
        await node_at(data, **settings).start()
    assert holder_of(data) is None
    assert threads_of_ours() == set()
    assert others_running() == set()
    assert files_open() <= before
    if trouble is not bad_certificate:  # there the log tells of a start and a stop
        assert {path: path.read_bytes() for path in kept} == kept
    assert (data / "identity.json").is_file()
    assert vacant_id.hex() in (data / "identity.json").read_text()


async def test_after_a_start_that_failed_the_next_one_works(data, tmp_path):
    settings = bad_certificate(data, tmp_path)
    with pytest.raises(ConfigError):
        await node_at(data, **settings).start()
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(PortTakenError):
        await node_at(data, port=taken.getsockname()[1]).start()
    async with running_node(data) as node, asking(node) as client:
        assert (await client.post("/v1/ping", json={})).status_code == 200
    assert (await report_at(data, node)).ok


async def test_a_start_that_fails_is_told_as_it_failed_also_when_stopping_fails_too(
    data, monkeypatch, caplog
):
    node = node_at(data)

    def fail(self):
        self.store._closed = True
        raise ConfigError("the first failure")

    monkeypatch.setattr(Node, "_serve", fail)

    async def refuse(*_args):
        raise StoreUnavailableError("the second failure")

    real = NodeRuntime.note

    async def note(self, event):
        await (refuse() if event == "NODE_STOPPED" else real(self, event))

    monkeypatch.setattr(NodeRuntime, "note", note)
    with pytest.raises(ConfigError, match="the first failure"):
        await node.start()
    assert "the second failure" in caplog.text
    assert holder_of(data) is None


async def test_it_speaks_tls_to_those_who_trust_its_certificate(data, tmp_path):
    cert, key = certificate(tmp_path)
    trusting = ssl.create_default_context(cafile=str(cert))
    async with running_node(data, tls=TlsSettings(cert=cert, key=key)) as node:
        assert node.url.startswith("https://127.0.0.1:")
        async with httpx.AsyncClient(base_url=node.url, verify=trusting) as client:
            assert (await client.post("/v1/ping", json={}, headers=bearer(node))).status_code == 200
            entered = await client.get(node.entry_link)
            assert "; Secure" in entered.headers["set-cookie"]
            same = {"origin": node.url}
            assert (await client.get("/healthz", headers=same)).status_code == 200
            plain = {"origin": node.url.replace("https", "http")}
            assert (await client.get("/healthz", headers=plain)).status_code == 403


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "node.example"])
async def test_other_machines_are_not_listened_to_without_tls_and_consent(data, host):
    with pytest.raises(ConfigError, match=r"tls\.cert, tls\.key and http\.public"):
        node_at(data, host=host)


async def test_strangers_are_held_to_their_budget():
    clock = VirtualClock()
    rate = RateSettings(requests=8, per_seconds=80.0, limit_loopback=True)  # a refusal costs two
    async with running_node(clock=clock, rate=rate) as node, httpx.AsyncClient(base_url=node.url) as client:
        answers = [await client.get(path) for path in ("/healthz", "/readyz", "/v1/status", "/", "/nowhere")]
        assert [answer.status_code for answer in answers] == [200, 200, 401, 401, 401]
        late = await client.get("/healthz")
        assert (late.status_code, late.headers["retry-after"]) == (429, "10")
        await clock.advance(10)
        assert (await client.get("/healthz")).status_code == 200
        assert all([(await client.get("/metrics", headers=bearer(node))).is_success for _ in range(9)])
        result = (await client.get("/metrics", headers=bearer(node))).text
        assert 'comity_budget_refused_total{kind="address"} 1.0' in result
        assert 'comity_stored_limit_bytes{quota="replies"} 1.073741824e+09' in result


async def test_a_proxy_that_is_trusted_says_whose_budget_it_is():
    rate, http = RateSettings(requests=1), HttpSettings(trusted_proxies=("127.0.0.1",))
    async with (
        running_node(clock=VirtualClock(), rate=rate, http=http) as node,
        httpx.AsyncClient(base_url=node.url) as client,
    ):
        for name in ("x-forwarded-for", "forwarded"):
            for number in (1, 2):
                address = f"192.0.2.{number}{len(name)}"
                said = {name: address if name[0] == "x" else f"for={address}"}
                answers = [await client.get("/healthz", headers=said) for _ in range(2)]
                assert [answer.status_code for answer in answers] == [200, 429]


async def test_a_passphrase_opens_the_identity_that_was_made_with_it(data):
    node = node_at(data, passphrase="correct horse", store=StoreSettings(engine="memory"))
    await node.start()
    await node.stop()
    with pytest.raises(KeyRefusedError):
        await node_at(data, passphrase="wrong").start()
    assert holder_of(data) is None


async def test_signals_stop_it_and_are_given_back_afterwards(data):
    before = signal.getsignal(signal.SIGTERM)
    async with running_node(data) as node:
        waiting = asyncio.create_task(node.wait_stopped())
        await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGTERM)
        await waiting
        os.kill(os.getpid(), signal.SIGTERM)  # impatience does not cut the stopping short
        await asyncio.sleep(0)
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0 s"),
        (59.9, "59 s"),
        (60, "1 min 0 s"),
        (3599, "59 min 59 s"),
        (3600, "1 h 0 min"),
        (90_000, "1 d 1 h"),
    ],
)
async def test_the_status_tells_in_seconds_how_long_it_has_been_up_and_the_page_in_words(seconds, shown):
    clock = VirtualClock()
    async with running_node(clock=clock) as node, asking(node) as client:
        clock.jump(seconds)
        status = (await client.get("/v1/status")).json()
        page = (await client.get("/")).text
    assert status["uptime"] == seconds
    assert f'<strong id="uptime">{shown}</strong>' in page
    assert status["calls"] == 0
    assert status["audit_entries"] == 1


PROGRAM = """
import asyncio, sys
from pathlib import Path
from comity.runtime.settings import Settings
from comity.node.node import Node

async def main():
    node = Node(Settings(data=Path(sys.argv[1]), port=0))
    await node.start()
    print(node.url, flush=True)
    await node.wait_stopped()
    await node.stop()

asyncio.run(main())
"""


@contextlib.contextmanager
def process_at(data):
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(data)], stdout=subprocess.PIPE, text=True)
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_node_that_is_killed_while_it_serves_comes_back_with_all_it_had_acknowledged(data):
    with process_at(data) as (process, url), httpx.Client(base_url=url) as client:
        token = (data / "token").read_text().strip()
        client.headers["authorization"] = f"Bearer {token}"
        for _ in range(20):
            assert client.post("/v1/ping", json={}).status_code == 200
        assert holder_of(data).pid == process.pid
        process.send_signal(signal.SIGKILL)
        assert process.wait(10) == -signal.SIGKILL
    assert holder_of(data) is None

    async def again():
        async with running_node(data) as node, asking(node) as client:
            assert bearer(node) == {"Authorization": f"Bearer {token}"}
            assert (await client.post("/v1/ping", json={})).status_code == 200
        assert (await report_at(data, node)).ok
        results = [entry.verification_result for entry in await entries_at(data)]
        assert results[0] == "NODE_STARTED"
        assert results[-3:] == ["NODE_STARTED", "PING_OK", "NODE_STOPPED"]

    asyncio.run(again())


def test_a_process_that_is_asked_to_stop_drains_and_ends_well(data):
    with process_at(data) as (process, url):
        assert httpx.get(f"{url}/readyz").json() == {"ready": True}
        process.terminate()
        assert process.wait(10) == 0
    results = [entry.verification_result for entry in asyncio.run(entries_at(data))]
    assert results == ["NODE_STARTED", "NODE_STOPPED"]


# Hosts that may be called although their addresses are private.


@pytest.mark.parametrize("host", ["[::1]", "::1", "127.0.0.1", "10.1.0.0/16", "node.example"])
async def test_a_node_starts_with_a_host_as_it_is_written_in_a_url_or_without_brackets(tmp_path, host):
    node = Node(Settings(data=tmp_path, port=0, dispatch=DispatchSettings(allowed_hosts=(host,))))
    try:
        await node.start()
        assert node.url
    finally:
        await node.stop()
