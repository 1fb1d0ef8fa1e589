"""The typed event stream: what whoever follows a turn is told, in which order, and how they may leave."""

from __future__ import annotations

import itertools

import anyio
import pytest

from fsm_loop.config import LoopConfig
from fsm_loop.core.effects import Reconnecting, Withdrawn
from fsm_loop.core.faults import Fault, FaultKind
from fsm_loop.core.messages import Finish, ToolStatus
from fsm_loop.drive.notes import Finished, StateChanged, ToolFinished, ToolStarted
from fsm_loop.errors import FsmLoopError, MessageError, TurnEnded
from fsm_loop.loop import Loop
from fsm_loop.ports import CallDelta, ReasoningDelta, TextDelta
from fsm_loop.testing.clock import VirtualClock
from fsm_loop.testing.fakes import Fail, Hang, Pause, ScriptedModel, SeededChance, calls, fails, says
from tests.drive.turns import drive, on_each_backend, said_by

DROP = Fail(Fault(FaultKind.DROPPED, "reset"))


async def look(number: int = 1) -> str:
    """Look at something."""
    return f"seen {number}"


def looping(script, **settings):
    """A loop of a scripted model on a virtual clock."""
    clock = VirtualClock()
    model = ScriptedModel(script, clock=clock)
    return (
        Loop(model=model, tools=[look], clock=clock, chance=SeededChance(), config=LoopConfig(**settings)),
        clock,
        model,
    )


def told(notes):
    """The notes, state changes left out, as short words."""
    return [_word(note) for note in notes if not isinstance(note, StateChanged)]


def _word(note):
    match note:
        case TextDelta(text) | Withdrawn(text):
            return (type(note).__name__, text)
        case ToolFinished(call, text, _):
            return ("ToolFinished", call.name, text)
        case ToolStarted(call):
            return ("ToolStarted", call.name)
        case _:
            return (type(note).__name__,)


@on_each_backend
def test_a_turn_is_told_in_order(backend):
    """Text, reasoning, tools and the end come as they happen; a state change stands before what happens in the state."""
    script = [
        (ReasoningDelta("hm"), TextDelta("Let me "), *calls(("look", {"number": 7}), text="look.")),
        says("It is ", "seven."),
    ]
    driven = drive(script, tools=[look], backend=backend)

    assert [
        ("ReasoningDelta",), ("TextDelta", "Let me "), ("TextDelta", "look."), ("ToolStarted", "look"),
        ("ToolFinished", "look", "seen 7"), ("TextDelta", "It is "), ("TextDelta", "seven."), ("Finished",),
    ] == told(driven.notes)  # fmt: skip
    states = [(note.before, note.row, note.after) for note in driven.notes if isinstance(note, StateChanged)]
    assert driven.result.path == states
    assert driven.notes[-1].result == driven.result


def test_a_wait_is_told_with_its_length():
    """The state change that begins a wait says how long it will be, and which counter it cost."""
    driven = drive([fails(FaultKind.OVERLOADED), says("ok")], jitter=0.0)
    change = next(note for note in driven.notes if isinstance(note, StateChanged) and note.after == "backoff")

    assert 5.0 == change.wait_s
    assert [("api_retries", 0, 1)] == [(each.counter, each.before, each.after) for each in change.moved]


# Each ends with the same answer; what is shown on the way, and taken back, differs.
WAYS = {
    "straight": [says("the ", "answer")],
    "cut, and gone on": [says("the ", finish=Finish.LENGTH), says("ans", finish=Finish.LENGTH), says("wer")],
    "dropped, and gone on": [(TextDelta("the "), DROP), says("answer")],
    "without an end, and gone on": [says("the ", finish=None), says("answer")],
    "stalled, and gone on": [(TextDelta("the "), Hang()), says("answer")],
    "dropped before anything": [(DROP,), says("the answer")],
    "dropped in a call": [(TextDelta("wrong"), CallDelta(0, "", "look"), DROP), says("the answer")],
    "a call that is cut": [calls(("look", "{"), text="wrong", finish=Finish.LENGTH), says("the answer")],
    "failed, and retried": [(TextDelta("wrong"), Fail(Fault(FaultKind.MALFORMED))), says("the answer")],
    "reasoned only": [(ReasoningDelta("hm"), *says("", finish=Finish.LENGTH)), says("the answer")],
    "empty": [says(""), says("the answer")],
    "blank": [says(" \n"), says("the answer")],
    "repaired": [(TextDelta("wrong"), *fails(FaultKind.BAD_UNICODE)), says("never")],
    "paused": [says("the ", finish=Finish.PAUSED), says("answer")],
}


