"""How the words of a turn stand together: each call with its one result, each steer once, each piece in one answer."""

from __future__ import annotations

import pytest

from fsm_loop.core.conversation import closed, error_of, joined, last_text, request_of, said, with_steers, with_word
from fsm_loop.core.messages import AssistantMessage, MediaPart, Reply, TextPart, ToolMessage, ToolStatus, UserMessage
from tests.core.build import ADD, BAD, HALF, QUESTION, SUB, in_a_round, known, result

THREE = result(ADD, "3")


@pytest.mark.parametrize(
    ("results", "unstoppable", "expected"),
    [
        ((THREE, result(SUB, "5")), (), (THREE, result(SUB, "5"))),
        ((THREE, None), (), (THREE, result(SUB, "interrupted: no result", ToolStatus.INTERRUPTED))),
        (
            (THREE, None),
            ("c2",),
            (THREE, result(SUB, "outcome unknown: still running when the turn ended", ToolStatus.UNKNOWN)),
        ),
        (
            (THREE, None),
            ("c1",),
            (THREE, result(SUB, "interrupted: no result", ToolStatus.INTERRUPTED)),
        ),  # it had its result
    ],
)
def test_a_round_that_is_closed_has_one_result_for_each_call(results, unstoppable, expected):
    """In the order of the calls; what runs on in a thread has an outcome that nobody knows."""
    record = closed(in_a_round(*results), frozenset(unstoppable))

    assert (AssistantMessage("I count.", (ADD, SUB)), *expected) == record.said
    assert (None, (), ()) == (record.asked, record.calls, record.results)


def test_no_round_is_closed_where_there_is_none():
    """The record stays the same object."""
    record = known()

    assert record is closed(record)


def test_a_reply_that_is_said_closes_its_pieces():
    """Calls in it are answered as not run, but for those that could not be."""
    record = said(known(pieces=("I ",)), Reply("count.", (ADD, BAD)), "not now")

    assert (
        AssistantMessage("I count.", (ADD, BAD)),
        result(ADD, "not now", ToolStatus.NOT_RUN),
        result(BAD, "there is no tool fly", ToolStatus.ERROR),
    ) == record.said
    assert () == record.pieces


def test_a_call_that_can_run_has_no_error():
    """Only a problem is an error."""
    assert None is error_of(ADD)
    assert ToolMessage("c3", "there is no tool fly", ToolStatus.ERROR) == error_of(BAD)


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ({"steers": ()}, {}),
        ({"steers": ("One.", "Two.")}, {"said": (UserMessage("One."), UserMessage("Two.")), "steers": ()}),
        ({"steers": ("One.",), "nudge": "Speak."}, {"said": (UserMessage("One."),), "steers": ()}),
        (
            {"steers": ("One.",), "pieces": ("It ", "is"), "nudge": "Go on.", "lead": "So: "},
            {
                "said": (AssistantMessage("It is"), UserMessage("One.")),
                "pieces": (),
                "nudge": "",
                "lead": "",
                "steers": (),
            },
        ),
    ],
)
def test_steers_stand_behind_what_was_said(before, expected):
    """An answer that was being continued is closed, for what comes next answers the steer."""
    record = known(**before)

    assert record.but(**expected) == with_steers(record)


def test_the_last_text_is_the_models():
    """What was said last by the model, blank words left out; nothing where it said nothing."""
    record = known(
        said=(AssistantMessage("One."), AssistantMessage("Two."), AssistantMessage(" \n"), UserMessage("Three."))
    )

    assert "Two." == last_text(record)
    assert "" == last_text(known())


def test_a_request_holds_the_words_in_their_order():
    """What the turn was given, what it added, the answer so far, and the word that closes the request."""
    record = known(said=(AssistantMessage("One."),), pieces=("It ", "is"), nudge="Go on.", cut=HALF, steers=("Later.",))

    expected = (QUESTION, AssistantMessage("One."), AssistantMessage("It is"), UserMessage("Go on."))
    assert expected == request_of(record).messages


PICTURE = UserMessage((TextPart("What is it?"), MediaPart("data:image/png;base64,")))


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ((), (UserMessage("Go on."),)),
        ((AssistantMessage("It is"),), (AssistantMessage("It is"), UserMessage("Go on."))),
        ((QUESTION,), (UserMessage("What is it?\n\nGo on."),)),
        ((UserMessage(""),), (UserMessage("Go on."),)),
        ((PICTURE,), (UserMessage((*PICTURE.content, TextPart("Go on."))),)),
    ],
)
def test_a_word_of_ours_joins_the_users_last(messages, expected):
    """Two messages of the user in a row are one, media and all, for some providers refuse them."""
    assert expected == with_word(messages, "Go on.")


def test_a_picture_joins_words():
    """Whichever of the two holds media."""
    assert UserMessage((TextPart("Look."), *PICTURE.content)) == joined(UserMessage("Look."), PICTURE)
