"""The exact odds: by hand where that can be done, and against drawn turns where it cannot."""

from __future__ import annotations

import json
import random
from itertools import count
from math import sqrt

import pytest

from fsm_loop.config import LoopConfig
from fsm_loop.core import counters as c
from fsm_loop.core.machine import PAGE
from fsm_loop.core.rows import Page
from fsm_loop.errors import ConfigError, FsmLoopError
from fsm_loop.prove.chances import PROFILES, THINGS, profile_from, profile_of
from fsm_loop.prove.odds import Odds, odds, share
from fsm_loop.testing.drawn import FIGURES, drawn

SMALL = LoopConfig(
    max_requests=14, max_iterations=4, api_max_retries=2, recoveries=1, base_delay_s=2.0,
    continuations=2, boosts=1, empty_replies=1, bad_tool_rounds=1, compactions=1,
)  # fmt: skip
FAINT = 1e-9  # turns less likely than this are left out, where the whole of them is not the matter
TURNS = 3000
SEED = 7
FEW = 10  # an end that fewer turns are expected to come to has no normal error


def of(chances, config=None, chain=0, **numbers):
    """The odds under these chances."""
    return odds(profile_from("mine", {"chances": chances, **numbers}), config, chain)


# ---------------------------------------------------------------- by hand


def test_empty_replies_by_hand():
    """With a chance of 1/4 of an empty reply and two nudges, a turn fails with 1/64, and asks 1 + 1/4 + 1/16 times."""
    found = of({"empty": 0.25}, input_tokens=10, output_tokens=5)

    assert {("completed", ""): 1 - 1 / 64, ("failed", "empty_replies"): 1 / 64} == pytest.approx(found.ends)
    assert 1 + 1 / 4 + 1 / 16 == pytest.approx(found.calls)
    assert 15 * found.calls == pytest.approx(found.tokens)
    assert {"empty_replies": 1 / 64} == pytest.approx(found.exhausted)


def test_waiting_by_hand():
    """A backoff counts as its mean, and Retry-After as it stands."""
    own = of({"overloaded": 0.5}, LoopConfig(api_max_retries=2, recoveries=0), call_s=1.0)
    told = of({"rate_limited": 0.5}, LoopConfig(api_max_retries=2), retry_after_s=8.0)

    assert 0.5 * 5 + 0.25 * 10 == pytest.approx(own.waited_s)
    assert own.waited_s + own.calls == pytest.approx(own.lasted_s)
    assert 0.5 * 8 + 0.25 * 8 == pytest.approx(told.waited_s)
    assert {"api_retries": 0.125} == pytest.approx(told.exhausted)


@pytest.mark.parametrize(
    ("config", "counter", "calls"),
    [
        (LoopConfig(max_requests=3), "requests", 4),
        (LoopConfig(max_requests=3, grace_calls=0), "requests", 3),
        (LoopConfig(max_iterations=3), "iterations", 4),
        (LoopConfig(max_iterations=0), "iterations", 2),
        (LoopConfig(max_requests=0), "requests", 1),
        (LoopConfig(tokens=2600), "tokens", 3),
    ],
)
def test_budgets_by_hand(config, counter, calls):
    """A model that asks for tools for ever ends at the budget, with its last word where there is one."""
    found = of({"tool_round": 1.0}, config)

    assert {("exhausted", counter): 1.0} == found.ends
    assert calls == found.calls


def test_the_chain_by_hand():
    """The providers behind the first have chances of their own."""
    found = of({"quota_spent": 1.0}, chain=1, fallback_chances={"quota_spent": 0.25})

    assert {("completed", ""): 0.75, ("failed", "fallbacks"): 0.25} == pytest.approx(found.ends)
    assert 2 == found.calls


