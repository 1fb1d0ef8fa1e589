"""The true worst case of a tiny config: every way that a turn can go, tried through the real `step`.

Every answer that the outside can give is given in every place, with the words that open each guard and those that
close it; two turns from which the same can still come are followed once. Nothing here knows a formula.
"""

from __future__ import annotations

from attrs import evolve, frozen

from fsm_loop.core import counters as c
from fsm_loop.core.effects import CallModel, JudgeCut, Repair, ReserveSlot, RunTool, SetTimer, SwitchProvider
from fsm_loop.core.events import (
    CutJudged,
    InterruptAsked,
    ModelFailed,
    ModelReplied,
    ProviderFailed,
    ProviderReady,
    RebuildAsked,
    RequestRepaired,
    SlotGranted,
    SlotRefused,
    StreamDropped,
    StreamStalled,
    TimerFired,
    ToolReturned,
    TurnStarted,
)
from fsm_loop.core.faults import Fault, FaultKind, RepairKind
from fsm_loop.core.machine import ASKING, State
from fsm_loop.core.messages import Reply
from fsm_loop.core.step import begin_turn, step
from fsm_loop.prove import walk as w

WAITED_FOR = (CallModel, JudgeCut, Repair, ReserveSlot, RunTool, SetTimer, SwitchProvider)
PARTIALS = (Reply(), Reply(text="It"), Reply(tool_calls=(w.HALF_CALL,)), Reply(text="It", tool_calls=(w.HALF_CALL,)))


@frozen
class Most:
    """The most that one turn can come to from here on, if it ends as `outcome`; each number by itself."""

    outcome: str
    calls: int = 0
    calls_of: tuple[int, ...] = ()
    tool_rounds: int = 0
    waited_s: float = 0.0
    lasted_s: float = 0.0
    tokens: int = 0


def every_way(config, chain, *, rebuilds=True):
    """The most that a turn can come to, by the outcome it ends with; without the interrupts."""
    turn = begin_turn(config, tuple(f"provider {place}" for place in range(chain + 1)))
    first = step(turn, TurnStarted(messages=(w.QUESTION,)))
    best, stack = {}, [(_key(first), first, None)]
    while stack:
        key, here, onward = stack.pop()
        if key in best:
            continue
        if onward is None:
            ways = [step(here.turn, event) for event in _events(here, rebuilds)]
            onward = list({(_key(each), _weight(each, chain)): each for each in ways}.items())
            stack.append((key, here, onward))
            stack.extend((there, decision, None) for (there, _), decision in onward if there not in best)
        else:
            best[key] = _best(onward, best, chain)
    return {each.outcome: each for each in best[_key(first)]}


def interrupts(config, chain):
    """The effects of an interrupt at each place that some turn comes to."""
    turn = begin_turn(config, tuple(f"provider {place}" for place in range(chain + 1)))
    seen, frontier = {}, [step(turn, TurnStarted(messages=(w.QUESTION,)))]
    while frontier:
        here = frontier.pop()
        if _key(here) in seen or here.turn.state is State.DONE:
            continue
        seen[_key(here)] = step(here.turn, InterruptAsked())
        frontier += [step(here.turn, event) for event in _events(here, rebuilds=True)]
    return seen.values()


def _best(onward, best, chain):
    """For each outcome the most of each number, over all ways on."""
    found = {}
    for (there, weight), decision in onward:
        over = decision.turn.record.end
        rest = (Most(over.outcome, calls_of=(0,) * (chain + 1)),) if over else best[there]
        for each in rest:
            sums = _sum(weight, each)
            found[each.outcome] = _most(found[each.outcome], sums) if each.outcome in found else sums
    return tuple(found.values())


def _sum(one, two):
    return Most(
        two.outcome,
        one.calls + two.calls,
        tuple(a + b for a, b in zip(one.calls_of, two.calls_of, strict=True)),
        one.tool_rounds + two.tool_rounds,
        one.waited_s + two.waited_s,
        one.lasted_s + two.lasted_s,
        one.tokens + two.tokens,
    )


def _most(one, two):
    return Most(
        two.outcome,
        max(one.calls, two.calls),
        tuple(map(max, one.calls_of, two.calls_of)),
        max(one.tool_rounds, two.tool_rounds),
        max(one.waited_s, two.waited_s),
        max(one.lasted_s, two.lasted_s),
        max(one.tokens, two.tokens),
    )


