"""Fields of a provider's JSON, read whatever they turn out to be: what has the wrong type says nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from fsm_loop.core.faults import Fault, FaultKind
from fsm_loop.errors import ModelError

T = TypeVar("T")

MAX_DEPTH = 100  # of lists and objects in one another, of what a provider wants back: it goes into requests and trails
_ABSURD = 1e12  # no count and no price is near it
_LONGEST_INDEX = 9  # digits of one that came as text
MOST_ITEMS = 4096  # of one kind in one reply: calls, blocks, output items; no honest reply has a hundredth of them
NOTHING: Mapping[str, Any] = {}


def mapping(value: Any) -> Mapping[str, Any]:
    """The object, an empty one where it is none."""
    return value if isinstance(value, dict) else NOTHING


def items(value: Any) -> list[Any]:
    """The list, an empty one where it is none."""
    return value if isinstance(value, list) else []


def word(value: Any) -> str:
    """The text, or the whole number as text; empty where it is neither."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) else ""


def text(value: Any) -> str:
    """The text, empty where it is none."""
    return value if isinstance(value, str) else ""


def count(value: Any) -> int:
    """The number of something, 0 where it is none that can be."""
    return int(value) if isinstance(value, (int, float)) and 0 <= value < _ABSURD else 0


def amount(value: Any) -> float:
    """The amount of money, 0 where it is none that can be."""
    return float(value) if isinstance(value, (int, float)) and 0 <= value < _ABSURD else 0.0


def index(value: Any) -> int | None:
    """The place in a list, None where it is none."""
    if isinstance(value, str) and value.isdecimal() and len(value) <= _LONGEST_INDEX:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def too_many(what: str) -> ModelError:
    """The fault of a reply that has more of these than any does."""
    return ModelError(Fault(FaultKind.MALFORMED, f"the reply has more than {MOST_ITEMS} {what}"))


def arguments_in(value: Any) -> str:
    """The arguments of a call as JSON text: some servers send an object; raises ModelError where it has no bottom."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value) if isinstance(value, (dict, list)) else ""
    except RecursionError:
        raise _too_deep() from None


def not_deep(value: T) -> T:
    """The value, if its lists and objects are nested no deeper than MAX_DEPTH; raises ModelError."""
    if _is_deep(value, MAX_DEPTH):
        raise _too_deep()
    return value


def _is_deep(value: Any, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    if inner is None:
        return False
    return levels == 0 or any(_is_deep(each, levels - 1) for each in inner)


def _too_deep() -> ModelError:
    return ModelError(Fault(FaultKind.MALFORMED, "the reply is nested too deeply"))
