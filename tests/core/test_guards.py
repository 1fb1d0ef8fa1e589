"""Every guard of the page, by a yes and a no; every counter, one below its cap, at it, and one above."""

from __future__ import annotations

import inspect

import attrs
import pytest

from fsm_loop.config import LoopConfig
from fsm_loop.core import guards as g
from fsm_loop.core.counters import COUNTERS, Counter
from fsm_loop.core.events import TimerFired
from fsm_loop.core.faults import FaultKind, RepairKind
from fsm_loop.core.guards import Left, budget, left, needs
from fsm_loop.core.machine import PAGE
from fsm_loop.core.messages import Finish, Reply, Usage
from fsm_loop.core.record import Shape
from fsm_loop.core.rows import name_of_guard
from tests.core.build import (
    ADD,
    BAD,
    BLANK,
    CUT,
    HALF,
    HALF_BOTH,
    HALF_CALL,
    fault,
    in_a_round,
    judged,
    known,
    repaired,
    replied,
    result,
    returned,
    steer,
)
from tests.core.build import failed as fails

YES, NO = True, False
K = FaultKind
LOOP = "round and round " * 20
HERE = known()
ROOMY = LoopConfig(max_output_tokens=1000, output_ceiling_tokens=1500)
FULL = LoopConfig(max_output_tokens=1500, output_ceiling_tokens=1500)
OVERFULL = LoopConfig(max_output_tokens=1600, output_ceiling_tokens=1500)


def cut(text: str = "", *calls, finish=Finish.LENGTH, **facts):
    """A record whose reply was cut."""
    return known(cut=Reply(text, calls, finish=finish), **facts)


