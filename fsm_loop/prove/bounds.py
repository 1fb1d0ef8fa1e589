"""The exact worst case of a config: how many requests, rounds of tools and seconds of waiting a turn can come to.

No row can be taken more often than its counter allows, and a counter allows its cap once, and once more for each time
that it is refilled. Counted from the highest rank down, this gives the formulas below, which no turn can exceed; and
each number is given only after a turn that reaches it has been walked through the real `step`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import partial
from math import isclose
from typing import Any

from attrs import fields, frozen

from fsm_loop.config import LoopConfig
from fsm_loop.prove.waiting import longest_wait, plan
from fsm_loop.prove.walk import Walk
from fsm_loop.prove.worst import most_calls, most_calls_of, most_tool_rounds, unlimited

# The terms, each made of settings and of terms above it.
TERMS: Mapping[str, str] = {
    "rounds": "max(1, max_iterations)",
    "cuts": "rounds * (continuations + boosts)",
    "cycles": "rounds * recoveries",
    "hops": "chain * (1 + cycles)",
    "retries": "(api_max_retries + stream_retries) * (rounds + cuts + cycles + hops)",
    "repairs": "sanitizations + credential_refreshes + output_limit_repairs + history_repairs + media_repairs"
    " + parameter_repairs + stream_switches + rounds * compactions",
    "again": "rounds * (empty_replies + bad_tool_rounds)",
    "asked_by_host": "rebuilds * (1 + max_iterations + again)",
    "calls": "1 + max_iterations + cuts + cycles + hops + retries + repairs + again + asked_by_host + grace_calls",
}
# As above, where one provider gets all that it can, and the others none.
OF_ONE: Mapping[str, str] = {
    **TERMS,
    "retries": "(api_max_retries + stream_retries) * (rounds + cuts + cycles)",
    "calls": "1 + max_iterations + cuts + cycles + retries + repairs + again + asked_by_host + grace_calls",
}


LONGEST_WALK = 100_000  # requests; a turn of so many takes a minute to walk
SAYS = {
    "llm_calls": ("calls", "model calls in one turn, the grace call among them"),
    "llm_calls_of_one_provider": ("calls", "calls of any one provider"),
    "tool_rounds": ("rounds", "tool rounds"),
    "waited_s": ("s", "seconds waited between calls, with jitter at its top and every Retry-After at max_wait_s"),
    "llm_calls_uncapped": ("calls", "model calls if there were no max_requests"),
    "llm_calls_unasked": ("calls", "of these, where the host asks for no rebuild"),
}


@frozen
class Bound:
    """One number that no turn exceeds, and that some turn reaches; None where it is not known exactly, with why."""

    name: str
    value: float | None
    unit: str
    says: str
    why_not: str = ""

    def __str__(self) -> str:
        """The bound, to be read."""
        if self.value is None:
            return f"{self.says}: not known exactly: {self.why_not}"
        return f"{self.says}: {round(self.value, 3):,} {self.unit}".replace(".0 ", " ")


@frozen
class Bounds:
    """The worst case of a config, with `chain` providers behind the first."""

    config: LoopConfig
    chain: int
    llm_calls: Bound
    llm_calls_uncapped: Bound
    llm_calls_unasked: Bound
    llm_calls_of_one_provider: Bound
    tool_rounds: Bound
    waited_s: Bound

    @property
    def all(self) -> tuple[Bound, ...]:
        """Each of the bounds."""
        return (
            self.llm_calls,
            self.llm_calls_of_one_provider,
            self.tool_rounds,
            self.waited_s,
            self.llm_calls_uncapped,
            self.llm_calls_unasked,
        )

    @property
    def formula(self) -> str:
        """The most calls without max_requests, in the names of the config."""
        return formula()

    def plain(self) -> dict[str, Any]:
        """The bounds as data."""
        return {each.name: each.value for each in self.all}


def formula(terms: Mapping[str, str] = TERMS) -> str:
    """The most requests without max_requests, in the names of the config; `chain` is the number of fallbacks."""
    wide = max(map(len, terms))
    return "\n".join(f"{name:{wide}} = {term}" for name, term in terms.items())


def evaluated(config: LoopConfig, chain: int, terms: Mapping[str, str] = TERMS, **other: float) -> dict[str, float]:
    """Each term with its value; *other* settings come before those of the config."""
    known: dict[str, float] = {
        "chain": chain,
        **{each.name: getattr(config, each.name) for each in fields(type(config))},
    }
    known |= other
    for name, term in terms.items():
        known[name] = _value(ast.parse(term, mode="eval").body, known)
    return {name: known[name] for name in terms}


def _value(node: ast.expr, known: Mapping[str, float]) -> float:
    """The value of a sum, a product, a maximum, a name or a number: a term has nothing else in it."""
    match node:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _value(left, known) + _value(right, known)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _value(left, known) * _value(right, known)
        case ast.Call(args=[one, two]):
            return max(_value(one, known), _value(two, known))
        case ast.Name(id=name):
            return known[name]
        case ast.Constant(value=int(number)):
            return number
    raise AssertionError(ast.unparse(node))


def most_requests(config: LoopConfig) -> int:
    """How many requests the budget lets out, the grace call aside; a budget of nothing lets out none."""
    measured = (config.tokens, config.cost, config.turn_seconds)
    return 0 if any(cap is not None and cap <= 0 for cap in measured) else config.max_requests


def bounds(config: LoopConfig | None = None, chain: int = 0) -> Bounds:
    """The worst case of this config, with this many providers behind the first.

    The user's words are not counted on: each one may add to a turn. Replies are taken to report no tokens, no cost
    and no time, for less of a turn fits into the caps on these the more they report.
    """
    config = config or LoopConfig()
    free, most = unlimited(config), most_requests(config)
    grace = config.grace_calls
    free_calls = int(evaluated(free, chain)["calls"]) - grace

    def capped(terms: Mapping[str, str]) -> float:
        return min(evaluated(config, chain, terms)["calls"] - grace, most) + grace

    def total(walk: Walk) -> float:
        return sum(walk.calls)

    ones = tuple(partial(most_calls_of, place, config, chain) for place in range(chain + 1))
    return Bounds(
        config=config,
        chain=chain,
        llm_calls=_bound("llm_calls", capped(TERMS), total, partial(most_calls, config, chain)),
        llm_calls_of_one_provider=_bound(
            "llm_calls_of_one_provider", capped(OF_ONE), lambda walk: max(walk.calls), *ones
        ),
        tool_rounds=_bound(
            "tool_rounds",
            min(config.max_iterations, most),
            lambda walk: walk.tool_rounds,
            partial(most_tool_rounds, config, chain),
        ),
        waited_s=_bound(
            "waited_s",
            plan(config, chain, most, free_calls).waited_s,
            lambda walk: walk.waited_s,
            partial(longest_wait, config, chain, most, free_calls),
        ),
        llm_calls_uncapped=_bound(
            "llm_calls_uncapped", evaluated(free, chain)["calls"], total, partial(most_calls, free, chain)
        ),
        llm_calls_unasked=_bound(
            "llm_calls_unasked",
            evaluated(free, chain, rebuilds=0)["calls"],
            total,
            partial(most_calls, free, chain, rebuilds=False),
        ),
    )


def _bound(name: str, most: float, measure: Callable[[Walk], float], *walks: Callable[[], Walk]) -> Bound:
    """The bound, if the turns that are walked reach it."""
    unit, says = SAYS[name]
    if unit != "s" and most > LONGEST_WALK:
        why = f"at most {round(most, 3):,} by the formula, but a turn as long as that is too long to walk"
        return Bound(name, None, unit, says, why)
    reached = min(measure(walk()) for walk in walks)
    if not isclose(reached, most):
        why = f"at least {round(reached, 3):,}, and at most {round(most, 3):,} by the formula"
        return Bound(name, None, unit, says, why)
    return Bound(name, most, unit, says)
