"""One act, one record: its audit entry, event, log line and count name the same caller and the same request,
whichever door it came through and whoever came.
"""

import contextlib
import io
import json
import re
import time
from collections import Counter

import httpx
import pytest
from msgspec import to_builtins
from websockets.asyncio.client import connect

import comity
from comity.agents.commands.card import set_state
from comity.directory.protocol.reviews import SignedReview
from comity.envelopes.protocol.card import RuntimeState
from comity.envelopes.protocol.envelope import to_a2a_jsonrpc
from comity.identity.key_files import load_identity
from comity.identity.protocol.tokens import issue_a
from comity.node.commands.event_output import ActLog, OpenWriter, log_line
from comity.requests.caller import MODEL, OWN_PROCESS, anonymous, own_user
from comity.requests.caller import Caller as Who
from comity.requests.handler import begin_request, request_check
from comity.runtime.settings import AgentSettings, McpSettings, VcpSettings
from comity.runtime.settings_file import load_settings
from comity.store.audit_log import tail
from comity.terminal.open_target import new_key, writing
from comity.testing import bearer, running_node
from comity.vcp.client import VcpClient
from tests.callers import OWNER
from tests.envelopes.peers import Caller
from tests.identity.protocol.authorization_server import ISSUER, RESOURCE, Signer
from tests.mcp.conversing import call, initialize
from tests.mcp.http_talk import Http
from tests.mcp.processes import comity_mcp
from tests.node.commands.neighbourhood import SEND, card_of
from tests.vcp.runtime import WIRE, hello
from tests.waiting import eventually

SECONDS = 20
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ACTION = {"content": "Read this."}
NOBODY = anonymous("127.0.0.1")
BROWSER = own_user("browser", "127.0.0.1", "cookie")


class Watched:
    """A node, and everything that it tells of itself."""

    def __init__(self, node):
        self.node = node
        self._paper = io.StringIO()
        self._log = ActLog(node.runtime.events, OpenWriter(self._paper), log_line)
        self.http = httpx.AsyncClient(base_url=node.url, timeout=SECONDS)
        self.owner = bearer(node)

    async def counts(self):
        shown = (await self.http.get("/metrics", headers=self.owner)).text
        found = re.findall(r'comity_calls_total\{outcome="(\w+)",room="(\w+)"\} ([\d.e+]+)', shown)
        found += re.findall(r'comity_acts_total\{kind="(\w+)",room="(\w+)"\} ([\d.e+]+)', shown)
        return Counter({(room, outcome): int(float(number)) for outcome, room, number in found})

    async def entries(self):
        return [entry async for entry in tail(self.node.store, "main", 10_000)]

    def log_lines(self):
        self._log.finish()
        return self._paper.getvalue().splitlines()

    @contextlib.asynccontextmanager
    async def expecting(self, kind, who, *counted):
        """In this block somebody does something: one act of this kind, by this caller, that adds to this metric.
        What is yielded takes the request id, where the caller is told.
        """
        before, counts = self.node.runtime.events.last, await self.counts()
        result = []
        yield result

        async def its_acts():
            return [act for act in self.node.runtime.events.since(before).events if act.kind == kind]

        acts = await eventually(its_acts)
        (act,) = acts
        label = f"{kind}, {who.label}"
        assert act.who == who.label.removeprefix("caller:"), label
        assert act.request, label
        assert result in ([], [act.request]), label

        named = request_check(act.request)

        async def its_entries():
            found = [entry for entry in await self.entries() if named in entry.checks_passed]
            return [entry for entry in found if entry.verification_result == kind]

        entries = await eventually(its_entries)
        (entry,) = entries
        assert who.label in entry.checks_passed, label

        pattern = rf".+ INFO comity\.acts: {kind} room={act.feature} who={re.escape(act.who)} .*request={act.request}\b.*"
        lines = [line for line in self.log_lines() if re.fullmatch(pattern, line)]
        assert len(lines) == 1, label

        added = await self.counts() - counts
        assert added[counted] == 1, (label, added)


@pytest.fixture
async def signer():
    return Signer("ES256")


@pytest.fixture
async def watched(tmp_path, signer):
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps(signer.jwks))
    settings = {
        "agent": AgentSettings(behaviour="echo"),
        "mcp": McpSettings(oauth_issuer=ISSUER, oauth_keys=str(keys), resource=RESOURCE),
        "vcp": VcpSettings(identity_mode="verified"),
    }
    async with running_node(tmp_path / "data", **settings) as node:
        seen = Watched(node)
        yield seen
        await seen.http.aclose()


def posted(told, answer):
    told.append(answer.headers["x-request-id"])
    return answer


async def test_the_node_s_own_user_by_token_and_by_cookie(watched):
    async with watched.expecting("PING_OK", OWNER, "ping", "ok") as result:
        posted(result, await watched.http.post("/v1/ping", headers=watched.owner))
    assert (await watched.http.get(watched.node.entry_link)).status_code == 303
    async with watched.expecting("ACTIONS_OK", BROWSER, "actions", "ok") as result:
        posted(result, await watched.http.post("/v1/actions/cognitive_accessibility_audit", json=ACTION))


