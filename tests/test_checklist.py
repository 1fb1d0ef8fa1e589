"""The seven ways in which a loop like this is known to only look finished: each has a test that sees it."""

from __future__ import annotations

import itertools
import threading

import anyio
import anyio.from_thread
import pytest

from fsm_loop import Loop
from fsm_loop.core.faults import FaultKind
from fsm_loop.core.messages import Finish
from fsm_loop.ports import ReasoningDelta, TextDelta
from fsm_loop.testing.clock import VirtualClock
from fsm_loop.testing.fakes import Hang, ScriptedModel, calls, fails, says
from tests.drive.turns import assert_paired, drive, on_each_backend


async def look(number: int) -> str:
    """Look at something."""
    return f"seen {number}"


# ---------------------------------------------------------------- 1. no stale-stream timeout


@on_each_backend
@pytest.mark.parametrize(
    ("silence", "next_state"),
    [
        pytest.param((TextDelta("half"), Hang()), "truncated", id="after text"),
        pytest.param((ReasoningDelta("hm"), Hang()), "backoff", id="after reasoning"),
    ],
)
def test_item_1_a_stream_that_falls_silent_is_ended_after_90_seconds(backend, silence, next_state):
    """A stream that hangs is ended 90 s after it last said something, though no chunk ever comes again."""
    driven = drive([silence, says(" and the rest")], backend=backend)
    stalled = next(each for each in driven.result.trail if "stream_stalled" in each.row)

    assert (90.0, next_state) == (stalled.at, stalled.after)
    assert "completed" == driven.result.outcome


@on_each_backend
def test_item_1_a_call_that_never_begins_is_ended(backend):
    """A call of which nothing is ever heard ends too, each attempt after 300 s; the turn is over and says why."""
    driven = drive(lambda _: (Hang(),), backend=backend, recoveries=0)

    assert 4 == driven.calls
    assert ("failed", FaultKind.STALLED) == (driven.result.outcome, driven.result.fault.kind)
    assert "api_retries" == driven.result.exhausted.counter


# ---------------------------------------------------------------- 2. continuations without bound


@pytest.mark.parametrize("cap", [0, 1, 3])
def test_item_2_continuations_are_bounded(cap):
    """A model that is always cut, and always says something new, is asked on as often as the cap says, no more."""
    numbers = itertools.count()
    driven = drive(lambda _: says(f"part {next(numbers)}. ", finish=Finish.LENGTH), continuations=cap)

    assert cap + 1 == driven.calls
    assert "".join(f"part {number}. " for number in range(cap + 1)) == driven.result.text
    assert "partial" == driven.result.outcome
    assert ("continuations", cap, cap) == _spent(driven)


# ---------------------------------------------------------------- 3. the same output limit again


def test_item_3_each_retry_of_a_cut_tool_call_has_a_larger_output_limit():
    """A tool call that is cut is asked for again in the same words, with twice the room each time."""
    driven = drive(
        lambda _: calls(("look", '{"number": 1'), finish=Finish.LENGTH), tools=[look], max_output_tokens=1000
    )
    limits = [request.output_limit for request in driven.requests]

    assert [1000, 2000, 4000, 8000] == limits
    assert 1 == len({request.messages for request in driven.requests})
    assert ("failed", ("boosts", 3, 3)) == (driven.result.outcome, _spent(driven))


def test_item_3_no_cut_call_is_asked_for_again_without_more_room():
    """Once the ceiling is reached the same request is not sent again, whatever is left of the boosts."""
    cut = calls(("look", '{"number": 1'), finish=Finish.LENGTH)
    driven = drive(lambda _: cut, tools=[look], max_output_tokens=1000, output_ceiling_tokens=2000)

    assert [1000, 2000] == [request.output_limit for request in driven.requests]
    assert ("failed", FaultKind.CUT) == (driven.result.outcome, driven.result.fault.kind)


# ---------------------------------------------------------------- 4. no jitter


def test_item_4_backoff_has_jitter():
    """Turns that fail alike do not retry in step: their waits differ, each within a quarter of the doubled delay."""
    waits = [drive(lambda _: fails(FaultKind.OVERLOADED), seed=seed, recoveries=0).waits for seed in range(20)]

    assert 20 == len({tuple(each) for each in waits})
    for each in waits:
        assert 3 == len(each)
        assert all(0.75 * base <= wait <= 1.25 * base for wait, base in zip(each, (5, 10, 20), strict=True))
    assert 20 == len({each[0] for each in waits})


# ---------------------------------------------------------------- 5. no grace call


