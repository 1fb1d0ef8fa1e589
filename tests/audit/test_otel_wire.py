"""The trace over the wire: the headers that a model's server gets, and the spans that a collector does."""

from __future__ import annotations

import gzip
import threading
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import anyio
import pytest
from opentelemetry import baggage, context
from opentelemetry.baggage.propagation import W3CBaggagePropagator
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from fsm_loop.audit.otel import OtelWatcher
from fsm_loop.loop import Loop
from fsm_loop.providers.anthropic_messages import AnthropicMessages
from fsm_loop.providers.openai_chat import OpenAIChat
from fsm_loop.testing import server as s
from tests.drive.turns import PATIENCE_S, on_each_backend

STOP = s.chunk({}, "stop")
CALL = s.called(0, "c1", "add", '{"a": 1, "b": 2}')
KEY = "sk-canary-4711"


async def add(a: int, b: int) -> int:
    """The sum of two numbers."""
    return a + b


def told(span) -> str:
    """The span as `traceparent` writes it."""
    return f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-{span.context.trace_flags:02x}"


def watched(**wishes):
    """A watcher, and where its spans are kept."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return OtelWatcher(tracer_provider=provider, **wishes), exporter


def over_http(server):
    """A model that speaks HTTP by itself."""
    return OpenAIChat("m", base_url=server.base_url, api_key=KEY)


def ask(server, watchers, backend="asyncio", make=over_http):
    """One turn on the server."""

    async def main():
        with anyio.fail_after(PATIENCE_S):
            async with make(server) as model:
                return await Loop(model=model, tools=[add], watchers=watchers).run("1 + 2?")

    return anyio.run(main, backend=backend)


@on_each_backend
def test_a_request_carries_its_span(backend):
    """Each request has the `traceparent` of its own chat span, a retried one that of its own attempt."""
    watcher, exporter = watched()
    busy = s.failure(503, "busy", {"retry-after-ms": "1"})
    with s.ChatServer([busy, s.stream(CALL, s.chunk({}, "tool_calls")), s.stream(s.said("3"), STOP)]) as server:
        result = ask(server, [watcher], backend)
    spans = exporter.get_finished_spans()
    chats = [span for span in spans if span.name == "chat m"]

    assert ("completed", "3", ()) == (result.outcome, result.text, result.trail_faults)
    assert [told(span) for span in chats] == [request.headers["traceparent"] for request in server.requests]
    assert 3 == len({*map(told, chats)})
    assert KEY not in "".join(span.to_json() for span in spans)


@asynccontextmanager
async def over_sdk(server):
    """A client of the vendor's SDK carries the bytes."""
    sdk = pytest.importorskip("openai")
    async with sdk.AsyncOpenAI(base_url=server.base_url, api_key=KEY) as client:
        yield OpenAIChat("m", client=client)


def over_messages(server):
    """The other vendor's protocol, with HTTP of our own."""
    return AnthropicMessages("m", base_url=server.base_url.removesuffix("/v1"), api_key=KEY)


@pytest.mark.parametrize("make", [over_sdk, over_messages])
def test_whatever_carries_the_request(make):
    """The header goes along with an SDK's client, and on the other protocols."""
    watcher, exporter = watched()
    with s.ChatServer([s.failure(400, "no")]) as server:
        ask(server, [watcher], make=make)
    (chat,) = (span for span in exporter.get_finished_spans() if span.name == "chat m")

    assert [told(chat)] == [request.headers["traceparent"] for request in server.requests]
    assert "bad_request" == chat.attributes["error.type"]


def test_without_a_watcher_nothing_is_added():
    """A turn that nobody traces sends no header of a trace."""
    with s.ChatServer([s.completion("ok")]) as server:
        ask(server, [])

    assert "traceparent" not in server.requests[0].headers


@pytest.mark.parametrize(("propagator", "expected"), [(None, None), (W3CBaggagePropagator(), "user=42")])
def test_baggage_stays_at_home(propagator, expected):
    """What the service keeps beside its trace goes to a vendor only where it is asked for."""
    watcher, _ = watched(propagator=propagator)
    token = context.attach(baggage.set_baggage("user", "42"))
    try:
        with s.ChatServer([s.completion("ok")]) as server:
            ask(server, [watcher])
    finally:
        context.detach(token)

    assert expected == server.requests[0].headers.get("baggage")


@contextmanager
def collector():
    """A collector on loopback: its address, and the bodies that came, by path."""
    bodies = {}

    class Takes(BaseHTTPRequestHandler):
        def do_POST(self):  # the name is http.server's
            raw = self.rfile.read(int(self.headers["content-length"]))
            packed = self.headers.get("content-encoding") == "gzip"
            bodies.setdefault(self.path, []).append(gzip.decompress(raw) if packed else raw)
            self.send_response(200)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_):
            """Nothing is logged."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Takes) as listening:
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.server_port}", bodies
        finally:
            listening.shutdown()
            thread.join(PATIENCE_S)


def test_over_otlp():
    """A collector gets the whole tree, in one trace, and the metrics, over OTLP's protobuf on HTTP."""
    with collector() as (address, bodies):
        tracing = TracerProvider()
        tracing.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{address}/v1/traces")))
        metering = MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter(f"{address}/v1/metrics"))])
        watcher = OtelWatcher(tracer_provider=tracing, meter_provider=metering)
        with s.ChatServer([s.stream(CALL, s.chunk({}, "tool_calls")), s.stream(s.said("3"), STOP)]) as server:
            result = ask(server, [watcher])
        tracing.shutdown()
        metering.shutdown()
    spans = [
        span
        for body in bodies["/v1/traces"]
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    names = {span.span_id: span.name for span in spans}
    metrics = {
        metric.name
        for body in bodies["/v1/metrics"]
        for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }

    assert "completed" == result.outcome
    assert [
        ("", "invoke_agent"),
        ("invoke_agent", "chat m"),
        ("invoke_agent", "execute_tool add"),
        ("invoke_agent", "chat m"),
    ] == [
        (names.get(span.parent_span_id, ""), span.name)
        for span in sorted(spans, key=lambda span: span.start_time_unix_nano)
    ]
    assert 1 == len({span.trace_id for span in spans})
    assert {
        "gen_ai.client.operation.duration",
        "gen_ai.execute_tool.duration",
        "gen_ai.invoke_agent.duration",
        "fsm_loop.attempts",
        "fsm_loop.ends",
    } == metrics
