"""What the tests of spans share: a watcher whose spans and metrics are kept in memory, on a virtual clock."""

from __future__ import annotations

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from fsm_loop.audit.otel import OtelWatcher
from fsm_loop.testing.clock import VirtualClock
from tests.drive.turns import drive

SECRET = "canary-4711"


class Seen:
    """What a watcher exports: into memory, with the turn's own virtual time."""

    def __init__(self, *processors, **wishes):
        self.clock = VirtualClock()
        self.exporter = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()
        self.provider = TracerProvider()
        for each in (SimpleSpanProcessor(self.exporter), *processors):
            self.provider.add_span_processor(each)
        self.watcher = OtelWatcher(
            tracer_provider=self.provider,
            meter_provider=MeterProvider([self.reader]),
            now_ns=lambda: int(self.clock.now() * 1e9),
            **wishes,
        )

    def drive(self, script, **given):
        """A turn that is watched."""
        return drive(script, clock=self.clock, ports={"watchers": [self.watcher]}, **given)

    @property
    def spans(self):
        """All spans, in the order in which they began."""
        return sorted(
            self.exporter.get_finished_spans(), key=lambda span: (span.start_time, span.context.span_id != self.root_id)
        )

    @property
    def root_id(self):
        """The id of the turn's span."""
        return next(
            each.context.span_id for each in self.exporter.get_finished_spans() if each.name.startswith("invoke")
        )

    @property
    def turn(self):
        """The turn's span."""
        return next(each for each in self.spans if each.context.span_id == self.root_id)

    @property
    def tree(self):
        """Each span: its parent's name, its own, and the seconds at which it began and ended."""
        names = {span.context.span_id: span.name for span in self.spans}
        return [
            (names[span.parent.span_id] if span.parent else "", span.name, span.start_time / 1e9, span.end_time / 1e9)
            for span in self.spans
        ]

    @property
    def events(self):
        """The events of the turn's span: the second, the name, the row, the counter with before, after and cap."""
        return [
            (
                event.timestamp / 1e9,
                event.name.removeprefix("fsm_loop."),
                event.attributes["fsm_loop.row"],
                *(event.attributes.get(f"fsm_loop.counter{part}") for part in (".name", ".before", ".after", ".cap")),
            )
            for event in self.turn.events
        ]

    def metric(self, name):
        """The points of a metric: what they are told apart by, and the sum."""
        data = self.reader.get_metrics_data()
        return [
            (dict(point.attributes), getattr(point, "sum", None) if hasattr(point, "sum") else point.value)
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for each in scope.metrics
            if each.name == name
            for point in each.data.data_points
        ]


def f() -> str:
    """A tool."""
    return "done"