@on_each_backend
def test_item_5_a_spent_budget_is_followed_by_one_grace_call(backend):
    """When the iterations are spent the model has one last word, with tools off, and that word is the answer."""

    def script(request):
        return calls(("look", {"number": 1})) if request.tools else says("what I have found")

    driven = drive(script, tools=[look], max_iterations=3, backend=backend)

    assert [True, True, True, False] == [request.tools for request in driven.requests]
    assert 1 == driven.states.count("grace")
    assert ("exhausted", "what I have found") == (driven.result.outcome, driven.result.text)
    assert ("iterations", 3, 3) == _spent(driven)
    assert_paired(driven.result)


@pytest.mark.parametrize(
    "last_word",
    [
        pytest.param(fails(FaultKind.SERVER_ERROR), id="fails"),
        pytest.param(says(""), id="is empty"),
        pytest.param((Hang(),), id="hangs"),
        pytest.param(calls(("look", {"number": 2})), id="asks for a tool"),
    ],
)
def test_item_5_the_last_valid_partial_is_not_lost_where_the_last_word_is(last_word):
    """Where the last word brings nothing, what the model said last is the answer; nothing is asked a second time."""

    def script(request):
        return calls(("look", {"number": 1}), text="so far: one") if request.tools else last_word

    driven = drive(script, tools=[look], max_iterations=1)

    assert ("exhausted", "so far: one") == (driven.result.outcome, driven.result.text)
    assert 2 == driven.calls
    assert_paired(driven.result)


# ---------------------------------------------------------------- 6. interrupts heard only between rounds


@on_each_backend
def test_item_6_an_interrupt_during_a_tool_is_heard_at_once(backend):
    """An interrupt while tools run ends the turn at that second; no tool and no call begins after it."""
    begun, finished, driven_clock = [], [], VirtualClock()

    async def work(number: int) -> str:
        """Work for an hour."""
        begun.append(number)
        await driven_clock.sleep(3600)
        finished.append(number)
        return "done"

    driven = drive(
        [calls(("work", {"number": 1}), ("work", {"number": 2}), ("work", {"number": 3})), says("never")],
        tools=[work], tool_workers=2, backend=backend, clock=driven_clock, tool_timeout_s=None,
        meanwhile=[(7.0, lambda turn: turn.interrupt("user"))],
    )  # fmt: skip

    assert ("interrupted", "tool_exec", "user") == (
        driven.result.outcome,
        driven.result.last_state,
        driven.result.issuer,
    )
    assert 7.0 == driven.result.trail[-1].at == driven_clock.now()
    assert ([1, 2], [], 1) == (begun, finished, driven.calls)
    assert_paired(driven.result)


@on_each_backend
def test_item_6_an_interrupt_does_not_wait_for_a_thread(backend):
    """A synchronous tool that cannot be stopped is let go: its outcome is unknown, and the turn is over."""
    release, finished, turns = threading.Event(), [], []

    def stuck() -> str:
        """Ask for an interrupt, and take no notice of it."""
        anyio.from_thread.run_sync(turns[0].interrupt, "user")
        release.wait(10)
        finished.append("late")
        return "late"

    async def main():
        loop = Loop(model=ScriptedModel([calls(("stuck", {}))]), tools=[stuck])
        async with loop.stream("hi") as turn:
            turns.append(turn)
            async for _ in turn:
                pass
        still_running = not finished
        release.set()
        return turn.result, still_running

    result, still_running = anyio.run(main, backend=backend)

    assert still_running
    assert "interrupted" == result.outcome
    assert "outcome unknown" in next(each["content"] for each in result.messages if each["role"] == "tool")


# ---------------------------------------------------------------- 7. sanitising without bound


def test_item_7_sanitising_is_bounded_where_bad_text_keeps_coming_back():
    """A model that puts bad text into the conversation over and over has it cleaned twice; the third time ends it."""

    def script(request):
        dirty = any(
            "\ud800" in each.arguments for message in request.messages for each in getattr(message, "tool_calls", ())
        )
        return fails(FaultKind.BAD_UNICODE) if dirty else calls(("note", '{"text": "\ud800"}'))

    async def note(text: str) -> str:
        """Note something."""
        return "noted"

    driven = drive(script, tools=[note])

    assert "failed" == driven.result.outcome
    assert ("sanitizations", 2, 2) == _spent(driven)
    assert 2 == driven.states.count("repairing")


def test_item_7_a_repair_that_changes_nothing_is_not_followed_by_the_same_request():
    """A provider that calls clean text bad is not sent it again, however much is left of the counter."""
    driven = drive(lambda _: fails(FaultKind.BAD_UNICODE), prompt="clean")

    assert 1 == driven.calls
    assert ("failed", FaultKind.BAD_UNICODE) == (driven.result.outcome, driven.result.fault.kind)


def _spent(driven):
    spent = driven.result.exhausted
    return (spent.counter, spent.value, spent.cap)
