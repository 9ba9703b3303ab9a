"""Spans of OpenTelemetry: one for each act, its steps below it, and nothing at all while tracing is off."""

import asyncio
import http.server
import json
import subprocess
import sys
import threading

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from comity.bus.in_process import InProcessBus
from comity.requests.events import Events
from comity.requests.handler import begin_request
from comity.requests.record import Act
from comity.requests.tracing import Tracing, open_tracing
from comity.system import install_command
from comity.testing import SimulatedClock
from comity.wire.errors import MalformedError, UnauthenticatedError
from tests.callers import OWNER, visitor
from tests.requests.pipelines import ARRIVAL, HeldStore, Shop, Window, settle, simulated

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Desk:
    def __init__(self):
        self.clock = SimulatedClock()
        self.kept = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self.kept))
        self.tracing = Tracing(provider)
        self.store = HeldStore(self.clock)
        self.events = Events(InProcessBus())
        self.record = self.tracing.recorder(self.store, self.clock, events=self.events)
        self.pipeline = self.tracing.pipeline(self.record, self.clock, budget=None)

    @property
    def spans(self):
        return {span.name: span for span in self.kept.get_finished_spans()}


@simulated
async def test_a_call_is_one_span_with_its_steps_below_it_and_the_sender_s_trace_above():
    desk = Desk()
    begin_request("r-1", f"00-{TRACE}-{PARENT}-01")
    await desk.pipeline.run(Shop(), ARRIVAL)
    spans = desk.spans
    assert list(spans) == ["identify", "admit", "handle", "commit", "shop"]
    act = spans.pop("shop")
    assert format(act.context.trace_id, "032x") == TRACE
    assert format(act.parent.span_id, "016x") == PARENT
    assert {span.parent.span_id for span in spans.values()} == {act.context.span_id}
    (event, *_) = desk.events.since(desk.events.last - 1).events
    assert act.attributes["comity.kind"] == event.kind
    assert act.attributes["comity.who"] == event.who
    assert act.attributes["comity.request"] == event.request == "r-1"
    assert act.status.status_code is StatusCode.UNSET


@simulated
async def test_what_is_refused_or_fails_says_where_and_by_which_code_and_nothing_that_was_sent():
    desk = Desk()
    for step, failure, code in (
        ("identify", UnauthenticatedError("secret words"), "unauthenticated"),
        ("admit", MalformedError("secret words"), "malformed"),
        ("handle", RuntimeError("secret words"), "internal"),
    ):
        desk.kept.clear()
        with pytest.raises(Exception, match=r"secret|our side"):
            await desk.pipeline.run(Shop(**{step: failure}), ARRIVAL)
        for name in (step, "shop"):
            assert desk.spans[name].status.status_code is StatusCode.ERROR, (step, name)
            assert desk.spans[name].attributes["comity.failed"] == code
        assert "secret" not in str([span.to_json() for span in desk.spans.values()])


@simulated
async def test_an_act_that_takes_no_walk_has_a_span_of_its_length():
    desk = Desk()
    begin_request("r-2", f"00-{TRACE}-{PARENT}-01")
    await desk.record.commit(
        (), Act(feature="vcp", result="HANDSHAKE_ACK", caller=visitor("ann"), seconds=0.5)
    )
    for _ in range(3):
        desk.record.tally_mcp("echo", OWNER, "ok")
    desk.record.flush()
    await settle()
    vcp = desk.spans["vcp"]
    assert (vcp.end_time - vcp.start_time) / 1e9 == pytest.approx(0.5)
    assert format(vcp.context.trace_id, "032x") == TRACE
    assert [span.name for span in desk.kept.get_finished_spans()] == ["vcp", "mcp", "mcp", "mcp"]


@simulated
async def test_calls_that_run_at_once_keep_their_own_steps():
    desk = Desk()

    async def call(number):
        begin_request(f"r-{number}")
        await desk.pipeline.run(Window(), ARRIVAL)

    await asyncio.gather(*(call(number) for number in range(5)))
    spans = desk.kept.get_finished_spans()
    acts = {span.context.span_id: span for span in spans if span.name == "window"}
    assert {span.attributes["comity.request"] for span in acts.values()} == {f"r-{n}" for n in range(5)}
    for span in spans:
        if span.name != "window":
            assert span.context.trace_id == acts[span.parent.span_id].context.trace_id


def test_tracing_is_off_unless_the_variable_of_opentelemetry_says_otherwise():
    said = []
    for environ in (
        {},
        {"OTEL_TRACES_EXPORTER": "none"},
        {"OTEL_TRACES_EXPORTER": " "},
        {"OTEL_TRACES_EXPORTER": "console", "OTEL_SDK_DISABLED": "True"},
    ):
        assert open_tracing(environ, said.append) is None
    assert said == []
    assert open_tracing({"OTEL_TRACES_EXPORTER": "pigeon"}, said.append) is None
    assert said == [
        "OTEL_TRACES_EXPORTER names 'pigeon', which is no exporter that is installed; use otlp or console"
    ]


USED = """
import asyncio, os
from comity.requests.tracing import open_tracing

async def main():
    tracing = open_tracing(os.environ, print)
    with tracing.act("shop"):
        pass
    await tracing.close()

asyncio.run(main())
"""


def test_an_exporter_that_is_installed_is_used_and_has_everything_at_the_end():
    environ = {"OTEL_TRACES_EXPORTER": "console", "PATH": ""}
    shown = json.loads(run(USED, env=environ))
    assert shown["name"] == "shop"
    assert shown["resource"]["attributes"]["service.name"] == "comity"


class Collector(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.heard.append((self.path, body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def test_spans_go_to_the_collector_that_the_usual_variable_names():
    with http.server.HTTPServer(("127.0.0.1", 0), Collector) as collector:
        collector.heard = []
        serving = threading.Thread(target=collector.serve_forever)
        serving.start()
        try:
            address = f"http://127.0.0.1:{collector.server_port}"
            environ = {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_ENDPOINT": address, "PATH": ""}
            assert run(USED, env=environ) == ""
        finally:
            collector.shutdown()
            serving.join()
    ((path, body),) = collector.heard
    assert path == "/v1/traces"
    assert b"shop" in body
    assert b"comity" in body


def run(code, **options):
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True, **options).stdout


def test_while_it_is_off_nothing_of_opentelemetry_is_loaded():
    code = (
        "import sys; from comity.node.node import Node; from comity.requests.tracing import open_tracing; "
        "open_tracing({}, print); print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert result.stdout == "[]\n"


def test_without_the_package_the_user_is_told_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    said = []
    assert open_tracing({"OTEL_TRACES_EXPORTER": "otlp"}, said.append) is None
    assert said[0].endswith(install_command("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"))
