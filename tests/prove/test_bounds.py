"""The exact worst case: formulas that are never exceeded, and turns that reach them."""

from __future__ import annotations

import random
import re
from math import isclose

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm_loop.config import LoopConfig
from fsm_loop.prove import bounds, formula
from fsm_loop.prove.bounds import most_requests
from fsm_loop.prove.lasting import longest_turn
from fsm_loop.prove.terms import AT_MOST, FORMULAS, OF_ONE, evaluated, growths
from fsm_loop.prove.tokens import fullest, most_tokens
from fsm_loop.prove.waiting import longest_wait
from fsm_loop.prove.walk import replayed
from fsm_loop.prove.worst import most_calls, most_calls_of, most_tool_rounds, unlimited
from tests.prove.every_way import every_way
from tests.prove.longest import calls, calls_of, longest, tool_rounds, waited_s

CAPS = (
    "sanitizations", "credential_refreshes", "output_limit_repairs", "history_repairs", "media_repairs",
    "parameter_repairs", "stream_switches", "continuations", "boosts", "empty_replies", "bad_tool_rounds",
    "compactions", "recoveries", "rebuilds", "api_max_retries", "stream_retries", "slot_waits",
)  # fmt: skip
TINY = (14, 16, 22, 26, 30, 34, 52, 60, 62, 93, 105, 108, 146, 176, 185, 207, 232)
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


def paced(seed):
    """As small, with calls, tools and output limits of several lengths; every third has no cap on requests."""
    config, chain = small(seed)
    chance = random.Random(seed)  # the same each time
    config = evolve(
        config,
        call_deadline_s=chance.choice((5.0, 50.0, 1800.0)),
        tool_timeout_s=chance.choice((None, 3.0, 300.0)),
        max_output_tokens=chance.choice((None, 100, 4096)),
        output_ceiling_tokens=chance.choice((300, 4096, 32768)),
    )
    return (config if seed % 3 else unlimited(config)), chain


def exactly(bound):
    """The number of a bound that is exact."""
    assert bound.exact, bound
    return bound.value


@pytest.mark.parametrize("seed", TINY)
def test_every_way_through_step_says_the_same(seed):
    """Each bound of a tiny config is what trying every way through the real `step` comes to, end by end."""
    config, chain = paced(seed)
    found, ways = bounds(config, chain), every_way(config, chain)

    def most(name):
        return max(getattr(each, name) for each in ways.values())

    assert most("calls") == exactly(found["llm_calls"])
    assert {exactly(found["llm_calls_of_one_provider"])} == {
        max(each.calls_of[place] for each in ways.values()) for place in range(chain + 1)
    }
    assert most("tool_rounds") == exactly(found["tool_rounds"])
    assert isclose(most("waited_s"), exactly(found["waited_s"]))
    assert isclose(most("lasted_s"), exactly(found["lasted_s"]))
    assert most("tokens") == (exactly(found["output_tokens"]) if config.max_output_tokens else 0)
    for outcome in ("completed", "partial", "refused", "failed", "exhausted"):
        if outcome in ways:
            assert isclose(ways[outcome].lasted_s, exactly(found[f"until_{outcome}_s"]))
        else:
            assert found[f"until_{outcome}_s"].value is None


@pytest.mark.parametrize("seed", range(13, 27))
def test_no_way_through_the_page_is_longer(seed):
    """Each bound of a small config is what trying every way through the page comes to, and none of them is missing."""
    config, chain = small(seed)
    found = bounds(config, chain)

    assert longest(config, chain, calls) == exactly(found["llm_calls"])
    assert longest(config, chain, tool_rounds) == exactly(found["tool_rounds"])
    assert isclose(longest(config, chain, waited_s(config)), exactly(found["waited_s"]))
    assert {exactly(found["llm_calls_of_one_provider"])} == {
        longest(config, chain, calls_of(place)) for place in range(chain + 1)
    }


@pytest.mark.parametrize("seed", range(40, 54))
def test_the_formula_is_exact_without_a_cap_on_requests(seed):
    """The closed formula is what trying every way comes to, with the rebuilds of the host and without."""
    config, chain = small(seed)
    found = bounds(config, chain)

    config = unlimited(config)

    assert longest(config, chain, calls, counted=False) == exactly(found["llm_calls_uncapped"])
    assert longest(config, chain, calls, counted=False, rebuilds=False) == exactly(found["llm_calls_unasked"])


