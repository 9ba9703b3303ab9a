"""Spans for OpenTelemetry: one for each act, and below it one for each step of the pipeline.

- Tracing is on when OTEL_TRACES_EXPORTER names an exporter and the extra `otel` is installed. Otherwise nothing of this is
  in the way: the node then has a plain `Pipeline` and a plain `Recorder`, and OpenTelemetry is not even loaded.
- The `traceparent` of a request is the parent of its span. Attributes are those of an event: who and what by short ids,
  names and hashes, never content; an exception stands there by its code.
- Where spans go, and how many are kept, is set by the variables that OpenTelemetry defines itself
  (OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_TRACES_SAMPLER, OTEL_SERVICE_NAME …).
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from importlib.metadata import entry_points
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, cast

from comity.requests.handler import (
    Admission,
    Call,
    Handler,
    HandlerResult,
    Request,
    RequestMark,
    current_request,
)
from comity.requests.pipeline import Pipeline, code_of
from comity.requests.record import Act, Recorder
from comity.system import install_command

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

EXPORTER_VARIABLE: Final = "OTEL_TRACES_EXPORTER"
_PACKAGES = ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http")

_DISABLED: Final = "OTEL_SDK_DISABLED"
_SERVICE: Final = "OTEL_SERVICE_NAME"
_NAMES: Final = {"otlp": "otlp_proto_http"}
_NANOSECONDS: Final = 1_000_000_000
_SECONDS_TO_END: Final = 3.0

_span_of_act: ContextVar["Span | None"] = ContextVar("span of the act", default=None)


def open_tracing(environ: Mapping[str, str], complain: Callable[[str], None]) -> "Tracing | None":
    """Return None if tracing is off or not possible; `complain` gets the reason."""
    wanted = environ.get(EXPORTER_VARIABLE, "none").strip()
    if wanted in ("", "none") or environ.get(_DISABLED, "").strip().lower() == "true":
        return None
    try:
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - an extra
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - an extra
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - an extra
    except ImportError:
        complain(
            f"{EXPORTER_VARIABLE} is set, but OpenTelemetry is not installed; run: {install_command(*_PACKAGES)}"
        )
        return None
    found = entry_points(group="opentelemetry_traces_exporter", name=_NAMES.get(wanted, wanted))
    if not found:
        complain(
            f"{EXPORTER_VARIABLE} names {wanted!r}, which is no exporter that is installed; use otlp or console"
        )
        return None
    exporter = next(iter(found)).load()()
    named = {} if environ.get(_SERVICE) else {"service.name": "comity"}
    provider = TracerProvider(resource=Resource.create(named), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return Tracing(provider)


class Tracing:
    def __init__(self, provider: "TracerProvider") -> None:
        from opentelemetry.trace import SpanKind, Status, StatusCode  # noqa: PLC0415 - an extra
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415 - an extra

        self._provider = provider
        self._tracer = provider.get_tracer("comity")
        self._extract = TraceContextTextMapPropagator().extract
        self._server = SpanKind.SERVER
        self._failed = partial(Status, StatusCode.ERROR)

    def recorder(self, *given: Any, **named: Any) -> Recorder:
        return _TracedRecorder(self, *given, **named)

    def pipeline(self, *given: Any, **named: Any) -> Pipeline:
        return _TracedPipeline(self, *given, **named)

    async def close(self) -> None:
        """Send what was not sent yet, for at most `_SECONDS_TO_END`."""
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def end() -> None:
            self._provider.shutdown()
            with suppress(RuntimeError):  # nobody waits any more
                loop.call_soon_threadsafe(done.set)

        Thread(target=end, daemon=True).start()  # it may wait for much longer than we do
        with suppress(TimeoutError):
            async with asyncio.timeout(_SECONDS_TO_END):
                await done.wait()

    @contextmanager
    def act(self, name: str) -> "Iterator[Span]":
        """Open the span of an act that is done in this block."""
        with self._tracer.start_as_current_span(
            name,
            self._parent(current_request()),
            self._server,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            token = _span_of_act.set(span)
            try:
                yield span
            finally:
                _span_of_act.reset(token)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        with self._tracer.start_as_current_span(
            name, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield
            except BaseException as failure:
                self.fail(span, code_of(failure))
                raise

    def report(self, act: Act, request: RequestMark, now: float) -> None:
        """Describe the outcome on the span of the act. An act outside the pipeline gets a span of its own."""
        span = _span_of_act.get()
        if span is not None and span.is_recording():
            self._describe(span, act, request)
            return
        start, end = int((now - act.seconds) * _NANOSECONDS), int(now * _NANOSECONDS)
        span = self._tracer.start_span(act.feature, self._parent(request), self._server, start_time=start)
        self._describe(span, act, request)
        span.end(end)

    def fail(self, span: "Span", code: str) -> None:
        span.set_attribute("comity.failed", code)
        span.set_status(self._failed(code))

    def _describe(self, span: "Span", act: Act, request: RequestMark) -> None:
        span.set_attributes(
            {
                "comity.room": act.feature,
                "comity.kind": act.result,
                "comity.who": act.caller.short,
                "comity.what": act.subject,
                "comity.request": request.id,
            }
        )
        if act.failed_step:
            self.fail(span, act.failed_step)

    def _parent(self, request: RequestMark) -> "Context | None":
        if not request.traceparent:
            return None
        return self._extract({"traceparent": request.traceparent})


class _TracedRecorder(Recorder):
    def __init__(self, tracing: Tracing, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._tracing = tracing

    def tally(self, act: Act) -> None:
        super().tally(act)
        self._tracing.report(act, current_request(), self._clock.now())

    def _notify(self, act: Act, count: int = 1, request: RequestMark | None = None) -> None:
        super()._notify(act, count, request)
        if request is None:  # not a group, whose acts have their own spans
            self._tracing.report(act, current_request(), self._clock.now())


class _TracedPipeline(Pipeline):
    def __init__(self, tracing: Tracing, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._tracing = tracing

    async def run(self, handler: Handler, request: Request) -> Any:
        with self._tracing.act(handler.name) as span:
            try:
                return await super().run(cast("Handler", _TracedHandler(handler, self._tracing)), request)
            except BaseException as failure:
                self._tracing.fail(span, code_of(failure))
                raise

    def _identify(self, handler: Handler, request: Request) -> Call:
        with self._tracing.step("identify"):
            return super()._identify(handler, request)

    async def _handle(self, handler: Handler, call: Call) -> Any:
        with self._tracing.step("handle"):
            return await super()._handle(handler, call)

    async def _commit(
        self, handler: Handler, call: Call, began: float, admission: Admission, sealed: HandlerResult
    ) -> tuple[HandlerResult, bool]:
        with self._tracing.step("commit"):
            return await super()._commit(handler, call, began, admission, sealed)


class _TracedHandler:
    """A handler whose admission is a step of its own."""

    def __init__(self, handler: Handler, tracing: Tracing) -> None:
        self._handler = handler
        self._tracing = tracing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handler, name)

    async def admit(self, call: Call) -> Admission:
        with self._tracing.step("admit"):
            return await self._handler.admit(call)
