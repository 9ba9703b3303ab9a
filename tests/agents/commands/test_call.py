"""`comity call` as somebody types it, against real nodes and against servers that do not play by the rules."""

import contextlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from comity.directory.client import DirectoryClient
from comity.http.client import GuardedHttp
from comity.identity.key_files import create_identity, load_identity
from comity.runtime.settings import AgentSettings
from comity.runtime.system_clock import SystemClock
from tests.http.local_server import reply
from tests.node.commands.neighbourhood import SEND, UnreliablePostman, card_of, refusing, save
from tests.ports import unused_port

DEADLINE = 20


@pytest.fixture
def there(tmp_path):
    """The folder of whoever is called."""
    return tmp_path / "there"


@pytest.fixture
def node(neighbourhood, there):
    return neighbourhood.node(there)


def said(outcome):
    assert outcome.code == 0, outcome.err
    return outcome.out


def refused(outcome, code=1):
    assert (outcome.code, outcome.out) == (code, "")
    (line,) = [line for line in outcome.err.splitlines() if not line.startswith("note: ")]
    assert line.startswith("error: ")
    return line


def test_whoever_has_no_identity_gets_one_with_the_first_call_and_hears_the_reply(comity, node, data):
    outcome = comity("call", node.url, "hello")
    short = node.vacant_id.short()
    assert said(outcome) == f"echo from {short}: hello\n"
    note, who = outcome.err.splitlines()
    assert note == f"note: {data} had no identity; created {load_identity(data).vacant_id}"
    assert who == f"answered by vacant:{short}, message 1 between you, signature verified"
    second = comity("call", node.url, "again")
    assert "note:" not in second.err
    assert "message 2 between you" in second.err


def test_eight_first_calls_at_once_have_one_identity_and_all_get_through(program, node, data):
    with ThreadPoolExecutor(8) as shells:
        outcomes = list(shells.map(lambda number: program("call", node.url, f"hello {number}"), range(8)))
    assert [outcome.err for outcome in outcomes if outcome.code] == []
    shown = [line for outcome in outcomes for line in outcome.err.splitlines()]
    assert sorted(line for line in shown if "answered by" not in line) == [
        f"note: {data} had no identity; created {load_identity(data).vacant_id}"
    ]
    assert len({line for line in shown if "answered by" in line}) == 8


def test_with_json_there_is_one_object_with_everything_that_was_proven(comity, node, identity):
    shown = json.loads(said(comity("call", node.url, "hello", "--json", "--idempotency-key", "k 1")))
    assert shown == {
        "target": node.vacant_id.hex(),
        "contact": None,
        "endpoint": node.url + SEND,
        "request_seq": 1,
        "response_role": "ROLE_AGENT",
        "response_text": f"echo from {node.vacant_id.short()}: hello",
        "response_seq": 1,
        "caller": identity.vacant_id.hex(),
        "idempotency_key": "k 1",
        "verified": True,
        "bound": True,
    }


def test_somebody_is_named_by_node_endpoint_card_id_or_what_he_offers(
    comity, node, there, tmp_path, identity
):
    assert comity("card", "publish", "--data", there).code == 0
    (tmp_path / "shown.json").write_text(comity("card", "show", node.url, "--json").out)
    card = save(card_of(there, node.url + SEND), tmp_path / "card.json")
    ways = [
        [node.url],
        [node.url + "/"],
        [node.url + SEND],
        [node.url + "/card"],
        [node.url.removeprefix("http://")],
        [f"localhost:{node.url.rpartition(':')[2]}/"],
        [card],
        [tmp_path / "shown.json"],
        [node.vacant_id.hex(), "--directory", node.url],
        [node.vacant_id.did_key(), "--directory", node.url],
        ["--capability", "echo", "--directory", node.url],
    ]
    for number, way in enumerate(ways, start=1):
        shown = json.loads(said(comity("call", *way, f"call {number}", "--json")))
        assert (shown["request_seq"], shown["response_seq"]) == (number, number)
        assert shown["response_text"].endswith(f": call {number}")


