"""One event, one decision: the engine fires what a reader of the page would, and what it leaves unsaid is asserted."""

from __future__ import annotations

import copy
import gc
import logging
import weakref
from enum import Enum

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transitions import Machine, MachineError

from fsm_loop.config import LoopConfig
from fsm_loop.core import actions as do
from fsm_loop.core.counters import Counter, Occasion
from fsm_loop.core.events import Event, InterruptAsked, SlotGranted, TimerFired
from fsm_loop.core.faults import FaultKind
from fsm_loop.core.guards import left
from fsm_loop.core.machine import PAGE, State
from fsm_loop.core.record import Record
from fsm_loop.core.rows import Page, Row, line
from fsm_loop.core.step import Decision, Moved, Turn, _engine, begin_turn, step
from fsm_loop.errors import UnexpectedEvent
from tests.core.build import BLANK, failed, granted, known, replied, spent
from tests.core.strategies import moments, port_events, turns
from tests.core.test_machine import unchecked

MANY = settings(max_examples=max(200, settings.default.max_examples))


def read(page: Page, turn: Turn, event: Event) -> Row | None:
    """The row that a reader of the page would pick."""
    known_now = turn.record.after(event)
    here = (row for row in page.rows if row.source is turn.state and row.on is type(event))
    return next((row for row in here if all(guard(known_now, event) for guard in row.when)), None)


def decided(turn: Turn, event: Event) -> Decision | str:
    """The decision, or the sentence that there is none."""
    try:
        return step(turn, event)
    except UnexpectedEvent as error:
        return str(error)


# ---------------------------------------------------------------- the engine and the reader


@MANY
@given(moments())
def test_the_engine_fires_the_row_that_a_reader_picks(moment):
    """In any state, with any record, on any event, the row is the first whose guards all hold, and the state is its."""
    turn, event = moment
    expected = read(PAGE, turn, event)

    decision = decided(turn, event)

    if expected is None:
        assert str(decision).startswith(
            f"{expected_name(event)} came in state {turn.state.name.lower()}, which awaits "
        )
    else:
        assert expected is decision.row
        assert expected.name == decision.name
        assert expected.to is decision.turn.state
        assert not decision.late


def expected_name(event: Event) -> str:
    """The event as the page writes it."""
    return next(row.trigger for row in PAGE.rows if row.on is type(event))


@MANY
@given(moments())
def test_the_same_turn_and_event_give_the_same_decision(moment):
    """A decision depends on nothing else, and neither the record nor the event is changed by it."""
    turn, event = moment
    before, happened = copy.deepcopy(turn), copy.deepcopy(event)

    first, second = decided(turn, event), decided(before, happened)

    assert first == second
    assert before == turn
    assert happened == event


@MANY
@given(turns, port_events, st.sampled_from([-1, 1, 5]))
def test_a_late_event_changes_nothing(turn, event, behind):
    """An answer to an attempt that is not the current one is heard and dropped, in any state, even in one that awaits it."""
    decision = step(turn, attrs.evolve(event, attempt=turn.record.attempt - behind))

    assert turn is decision.turn
    assert (None, (), (), ()) == (decision.row, decision.effects, decision.answers, decision.moved)
    assert decision.late
    assert "late" == decision.name


@MANY
@given(moments())
def test_a_decision_tells_what_was_asked(moment):
    """The answers are those of the guards up to the row that fired, in their order; what moved is what was counted."""
    turn, event = moment
    decision = decided(turn, event)
    if isinstance(decision, str):
        return
    counts = decision.turn.record.counts

    assert all(answer for guard, answer in decision.answers if guard in decision.row.when[-1:])
    assert [answer for _, answer in decision.answers[len(decision.answers) - len(decision.row.when) :]] == [True] * len(
        decision.row.when
    )
    assert all(each.after == counts.get(each.counter, 0) and each.before != each.after for each in decision.moved)


def test_what_moved_is_told_with_its_cap():
    """A counter that moves says its value before and after, and its cap; one that is measured may have none."""
    decision = step(Turn(State.CALLING, known(counts={"requests": 3, "slot_waits": 1})), granted())
    measured = step(Turn(State.CALLING, known()), replied("It is.", usage=attrs.evolve(BLANK.usage, input_tokens=9)))

    assert (Moved("requests", 3, 4, 160), Moved("slot_waits", 1, 0, 1)) == decision.moved
    assert (Moved("tokens", 0, 9, None),) == measured.moved


