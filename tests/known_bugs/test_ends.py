"""Faults of other loops in how a turn ends and what it leaves behind, by the row of the list in which they stand."""

from __future__ import annotations

import functools
import itertools

import pytest

from fsm_loop.core.faults import Fault, FaultKind
from fsm_loop.core.messages import Finish, ToolMessage
from fsm_loop.errors import TurnEnded
from fsm_loop.limiter import SlidingWindow
from fsm_loop.loop import Loop
from fsm_loop.ports import CallDelta, ReasoningDelta, TextDelta
from fsm_loop.testing.clock import VirtualClock
from fsm_loop.testing.fakes import Fail, Hang, Pause, ScriptedModel, SeededChance, calls, fails, says
from tests.drive.turns import assert_paired, drive, follow, on_each_backend, said_by

LOOK = calls(("look", {"number": 1}))
TWO = calls(("look", {"number": 1}), ("look", {"number": 2}))
DROP = Fail(Fault(FaultKind.DROPPED, "reset"))


async def look(number: int) -> str:
    """Look at something."""
    return f"seen {number}"


def slow_look(clock):
    """A tool that takes five seconds."""

    async def look(number: int) -> str:
        """Look at something."""
        await clock.sleep(5 * number)
        return f"seen {number}"

    return look


# A turn that passes every kind of wait: slot, slow call, stream, tools, backoff, repair, fallback, recovery, grace.
LONG = (
    (Pause(2.0), *calls(("look", {"number": 1}), ("look", {"number": 2}), text="Let me see. ")),
    (Pause(2.0), *fails(FaultKind.OVERLOADED)),
    (TextDelta("It is "), Pause(2.0), DROP),
    (Pause(1.0), TextDelta("clear that "), Pause(1.0), *says("so", finish=Finish.LENGTH)),
    (Pause(1.0), *fails(FaultKind.BAD_UNICODE)),
    (TextDelta("I look. "), Pause(2.0), CallDelta(0, "x", "look", '{"numb'), Pause(1.0), DROP),
    (Pause(1.0), *fails(FaultKind.OVERLOADED)),
    (Pause(1.0), *fails(FaultKind.OVERLOADED)),
    (Pause(2.0), *LOOK),
    (Pause(2.0), *LOOK),
    (Pause(2.0), TextDelta("At last."), Pause(2.0), *says("")),
)
LONG_LIMITS = {"max_iterations": 3, "api_max_retries": 1, "requests_per_minute": 6}


def long_turn(backend="asyncio", meanwhile=(), **more):
    """A turn of every kind of wait, and what happens meanwhile."""
    clock = VirtualClock()
    script = ScriptedModel(LONG)
    fallback = ScriptedModel(lambda _: (Pause(1.0), *fails(FaultKind.OVERLOADED)))
    limiter = SlidingWindow(LONG_LIMITS["requests_per_minute"])
    return drive(
        script, prompt="dirty \ud800", fallbacks=[fallback], tools=[slow_look(clock)], clock=clock, meanwhile=meanwhile,
        backend=backend, ports={"limiter": limiter}, **LONG_LIMITS, **more,
    )  # fmt: skip


@functools.cache
def moments(every: int = 1):
    """A moment in the middle of each wait of the long turn, or of every so many of them."""
    times = sorted({entry.at for entry in long_turn().result.trail})
    return [round((before + after) / 2, 3) for before, after in itertools.pairwise(times)][::every]


def test_the_long_turn_passes_every_kind_of_wait():
    """The turn that these tests cut at every moment goes through every state."""
    driven = long_turn()

    assert {"calling", "streaming", "truncated", "tool_exec", "backoff", "repairing", "fallback", "recovering"} <= set(
        driven.states
    )
    assert "grace" in driven.states
    assert ("exhausted", "At last.") == (driven.result.outcome, driven.result.text)


# ---------------------------------------------------------------- interrupts