def _weight(decision, chain):
    """What one decision adds."""
    config = decision.turn.record.config
    calls = [each.request for each in decision.effects if isinstance(each, CallModel)]
    waits_s = sum(each.delay_s for each in decision.effects if isinstance(each, SetTimer))
    rounds = int(any(isinstance(each, RunTool) for each in decision.effects))
    return Most(
        "",
        len(calls),
        tuple(sum(each.provider == place for each in calls) for place in range(chain + 1)),
        rounds,
        waits_s,
        waits_s + len(calls) * config.call_deadline_s + rounds * (config.tool_timeout_s or 0),
        sum(each.output_limit or 0 for each in calls),
    )


def _key(decision):
    """All that what is still to come depends on."""
    turn, record = decision.turn, decision.turn.record
    cut = record.cut and (bool(record.cut.text.strip()), bool(record.cut.tool_calls), record.cut.text == w.LOOPING.text)
    shape = evolve(record.shape, unstreamed=frozenset(), without=frozenset())
    asked = frozenset(type(each) for each in decision.effects if isinstance(each, WAITED_FOR))
    counts = frozenset((name, value) for name, value in record.counts.items() if value)
    outcome = record.end and record.end.outcome
    return turn.state, asked, counts, record.provider, cut, shape, bool(record.answer.strip()), outcome


def _events(decision, rebuilds):
    """Every answer to what is waited for."""
    record = decision.turn.record
    asked = next((each for each in decision.effects if isinstance(each, WAITED_FOR)), None)
    if rebuilds and record.has_left(c.rebuilds) and decision.turn.state in (*ASKING, State.REPAIRING):
        yield RebuildAsked(messages=record.prompt)
    match asked:
        case ReserveSlot():
            yield SlotGranted(attempt=record.attempt)
            yield from _failures(SlotRefused, record, FaultKind.NO_SLOT)
        case CallModel():
            yield from _replies(record)
            yield from _faults(record)
        case JudgeCut():
            yield CutJudged(attempt=record.attempt)
        case RunTool():
            yield ToolReturned(attempt=record.attempt, call_id=w.CALL.id, text="seen")
            yield ToolReturned(attempt=record.attempt, call_id=w.CALL.id, text="seen", stop="again and again")
        case SetTimer():
            yield TimerFired(attempt=record.attempt)
        case Repair():
            yield from _repairs(record, asked)
        case SwitchProvider():
            yield ProviderReady(attempt=record.attempt)
            yield from _failures(ProviderFailed, record, FaultKind.OVERLOADED)
            yield ProviderFailed(attempt=record.attempt, fault=Fault(FaultKind.NOT_READY))
    assert asked is not None or decision.turn.state is State.DONE
    assert record.config.turn_seconds is None  # time is no part of what two turns are told apart by


def _replies(record):
    replies = (w.TOOLS, w.BAD_TOOLS, w.PAUSED, w.EMPTY, w.ANSWER, w.REFUSED, w.CUT_CALL, w.ONLY_REASONED, w.LOOPING)
    for reply in (*replies, w.cut_text(record.attempt)):
        yield ModelReplied(attempt=record.attempt, reply=reply)


def _faults(record):
    yield from _failures(ModelFailed, record, FaultKind.OVERLOADED)
    for kind in FaultKind:
        yield ModelFailed(attempt=record.attempt, fault=Fault(kind))
    for on in (StreamDropped, StreamStalled):
        for partial in PARTIALS:
            some = evolve(partial, text=partial.text and w.cut_text(record.attempt).text)
            yield from _failures(on, record, FaultKind.DROPPED, partial=some)
            yield on(attempt=record.attempt, fault=w.BROKEN, partial=some)


def _repairs(record, asked):
    yield RequestRepaired(attempt=record.attempt, changed=False)
    yield RequestRepaired(attempt=record.attempt, changed=True)
    limit = asked.request.output_limit
    if asked.kind is RepairKind.LOWER_OUTPUT_LIMIT and limit:
        for lower in {limit // 2, limit - 1} - {0}:
            yield RequestRepaired(attempt=record.attempt, changed=True, limit=lower)


def _failures(on, record, kind, **facts):
    """A fault that passes: it asks for the longest wait, for none with chance against it, or for too long a wait."""
    most_s = record.config.max_wait_s
    for after_s in (most_s, None, 2 * most_s + 1):
        yield on(attempt=record.attempt, fault=Fault(kind, retry_after_s=after_s), chance=1.0, **facts)
