"""The page as a whole: what is true of no single row, and what a page must not be."""

from __future__ import annotations

from enum import Enum
from types import ModuleType

import pytest
from attrs import evolve

from fsm_loop.core import actions as do
from fsm_loop.core import counters as c
from fsm_loop.core import effects, events
from fsm_loop.core import guards as g
from fsm_loop.core.counters import COUNTERS, Counter, Occasion
from fsm_loop.core.effects import CallModel, Effect
from fsm_loop.core.events import (
    Event,
    InterruptAsked,
    PortEvent,
    RebuildAsked,
    SteerGiven,
    TimerFired,
    TurnStarted,
)
from fsm_loop.core.guards import Left, left
from fsm_loop.core.machine import ALIVE, PAGE, TABLE, State
from fsm_loop.core.rows import Line, Page, line, name_of_guard, problems
from fsm_loop.errors import PageError
from fsm_loop.prove.loops import PENDING, certificate
from fsm_loop.prove.places import asks, edges_of
from tests.core.test_rows import EXAMPLES
from tests.prove.broken import unchecked


def kinds(base: type, module: ModuleType) -> set[type]:
    """Every kind of event or effect that has no kinds of its own."""
    classes = {each for each in vars(module).values() if isinstance(each, type) and issubclass(each, base)}
    return {each for each in classes if not any(other is not each and issubclass(other, each) for other in classes)}


# ---------------------------------------------------------------- the page that is


def test_the_page_holds_together():
    """No rule is broken."""
    assert [] == list(problems(PAGE))


def test_some_row_always_fires():
    """The last row of each state and event asks nothing, and every row before it asks something."""
    groups = PAGE.groups().values()

    assert [()] * len(groups) == [rows[-1].when for rows in groups]
    assert all(row.when for rows in groups for row in rows[:-1])


def test_names_are_unique():
    """A name stands for one row."""
    assert len(PAGE.rows) == len({row.name for row in PAGE.rows})


def test_no_row_asks_more_than_an_earlier_one():
    """A row is not shadowed: no row before it in its group asks only for what it asks for too."""
    shadowed = [
        (first.name, second.name)
        for rows in PAGE.groups().values()
        for place, second in enumerate(rows)
        for first in rows[:place]
        if set(first.when) <= set(second.when)
    ]

    assert [] == shadowed


def test_every_state_is_reached():
    """From the first state there is a way to every other."""
    assert set(State) == {edge.there.state for edge in edges_of(PAGE)} | {PAGE.start}


def test_every_row_can_be_tried():
    """Each row begins where its event can come, given what is waited for there."""
    tried = {edge.row.name for edge in edges_of(PAGE)}

    assert {row.name for row in PAGE.rows} == tried


def test_what_is_waited_for_is_listed():
    """Wherever a turn can be, each answer that can come and each word that can be said has a row."""
    groups = PAGE.groups()
    places = {edge.there for edge in edges_of(PAGE)}
    words = {each for each in kinds(Event, events) if not issubclass(each, PortEvent)} - {TurnStarted}

    assert [] == [
        (str(place), event.__name__)
        for place in places
        for event in {*place.waits, *words}
        if (place.state, event) not in groups
    ]


@pytest.mark.parametrize("state", ALIVE)
def test_every_state_can_be_interrupted(state):
    """In every state but the end, an interrupt ends the turn, whatever else is true."""
    (row,) = PAGE.groups()[state, InterruptAsked]

    assert ((), State.DONE, None) == (row.when, row.to, row.spends)


def test_the_states_are_told_apart():
    """Every state but the end is alive, once."""
    assert sorted(ALIVE, key=str) == sorted(set(State) - {State.DONE}, key=str)


def test_the_end_is_the_end():
    """No row leaves the end, counts there, or asks for anything."""
    last = [row for row in PAGE.rows if row.source is State.DONE]

    assert {(State.DONE, do.keep, None, ())} == {(row.to, row.do, row.spends, row.brings) for row in last}


def test_every_event_and_effect_is_used():
    """Each event stands in a row, and each effect in an example."""
    assert kinds(Event, events) == {row.on for row in PAGE.rows}
    assert kinds(Effect, effects) == {type(effect) for example in EXAMPLES for effect in example.effects}


