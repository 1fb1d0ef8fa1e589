"""A round of tool calls: each has one outcome, whatever its tool does, and the results stand in order."""

from __future__ import annotations

import asyncio
import threading

import anyio
import pytest
from attrs import define, field

from fsm_loop.core.faults import FaultKind
from fsm_loop.core.messages import Finish, ToolStatus
from fsm_loop.drive.notes import Finished, ToolFinished, ToolStarted
from fsm_loop.loop import Loop
from fsm_loop.ports import CallDelta, ToolOutcome, ToolSpec
from fsm_loop.testing.clock import VirtualClock
from fsm_loop.testing.fakes import ScriptedModel, calls, says
from tests.drive.turns import assert_paired, drive, on_each_backend, said_by


@define
class Sleeper:
    """Tools that take as many seconds as they are told, and remember when they ran."""

    clock: VirtualClock = field(factory=VirtualClock)
    spans: dict = field(factory=dict)

    @property
    def tools(self):
        async def rest(seconds: float) -> str:
            """Rest for so many seconds."""
            began = self.clock.now()
            await self.clock.sleep(seconds)
            self.spans[seconds] = (began, self.clock.now())
            return f"rested {seconds:g}"

        return [rest]


def resting(*seconds):
    """A reply that asks for so many rests."""
    return calls(*[("rest", {"seconds": each}) for each in seconds])


def finished(driven):
    """The outcomes that were told, by status, in the order in which they came."""
    return [(note.status, note.text) for note in driven.notes if isinstance(note, ToolFinished)]


@on_each_backend
def test_the_calls_of_a_round_run_side_by_side(backend):
    """A round takes as long as its longest call; the results stand in the order in which they were asked for."""
    sleeper = Sleeper()
    driven = drive([resting(30, 10, 20), says("ok")], tools=sleeper.tools, clock=sleeper.clock, backend=backend)

    assert {30: (0, 30), 10: (0, 10), 20: (0, 20)} == sleeper.spans
    assert ["rested 30", "rested 10", "rested 20"] == said_by(driven.result, "tool")
    assert ["rested 10", "rested 20", "rested 30"] == [text for _, text in finished(driven)]


@on_each_backend
@pytest.mark.parametrize(
    ("workers", "spans"),
    [
        (1, {4: (0, 4), 3: (4, 7), 2: (7, 9), 1: (9, 10)}),
        (2, {4: (0, 4), 3: (0, 3), 2: (3, 5), 1: (4, 5)}),
        (3, {4: (0, 4), 3: (0, 3), 2: (0, 2), 1: (2, 3)}),
    ],
)
def test_no_more_run_at_once_than_there_are_workers(backend, workers, spans):
    """Calls begin in the order in which they were asked for, at most `tool_workers` at once."""
    sleeper = Sleeper()
    drive(
        [resting(4, 3, 2, 1), says("ok")],
        tools=sleeper.tools,
        clock=sleeper.clock,
        backend=backend,
        tool_workers=workers,
    )

    assert spans == sleeper.spans


@on_each_backend
def test_a_tool_that_takes_too_long_has_an_error_for_a_result(backend):
    """After `tool_timeout_s` the call is let go, the model is told, and the others keep their results."""
    sleeper = Sleeper()
    driven = drive(
        [resting(1000, 5), says("ok")], tools=sleeper.tools, clock=sleeper.clock, backend=backend, tool_timeout_s=60
    )

    assert ["timed out: no result after 60 s", "rested 5"] == said_by(driven.result, "tool")
    assert (ToolStatus.ERROR, "timed out: no result after 60 s") == finished(driven)[-1]
    assert (60.0, "completed") == (driven.clock.now(), driven.result.outcome)


