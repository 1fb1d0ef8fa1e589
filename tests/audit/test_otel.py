"""The spans and metrics of a turn: which there are, what stands on them, and what never does."""

from __future__ import annotations

import json
import threading

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.trace import StatusCode

from fsm_loop.core.faults import FaultKind
from fsm_loop.core.messages import Finish, Usage
from fsm_loop.ports import Meta, Stopped, TextDelta
from fsm_loop.testing.fakes import Fail, Fault, Hang, Pause, calls, fails, says, thinks
from tests.audit.spans import SECRET, Seen, f
from tests.drive.turns import on_each_backend


def own(span):
    """The attributes of a span, but for the id of the turn."""
    return {name: value for name, value in span.attributes.items() if name != "fsm_loop.turn_id"}


CHAT = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "scripted"}


@on_each_backend
def test_a_plain_answer(backend):
    """A turn is a span, its one request another, below it, each with what the conventions ask for."""
    seen = Seen(agent="clerk", vendors={"scripted": "openai"})
    reply = (
        Pause(2),
        TextDelta("Hello"),
        Stopped(Finish.STOP),
        Meta(usage=Usage(7, 3, 2, 1), model="m-1", request_id="r-9"),
    )
    driven = seen.drive([reply], backend=backend)

    assert [("", "invoke_agent clerk", 0, 2), ("invoke_agent clerk", "chat scripted", 0, 2)] == seen.tree
    assert {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "clerk",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "scripted",
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 3,
        "gen_ai.usage.cache_read.input_tokens": 2,
        "gen_ai.usage.reasoning.output_tokens": 1,
        "fsm_loop.outcome": "completed",
        "fsm_loop.llm_calls": 1,
    } == own(seen.turn)
    assert driven.result.turn_id == seen.turn.attributes["fsm_loop.turn_id"]
    assert {
        **CHAT,
        "gen_ai.request.stream": True,
        "gen_ai.response.model": "m-1",
        "gen_ai.response.id": "r-9",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 3,
        "gen_ai.usage.cache_read.input_tokens": 2,
        "gen_ai.usage.reasoning.output_tokens": 1,
        "fsm_loop.attempt": 1,
        "fsm_loop.provider": 0,
        "fsm_loop.tools_offered": True,
        "fsm_loop.text_chars": 5,
    } == own(seen.spans[1])
    assert [] == seen.events
    assert {StatusCode.UNSET} == {span.status.status_code for span in seen.spans}
    assert ["INTERNAL", "CLIENT"] == [span.kind.name for span in seen.spans]
    assert () == driven.result.trail_faults


def test_what_is_measured():
    """Durations, tokens, attempts and ends are metrics, told apart by model, fault, outcome and counter."""
    seen = Seen(agent="clerk", vendors={"scripted": "openai"})
    reply = (Pause(2), *says("ok", usage=Usage(7, 3)))
    seen.drive([fails(FaultKind.OVERLOADED, retry_after_s=1.0), reply])

    assert [({**CHAT, "error.type": "overloaded"}, 0), (CHAT, 2)] == seen.metric("gen_ai.client.operation.duration")
    assert [({**CHAT, "gen_ai.token.type": "input"}, 7), ({**CHAT, "gen_ai.token.type": "output"}, 3)] == seen.metric(
        "gen_ai.client.token.usage"
    )
    assert [(CHAT, 2)] == seen.metric("fsm_loop.attempts")
    ended = {"gen_ai.agent.name": "clerk", "fsm_loop.outcome": "completed"}
    assert [(ended, 1)] == seen.metric("fsm_loop.ends")
    assert [({"gen_ai.agent.name": "clerk"}, 3)] == seen.metric("gen_ai.invoke_agent.duration")


