"""Who watches a turn: told of its beginning, each decision and its end, in order; one that fails is told no more."""

from __future__ import annotations

import pytest

from fsm_loop.core.machine import PAGE
from fsm_loop.errors import TrailFailed
from fsm_loop.loop import Loop
from fsm_loop.testing.clock import VirtualClock
from fsm_loop.testing.fakes import ScriptedModel, says


class Listens:
    """A watcher that keeps what it was told, and fails at one word of it, if it is to."""

    def __init__(self, log, name, fails_at=None, error=ValueError):
        self.log, self.name, self.fails_at, self.error = log, name, fails_at, error

    def opened(self, turn_id, turn, page):
        assert turn.state is page.start is PAGE.start
        self.hear("opened")

    def saw(self, turn_id, seq, decision):
        self.hear(f"saw {seq}")

    def closed(self, turn_id, turn):
        assert turn.state is PAGE.done
        self.hear("closed")

    def hear(self, word):
        self.log.append((self.name, word))
        if word == self.fails_at:
            raise self.error("no ears")


class Hears:
    """A watcher that asks for decisions alone."""

    def __init__(self, log):
        self.log = log

    def saw(self, turn_id, seq, decision):
        self.log.append(("hears", f"saw {seq}"))


def run(*watchers):
    """A turn of four decisions, watched."""
    clock = VirtualClock()
    loop = Loop(model=ScriptedModel([says("ok")], clock=clock), watchers=watchers, clock=clock)
    return clock.run(lambda: loop.run("hi"))


WORDS = ["opened", "saw 0", "saw 1", "saw 2", "saw 3", "closed"]


def test_all_are_told_in_order():
    """Each word is told to all before the next one; who asks for decisions alone gets them alone."""
    log = []
    run(Listens(log, "a"), Hears(log), Listens(log, "b"))
    listens = [(name, word) for word in WORDS for name in ("a", "hears", "b")]

    assert [each for each in listens if each not in (("hears", "opened"), ("hears", "closed"))] == log


@pytest.mark.parametrize("word", WORDS)
def test_one_that_fails_is_told_no_more(word):
    """Its failure is kept, the others hear everything, and the turn is as it is."""
    log = []
    result = run(Listens(log, "a", word), Listens(log, "b"))

    assert WORDS[: WORDS.index(word) + 1] == [each for name, each in log if name == "a"]
    assert WORDS == [each for name, each in log if name == "b"]
    assert ("completed", ("Listens: ValueError: no ears",)) == (result.outcome, result.trail_faults)


@pytest.mark.parametrize("word", WORDS)
def test_one_that_the_turn_must_not_go_on_without_ends_it(word):
    """The turn fails at once; where it is over already, it stays as it ended."""
    log = []
    result = run(Listens(log, "a", word, TrailFailed), Listens(log, "b"))
    over = word in ("saw 3", "closed")

    assert WORDS[: WORDS.index(word) + 1] == [each for name, each in log if name == "a"]
    assert "closed" == log[-1][1]
    assert ("completed" if over else "failed") == result.outcome
    assert ("Listens: no ears",) == result.trail_faults
    if not over:
        assert ("trail", "no ears", "interrupt_asked") == (
            result.issuer,
            result.fault.message,
            result.trail[-1].row.split(".")[1],
        )