@on_each_backend
@pytest.mark.parametrize("name", WAYS)
def test_the_texts_without_what_is_withdrawn_are_the_answer(backend, name):
    """Who writes down each text and takes back what is withdrawn has exactly the result's text before him, at the end."""
    driven = drive(WAYS[name], tools=[look], backend=backend)

    assert driven.result.text == driven.screen
    if name != "repaired":
        assert ("completed", "the answer") == (driven.result.outcome, driven.result.text)


def test_a_fallback_withdraws_what_the_first_provider_showed():
    """What one provider showed of a reply that another one makes is taken back before it is told again."""
    shown = (TextDelta("wrong"), *says("no", finish=Finish.REFUSED))
    driven = drive([shown], fallbacks=[[says("the answer")]])

    assert [("TextDelta", "wrong"), ("TextDelta", "no"), ("Withdrawn", "wrongno"), ("TextDelta", "the answer")] == told(
        driven.notes
    )[:4]
    assert "the answer" == driven.screen == driven.result.text


def test_a_reconnect_is_marked():
    """A connection lost with a call in flight: what was shown is withdrawn, then the reconnect is told, then the text again."""
    driven = drive([(TextDelta("I "), CallDelta(0, "", "look"), DROP), says("I do")])

    assert [("TextDelta", "I "), ("Withdrawn", "I "), ("Reconnecting",), ("TextDelta", "I do"), ("Finished",)] == told(
        driven.notes
    )
    assert "lost" in next(note.reason for note in driven.notes if isinstance(note, Reconnecting))


# ---------------------------------------------------------------- leaving


@on_each_backend
@pytest.mark.parametrize("how", ["break", "return", "never looks"])
def test_who_leaves_early_interrupts(backend, how):
    """Leaving the block before the end interrupts the turn, by the consumer; the result is there."""
    loop, clock, model = looping([(TextDelta("one "), Hang())])

    async def main():
        async with loop.stream("hi") as turn:
            if how == "never looks":
                return turn
            async for note in turn:
                if isinstance(note, TextDelta):
                    if how == "return":
                        return turn
                    break
        return turn

    turn = clock.run(main, backend)

    assert ("interrupted", "consumer") == (turn.result.outcome, turn.result.issuer)
    assert 0.0 == clock.now()
    assert 0 == model.open_calls
    assert ("" if how == "never looks" else "one ") == turn.result.text


@on_each_backend
@pytest.mark.parametrize(
    "error", [KeyError("mine"), MessageError("mine"), KeyboardInterrupt(), ExceptionGroup("mine", [KeyError()])]
)
def test_what_is_raised_in_the_block_comes_out_as_itself(backend, error):
    """An exception of the consumer's comes out unchanged, in no group, and the turn is over."""
    loop, clock, _ = looping([(TextDelta("one "), Hang())])
    turns = []

    async def main():
        async with loop.stream("hi") as turn:
            turns.append(turn)
            async for _ in turn:
                raise error

    with pytest.raises(type(error)) as caught:
        clock.run(main, backend)

    assert error is caught.value
    assert ("interrupted", "consumer") == (turns[0].result.outcome, turns[0].result.issuer)


@on_each_backend
def test_a_scope_around_the_block_is_cancelled_as_any(backend):
    """A timeout around the block ends both, and does not come out as anything else."""
    loop, clock, model = looping([(TextDelta("one "), Hang())])
    turns = []

    async def main():
        with anyio.CancelScope() as scope:
            async with loop.stream("hi") as turn:
                turns.append(turn)
                async for note in turn:
                    if isinstance(note, TextDelta):
                        scope.cancel()
        return scope.cancelled_caught

    assert clock.run(main, backend)
    assert "interrupted" == turns[0].result.outcome
    assert 0 == model.open_calls