def test_tools_are_measured():
    """How long a tool takes is a metric, told apart by its name and by whether it failed."""
    seen = Seen()

    async def slow() -> str:
        """Take time, and fail."""
        await seen.clock.sleep(2)
        raise ValueError

    seen.drive([calls(("f", {}), ("slow", {})), says("ok")], tools=[f, slow])
    function = {"gen_ai.tool.type": "function"}

    assert [
        ({"gen_ai.tool.name": "f", **function}, 0),
        ({"gen_ai.tool.name": "slow", **function, "error.type": "error"}, 2),
    ] == seen.metric("gen_ai.execute_tool.duration")


def test_an_end_names_its_counter():
    """A turn whose budget is spent is counted by the counter that ended it; it is no error."""
    seen = Seen()
    seen.drive([calls(("f", {}))], tools=[f], max_requests=1, grace_calls=0)

    assert [({"fsm_loop.outcome": "exhausted", "fsm_loop.counter.name": "requests"}, 1)] == seen.metric("fsm_loop.ends")
    assert ("requests", 1, 1) == tuple(
        seen.turn.attributes[f"fsm_loop.counter{part}"] for part in (".name", ".after", ".cap")
    )
    assert StatusCode.UNSET is seen.turn.status.status_code


@on_each_backend
def test_concurrent_tools_overlap(backend):
    """Two tools of one round have a span each, at the same time, below the turn; each is current in its own tool."""
    seen, current = Seen(), {}

    async def slow(seconds: float) -> str:
        """Sleep."""
        current["slow"] = trace.get_current_span().name
        await seen.clock.sleep(seconds)
        current["slow, later"] = trace.get_current_span().name
        return "slept"

    def threaded(text: str) -> str:
        """Run in a thread."""
        current["threaded"] = trace.get_current_span().name
        assert threading.current_thread() is not threading.main_thread()
        raise ValueError(text)

    wishes = calls(("slow", {"seconds": 3}), ("threaded", {"text": SECRET}))
    seen.drive([wishes, says("done")], tools=[slow, threaded], backend=backend)
    slow_span, failed_span = (
        next(each for each in seen.spans if each.name.endswith(name)) for name in ("slow", "threaded")
    )

    assert [
        ("", "invoke_agent", 0, 3),
        ("invoke_agent", "chat scripted", 0, 0),
        ("invoke_agent", "chat scripted", 3, 3),
        ("invoke_agent", "execute_tool slow", 0, 3),
        ("invoke_agent", "execute_tool threaded", 0, 0),
    ] == [seen.tree[0], *sorted(seen.tree[1:], key=lambda each: each[1:])]
    tools = {"slow": "execute_tool slow", "slow, later": "execute_tool slow", "threaded": "execute_tool threaded"}
    assert tools == current
    assert {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "slow",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "call_1_0",
        "fsm_loop.attempt": 1,
        "fsm_loop.tool_status": "ok",
        "fsm_loop.text_chars": 5,
    } == {**own(slow_span), "gen_ai.tool.call.id": "call_1_0"}
    assert ("error", StatusCode.ERROR) == (failed_span.attributes["error.type"], failed_span.status.status_code)
    assert SECRET not in "".join(span.to_json() for span in seen.spans)


def test_a_retry_with_backoff():
    """A retry is an event with its row and counter, the wait another; each attempt has its own span and fault."""
    seen = Seen()
    fault = fails(FaultKind.OVERLOADED, f"busy {SECRET}", status=529, retry_after_s=4.0)
    seen.drive([fault, says("ok")])
    first = seen.spans[1]

    assert [("", 0, 4), ("chat scripted", 0, 0), ("chat scripted", 4, 4)] == [
        ("", *seen.tree[0][2:]), *(each[1:] for each in seen.tree[1:])
    ]  # fmt: skip
    row = "calling.model_failed.may_retry+api_retries_left"
    moved = ("api_retries", 0, 1, 3)
    assert [(0, "retry", row, *moved), (0, "wait", row, *moved)] == seen.events
    assert 4 == seen.turn.events[1].attributes["fsm_loop.delay_s"]
    assert ("overloaded", 529) == (first.attributes["error.type"], first.attributes["http.response.status_code"])
    assert [StatusCode.UNSET, StatusCode.ERROR, StatusCode.UNSET] == [each.status.status_code for each in seen.spans]
    assert SECRET not in "".join(span.to_json() for span in seen.spans)


