"""The simulation driver: the same script leads it and the asynchronous driver through the same turn."""

from __future__ import annotations

import json

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm_loop import LoopConfig
from fsm_loop.core.effects import CallModel, RunTool
from fsm_loop.core.events import InterruptAsked, ModelFailed, SteerGiven, StreamDropped, StreamStarted
from fsm_loop.core.faults import Fault, FaultKind
from fsm_loop.core.messages import Finish, Reply, ToolCall, ToolStatus, Usage, UserMessage
from fsm_loop.drive.result import entry_of
from fsm_loop.drive.sim import Heard, Word, replies, returns, simulate
from fsm_loop.errors import FsmLoopError
from fsm_loop.testing.fakes import Pause, SeededChance, calls, fails, says
from tests.drive.turns import drive

PROMPT = (UserMessage("hi"),)
GOOD = ToolCall("", "add", json.dumps({"a": 1, "b": 2}))
BAD = ToolCall("", "no_such_tool", "{}", "no such tool: 'no_such_tool'; the tools are: add.")


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


# What a model does: for the asynchronous driver as steps of a script, for the simulation as what is heard.
def said(text, finish, usage=None):
    """Text, with an end or without one."""
    reply = Reply(text, finish=finish, **({"usage": usage} if usage else {}))
    return (Pause(2.0), *says(text, finish=finish, usage=usage)), lambda attempt: replies(reply, first_s=2.0)


def wished(call):
    """A wish for one tool."""

    def heard(attempt):
        return replies(Reply(tool_calls=(evolve(call, id=f"call_{attempt}_0"),), finish=Finish.TOOL_CALLS), first_s=1.0)

    return (Pause(1.0), *calls((call.name, call.arguments))), heard


def failed(kind, **facts):
    """A failure before anything came."""
    fault = Fault(kind, "told", **facts)
    event = StreamDropped if kind is FaultKind.DROPPED else ModelFailed
    return (Pause(3.0), *fails(kind, "told", **facts)), lambda attempt: (Heard(event, {"fault": fault}, 3.0),)


def dropped(text):
    """A stream that breaks off in its text."""
    fault = Fault(FaultKind.DROPPED, "told")

    def heard(attempt):
        return Heard(StreamStarted, after_s=1.0), Heard(StreamDropped, {"fault": fault, "partial": Reply(text)})

    return (Pause(1.0), *says(text, finish=None), *fails(FaultKind.DROPPED, "told")), heard


DEEDS = {
    "answer": said("It is a door.", Finish.STOP),
    "paid": said("It costs.", Finish.STOP, Usage(100, 20)),
    "cut": said("It is a ", Finish.LENGTH),
    "empty": said("", Finish.STOP),
    "refused": said("No.", Finish.REFUSED),
    "paused": said("Let me see. ", Finish.PAUSED),
    "tool": wished(GOOD),
    "bad tool": wished(BAD),
    "dropped": failed(FaultKind.DROPPED),
    "dropped in text": dropped("It is "),
    "overloaded": failed(FaultKind.OVERLOADED),
    "limited": failed(FaultKind.RATE_LIMITED, retry_after_s=7.0),
    "denied": failed(FaultKind.ACCESS_DENIED),
    "bad unicode": failed(FaultKind.BAD_UNICODE),
    "limit too high": failed(FaultKind.OUTPUT_LIMIT_TOO_HIGH, limit=1000),
    "no stream": failed(FaultKind.STREAMING_UNSUPPORTED),
}


class World:
    """The deeds one after the other, then answers; the tool adds."""

    def __init__(self, deeds):
        self.deeds = iter(deeds)

    def __call__(self, effect, turn):
        match effect:
            case CallModel(attempt):
                return DEEDS[next(self.deeds, "answer")][1](attempt)
            case RunTool(_, call):
                return returns(call.id, str(add(**json.loads(call.arguments))))
        return None


def both(deeds, seed=0, fallbacks=0, **config):
    """The turn of these deeds through both drivers."""
    left = iter(deeds)
    scripts = [lambda request: DEEDS[next(left, "answer")][0]] * (fallbacks + 1)
    driven = drive(scripts[0], fallbacks=scripts[1:], tools=[add], seed=seed, **config).result
    names = ("scripted", *(f"fallback-{number}" for number in range(1, fallbacks + 1)))
    simulated = simulate(
        World(deeds), PROMPT, config=LoopConfig(**config), providers=names, chance=SeededChance(seed).draw
    )
    return driven, simulated


