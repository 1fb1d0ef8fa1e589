"""The most that a turn can write, where each reply fills its output limit."""

from __future__ import annotations

import pytest
from attrs import evolve

from fsm_loop.config import LoopConfig
from fsm_loop.prove.terms import evaluated
from fsm_loop.prove.tokens import fullest, most_tokens
from tests.prove.every_way import every_way
from tests.prove.test_bounds import NONE

LOW = evolve(NONE, max_output_tokens=100, max_requests=99, output_ceiling_tokens=1000)
# fmt: off
EPISODES = [
    # what of it is set                                                                             chain
    ({"boosts": 1, "continuations": 1, "max_iterations": 3, "output_ceiling_tokens": 150},           0),
    ({"boosts": 2, "max_iterations": 2, "max_requests": 6, "grace_calls": 1},                        0),
    ({"boosts": 2, "max_iterations": 3, "continuations": 1, "max_requests": 9},                      0),
    ({"boosts": 1, "bad_tool_rounds": 1, "max_iterations": 2, "grace_calls": 1},                     1),
    ({"boosts": 1, "output_limit_repairs": 1, "max_iterations": 2},                                  0),
    ({"max_iterations": 2, "continuations": 1, "max_output_tokens": 2000},                           0),
]
# fmt: on


@pytest.mark.parametrize(("given", "chain"), EPISODES)
def test_every_way_writes_no_more(given, chain):
    """The number is what trying every way through `step` comes to, and the walk writes as much."""
    config = evolve(LOW, **given)
    calls = int(evaluated(config, chain)["calls"]) - config.grace_calls
    filled = most_tokens(config, chain, min(config.max_requests, calls))

    assert max(each.tokens for each in every_way(config, chain).values()) == filled.tokens
    assert fullest(config, chain, filled.episodes).tokens == filled.tokens


def test_without_an_output_limit_nothing_is_known():
    """What a reply may hold is then the provider's to say."""
    assert most_tokens(LoopConfig(), 0, 160) is None