def test_every_counter_is_used():
    """Each counter is asked for; each that is not measured is spent; each occasion that refills is brought about."""
    spends = {row.spends for row in PAGE.rows} - {None}

    assert set(COUNTERS) == {counter for row in PAGE.rows for counter in row.asks}
    assert {each for each in COUNTERS if not each.measured} == spends
    assert {each for counter in COUNTERS for each in counter.refilled_by} | {Occasion.WORD} == {
        each for row in PAGE.rows for each in row.brings
    }


def test_refills_are_paid_for():
    """Whatever a row refills stands below what it spends; a steer alone refills for nothing."""
    unpaid = {
        row.name.partition(".")[2]
        for row in PAGE.rows
        for counter in PAGE.refills(row)
        if row.spends is None or COUNTERS.index(row.spends) >= COUNTERS.index(counter)
    }

    assert {"model_replied.steer_waiting"} == unpaid


def test_a_word_of_the_user_spends_nothing():
    """Steers and interrupts count nothing; the host's wish counts rebuilds alone."""
    spent = {(row.on, row.spends) for row in PAGE.rows if not issubclass(row.on, PortEvent)}

    assert {None} == {counter for event, counter in spent if event is not RebuildAsked}
    assert {None, c.rebuilds} == {counter for event, counter in spent if event is RebuildAsked}


def test_another_provider_costs_a_hop_and_nothing_else():
    """Whatever leads to another provider spends fallbacks."""
    assert {c.fallbacks} == {
        row.spends for row in PAGE.rows if row.to is State.FALLBACK and issubclass(row.on, PortEvent)
    }


def test_grace_is_entered_for_its_call():
    """Every way into grace spends the grace call, and nothing else does."""
    ways_in = {row.name for row in PAGE.rows if row.to is State.GRACE and row.source is not State.GRACE}

    assert ways_in == {row.name for row in PAGE.rows if row.spends is c.grace_calls}


def test_a_request_goes_out_in_two_states_alone():
    """A call of the model is asked for where a slot was granted, and nowhere else."""
    callers = {row.name for row in PAGE.rows if CallModel in asks(row.do)}

    assert {row.name for row in PAGE.rows if row.trigger == "slot_granted" and row.to is not State.DONE} == callers


@pytest.mark.parametrize("without", [(), (c.requests,)], ids=["", "without requests"])
def test_every_loop_is_counted(without):
    """Between two words of the user, each way round spends something that no row of that way refills.

    Take from each loop the rows that spend what nothing in it refills, again and again: what is left has no loop, but
    for the tools that are waited for, of which each return leaves fewer. The cap on requests is not needed for it.
    """
    certified = certificate(PAGE, without=without)

    assert () == certified.loops
    assert ["tool_exec.tool_returned"] == [row for each in certified.exempt if each.why is PENDING for row in each.rows]
    assert {c.iterations, c.credential_refreshes} <= set(certified.parts[0].spends)


def test_the_loops_come_apart_in_the_order_of_the_ranks():
    """Rounds hold repairs and episodes, episodes hold passes through the chain, those hold retries, and they slots."""
    parts = certificate(PAGE, without=[c.requests]).parts
    round_, *inner = [[each.name for each in part.spends] for part in parts]

    assert "iterations" == round_[0]
    assert [
        ["continuations", "boosts", "empty_replies", "bad_tool_rounds", "compactions", "recoveries"],
        ["fallbacks", "rebuilds"],
        ["api_retries", "stream_retries"],
        ["slot_waits"],
        [],  # the tools that are waited for
        ["slot_waits"],  # of grace
    ] == inner


def test_a_loop_that_is_not_counted_is_found():
    """The certificate is no formality: a page that retries for nothing leaves a loop."""
    free = tuple(evolve(each, spends=None) if each.spends is c.requests else each for each in TABLE)
    page = unchecked(
        tuple(evolve(each, spends=None, brings=()) if each.spends is c.api_retries else each for each in free)
    )

    loops = [{edge.row.name for edge in loop} for loop in certificate(page).loops]

    assert [{"calling.slot_refused.may_retry+api_retries_left", "backoff.timer_fired"}] == loops