def test_bad_messages_are_refused_before_the_turn():
    """Messages that no provider would take raise where the turn is asked for."""
    loop, clock, model = looping([says("never")])

    async def main():
        async with loop.stream([]) as turn:
            pytest.fail(f"{turn} began")

    with pytest.raises(MessageError, match="no messages"):
        clock.run(main)
    assert [] == model.requests


# ---------------------------------------------------------------- words


@on_each_backend
def test_a_steer_now_in_mid_stream_keeps_what_was_said(backend):
    """The call in flight is abandoned, what it said stands as the model's words, and the steer follows it."""
    script = [(TextDelta("The capital "), Hang()), says("Lyon is not.")]
    driven = drive(script, backend=backend, meanwhile=[(5.0, lambda turn: turn.steer("of what?", now=True))])

    assert ["The capital ", "Lyon is not."] == said_by(driven.result, "assistant")
    assert ["hi", "of what?"] == said_by(driven.result, "user")
    assert ("completed", "Lyon is not.", "The capital Lyon is not.") == (
        driven.result.outcome,
        driven.result.text,
        driven.screen,
    )


@on_each_backend
def test_a_turn_that_is_over_takes_no_word(backend):
    """A steer and a rebuild after the end raise TurnEnded and say what became of the turn; an interrupt changes nothing."""
    loop, clock, _ = looping([says("four")])

    async def main():
        async with loop.stream("hi") as turn:
            notes = [note async for note in turn]
            with pytest.raises(TurnEnded, match=r"is over \(completed\)"):
                turn.steer("more")
            with pytest.raises(TurnEnded, match=r"is over \(completed\)"):
                turn.rebuild("afresh")
            turn.interrupt()
            again = [note async for note in turn]
        return turn, notes, again

    turn, notes, again = clock.run(main, backend)

    assert ("completed", (), []) == (turn.result.outcome, turn.result.pending_steer, again)
    assert isinstance(notes[-1], Finished)


def test_a_steer_that_no_request_has_held_is_handed_back():
    """Text that came too late for any request is in the result, exactly once, and in no message."""
    driven = drive(
        lambda request: (Hang(),), max_requests=0,
        meanwhile=[(1.0, lambda turn: turn.steer("late")), (2.0, lambda turn: turn.interrupt())],
    )  # fmt: skip

    assert (("late",), ["hi"]) == (driven.result.pending_steer, said_by(driven.result, "user"))


@on_each_backend
def test_a_running_turn_can_be_looked_at(backend):
    """While it runs a turn tells its state and its id, and refuses its result."""
    loop, clock, _ = looping([(TextDelta("x"), Pause(10.0), *says("ok"))])

    async def main():
        async with loop.stream("hi") as turn:
            before = turn.state
            with pytest.raises(FsmLoopError, match="still running"):
                _ = turn.result
            async for note in turn:
                if isinstance(note, TextDelta):
                    break
            return before, turn.state, turn.turn_id

    before, during, turn_id = clock.run(main, backend)

    assert ("calling", "streaming") == (before, during)
    assert 32 == len(turn_id)


@on_each_backend
def test_several_may_follow_one_turn(backend):
    """Consumers that share a turn share its notes: each note goes to one of them, and all of them end."""
    loop, clock, _ = looping(
        [tuple(itertools.chain.from_iterable((TextDelta(f"{n} "), Pause(1.0)) for n in range(20))) + says("")]
    )

    async def main():
        taken = [[], [], []]

        async def follow(notes, turn):
            notes.extend([note async for note in turn])

        async with loop.stream("hi") as turn, anyio.create_task_group() as group:
            for notes in taken:
                group.start_soon(follow, notes, turn)
        return taken, turn.result

    taken, result = clock.run(main, backend)
    texts = [note.text for notes in taken for note in notes if isinstance(note, TextDelta)]

    assert sorted(texts) == sorted(f"{n} " for n in range(20))
    assert "completed" == result.outcome


def test_statuses_are_told_with_the_results():
    """A tool's result comes with how it came about."""
    driven = drive([calls(("look", {"number": 1})), says("ok")], tools=[look])

    assert [ToolStatus.OK] == [note.status for note in driven.notes if isinstance(note, ToolFinished)]