def test_without_a_flag_the_directory_is_that_of_the_own_node(comity, neighbourhood, node, there, data):
    own = neighbourhood.node(data)
    assert comity("card", "publish", "--data", there, "--directory", own.url).code == 0
    shown = json.loads(said(comity("call", node.vacant_id.hex(), "hello", "--json")))
    assert shown["target"] == node.vacant_id.hex()


def test_who_offers_the_same_does_not_find_himself(comity, neighbourhood, node, there, data):
    own = neighbourhood.node(data)
    comity("card", "publish")
    assert "no public vacant offers" in refused(comity("call", "--capability", "echo", "hello"))
    comity("card", "publish", "--data", there, "--directory", own.url)
    shown = json.loads(said(comity("call", "--capability", "echo", "hello", "--json")))
    assert shown["target"] == node.vacant_id.hex()


def test_two_nodes_call_each_other_while_both_run(comity, neighbourhood, tmp_path):
    folders = [tmp_path / "left", tmp_path / "right"]
    nodes = [neighbourhood.node(folder) for folder in folders]
    for number in (1, 2, 3):
        for caller, called in ((0, 1), (1, 0)):
            shown = json.loads(
                said(comity("call", nodes[called].url, "x", "--json", "--data", folders[caller]))
            )
            assert (shown["request_seq"], shown["response_seq"]) == (number, number)
            assert shown["caller"] == nodes[caller].vacant_id.hex()
    for folder, other in zip(folders, reversed(nodes), strict=True):
        (peer,) = json.loads(comity("chain", "show", "--json", "--data", folder).out)["peers"]
        assert peer["vacant_id"] == other.vacant_id.hex()
        assert [peer[book]["requests"]["seq"] for book in ("serve", "call")] == [3, 3]
        assert comity("audit", "verify", "--data", folder).code == 0


def test_a_text_may_come_from_standard_input_as_it_is(comity, node, identity, monkeypatch):
    def stdin(data):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))

    stdin("zwei\nZeilen, größer\n".encode())
    text = json.loads(said(comity("call", node.url, "-", "--json")))["response_text"]
    assert text.endswith(": zwei\nZeilen, größer\n")
    stdin(b"\xff\xfe")
    assert "TEXT must be UTF-8" in refused(comity("call", node.url, "-"), 2)
    stdin(b"x" * 1024 * 1024)
    assert "TEXT is limited to 1,044,480 bytes" in refused(comity("call", node.url, "-"), 2)
    stdin(b"")
    outcome = comity("call", node.url, "-", "--passphrase-file", "-")
    assert "cannot both come from standard input" in refused(outcome, 2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "missing argument 'TARGET'"),
        (["http://127.0.0.1:8420"], "TEXT is missing"),
        (["a", "b", "c"], "unexpected extra argument"),
        (["--capability", "x", "a", "b"], "leave TARGET out"),
        (["nobody.json", "hi"], "'nobody.json' is not a contact, a URL, an id or a file"),
        (["85e33de4ea20", "hi"], "is the short form of an id"),
        (["did:key:z6Mk", "hi"], "did:key:z6Mk and 44 more"),
        (["x", "hi", "--timeout", "soon"], "--timeout must be a number from 0.001 to 3600, not 'soon'"),
        (["x", "hi", "--directory", "ftp://x"], "--directory must be an address"),
        (["x", "hi", "--idempotency-key", ""], "--idempotency-key must be 1 to 256"),
        (["x", "hi", "--idempotency-key", "a\nb"], "--idempotency-key must be 1 to 256"),
        (["00" * 32, "hi"], "no directory is known: give one with --directory URL"),
        (["--capability", "x", "hi"], "no directory is known"),
        ([".", "hi"], ". is not a file"),
    ],
)
def test_a_wrong_call_is_one_sentence_and_makes_nothing(comity, data, arguments, words):
    assert words in refused(comity("call", *arguments), 2)
    assert not data.exists()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://10.1.2.3:8420", "10.1.2.3 is at a private address"),
        ("http://10.1.2.3:8420", "set COMITY_DISPATCH_ALLOWED_HOSTS=10.1.2.3"),
        ("http://[fd00::1]:8420", "add [fd00::1] to dispatch.allowed_hosts"),
        ("http://169.254.169.254/", "a link-local address"),
        ("http://nobody.invalid", "the name nobody.invalid cannot be resolved; check its spelling"),
        ("http://user@127.0.0.1:8420", "a user or a password"),
        ("http://127.0.0.1:22", "port 22 is not allowed"),
    ],
)
def test_an_address_that_is_not_called_says_why_and_what_to_do(comity, data, url, words):
    assert words in refused(comity("call", url, "hi"))
    assert not data.exists()


