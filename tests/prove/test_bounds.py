"""The exact worst case: formulas that are never exceeded, and turns that reach them."""

from __future__ import annotations

import random
from math import isclose

import pytest
from attrs import evolve

from fsm_loop.config import LoopConfig
from fsm_loop.prove import bounds, formula
from fsm_loop.prove.bounds import TERMS, evaluated, most_requests
from fsm_loop.prove.waiting import longest_wait
from fsm_loop.prove.walk import replayed
from fsm_loop.prove.worst import most_calls, most_calls_of, most_tool_rounds, unlimited
from tests.prove.longest import calls, calls_of, longest, tool_rounds, waited_s

CAPS = (
    "sanitizations", "credential_refreshes", "output_limit_repairs", "history_repairs", "media_repairs",
    "parameter_repairs", "stream_switches", "continuations", "boosts", "empty_replies", "bad_tool_rounds",
    "compactions", "recoveries", "rebuilds", "api_max_retries", "stream_retries", "slot_waits",
)  # fmt: skip
NONE = LoopConfig(**dict.fromkeys(CAPS, 0), max_iterations=0, grace_calls=0)
# The waits: one that Retry-After rules, and some that the plan and the backoff rule, rising and falling.
WAITS = (
    {},
    {"max_wait_s": 20.0, "recovery_plan_s": (10.0, 50.0), "base_delay_s": 1.0},
    {"max_wait_s": 20.0, "recovery_plan_s": (50.0, 10.0), "base_delay_s": 25.0},
    {"max_wait_s": 0.0},
)


def small(seed):
    """A config of few and small caps, and the length of a chain, for this seed."""
    chance = random.Random(seed)  # the same each time
    caps = {name: chance.choice((1, 1, 2)) for name in chance.sample(CAPS, chance.randint(2, 3))}
    config = evolve(
        NONE,
        max_requests=chance.choice((0, 1, 2, 3, 4, 6, 9)),
        max_iterations=chance.choice((0, 1, 2, 3)),
        grace_calls=chance.choice((0, 1)),
        **caps,
        **chance.choice(WAITS),
    )
    return config, chance.choice((0, 1, 2))


@pytest.mark.parametrize("seed", range(12, 36))
def test_no_way_through_the_page_is_longer(seed):
    """Each bound of a small config is what trying every way through the page comes to, and none of them is missing."""
    config, chain = small(seed)
    found = bounds(config, chain)

    assert longest(config, chain, calls) == found.llm_calls.value
    assert longest(config, chain, tool_rounds) == found.tool_rounds.value
    assert isclose(longest(config, chain, waited_s(config)), found.waited_s.value)
    assert {found.llm_calls_of_one_provider.value} == {
        longest(config, chain, calls_of(place)) for place in range(chain + 1)
    }


@pytest.mark.parametrize("seed", range(40, 60))
def test_the_formula_is_exact_without_a_cap_on_requests(seed):
    """The closed formula is what trying every way comes to, with the rebuilds of the host and without."""
    config, chain = small(seed)
    found = bounds(config, chain)

    config = unlimited(config)

    assert longest(config, chain, calls, counted=False) == found.llm_calls_uncapped.value
    assert longest(config, chain, calls, counted=False, rebuilds=False) == found.llm_calls_unasked.value


# fmt: off
DEFAULTS = [
    # chain  calls  of one  rounds  waited     uncapped  unasked
    (0,      161,   161,    40,     466_800,   3_938,    3_215),
    (1,      161,   161,    40,     868_200,   5_144,    4_421),
    (2,      161,   161,    40,     1_230_000, 6_350,    5_627),
]
# fmt: on


@pytest.mark.parametrize(("chain", *"abcdef"), DEFAULTS)
def test_the_defaults(chain, a, b, c, d, e, f):
    """The default config's worst case is known exactly, whatever the chain."""
    found = bounds(chain=chain)

    assert {
        "llm_calls": a, "llm_calls_of_one_provider": b, "tool_rounds": c, "waited_s": d,
        "llm_calls_uncapped": e, "llm_calls_unasked": f,
    } == found.plain()  # fmt: skip


@pytest.mark.parametrize("chain", [0, 1, 2])
def test_the_witnesses_can_be_walked_again(chain):
    """The events of each witness, folded again through `step`, reach the same number, and the turn ends there."""
    config = LoopConfig()
    free = int(evaluated(unlimited(config), chain)["calls"]) - 1
    walks = [
        most_calls(config, chain),
        most_tool_rounds(config, chain),
        longest_wait(config, chain, config.max_requests, free),
        *(most_calls_of(place, config, chain) for place in range(chain + 1)),
    ]
    for walk in walks:
        again = replayed(walk)

        assert again.over
        assert (walk.calls, walk.tool_rounds, walk.waited_s) == (again.calls, again.tool_rounds, again.waited_s)


def test_a_turn_s_own_seconds_bound_what_is_waited():
    """With turn_seconds no more is waited than these, and that much can be."""
    found = bounds(LoopConfig(turn_seconds=1000.0), 1)

    assert 1000.0 == found.waited_s.value
    assert 161 == found.llm_calls.value


@pytest.mark.parametrize("name", ["tokens", "cost", "turn_seconds", "max_requests"])
def test_a_budget_of_nothing_leaves_the_last_word(name):
    """Where nothing may be spent, no request goes out but the grace call."""
    config = LoopConfig(**{name: 0})

    found = bounds(config)

    assert (0, 1, 0) == (most_requests(config), found.llm_calls.value, found.tool_rounds.value)


def test_what_is_not_known_exactly_is_left_out():
    """Where boosts outnumber what an output limit can grow, the formula is not reached, and no number is given."""
    found = bounds(LoopConfig(boosts=9, max_iterations=1, max_requests=10_000))

    assert found.llm_calls.value is None
    assert "at least" in found.llm_calls.why_not
    assert "not known exactly" in str(found.llm_calls)


def test_a_turn_too_long_to_walk_is_left_out():
    """A number that nobody has walked to is not given as exact."""
    found = bounds(LoopConfig(max_iterations=10_000))

    assert 161 == found.llm_calls.value
    assert found.llm_calls_uncapped.value is None
    assert "too long to walk" in found.llm_calls_uncapped.why_not


def test_the_formula_is_in_the_names_of_the_config():
    """Each name in the formula is a setting, the chain, or a term above it."""
    known = {row.name for row in LoopConfig.describe()} | {"chain", "max"}
    for name, term in TERMS.items():
        words = set(term.replace("(", " ").replace(")", " ").replace(",", " ").split()) - {"+", "*", "1"}

        assert words <= known
        known.add(name)


def test_the_formula_can_be_computed_by_hand():
    """What is printed gives the number that is printed, to whoever types it in."""
    config = LoopConfig()
    names = {row.name: getattr(config, row.name) for row in LoopConfig.describe()} | {"chain": 2}
    exec(formula(), names)

    assert 6_350 == names["calls"]
    assert "1,230,000 s" in str(bounds(config, 2).waited_s)