# fmt: off
ANSWERS = [
    (g.was_cut,          HERE, replied("It is", finish=Finish.LENGTH),           YES),
    (g.was_cut,          HERE, replied("", ADD, finish=Finish.LENGTH),           YES),
    (g.was_cut,          HERE, replied("It is", finish=None),                    YES),
    (g.was_cut,          HERE, replied("It is", finish=Finish.WINDOW_FULL),      YES),
    (g.was_cut,          HERE, replied("", CUT, finish=Finish.TOOL_CALLS),       YES),
    (g.was_cut,          HERE, replied("", ADD, CUT, finish=Finish.STOP),        YES),
    (g.was_cut,          HERE, replied("It is."),                                NO),
    (g.was_cut,          HERE, replied("", ADD, BAD, finish=Finish.STOP),        NO),
    (g.was_cut,          HERE, replied(finish=Finish.STOP),                      NO),
    (g.was_refused,      HERE, replied(finish=Finish.REFUSED),                   YES),
    (g.was_refused,      HERE, replied("I cannot."),                             NO),
    (g.is_paused,        HERE, replied(finish=Finish.PAUSED),                    YES),
    (g.is_paused,        HERE, replied(finish=None),                             NO),
    (g.has_valid_call,   HERE, replied("", BAD, ADD),                            YES),
    (g.has_valid_call,   HERE, replied("", BAD),                                 NO),
    (g.has_valid_call,   HERE, replied("It is."),                                NO),
    (g.wants_tools,      HERE, replied("", BAD),                                 YES),
    (g.wants_tools,      HERE, replied("It is."),                                NO),
    (g.is_empty,         HERE, replied(" \n", reasoning="Hm."),                  YES),
    (g.is_empty,         HERE, replied(""),                                      YES),
    (g.is_empty,         HERE, replied("", BAD),                                 NO),
    (g.is_empty,         HERE, replied("."),                                     NO),
    (g.has_text,         HERE, replied("It is", finish=Finish.LENGTH),           YES),
    (g.has_text,         HERE, replied("It is", ADD),                            YES),
    (g.has_text,         HERE, replied("It is", finish=None),                    YES),
    (g.has_text,         HERE, replied("It is", finish=Finish.REFUSED),          NO),
    (g.has_text,         HERE, replied("It is", finish=Finish.PAUSED),           NO),
    (g.has_text,         HERE, replied(" \n", ADD),                              NO),
    (g.steer_waiting,    known(steers=("In French.",)), replied("It is."),       YES),
    (g.steer_waiting,    HERE, replied("It is."),                                NO),

    (g.nothing_shown,    HERE, fails(K.DROPPED),                                 YES),
    (g.nothing_shown,    HERE, fails(K.DROPPED, BLANK),                          YES),
    (g.nothing_shown,    HERE, fails(K.DROPPED, HALF_CALL),                      YES),
    (g.nothing_shown,    HERE, fails(K.DROPPED, Reply(reasoning="Hm.")),         YES),
    (g.nothing_shown,    HERE, fails(K.DROPPED, HALF),                           NO),
    (g.text_shown,       HERE, fails(K.DROPPED, HALF),                           YES),
    (g.text_shown,       HERE, fails(K.DROPPED, BLANK),                          NO),
    (g.text_shown,       HERE, fails(K.DROPPED, HALF_CALL),                      NO),
    (g.tool_in_flight,   HERE, fails(K.DROPPED, HALF_BOTH),                      YES),
    (g.tool_in_flight,   HERE, fails(K.DROPPED, HALF),                           NO),
    (g.may_retry,        HERE, fails(K.OVERLOADED),                              YES),
    (g.may_retry,        HERE, fails(K.OVERLOADED, retry_after_s=600.0),         YES),
    (g.may_retry,        HERE, fails(K.QUOTA_SPENT, should_retry=True),          YES),
    (g.may_retry,        HERE, fails(K.OVERLOADED, retry_after_s=600.1),         NO),
    (g.may_retry,        HERE, fails(K.OVERLOADED, should_retry=False),          NO),
    (g.may_retry,        HERE, fails(K.QUOTA_SPENT),                             NO),
    (g.may_retry,        HERE, fails(K.REFUSED, should_retry=True),              NO),
    (g.may_retry,        HERE, fails(K.BAD_UNICODE, should_retry=True),          NO),
    (g.waits_soon,       HERE, fails(K.RATE_LIMITED),                            YES),
    (g.waits_soon,       HERE, fails(K.RATE_LIMITED, retry_after_s=600.0),       YES),
    (g.waits_soon,       HERE, fails(K.RATE_LIMITED, retry_after_s=600.1),       NO),
    (g.falls_back,       HERE, fails(K.ACCESS_DENIED),                           YES),
    (g.falls_back,       HERE, fails(K.INTERNAL),                                NO),
    (g.is_outage,        HERE, fails(K.SERVER_ERROR),                            YES),
    (g.is_outage,        HERE, fails(K.SERVER_ERROR, should_retry=True),         YES),
    (g.is_outage,        HERE, fails(K.SERVER_ERROR, should_retry=False),        NO),
    (g.is_outage,        HERE, fails(K.RATE_LIMITED),                            NO),
    (g.is_malformed,     HERE, fails(K.MALFORMED),                               YES),
    (g.is_malformed,     HERE, fails(K.INCOMPLETE),                              NO),
    (g.misspoke,         HERE, fails(K.MISSPOKE),                                YES),
    (g.misspoke,         HERE, fails(K.MALFORMED),                               NO),
    (g.is_refusal,       HERE, fails(K.REFUSED),                                 YES),
    (g.is_refusal,       HERE, fails(K.ACCESS_DENIED),                           NO),
    (g.has_changed,      HERE, repaired(),                                       YES),
    (g.has_changed,      HERE, repaired(changed=False),                          NO),
    (g.fault_falls_back, known(fault=fault(K.MEDIA_REFUSED)), repaired(changed=False), YES),
    (g.fault_falls_back, known(fault=fault(K.INTERNAL)), repaired(changed=False), NO),
    (g.fault_falls_back, HERE, repaired(changed=False),                          NO),

    (g.call_was_cut,     cut("It is", CUT), judged(),                            YES),
    (g.call_was_cut,     cut("It is"), judged(),                                 NO),
    (g.call_was_cut,     HERE, judged(),                                         NO),
    (g.room_to_grow,     cut(config=ROOMY), judged(),                            YES),
    (g.room_to_grow,     cut(), judged(),                                        YES),
    (g.room_to_grow,     cut(config=FULL), judged(),                             NO),
    (g.room_to_grow,     cut(config=ROOMY, finish=Finish.WINDOW_FULL), judged(), NO),
    (g.room_to_grow,     cut(config=OVERFULL), judged(),                         NO),
    (g.room_to_grow,     cut(config=ROOMY, shape=Shape(1500)), judged(),         NO),
    (g.room_to_grow,     cut(config=ROOMY, shape=Shape(limits=((0, 1000),))), judged(), NO),
    (g.room_to_grow,     cut(config=ROOMY, shape=Shape(limits=((1, 1000),))), judged(), YES),
    (g.text_was_cut,     cut("It is"), judged(),                                 YES),
    (g.text_was_cut,     cut(" \n"), judged(),                                   NO),
    (g.makes_progress,   cut("It is"), judged(),                                 YES),
    (g.makes_progress,   cut("It is", pieces=("Well, ",)), judged(),             YES),
    (g.makes_progress,   cut(" It is", pieces=("It is ", "and so")), judged(),   NO),
    (g.makes_progress,   cut(LOOP), judged(),                                    NO),
    (g.makes_progress,   cut("It is", finish=Finish.WINDOW_FULL), judged(),      NO),
    (g.only_reasoned,    known(cut=Reply(reasoning="Hm.")), judged(),            YES),
    (g.only_reasoned,    cut(" \n"), judged(),                                   YES),
    (g.only_reasoned,    cut("It is"), judged(),                                 NO),
    (g.only_reasoned,    cut("", CUT), judged(),                                 NO),
    (g.only_reasoned,    cut(shape=Shape(less_reasoning=True)), judged(),        NO),

    (g.all_back,         in_a_round(result(ADD, "3"), result(BAD, "no")), returned(ADD), YES),
    (g.all_back,         in_a_round(result(ADD, "3"), None), returned(ADD),      NO),
    (g.must_stop,        HERE, returned(ADD, stop="again and again"),            YES),
    (g.must_stop,        HERE, returned(ADD),                                    NO),
    (g.is_now,           HERE, steer(now=True),                                  YES),
    (g.is_now,           HERE, steer(),                                          NO),
    *((needs(repair), HERE, fails(kind), kind.repair is repair) for repair in RepairKind for kind in FaultKind),
]
# fmt: on