async def test_a_client_of_the_own_user_over_stdio_and_the_socket(watched):
    async with comity_mcp(watched.node.settings.data) as client:
        await client.ask(initialize())
        async with watched.expecting("ACTIONS_OK", MODEL, "actions", "ok"):
            await client.ask(call(1, "cognitive_accessibility_audit", **ACTION))
        async with watched.expecting("MCP_VCP_STATUS_OK", MODEL, "mcp", "ok"):
            await client.ask(call(2, "vcp_status"))


async def test_a_visitor_with_an_access_token_is_named_as_that_visitor_and_never_as_the_owner(
    watched, signer
):
    said = {"sub": "ada", "aud": RESOURCE, "exp": time.time() + 600}
    ada = Who(kind="oauth", id=f"{ISSUER}:ada")
    url = f"{watched.node.url}/mcp"
    async with Http(url, authorization=f"Bearer {signer.token(**said)}") as http:
        before = watched.node.runtime.events.last
        session = await http.begin()
        (begun,) = watched.node.runtime.events.since(before).events
        assert (begun.kind, f"caller:{begun.who}") == ("MCP_SESSION_BEGUN", ada.label)
        async with watched.expecting("ACTIONS_OK", ada, "actions", "ok") as result:
            posted(result, await http.post(call(1, "cognitive_accessibility_audit", **ACTION), **session))
        async with watched.expecting("MCP_VCP_STATUS_OK", ada, "mcp", "ok") as result:
            posted(result, await http.post(call(2, "vcp_status"), **session))
    assert not [
        act for act in watched.node.runtime.events.since(before).events if act.who.startswith("local:")
    ]


async def test_the_two_steps_of_a_call_to_another_agent_are_acts_of_whoever_asked_for_it(
    watched, tmp_path, signer
):
    said = {"sub": "ada", "aud": RESOURCE, "exp": time.time() + 600, "scope": "mcp agents"}
    visitor = {"authorization": f"Bearer {signer.token(**said)}"}
    ada = Who(kind="oauth", id=f"{ISSUER}:ada")
    async with running_node(tmp_path / "there", agent=AgentSettings(behaviour="echo")) as there:
        async with comity.Client(data=tmp_path / "there", directory=watched.node.url) as owner:
            await owner.directory().publish(card_of(tmp_path / "there", there.url + SEND, "letters"))
        # a visitor may not call a loopback address, which is found out when the call is written down already
        for headers, who, end in ((watched.owner, OWNER, "CALL_ANSWERED"), (visitor, ada, "CALL_FAILED")):
            async with Http(f"{watched.node.url}/mcp", **headers) as http:
                session = await http.begin()
                async with (
                    watched.expecting("CALL_SENT", who, "calls", "CALL_SENT") as sent,
                    watched.expecting(end, who, "calls", end) as ended,
                ):
                    asked = call(1, "call_agent", agent=there.vacant_id.hex(), message="x")
                    posted(sent, await http.post(asked, **session))
                    ended.extend(sent)


async def test_a_call_of_a_program_is_one_request_of_its_user(watched, tmp_path):
    async with comity.Client(data=tmp_path / "own") as client:
        await client.call(watched.node.url, "x")
        await client.call(watched.node.url, "y")
        entries = [entry async for entry in tail(client._store, "client", 10)]
    assert [entry.verification_result for entry in entries] == 2 * ["CALL_SENT", "CALL_ANSWERED"]
    assert all(OWN_PROCESS.label in entry.checks_passed for entry in entries)
    first, same, second, again = (
        [check for check in entry.checks_passed if check.startswith("request:")] for entry in entries
    )
    assert first == same != second == again
    assert len(first) == len(second) == 1


async def test_a_command_is_a_request_of_the_node_s_own_user(tmp_path):
    settings = load_settings({"data": str(tmp_path)}).settings
    key, _made = new_key(settings, None)
    for state in (RuntimeState.ACTIVE, RuntimeState.SUNK):
        await set_state(settings, None, state, None)
    async with writing(settings, key) as (store, _record, chain):
        entries = [entry async for entry in tail(store, chain, 10)]
    assert [entry.verification_result for entry in entries] == ["STATE_SET", "STATE_SET"]
    assert all(OWN_PROCESS.label in entry.checks_passed for entry in entries)
    requests = [check for entry in entries for check in entry.checks_passed if check.startswith("request:")]
    assert len(set(requests)) == 2


async def test_what_a_vcp_server_answered_is_remembered_as_an_act(watched):
    runtime = watched.node.runtime
    begin_request("a" * 16)
    async with watched.expecting("VCP_ACK_REMEMBERED", OWN_PROCESS, "vcp", "VCP_ACK_REMEMBERED") as result:
        result.append("a" * 16)
        url = watched.node.url.replace("http", "ws", 1) + "/vcp"
        async with VcpClient.connect(url, store=runtime.store, record=runtime.record):
            pass


