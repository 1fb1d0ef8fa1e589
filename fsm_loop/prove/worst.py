"""How to make a turn as long as it can be: the worst answers that the outside can give, chosen step by step.

What is refilled is spent before what refills it, so the choice is the same everywhere: of the counters that have one
left, the one that stands lowest. Where it leads is seen by walking it through the real `step`.
"""

from __future__ import annotations

from attrs import evolve, frozen

from fsm_loop.config import LoopConfig
from fsm_loop.core import counters as c
from fsm_loop.core.counters import Counter
from fsm_loop.core.events import (
    CutJudged,
    ModelFailed,
    ModelReplied,
    ProviderFailed,
    ProviderReady,
    RebuildAsked,
    RequestRepaired,
    SlotGranted,
    StreamDropped,
    StreamStalled,
    TimerFired,
)
from fsm_loop.core.faults import Fault, RepairKind
from fsm_loop.core.guards import BASE_OUTPUT_TOKENS, next_limit
from fsm_loop.core.machine import State
from fsm_loop.core.messages import Reply
from fsm_loop.core.record import Record
from fsm_loop.prove import walk as w
from fsm_loop.prove.walk import Walk

NO_LIMIT = 10**9  # requests: more than any walk makes
REPAIRS: tuple[tuple[RepairKind, Counter], ...] = (
    (RepairKind.SANITIZE, c.sanitizations),
    (RepairKind.REFRESH_CREDENTIAL, c.credential_refreshes),
    (RepairKind.LOWER_OUTPUT_LIMIT, c.output_limit_repairs),
    (RepairKind.MEND_HISTORY, c.history_repairs),
    (RepairKind.STRIP_MEDIA, c.media_repairs),
    (RepairKind.DROP_PARAMETER, c.parameter_repairs),
    (RepairKind.STREAM_OFF, c.stream_switches),
    (RepairKind.COMPACT, c.compactions),
)


def unlimited(config: LoopConfig) -> LoopConfig:
    """The config without its cap on requests."""
    return evolve(config, max_requests=NO_LIMIT)


# ---------------------------------------------------------------- the walks


def most_calls(config: LoopConfig, chain: int, *, rebuilds: bool = True) -> Walk:
    """The turn with the most requests; *rebuilds* says whether the host asks for all that it may."""
    walk = Walk(config, chain)
    while not walk.over:
        go(walk, rebuilds=rebuilds)
    return walk


def most_calls_of(provider: int, config: LoopConfig, chain: int, *, rebuilds: bool = True) -> Walk:
    """The turn with the most requests to one provider; the others are never asked."""
    walk = Walk(config, chain)
    while not walk.over:
        go(walk, rebuilds=rebuilds, only=provider)
    return walk


def most_tool_rounds(config: LoopConfig, chain: int) -> Walk:
    """The turn with the most tool rounds: every reply asks for one."""
    walk = Walk(config, chain)
    while not walk.over:
        if walk.turn.state is State.TOOL_EXEC:
            walk.return_tool()
        elif not walk.is_out:
            walk.answer(SlotGranted)
        else:
            walk.answer(ModelReplied, reply=w.ANSWER if walk.turn.state is State.GRACE else w.TOOLS)
    return walk


@frozen
class Silence:
    """What comes of providers that take every request and say nothing.

    `noticed_s` is when the first of them is given up, after so many `attempts` of up to `silence_s` each; `ended_s`
    is when the turn is over, after so many `calls`.
    """

    silence_s: float
    noticed_s: float
    attempts: int
    ended_s: float
    calls: int
    recovered: bool


def walked_in_silence(config: LoopConfig, chain: int, each_s: float | None = None) -> Silence:
    """How long it takes until a dead provider is given up, and until a turn with none but dead ones is over.

    Each attempt is given up after *each_s*; without it, when no first token has come.
    """
    walk, noticed, now_s = Walk(config, chain), (0.0, 0), 0.0
    silence_s, recovered = min(each_s or config.first_token_timeout_s, config.call_deadline_s), False
    while not walk.over:
        match walk.turn.state:
            case State.BACKOFF | State.RECOVERING:
                walk.answer(TimerFired)
            case State.FALLBACK:
                walk.answer(ProviderReady)
            case _ if not walk.is_out:
                walk.answer(SlotGranted)
            case _:
                walk.at += min(silence_s, walk.time_left_s)
                now_s = walk.at
                walk.answer(StreamStalled, fault=w.STALLED, chance=1.0)
        recovered |= walk.turn.state is State.RECOVERING
        if not noticed[1] and walk.turn.state not in (State.CALLING, State.BACKOFF):
            noticed = (now_s, sum(walk.calls))
    return Silence(silence_s, *noticed, walk.at, sum(walk.calls), recovered)


