"""What the events of the written spec are in the machine's own words: one table, from a label to events.

The spec tells events apart by what a right loop must tell apart; each of its labels stands for everything that is alike
to it. Texts are new with each attempt, so that nothing repeats itself by chance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import evolve

from fsm_loop.core import events as e
from fsm_loop.core.events import Event
from fsm_loop.core.faults import Fault, FaultKind, RepairKind
from fsm_loop.core.messages import NO_REPLY, Finish, Message, Reply, ToolCall, Usage, UserMessage
from fsm_loop.core.step import Turn

K = FaultKind
TOKENS_CAP = 1000  # where the spec has dear replies, tokens and money are limited so, and one such reply is too many
COST_CAP = 1.0  # US dollars
TOO_LONG_S = 1e6  # longer than max_wait_s
OVER_AND_OVER = "again and again " * 8

# fmt: off
OUTAGES = (K.CONNECT_FAILED, K.DROPPED, K.INCOMPLETE, K.STALLED, K.TIMEOUT, K.OVERLOADED, K.SERVER_ERROR)
LIMITED = (K.RATE_LIMITED, K.NO_SLOT, K.UNKNOWN)
BARRED  = (K.QUOTA_SPENT, K.ACCESS_DENIED, K.MODEL_NOT_FOUND, K.BAD_REQUEST, K.UNTRUSTED, K.NOT_READY)

FAULTS: dict[str, tuple[Fault, ...]] = {
    "outage":       (*map(Fault, OUTAGES), Fault(K.OVERLOADED, retry_after_s=1.0), Fault(K.SERVER_ERROR, should_retry=True)),
    "outage_late":  tuple(Fault(kind, retry_after_s=TOO_LONG_S) for kind in OUTAGES),
    "outage_final": tuple(Fault(kind, should_retry=False) for kind in OUTAGES),
    "limited":      (*map(Fault, LIMITED), Fault(K.RATE_LIMITED, retry_after_s=1.0), Fault(K.BAD_REQUEST, should_retry=True)),
    "limited_late": tuple(Fault(kind, retry_after_s=TOO_LONG_S) for kind in LIMITED),
    "malformed":    (Fault(K.MALFORMED),),
    "misspoke":     (Fault(K.MISSPOKE),),
    "refused":      (Fault(K.REFUSED), Fault(K.REFUSED, should_retry=True)),
    "barred":       (*map(Fault, BARRED), *(Fault(kind, should_retry=False) for kind in LIMITED)),
    "hopeless":     (Fault(K.INTERNAL),),
    # Those that a changed request can mend are called by the counter of the repair.
    "sanitizations":        (Fault(K.BAD_UNICODE), Fault(K.BAD_UNICODE, should_retry=True)),
    "compactions":          (Fault(K.CONTEXT_TOO_LONG), Fault(K.CONTEXT_TOO_LONG, should_retry=False)),
    "output_limit_repairs": (Fault(K.OUTPUT_LIMIT_TOO_HIGH),),
    "history_repairs":      (Fault(K.HISTORY_REFUSED),),
    "media_repairs":        (Fault(K.MEDIA_REFUSED),),
    "parameter_repairs":    (Fault(K.PARAMETER_UNSUPPORTED),),
    "credential_refreshes": (Fault(K.CREDENTIAL_EXPIRED), Fault(K.CREDENTIAL_EXPIRED, should_retry=True)),
    "stream_switches":      (Fault(K.STREAMING_UNSUPPORTED),),
}
# fmt: on


def events_of(label: str, turn: Turn, doing: str) -> tuple[Event, ...]:
    """The events that a label stands for, where what the turn waits for outside (*doing*) can bring them; else none."""
    name, *said = label.split("|")
    answers_to, make = EVENTS[name]
    if answers_to is not None and doing not in answers_to:
        return ()
    return make(turn, *said)


# ---------------------------------------------------------------- what a stream has shown


def _shown(turn: Turn, what: str) -> tuple[Reply, ...]:
    """What came before the stream broke off, where there was a first sign of life."""
    attempt = turn.record.attempt
    text, half = f"shown {attempt} ", (ToolCall(f"half {attempt}", "look", '{"a'),)
    return {
        "nothing": (NO_REPLY, Reply(reasoning="Hm."), Reply(" \n")),
        "text": (Reply(text), Reply(text, reasoning="Hm.")),
        "tool": (Reply(tool_calls=half),),
        "both": (Reply(text, half),),
    }[what]


# ---------------------------------------------------------------- replies


def _replies(turn: Turn, kind: str, calls: int = 0) -> tuple[Reply, ...]:
    """What a kind of reply looks like."""
    text = f"words {turn.record.attempt} "
    good = tuple(ToolCall(f"call {turn.record.attempt}.{number}", "look") for number in range(calls))
    bad = ToolCall(f"bad {turn.record.attempt}", "fly", problem="there is no tool fly")
    one = ToolCall(f"one {turn.record.attempt}", "look")
    half = ToolCall(f"half {turn.record.attempt}", "look", '{"a": ')
    # fmt: off
    return {
        "answer":       (Reply(text, finish=Finish.STOP), Reply(text, reasoning="Hm.", finish=Finish.TOOL_CALLS)),
        "empty":        (Reply(finish=Finish.STOP), Reply(" \n", finish=Finish.STOP), Reply(reasoning="Hm.", finish=Finish.STOP)),
        "tools":        (Reply(text, good, finish=Finish.TOOL_CALLS), Reply(tool_calls=good, finish=Finish.STOP),
                         Reply(text, (*good, bad), finish=Finish.TOOL_CALLS)),
        "bad tools":    (Reply(text, (bad,), finish=Finish.TOOL_CALLS), Reply(tool_calls=(bad,), finish=Finish.STOP)),
        "refused":      (Reply(finish=Finish.REFUSED), Reply(text, finish=Finish.REFUSED), Reply(text, (one, half), finish=Finish.REFUSED)),
        "paused":       (Reply(text, finish=Finish.PAUSED), Reply(text, (one,), finish=Finish.PAUSED)),
        "silent pause": (Reply(finish=Finish.PAUSED), Reply(tool_calls=(half,), finish=Finish.PAUSED)),
        # Replies that were cut.
        "text":         (Reply(text, finish=Finish.LENGTH), Reply(text), Reply(text, reasoning="Hm.", finish=Finish.LENGTH)),
        "tool":         (Reply(tool_calls=(one,), finish=Finish.LENGTH), Reply(tool_calls=(half,), finish=Finish.TOOL_CALLS),
                         Reply(tool_calls=(one, half), finish=Finish.STOP), Reply(tool_calls=(one,))),
        "both":         (Reply(text, (one,), finish=Finish.LENGTH), Reply(text, (half,), finish=Finish.TOOL_CALLS), Reply(text, (one,))),
        "thought":      (Reply(reasoning="Hm.", finish=Finish.LENGTH), Reply(finish=Finish.LENGTH), Reply(reasoning="Hm.")),
        "stuck":        (Reply(OVER_AND_OVER, finish=Finish.LENGTH), Reply(text, finish=Finish.WINDOW_FULL),
                         *(Reply(piece, finish=Finish.LENGTH) for piece in turn.record.pieces[-1:])),
        "lost":         (Reply(tool_calls=(half,), finish=Finish.WINDOW_FULL),),
    }[kind]
    # fmt: on


def _replied(turn: Turn, kind: str, calls: str, dear: str) -> tuple[Event, ...]:
    replies = _replies(turn, kind, int(calls))
    return _priced(turn, replies, dear)


def _was_cut(turn: Turn, kind: str, dear: str) -> tuple[Event, ...]:
    """The reply is marked with its kind, so that the one that is kept can be known again."""
    return _priced(turn, tuple(evolve(each, model=kind) for each in _replies(turn, kind)), dear)


def _priced(turn: Turn, replies: tuple[Reply, ...], dear: str) -> tuple[Event, ...]:
    prices = (Usage(output_tokens=TOKENS_CAP), Usage(cost=COST_CAP)) if dear == "TRUE" else (Usage(),)
    attempt = turn.record.attempt
    return tuple(
        e.ModelReplied(attempt=attempt, reply=evolve(each, usage=usage)) for each in replies for usage in prices
    )


# ---------------------------------------------------------------- calls that fail


def _failing(kind: type[e.CallFailed]) -> Callable[..., tuple[Event, ...]]:
    def make(turn: Turn, fault: str, shown: str = "nothing") -> tuple[Event, ...]:
        if turn.state.name == "CALLING" and shown != "nothing":  # before the first sign of life nothing was shown
            return ()
        faults, partials = FAULTS[fault], _shown(turn, shown)
        attempt = turn.record.attempt
        pairs = max(len(faults), len(partials))
        return tuple(
            kind(attempt=attempt, fault=faults[n % len(faults)], partial=partials[n % len(partials)])
            for n in range(pairs)
        )

    return make


def _unsent(kind: type[e.CallFailed]) -> Callable[..., tuple[Event, ...]]:
    def make(turn: Turn, fault: str) -> tuple[Event, ...]:
        return tuple(kind(attempt=turn.record.attempt, fault=each) for each in FAULTS[fault])

    return make


# ---------------------------------------------------------------- the rest


def _plain(kind: type[e.PortEvent]) -> Callable[..., tuple[Event, ...]]:
    def make(turn: Turn) -> tuple[Event, ...]:
        return (kind(attempt=turn.record.attempt),)

    return make


def _signs(turn: Turn) -> tuple[Event, ...]:
    """The first sign of life comes once, but in grace nobody counts."""
    return () if turn.state.name == "STREAMING" else _plain(e.StreamStarted)(turn)


def _returned(turn: Turn, how: str) -> tuple[Event, ...]:
    record = turn.record
    running = [call.id for call, back in zip(record.calls, record.results, strict=True) if back is None]
    stop = {"stop": "round and round"} if how == "stop" else {}
    facts: dict[str, Any] = {"attempt": record.attempt, "text": "seen", **stop}
    return tuple(e.ToolReturned(call_id=each, **facts) for each in running)


def _repaired(turn: Turn, how: str) -> tuple[Event, ...]:
    attempt = turn.record.attempt
    if how == "unchanged":
        return (e.RequestRepaired(attempt=attempt, changed=False),)
    changed = e.RequestRepaired(attempt=attempt, changed=True)
    kind = turn.record.fault.repair if turn.record.fault else None
    shorter: tuple[Message, ...] = (UserMessage(f"shortened {attempt}"),)
    more = {
        RepairKind.COMPACT: evolve(changed, prompt=shorter),
        RepairKind.LOWER_OUTPUT_LIMIT: evolve(changed, limit=TOKENS_CAP),
        RepairKind.DROP_PARAMETER: evolve(changed, parameter=f"parameter {attempt}"),
    }
    return (more.get(kind, changed),) if kind else (changed,)


def _begun(turn: Turn) -> tuple[Event, ...]:
    return (e.TurnStarted(messages=(UserMessage("What is it?"),)),) if turn.state.name == "READY" else ()


def _interrupted(turn: Turn) -> tuple[Event, ...]:
    ids: Any = [call.id for call in turn.record.calls]  # attrs' converter has a type that mypy cannot solve
    return (e.InterruptAsked(), e.InterruptAsked(issuer="host", unstoppable=ids))


def _steered(turn: Turn) -> tuple[Event, ...]:
    return (e.SteerGiven(text=f"steer {turn.record.attempt} "),)


def _steered_now(turn: Turn) -> tuple[Event, ...]:
    return tuple(e.SteerGiven(text=f"now {turn.record.attempt} ", now=True, partial=each) for each in _in_flight(turn))


def _rebuilt(turn: Turn) -> tuple[Event, ...]:
    fresh = (UserMessage(f"rebuilt {turn.record.attempt}"),)
    return tuple(e.RebuildAsked(messages=fresh, partial=each) for each in _in_flight(turn))


def _in_flight(turn: Turn) -> tuple[Reply, ...]:
    """What may have been shown when a word comes."""
    streaming = turn.state.name == "STREAMING"
    return tuple(_shown(turn, what)[0] for what in ("nothing", "text", "both")) if streaming else (NO_REPLY,)


Make = Callable[..., tuple[Event, ...]]

# Each event of the spec: what it is the answer to (None: to nothing, it may always come), and what it stands for.
# fmt: off
EVENTS: dict[str, tuple[tuple[str, ...] | None, Make]] = {
    "TurnStarted":     (None,        _begun),
    "SlotGranted":     (("slot",),   _plain(e.SlotGranted)),
    "SlotRefused":     (("slot",),   _unsent(e.SlotRefused)),
    "StreamStarted":   (("call",),   _signs),
    "ModelReplied":    (("call",),   _replied),
    "ModelWasCut":     (("call",),   _was_cut),
    "ModelFailed":     (("call",),   _failing(e.ModelFailed)),
    "StreamDropped":   (("call",),   _failing(e.StreamDropped)),
    "StreamStalled":   (("call",),   _failing(e.StreamStalled)),
    "CutJudged":       (("judge",),  _plain(e.CutJudged)),
    "ToolReturned":    (("tools",),  _returned),
    "TimerFired":      (("timer",),  _plain(e.TimerFired)),
    "RequestRepaired": (("repair",), _repaired),
    "ProviderReady":   (("switch",), _plain(e.ProviderReady)),
    "ProviderFailed":  (("switch",), _unsent(e.ProviderFailed)),
    "InterruptAsked":  (None,        _interrupted),
    "SteerGiven":      (None,        _steered),
    "SteerGivenNow":   (None,        _steered_now),
    "RebuildAsked":    (None,        _rebuilt),
}
# fmt: on
