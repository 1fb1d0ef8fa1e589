"""A watcher in a thread of its own: a slow one holds nothing up, and one that fails or falls behind is told."""

from __future__ import annotations

from threading import Event

import pytest

from fsm_loop.audit.apart import Apart, Behind
from fsm_loop.audit.jsonl import JsonLines
from fsm_loop.audit.reading import read
from fsm_loop.audit.verify import verify
from fsm_loop.core.faults import FaultKind
from fsm_loop.testing.fakes import calls, fails, says
from tests.drive.turns import drive

PATIENCE_S = 30.0


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


SCRIPT = [fails(FaultKind.OVERLOADED), calls(("add", {"a": 1, "b": 2})), says("three")]


def run(watcher):
    """A turn of eleven decisions, watched."""
    return drive(SCRIPT, tools=[add], ports={"watchers": [watcher]}).result


class Slow:
    """A watcher that writes nothing until it may."""

    def __init__(self):
        self.may, self.seen = Event(), []

    def saw(self, turn_id, seq, decision):
        assert self.may.wait(PATIENCE_S)
        self.seen.append(seq)


class Breaks:
    """A watcher that fails at one decision."""

    def __init__(self, at):
        self.at = at

    def saw(self, turn_id, seq, decision):
        if seq == self.at:
            raise OSError("no room")


class Noticed(dict):
    """Says when something is put into it."""

    def __init__(self):
        super().__init__()
        self.put = Event()

    def __setitem__(self, name, value):
        super().__setitem__(name, value)
        self.put.set()


def test_all_is_written_in_order(tmp_path):
    """Once it is closed, the trail is whole."""
    with JsonLines(tmp_path / "t") as sink, Apart(sink) as watcher:
        results = [run(watcher) for _ in range(3)]
    verdict = verify(read(tmp_path / "t"))

    assert [(each.turn_id, True) for each in results] == [(each.turn_id, each.over) for each in verdict.turns]
    assert verdict.verified
    assert [(), (), ()] == [each.trail_faults for each in results]


def test_a_slow_one_holds_nothing_up():
    """The turn is over while nothing is written yet, and what waits is written later."""
    slow = Slow()
    with Apart(slow) as watcher:
        result = run(watcher)
        assert ("completed", (), []) == (result.outcome, result.trail_faults, slow.seen)
        slow.may.set()

    assert list(range(11)) == slow.seen


def test_one_that_falls_behind_is_left():
    """Where the queue is full the turn goes on, and its result says so once."""
    slow = Slow()
    with Apart(slow, most_waiting=4) as watcher:
        result = run(watcher)
        slow.may.set()

    assert "completed" == result.outcome
    assert ("Apart: Behind: 4 records wait to be written, and there is no room for more",) == result.trail_faults


def test_one_that_fails_is_told_with_what_comes_next():
    """A failure in the thread is a fault of that turn's trail; the next turn is watched again."""
    breaks = Breaks(at=0)
    with Apart(breaks) as watcher:
        watcher._failed = failed = Noticed()

        class Waits:
            """Lets the thread come to its failure before the turn goes on."""

            def saw(self, turn_id, seq, decision):
                assert seq or failed.put.wait(PATIENCE_S)

        first = drive(SCRIPT, tools=[add], ports={"watchers": [watcher, Waits()]}).result
        breaks.at = -1
        second = run(watcher)

    assert ("completed", ("Apart: Behind: OSError: no room",)) == (first.outcome, first.trail_faults)
    assert () == second.trail_faults


def test_who_closes_does_not_wait_for_ever():
    """A watcher that hangs is left, with the number of what was not written."""
    slow = Slow()
    watcher = Apart(slow, patience_s=0.01)
    run(watcher)
    try:
        with pytest.raises(Behind, match=r"records were not written within 0\.01 s"):
            watcher.close()
    finally:
        slow.may.set()