def test_nobody_there_is_said_at_once(comity, data):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert f"127.0.0.1:{port} could not be reached" in refused(
        comity("call", f"http://127.0.0.1:{port}", "hi")
    )


def test_a_node_without_an_agent_has_nobody_to_call(comity, neighbourhood, there):
    node = neighbourhood.node(there, AgentSettings())
    assert f"{node.url} shows no card (status 401)" in refused(comity("call", node.url, "hi"))


def test_nobody_calls_himself(comity, neighbourhood, data):
    node = neighbourhood.node(data)
    assert "call as somebody else, from another folder: --data DIR" in refused(comity("call", node.url, "hi"))


def test_a_memory_store_has_no_memory_of_calls(comity, monkeypatch):
    monkeypatch.setenv("COMITY_STORE_ENGINE", "memory")
    assert "use sqlite" in refused(comity("call", "http://127.0.0.1:8420", "hi"), 2)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("HIBERNATING", "vacant is HIBERNATING; not accepting calls"),
        ("SUNK", "vacant is SUNK; calls permanently rejected"),
    ],
)
def test_an_agent_that_takes_no_calls_says_so(comity, node, there, identity, state, words):
    comity("state", "set", state, "--data", there)
    assert f"{node.vacant_id} takes no calls: {words}" in refused(comity("call", node.url, "hi"))
    comity("state", "set", "ACTIVE", "--data", there)
    assert json.loads(said(comity("call", node.url, "hi", "--json")))["request_seq"] == 1


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "refused the call with status 400: because"),
        (401, "does not accept the signature of this call (because)"),
        (403, "refused the call with status 403: because"),
        (404, "no agent takes calls at http://127.0.0.1:"),
        (409, "expects another number or hash in the chain with this node (because); `comity chain show "),
        (410, "takes no calls: because"),
        (421, "(because); the card with this address is out of date or false"),
        (423, "takes no calls: because"),
        (500, "failed on this call with status 500: because"),
        (504, "failed on this call with status 504: because"),
    ],
)
def test_each_refusal_is_a_sentence(comity, neighbourhood, there, tmp_path, identity, status, words):
    server = neighbourhood.server(refusing(status, "because"))
    create_identity(there)
    card = save(card_of(there, server.url(SEND)), tmp_path / "card.json")
    assert words in refused(comity("call", card, "hi"))


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (429, "answers that too many calls came (status 429: because); nothing was carried out"),
        (
            502,
            "gave no answer to 1 attempt; at last status 502 (because); the call may have been carried out",
        ),
        (503, "answers that it is busy (status 503: because); nothing was carried out"),
    ],
)
def test_a_target_that_asks_for_more_time_than_there_is_is_quoted_at_once(
    comity, neighbourhood, there, tmp_path, identity, status, words
):
    later = reply(b'{"detail":"because"}', f"{status} No", "retry-after: 25\r\n")
    server = neighbourhood.server(lambda _request: later)
    create_identity(there)
    card = save(card_of(there, server.url(SEND)), tmp_path / "card.json")
    assert words in refused(comity("call", card, "hi", "--timeout", "20"))
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [None, 410, 423, 429, 503])
def test_the_next_match_is_called_when_the_first_does_not_take_the_call(
    comity, neighbourhood, node, there, tmp_path, status
):
    first = tmp_path / "first"
    create_identity(first)
    server = neighbourhood.server(refusing(status or 500, "because"))
    where = server.url(SEND) if status else f"http://127.0.0.1:{unused_port()}{SEND}"
    publish(neighbourhood, first, where, node)
    comity("card", "publish", "--data", there)
    outcome = comity("call", "--capability", "echo", "hello", "--directory", node.url)
    assert said(outcome).endswith(": hello\n")
    notes = [line for line in outcome.err.splitlines() if "trying" in line]
    assert len(notes) == 1
    assert f"trying {node.vacant_id}" in notes[0]
    assert len(server.requests) == (1 if status else 0)