def test_what_is_not_a_call_has_its_chance():
    """A repair that fails, a provider that is not ready, and tools that go round and round."""
    assert of({"too_long": 1.0}, LoopConfig(compactions=2), repair_fails=0.5).calls == pytest.approx(1 + 0.5 + 0.25)
    assert of({"quota_spent": 1.0}, chain=1, provider_not_ready=1.0).calls == 1
    assert of({"tool_round": 1.0}, tool_loop=1.0).ends == {("failed", ""): 1.0}


# ---------------------------------------------------------------- against drawn turns


@pytest.mark.parametrize("chain", [0, 1])
@pytest.mark.parametrize("name", PROFILES)
def test_drawn_turns_agree(name, chain):
    """No figure of turns drawn through `step` is three standard errors from the exact one; the seed is fixed."""
    profile = profile_of(name)
    exact = odds(profile, SMALL, chain, negligible=FAINT)
    sample = drawn(profile, random.Random(SEED).random, TURNS, SMALL, chain)

    for ending, chance in exact.ends.items():
        if FEW <= chance * TURNS <= TURNS - FEW:
            error = sqrt(chance * (1 - chance) / TURNS)
            assert abs(sample.ends.get(ending, 0) / TURNS - chance) <= 3 * error, ending
    for figure in FIGURES:
        mean, error = sample.mean(figure)
        assert abs(mean - getattr(exact, figure)) <= 3 * error, figure
    assert all(exact.ends.get(ending, 0) > 0 for ending in sample.ends)


@pytest.mark.parametrize("config", [SMALL, LoopConfig(max_requests=6, max_iterations=2)])
def test_what_is_kept_beside_changes_nothing(config):
    """The same page under another name, where each number of requests and iterations is decided for itself."""
    same = Page(PAGE.states, PAGE.start, PAGE.done, PAGE.lines, PAGE.counters)
    short, long = (odds("outage", config, 1, page, FAINT) for page in (PAGE, same))

    assert long.ends == pytest.approx(short.ends)
    assert (long.calls, long.lasted_s) == pytest.approx((short.calls, short.lasted_s))


# Things that leave different marks on turns with the same counts: text, a lead, a larger limit, less reasoning, what was spent.
MARKS = {
    "cut_text": 0.1, "cut_call": 0.1, "only_reasoned": 0.1, "bad_tool_calls": 0.1, "paused": 0.1, "tool_round": 0.1,
    "drop_after_text": 0.1, "quota_spent": 0.1, "overloaded": 0.1,
}  # fmt: skip


def test_turns_that_are_one_have_one_future(monkeypatch):
    """Where no two turns are taken for one, each is followed by itself; and the odds are the same."""
    config = LoopConfig(
        max_requests=4, max_iterations=2, api_max_retries=1, recoveries=0, output_ceiling_tokens=8192,
        continuations=1, boosts=2, empty_replies=1, bad_tool_rounds=1, stream_retries=0,
    )  # fmt: skip
    merged = of(MARKS, config, chain=1)
    each = count()
    monkeypatch.setattr("fsm_loop.prove.odds.key_of", lambda turn: (next(each),))
    apart = of(MARKS, config, chain=1)

    assert merged.turns < apart.turns / 10
    assert apart.ends == pytest.approx(merged.ends, abs=1e-12)
    assert (apart.calls, apart.tokens, apart.waited_s) == pytest.approx((merged.calls, merged.tokens, merged.waited_s))


@pytest.mark.parametrize("name", PROFILES)
def test_nothing_is_lost(name):
    """The ends and what was too unlikely to be followed come to 1, and what is lost is little."""
    found = odds(name, SMALL, negligible=FAINT)

    assert 1 == pytest.approx(sum(found.ends.values()) + found.unaccounted, abs=1e-12)
    assert found.unaccounted < 1e-5


def test_what_is_left_out_is_told():
    """A coarser flow says how much it left out, and is off by no more."""
    fine, coarse = odds("long_answers", SMALL, negligible=FAINT), odds("long_answers", SMALL, negligible=1e-5)
    apart = abs(fine.outcomes["completed"] - coarse.outcomes["completed"])

    assert fine.unaccounted < apart <= coarse.unaccounted
    assert "too unlikely to be followed" in str(coarse)


