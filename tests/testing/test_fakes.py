"""The fakes pass for the real thing: they keep the rules of the ports."""

from __future__ import annotations

import anyio
import pytest

from fsm_loop.config import LoopConfig
from fsm_loop.core.effects import Request
from fsm_loop.core.faults import Fault, FaultKind
from fsm_loop.core.messages import Finish, Usage
from fsm_loop.errors import ModelError
from fsm_loop.ports import CallDelta, Meta, Model, ReasoningDelta, Stopped, TextDelta
from fsm_loop.testing.clock import VirtualClock
from fsm_loop.testing.fakes import (
    Fail,
    Hang,
    Pause,
    Raise,
    Recorder,
    ScriptedModel,
    SeededChance,
    calls,
    fails,
    says,
    thinks,
)
from tests.drive.turns import drive, on_each_backend

REQUEST = Request(0, ())


async def ask(model, request=REQUEST):
    """Everything that the model says to one request."""
    async with model.ask(request, (), LoopConfig()) as deltas:
        return [delta async for delta in deltas]


@pytest.mark.parametrize(
    ("steps", "deltas"),
    [
        (says("a", "b"), [TextDelta("a"), TextDelta("b"), Stopped(Finish.STOP)]),
        (says("a", finish=None), [TextDelta("a")]),
        (says("a", finish=Finish.LENGTH, usage=Usage(1, 2)), [TextDelta("a"), Stopped(Finish.LENGTH), Meta(Usage(1, 2))]),
        (thinks("hm"), [ReasoningDelta("hm"), Stopped(Finish.STOP)]),
        (calls(("f", {"n": 1}), ("g", "{"), text="so"),
         [TextDelta("so"), CallDelta(0, "", "f", '{"n": 1}'), CallDelta(1, "", "g", "{"), Stopped(Finish.TOOL_CALLS)]),
        ((), []),
    ],
)  # fmt: skip
def test_a_script_is_said_as_it_stands(steps, deltas):
    """Each step of a reply is one delta, in order."""
    assert deltas == anyio.run(ask, ScriptedModel([steps]))


def test_replies_come_in_their_order_and_then_no_more():
    """One request more than the script has fails as a bad request, and says so."""
    model = ScriptedModel([says("a"), says("b")], name="mine")

    assert [TextDelta("a"), TextDelta("b")] == [anyio.run(ask, model)[0] for _ in range(2)]
    with pytest.raises(ModelError, match="script of mine has no reply number 3") as caught:
        anyio.run(ask, model)
    assert (FaultKind.BAD_REQUEST, 3) == (caught.value.fault.kind, len(model.requests))


def test_a_script_may_be_a_function_of_the_request():
    """It is asked each time."""
    model = ScriptedModel(lambda request: says("tools") if request.tools else says("no tools"))

    assert TextDelta("no tools") == anyio.run(ask, model, Request(0, (), tools=False))[0]


@pytest.mark.parametrize(
    ("step", "error"),
    [
        (Fail(Fault(FaultKind.DROPPED, "x")), ModelError),
        (Raise(OSError("x")), OSError),
        (fails(FaultKind.DROPPED, "x")[0], ModelError),
    ],
)
def test_what_goes_wrong_is_raised_where_it_stands(step, error):
    """A fault is raised as a model's, anything else as itself, after what was said before it."""
    model = ScriptedModel([(TextDelta("a"), step)])
    heard = []

    async def main():
        async with model.ask(REQUEST, (), LoopConfig()) as deltas:
            heard.extend([delta async for delta in deltas])

    with pytest.raises(error, match="x"):
        anyio.run(main)
    assert 0 == model.open_calls


@on_each_backend
@pytest.mark.parametrize("with_clock", [True, False])
def test_pauses_are_on_the_clock_that_is_given(backend, with_clock):
    """With a clock a pause is virtual, without one it is real; a connection takes as long as it is told."""
    clock = VirtualClock()
    model = ScriptedModel([(Pause(0.01), *says("a"))], clock=clock if with_clock else None, opens_after_s=0.02)
    clock.run(lambda: ask(model), backend)

    assert (0.03 if with_clock else 0.0) == pytest.approx(clock.now())


@on_each_backend
@pytest.mark.parametrize("steps", [(Hang(),), (TextDelta("a"), Hang()), (Pause(3600.0),)])
def test_it_lets_itself_be_cancelled_at_any_moment(backend, steps):
    """A model that is let go closes its call at once, and says nothing after that."""
    model = ScriptedModel([steps])

    async def main():
        with anyio.move_on_after(0.01) as scope:
            await ask(model)
        return scope.cancelled_caught

    assert anyio.run(main, backend=backend)
    assert 0 == model.open_calls


@on_each_backend
def test_who_leaves_in_the_middle_leaves_nothing_open(backend):
    """A stream that is not read to its end is closed with its call."""
    model = ScriptedModel([says("a", "b", "c")])

    async def main():
        async with model.ask(REQUEST, (), LoopConfig()) as deltas:
            async for _ in deltas:
                break

    anyio.run(main, backend=backend)

    assert 0 == model.open_calls


def test_it_is_a_model():
    """It has what the port asks for."""
    assert isinstance(ScriptedModel(()), Model)


def test_luck_can_be_had_again():
    """The same seed, the same draws."""
    one, again, other = SeededChance(7), SeededChance(7), SeededChance(8)
    draws = [[each.draw() for _ in range(20)] for each in (one, again, other)]

    assert draws[0] == draws[1] != draws[2]


def test_a_recorder_keeps_what_it_saw():
    """Each decision, and the rows by name."""
    recorder = Recorder()
    driven = drive([says("ok")], ports={"watchers": [recorder]})

    assert [entry.row for entry in driven.result.trail] == recorder.rows
    assert [decision.name for decision in recorder.decisions] == recorder.rows