@on_each_backend
def test_row_18_nothing_begins_after_an_interrupt(backend):
    """Interrupted at any moment of any wait, the turn ends at that moment, and no call and no tool begins after it."""
    for moment in moments(1 if backend == "asyncio" else 4):
        asked_at = []

        def stop(turn, asked_at=asked_at):
            asked_at.append(turn.state)
            turn.interrupt("user")

        driven = long_turn(backend, meanwhile=[(moment, stop)])

        assert [driven.result.last_state] == asked_at
        assert moment == driven.clock.now() == driven.result.trail[-1].at
        assert driven.calls == driven.result.llm_calls
        assert ("interrupted", "user") == (driven.result.outcome, driven.result.issuer)
        assert [0, 0] == [model.open_calls for model in driven.models]
        assert_paired(driven.result)


@on_each_backend
def test_row_20_nothing_of_ours_stays_broken_over_turns(backend):
    """After any number of turns that all stalled, the next one begins with the primary, and completes."""
    clock = VirtualClock()
    health = {"ok": False}
    primary = ScriptedModel(lambda _: says("healthy") if health["ok"] else (Hang(),), clock=clock)
    spare = ScriptedModel(lambda _: (Hang(),), name="spare", clock=clock)
    loop = Loop(model=primary, fallbacks=[spare], clock=clock, chance=SeededChance())

    async def main():
        stalled = [await loop.run("hi") for _ in range(8)]
        asked = len(primary.requests)
        health["ok"] = True
        return stalled, asked, await loop.run("hi")

    stalled, asked, healthy = clock.run(main, backend)

    assert {"failed"} == {result.outcome for result in stalled}
    assert ("completed", "healthy", 1) == (healthy.outcome, healthy.text, healthy.llm_calls)
    assert asked + 1 == len(primary.requests)


@on_each_backend
def test_row_37_every_end_leaves_messages_that_can_be_sent_on(backend):
    """Whenever a turn ends, no tool call lacks its result, the tail is no tool's, and another turn can begin with them."""
    for moment in moments(1 if backend == "asyncio" else 4):
        driven = long_turn(backend, meanwhile=[(moment, lambda turn: turn.interrupt("user"))])

        assert_paired(driven.result)
        again = drive([says("yes")], prompt=[*driven.result.messages, {"role": "user", "content": "and?"}])
        assert "completed" == again.result.outcome


@pytest.mark.parametrize("moment", [0.5, 4.9, 5.1, 9.9])
@pytest.mark.parametrize("workers", [1, 2])
def test_row_38_each_call_has_one_result_after_an_interrupt(moment, workers):
    """Interrupted before, between and after the tools of a round, each of its calls has one result, in order."""
    clock = VirtualClock()
    driven = drive(
        [TWO, says("never")], tools=[slow_look(clock)], clock=clock, tool_workers=workers,
        meanwhile=[(moment, lambda turn: turn.interrupt("user"))],
    )  # fmt: skip
    first = "seen 1" if moment > 5 else "interrupted: no result"

    assert [first, "interrupted: no result"] == said_by(driven.result, "tool")
    assert_paired(driven.result)


def test_row_38_each_call_has_one_result_after_an_exception():
    """A tool that raises has an error for a result, and the others have theirs."""

    async def look(number: int) -> str:
        """Look at something."""
        if number == 1:
            raise KeyError("gone")
        return "seen"

    driven = drive([TWO, says("done")], tools=[look])

    assert ["the tool failed: KeyError: 'gone'", "seen"] == said_by(driven.result, "tool")
    assert_paired(driven.result)


def test_row_52_an_interrupt_has_an_issuer():
    """The end says who asked for it, and why."""
    stop = lambda turn: turn.interrupt("operator", "deploying")  # noqa: E731  # a happening
    driven = drive([(Hang(),)], meanwhile=[(1.0, stop)])

    assert ("operator", "deploying") == (driven.result.issuer, driven.result.reason)
    assert "asked by operator (deploying)" in driven.result.why


# ---------------------------------------------------------------- grace


def test_row_39_the_grace_call_has_every_result_before_it():
    """The last request holds the result of each call that was made, and the messages after it are whole."""

    def script(request):
        return TWO if request.tools else says("the last word")

    driven = drive(script, tools=[look], max_iterations=2)
    last = driven.requests[-1]

    assert ("exhausted", "the last word", 3) == (driven.result.outcome, driven.result.text, driven.calls)
    assert ["seen 1", "seen 2"] * 2 == [message.text for message in last.messages if isinstance(message, ToolMessage)]
    assert_paired(driven.result)


