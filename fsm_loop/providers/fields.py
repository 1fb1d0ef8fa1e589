"""Fields of a provider's JSON, read whatever they turn out to be: what has the wrong type says nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_ABSURD = 1e12  # no count and no price is near it
_LONGEST_INDEX = 9  # digits of one that came as text
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