def test_every_asked_counter_is_the_one_spent():
    """A row that asks for one counter spends that one, so that no end blames another; a budget is asked and measured."""
    odd = {
        row.name
        for row in PAGE.rows
        for guard in row.when
        if isinstance(guard, Left) and len(guard.counters) == 1 and row.spends is not guard.counters[0]
    }

    assert {"tool_exec.tool_returned.all_back+iterations_left+budget_left"} == odd


# ---------------------------------------------------------------- the pages that are not


class Door(Enum):
    """A small machine to break."""

    SHUT = 1
    OPEN = 2
    GONE = 3


class Window(Enum):
    """A state of another house."""

    AJAR = 1


knocks = Counter("knocks", "times that somebody knocked", 3)
pushes = Counter("pushes", "times that somebody pushed", 3, (Occasion.REPLY,))
wishes = Counter("wishes", "times that the host wished", 3, by_host=True)
weight = Counter("weight", "kilograms", "cost", measured=True)
stranger = Counter("stranger", "what nobody listed", 3)
SHUT, OPEN, GONE = Door
DOOR = [
    line(SHUT, TimerFired, [g.steer_waiting, left(knocks)], OPEN, do.keep, knocks),
    line(SHUT, TimerFired, [], GONE, do.keep),
    line(OPEN, TimerFired, [left(pushes)], SHUT, do.keep, pushes),
    line(OPEN, TimerFired, [], GONE, do.keep),
    line((SHUT, OPEN), InterruptAsked, [], GONE, do.keep),
    line(GONE, InterruptAsked, [], GONE, do.keep),
]


def door(*lines: Line, without: tuple[int, ...] = (), counters=(knocks, pushes), states=tuple(Door)) -> Page:
    """The small machine, with lines before its own and without some of them."""
    kept = tuple(each for place, each in enumerate(DOOR) if place not in without)
    return Page(states=states, start=SHUT, done=GONE, lines=(*lines, *kept), counters=counters)


def test_the_small_machine_holds_together():
    """What is broken below is whole before."""
    assert 7 == len(door().rows)


