"""What can happen next: every event that the outside may send to a turn that stands where it stands.

What an event carries is made abstract. There is one for each way in which the guards tell events apart: a fault for
each class of faults, a reply for each shape of a reply, nothing or text or half a tool call shown. Texts and ids are
fresh, so whatever is shown twice is seen to be. Whether an answer may come is read from what the turn asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from attrs import evolve, frozen

from fsm_loop.config import LoopConfig
from fsm_loop.core import events as e
from fsm_loop.core.events import Event, PortEvent, name_of
from fsm_loop.core.faults import Fault, FaultKind, RepairKind
from fsm_loop.core.machine import PAGE
from fsm_loop.core.messages import NO_REPLY, Finish, Reply, ToolCall, Usage, UserMessage
from fsm_loop.core.record import Record
from fsm_loop.core.rows import Page
from fsm_loop.core.step import Decision, Turn, begin_turn
from fsm_loop.prove.places import ANSWERS, NOTHING, STILL, Waits

Move = tuple[str, Event]
Cases = Iterable[tuple[tuple[str, ...], Fault, Reply]]
QUESTION = UserMessage("What is it?")
BLANK = " \n"
AGAIN = "again and again " * 8  # a text that repeats itself
LOWERED = 1000  # tokens: a limit that leaves no room
FAILURES = (e.SlotRefused, e.ModelFailed, e.StreamDropped, e.StreamStalled, e.ProviderFailed)
PLAIN = (e.SlotGranted, e.StreamStarted, e.CutJudged, e.TimerFired, e.ProviderReady)
ANSWERING: tuple[type[PortEvent], ...] = (*PLAIN, *FAILURES, e.ModelReplied, e.ToolReturned, e.RequestRepaired)
K = FaultKind


@frozen
class Moment:
    """A turn, and the answers that may still come to what it asked for."""

    turn: Turn
    waits: Waits = NOTHING

    @property
    def is_out(self) -> bool:
        """Whether a request is out, so that something may have been shown of its reply."""
        return e.ModelReplied in self.waits


def beginning(config: LoopConfig, chain: int = 0, page: Page = PAGE) -> Moment:
    """A turn that has not begun, with this many providers behind the first."""
    return Moment(begin_turn(config, tuple(f"provider {place}" for place in range(chain + 1)), page))


def after(before: Moment, decision: Decision) -> Moment:
    """Where the decision leads: what the turn asked for can be answered; where it asked for nothing, what was left."""
    asked = [ANSWERS[type(effect)] for effect in decision.effects if type(effect) in ANSWERS]
    if decision.turn.record.end is not None:
        return Moment(decision.turn)
    if asked:
        return Moment(decision.turn, NOTHING.union(*asked))
    event = type(decision.event)
    still = not decision.late and issubclass(event, PortEvent)
    return Moment(decision.turn, STILL.get(event, NOTHING) if still else before.waits)


def moves(at: Moment, config: LoopConfig) -> Iterator[Move]:
    """Each event that may come now, with a label that says what is in it; one that is late stands last."""
    record = at.turn.record
    if _is_ready(record):
        yield "turn_started", e.TurnStarted(messages=(QUESTION,))
    for kind in ANSWERING:
        if kind in at.waits:
            yield from _answers(kind, record, config)
    yield from _words(at)
    yield _label(e.ModelReplied, "late"), e.ModelReplied(attempt=record.attempt - 1, reply=_whole("late "))


def late(at: Moment) -> Iterator[Move]:
    """One event of each kind that a port may send, all of them for an attempt that is over."""
    old = at.turn.record.attempt - 1
    fault, reply = Fault(K.OVERLOADED), _whole("late ")
    for kind in PLAIN:
        yield _label(kind, "late"), kind(attempt=old)
    for failed in FAILURES:
        yield _label(failed, "late"), failed(attempt=old, fault=fault, partial=reply)
    yield _label(e.ModelReplied, "late"), e.ModelReplied(attempt=old, reply=reply)
    yield _label(e.ToolReturned, "late"), e.ToolReturned(attempt=old, call_id="late", text="late")
    yield _label(e.RequestRepaired, "late"), e.RequestRepaired(attempt=old, changed=True)


# ---------------------------------------------------------------- words of the user and of the host


def _words(at: Moment) -> Iterator[Move]:
    record = at.turn.record
    steer = f"steer {record.sent}.{len(record.steers)} "
    fresh = (UserMessage(f"rebuilt {record.attempt}"),)
    running = _running(record)
    if _is_ready(record):
        yield "steer_given", e.SteerGiven(text=steer)
        yield "interrupt_asked", e.InterruptAsked()
        yield "rebuild_asked", e.RebuildAsked(messages=fresh)
        return
    for what, partial in _partials(record.attempt) if at.is_out else (("", NO_REPLY),):
        yield _label(e.InterruptAsked, what), e.InterruptAsked(partial=partial, unstoppable=running[:1])
        yield _label(e.SteerGiven, "now", what), e.SteerGiven(text=steer, now=True, partial=partial)
        yield _label(e.RebuildAsked, what), e.RebuildAsked(messages=fresh, partial=partial)
    yield "steer_given", e.SteerGiven(text=steer)


@cache
def _partials(attempt: int) -> tuple[tuple[str, Reply], ...]:
    """What may have been shown of the reply in flight."""
    text, half = f"shown {attempt} ", (ToolCall(f"half {attempt}", "look", '{"a'),)
    return (("", NO_REPLY), ("text shown", Reply(text)), ("call begun", Reply(text, half)))


def _is_ready(record: Record) -> bool:
    return record.started_at is None and record.end is None


def _running(record: Record) -> Any:  # a list of ids; attrs' converter of it has a type that mypy cannot solve
    return [call.id for call, result in zip(record.calls, record.results, strict=True) if result is None]


# ---------------------------------------------------------------- answers


def _answers(kind: type[PortEvent], record: Record, config: LoopConfig) -> Iterable[Move]:
    """The answers of one kind to what was asked for."""
    if kind is e.ModelReplied:
        return _replied(record, config)
    if kind is e.RequestRepaired:
        return _repaired(record)
    if kind is e.ToolReturned:
        return _returned(record)
    return _plain(record.attempt, config)[kind]


@cache
def _plain(attempt: int, config: LoopConfig) -> dict[type[PortEvent], tuple[Move, ...]]:
    """The answers that are the same whatever the turn knows."""
    return {kind: _plain_ones(kind, attempt, config) for kind in (*PLAIN, *FAILURES)}


def _plain_ones(kind: type[PortEvent], attempt: int, config: LoopConfig) -> tuple[Move, ...]:
    if issubclass(kind, e.CallFailed):
        cases = _cases(kind, attempt, config)
        return tuple((_label(kind, *said), kind(attempt=attempt, fault=f, partial=p)) for said, f, p in cases)
    plain = (name_of(kind), kind(attempt=attempt))
    if kind is e.SlotGranted and config.turn_seconds is not None:
        return (plain, (_label(kind, "time spent"), kind(attempt=attempt, at=config.turn_seconds)))
    return (plain,)


def _cases(kind: type[e.CallFailed], attempt: int, config: LoopConfig) -> Cases:
    if kind is e.SlotRefused:
        return _no_slot(config)
    if kind is e.ProviderFailed:
        return _not_ready(config)
    return _failed(attempt, config) if kind is e.ModelFailed else _broken(attempt, config)


def _faults(config: LoopConfig) -> dict[str, Fault]:
    """A fault for each class that rows which are not about repairs tell apart."""
    too_long_s = config.max_wait_s + 1
    return {
        "an outage": Fault(K.OVERLOADED),
        "an outage, long": Fault(K.OVERLOADED, retry_after_s=too_long_s),
        "not to be retried": Fault(K.OVERLOADED, should_retry=False),
        "rate limited": Fault(K.RATE_LIMITED, retry_after_s=min(1.0, config.max_wait_s)),
        "quota spent": Fault(K.QUOTA_SPENT),
        "malformed": Fault(K.MALFORMED),
        "misspoke": Fault(K.MISSPOKE),
        "refused": Fault(K.REFUSED),
        "this side failed": Fault(K.INTERNAL),
    }


def _failed(attempt: int, config: LoopConfig) -> Cases:
    shown = dict(_partials(attempt))
    for what, fault in _faults(config).items():
        yield (what,), fault, NO_REPLY
        if what not in ("rate limited", "not to be retried"):
            yield (what, "text shown"), fault, shown["text shown"]
    for kind in K:
        if kind.repair:
            yield (kind.repair.value,), Fault(kind), NO_REPLY
    yield (RepairKind.SANITIZE.value, "text shown"), Fault(K.BAD_UNICODE), shown["text shown"]
    yield ("misspoke", "call begun"), Fault(K.MISSPOKE), shown["call begun"]


def _broken(attempt: int, config: LoopConfig) -> Cases:
    """A stream that drops or stalls; the kind of the fault is what the rows tell apart, and no more."""
    faults, shown = _faults(config), dict(_partials(attempt))
    shown |= {"call alone": Reply(tool_calls=shown["call begun"].tool_calls), "blanks shown": Reply(BLANK)}
    for what, partial in shown.items():
        yield (what,), faults["an outage"], partial
    for which in ("an outage, long", "not to be retried", "this side failed"):
        for what in ("", "text shown"):
            yield (which, what), faults[which], shown[what]


def _no_slot(config: LoopConfig) -> Cases:
    soon_s = min(1.0, config.max_wait_s)
    yield ("soon",), Fault(K.NO_SLOT, retry_after_s=soon_s), NO_REPLY
    yield ("too long",), Fault(K.NO_SLOT, retry_after_s=config.max_wait_s + 1), NO_REPLY
    yield ("not to be retried",), Fault(K.NO_SLOT, retry_after_s=soon_s, should_retry=False), NO_REPLY


def _not_ready(config: LoopConfig) -> Cases:
    yield ("an outage",), Fault(K.CONNECT_FAILED), NO_REPLY
    yield ("an outage, long",), Fault(K.CONNECT_FAILED, retry_after_s=config.max_wait_s + 1), NO_REPLY
    yield ("no outage",), Fault(K.NOT_READY), NO_REPLY


def _whole(text: str) -> Reply:
    return Reply(text, finish=Finish.STOP)


@cache
def _replies(attempt: int, config: LoopConfig) -> tuple[Move, ...]:
    """A reply of each shape that the rows tell apart; where tokens or money have a cap, one that spends all of it."""
    text = f"words {attempt} "
    one, two = (ToolCall(f"call {attempt}.{number}", "look") for number in (1, 2))
    bad = ToolCall(f"call {attempt}.3", "fly", problem="there is no tool fly")
    half = ToolCall(f"call {attempt}.4", "look", '{"a": ')
    shapes = {
        "an answer": _whole(text),
        "nothing": _whole(""),
        "blanks": _whole(BLANK),
        "reasoning alone": Reply(reasoning="Hm.", finish=Finish.STOP),
        "a call": Reply(tool_calls=(one,), finish=Finish.TOOL_CALLS),
        "a call, said to be no call": Reply(tool_calls=(one,), finish=Finish.STOP),
        "text and two calls": Reply(text, (one, two), finish=Finish.TOOL_CALLS),
        "a good call and a bad": Reply(text, (one, bad), finish=Finish.TOOL_CALLS),
        "a bad call": Reply(text, (bad,), finish=Finish.TOOL_CALLS),
        "cut text": Reply(text, finish=Finish.LENGTH),
        "cut text, round and round": Reply(AGAIN, finish=Finish.LENGTH),
        "cut reasoning": Reply(reasoning="Hm.", finish=Finish.LENGTH),
        "a cut call": Reply(tool_calls=(half,), finish=Finish.TOOL_CALLS),
        "text and a call, at the limit": Reply(text, (one,), finish=Finish.LENGTH),
        "no end": Reply(text),
        "window full, text": Reply(text, finish=Finish.WINDOW_FULL),
        "window full, a call": Reply(tool_calls=(half,), finish=Finish.WINDOW_FULL),
        "refused": Reply(text, finish=Finish.REFUSED),
        "paused": Reply(text, finish=Finish.PAUSED),
        "paused with a call": Reply(tool_calls=(one,), finish=Finish.PAUSED),
    }
    measured = config.tokens is not None or config.cost is not None
    if measured:
        spent = Usage(output_tokens=config.tokens or 0, cost=config.cost or 0.0)
        for what in ("a call", "cut text", "a bad call"):
            shapes[f"{what}, budget spent"] = evolve(shapes[what], usage=spent)
    return tuple(
        (_label(e.ModelReplied, what), e.ModelReplied(attempt=attempt, reply=reply)) for what, reply in shapes.items()
    )


def _replied(record: Record, config: LoopConfig) -> Iterator[Move]:
    yield from _replies(record.attempt, config)
    if record.pieces:
        same = Reply(record.pieces[-1], finish=Finish.LENGTH)
        yield _label(e.ModelReplied, "cut text, said before"), e.ModelReplied(attempt=record.attempt, reply=same)


def _repaired(record: Record) -> Iterator[Move]:
    kind, attempt = record.fault.repair if record.fault else None, record.attempt
    yield _label(e.RequestRepaired, "unchanged"), e.RequestRepaired(attempt=attempt, changed=False)
    changed = e.RequestRepaired(attempt=attempt, changed=True)
    if kind is RepairKind.COMPACT:
        changed = evolve(changed, prompt=(UserMessage(f"shortened {attempt}"),), said=())
    elif kind is RepairKind.DROP_PARAMETER:
        changed = evolve(changed, parameter=f"parameter {attempt}")
    yield _label(e.RequestRepaired, "changed"), changed
    if kind is RepairKind.LOWER_OUTPUT_LIMIT:
        yield _label(e.RequestRepaired, "limit lowered"), evolve(changed, limit=LOWERED)


def _returned(record: Record) -> Iterator[Move]:
    """Each call that is waited for, in any order; one that stops the turn; and one that is back already."""
    attempt, running = record.attempt, _running(record)
    for number, (call, result) in enumerate(zip(record.calls, record.results, strict=True), 1):
        what, text = (f"call {number}", "seen") if result is None else (f"call {number} again", "again")
        yield _label(e.ToolReturned, what), e.ToolReturned(attempt=attempt, call_id=call.id, text=text)
    stop = "round and round"
    for first in running[:1]:
        yield _label(e.ToolReturned, "stop"), e.ToolReturned(attempt=attempt, call_id=first, text="seen", stop=stop)
    if running[1:]:
        event = e.ToolReturned(attempt=attempt, call_id=running[0], text="seen", stop=stop, unstoppable=running[1:2])
        yield _label(e.ToolReturned, "stop", "another goes on"), event


def _label(kind: type[Event], *said: str) -> str:
    """`model_failed: rate limited, text shown`."""
    what = ", ".join(filter(None, said))
    return f"{name_of(kind)}: {what}" if what else name_of(kind)
