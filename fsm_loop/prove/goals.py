"""What a tuned config is to reach: a sentence such as `p(completed) >= 0.999`, read and asked of odds."""

from __future__ import annotations

import re
from math import isfinite

from attrs import frozen

from fsm_loop.core.counters import COUNTERS
from fsm_loop.errors import ConfigError
from fsm_loop.prove.odds import Odds

OUTCOMES = ("completed", "partial", "refused", "exhausted", "failed")
GRAMMAR = (
    f"p(OUTCOME), p(exhausted COUNTER), calls or waited, then >= or <=, then a number; "
    f"OUTCOME is one of {', '.join(OUTCOMES)}"
)
_GOAL = re.compile(r"\s*(?:p\(\s*(?P<what>[a-z_]+)(?:\s+(?P<counter>[a-z_]+))?\s*\)|(?P<mean>calls|waited))"
                   r"\s*(?P<sign>>=|<=)\s*(?P<number>[0-9.eE+-]+)\s*")  # fmt: skip


@frozen
class Goal:
    """A figure of the odds, and the side of a number that it is to be on.

    `outcome` or `counter` name a probability; where both are empty, it is the mean that `mean` names.
    """

    text: str
    at_least: bool
    number: float
    outcome: str = ""
    counter: str = ""
    mean: str = ""

    def of(self, found: Odds) -> float:
        """The figure that the goal speaks of."""
        if self.mean:
            return found.calls if self.mean == "calls" else found.waited_s
        return found.outcomes.get(self.outcome, 0.0) if self.outcome else found.exhausted.get(self.counter, 0.0)

    def reached(self, found: Odds) -> bool:
        """Whether the goal is reached for certain, with what the odds left out counted against it."""
        return self.short_by(found) <= 0

    def short_by(self, found: Odds) -> float:
        """How far the figure is from the goal; 0 or less where it is reached."""
        figure, doubt = self.of(found), 0.0 if self.mean else found.unaccounted
        return self.number - figure if self.at_least else figure + doubt - self.number


def goal_of(text: str) -> Goal:
    """The goal that a sentence stands for; raises ConfigError with what is allowed where it stands for none."""
    match = _GOAL.fullmatch(text)
    if match is None:
        raise ConfigError(f'--goal "{text}": write {GRAMMAR}; as in "p(completed) >= 0.999"')
    what, counter, mean = (match[name] or "" for name in ("what", "counter", "mean"))
    number = _number(text, match["number"], chance=not mean)
    outcome = ""
    if not mean:
        outcome = "" if counter else what
        _known(text, what, counter)
    return Goal(text.strip(), match["sign"] == ">=", number, outcome, counter, mean)


def _known(text: str, what: str, counter: str) -> None:
    names = [each.name for each in COUNTERS]
    if counter and (what != "exhausted" or counter not in names):
        raise ConfigError(f'--goal "{text}": p(exhausted COUNTER) takes one of the counters {", ".join(names)}')
    if not counter and what not in OUTCOMES:
        hint = f"; for the counter write p(exhausted {what})" if what in names else ""
        raise ConfigError(f'--goal "{text}": {what!r} is no outcome; a turn ends as {", ".join(OUTCOMES)}{hint}')


def _number(text: str, written: str, *, chance: bool) -> float:
    try:
        number = float(written)
    except ValueError:
        number = -1.0
    if not isfinite(number) or number < 0 or (chance and number > 1):
        raise ConfigError(f'--goal "{text}": {written!r} is not a number {"from 0 to 1" if chance else "of 0 or more"}')
    return number