# fmt: off
DEFAULTS = [  # until it is completed, partial or refused, until it is failed, until it is exhausted
    # waited     answered   failed     exhausted  uncapped unasked
    (466_800,   759_600,   762_600,   764_400,   3_938,    3_215),
    (868_200,   1_165_500, 1_167_900, 1_169_700, 5_144,    4_421),
    (1_230_000, 1_527_300, 1_529_700, 1_531_500, 6_350,    5_627),
]
# fmt: on


@pytest.mark.parametrize(("chain", "most"), [*enumerate(DEFAULTS)])
def test_the_defaults(chain, most):
    """The default config's worst case is known exactly, whatever the chain; nothing limits what a reply may hold."""
    found = bounds(chain=chain)
    waited_s, answered_s, failed_s, exhausted_s, uncapped, unasked = most

    assert found.plain() == {
        "llm_calls": 161,
        "llm_calls_of_one_provider": 161,
        "tool_rounds": 40,
        "waited_s": waited_s,
        "lasted_s": exhausted_s,
        **{f"until_{outcome}_s": answered_s for outcome in ("completed", "partial", "refused")},
        "until_failed_s": failed_s,
        "until_exhausted_s": exhausted_s,
        "until_interrupted_s": exhausted_s,
        "output_tokens": None,
        "llm_calls_uncapped": uncapped,
        "llm_calls_unasked": unasked,
    }
    assert {"output_tokens"} == set(found.not_exact())


@pytest.mark.parametrize("chain", [0, 2])
def test_the_witnesses_can_be_walked_again(chain):
    """The events of each witness, folded again through `step`, reach the same number, and the turn ends there."""
    config = LoopConfig(max_output_tokens=1000)
    free = int(evaluated(config, chain)["calls"]) - 1
    ends = ("completed", "partial", "refused", "failed", "exhausted")
    slow = {end: longest_turn(config, chain, config.max_requests, free, end) for end in ends}
    walks = [
        most_calls(config, chain),
        most_tool_rounds(config, chain),
        longest_wait(config, chain, config.max_requests, free),
        fullest(config, chain, most_tokens(config, chain, config.max_requests).episodes),
        *(most_calls_of(place, config, chain) for place in range(chain + 1)),
        *slow.values(),
    ]
    for walk in walks:
        again = replayed(walk)

        assert again.over
        assert (walk.calls, walk.tool_rounds, walk.waited_s, walk.tokens, walk.at) == (
            again.calls, again.tool_rounds, again.waited_s, again.tokens, again.at,
        )  # fmt: skip
    assert {end: end for end in ends} == {end: walk.outcome for end, walk in slow.items()}


def test_a_turn_s_own_seconds_bound_what_is_waited():
    """With turn_seconds no more is waited than these; a round of tools and the last word may stand behind them."""
    found = bounds(LoopConfig(turn_seconds=1000.0), 1)

    assert 1000.0 == exactly(found["waited_s"])
    assert 161 == exactly(found["llm_calls"])
    assert 1000.0 + 300.0 + 60.0 == exactly(found["lasted_s"])
    assert 1000.0 == exactly(found["until_completed_s"])
    assert 1000.0 + 300.0 == exactly(found["until_failed_s"])


@pytest.mark.parametrize("name", ["tokens", "cost", "turn_seconds", "max_requests"])
def test_a_budget_of_nothing_leaves_the_last_word(name):
    """Where nothing may be spent, no request goes out but the grace call, and no reply can be the answer."""
    config = LoopConfig(**{name: 0})

    found = bounds(config)

    assert (0, 1, 0) == (most_requests(config), exactly(found["llm_calls"]), exactly(found["tool_rounds"]))
    assert "no turn can end so" in str(found["until_completed_s"])


def test_boosts_that_cannot_grow_are_not_counted():
    """An output limit doubles only up to its ceiling, so of many boosts few are used, and the number stays exact."""
    config = LoopConfig(boosts=9, max_iterations=1, max_requests=10_000)

    assert exactly(bounds(config)["llm_calls"]) == exactly(bounds(evolve(config, boosts=4))["llm_calls"])
    assert 0 == growths(evolve(config, max_output_tokens=40_000))