def test_a_fallback():
    """A hop to the next model is an event that names it; its request is a span of its own."""
    seen = Seen(vendors={"fallback-1": "anthropic"})
    seen.drive([fails(FaultKind.QUOTA_SPENT)], fallbacks=[[says("ok")]])

    assert ["invoke_agent", "chat scripted", "chat fallback-1"] == [span.name for span in seen.spans]
    assert ["unknown", "anthropic"] == [span.attributes["gen_ai.provider.name"] for span in seen.spans[1:]]
    row = "calling.model_failed.falls_back+fallbacks_left"
    assert [(0, "fallback", row, "fallbacks", 0, 1, 1)] == seen.events
    assert "fallback-1" == seen.turn.events[0].attributes["gen_ai.request.model"]


def test_a_cut_answer_goes_on():
    """Each continuation is a request with a span, and an event with the counter that it spent."""
    seen = Seen()
    cut = Finish.LENGTH
    seen.drive([says("one ", finish=cut), says("two ", finish=cut), says("three")])

    assert ["chat scripted"] * 3 == [name for _, name, _, _ in seen.tree[1:]]
    assert [("length",), ("length",), ("stop",)] == [
        span.attributes["gen_ai.response.finish_reasons"] for span in sorted(seen.spans[1:], key=lambda each: each.attributes["fsm_loop.attempt"])
    ]  # fmt: skip
    assert [("continuation", "continuations", 0, 1), ("continuation", "continuations", 1, 2)] == [
        (name, *moved[:3]) for _, name, _, *moved in seen.events
    ]


@on_each_backend
def test_an_interrupt(backend):
    """An interrupt ends the span in flight at its moment, as abandoned and as no error."""
    seen = Seen()
    seen.drive([(TextDelta("Hel"), Hang())], meanwhile=[(5.0, lambda turn: turn.interrupt())], backend=backend)
    chat = seen.spans[1]

    assert [("", "invoke_agent", 0, 5), ("invoke_agent", "chat scripted", 0, 5)] == seen.tree
    assert (True, 3) == (chat.attributes["fsm_loop.abandoned"], chat.attributes["fsm_loop.text_chars"])
    assert [(5, "interrupt", "streaming.interrupt_asked")] == [event[:3] for event in seen.events]
    assert "interrupted" == seen.turn.attributes["fsm_loop.outcome"]
    assert {StatusCode.UNSET} == {span.status.status_code for span in seen.spans}


def test_an_interrupted_tool():
    """The span of a tool that is let go ends there."""
    seen = Seen()

    async def sleeps() -> str:
        """Never return."""
        await anyio.sleep_forever()
        return ""

    seen.drive([calls(("sleeps", {}))], tools=[sleeps], meanwhile=[(5.0, lambda turn: turn.interrupt())])

    assert ("invoke_agent", "execute_tool sleeps", 0, 5) in seen.tree
    assert next(each for each in seen.spans if "sleeps" in each.name).attributes["fsm_loop.abandoned"]


def test_a_stream_that_drops():
    """Text that was shown and is withdrawn is an event, by its length; the retry after it another."""
    seen = Seen()
    broken = (TextDelta(SECRET), *calls(("f", {}), finish=None), Fail(Fault(FaultKind.DROPPED, SECRET)))
    driven = seen.drive([broken, says("Hello.")], tools=[f])
    dropped = seen.turn.events

    assert "Hello." == driven.screen
    row = "streaming.stream_dropped.tool_in_flight+stream_retries_left"
    assert [(0, "retry", row, "stream_retries", 0, 1, 2)] == [each for each in seen.events if each[1] == "retry"]
    withdrawn = [event.attributes["fsm_loop.text_chars"] for event in dropped if event.name == "fsm_loop.withdrawn"]
    assert [len(SECRET)] == withdrawn
    assert "dropped" == seen.spans[1].attributes["error.type"]
    assert SECRET not in "".join(span.to_json() for span in seen.spans)


