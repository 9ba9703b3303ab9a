"""`comity hello` against real servers on 127.0.0.1, which run in a thread of their own."""

import asyncio
import contextlib
import io
import json
import os
import shlex
import stat
import subprocess
import sys
import threading

import pytest

from comity.vcp.protocol.agreement import parse
from comity.vcp.protocol.messages import PERSONAL, RELATIONAL, TORCH
from tests.vcp.protocol.negotiation_samples import ALL_FEATURES, TOKEN, registry
from tests.vcp.vcp_scene import HANGS, OurServer, Script, ack, error, line_server, real, websocket_server


class Served:
    """What can be changed while it serves: `server`."""

    def __init__(self, make):
        self._make = make
        self.urls = {}
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    async def _run(self):
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self.server = self._make()

        async def handle(link):
            await self.server.serve(link)

        async with websocket_server(handle) as ws, line_server(handle) as tcp:
            self.urls = {"ws": ws, "tcp": tcp, "http": ws.replace("ws://", "http://").removesuffix("/vcp")}
            self._ready.set()
            await self._stop.wait()

    def change(self, make):
        async def made():
            return make()

        self.server = asyncio.run_coroutine_threadsafe(made(), self._loop).result(10)


@pytest.fixture
def serving():
    with contextlib.ExitStack() as stack:
        yield lambda make: stack.enter_context(Served(make))


def ours(**settings):
    return lambda: real(OurServer, **settings)


def script(*lines):
    return lambda: real(Script, *lines)


@pytest.mark.parametrize("carrier", ["ws", "tcp", "http"])
def test_the_answer_is_shown_as_tables(comity, serving, carrier, identity):
    served = serving(ours(registry=registry(PERSONAL), server_id="demo"))
    outcome = comity("hello", served.urls[carrier], "--extensions", f"{PERSONAL},{TORCH}")
    assert outcome.code == 0, outcome.err
    lines = [line.split() for line in outcome.out.splitlines()]
    shown = served.urls["ws" if carrier == "http" else carrier]
    assert lines[0] == ["server", shown, "(demo)"]
    assert ["version", "VCP", "3.1"] in lines
    assert ["extension", "capability", "value"] in lines
    assert [PERSONAL, "decay", "yes"] in lines
    assert ["lifecycle_states", "SET,", "ACTIVE,", "DECAYING,", "STALE,", "EXPIRED"] in lines
    assert [TORCH, "not", "supported"] in lines
    assert ["encryption", "yes"] in lines
    assert outcome.err == ""
    assert "warning" not in outcome.out


def test_all_five_extensions_are_asked_for_unless_some_are_named(comity, serving):
    served = serving(ours())
    assert len(json.loads(comity("hello", served.urls["ws"], "--json").out)["supported"]) == 5
    nothing = comity("hello", served.urls["ws"], "--extensions", "")
    assert "none requested" in nothing.out
    some = comity("hello", served.urls["ws"], "--extensions", f" {TORCH} , {RELATIONAL}", "--json")
    assert json.loads(some.out)["supported"] == [TORCH, RELATIONAL]


def test_json_is_one_line_with_everything(comity, serving, identity):
    served = serving(ours(registry=registry(PERSONAL), server_id="demo"))
    outcome = comity("hello", served.urls["ws"], "--extensions", f"{PERSONAL},{TORCH}", "--json")
    assert outcome.out.count("\n") == 1
    answer = json.loads(outcome.out)
    assert answer.pop("capabilities")[PERSONAL]["max_intensity"] == 5
    assert answer == {
        "server": served.urls["ws"],
        "version": "3.1",
        "session_id": "ses_1",
        "server_id": "demo",
        "supported": [PERSONAL],
        "unsupported": [TORCH],
        "core_features": ALL_FEATURES,
        "warnings": [],
        "alerts": [],
        "remembered": True,
    }


def test_a_downgrade_since_last_time_is_told(comity, serving, identity):
    served = serving(ours())
    assert comity("hello", served.urls["http"]).code == 0
    served.change(ours(registry=registry(PERSONAL), core_features={**ALL_FEATURES, "encryption": False}))
    outcome = comity("hello", served.urls["ws"])
    assert outcome.code == 0
    assert "warning: the server does not encrypt what it stores" in outcome.out
    assert "downgrade: the server no longer has the core feature encryption" in outcome.out
    assert f"downgrade: the server no longer supports {TORCH}" in outcome.out
    assert outcome.err == ""
    assert json.loads(comity("hello", served.urls["ws"], "--json").out)["alerts"] == []