def test_too_many_turns_are_refused(monkeypatch):
    """There is a limit to the turns that are under way at once, and whoever meets it is told what to do."""
    monkeypatch.setattr("fsm_loop.prove.odds.MOST_TURNS", 5)
    with pytest.raises(FsmLoopError, match=r"more than 5 different turns .* leave out tokens"):
        odds("calm", LoopConfig(tokens=10**6))


# ---------------------------------------------------------------- to be read


def test_it_is_read_by_programs_and_people():
    """The plain form is JSON, and the text names the counters to raise."""
    found = odds("rate_limited", SMALL)
    plain = json.loads(json.dumps(found.plain()))

    assert "rate_limited" == plain["profile"]
    assert found.outcomes == plain["outcomes"]
    assert set(plain["exhausted"]) <= {counter.name for counter in c.COUNTERS}
    assert "api_retries was spent" in str(found)
    assert list(found.outcomes.values()) == sorted(found.outcomes.values(), reverse=True)


@pytest.mark.parametrize(
    ("chance", "told"),
    [
        (1.0, "100 %"),
        (0.9991234, "99.9123 %"),
        (0.5, "50 %"),
        (0.00123, "0.123 %"),
        (1e-6, "1 in 1,000,000"),
        (0, "never"),
    ],
)
def test_chances_are_told(chance, told):
    """Many nines are kept, and what is rare is one in so many."""
    assert told == share(chance)


# ---------------------------------------------------------------- profiles


@pytest.mark.parametrize("name", PROFILES)
def test_the_shipped_profiles_are_whole(name):
    """Each says what it is, and leaves a chance of an answer."""
    profile = profile_of(name)

    assert profile.says.endswith(".")
    assert all(0 < dict(each)["answer"] < 1 for each in profile.of_each)


def test_every_thing_can_come():
    """Each thing of a profile, by itself, ends a turn in some way."""
    for thing in THINGS:
        found = of({thing: 1.0}, SMALL)
        assert isinstance(found, Odds)
        assert 1 == pytest.approx(sum(found.ends.values()))


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"chances": {"emty": 0.1}}, ["'emty' under [chances]", "allowed are", "empty"]),
        ({"chances": {"answer": 0.1}}, ["an answer is what the other chances leave"]),
        ({"chances": {"empty": 1.5}}, ["empty = 1.5", "from 0 to 1"]),
        ({"chances": {"empty": 0.7, "refusal": 0.7}}, ["add up to 1.4", "lower them to 1 or less"]),
        ({"chances": {"empty": True}}, ["empty = True"]),
        ({"chances": 3}, ["write [chances]"]),
        ({"empty": 0.1}, ["'empty' is no key of a profile", "under [chances]"]),
        ({"call_s": -1}, ["call_s = -1", "0 or more"]),
        ({"call_s": float("nan")}, ["call_s = nan"]),
        ({"says": 3}, ["says = 3"]),
        ({"call_s": -1, "tool_s": "x"}, ["call_s = -1", "tool_s = 'x'"]),
    ],
)
def test_a_wrong_profile_is_told(document, words):
    """What was given, what is allowed, what to do; all of it at once."""
    with pytest.raises(ConfigError) as caught:
        profile_from("mine", document)
    assert [] == [word for word in words if word not in str(caught.value)]


def test_a_file_of_ones_own(tmp_path):
    """A TOML file is a profile as well; one that is none is told."""
    mine = tmp_path / "mine.toml"
    mine.write_text('says = "Mine."\n[chances]\nempty = 0.25\n', encoding="utf-8")

    assert 1 / 64 == pytest.approx(odds(str(mine)).outcomes["failed"])
    mine.write_text("[chances", encoding="utf-8")
    with pytest.raises(ConfigError, match="is not TOML"):
        profile_of(str(mine))
    with pytest.raises(ConfigError, match=r"no such file, and the profiles here are calm"):
        profile_of("windy")
