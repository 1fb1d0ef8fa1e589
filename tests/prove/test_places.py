"""The graph of places, and what the code of an action says that it asks for."""

from __future__ import annotations

import pytest

from fsm_loop.core import actions as do
from fsm_loop.core import effects, ends
from fsm_loop.core.effects import CallModel, JudgeCut, Repair, ReserveSlot, RunTool, SetTimer, SwitchProvider
from fsm_loop.core.events import SlotGranted, SlotRefused, TimerFired, ToolReturned
from fsm_loop.core.machine import PAGE, State
from fsm_loop.prove.places import ANSWERS, THE_REST, Place, asks, edges_of, is_a_word
from tests.core.test_rows import EXAMPLES
from tests.export.own_page import OWN_PAGE, Mine


def wait_here(record, event):
    """An action of a user's own, with a helper, a lambda, and a module that holds the effect."""
    return record, tuple(make() for make in [lambda: timer_of(record)])


def timer_of(record):
    """A helper that makes the effect."""
    return effects.SetTimer(record.attempt, 1.0, "mine")


class Waits:
    def __call__(self, record, event):
        return record, (timer_of(record),)


def closing_over(effect):
    """An action that holds the effect's kind and does not name it."""

    def act(record, event):
        return record, (effect(1, 1.0, "mine"),)

    return act


# fmt: off
ASKED = [
    (do.begin_turn,            (ReserveSlot,)),
    (do.send,                  (CallModel,)),
    (do.grace_at_once,         (CallModel,)),
    (do.back_off,              (SetTimer,)),
    (do.repair,                (Repair,)),
    (do.apply_repair,          (ReserveSlot,)),
    (do.run_tools,             (RunTool,)),
    (do.keep_cut,              (JudgeCut,)),
    (do.switch,                (SwitchProvider,)),
    (do.keep,                  ()),
    (ends.stopped,             ()),
    (wait_here,                (SetTimer,)),
    (Waits(),                  (SetTimer,)),
    (closing_over(SetTimer),   (SetTimer,)),
    (print,                    None),
]
# fmt: on


@pytest.mark.parametrize(("action", "asked"), ASKED, ids=lambda each: getattr(each, "__name__", None))
def test_an_action_names_what_it_asks_for(action, asked):
    """The effects with an answer are read in the action's code and in its helpers'; no code says nothing."""
    assert asked == asks(action)


def test_the_code_and_the_examples_agree():
    """Each row of the page asks for what its examples show, no more and no less."""
    shown = {name: {type(each) for each in one.effects} & set(ANSWERS) for one in EXAMPLES for _, name in one.cases()}

    assert shown == {row.name: set(asks(row.do)) for row in PAGE.rows}


def test_grace_is_several_places():
    """Grace waits for a slot, for a sign of life, for the rest, or for a timer."""
    waits = {edge.here.waits for edge in edges_of(PAGE) if edge.here.state is State.GRACE}
    slot = frozenset({SlotGranted, SlotRefused})

    assert {slot, ANSWERS[CallModel], THE_REST, frozenset({TimerFired})} == waits


def test_a_place_reads_well():
    """A place names its state, and what may come in it."""
    assert "backoff for timer_fired" == str(Place(State.BACKOFF, frozenset({TimerFired})))
    assert "done for nothing" == str(Place(State.DONE, frozenset()))


def test_what_nobody_asked_for_may_come_anyway():
    """Where no effect says what is waited for, whatever the state lists may come."""
    places = {edge.there for edge in edges_of(OWN_PAGE) if edge.there.state is Mine.ASKED}

    assert {frozenset({TimerFired})} == {place.waits for place in places}


def test_tools_are_waited_for_until_all_are_back():
    """A result that is not the last leaves the others to wait for."""
    (edge,) = (each for each in edges_of(PAGE) if each.here == each.there and each.row.on is ToolReturned)

    assert frozenset({ToolReturned}) == edge.there.waits


def test_words():
    """A word is what the user or the host says and nobody spends, and the answer to a steer that waits."""
    words = {row.name.partition(".")[2] for row in PAGE.rows if is_a_word(row)}

    assert {
        "turn_started", "interrupt_asked", "steer_given", "steer_given.is_now", "rebuild_asked",
        "model_replied.steer_waiting",
    } == words  # fmt: skip
