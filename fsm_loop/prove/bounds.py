"""The exact worst case of a config: how many requests, rounds of tools and seconds a turn can come to.

No row can be taken more often than its counter allows, and a counter allows its cap once, and once more for each time
that it is refilled. Counted from the highest rank down, this gives formulas that no turn can exceed; and a number is
called exact only where a turn that reaches it has been walked through the real `step`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from math import isclose
from typing import Any

from attrs import evolve, frozen

from fsm_loop.config import LoopConfig
from fsm_loop.core.machine import PAGE
from fsm_loop.core.rows import Page
from fsm_loop.prove.anypage import most_calls_on, most_tool_rounds_on
from fsm_loop.prove.lasting import OUTCOMES, longest_turn, most_lasted_s
from fsm_loop.prove.terms import OF_ONE, TERMS, evaluated, formula
from fsm_loop.prove.tokens import fullest, most_tokens
from fsm_loop.prove.waiting import longest_wait, plan
from fsm_loop.prove.walk import Walk
from fsm_loop.prove.worst import most_calls, most_calls_of, most_tool_rounds, unlimited

LONGEST_WALK = 100_000  # requests; a turn of so many takes a minute to walk
TOO_LONG = "a turn so long is not walked"
BY_ROWS = "by counting rows"
OWN_PAGE = "not known for a page of your own"
SAYS = {
    "llm_calls": ("calls", "model calls"),
    "llm_calls_of_one_provider": ("calls", "to any one provider"),
    "tool_rounds": ("rounds", "tool rounds"),
    "waited_s": ("s", "waits between calls"),
    "lasted_s": ("s", "the longest turn"),
    **{f"until_{outcome}_s": ("s", f"until {outcome}") for outcome in OUTCOMES},
    "output_tokens": ("tokens", "tokens written"),
    "llm_calls_uncapped": ("calls", "without max_requests"),
    "llm_calls_unasked": ("calls", "and without rebuilds by the host"),
}


@frozen
class Bound:
    """One number that no turn exceeds; exact where a turn that was walked reaches it.

    `value` is None where nothing bounds it, and `note` says why; where the number is not exact, `reached` is what a
    turn was walked to, None where that turn would be too long to walk.
    """

    name: str
    value: float | None
    exact: bool = True
    reached: float | None = None
    note: str = ""

    @property
    def unit(self) -> str:
        """What is counted, or seconds."""
        return SAYS[self.name][0]

    @property
    def says(self) -> str:
        """What the number is of, in a few words."""
        return SAYS[self.name][1]

    def __str__(self) -> str:
        """The bound, to be read."""
        if self.value is None:
            return f"{self.says}: {self.note}"
        least = "" if self.exact else "at most "
        beside = "" if self.exact else f" ({self.note})"
        return f"{self.says}: {least}{round(self.value, 3):,} {self.unit}{beside}".replace(".0 ", " ")


@frozen
class Bounds:
    """The worst case of a config, with `chain` providers behind the first.

    `exact_formulas` says that the formulas hold: the page is ours.
    """

    config: LoopConfig
    chain: int
    all: tuple[Bound, ...]
    exact_formulas: bool = True

    def __getitem__(self, name: str) -> Bound:
        """The bound of this name."""
        return next(each for each in self.all if each.name == name)

    @property
    def formula(self) -> str:
        """The most calls, and seconds waited, without max_requests, in the names of the config."""
        return formula()

    def plain(self) -> dict[str, float | None]:
        """The bounds as data; None where nothing bounds."""
        return {each.name: each.value for each in self.all}

    def not_exact(self) -> dict[str, Any]:
        """What is said of each bound that is no turn's: how far a turn was walked, and why no further."""
        return {each.name: {"reached": each.reached, "why": each.note} for each in self.all if not each.exact}


def most_requests(config: LoopConfig) -> int:
    """How many requests the budget lets out, the grace call aside; a budget of nothing lets out none."""
    measured = (config.tokens, config.cost, config.turn_seconds)
    return 0 if any(cap is not None and cap <= 0 for cap in measured) else config.max_requests