PLAIN = {name_of_guard(guard) for row in PAGE.rows for guard in row.when if not isinstance(guard, Left)}
ASKED = {name_of_guard(guard): guard for row in PAGE.rows for guard in row.when if isinstance(guard, Left)}
HIGHEST_CAP = {"grace_calls": 1}  # a turn has one grace call or none
NOTHING_HAPPENS = TimerFired(attempt=7)


@pytest.mark.parametrize(
    ("guard", "record", "event", "expected"),
    [pytest.param(*each, id=f"{name_of_guard(each[0])}-{number}") for number, each in enumerate(ANSWERS)],
)
def test_a_guard_answers(guard, record, event, expected):
    """A guard says yes or no to the record that holds the event, and nothing else."""
    assert expected is guard(record, event)


@pytest.mark.parametrize("answer", [YES, NO])
def test_every_guard_has_both_answers(answer):
    """Each guard of the page has a yes and a no above, and none there is of no page."""
    assert {name_of_guard(guard) for guard, _, _, said in ANSWERS if said is answer} == PLAIN


@pytest.mark.parametrize("guard", [each for each in vars(g).values() if inspect.isfunction(each)], ids=name_of_guard)
def test_every_guard_is_used(guard):
    """A function of the module that takes a record and an event stands in a row of the page."""
    asks = [*inspect.signature(guard).parameters] == ["record", "event"]

    assert asks == (name_of_guard(guard) in PLAIN)


