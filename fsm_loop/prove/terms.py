"""The closed formulas of the worst case, each made of settings and of terms above it, and what they come to."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache

from attrs import fields

from fsm_loop.config import LoopConfig
from fsm_loop.core.guards import BASE_OUTPUT_TOKENS

# `chain` is the number of fallbacks; `growths` is how often an output limit can double before its ceiling.
TERMS: Mapping[str, str] = {
    "rounds": "max(1, max_iterations)",
    "larger": "min(boosts, 1 + growths + min(chain, growths) * output_limit_repairs)",
    "cuts": "rounds * (continuations + larger)",
    "cycles": "rounds * recoveries",
    "hops": "chain * (1 + cycles)",
    "retries": "(api_max_retries + stream_retries) * (rounds + cuts + cycles + hops)",
    "repairs": "sanitizations + credential_refreshes + output_limit_repairs + history_repairs + media_repairs"
    " + parameter_repairs + stream_switches + rounds * compactions",
    "again": "rounds * (empty_replies + bad_tool_rounds)",
    "asked_by_host": "rebuilds * (1 + max_iterations + again)",
    "calls": "1 + max_iterations + cuts + cycles + hops + retries + repairs + again + asked_by_host + grace_calls",
}
# The most seconds without max_requests, and what max_requests makes of the calls.
TIMES: Mapping[str, str] = {
    "backoff_s": "sum(max(max_wait_s, min(base_delay_s * 2**i, max_delay_s) * (1 + jitter))"
    " for i in range(api_max_retries))",
    "recovery_s": "sum(max(max_wait_s, recovery_plan_s[min(i, len(recovery_plan_s) - 1)]) for i in range(recoveries))",
    "waited_s": "backoff_s * (rounds + cuts + cycles + hops) + recovery_s * rounds + slot_waits * max_wait_s * calls",
    "llm_calls": "min(calls, max_requests + grace_calls)",
}
FORMULAS: Mapping[str, str] = {**TERMS, **TIMES}
# What no closed form gives exactly: which episodes the requests are spent on is searched for. These are never less.
AT_MOST: Mapping[str, str] = {
    "lasted_s": "waited_s + llm_calls * call_deadline_s + max_iterations * tool_timeout_s",
    "output_tokens": "llm_calls * max(max_output_tokens, output_ceiling_tokens)",
}
# The terms, where one provider gets all that it can, and the others none.
OF_ONE: Mapping[str, str] = {
    **TERMS,
    "retries": "(api_max_retries + stream_retries) * (rounds + cuts + cycles)",
    "calls": "1 + max_iterations + cuts + cycles + retries + repairs + again + asked_by_host + grace_calls",
}


def formula(terms: Mapping[str, str] = FORMULAS) -> str:
    """The most calls and the most seconds waited without max_requests, in the names of the config."""
    wide = max(map(len, terms))
    return "\n".join(f"{name:{wide}} = {term}" for name, term in terms.items())


def at_most() -> str:
    """What no closed form gives exactly, and what it never exceeds, in the names of the config and of the formulas."""
    wide = max(map(len, AT_MOST))
    return "\n".join(f"{name:{wide}} <= {term}" for name, term in AT_MOST.items())


def evaluated(config: LoopConfig, chain: int, terms: Mapping[str, str] = TERMS, **other: float) -> dict[str, float]:
    """Each term with its value; *other* settings come before those of the config."""
    known: dict[str, float] = {
        "chain": chain,
        "growths": growths(config),
        **{each.name: getattr(config, each.name) for each in fields(type(config))},
    }
    known |= other
    for name, term in terms.items():
        known[name] = _value(_parsed(term), known)
    return {name: known[name] for name in terms}


def most_sent(config: LoopConfig, chain: int, episodes: int) -> int:
    """The most requests without a cap on them, grace aside, where rounds of tools part a turn into these episodes."""
    return int(evaluated(config, chain, {**TERMS, "rounds": str(episodes)})["calls"]) - config.grace_calls


def growths(config: LoopConfig) -> int:
    """How often an output limit can double, the last time perhaps by less, before it is at output_ceiling_tokens."""
    limit, times = config.max_output_tokens or BASE_OUTPUT_TOKENS, 0
    while limit < config.output_ceiling_tokens:
        limit, times = 2 * limit, times + 1
    return times


@cache
def _parsed(term: str) -> ast.expr:
    return ast.parse(term, mode="eval").body


def _value(node: ast.expr, known: Mapping[str, float]) -> float:
    """The value of a sum, a product, a maximum, a minimum, a name or a number: a term has nothing else in it."""
    match node:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _value(left, known) + _value(right, known)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _value(left, known) * _value(right, known)
        case ast.Call(func=ast.Name(id="max"), args=args):
            return max(_value(each, known) for each in args)
        case ast.Call(func=ast.Name(id="min"), args=args):
            return min(_value(each, known) for each in args)
        case ast.Name(id=name):
            return known[name]
        case ast.Constant(value=int(number)):
            return number
    raise AssertionError(ast.unparse(node))
