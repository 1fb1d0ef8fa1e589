"""A view shows the rows that it is about, and each arrow says what it is to a turn."""

from __future__ import annotations

import pytest

from fsm_loop import PAGE, State
from fsm_loop.core.events import InterruptAsked, RebuildAsked, SteerGiven, TurnStarted
from fsm_loop.core.rows import Page, line
from fsm_loop.export.drawing import View, ViewError, Way, drawing
from fsm_loop.export.model import outline


def ways(view):
    """Each arrow of our page with its way."""
    return {(arrow.source, arrow.target, arrow.way) for arrow in drawing(outline(), view).arrows}


def test_the_straight_way_is_found_from_the_page():
    """A turn that asks, streams, runs tools and answers goes the straight way, and nothing else does."""
    arrows = drawing(outline(), View.FULL).arrows
    straight = {row.name for arrow in arrows if arrow.way is Way.STRAIGHT for row in arrow.rows}

    assert {
        "ready.turn_started",
        "calling.slot_granted.budget_left",
        "calling.stream_started",
        *(
            f"{state}.model_replied{guards}"
            for state in ("calling", "streaming")
            for guards in ("", ".is_paused+iterations_left", ".has_valid_call+iterations_left", ".steer_waiting")
        ),
        "tool_exec.tool_returned.all_back+iterations_left+budget_left",
        "tool_exec.tool_returned",
    } == straight


@pytest.mark.parametrize(
    ("row", "way"),
    [
        ("streaming.model_failed.may_retry+api_retries_left", Way.DETOUR),
        ("streaming.model_replied.was_cut", Way.DETOUR),
        ("tool_exec.tool_returned.all_back+grace_calls_left", Way.DETOUR),
        ("streaming.model_failed", Way.END),
        ("grace.model_replied.has_text", Way.END),
        ("backoff.interrupt_asked", Way.WORD),
        ("streaming.steer_given.is_now", Way.WORD),
    ],
)
def test_a_row_that_is_not_straight(row, way):
    """What fails or is cut leads round; what ends without an answer is an end; a word is a word wherever it leads."""
    assert [way] == [arrow.way for arrow in drawing(outline(), View.FULL).arrows if arrow.rows[0].name == row]


@pytest.mark.parametrize(
    ("view", "states"),
    [
        (View.RETRIES, "calling streaming truncated backoff repairing fallback recovering done"),
        (View.TRUNCATION, "calling streaming truncated done"),
        (View.TOOLS, "calling streaming tool_exec grace done"),
        (View.ENDING, "calling streaming truncated tool_exec repairing fallback grace done"),
    ],
)
def test_a_part_shows_its_states_alone(view, states):
    """A part shows the states that its rows join, in the order of the page, and no others."""
    assert sorted(states.split()) == sorted(state.name for state in drawing(outline(), view).states)


def test_the_ending_names_every_end():
    """Each way to the end carries what the end is."""
    said = {line for arrow in drawing(outline(), View.ENDING).arrows if arrow.target == "done" for line in arrow.label}

    assert {
        "model_replied [was_refused] / refused",
        "model_replied / completed",
        "model_failed / failed",
        "cut_judged / cut",
        "tool_returned [all_back] / exhausted",
        "request_repaired / unrepaired",
    } <= said


def test_a_part_keeps_the_straight_way_apart():
    """Two arrows join the same two states where one of them is the straight way and the other is not."""
    assert {("streaming", "done", Way.STRAIGHT), ("streaming", "done", Way.END)} <= ways(View.ENDING)


@pytest.mark.parametrize("view", [View.RETRIES, View.TRUNCATION, View.TOOLS])
def test_a_view_of_nothing_is_said(view):
    """A page without tools, retries or cut replies has no such picture, and the error says what there is."""
    words = (line(State.READY, InterruptAsked, [], State.DONE, act("ready.interrupt_asked")),)
    kept = [line(State.READY, each, [], None, act("ready.steer_given")) for each in (SteerGiven, RebuildAsked)]
    begun = line(State.READY, TurnStarted, [], State.DONE, act("ready.interrupt_asked"))
    small = Page((State.READY, State.DONE), State.READY, State.DONE, (begun, *words, *kept), ())

    with pytest.raises(ViewError, match=f"no row of this page belongs to the view {view}; choose overview or full"):
        drawing(outline(small), view)


def act(name):
    """What the row of this name does on our page."""
    return next(row.do for row in PAGE.rows if row.name == name)
