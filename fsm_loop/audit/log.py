"""The trail in the service's own log: one structlog line for each decision."""

from __future__ import annotations

import logging
from typing import Any

import structlog

from fsm_loop.core.events import (
    CallFailed,
    Event,
    InterruptAsked,
    ModelReplied,
    PortEvent,
    ProviderReady,
    RebuildAsked,
    RequestRepaired,
    SlotGranted,
    SteerGiven,
    StreamStarted,
    TimerFired,
    ToolReturned,
    TurnStarted,
    name_of,
)
from fsm_loop.core.messages import Reply, clean
from fsm_loop.core.step import Decision, Moved

LONGEST_CAUSE = 300


class LogWatcher:
    """A watcher that logs each decision, at one level, with whatever configuration structlog has by then.

    No line holds text of users, models or tools; a provider's own words on a fault are cut to one line. Where the
    configured logger can tell that the level is switched off, nothing is made of the decision. `logger` is the
    service's own, where it has one with fields bound to it.
    """

    def __init__(self, logger: Any = None, *, level: str = "info") -> None:
        self._logger = structlog.get_logger("fsm_loop") if logger is None else logger
        self._level = level
        number = logging.getLevelNamesMapping().get(level.upper())
        if number is None:
            msg = f"level is {level!r}; it must be one of debug, info, warning, error, critical"
            raise ValueError(msg)
        self._number = number

    def saw(self, turn_id: str, seq: int, decision: Decision) -> None:
        """One decision was made: it is one line."""
        logger = self._logger.bind()
        if isinstance(logger, structlog.stdlib.AsyncBoundLogger):
            logger = logger.sync_bl  # a line that waits to be awaited would never be written
        if _is_on(logger, self._number):
            words = f"{decision.before.name.lower()} -> {decision.turn.state.name.lower()}"
            getattr(logger, self._level)(words, **fields_of(turn_id, seq, decision))


def fields_of(turn_id: str, seq: int, decision: Decision) -> dict[str, Any]:
    """The fields of a decision's line."""
    fields: dict[str, Any] = {
        "turn": turn_id,
        "seq": seq,
        "row": decision.name,
        "trigger": name_of(type(decision.event)),  # structlog keeps the name `event` for itself
        "cause": one_line(cause(decision.event)),
    }
    if decision.moved:
        fields["moved"] = ", ".join(map(told, decision.moved))
    end = decision.turn.record.end
    if end is not None and decision.before is not decision.turn.state:
        fields["outcome"] = end.outcome
    return fields


def told(moved: Moved) -> str:
    """A counter that moved, in words: `requests 0->1/160`."""
    cap = "" if moved.cap is None else f"/{moved.cap:g}"
    return f"{moved.counter} {moved.before:g}->{moved.after:g}{cap}"


def cause(event: Event) -> str:  # noqa: C901, PLR0911, PLR0912  # a table: one line for each event
    """What the event says, in one sentence, without the text of users, models and tools."""
    match event:
        case CallFailed(fault=fault):
            return fault.sentence
        case ModelReplied(reply=reply):
            return f"the model replied: {_size(reply)}"
        case ToolReturned(call_id=call_id, status=status, text=text):
            return f"the tool of call {call_id} returned: {status.value}, {len(text)} characters"
        case InterruptAsked(issuer=issuer, reason=reason):
            return f"{issuer} asked to stop" + (f": {reason}" if reason else "")
        case SteerGiven(text=text, now=now):
            return f"the user said {len(text)} characters" + (", now" if now else "")
        case RebuildAsked(messages=messages):
            return f"the host has {len(messages)} new messages"
        case TurnStarted(messages=messages):
            return f"the turn began with {len(messages)} messages"
        case RequestRepaired(changed=changed):
            return "the request was changed" if changed else "the request could not be changed"
        case StreamStarted():
            return "the model gave its first sign of life"
        case SlotGranted():
            return "the request may go out"
        case TimerFired():
            return "the time to wait has passed"
        case ProviderReady():
            return "the next provider is ready"
        case PortEvent(attempt=attempt):
            return f"{name_of(type(event)).replace('_', ' ')}, attempt {attempt}"
        case _:
            return name_of(type(event)).replace("_", " ")


def one_line(text: str) -> str:
    """The text on one line that has an end."""
    line = " ".join(clean(text).split())
    return line if len(line) <= LONGEST_CAUSE else f"{line[: LONGEST_CAUSE - 3]}..."


def _size(reply: Reply) -> str:
    finish = "without terminal evidence" if reply.finish is None else f"finish {reply.finish.value}"
    calls = f", {len(reply.tool_calls)} tool calls" if reply.tool_calls else ""
    return f"{finish}, {len(reply.text)} characters{calls}"


def _is_on(logger: Any, level: int) -> bool:
    """Whether the logger lets this level through, as far as it can be asked.

    The question is put to the class: a generic bound logger has no such method, and would log the question.
    """
    for name in ("is_enabled_for", "isEnabledFor"):
        if hasattr(type(logger), name):
            return bool(getattr(logger, name)(level))
    return True
