"""What is known, and how each event adds to it."""

from __future__ import annotations

import copy

import pytest

from fsm_loop.config import LoopConfig
from fsm_loop.core import counters as c
from fsm_loop.core.events import ModelFailed, TurnStarted
from fsm_loop.core.faults import Fault, FaultKind
from fsm_loop.core.messages import Reply, ToolMessage, ToolStatus, Usage
from fsm_loop.core.record import Record, Shape, begin, is_late
from tests.core.build import (
    ADD,
    HALF,
    PROVIDERS,
    QUESTION,
    SUB,
    fired,
    granted,
    in_a_round,
    interrupt,
    known,
    rebuild,
    refused_slot,
    replied,
    returned,
    started,
    steer,
)

USED = Usage(10, 5, cost=0.25)
DOWN = Fault(FaultKind.OVERLOADED)
TIMED = LoopConfig(turn_seconds=60.0)


def test_a_record_begins_with_nothing_known():
    """But the limits and the providers, the first of which is asked first."""
    record = begin(LoopConfig(), PROVIDERS)

    assert Record(config=LoopConfig(), providers=PROVIDERS) == record
    assert (2, 0, 0, None) == (record.chain, record.attempt, record.provider, record.seconds_left)
    assert "" == record.answer


# fmt: off
ADDS = [
    (known(prompt=()), TurnStarted(messages=(QUESTION,), at=3.0), {"prompt": (QUESTION,), "started_at": 3.0}),
    (known(steers=("One.",)), steer("Two."), {"steers": ("One.", "Two.")}),
    (known(fault=DOWN), replied("It is.", usage=USED), {"fault": None, "usage": USED, "counts": {"tokens": 15, "cost": 0.25}}),
    (known(usage=USED, counts={"requests": 2}), replied(usage=USED), {"usage": USED + USED, "counts": {"requests": 2, "tokens": 30, "cost": 0.5}}),
    (known(), ModelFailed(attempt=7, fault=DOWN), {"fault": DOWN}),
    (known(), ModelFailed(attempt=7, fault=DOWN, partial=Reply(usage=USED)), {"fault": DOWN, "usage": USED, "counts": {"tokens": 15, "cost": 0.25}}),
    (known(), refused_slot(), {"fault": refused_slot().fault}),
    (in_a_round(), returned(SUB, "5"), {"results": (None, ToolMessage("c2", "5"))}),
    (in_a_round(), returned(ADD, "no", status=ToolStatus.ERROR), {"results": (ToolMessage("c1", "no", ToolStatus.ERROR), None)}),
    (in_a_round(ToolMessage("c1", "3"), None), returned(ADD, "4"), {}),
    (known(config=TIMED, started_at=10.0), fired(), {"counts": {"turn_seconds": 0}}),
    (known(config=TIMED, started_at=10.0), granted(at=25.0), {"counts": {"turn_seconds": 15.0}}),
    (known(config=TIMED, started_at=10.0, counts={"turn_seconds": 20.0}), granted(at=25.0), {"counts": {"turn_seconds": 20.0}}),  # time never runs back
    (known(config=TIMED), granted(at=25.0), {}),
    (known(), granted(at=25.0), {}),
    (known(), started(), {}),
    (known(), interrupt(HALF), {}),
    (known(), rebuild(), {}),
]
# fmt: on


@pytest.mark.parametrize(("record", "event", "expected"), ADDS)
def test_an_event_adds_what_it_tells(record, event, expected):
    """And nothing else; the record before it stays as it was."""
    before = copy.deepcopy(record)

    assert record.but(**expected) == record.after(event)
    assert before == record


def test_an_event_that_tells_nothing_leaves_the_same_record():
    """Nothing is copied where nothing changes."""
    record = known()

    assert record is record.after(started())


def test_a_failure_read_from_a_journal_is_the_same():
    """A usage of nothing counts as nothing, be it ours or one that was written down and read again."""
    here, read_again = (
        ModelFailed(attempt=7, fault=DOWN, partial=Reply(usage=usage)) for usage in (Reply().usage, Usage())
    )

    assert known().after(here) == known().after(read_again)
    assert {} == known().after(read_again).counts


def test_an_answer_to_another_attempt_is_late():
    """Words of the user are never late."""
    assert [False, True, True] == [is_late(known(attempt=attempt), granted()) for attempt in (7, 8, 6)]
    assert not is_late(known(attempt=8), interrupt())


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({}, ""),
        ({"lead": "So: ", "pieces": ("It ", "is")}, "So: It is"),
        ({"pieces": ("It ",), "cut": Reply("is")}, "It is"),
    ],
)
def test_the_answer_is_what_was_shown_of_it(facts, expected):
    """What was paused, what is being continued, and what was just cut, in this order."""
    assert expected == known(**facts).answer


def test_counts_are_read_by_their_counters():
    """What was never counted is nothing; a cap may be none."""
    record = known(counts={"requests": 160, "boosts": 2})

    assert (160, 2, 0) == tuple(record.count(each) for each in (c.requests, c.boosts, c.iterations))
    assert (160, 2, None) == tuple(record.cap(each) for each in (c.requests, c.fallbacks, c.tokens))
    assert (False, True, True) == tuple(record.has_left(each) for each in (c.requests, c.boosts, c.tokens))


def test_what_is_left_of_a_turn_is_never_less_than_nothing():
    """The seconds of a turn that is over its time are none."""
    left_s = [known(config=TIMED, counts={"turn_seconds": seconds}).seconds_left for seconds in (0, 45.5, 60, 75)]

    assert [60, 14.5, 0, 0] == left_s


@pytest.mark.parametrize(
    ("shape", "most", "expected"),
    [
        (Shape(), None, None),
        (Shape(), 500, 500),
        (Shape(8192), 500, 8192),
        (Shape(limits=((0, 400),)), None, 400),
        (Shape(limits=((0, 400),)), 300, 300),
        (Shape(8192, limits=((0, 400),)), 300, 400),
        (Shape(8192, limits=((1, 400),)), 300, 8192),
    ],
)
def test_an_output_limit_is_the_wished_one_where_the_provider_takes_it(shape, most, expected):
    """What a boost asked for comes before what the turn began with; what the provider takes is above neither."""
    assert expected == shape.limit_for(0, LoopConfig(max_output_tokens=most))