@cache
def bounds(config: LoopConfig | None = None, chain: int = 0, page: Page = PAGE) -> Bounds:
    """The worst case of this config, with this many providers behind the first.

    The formulas are those of our own page; for another one, what its rows and counters allow is given, at most.

    The user's words are not counted on: each one may add to a turn. Replies are taken to report no tokens and no cost,
    for less of a turn fits into the caps on these the more they report.
    """
    config = config or LoopConfig()
    if page is not PAGE:
        return _of_page(page, config, chain)
    free, most, grace = unlimited(config), most_requests(config), config.grace_calls
    calls = _uncapped(config, chain)

    def capped(terms: Mapping[str, str]) -> float:
        return min(evaluated(config, chain, terms)["calls"] - grace, most) + grace

    def total(walk: Walk) -> float:
        return sum(walk.calls)

    ones = tuple(partial(most_calls_of, place, config, chain) for place in range(chain + 1))
    tools, unasked = min(config.max_iterations, most), _uncapped(config, chain, rebuilds=0)
    unasked_walk = partial(most_calls, free, chain, rebuilds=False)
    return Bounds(
        config,
        chain,
        (
            _bound("llm_calls", capped(TERMS), total, partial(most_calls, config, chain)),
            _bound("llm_calls_of_one_provider", capped(OF_ONE), lambda walk: max(walk.calls), *ones),
            _bound("tool_rounds", tools, lambda walk: walk.tool_rounds, partial(most_tool_rounds, config, chain)),
            _waited(config, chain, most, calls),
            *_lasted(config, chain, most, calls),
            _written(config, chain, most),
            _bound(
                "llm_calls_uncapped", min(calls, most_requests(free)) + grace, total, partial(most_calls, free, chain)
            ),
            _bound("llm_calls_unasked", min(unasked, most_requests(free)) + grace, total, unasked_walk),
        ),
    )


def _of_page(page: Page, config: LoopConfig, chain: int) -> Bounds:
    """What can be told from the page alone."""
    calls, rounds = most_calls_on(page, config, chain), most_tool_rounds_on(page, config, chain)
    known = [
        Bound(name, number, exact=False, note=BY_ROWS)
        for name, number in (("llm_calls", calls), ("tool_rounds", rounds))
    ]
    unknown = [Bound(name, None, exact=False, note=OWN_PAGE) for name in ("waited_s", "lasted_s", "output_tokens")]
    return Bounds(config, chain, (*known, *unknown), exact_formulas=False)


def _bound(name: str, most: float, measure: Callable[[Walk], float], *walks: Callable[[], Walk]) -> Bound:
    """The bound, and whether each of the turns that are walked reaches it."""
    if most > LONGEST_WALK and SAYS[name][0] == "calls":
        return Bound(name, most, exact=False, note=TOO_LONG)
    reached = min(measure(walk()) for walk in walks)
    if isclose(reached, most):
        return Bound(name, most)
    return Bound(name, most, exact=False, reached=reached, note=f"a turn of {round(reached, 3):,} was walked")


def most_waited_s(config: LoopConfig, chain: int) -> float:
    """The most seconds that a turn can wait; no turn is walked to it."""
    chosen = plan(config, chain, most_requests(config), _uncapped(config, chain))
    assert chosen is not None  # every turn can be exhausted
    return chosen.total_s if config.turn_seconds is None else min(chosen.total_s, config.turn_seconds)


def _uncapped(config: LoopConfig, chain: int, **other: float) -> int:
    """The most requests without a cap on them, the grace call aside."""
    return int(evaluated(config, chain, TERMS, **other)["calls"]) - config.grace_calls


def _waited(config: LoopConfig, chain: int, requests: int, calls: int) -> Bound:
    most_s = most_waited_s(config, chain)
    if min(requests, calls) > LONGEST_WALK:
        return Bound("waited_s", most_s, exact=False, note=TOO_LONG)
    return _bound("waited_s", most_s, lambda walk: walk.waited_s, partial(longest_wait, config, chain, requests, calls))


def _lasted(config: LoopConfig, chain: int, requests: int, calls: int) -> list[Bound]:
    """The longest turn of all, which is the longest until an interrupt too, and the longest for each other outcome."""
    found = [_until(outcome, config, chain, requests, calls) for outcome in OUTCOMES if outcome != "interrupted"]
    longest = max((each for each in found if each.value is not None), key=lambda each: (each.value, each.exact))
    stopped = evolve(longest, name="until_interrupted_s")
    return [evolve(longest, name="lasted_s"), *found, stopped]


def _until(outcome: str, config: LoopConfig, chain: int, requests: int, calls: int) -> Bound:
    name = f"until_{outcome}_s"
    most_s = most_lasted_s(config, chain, requests, calls, outcome)
    if most_s is None:
        return Bound(name, None, exact=False, note="no turn can end so, for no request goes out")
    if min(requests, calls) > LONGEST_WALK:
        return Bound(name, most_s, exact=False, note=TOO_LONG)
    walk = longest_turn(config, chain, requests, calls, outcome)
    if walk is None:
        return Bound(name, most_s, exact=False, note="no turn was walked to this end")
    return _bound(name, most_s, lambda walk: walk.at, lambda: walk)


def _written(config: LoopConfig, chain: int, requests: int) -> Bound:
    filled = most_tokens(config, chain, requests)
    if filled is None:
        why = "no max_output_tokens is set"
        return Bound("output_tokens", None, exact=False, note=why)
    return _bound(
        "output_tokens", filled.tokens, lambda walk: walk.tokens, partial(fullest, config, chain, filled.episodes)
    )