@on_each_backend
def test_without_a_timeout_a_tool_may_take_for_ever(backend):
    """`tool_timeout_s` none waits as long as it takes."""
    sleeper = Sleeper()
    driven = drive(
        [resting(86_400), says("ok")], tools=sleeper.tools, clock=sleeper.clock, backend=backend, tool_timeout_s=None
    )

    assert ["rested 86400"] == said_by(driven.result, "tool")


@on_each_backend
def test_a_thread_that_takes_too_long_has_an_unknown_outcome(backend):
    """A synchronous tool that is given up is still running: nobody can say what comes of it."""
    release, turns = threading.Event(), []
    clock = VirtualClock()

    def blocks() -> str:
        """Block until somebody lets go."""
        anyio.from_thread.run_sync(clock.jump, 61.0)
        release.wait(20)
        return "late"

    driven = drive([calls(("blocks", {})), says("ok")], tools=[blocks], clock=clock, backend=backend, tool_timeout_s=60)
    release.set()

    assert [(ToolStatus.UNKNOWN, "timed out: no result after 60 s")] == finished(driven)
    assert ("completed", []) == (driven.result.outcome, turns)


RAISED = {
    "an exception": (KeyError("gone"), "the tool failed: KeyError: 'gone'"),
    "one without words": (ValueError(), "the tool failed: ValueError"),
    "an exit": (SystemExit(3), "the tool failed: SystemExit: 3"),
    "a group": (ExceptionGroup("two", [KeyError("a"), KeyError("b")]), "the tool failed: ExceptionGroup: two"),
}


@on_each_backend
@pytest.mark.parametrize("name", RAISED)
@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("number", [1, 2])
def test_what_a_tool_raises_is_its_result(backend, name, waits, number):
    """Whatever is raised by a tool, alone or beside others, in a thread or not, the model is told and may go on."""
    error, text = RAISED[name]

    async def fails() -> str:
        """Fail."""
        raise error

    def fails_in_a_thread() -> str:
        """Fail."""
        raise error

    tool = fails if waits else fails_in_a_thread
    driven = drive([calls(*[(tool.__name__, {})] * number), says("ok")], tools=[tool], backend=backend)

    assert [(ToolStatus.ERROR, text)] * number == [(status, told.split(" (")[0]) for status, told in finished(driven)]
    assert "completed" == driven.result.outcome


@pytest.mark.parametrize("number", [1, 2])
def test_a_tool_that_cancels_itself_has_failed(number):
    """A CancelledError that nobody asked for, as of a future that was cancelled, is the tool's failure, not the turn's."""

    async def cancels_itself() -> str:
        """Wait for something that is cancelled."""
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        return await future

    driven = drive([calls(*[("cancels_itself", {})] * number), says("ok")], tools=[cancels_itself])

    assert [(ToolStatus.ERROR, "the tool failed: it cancelled itself")] * number == finished(driven)
    assert "completed" == driven.result.outcome


@on_each_backend
def test_a_tool_that_swallows_its_timeout_keeps_its_result(backend):
    """A tool that answers although it was asked to stop is heard: its result came."""
    clock = VirtualClock()

    async def stubborn() -> str:
        """Take no notice."""
        with anyio.CancelScope(shield=True):
            await clock.sleep(100)
        return "done all the same"

    driven = drive(
        [calls(("stubborn", {})), says("ok")], tools=[stubborn], clock=clock, backend=backend, tool_timeout_s=60
    )

    assert ["done all the same"] == said_by(driven.result, "tool")


def test_invalid_calls_stand_among_the_valid_ones():
    """Calls that cannot be run have their errors at once, in their places; the others are run."""
    sleeper = Sleeper()
    wishes = [("rest", {"seconds": 1}), ("nothing", {}), ("rest", {"seconds": "long"}), ("rest", {"seconds": 2})]
    driven = drive([calls(*wishes), says("ok")], tools=sleeper.tools, clock=sleeper.clock)
    results = said_by(driven.result, "tool")

    assert ["rested 1", "rested 2"] == [results[0], results[3]]
    assert "no such tool: 'nothing'" in results[1]
    assert "invalid arguments" in results[2]
    assert_paired(driven.result)