@pytest.mark.parametrize("status", [500, 502, 504, None])
def test_no_other_match_is_called_once_the_first_may_have_carried_it_out(
    comity, neighbourhood, node, there, tmp_path, status
):
    async def silent(reader, writer):
        await reader.read()

    first = tmp_path / "first"
    create_identity(first)
    server = neighbourhood.server(refusing(status, "because") if status else silent)
    publish(neighbourhood, first, server.url(SEND), node)
    comity("card", "publish", "--data", there)
    wait = ["--timeout", "3"]
    words = refused(comity("call", "--capability", "echo", "hello", "--directory", node.url, *wait))
    assert "trying" not in words
    assert "may have been carried out" in words or "failed on this call" in words


def publish(neighbourhood, folder, endpoint, node):
    """A card that the directory shows first, for it says nothing but the word that is asked for."""

    async def put():
        http = GuardedHttp(allow_loopback=True)
        directory = DirectoryClient(http, node.url, clock=SystemClock(), key=load_identity(folder))
        await directory.publish(card_of(folder, endpoint, "echo"))
        await http.aclose()

    neighbourhood.run(put())


def test_a_card_that_leads_to_somebody_else_is_noticed(comity, node, tmp_path, identity):
    create_identity(tmp_path / "third")
    card = save(card_of(tmp_path / "third", node.url + SEND), tmp_path / "card.json")
    assert f"another agent answers at {node.url}{SEND}" in refused(comity("call", card, "hi"))


def test_a_reply_that_somebody_else_signed_is_not_printed(
    comity, neighbourhood, node, there, tmp_path, identity
):
    """Whoever sits at the address of another cannot speak for him: here he hands the call back as its reply."""
    postman = UnreliablePostman(node)
    server = neighbourhood.server(postman.carry)
    said(comity("call", save(card_of(there, server.url(SEND)), tmp_path / "card.json"), "first"))
    body = json.loads(postman.carried[0])
    swapped = {"jsonrpc": "2.0", "id": body["id"], "result": {"message": body["params"]["message"]}}
    injecting = neighbourhood.server(lambda _request: reply(json.dumps(swapped).encode()))
    card = save(card_of(there, injecting.url(SEND)), tmp_path / "card.json")
    assert "signature did not verify for target" in refused(comity("call", card, "second"))


def test_an_unsigned_card_is_not_called(comity, node, there, tmp_path, identity):
    changed = replace(card_of(there, node.url + SEND), capability_text="something else")
    assert "does not verify" in refused(comity("call", save(changed, tmp_path / "card.json"), "hi"))


def test_a_lost_reply_is_asked_for_again_and_was_given_once(comity, neighbourhood, node, there, tmp_path):
    postman = UnreliablePostman(node, "lose", "lose")
    server = neighbourhood.server(postman.carry)
    card = save(card_of(there, server.url(SEND)), tmp_path / "card.json")
    shown = json.loads(said(comity("call", card, "once", "--json")))
    assert (shown["request_seq"], shown["response_seq"]) == (1, 1)
    assert len(postman.carried) == 3
    assert len(set(postman.carried)) == 1
    (peer,) = json.loads(comity("chain", "show", "--json", "--data", there).out)["peers"]
    assert (peer["serve"]["requests"]["seq"], peer["serve"]["replies"]["seq"]) == (1, 1)


def test_a_call_without_an_answer_is_repeated_under_its_key(comity, neighbourhood, node, there, tmp_path):
    postman = UnreliablePostman(node, "keep")
    server = neighbourhood.server(postman.carry)
    card = save(card_of(there, server.url(SEND)), tmp_path / "card.json")
    words = refused(comity("call", card, "order 17", "--timeout", "0.5"))
    assert "did not answer within 0.5 seconds; the call may have been carried out" in words
    key = words.partition("--idempotency-key ")[2].split()[0]
    assert (
        f"number 1, unanswered; repeat it with --idempotency-key {key}"
        in comity("chain", "show", node.vacant_id.hex()).out
    )
    shown = json.loads(said(comity("call", card, "order 17", "--idempotency-key", key, "--json")))
    again = json.loads(said(comity("call", card, "order 17", "--idempotency-key", key, "--json")))
    assert shown == again
    assert (shown["request_seq"], shown["response_seq"]) == (1, 1)
    assert len(postman.carried) == 2
    assert postman.carried[0] == postman.carried[1]


