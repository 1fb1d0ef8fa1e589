"""The most that a turn can write, where each request has an output limit and each reply fills it.

A boost doubles the limit, up to its ceiling, until a round of tools ends the episode; the next one begins low again.
So each episode is boosted first, and as few episodes are begun as the requests need.
"""

from __future__ import annotations

from attrs import frozen

from fsm_loop.config import LoopConfig
from fsm_loop.core import counters as c
from fsm_loop.core.events import CutJudged, ModelReplied
from fsm_loop.core.machine import State
from fsm_loop.prove import walk as w
from fsm_loop.prove.terms import most_sent
from fsm_loop.prove.walk import Walk
from fsm_loop.prove.worst import go, has_room


@frozen
class Filled:
    """So many tokens at most, if a turn has so many episodes."""

    tokens: int
    episodes: int


def most_tokens(config: LoopConfig, chain: int, requests: int) -> Filled | None:
    """The best number of episodes, and what can be written in them; None where requests have no limit of their own."""
    if config.max_output_tokens is None:
        return None
    ways = [_filled(config, chain, requests, number) for number in range(1, max(1, config.max_iterations) + 1)]
    return max((each for each in ways if each), key=lambda each: each.tokens)


def _filled(config: LoopConfig, chain: int, requests: int, episodes: int) -> Filled | None:
    """What is written in so many episodes, all but the last of them full; None where there is nothing for the last."""
    limits, grace = _limits(config), config.grace_calls
    # The last iteration leads on only as a pause in the last episode, so neither is in those before it.
    before = most_sent(config, chain, episodes - 1) - 2 if episodes > 1 else 0
    last = min(requests, most_sent(config, chain, episodes)) - before
    if episodes > 1 and last < 1:
        return None
    full = before * limits[-1] - (episodes - 1) * sum(limits[-1] - each for each in limits)
    return Filled(full + sum(limits[min(place, len(limits) - 1)] for place in range(last + grace)), episodes)


def _limits(config: LoopConfig) -> list[int]:
    """The limit of each request of an episode that is boosted first; the last one holds for those that follow."""
    limits = [config.max_output_tokens or 0]
    while limits[-1] < config.output_ceiling_tokens and len(limits) <= config.boosts:
        limits.append(min(2 * limits[-1], config.output_ceiling_tokens))
    return limits


def fullest(config: LoopConfig, chain: int, episodes: int) -> Walk:
    """The turn that writes the most in so many episodes."""
    walk = Walk(config, chain)
    while not walk.over:
        state, out = walk.turn.state, walk.is_out
        if state is State.TRUNCATED:
            walk.answer(CutJudged)
        elif state is not State.GRACE and out and walk.left(c.boosts) and has_room(walk.turn.record):
            walk.answer(ModelReplied, reply=w.CUT_CALL)
        else:
            go(walk, rebuilds=True, pauses=walk.tool_rounds + 1 >= episodes or _may_pause(walk, episodes))
    return walk


def _may_pause(walk: Walk, episodes: int) -> bool:
    """Whether an iteration is left that no round of tools needs, nor the pause behind the last of them."""
    return walk.config.max_iterations - walk.spent(c.iterations) > episodes - walk.tool_rounds