def told(entries):
    """What is compared of decisions: all but texts that only one of the drivers has reason to know."""
    return [
        (each.seq, round(each.at, 6), each.before, each.row, each.answers, each.moved, each.effects, each.after)
        for each in entries
    ]


def same(driven, simulated):
    """Whether the two turns are one."""
    entries = [entry_of(seq, decision) for seq, decision in enumerate(simulated.decisions)]
    assert told(driven.trail) == told(entries)
    assert driven.outcome == simulated.outcome
    assert driven.waited_s == pytest.approx(simulated.waited_s)
    assert driven.llm_calls == simulated.turn.record.sent
    assert driven.text == simulated.turn.record.end.text
    assert {name: count for name, count in driven.counters.items() if count} == {
        name: count for name, count in simulated.turn.record.counts.items() if count
    }


@pytest.mark.parametrize("deed", DEEDS)
def test_a_deed_is_the_same_in_both(deed):
    """Each thing that a model may do, and then an answer."""
    same(*both([deed]))


@pytest.mark.parametrize("deed", DEEDS)
def test_a_deed_for_ever_is_the_same_in_both(deed):
    """Each thing that a model may do, again and again until the turn ends, with a provider to fall back to."""
    same(*both([deed] * 300, fallbacks=1, max_iterations=5))


@settings(max_examples=150, derandomize=True)
@given(
    deeds=st.lists(st.sampled_from([*DEEDS]), max_size=12),
    seed=st.integers(0, 99),
    fallbacks=st.integers(0, 2),
    caps=st.fixed_dictionaries(
        {}, optional={name: st.integers(0, 3) for name in ("max_iterations", "api_max_retries", "stream_retries", "recoveries", "continuations")}
        | {"max_requests": st.integers(1, 8), "tokens": st.integers(1, 300), "grace_calls": st.integers(0, 1)},
    ),
)  # fmt: skip
def test_any_script_is_the_same_in_both(deeds, seed, fallbacks, caps):
    """Whatever a model does, one thing after the other, under whatever caps."""
    same(*both(deeds, seed, fallbacks, **caps))


def test_the_same_turn_twice():
    """The same world, words and chance give the same turn."""
    deeds = ["overloaded", "tool", "cut", "dropped in text"]
    one, other = (simulate(World(deeds), PROMPT, chance=SeededChance(3).draw) for _ in range(2))

    assert one == other
    assert ("completed", True) == (one.outcome, one.lasted_s > one.waited_s > 0)


@pytest.mark.parametrize("after", range(1, 9))
def test_an_interrupt_at_any_moment_ends_the_turn(after):
    """A word is said when so many decisions have been made; what was on its way is let go."""
    words = [Word(after, InterruptAsked, {"issuer": "user"})]
    ended = simulate(World(["tool", "overloaded"]), PROMPT, words=words)

    assert "interrupted" == ended.outcome
    assert after + 1 == len(ended.decisions)


def test_a_steer_is_heard():
    """What is said during the turn is in the next request."""
    ended = simulate(World(["tool"]), PROMPT, words=[Word(3, SteerGiven, {"text": "in French"})])
    requests = [
        each.request for decision in ended.decisions for each in decision.effects if isinstance(each, CallModel)
    ]

    assert ["in French" in repr(each.messages) for each in requests] == [False, True]


def test_a_world_may_answer_everything():
    """A tool that fails, a limiter that has no slot: whatever the world says is heard."""

    def world(effect, turn):
        if isinstance(effect, RunTool):
            return returns(effect.call.id, "broken", ToolStatus.ERROR, after_s=4.0)
        return known(effect, turn)

    known = World(["tool"])
    ended = simulate(world, PROMPT)

    assert 7.0 == ended.lasted_s
    assert "broken" in repr(ended.turn.record.said)


def test_a_world_without_an_answer_is_told():
    """What only the world can answer is asked for by name."""
    with pytest.raises(FsmLoopError, match="no answer to CallModel: it must say what a model replies"):
        simulate(lambda effect, turn: None, PROMPT)
    with pytest.raises(FsmLoopError, match="no answer to RunTool: it must say what the tool returns"):
        simulate(lambda effect, turn: None if isinstance(effect, RunTool) else World(["tool"])(effect, turn), PROMPT)
    with pytest.raises(FsmLoopError, match="nothing is left to do in calling"):
        simulate(lambda effect, turn: (), PROMPT)