def go(walk: Walk, *, rebuilds: bool, only: int | None = None, pauses: bool | None = None) -> None:
    """One event more; *pauses* says whether a pause is better than a round of tools; without it, the last time."""
    match walk.turn.state:
        case State.TOOL_EXEC:
            walk.return_tool()
        case State.TRUNCATED:
            walk.answer(CutJudged)
        case State.BACKOFF | State.RECOVERING:
            walk.answer(TimerFired)
        case State.REPAIRING:
            walk.answer(RequestRepaired, changed=True)
        case State.FALLBACK if only in (None, walk.next_provider):
            walk.answer(ProviderReady)
        case State.FALLBACK:
            walk.answer(ProviderFailed, fault=w.OVERLOADED)
        case _ if not walk.is_out and (only in (None, walk.provider) or not walk.left(c.fallbacks)):
            walk.answer(SlotGranted)
        case _ if not walk.is_out:
            walk.refuse_slot(2 * walk.config.max_wait_s + 1)  # too long to wait for, so the next provider is tried
        case State.GRACE:
            walk.answer(ModelReplied, reply=w.ANSWER)
        case _:
            _worst_reply(walk, rebuilds=rebuilds, only=only, pauses=pauses)


def _worst_reply(walk: Walk, *, rebuilds: bool, only: int | None, pauses: bool | None) -> None:
    """The answer to a request that leaves the most to come: what stands lowest is spent first."""
    if rebuilds and walk.left(c.rebuilds):
        walk.feed(RebuildAsked(messages=walk.turn.record.prompt, at=walk.at))
    elif walk.left(c.stream_retries):
        walk.answer(StreamDropped, fault=w.DROPPED)
    elif walk.left(c.api_retries):
        walk.answer(ModelFailed, fault=w.OVERLOADED)
    elif walk.left(c.empty_replies):
        walk.answer(ModelReplied, reply=w.EMPTY)
    elif walk.left(c.bad_tool_rounds):
        walk.answer(ModelReplied, reply=w.BAD_TOOLS)
    elif fault := repair_fault(walk):
        walk.answer(ModelFailed, fault=fault)
    elif reply := cut_reply(walk):
        walk.answer(ModelReplied, reply=reply)
    else:
        _onward(walk, only, pauses=pauses)


def repair_fault(walk: Walk) -> Fault | None:
    """A fault that a changed request can mend, if a repair is left."""
    return next((w.fault_for(kind) for kind, counter in REPAIRS if walk.left(counter)), None)


def cut_reply(walk: Walk) -> Reply | None:
    """A reply that is cut and goes on from here, if one can."""
    if walk.left(c.boosts) and has_room(walk.turn.record):
        return w.CUT_CALL
    if walk.left(c.boosts) and not walk.turn.record.shape.less_reasoning:
        return w.ONLY_REASONED
    return w.cut_text(len(walk.events)) if walk.left(c.continuations) else None


def has_room(record: Record) -> bool:
    """Whether the output limit of the next request can still be raised."""
    current = record.shape.limit_for(record.provider, record.config) or BASE_OUTPUT_TOKENS
    return next_limit(record) > current


def _onward(walk: Walk, only: int | None, *, pauses: bool | None) -> None:
    """Another provider, a recovery, a round of tools, a pause; and at the end what leads to the last word."""
    hops = walk.left(c.fallbacks) and (only is None or walk.left(c.recoveries))
    after = walk.spent(c.iterations) + 1
    if hops or walk.left(c.recoveries):
        walk.answer(ModelFailed, fault=w.OVERLOADED)
    elif after == walk.config.max_iterations if pauses is None else pauses:
        walk.answer(ModelReplied, reply=w.PAUSED)  # the last one's tools would lead to the last word
    else:
        walk.answer(ModelReplied, reply=w.TOOLS)
