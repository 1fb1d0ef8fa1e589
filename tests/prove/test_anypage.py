"""What the rows of any page allow: never less than what a turn can come to."""

from __future__ import annotations

import pytest

from fsm_loop.config import LoopConfig
from fsm_loop.core import counters as c
from fsm_loop.core.machine import PAGE
from fsm_loop.prove import bounds
from fsm_loop.prove.anypage import most_calls_on, most_spent, most_tool_rounds_on
from fsm_loop.prove.worst import most_calls
from tests.export.own_page import OWN_PAGE, THOUGHTS
from tests.prove.test_bounds import small


@pytest.mark.parametrize("seed", range(12, 40))
def test_it_is_never_less_than_what_is_reached(seed):
    """On our own page, where the exact numbers are known, none is above what the rows allow."""
    config, chain = small(seed)
    found = bounds(config, chain)

    assert found["llm_calls"].value <= most_calls_on(PAGE, config, chain)
    assert found["tool_rounds"].value <= most_tool_rounds_on(PAGE, config, chain)


def test_at_the_defaults_it_is_exact():
    """Grace is entered by one of several rows, and by one alone: the grace call is counted once."""
    assert (161, 40) == (most_calls_on(PAGE, LoopConfig(), 1), most_tool_rounds_on(PAGE, LoopConfig(), 1))


def test_what_is_spent_is_bounded_by_what_refills():
    """A counter is spent its cap, and again for each refill that a higher one pays for."""
    spent = most_spent(PAGE, LoopConfig(), 1)

    assert 160 == spent[c.requests]
    assert 3 * (1 + 40) == spent[c.continuations]
    assert 1 * (1 + 5 * (1 + 40)) == spent[c.fallbacks]
    assert c.tokens not in spent
    walk = most_calls(LoopConfig(max_requests=100_000), 1)

    assert sum(walk.calls) < sum(spent.values())


def test_a_page_of_a_user_s_own():
    """Calls and rounds are bounded by its rows; what needs more than the page is said not to be known."""
    found = bounds(LoopConfig(), 1, OWN_PAGE)

    assert {
        "llm_calls": 161,
        "tool_rounds": 40,
        "waited_s": None,
        "lasted_s": None,
        "output_tokens": None,
    } == found.plain()
    assert not any(each.exact for each in found.all)
    assert "model calls: at most 161 calls (by counting rows)" == str(found["llm_calls"])
    assert 7 == most_spent(OWN_PAGE, LoopConfig(), 1)[THOUGHTS]
