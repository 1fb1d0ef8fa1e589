"""A user's own page: ours, with a state before the first call, in which a person may think again."""

from __future__ import annotations

from enum import Enum

from fsm_loop import PAGE, State
from fsm_loop.core.counters import Counter
from fsm_loop.core.events import InterruptAsked, RebuildAsked, SteerGiven, TimerFired, TurnStarted
from fsm_loop.core.guards import left
from fsm_loop.core.rows import Page, line


class Mine(Enum):
    ASKED = "a person to allow the turn | or not"


def not_yet_allowed(record, event):  # noqa: D103  # a guard whose author wrote no sentence
    return False


def done_by(name):
    """What the row of this name does on our own page."""
    return next(row.do for row in PAGE.rows if row.name == name)


THOUGHTS = Counter("thoughts", "times that a person thinks again", 7)

OWN_PAGE = Page(
    states=(State.READY, Mine.ASKED, *list(State)[1:]),
    start=State.READY,
    done=State.DONE,
    lines=(
        line(State.READY, TurnStarted, [], Mine.ASKED, done_by("ready.steer_given")),
        line(
            Mine.ASKED,
            TimerFired,
            [not_yet_allowed, left(THOUGHTS)],
            Mine.ASKED,
            done_by("ready.steer_given"),
            THOUGHTS,
        ),
        line(Mine.ASKED, TimerFired, [], State.CALLING, done_by("ready.turn_started")),
        line(Mine.ASKED, InterruptAsked, [], State.DONE, done_by("ready.interrupt_asked")),
        line(Mine.ASKED, SteerGiven, [], None, done_by("ready.steer_given")),
        line(Mine.ASKED, RebuildAsked, [], None, done_by("ready.rebuild_asked")),
        *PAGE.lines[1:],
    ),
    counters=(*PAGE.counters, THOUGHTS),
)