def test_what_did_not_move_is_not_told():
    """A row that counts nothing leaves the counts as they are, the same object."""
    turn = Turn(State.CALLING, known(counts={"requests": 3}))

    decision = step(turn, replied("It is", finish=None))

    assert () == decision.moved
    assert {"requests": 3} == {name: count for name, count in decision.turn.record.counts.items() if count}


def test_the_counters_that_barred_the_way_are_known():
    """What was asked last of a row, and alone said no, is kept for the end to name."""
    decision = step(
        Turn(State.CALLING, known(counts=spent("api_retries", "fallbacks", "recoveries"))), failed(FaultKind.OVERLOADED)
    )

    assert ["api_retries", "fallbacks", "recoveries"] == [each.name for each in decision.turn.record.missed]


def test_an_event_that_is_not_awaited_is_the_drivers_fault():
    """The error says what came, where, and what was awaited there."""
    with pytest.raises(UnexpectedEvent) as refusal:
        step(begin_turn(LoopConfig()), SlotGranted(attempt=0))

    assert (
        "slot_granted came in state ready, which awaits interrupt_asked, rebuild_asked, steer_given, turn_started: "
        "the driver reported something that the page does not list"
    ) == str(refusal.value)


def test_an_event_of_no_page_is_the_drivers_fault():
    """An event that stands nowhere on the page is refused like one that stands elsewhere."""

    class Sneezed(Event):
        pass

    with pytest.raises(UnexpectedEvent, match=r"^sneezed came in state ready, which awaits "):
        step(begin_turn(LoopConfig()), Sneezed())


def test_a_fault_of_a_guard_is_not_the_drivers():
    """What a guard raises is told as it is, not as an event that nobody awaited."""

    def asks_for_what_is_not_there(record: Record, event: Event) -> bool:
        """Look for what is not there."""
        return {}["nothing"]

    page = small_page(line(Lamp.OFF, TimerFired, [asks_for_what_is_not_there], Lamp.ON, do.keep))

    with pytest.raises(KeyError, match="nothing"):
        step(Turn(Lamp.OFF, known()), TimerFired(attempt=7), page)


def test_a_group_without_otherwise_is_found_out():
    """A page that was never checked, and where no row fires, is told apart from one where a row does."""
    page = unchecked((line(State.CALLING, TimerFired, [left(NONE_LEFT)], State.DONE, do.keep),))

    with pytest.raises(AssertionError, match=r"^no row fired for timer_fired in calling$"):
        step(Turn(State.CALLING, known()), TimerFired(attempt=7), page)


# ---------------------------------------------------------------- a page of one's own


class Lamp(Enum):
    """A machine that is not ours."""

    OFF = 1
    ON = 2
    BROKEN = 3


NONE_LEFT = Counter("none_left", "nothing", 0)
lightings = Counter("lightings", "times that it was lit", 2)
flickers = Counter("flickers", "times that it flickered", 2, (Occasion.REPLY,))


def small_page(*lines) -> Page:
    """A lamp, with lines before its own."""
    own = (
        line(Lamp.OFF, TimerFired, [left(lightings)], Lamp.ON, do.keep, lightings, (Occasion.REPLY,)),
        line(Lamp.OFF, TimerFired, [], Lamp.BROKEN, do.keep),
        line(Lamp.ON, TimerFired, [left(flickers)], Lamp.OFF, do.keep, flickers),
        line(Lamp.ON, TimerFired, [], Lamp.BROKEN, do.keep),
        line((Lamp.OFF, Lamp.ON), InterruptAsked, [], Lamp.BROKEN, do.keep),
    )
    return Page(tuple(Lamp), Lamp.OFF, Lamp.BROKEN, (*lines, *own), (lightings, flickers))


def test_a_page_of_ones_own_is_walked():
    """The same step walks any page that holds together: it counts, refills, and ends where a counter is spent."""
    page, path = small_page(), []
    turn = begin_turn(LoopConfig(), page=page)
    while turn.state is not Lamp.BROKEN:
        decision = step(turn, TimerFired(attempt=0), page)
        path.append((decision.name, {each.counter: each.after for each in decision.moved}))
        turn = decision.turn

    assert [
        ("off.timer_fired.lightings_left", {"lightings": 1}),
        ("on.timer_fired.flickers_left", {"flickers": 1}),
        ("off.timer_fired.lightings_left", {"lightings": 2, "flickers": 0}),
        ("on.timer_fired.flickers_left", {"flickers": 1}),
        ("off.timer_fired", {}),
    ] == path


# ---------------------------------------------------------------- what we rely on in `transitions`


@attrs.define(eq=False, slots=True, weakref_slot=True)
class Cursor:
    """What an engine moves; it was never added to one."""

    state: Enum = Lamp.OFF