def test_a_turn_that_failed():
    """A turn that failed is an error, by its fault's kind; without a provider's own words."""
    seen = Seen()
    seen.drive([fails(FaultKind.BAD_REQUEST, SECRET)])

    assert {"bad_request"} == {span.attributes["error.type"] for span in seen.spans}
    assert {StatusCode.ERROR} == {span.status.status_code for span in seen.spans}
    assert SECRET not in "".join(span.to_json() for span in seen.spans)


def test_text_where_it_is_asked_for():
    """With all content, messages, arguments and results stand on the spans, as `redact` lets them."""
    seen = Seen(content="full", redact=lambda name, text: text.replace(SECRET, "***"))

    async def echo(text: str) -> str:
        """The same."""
        return text

    seen.drive([calls(("echo", {"text": f"a {SECRET}"})), says("done")], tools=[echo], prompt=f"say {SECRET}")
    tool = next(each for each in seen.spans if each.name == "execute_tool echo")
    last = max(seen.spans[1:], key=lambda each: each.attributes["fsm_loop.attempt"])

    assert ('{"text": "a ***"}', "a ***") == (
        tool.attributes["gen_ai.tool.call.arguments"],
        tool.attributes["gen_ai.tool.call.result"],
    )
    asked, said = (json.loads(last.attributes[f"gen_ai.{side}.messages"]) for side in ("input", "output"))
    assert ["user", "assistant", "tool"] == [each["role"] for each in asked]
    assert {"role": "user", "parts": [{"type": "text", "content": "say ***"}]} == asked[0]
    answer = {"role": "assistant", "parts": [{"type": "text", "content": "done"}], "finish_reason": "stop"}
    assert [answer] == said
    assert SECRET not in "".join(span.to_json() for span in seen.spans)


@on_each_backend
def test_the_turn_is_below_its_caller(backend):
    """The turn's span is a child of the span that is current where the turn is asked for."""
    seen = Seen()
    with seen.provider.get_tracer("service").start_as_current_span("request", start_time=0) as outer:
        seen.drive([says("ok")], backend=backend)

    assert outer.get_span_context().span_id == seen.turn.parent.span_id
    assert {outer.get_span_context().trace_id} == {span.context.trace_id for span in seen.spans}


SOON = ((1.0, lambda turn: turn.steer("now", now=True)),)


@pytest.mark.parametrize(
    ("script", "given", "expected"),
    [
        ([says(""), says("ok")], {}, [("nudge", "empty_replies")]),
        ([calls(("g", {})), says("ok")], {"tools": [f]}, [("bad_calls", "bad_tool_rounds")]),
        ([calls(("f", {})), says("ok")], {"tools": [f], "max_requests": 1}, [("grace", "grace_calls")]),
        ([fails(FaultKind.PARAMETER_UNSUPPORTED, parameter="seed"), says("ok")], {}, [("repair", "parameter_repairs")]),
        ([thinks("hm", finish=Finish.LENGTH), says("ok")], {}, [("boost", "boosts")]),
        ([(TextDelta("one"), Hang()), says("ok")], {"meanwhile": SOON}, [("steer", None)]),
        ([fails(FaultKind.OVERLOADED), says("ok")], {"api_max_retries": 0}, [("wait", "recoveries")]),
    ],
    ids=lambda given: given[0][0] if isinstance(given, list) and isinstance(given[0][0], str) else "",
)
def test_whatever_asks_once_more(script, given, expected):
    """Each way to another request is an event of its own name, with the counter that it spends where it spends one."""
    seen = Seen()
    seen.drive(script, **given)

    assert expected == [(name, counter) for _, name, _, counter, *_ in seen.events if name != "withdrawn"]