def test_ids_that_come_twice_are_told_apart():
    """Two calls of one reply with one id are two calls, each run once, each with its own result."""
    sleeper = Sleeper()
    reply = (
        CallDelta(0, "same", "rest", '{"seconds": 1}'),
        CallDelta(1, "same", "rest", '{"seconds": 2}'),
        *says("", finish=Finish.TOOL_CALLS),
    )
    driven = drive([reply, says("ok")], tools=sleeper.tools, clock=sleeper.clock)

    assert ["rested 1", "rested 2"] == said_by(driven.result, "tool")
    assert 2 == len({note.call.id for note in driven.notes if isinstance(note, ToolStarted)})


@define
class Adapter:
    """A Tools port of one's own."""

    outcomes: dict
    clock: VirtualClock = field(factory=VirtualClock)
    threads: tuple = ()

    def specs(self):
        return tuple(map(ToolSpec, self.outcomes))

    def problem(self, call):
        return ""

    def in_thread(self, name):
        return name in self.threads

    async def run(self, call):
        outcome = self.outcomes[call.name]
        if outcome is None:
            await anyio.sleep_forever()
        return outcome


@on_each_backend
def test_a_tool_may_stop_the_turn(backend):
    """An outcome that says stop ends the turn as failed; the calls beside it are let go, honestly."""
    adapter = Adapter(
        {"task": None, "thread": None, "guard": ToolOutcome("again?", stop="three times the same")}, threads=("thread",)
    )
    script = [calls(("task", {}), ("thread", {}), ("guard", {})), says("never")]
    driven = drive(script, tools=adapter, backend=backend)

    assert ("failed", FaultKind.TOOL_LOOP, "three times the same") == (
        driven.result.outcome, driven.result.fault.kind, driven.result.fault.message,
    )  # fmt: skip
    assert [
        "interrupted: no result", "outcome unknown: still running when the turn ended", "again?",
    ] == said_by(driven.result, "tool")  # fmt: skip
    assert 1 == driven.calls
    assert_paired(driven.result)


def test_an_outcome_of_no_shape_is_an_error():
    """An adapter that returns something else than an outcome has failed, and only it."""
    driven = drive([calls(("odd", {})), says("ok")], tools=Adapter({"odd": "text"}))

    assert ["the tool failed: its adapter returned str, not an outcome"] == said_by(driven.result, "tool")
    assert "completed" == driven.result.outcome


def test_a_check_that_raises_is_told_to_the_model():
    """A Tools port that cannot check a call leaves it unrun, and the model is told."""

    class Broken(Adapter):
        def problem(self, call):
            raise ZeroDivisionError("a bug")

    driven = drive([calls(("odd", {})), says("ok")], tools=Broken({"odd": ToolOutcome("never")}))

    assert ["the call could not be checked: ZeroDivisionError: a bug"] == said_by(driven.result, "tool")
    assert "completed" == driven.result.outcome


@on_each_backend
def test_what_a_tool_comes_to_after_the_end_is_not_told(backend):
    """A tool that goes on although the turn is over is heard by nobody: Finished was the last word."""
    clock = VirtualClock()

    async def stubborn() -> str:
        """Take no notice."""
        with anyio.CancelScope(shield=True):
            await clock.sleep(5)
        return "done all the same"

    loop = Loop(model=ScriptedModel([calls(("stubborn", {}))]), tools=[stubborn], clock=clock)

    async def main():
        async with loop.stream("hi") as turn:
            await clock.sleep(1)
            turn.interrupt()
        return [note async for note in turn], turn.result

    notes, result = clock.run(main, backend)

    assert isinstance(notes[-1], Finished)
    assert ["interrupted: no result"] == said_by(result, "tool")
    assert "late" not in [entry.row for entry in result.trail]
