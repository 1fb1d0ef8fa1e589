"""One model call while it is read: what has come, and when it is overdue."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_loop.config import LoopConfig
from fsm_loop.core.effects import Request
from fsm_loop.core.faults import FaultKind
from fsm_loop.core.messages import Finish, Reply, ToolCall, Usage
from fsm_loop.drive.reading import Reading, with_unique_ids
from fsm_loop.ports import CallDelta, Meta, ReasoningDelta, Stopped, TextDelta


def reading(*, at=0.0, now=None, **request):
    """A call that began at this second."""
    return Reading(3, Request(0, (), **request), LoopConfig(), now or (lambda: at))


PROGRESS = [
    (TextDelta("x"), True), (TextDelta(""), False), (ReasoningDelta("x"), True), (ReasoningDelta(""), False),
    (CallDelta(0), False), (CallDelta(0, id="x"), True), (CallDelta(0, name="x"), True), (CallDelta(0, arguments="x"), True),
    (Stopped(Finish.STOP), False), (Meta(usage=Usage(1, 1)), False), (Meta(), False),
]  # fmt: skip


@pytest.mark.parametrize(("delta", "progress"), PROGRESS)
def test_what_says_something_is_progress(delta, progress):
    """A delta is progress when the model said something in it."""
    assert progress == reading().take(delta)


def test_deltas_add_up_to_a_reply():
    """Texts, reasoning and pieces of calls are joined, each where it belongs; usage is the last that was told."""
    read = reading()
    for delta in (
        ReasoningDelta("h"), TextDelta("fo"), CallDelta(7, "c7", "look", '{"n"'), ReasoningDelta("m"), TextDelta("ur"),
        CallDelta(2, "", "find"), CallDelta(7, "", "", ": 1}"), Meta(Usage(1, 1), ("a",), "small", "r1"),
        Meta(Usage(5, 6), ("b",)), Stopped(Finish.TOOL_CALLS),
    ):  # fmt: skip
        read.take(delta)

    calls = (ToolCall("c7", "look", '{"n": 1}'), ToolCall("call_3_1", "find", ""))
    expected = Reply("four", calls, "hm", Finish.TOOL_CALLS, Usage(5, 6), ("a", "b"), "small", "r1")
    assert expected == read.reply()
    assert ("small", "r1") == (read.reply().model, read.reply().request_id)


def test_a_name_that_is_told_twice_is_not_doubled():
    """Providers that send the name with each piece mean the same call."""
    read = reading()
    read.take(CallDelta(0, "c", "look", "{"))
    read.take(CallDelta(0, "c", "look", "}"))

    assert (ToolCall("c", "look", "{}"),) == read.reply().tool_calls


def test_nothing_is_a_reply_without_an_end():
    """A call that brought nothing has an empty reply, and no terminal evidence."""
    assert Reply() == reading().reply()


# ---------------------------------------------------------------- when it is due


def test_the_first_token_is_waited_for_long():
    """Before the first sign of life a stream is due after `first_token_timeout_s`."""
    assert 10.0 + 300.0 == reading(at=10.0).due()


def test_a_stream_that_began_is_due_after_silence():
    """From then on it is due `stale_after_s` after its last progress."""
    read = reading(at=10.0)
    read.began, read.progress_at = True, 50.0

    assert 50.0 + 90.0 == read.due()


def test_what_does_not_stream_is_due_after_the_read_timeout():
    """A request that does not stream has `read_timeout_s`, from its beginning."""
    assert 10.0 + 60.0 == reading(at=10.0, stream=False).due()


def test_what_has_ended_lingers():
    """A reply with its end has `linger_s` to close."""
    clock = iter([0.0, 7.0])
    read = reading(now=lambda: next(clock))
    read.take(Stopped(Finish.STOP))

    assert 7.0 + 10.0 == read.due()


def test_a_call_that_is_held_is_due_at_its_deadline():
    """Silence while the consumer is behind is not the model's; the deadline stands."""
    read = reading()
    read.held = True

    assert 1800.0 == read.due()


def test_an_abandoned_call_is_never_due():
    """Nobody waits for it."""
    read = reading()
    read.over = True

    assert math.inf == read.due()


@pytest.mark.parametrize(("left_s", "deadline"), [(None, 1800.0), (50.0, 50.0), (5000.0, 1800.0), (0.0, 0.0)])
def test_the_deadline_is_the_nearer_one(left_s, deadline):
    """A call has until its deadline, or until the turn's own seconds are over."""
    read = reading(time_left_s=left_s)
    read.began, read.progress_at = True, 10_000.0

    assert deadline == read.due()


@pytest.mark.parametrize(
    ("began", "stream", "now", "kind", "text"),
    [
        (True, True, 100.0, FaultKind.STALLED, "no progress for 90 s"),
        (False, True, 300.0, FaultKind.STALLED, "no first token after 300 s"),
        (False, False, 60.0, FaultKind.STALLED, "no reply after 60 s"),
        (True, True, 1800.0, FaultKind.TIMEOUT, "no end after 1800 s"),
        (True, False, 1900.0, FaultKind.TIMEOUT, "no end after 1800 s"),
    ],
)
def test_what_is_overdue_says_why(began, stream, now, kind, text):
    """The fault names which patience was lost, and how long it was."""
    read = reading(stream=stream)
    read.began = began
    read.expire(now)

    assert (kind, text) == (read.fault.kind, read.fault.message)


# ---------------------------------------------------------------- ids


def reply_of(*ids):
    """A reply with a call of each id."""
    return Reply(tool_calls=tuple(ToolCall(each, "look") for each in ids))


def test_ids_that_were_used_get_another():
    """An id that was used, in this reply or before, is told apart by attempt and place; others stay."""
    used = {"a"}
    ids = [call.id for call in with_unique_ids(reply_of("a", "b", "b").tool_calls, used, 4)]

    assert ["a_4_0", "b", "b_4_2"] == ids
    assert {"a", "a_4_0", "b", "b_4_2"} == used


@given(st.lists(st.lists(st.sampled_from(["", "a", "a_1_0", "a_1_1", "a_2_0", "a_1_0_1_1"]), max_size=4), max_size=4))
def test_no_id_is_ever_given_twice(rounds):
    """Whatever ids a provider gives, each call of the turn has its own."""
    used, ids = set(), []
    for attempt, each in enumerate(rounds, 1):
        ids += [call.id for call in with_unique_ids(reply_of(*each).tool_calls, used, attempt)]

    assert len(set(ids)) == len(ids)
