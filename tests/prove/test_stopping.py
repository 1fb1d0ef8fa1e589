"""From an interrupt to the end: nothing is waited for, in any state, in any place."""

from __future__ import annotations

import pytest

from fsm_loop.config import LoopConfig
from fsm_loop.core.effects import Abandon, Finish
from fsm_loop.core.events import InterruptAsked
from fsm_loop.core.machine import PAGE, State
from fsm_loop.prove import stopping
from fsm_loop.prove.worst import most_calls
from tests.export.own_page import OWN_PAGE
from tests.prove.broken import at, with_lines, without_lines
from tests.prove.every_way import interrupts
from tests.prove.test_bounds import small

HEARD = at(State.BACKOFF, InterruptAsked)


@pytest.mark.parametrize("page", [PAGE, OWN_PAGE], ids=["ours", "a user's"])
def test_every_state_ends_at_once(page):
    """Each live state has the row, and the row asks for nothing that is answered."""
    found = stopping(page)

    assert (True, len(page.states) - 1) == (found.at_once, found.states)
    assert f"in each of the {found.states} live states" in str(found)


def test_it_is_tried_in_every_place_of_a_turn():
    """The row is fired at every event of a turn that was walked, and gives no effect but Abandon and Finish."""
    walk = most_calls(LoopConfig(), 1)
    found = stopping(PAGE, walk)

    assert (True, len(walk.events)) == (found.at_once, found.tried)


@pytest.mark.parametrize("seed", [14, 18, 26, 93])
def test_no_place_that_a_turn_comes_to_is_left_out(seed):
    """In every place of every turn of a tiny config, an interrupt ends it with Abandon and Finish, and nothing else."""
    places = interrupts(*small(seed))

    assert {State.DONE} == {each.turn.state for each in places}
    assert {(Abandon, Finish)} == {tuple(map(type, each.effects)) for each in places}


@pytest.mark.parametrize(
    ("page", "why"),
    [
        (without_lines(HEARD), "backoff: no row hears it"),
        (with_lines(HEARD, to=State.GRACE), "backoff: it leads to grace"),
        (with_lines(HEARD, when=(lambda record, event: True,)), "backoff: its first row has a guard"),
        (with_lines(HEARD, do=PAGE.rows[0].do), "backoff: its row may ask for ReserveSlot"),
        (with_lines(HEARD, do=len), "backoff: what its row does cannot be read"),
    ],
)
def test_a_page_that_does_not_stop_is_found(page, why):
    """A state that does not hear an interrupt, or that begins something on it, is named with what is wrong."""
    found = stopping(page)

    assert not found.at_once
    assert why in found.breaks
    assert "does not always end" in str(found)