# fmt: off
BROKEN = {
    "a row stands twice": (
        lambda: door(line(SHUT, TimerFired, [g.steer_waiting, left(knocks)], OPEN, do.keep, knocks)),
        "shut.timer_fired.steer_waiting+knocks_left: stands twice on the page; the second would never fire"),
    "there is no otherwise": (
        lambda: door(without=(3,)),
        "open.timer_fired.pushes_left: is the last of its group and has a guard; add a row without one, for otherwise"),
    "otherwise is not last": (
        lambda: door(line(OPEN, TimerFired, [], GONE, do.keep), without=(3,)),
        "open.timer_fired: has no guard, so the rows after it would never fire; put it last"),
    "left is not last": (
        lambda: door(line(OPEN, TimerFired, [left(pushes), g.steer_waiting], SHUT, do.keep, pushes)),
        "open.timer_fired.pushes_left+steer_waiting: left(...) must stand behind the other guards, so that a miss names the counter"),
    "a counter is not known": (
        lambda: door(line(OPEN, TimerFired, [g.steer_waiting, left(stranger)], SHUT, do.keep, stranger)),
        "open.timer_fired.steer_waiting+stranger_left: counter stranger is not one of the page's counters"),
    "a spend does not ask": (
        lambda: door(line(OPEN, TimerFired, [g.steer_waiting], SHUT, do.keep, pushes)),
        "open.timer_fired.steer_waiting: spends pushes without asking left(pushes)"),
    "a measured counter is spent": (
        lambda: door(line(OPEN, TimerFired, [g.steer_waiting, left(weight)], SHUT, do.keep, weight), counters=(knocks, pushes, weight)),
        "open.timer_fired.steer_waiting+weight_left: spends weight, which is measured and not spent"),
    "a counter is never spent": (
        lambda: door(counters=(knocks, pushes, stranger)),
        "counter stranger: no row spends it"),
    "a measured counter is never asked for": (
        lambda: door(counters=(knocks, pushes, weight)),
        "counter weight: no row asks for it"),
    "a refill is not paid for": (
        lambda: door(line(OPEN, TimerFired, [g.steer_waiting], SHUT, do.keep, None, (Occasion.REPLY,))),
        "open.timer_fired.steer_waiting: refills pushes and spends nothing that stands above it"),
    "a refill is paid for with itself": (
        lambda: door(line(OPEN, TimerFired, [g.steer_waiting, left(pushes)], SHUT, do.keep, pushes, (Occasion.REPLY,))),
        "open.timer_fired.steer_waiting+pushes_left: refills pushes and spends nothing that stands above it"),
    "a refill is paid for from below": (
        lambda: door(line(SHUT, TimerFired, [left(knocks)], OPEN, do.keep, knocks, (Occasion.REPLY,)), counters=(pushes, knocks)),
        "shut.timer_fired.knocks_left: refills pushes and spends nothing that stands above it"),
    "the host spends what is the loop's": (
        lambda: door(line(OPEN, RebuildAsked, [left(pushes)], SHUT, do.keep, pushes), line(OPEN, RebuildAsked, [], OPEN, do.keep)),
        "open.rebuild_asked.pushes_left: spends pushes, which is the loop's"),
    "the loop spends what is the host's": (
        lambda: door(line(OPEN, TimerFired, [g.steer_waiting, left(wishes)], SHUT, do.keep, wishes), counters=(knocks, pushes, wishes)),
        "open.timer_fired.steer_waiting+wishes_left: spends wishes, which is the host's"),
    "a state is not reached": (
        lambda: door(line(SHUT, TimerFired, [left(knocks)], SHUT, do.keep, knocks), without=(0,)),
        "state open: cannot be reached from shut"),
    "a state of another machine": (
        lambda: door(line(SHUT, SteerGiven, [], Window.AJAR, do.keep)),
        "state ajar: stands in a row and is not one of the page's states"),
    "a state cannot be interrupted": (
        lambda: door(line(SHUT, InterruptAsked, [], GONE, do.keep), without=(4,)),
        "state open: an interrupt does not always end it"),
    "an interrupt leads elsewhere": (
        lambda: door(line(OPEN, InterruptAsked, [], SHUT, do.keep), line(SHUT, InterruptAsked, [], GONE, do.keep), without=(4,)),
        "state open: an interrupt does not always end it"),
    "an interrupt is asked about": (
        lambda: door(line(OPEN, InterruptAsked, [g.steer_waiting], GONE, do.keep)),
        "state open: an interrupt does not always end it"),
    "the end is left": (
        lambda: door(line(GONE, TimerFired, [], SHUT, do.keep)),
        "gone.timer_fired: leaves the end, or counts after it"),
    "the end counts": (
        lambda: door(line(GONE, TimerFired, [left(knocks)], GONE, do.keep, knocks), line(GONE, TimerFired, [], GONE, do.keep)),
        "gone.timer_fired.knocks_left: leaves the end, or counts after it"),
    "the end refills": (
        lambda: door(line(GONE, TimerFired, [], GONE, do.keep, None, (Occasion.WORD,))),
        "gone.timer_fired: leaves the end, or counts after it"),
}
# fmt: on


@pytest.mark.parametrize(("make", "sentence"), BROKEN.values(), ids=BROKEN)
def test_a_page_that_breaks_a_rule_is_refused(make, sentence):
    """A page that would not be safe to run is never made; the error names the row and the rule."""
    with pytest.raises(PageError) as refusal:
        make()

    assert sentence == str(refusal.value)


def test_a_word_pays_for_what_it_refills():
    """A row that a word of the user brings about may refill for nothing: words are not the loop's to make."""
    page = door(line(OPEN, TimerFired, [g.steer_waiting], SHUT, do.keep, None, (Occasion.REPLY, Occasion.WORD)))

    assert (pushes,) == page.refills(page.rows[0])


def test_guards_are_named_as_they_are_written():
    """A guard that has no name of its own is written as it prints itself."""
    assert "waits_soon" == name_of_guard(g.waits_soon)
    assert "requests_left" == name_of_guard(left(c.requests))
    assert "7" == name_of_guard(7)