def test_what_no_turn_was_walked_to_is_at_most():
    """Where limits that a provider lowers may leave room for one boost more, the formula is not reached, and says so."""
    found = bounds(LoopConfig(boosts=9, max_iterations=1, max_requests=10_000), 1)["llm_calls"]

    assert not found.exact
    assert found.reached < found.value
    assert f"at most {found.value:,.0f} calls (a turn of {found.reached:,} was walked)" in str(found)


def test_a_turn_too_long_to_walk_is_at_most():
    """A number that nobody has walked to is not given as exact."""
    found = bounds(LoopConfig(max_iterations=10_000))

    assert 161 == exactly(found["llm_calls"])
    assert (False, None) == (found["llm_calls_uncapped"].exact, found["llm_calls_uncapped"].reached)
    assert "not walked" in str(found["llm_calls_uncapped"])


def test_the_names_of_the_formulas():
    """Each name in a formula is a setting, the chain, the growths, a word of Python, or a term above it."""
    known = {row.name for row in LoopConfig.describe()} | {"chain", "growths", "max", "min", "sum", "len", "range"}
    known |= {"for", "in", "i"}
    for name, term in FORMULAS.items():
        words = set(re.findall(r"[a-z_]\w*", term))

        assert words <= known
        known.add(name)


SMALL = st.integers(0, 2)
CONFIGS = st.fixed_dictionaries(dict.fromkeys((*CAPS, "max_iterations"), SMALL) | {
    "grace_calls": st.integers(0, 1),
    "max_requests": st.integers(0, 40),
    "max_wait_s": st.sampled_from((0.0, 3.0, 600.0)),
    "max_output_tokens": st.sampled_from((None, 4096, 20_000)),
    "jitter": st.sampled_from((0.0, 0.25)),
})  # fmt: skip


@settings(derandomize=True, max_examples=80, deadline=None)
@given(CONFIGS, st.integers(0, 2))
def test_the_formulas_are_the_numbers(given_settings, chain):
    """What is printed gives, to whoever types it in, the numbers that the walks reach: for any config."""
    config = LoopConfig(**given_settings)
    names = {row.name: getattr(config, row.name) for row in LoopConfig.describe()} | {"chain": chain}
    names["growths"] = {None: 3, 4096: 3, 20_000: 1}[config.max_output_tokens]
    exec(formula(), names)
    free = unlimited(config)
    most = int(names["calls"]) - config.grace_calls

    assert names["calls"] == sum(most_calls(free, chain).calls)
    assert names["llm_calls"] == sum(most_calls(config, chain).calls)
    assert isclose(names["waited_s"], longest_wait(free, chain, free.max_requests, most).waited_s, abs_tol=1e-9)
    assert evaluated(free, chain, OF_ONE)["calls"] == most_calls_of(chain, free, chain).calls[chain]


@settings(derandomize=True, max_examples=60, deadline=None)
@given(CONFIGS, st.integers(0, 2), st.sampled_from((None, 7.0, 300.0)))
def test_what_is_searched_for_is_at_most_what_is_printed(given_settings, chain, tool_timeout_s):
    """Seconds, waits and tokens, which no closed form gives, never exceed the ones that are printed for them."""
    config = LoopConfig(**given_settings, tool_timeout_s=tool_timeout_s)
    names = {row.name: getattr(config, row.name) or 0 for row in LoopConfig.describe()} | {"chain": chain}
    names["growths"] = {None: 3, 4096: 3, 20_000: 1}[config.max_output_tokens]
    exec(formula(), names)
    found = bounds(config, chain)

    assert found["waited_s"].value <= names["waited_s"] + 1e-6
    for name, term in AT_MOST.items():
        value = found[name].value
        assert value is None or value <= eval(term, names) + 1e-6


def test_the_bounds_are_told():
    """A bound is read as a sentence."""
    found = bounds(chain=2)

    assert "waits between calls: 1,230,000 s" == str(found["waited_s"])
    assert "tokens written: no max_output_tokens is set" == str(found["output_tokens"])
