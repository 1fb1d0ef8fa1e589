"""Events read back from the facts of a trail that keeps all content: the way back from what `facts` tells."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import attrs

from fsm_loop.audit.facts import TOLD_APART
from fsm_loop.config import LoopConfig
from fsm_loop.core.events import Event, name_of
from fsm_loop.core.faults import FaultKind
from fsm_loop.core.rows import Page

T = TypeVar("T")
_BY_WORD = {word: of for of, word in TOLD_APART.items()}


def event_of(record: Mapping[str, Any], page: Page) -> Event:
    """The event of a decision's record; raises ValueError, KeyError or TypeError where it tells of none."""
    kind = _kinds(page)[record["trigger"]]
    return _made(kind, {**record["facts"], "at": record["at"]})


def config_of(told: Mapping[str, Any]) -> LoopConfig:
    """The config of an opening; raises ConfigError, TypeError or ValueError where it is none."""
    return _made(LoopConfig, told)


@cache
def _kinds(page: Page) -> Mapping[str, type[Event]]:
    return {name_of(row.on): row.on for row in page.rows}


def _made(of: type[T], told: Mapping[str, Any]) -> T:
    """The attrs class made of its members; those that are not told are as they are by default."""
    hints = _hints(of)  # type: ignore[arg-type]  # a class can be hashed
    strange = told.keys() - hints.keys() - {"is"}
    if strange:
        msg = f"{of.__name__} has no {', '.join(sorted(strange))}"
        raise ValueError(msg)
    return of(**{name: _read(hints[name], value) for name, value in told.items() if name != "is"})


@cache
def _hints(of: type) -> Mapping[str, Any]:
    hints = get_type_hints(of)
    return {each.name: hints[each.name] for each in attrs.fields(of) if each.init}


def _read(hint: Any, value: Any) -> Any:
    """The value as the hint has it, from what JSON holds of it."""
    if hint is Any or value is None:
        return value
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _read(_chosen(get_args(hint), value), value)
    if origin in (tuple, frozenset):
        return origin(_read(get_args(hint)[0], each) for each in value)
    if attrs.has(hint):
        return _made(hint, value)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return FaultKind[value.upper()] if hint is FaultKind else hint(value)
    return _PLAIN[hint](value)


def _chosen(hints: tuple[Any, ...], value: Any) -> Any:
    """Which of the types the value is one of: those that are told apart say so themselves, the rest by their shape."""
    if isinstance(value, dict):
        made = [each for each in hints if attrs.has(each)]
        return _BY_WORD[value["is"]] if "is" in value else made[0]
    if isinstance(value, list):
        return next(each for each in hints if get_origin(each) is tuple)
    return next(each for each in hints if each in _PLAIN or (isinstance(each, type) and issubclass(each, Enum)))


def _same(of: type) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if type(value) is not of:
            msg = f"{value!r} stands where {of.__name__} should"
            raise TypeError(msg)
        return value

    return read


# Numbers that JSON has no one form for are told as text.
_PLAIN: Mapping[Any, Callable[[Any], Any]] = {str: _same(str), bool: _same(bool), int: int, float: float}