def test_a_target_that_never_comes_to_an_answer_costs_the_time_given(comity, neighbourhood, data):
    async def silent(reader, writer):
        await reader.read()

    server = neighbourhood.server(silent)
    words = refused(comity("call", server.url(), "hi", "--timeout", "0.2"))
    assert "within 0.2 seconds" in words
    assert "nothing was sent" in words or "did not answer" in words
    assert not data.exists()


@pytest.fixture
def start(environ, there):
    """Start the called node as a program; whatever a test leaves running is killed."""
    started = []

    def start(*arguments):
        node = subprocess.Popen(
            [sys.executable, "-m", "comity", "up", "--json", "--data", there, *map(str, arguments)],
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(node)
        line = node.stdout.readline()
        assert line, node.stderr.read()
        return node, json.loads(line)

    yield start
    for node in started:
        with contextlib.suppress(ProcessLookupError):
            os.kill(node.pid, signal.SIGKILL)
        node.communicate()


def test_the_chain_goes_on_after_the_server_was_killed_and_started_again(comity, start):
    port, replies = 0, []
    for number in range(1, 4):
        node, ready = start("--agent", "echo", "--port", port)
        port = ready["url"].rpartition(":")[2]
        shown = json.loads(said(comity("call", ready["url"], f"call {number}", "--json")))
        assert (shown["request_seq"], shown["response_seq"]) == (number, number)
        replies.append(shown["response_text"].rpartition(": ")[2])
        node.kill()
        node.communicate(timeout=DEADLINE)
    assert replies == ["call 1", "call 2", "call 3"]


def test_a_caller_that_was_killed_leaves_the_next_one_no_wait(
    comity, environ, neighbourhood, node, there, tmp_path
):
    """The lease that it left behind has the name of its chain, and so has whoever comes after it."""
    postman = UnreliablePostman(node, "keep")
    server = neighbourhood.server(postman.carry)
    card = save(card_of(there, server.url(SEND)), tmp_path / "card.json")
    caller = subprocess.Popen([sys.executable, "-m", "comity", "call", card, "one"], env=environ)
    deadline = 200
    while not postman.carried and deadline:
        deadline -= 1
        with contextlib.suppress(subprocess.TimeoutExpired):
            caller.wait(0.05)
    caller.kill()
    caller.wait()
    assert postman.carried
    shown = json.loads(said(comity("call", card, "two", "--json", "--timeout", "10")))
    assert shown["request_seq"] == 2
    assert shown["response_text"].endswith(": two")


def test_what_a_stranger_says_arrives_in_a_pipe_as_it_is(comity, node, identity):
    assert said(comity("call", node.url, "\x1b[31mred\n")).endswith(": \x1b[31mred\n")


def test_bytes_that_are_no_text_are_refused_before_they_are_signed(comity, node, data):
    assert "TEXT must be UTF-8" in refused(comity("call", node.url, "\udcff"), 2)
    assert not data.exists()


def test_another_text_under_the_same_key_is_refused_and_nothing_is_sent(comity, node, there, identity):
    shown = [
        json.loads(said(comity("call", node.url, text, "--idempotency-key", key, "--json")))
        for text, key in (("a", "k"), ("other", "l"), ("a", "k"))
    ]
    assert [each["request_seq"] for each in shown] == [1, 2, 1]
    assert shown[0] == shown[2]
    words = refused(comity("call", node.url, "b", "--idempotency-key", "k"))
    assert "the key k was used for another message" in words
    (peer,) = json.loads(comity("chain", "show", "--json", "--data", there).out)["peers"]
    assert peer["serve"]["requests"]["seq"] == 2