async def test_a_review_is_an_act_of_the_reviewer(watched, tmp_path):
    keys = []
    for name in ("ann", "bob"):
        async with comity.Client(data=tmp_path / name, directory=watched.node.url) as owner:
            await owner.directory().publish(card_of(tmp_path / name, f"https://{name}.example/", "letters"))
        keys.append(load_identity(tmp_path / name))
    ann, bob = keys
    who = Who(kind="vacant", id=ann.vacant_id.hex())
    async with watched.expecting("DIRECTORY_REVIEW_OK", who, "directory_review", "ok") as result:
        review = SignedReview(
            reviewer=ann.vacant_id.hex(),
            target=bob.vacant_id.hex(),
            signals={"factual": 1.0},
            ts_ms=int(time.time() * 1000),
        ).signed(ann)
        posted(result, await watched.http.post("/v1/reviews", json=to_builtins(review)))


async def test_a_vacant_by_its_signature_with_the_trace_it_named(watched):
    caller = Caller("ann", to_vid=watched.node.vacant_id)
    ann = Who(kind="vacant", id=caller.key.vacant_id.hex())
    async with watched.expecting("ENVELOPE_OK", ann, "envelope", "ok") as result:
        body = to_a2a_jsonrpc(caller.next())
        answer = await watched.http.post("/a2a/message/send", json=body, headers={"traceparent": TRACE})
        posted(result, answer)
    last = watched.node.runtime.events.since(watched.node.runtime.events.last - 1).events[0]
    assert last.trace == TRACE
    assert f"trace={TRACE}" in watched.log_lines()[-1]


async def test_a_vcp_session_with_an_identity_and_one_without(watched):
    node = watched.node
    token = issue_a(load_identity(node.settings.data), issuer=node.vacant_id.hex(), kind="user", subject="al")
    for identity in (token, None):
        async with connect(node.url.replace("http", "ws", 1) + "/vcp", proxy=None) as peer:
            before = node.runtime.events.last
            await peer.send(json.dumps(hello(**({"identity": identity} if identity else {}))))
            await peer.recv()
            acts = {act.kind: act for act in node.runtime.events.since(before).events}
            who = Who(kind="vcp", id=f"{node.vacant_id.hex()}:user:al") if identity else NOBODY
            assert acts["HANDSHAKE_ACK"].who == who.label.removeprefix("caller:")
            async with watched.expecting("CONTEXT_EXCHANGED", who, "vcp", "context_exchanged"):
                await peer.send(json.dumps({"categorical": WIRE}))
                await peer.recv()


async def test_a_handshake_is_counted_in_the_metrics(watched):
    url = watched.node.url.replace("http", "ws", 1) + "/vcp"
    async with (
        watched.expecting("HANDSHAKE_ACK", NOBODY, "vcp", "handshake_ack"),
        connect(url, proxy=None) as peer,
    ):
        await peer.send(json.dumps(hello()))
        await peer.recv()


async def test_a_stranger_who_is_refused_alone(watched):
    async with watched.expecting("REFUSED", NOBODY, "http", "unauthenticated") as result:
        posted(result, await watched.http.post("/v1/ping"))
        watched.node.runtime.record.flush()


async def test_600_refused_first_envelopes_of_unknown_keys_are_counted_and_not_written_one_by_one(watched):
    before, counts = await watched.entries(), await watched.counts()
    for number in range(600):
        caller = Caller(f"unknown {number}", to_vid=watched.node.vacant_id, prev_envelope_hash=b"x" * 32)
        answer = await watched.http.post("/a2a/message/send", json=to_a2a_jsonrpc(caller.next()))
        assert answer.status_code == 409, answer.text
    watched.node.runtime.record.flush()

    def counted(entries):
        checks = [check for entry in entries for check in entry.checks_passed]
        return sum(int(check.removeprefix("count:")) for check in checks if check.startswith("count:"))

    async def new_entries():
        new = (await watched.entries())[len(before) :]
        return new if counted(new) >= 600 else None

    entries = await eventually(new_entries)
    assert {entry.failed_step for entry in entries} == {"envelope:out_of_chain"}
    assert len(entries) <= 2  # a minute may end meanwhile
    assert counted(entries) == 600
    assert not [check for entry in entries for check in entry.checks_passed if check.startswith("request:")]
    assert (await watched.counts() - counts)["envelope", "out_of_chain"] == 600


@pytest.mark.parametrize(
    ("path", "room", "known"),
    [("/a2a/message/send", "envelope", False), ("/mcp", "mcp", True), ("/v1/ping", "ping", True)],
)
async def test_50_malformed_posts_leave_a_trace(watched, path, room, known):
    counts = await watched.counts()
    headers = {"content-type": "application/json", **(watched.owner if known else {})}
    for _ in range(50):
        assert (await watched.http.post(path, content=b'{"jsonrpc":', headers=headers)).status_code == 400
    assert (await watched.counts() - counts)[room, "malformed"] == 50
    before = watched.node.runtime.events.last
    watched.node.runtime.record.flush()
    result = [act for act in watched.node.runtime.events.since(before).events if act.kind == "REFUSED"]
    assert sum(act.count for act in result if act.failed == f"{room}:malformed") == 50
