"""What an event says, for those who write it down: plain values that JSON can hold, and no text unless it is asked for.

Nothing here raises, whatever the event carries. A string is shown where its field is known to hold a word of the
machine (an id, a name, a status) and where it looks like one; any other string is told by its length and its digest.
A digest says whether a text is one that you hold already; it does not hide a text that can be guessed.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from enum import Enum
from typing import Any

import attrs

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
WORDS = frozenset({"id", "call_id", "name", "model", "request_id", "provider", "code", "parameter", "issuer", "kind"})
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
LONGEST_NUMBER = 1024  # bits of a whole number that is written out
DEEPEST = 40  # levels of a provider's own items that are written; what lies deeper is told by its type

_WORD = re.compile(r"[\w.:/@+\-]{0,200}", re.ASCII)
_LONGEST_SENTENCE = 500


def facts(event: Event, *, full: bool = False) -> dict[str, Any]:
    """All that the event says but its time; *full* keeps the text of users, models and tools."""
    return {name: _fact(name, getattr(event, name), full) for name in _names(type(event)) if name != "at"}


def plain(value: Any, deep: int = 0) -> Any:
    """The value as JSON can hold it: numbers that are none and types that have no shape there become text."""
    if isinstance(value, Enum):
        return _word_of(value)
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        return _number(value)
    return _several(value, deep + 1) if deep < DEEPEST else type(value).__name__


def _word_of(value: Enum) -> Any:
    if isinstance(value, FaultKind):
        return value.word
    return value.value if isinstance(value, str) else value.name.lower()


def _number(value: float) -> Any:
    """The number, where JSON has it and Python writes it out."""
    if isinstance(value, int):
        return value if value.bit_length() <= LONGEST_NUMBER else f"a whole number of {value.bit_length()} bits"
    return value if math.isfinite(value) else str(value)


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


def _fact(name: str, value: Any, full: bool) -> Any:  # noqa: FBT001  # the wish is handed down
    match value:
        case str() if not isinstance(value, Enum):
            return value if full else _shown(name, value)
        case _ if attrs.has(type(value)):
            return _record(value, full)
        case tuple() if name == "replay":
            return plain(value) if full else {"items": len(value)}
        case tuple():
            return [_fact(name, each, full) for each in value]
        case _:
            return plain(value)


def _record(value: Any, full: bool) -> dict[str, Any]:  # noqa: FBT001  # as above
    told = {"is": TOLD_APART[type(value)]} if type(value) in TOLD_APART else {}
    return told | {name: _fact(name, getattr(value, name), full) for name in _names(type(value))}


def _shown(name: str, text: str) -> Any:
    if not text or (name in WORDS and _WORD.fullmatch(text)):
        return text
    return text[:_LONGEST_SENTENCE] if name in SENTENCES else digest(text)


def _names(of: type) -> tuple[str, ...]:
    if of not in _NAMES:
        _NAMES[of] = tuple(each.name for each in attrs.fields(of))
    return _NAMES[of]


_NAMES: dict[type, tuple[str, ...]] = {}