@pytest.mark.parametrize("guard", [*ASKED.values(), needs(RepairKind.SANITIZE)], ids=name_of_guard)
def test_a_made_guard_says_what_it_asks(guard):
    """A guard that is made of a counter or a repair has a name and a clause of its own."""
    assert guard.__name__.isidentifier()
    assert guard.__doc__
    assert guard.__doc__[-1] != "."


# ---------------------------------------------------------------- the counters


def capped(counter: Counter, cap: int, count: float):
    """A record in which the counter has this cap and this count; its cap may be the length of the chain."""
    if counter.cap is None:
        return known(providers=("model",) * (cap + 1), counts={counter.name: count})
    return known(config=attrs.evolve(LoopConfig(), **{counter.cap: cap}), counts={counter.name: count})


@pytest.mark.parametrize(
    ("counter", "cap"),
    [(each, cap) for each in COUNTERS for cap in (0, 1, 3) if cap <= HIGHEST_CAP.get(each.name, 3)],
    ids=lambda value: getattr(value, "name", value),
)
def test_one_more_is_allowed_below_the_cap_alone(counter, cap):
    """One below the cap there is one left; at the cap and above it there is none, and a cap of nothing allows none."""
    answers = {count: left(counter)(capped(counter, cap, count), NOTHING_HAPPENS) for count in (cap - 1, cap, cap + 1)}

    assert {cap - 1: True, cap: False, cap + 1: False} == answers
    assert (cap > 0) is left(counter)(capped(counter, cap, 0), NOTHING_HAPPENS)


@pytest.mark.parametrize("counter", [each for each in COUNTERS if each.measured], ids=lambda counter: counter.name)
def test_what_has_no_cap_is_always_left(counter):
    """Where the user set no limit there is always one more."""
    assert left(counter)(known(counts={counter.name: 1e12}), NOTHING_HAPPENS)


@pytest.mark.parametrize("counter", COUNTERS, ids=lambda counter: counter.name)
def test_a_budget_is_left_while_all_of_it_is(counter):
    """A budget says no as soon as one of its counters does, and names the first that did."""
    together, others = budget(*COUNTERS), budget(*(each for each in COUNTERS if each is not counter))
    record = capped(counter, 1, 1)

    assert together(capped(counter, 1, 0), NOTHING_HAPPENS)
    assert not together(record, NOTHING_HAPPENS)
    assert counter is together.missed(record)
    assert others(record, NOTHING_HAPPENS)


def test_a_budget_reads_as_it_is_written():
    """What is asked can be read in an error, on the page and in the specification."""
    one, two = left(COUNTERS[0]), budget(*COUNTERS[:2])

    assert "left(requests)" == repr(one)
    assert "left(requests, iterations)" == repr(two)
    assert "requests is under its cap" == one.__doc__
    assert "requests and iterations are under their caps" == two.__doc__


# ---------------------------------------------------------------- how far an output limit goes


@pytest.mark.parametrize(
    ("shape", "config", "written", "now", "then"),
    [
        (Shape(), LoopConfig(), 0, 4096, 8192),  # nobody said
        (Shape(), LoopConfig(), 6000, 6000, 12000),  # the provider's own limit shows in what it wrote
        (Shape(), LoopConfig(max_output_tokens=500), 500, 500, 1000),
        (Shape(8192), LoopConfig(max_output_tokens=500), 0, 8192, 16384),
        (Shape(20000), LoopConfig(), 0, 20000, 32768),  # the ceiling
        (Shape(20000, limits=((0, 4000),)), LoopConfig(), 0, 4000, 4000),  # what the provider takes
        (Shape(limits=((0, 4000),)), LoopConfig(), 0, 4000, 4000),
        (Shape(limits=((1, 4000),)), LoopConfig(max_output_tokens=500), 0, 500, 1000),
    ],
)
def test_the_next_output_limit_is_twice_the_last(shape, config, written, now, then):
    """A boost asks for twice the limit that was hit, up to the ceiling and to what the provider takes."""
    record = known(config=config, shape=shape, cut=Reply(usage=Usage(output_tokens=written)))

    assert (now, then) == (g.current_limit(record), g.next_limit(record))