def engine(**options) -> Machine:
    """An engine as ours is made."""
    plain = {"model": None, "states": list(Lamp), "initial": Lamp.OFF, "auto_transitions": False, "send_event": True}
    return Machine(**{**plain, **options})


def test_transitions_tries_the_rows_in_the_order_they_were_added():
    """The first whose conditions hold fires, and those after it are not asked."""
    asked = []
    machine = engine()
    for name, answer, to in (("first", False, Lamp.OFF), ("second", True, Lamp.ON), ("third", True, Lamp.BROKEN)):
        machine.add_transition(
            "go", Lamp.OFF, to, conditions=lambda data, name=name, answer=answer: asked.append(name) or answer
        )
    cursor = Cursor()

    assert machine.events["go"].trigger(cursor)
    assert (Lamp.ON, ["first", "second"]) == (cursor.state, asked)


def test_transitions_says_nothing_when_no_row_fires():
    """It answers False and leaves the state, so step has to ask for a row."""
    machine = engine()
    machine.add_transition("go", Lamp.OFF, Lamp.ON, conditions=lambda data: False)
    cursor = Cursor()

    assert machine.events["go"].trigger(cursor) is False
    assert Lamp.OFF is cursor.state


def test_transitions_accepts_a_row_twice():
    """It keeps both and fires the first for ever, so the page refuses what stands twice."""
    machine = engine()
    machine.add_transition("go", Lamp.OFF, Lamp.ON)
    machine.add_transition("go", Lamp.OFF, Lamp.BROKEN)
    cursor = Cursor()

    assert 2 == len(machine.events["go"].transitions[Lamp.OFF.name])
    assert machine.events["go"].trigger(cursor)
    assert Lamp.ON is cursor.state


def test_transitions_finds_a_wrong_name_only_when_it_is_tried():
    """A misspelt guard is accepted, and raises in the middle of a turn, so the page is made of functions."""
    machine = engine()
    machine.add_transition("go", Lamp.OFF, Lamp.ON, conditions="is_litt")

    with pytest.raises(AttributeError, match="is_litt"):
        machine.events["go"].trigger(Cursor())


def test_transitions_swallows_what_finalize_raises():
    """So nothing that has a duty is put there."""

    def raises(data):
        raise RuntimeError("lost")

    machine = engine(finalize_event=raises)
    machine.add_transition("go", Lamp.OFF, Lamp.ON)

    assert machine.events["go"].trigger(Cursor())


def test_transitions_tells_a_known_event_in_the_wrong_state_from_an_unknown_one():
    """The one raises MachineError with the state unchanged, the other is no event at all."""
    machine = engine()
    machine.add_transition("go", Lamp.ON, Lamp.OFF)
    cursor = Cursor()

    with pytest.raises(MachineError):
        machine.events["go"].trigger(cursor)
    assert Lamp.OFF is cursor.state
    assert "stop" not in machine.events


def test_transitions_keeps_no_hold_of_a_cursor_that_was_never_added():
    """A cursor with slots and without equality is moved, and is gone as soon as nobody else holds it."""
    machine = engine()
    machine.add_transition("go", Lamp.OFF, Lamp.ON)
    cursor = Cursor()
    held = weakref.ref(cursor)
    gc.disable()
    try:
        assert machine.events["go"].trigger(cursor)
        del cursor

        assert None is held()
    finally:
        gc.enable()


def test_our_engine_is_one_and_knows_the_page_alone():
    """It is made once, has an event for each of the page and no other, and no cursor was ever added to it."""
    fires = _engine(PAGE)
    machine = next(iter(fires.values())).__self__.machine

    assert fires is _engine(PAGE)
    assert {row.on for row in PAGE.rows} == set(fires)
    assert {row.trigger for row in PAGE.rows} == set(machine.events)
    assert [] == machine.models
    assert machine.has_queue is False


def test_our_engine_holds_the_rows_in_the_order_of_the_page():
    """For each state and event, what it tries is the page's group, row for row."""
    machine = next(iter(_engine(PAGE).values())).__self__.machine
    held = {
        (State[source], name): [transition.row for transition in tried]
        for name, event in machine.events.items()
        for source, tried in event.transitions.items()
        if tried
    }

    assert {(state, rows[0].trigger): rows for (state, _), rows in PAGE.groups().items()} == held


def test_our_engine_writes_no_line_of_news(caplog):
    """A transition says nothing to a user's root logger that wants to know what happens, if not why."""
    caplog.set_level(logging.INFO)

    step(begin_turn(LoopConfig()), InterruptAsked())

    assert [] == caplog.records