def test_it_remembers_without_an_identity(comity, serving, data):
    served = serving(ours())
    assert comity("hello", served.urls["ws"]).err == ""
    assert {path.name for path in data.iterdir()} == {"vcp-acks.json", ".vcp-acks.json.lock"}
    assert stat.S_IMODE((data / "vcp-acks.json").stat().st_mode) == 0o600
    served.change(ours(registry=registry(PERSONAL)))
    assert f"downgrade: the server no longer supports {TORCH}" in comity("hello", served.urls["ws"]).out


def test_what_cannot_be_remembered_is_said(comity, serving, data):
    data.mkdir(mode=0o700)
    (data / ".vcp-acks.json.lock").mkdir()
    served = serving(ours())
    outcome = comity("hello", served.urls["ws"])
    assert (outcome.code, "not remembered" in outcome.err) == (0, True)
    assert json.loads(comity("hello", served.urls["ws"], "--json").out)["remembered"] is False


@pytest.mark.parametrize(
    ("settings", "arguments", "code", "remedy"),
    [
        ({"identity": "required"}, (), "IDENTITY_REQUIRED", "--identity"),
        (
            {"versions": (parse("1.0"), parse("2.0"))},
            ("--min-version", "3.0"),
            "VERSION_UNSUPPORTED",
            "it speaks 1.0, 2.0: try --version 2.0 --min-version 2.0",
        ),
        ({"environment": "production", "core_features": {}}, (), "INTERNAL_ERROR", "try again"),
    ],
)
def test_a_refusal_is_its_code_a_sentence_and_what_to_do(comity, serving, settings, arguments, code, remedy):
    served = serving(ours(**settings))
    outcome = comity("hello", served.urls["ws"], *arguments)
    assert outcome.code == 1
    assert outcome.out == ""
    assert outcome.err.count("\n") == 1
    assert code in outcome.err
    assert remedy in outcome.err
    result = comity("hello", served.urls["ws"], *arguments, "--json")
    assert result.out == ""
    assert json.loads(result.err)["error"]["code"] == code


def test_what_the_remedy_says_helps(comity, serving):
    served = serving(ours(versions=(parse("1.0"), parse("2.0"))))
    outcome = comity("hello", served.urls["ws"], "--version", "2.0", "--min-version", "2.0")
    assert outcome.code == 0
    assert "VCP 2.0" in outcome.out


def test_a_busy_server_is_asked_once_and_its_wait_is_told(comity, serving):
    outcome = comity("hello", serving(script(error("RATE_LIMITED", "busy", retry_after=17))).urls["ws"])
    assert outcome.code == 1
    assert "try again in 17 s" in outcome.err


@pytest.mark.parametrize(
    "url", ["nonsense", "ftp://127.0.0.1/", "ws://", "tcp://127.0.0.1", "ws://192.0.2.7/vcp"]
)
def test_an_address_that_cannot_be_used_is_a_wrong_call(comity, url):
    outcome = comity("hello", url)
    assert (outcome.code, outcome.out) == (2, "")
    assert repr(url) in outcome.err


def test_the_scheme_of_a_node_on_this_machine_may_be_left_out(comity, serving):
    url = serving(script(ack())).urls["ws"]
    assert comity("hello", url.removeprefix("ws://").removesuffix("/vcp"), "--extensions", "").code == 0


@pytest.mark.parametrize("code", ["IDENTITY_INVALID", "EXTENSION_CONFLICT", "NEW_CODE"])
def test_every_code_has_something_to_do(comity, serving, code):
    outcome = comity("hello", serving(script(error(code, "so.\x1b[2J"))).urls["tcp"])
    assert outcome.code == 1
    assert f"({code}); " in outcome.err
    assert "\x1b" not in outcome.err


