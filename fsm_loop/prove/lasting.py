"""The longest time from the user's word to each end of a turn: waits, calls until their deadline, tools until theirs.

A round of tools is taken to last `tool_timeout_s`, as it does where no reply asks for more than `tool_workers` at once;
where tools have no timeout, they are left out. What is asked of the host beside the models and the tools (its limiter,
its compactor) is taken to answer at once.
"""

from __future__ import annotations

from fsm_loop.config import LoopConfig
from fsm_loop.core.events import ModelReplied
from fsm_loop.core.machine import State
from fsm_loop.prove import walk as w
from fsm_loop.prove.waiting import ANSWERED, ENDS, Pace, plan, walked
from fsm_loop.prove.walk import Walk
from fsm_loop.prove.worst import go

OUTCOMES = ("completed", "partial", "refused", "failed", "exhausted", "interrupted")


def most_lasted_s(config: LoopConfig, chain: int, requests: int, calls: int, outcome: str) -> float | None:
    """The most seconds until this end; None where the turn cannot end so."""
    chosen = plan(config, chain, requests, calls, outcome, _pace(config))
    if chosen is None or config.turn_seconds is None:
        return None if chosen is None else chosen.total_s
    return min(chosen.total_s, config.turn_seconds + _behind_s(config, outcome))


def longest_turn(config: LoopConfig, chain: int, requests: int, calls: int, outcome: str) -> Walk | None:
    """The turn that lasts so long, as far as it can; where its own seconds end it, calls fill them first.

    None where none of those that are walked ends so.
    """
    chosen = plan(config, chain, requests, calls, outcome, _pace(config))
    assert chosen is not None  # it was asked before whether the turn can end so
    walks = [walked(config, chain, chosen, slowly=True)]
    if config.turn_seconds is not None:
        walks.append(_until_time_is_up(config, chain, outcome))
    return max((each for each in walks if each.outcome == outcome), key=lambda each: each.at, default=None)


def _until_time_is_up(config: LoopConfig, chain: int, outcome: str) -> Walk:
    """A turn that calls until its seconds are over, and then ends so."""
    walk = Walk(config, chain, slowly=True)
    while not walk.over:
        late = walk.time_is_up and walk.turn.state is not State.GRACE
        if late and walk.is_out:
            walk.answer(ModelReplied, reply=ENDS.get(outcome, w.TOOLS))
        elif late and walk.turn.state is State.TOOL_EXEC and outcome == "failed":
            walk.return_tool(stop="again and again")
        else:
            go(walk, rebuilds=True)
    return walk


def _pace(config: LoopConfig) -> Pace:
    return Pace(config.call_deadline_s, config.tool_timeout_s or 0.0)


def _behind_s(config: LoopConfig, outcome: str) -> float:
    """How long a turn can go on behind its own seconds: tools that run then, and the last word."""
    if outcome in ANSWERED:
        return 0.0
    tools_s = (config.tool_timeout_s or 0.0) if config.max_iterations else 0.0
    grace_s = min(config.read_timeout_s, config.call_deadline_s) if config.grace_calls else 0.0
    return tools_s + (grace_s if outcome == "exhausted" else 0.0)