def test_row_39_calls_that_are_over_the_budget_have_their_results_too():
    """Calls of a reply for which no iteration is left are answered as not run before the last word."""

    def script(request):
        return TWO if request.tools else says("the last word")

    driven = drive(script, tools=[look], max_iterations=0)

    assert ["not executed: the limit of this turn is reached"] * 2 == said_by(driven.result, "tool")
    assert_paired(driven.result)


@pytest.mark.parametrize("text", ["", "in short"])
def test_row_40_a_tool_call_in_the_last_word_is_discarded(text):
    """The last reply's tool call is neither run nor kept, and the turn is not called completed."""
    ran = []

    async def look(number: int) -> str:
        """Look at something."""
        ran.append(number)
        return "seen"

    driven = drive(lambda request: calls(("look", {"number": 1}), text=text), tools=[look], max_iterations=1)

    assert ("exhausted", text, [1]) == (driven.result.outcome, driven.result.text, ran)
    assert 1 == sum(bool(message.get("tool_calls")) for message in driven.result.messages)
    assert_paired(driven.result)


@pytest.mark.parametrize("grace_calls", [0, 1])
def test_row_41_an_answer_that_was_composed_is_not_lost_with_the_budget(grace_calls):
    """What the model had said before the budget ran out is the answer where nothing better comes."""

    def script(request):
        return calls(("look", {"number": 1}), text="It is four.") if request.tools else fails(FaultKind.SERVER_ERROR)

    driven = drive(script, tools=[look], max_iterations=1, grace_calls=grace_calls)

    assert ("exhausted", "It is four.") == (driven.result.outcome, driven.result.text)
    assert "It is four." in said_by(driven.result, "assistant")


def test_row_41_an_answer_that_was_being_continued_is_not_lost_with_the_budget():
    """Pieces of an answer are delivered when the requests run out in the middle of it."""
    driven = drive(lambda _: says("a piece. ", finish=Finish.LENGTH), max_requests=1, grace_calls=0)

    assert ("exhausted", "a piece. ") == (driven.result.outcome, driven.result.text)
    assert ["a piece. "] == said_by(driven.result, "assistant")


# ---------------------------------------------------------------- what is shown, and what is kept


@on_each_backend
def test_row_42_what_was_shown_is_what_is_kept(backend):
    """Whenever a turn ends, the text that stands on the screen is the text of its messages."""
    for moment in [*moments(1 if backend == "asyncio" else 4), 10_000.0]:
        driven = long_turn(backend, meanwhile=[(moment, lambda turn: turn.interrupt("user"))])
        kept = [text for text in said_by(driven.result, "assistant") if text and not text.startswith("[No answer")]

        assert driven.screen == "".join(kept), moment


ENDS = {
    "completed": [says("four")],
    "empty, then an answer": [says(""), says("four")],
    "reasoning alone": [(ReasoningDelta("hm"), *says("", finish=Finish.LENGTH)), says("four")],
    "continued": [says("fo", finish=Finish.LENGTH), says("ur")],
    "dropped": [(TextDelta("fo"), DROP), says("ur")],
    "bad calls": [calls(("nothing", {})), says("four")],
    "failed": [fails(FaultKind.QUOTA_SPENT)],
    "refused": [says("no", finish=Finish.REFUSED)],
    "always empty": [says("")] * 3,
}


@pytest.mark.parametrize("name", ENDS)
def test_row_43_nothing_that_was_only_for_the_model_stays(name):
    """Prompts to go on, nudges and sentinels are in no message of the result: what stays was said by someone."""
    driven = drive(ENDS[name], tools=[look])
    nudges = (
        "Go on",
        "cut at the output limit",
        "connection was lost",
        "last reply was empty",
        "limit of this turn",
        "(empty)",
    )

    assert ["hi"] == said_by(driven.result, "user")
    assert [] == [text for text in said_by(driven.result, "assistant") for each in nudges if text and each in text]