def test_an_identity_is_taken_from_a_file_or_standard_input(comity, serving, tmp_path, monkeypatch):
    served = serving(ours(identity="required"))
    file = tmp_path / "token.txt"
    file.touch(0o600)
    file.write_text(f"{TOKEN}\n")
    assert comity("hello", served.urls["ws"], "--identity", f"@{file}").code == 0
    assert served.server.said[-1]["identity"] == TOKEN
    assert comity("hello", served.urls["ws"], "--identity", TOKEN).code == 0
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(f"{TOKEN}\n".encode())))
    assert comity("hello", served.urls["ws"], "--identity", "@-").code == 0
    file.write_text("two words")
    refused = comity("hello", served.urls["ws"], "--identity", f"@{file}")
    assert refused.code == 1
    assert "holds no VCP/I token" in refused.err
    file.chmod(0o644)
    assert "chmod" in comity("hello", served.urls["ws"], "--identity", f"@{file}").err


def test_nobody_there_is_one_sentence(comity, serving):
    with Served(ours()) as gone:
        url = gone.urls["ws"]
    outcome = comity("hello", url)
    assert outcome.code == 1
    assert outcome.out == ""
    assert outcome.err.count("\n") == 1
    assert "cannot be reached: nobody listens there" in outcome.err


def test_a_server_that_says_nothing_is_given_up_after_the_timeout(comity, serving):
    outcome = comity("hello", serving(script(HANGS)).urls["ws"], "--timeout", "0.2")
    assert outcome.code == 1
    assert "did not answer within 0.2 seconds" in outcome.err


def test_an_answer_that_breaks_the_protocol_is_one_sentence(comity, serving):
    outcome = comity("hello", serving(script(ack(PERSONAL))).urls["ws"], "--extensions", TORCH)
    assert outcome.code == 1
    assert outcome.err.count("\n") == 1
    assert "supported and unsupported" in outcome.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("ws://127.0.0.1:8420", "--extensions", "personal"),
        ("ws://127.0.0.1:8420", "--version", "three"),
        ("ws://127.0.0.1:8420", "--min-version", "3.2"),
        ("ws://127.0.0.1:8420", "--timeout", "soon"),
        ("ws://127.0.0.1:8420", "--timeout", "nan"),
        ("ws://server.example/vcp",),
        ("nonsense",),
        (),
    ],
)
def test_a_call_that_cannot_be_used_is_one_sentence(comity, arguments):
    outcome = comity("hello", *arguments)
    assert outcome.code in (1, 2)
    assert outcome.err.count("\n") == 1
    assert "unexpected error" not in outcome.err


def test_what_a_stranger_wrote_cannot_act_on_the_screen(comity, serving):
    strange = ack(
        PERSONAL,
        capabilities={PERSONAL: {"a\x1b[2J": "b\u202ec", "n": {"x": None}}},
        server_id="s\x07",
        core_features={"encryption": True, "\x1bx": True},
    )
    outcome = comity("hello", serving(script(strange)).urls["ws"], "--extensions", PERSONAL)
    assert outcome.code == 0
    assert not set(outcome.out) & {"\x1b", "\u202e", "\x07"}
    assert '{"x": null}' in outcome.out


def test_an_mcp_server_is_a_url_or_a_command_and_a_node_of_this_folder_needs_no_token(comity, data, tmp_path):
    environment = {**os.environ, "COMITY_DATA": str(data)}
    with subprocess.Popen(
        [sys.executable, "-m", "comity", "up", "--port", "0", "--json"],
        env=environment,
        stdout=subprocess.PIPE,
    ) as node:
        url = json.loads(node.stdout.readline())["url"]
        result = json.loads(comity("hello", f"{url}/mcp", "--json").out)
        assert (result["server"], result["version"]) == (f"mcp:{url}/mcp", "3.1")
        assert result["supported"]
        stranger = comity("hello", f"{url}/mcp", "--data", tmp_path / "other")
        assert (stranger.code, "401" in stranger.err) == (1, True)
        token = f"@{data / 'token'}"
        assert comity("hello", f"{url}/mcp", "--data", tmp_path / "other", "--bearer", token).code == 0
        node.terminate()
    command = shlex.join([sys.executable, "-m", "comity", "mcp", "--data", str(tmp_path / "third")])
    result = json.loads(comity("hello", f"mcp:{command}", "--json").out)
    assert (result["server"], result["version"]) == (f"mcp:{command}", "3.1")
