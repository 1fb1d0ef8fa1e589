"""A turn as OpenTelemetry sees it: a span for the turn, one for each request, one for each tool call, and metrics.

The service brings the SDK and says where it all goes; what is not configured costs little and goes nowhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from attrs import define, field

from fsm_loop.audit import otel_words as words
from fsm_loop.audit.facts import Redact
from fsm_loop.audit.otel_words import Attributes
from fsm_loop.audit.sink import Content, one_of
from fsm_loop.core.effects import Abandon, CallModel, RunTool
from fsm_loop.core.events import (
    CallFailed,
    InterruptAsked,
    ModelReplied,
    PortEvent,
    RebuildAsked,
    SlotRefused,
    SteerGiven,
    ToolReturned,
)
from fsm_loop.core.faults import Fault
from fsm_loop.core.messages import Reply, ToolStatus, clean
from fsm_loop.core.rows import Page
from fsm_loop.core.step import Decision, Turn
from fsm_loop.errors import MissingExtra
from fsm_loop.ports import request_headers

try:
    from opentelemetry import context, metrics, trace
    from opentelemetry.propagators.textmap import TextMapPropagator
    from opentelemetry.trace import Span, SpanKind, Status, StatusCode
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as error:  # pragma: no cover  # nothing of it is there
    raise MissingExtra("OpenTelemetry needs the extra `otel`: pip install 'fsm-loop[otel]'") from error

UNKNOWN_PROVIDER = "unknown"  # what a model's provider is called where nobody said


@define(eq=False)
class _Open:
    """A span that is not ended yet, since when, and what its metrics are told apart by."""

    span: Span
    since_ns: int
    labels: Attributes


@define(eq=False)
class _Traced:
    """A turn that is under way: its span, the names of its models, and the spans of what it has in hand."""

    whole: _Open
    models: tuple[str, ...]
    inside: dict[tuple[int, str], _Open] = field(factory=dict)


class OtelWatcher:
    """A watcher that makes spans and metrics of turns, by the conventions for generative AI.

    Without providers of its own it takes those that the service has set for the process. `agent` names the agent,
    `vendors` the vendor of each model by the model's name, in the conventions' words (`openai`, `anthropic`). No
    text of users, models or tools is told unless `content="full"` asks for it; then `redact` sees it first, by the
    attribute's name. `propagator` writes the headers by which a server goes on with the trace; what the service
    keeps beside it (baggage) is for itself, and goes to a vendor only where a propagator that sends it is given.
    `now_ns` is the time of day, in nanoseconds since 1970.
    """

    def __init__(  # noqa: PLR0913  # each is a wish of the user's
        self,
        *,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
        agent: str = "",
        vendors: Mapping[str, str] | None = None,
        content: Content = "digests",
        redact: Redact | None = None,
        propagator: TextMapPropagator | None = None,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        one_of("content", content, "digests", "full")
        self._tracer = trace.get_tracer("fsm_loop", tracer_provider=tracer_provider)
        self._agent: Attributes = {words.AGENT: agent} if agent else {}
        self._vendors = dict(vendors or {})
        self._full = content == "full"
        self._redact = redact
        self._propagator = propagator or TraceContextTextMapPropagator()
        self._now_ns = now_ns
        self._turns: dict[str, _Traced] = {}
        meter = metrics.get_meter("fsm_loop", meter_provider=meter_provider)
        self._durations = {
            operation: meter.create_histogram(name, "s", sentence, explicit_bucket_boundaries_advisory=buckets)
            for operation, name, sentence, buckets in (
                (words.CHAT, "gen_ai.client.operation.duration", "GenAI operation duration.", words.SECONDS),
                (words.EXECUTE_TOOL, "gen_ai.execute_tool.duration", "One tool call's duration.", words.SECONDS),
                (words.INVOKE_AGENT, "gen_ai.invoke_agent.duration", "One turn's duration.", words.TURN_SECONDS),
            )
        }
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=words.TOKENS,
        )
        self._attempts = meter.create_counter("fsm_loop.attempts", "{request}", "Requests on the wire.")
        self._ends = meter.create_counter("fsm_loop.ends", "{turn}", "Turns that ended, by outcome and by counter.")

    # ------------------------------------------------------------ what the driver tells

    def opened(self, turn_id: str, turn: Turn, page: Page) -> None:  # noqa: ARG002  # a span needs no page
        """A turn begins: its span is a child of whatever span is the caller's."""
        name = " ".join((words.INVOKE_AGENT, *map(str, self._agent.values())))
        models = turn.record.providers
        own: Attributes = {words.OPERATION: words.INVOKE_AGENT, "fsm_loop.turn_id": turn_id, **self._asked(models[0])}
        whole = self._begin(name, SpanKind.INTERNAL, self._agent, own)
        self._turns[turn_id] = _Traced(whole, models)

    def saw(self, turn_id: str, seq: int, decision: Decision) -> None:
        """One decision was made: it is told on the span of what it decides on, or on the turn's."""
        traced = self._turns.get(turn_id)
        if traced is None or decision.late:
            return
        try:
            self._answered(traced, decision)
            self._happened(traced, seq, decision)
        except BaseException:
            del self._turns[turn_id]
            raise

    def closed(self, turn_id: str, turn: Turn) -> None:
        """The turn is over, and so is its span."""
        traced = self._turns.pop(turn_id, None)
        if traced is None:
            return
        whole, end = traced.whole, turn.record.end
        if end is not None:
            whole.span.set_attributes(words.of_end(turn.record))
            ended: Attributes = {words.OUTCOME: end.outcome}
            if end.exhausted is not None:
                ended[words.COUNTER] = end.exhausted.counter
            self._ends.add(1, {**self._agent, **ended})
            if end.outcome == "failed" and end.fault is not None:
                self._failed(whole, end.fault)
        self._end(whole, words.INVOKE_AGENT)

    @contextmanager
    def around(self, turn_id: str, effect: CallModel | RunTool) -> Iterator[None]:
        """While the effect is carried out its span is the current one, and requests made from there carry it."""
        traced = self._turns.get(turn_id)
        if traced is None:
            yield
            return
        try:
            with self._inside(traced, effect):
                yield
        except BaseException:  # the driver lets nothing in that the turn raises: it is ours
            self._turns.pop(turn_id, None)
            raise

    @contextmanager
    def _inside(self, traced: _Traced, effect: CallModel | RunTool) -> Iterator[None]:
        within = trace.set_span_in_context(traced.whole.span)
        if isinstance(effect, CallModel):
            operation, key, opened = words.CHAT, (effect.attempt, ""), self._chat(traced, effect, within)
        else:
            operation, key = words.EXECUTE_TOOL, (effect.attempt, effect.call.id)
            opened = self._tool(effect, within)
        traced.inside[key] = opened
        here = trace.set_span_in_context(opened.span)
        carried: dict[str, str] = {}
        self._propagator.inject(carried, here)
        token, headers = context.attach(here), request_headers.set({**request_headers.get(), **carried})
        try:
            yield
        finally:
            request_headers.reset(headers)
            context.detach(token)
            traced.inside.pop(key, None)
            self._end(opened, operation)

    # ------------------------------------------------------------ the spans of requests and tools

    def _chat(self, traced: _Traced, effect: CallModel, within: Any) -> _Open:
        model = traced.models[effect.request.provider]
        labels = {words.OPERATION: words.CHAT, **self._asked(model)}
        opened = self._begin(f"{words.CHAT} {model}", SpanKind.CLIENT, labels, words.of_request(effect), within)
        self._attempts.add(1, labels)
        if self._full and opened.span.is_recording():
            self._say(opened.span, words.INPUT, words.as_json(words.messages(effect.request.messages)))
        return opened

    def _tool(self, effect: RunTool, within: Any) -> _Open:
        name = clean(effect.call.name)
        labels: Attributes = {words.TOOL: name, words.TOOL_TYPE: "function", **self._agent}
        own: Attributes = {words.OPERATION: words.EXECUTE_TOOL, words.CALL_ID: clean(effect.call.id)}
        own["fsm_loop.attempt"] = effect.attempt
        opened = self._begin(f"{words.EXECUTE_TOOL} {name}", SpanKind.INTERNAL, labels, own, within)
        if self._full:
            self._say(opened.span, words.ARGUMENTS, effect.call.arguments)
        return opened

    def _asked(self, model: str) -> Attributes:
        return {words.PROVIDER: self._vendors.get(model, UNKNOWN_PROVIDER), words.REQUEST_MODEL: model}

    def _begin(self, name: str, kind: SpanKind, labels: Attributes, own: Attributes, within: Any = None) -> _Open:
        since_ns = self._now_ns()
        span = self._tracer.start_span(name, within, kind, {**labels, **own}, start_time=since_ns)
        return _Open(span, since_ns, labels)

    def _end(self, opened: _Open, operation: str) -> None:
        now_ns = self._now_ns()
        self._durations[operation].record(max(0, now_ns - opened.since_ns) / 1e9, opened.labels)
        opened.span.end(now_ns)

    # ------------------------------------------------------------ what decisions tell

    def _answered(self, traced: _Traced, decision: Decision) -> None:
        """What came of a request or a tool call stands on its span; what is let go is told so."""
        event = decision.event
        if isinstance(event, ToolReturned):
            self._returned(traced.inside.get((event.attempt, event.call_id)), event)
        elif isinstance(event, ModelReplied):
            self._replied(traced.inside.get((event.attempt, "")), event.reply, None)
        elif isinstance(event, CallFailed) and not isinstance(event, SlotRefused):
            self._replied(traced.inside.get((event.attempt, "")), event.partial, event.fault)
        if not any(isinstance(effect, Abandon) for effect in decision.effects):
            return
        answered = (event.attempt, getattr(event, "call_id", "")) if isinstance(event, PortEvent) else None
        for key, opened in traced.inside.items():
            if key != answered:
                opened.span.set_attribute("fsm_loop.abandoned", value=True)
                if isinstance(event, InterruptAsked | SteerGiven | RebuildAsked) and not key[1]:
                    self._replied(opened, event.partial, None)

    def _replied(self, opened: _Open | None, reply: Reply, fault: Fault | None) -> None:
        if opened is None:
            return
        opened.span.set_attributes(words.of_reply(reply))
        if reply.model:
            opened.labels = {**opened.labels, words.RESPONSE_MODEL: reply.model}
        counted = (("input", reply.usage.input_tokens), ("output", reply.usage.output_tokens))
        for kind, number in counted:
            if number:
                self._tokens.record(number, {**opened.labels, words.TOKEN_TYPE: kind})
        if self._full and opened.span.is_recording():
            self._say(opened.span, words.OUTPUT, words.as_json(words.answers(reply)))
        if fault is not None:
            self._failed(opened, fault)

    def _returned(self, opened: _Open | None, event: ToolReturned) -> None:
        if opened is None:
            return
        opened.span.set_attributes({"fsm_loop.tool_status": event.status.value, "fsm_loop.text_chars": len(event.text)})
        if self._full:
            self._say(opened.span, words.RESULT, event.text)
        if event.status is not ToolStatus.OK:
            self._mark(opened, event.status.value.replace(" ", "_"))

    def _failed(self, opened: _Open, fault: Fault) -> None:
        opened.span.set_attributes(words.of_fault(fault))
        self._mark(opened, fault.kind.word, fault.kind.sentence)

    def _mark(self, opened: _Open, kind: str, sentence: str = "") -> None:
        opened.labels = {**opened.labels, words.ERROR: kind}
        opened.span.set_attribute(words.ERROR, kind)
        opened.span.set_status(Status(StatusCode.ERROR, sentence or None))

    def _happened(self, traced: _Traced, seq: int, decision: Decision) -> None:
        span = traced.whole.span
        if not span.is_recording():
            return
        for name, own in words.happenings(decision, traced.models):
            span.add_event(name, {**words.of_decision(seq, decision), **own}, self._now_ns())

    def _say(self, span: Span, name: str, text: str) -> None:
        """Somebody's text, as it may be told."""
        shown = text if self._redact is None else self._redact(name, text)
        span.set_attribute(name, clean(str(shown)))
