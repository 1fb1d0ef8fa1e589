"""What events and effects say, for those who write it down: plain values for JSON, and no text unless it is asked for.

Nothing here raises, whatever the event carries. A string is shown where its field is known to hold a word of the
machine (an id, a name, a status) and where it looks like one; any other string is told by its length and its digest.
A digest says whether a text is one that you hold already; it does not hide a text that can be guessed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import Any

import attrs

from fsm_loop.core.effects import CallModel, Effect, Repair, Request, RunTool, Say, Withdrawn
from fsm_loop.core.events import Event
from fsm_loop.core.faults import FaultKind
from fsm_loop.core.messages import (
    AssistantMessage,
    MediaPart,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
)

# Fields that hold a word of the machine or of a provider's protocol.
WORDS = frozenset(
    {
        "id",
        "call_id",
        "name",
        "model",
        "request_id",
        "provider",
        "code",
        "parameter",
        "issuer",
        "kind",
        "outcome",
        "counter",
    }
)
# Fields that hold a sentence on what went wrong, which is what a trail is read for.
SENTENCES = frozenset({"message", "reason"})
# Types that stand in a list with others, so that each says which one it is.
TOLD_APART = {
    SystemMessage: "system",
    UserMessage: "user",
    AssistantMessage: "assistant",
    ToolMessage: "tool",
    TextPart: "text",
    MediaPart: "media",
}
LARGEST_NUMBER = 2**53  # whole numbers from here on are no numbers to every reader of JSON (RFC 8785, 3.2.2.3)
LONGEST_NUMBER = 1024  # bits of a whole number that is written out, as text
DEEPEST = 40  # levels of a provider's own items that are written; what lies deeper is told by its type

_WORD = re.compile(r"[\w.:/@+\-]{0,200}", re.ASCII)
_LONGEST_SENTENCE = 500


Redact = Callable[[str, Any], Any]
"""Sees every field before it is written: its name and its value, and gives the value that is written instead."""


def plain(value: Any, deep: int = 0) -> Any:
    """The value as JSON can hold it: numbers that are none and types that have no shape there become text."""
    if isinstance(value, Enum):
        return _word_of(value)
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        return number(value)
    return _several(value, deep + 1) if deep < DEEPEST else type(value).__name__


def _word_of(value: Enum) -> Any:
    if isinstance(value, FaultKind):
        return value.word
    return value.value if isinstance(value, str) else value.name.lower()


def number(value: float) -> Any:
    """The number, a whole one without a point; as text where not every reader of JSON has it."""
    if -LARGEST_NUMBER < value < LARGEST_NUMBER:
        return value if value % 1 else int(value)
    if isinstance(value, int) and value.bit_length() > LONGEST_NUMBER:
        return f"a whole number of {value.bit_length()} bits"
    return str(value)


def _several(value: Any, deep: int) -> Any:
    if isinstance(value, Mapping):
        return {str(key): plain(each, deep) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each, deep) for each in value]
    if isinstance(value, set | frozenset):
        return sorted((plain(each, deep) for each in value), key=str)
    return type(value).__name__


def digest(text: str) -> dict[str, Any]:
    """The text's length and the SHA-256 of its UTF-8, where a lone surrogate stands for itself."""
    return {"chars": len(text), "sha256": hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()}


@attrs.frozen
class Telling:
    """How things are told: with the text of users, models and tools or without it, and who may change it first."""

    full: bool = False
    redact: Redact | None = None

    def facts(self, event: Event) -> dict[str, Any]:
        """All that the event says but its time; what is not said is as it is by default."""
        told = self.record(event)
        told.pop("at", None)
        return told

    def asked(self, effect: Effect) -> dict[str, Any]:
        """What is to be done: the effect's name, and what tells it from its like; never text."""
        name = type(effect).__name__
        match effect:
            case CallModel(attempt, request):
                return {"effect": name, "attempt": attempt, **_asked_of(request)}
            case RunTool(attempt, call):
                known = {"call_id": self.field("call_id", call.id), "name": self.field("name", call.name)}
                return {"effect": name, "attempt": attempt, **known}
            case Repair(attempt, kind):
                return {"effect": name, "attempt": attempt, "kind": kind.value}
            case Say(note):
                size = {"chars": len(note.text)} if isinstance(note, Withdrawn) else {}
                return {"effect": name, "note": type(note).__name__, **size}
            case _:
                return {"effect": name, **self.record(effect)}

    def field(self, name: str, value: Any) -> Any:
        """The field's value as it is written."""
        if self.redact is not None:
            value = self.redact(name, value)
        of = type(value)
        if of is str:
            return value if self.full else _shown(name, value)
        if of is int or of is float:
            return number(value)
        if of is tuple:
            return self._several(name, value)
        return self.record(value) if attrs.has(of) else plain(value)

    def record(self, value: Any) -> dict[str, Any]:
        """The fields of an attrs class as they are written, but for those that are as they are by default."""
        told: dict[str, Any] = {"is": TOLD_APART[type(value)]} if type(value) in TOLD_APART else {}
        for name, default in _defaults(type(value)):  # type: ignore[arg-type]
            here = getattr(value, name)
            if here is not default and here != default:
                told[name] = self.field(name, here)
        return told

    def _several(self, name: str, value: tuple[Any, ...]) -> Any:
        if name == "replay":
            return plain(value) if self.full else {"items": len(value)}
        return [self.field(name, each) for each in value]


def _asked_of(request: Request) -> dict[str, Any]:
    return {
        "provider": request.provider,
        "messages": len(request.messages),
        "tools": request.tools,
        "output_limit": request.output_limit,
        "stream": request.stream,
    }


def _shown(name: str, text: str) -> Any:
    if not text or (name in WORDS and _WORD.fullmatch(text)):
        return text
    return text[:_LONGEST_SENTENCE] if name in SENTENCES else digest(text)


@cache  # called for every record
def _defaults(of: type) -> tuple[tuple[str, Any], ...]:
    """The fields of an attrs class, each with its default; without one, with what no value is equal to."""
    return tuple((each.name, _default(each)) for each in attrs.fields(of))


def _default(field: Any) -> Any:
    made = field.default.factory() if isinstance(field.default, attrs.Factory) else field.default  # type: ignore[arg-type]  # to its types a Factory is a function
    return made if field.converter is None or made is attrs.NOTHING else field.converter(made)