# ---------------------------------------------------------------- steers


@on_each_backend
@pytest.mark.parametrize("now", [False, True])
def test_row_46_a_steer_is_delivered_once_or_handed_back(backend, now):
    """Said at any moment, a steer is in the messages exactly once, or is handed back as pending: never both, never lost."""
    for moment in moments(1 if backend == "asyncio" else 4):
        driven = long_turn(backend, meanwhile=[(moment, lambda turn: turn.steer("mind the gap", now=now))])
        told = said_by(driven.result, "user").count("mind the gap")

        assert 1 == told + driven.result.pending_steer.count("mind the gap"), moment
        asked = any(
            "mind the gap" in message.text
            for model in driven.models
            for request in model.requests
            for message in request.messages
        )
        assert asked == bool(told), moment
        assert_paired(driven.result)


def test_row_47_a_steer_after_the_end_is_refused():
    """A turn that is over takes no steer: it says so, and the text stays with whoever has it."""
    clock = VirtualClock()
    loop = Loop(model=ScriptedModel([says("four")], clock=clock), clock=clock)

    async def main():
        async with loop.stream("hi") as turn:
            async for _ in turn:
                pass
            with pytest.raises(TurnEnded, match="completed"):
                turn.steer("too late")
        return turn.result

    assert () == clock.run(main).pending_steer


def test_row_47_a_steer_before_the_first_request_is_in_it():
    """A steer that comes before anything was asked is in the first request."""
    driven = drive([says("four")], meanwhile=[(0.0, lambda turn: turn.steer("briefly"))])

    assert 1 == said_by(driven.result, "user").count("briefly")


# ---------------------------------------------------------------- ids


def test_row_53_ids_that_come_again_are_told_apart():
    """A provider that gives every call the same id loses no result: each call has its own id and its own result."""
    one = (
        CallDelta(0, "call_0", "look", '{"number": 1}'),
        CallDelta(1, "call_0", "look", '{"number": 2}'),
        *says("", finish=Finish.TOOL_CALLS),
    )
    driven = drive([one, one, says("done")], tools=[look])
    ids = [call["id"] for message in driven.result.messages for call in message.get("tool_calls", ())]

    assert 4 == len(set(ids)) == len(ids)
    assert ["seen 1", "seen 2"] * 2 == said_by(driven.result, "tool")
    assert_paired(driven.result)


def test_row_53_ids_of_turns_before_are_told_apart_too():
    """The id of a call in the conversation so far is not given to a call of this turn."""
    one = (CallDelta(0, "call_0", "look", '{"number": 1}'), *says("", finish=Finish.TOOL_CALLS))
    first = drive([one, says("done")], tools=[look])
    second = drive(
        [one, says("done")], tools=[look], prompt=[*first.result.messages, {"role": "user", "content": "again"}]
    )
    ids = [call["id"] for message in second.result.messages for call in message.get("tool_calls", ())]

    assert 2 == len(set(ids)) == len(ids)
    assert_paired(second.result)


@on_each_backend
def test_one_turn_after_another_on_one_loop(backend):
    """A conversation of many turns on one loop, each begun with the messages of the one before, stays whole."""
    clock = VirtualClock()
    script = itertools.cycle(
        [LOOK, says("one"), says("tw", finish=Finish.LENGTH), says("o"), (TextDelta("thr"), DROP), says("ee")]
    )
    loop = Loop(model=ScriptedModel(script, clock=clock), tools=[look], clock=clock, chance=SeededChance())

    async def main():
        messages, texts = [], []
        for number in range(9):
            result = await loop.run([*messages, {"role": "user", "content": f"{number}?"}])
            messages, texts = result.messages, [*texts, result.text]
            assert_paired(result)
        return texts

    assert ["one", "two", "three"] * 3 == clock.run(main, backend)


def test_follow_is_the_way_these_tests_look_at_a_turn():
    """The notes end with Finished, which holds the result."""
    clock = VirtualClock()
    loop = Loop(model=ScriptedModel([says("four")], clock=clock), clock=clock)
    notes, result = clock.run(lambda: follow(loop, "hi", clock, ()))

    assert result == notes[-1].result
