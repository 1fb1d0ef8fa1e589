"""Events read back from the facts of a trail: the way back from what `facts` tells.

Where a trail keeps no text, a text that was not empty is read as a stand-in, and so are a provider's own items.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import cache, lru_cache, partial
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import attrs
import msgspec

from fsm_loop.audit.facts import TOLD_APART
from fsm_loop.config import LoopConfig
from fsm_loop.core.events import Event, name_of
from fsm_loop.core.faults import FaultKind
from fsm_loop.core.rows import Page

T = TypeVar("T")
Read = Callable[[Any], Any]
STAND_IN = "[not kept]"
_BY_WORD = {word: of for of, word in TOLD_APART.items()}


def event_of(record: Mapping[str, Any], page: Page) -> Event:
    """The event of a decision's record; raises ValueError, KeyError or TypeError where it tells of none."""
    kind = _kinds(page)[record["trigger"]]
    return _made(kind, {**record["facts"], "at": record["at"]})


def config_of(told: Mapping[str, Any]) -> LoopConfig:
    """The config of an opening; raises ConfigError, TypeError or ValueError where it is none."""
    return _config(msgspec.json.encode(told))


@lru_cache(maxsize=64)
def _config(told: bytes) -> LoopConfig:
    """The turns of one loop all have one config."""
    return _made(LoopConfig, msgspec.json.decode(told))


@cache
def _kinds(page: Page) -> Mapping[str, type[Event]]:
    return {name_of(row.on): row.on for row in page.rows}


def _made(of: type[T], told: Mapping[str, Any]) -> T:
    """The attrs class made of its members; those that are not told are as they are by default."""
    readers = _readers(of)  # type: ignore[arg-type]  # a class can be hashed
    given = {name: value for name, value in told.items() if name != "is"}
    strange = given.keys() - readers.keys()
    if strange:
        msg = f"{of.__name__} has no {', '.join(sorted(strange))}"
        raise ValueError(msg)
    return of(**{name: readers[name](value) for name, value in given.items()})


@cache
def _readers(of: type) -> Mapping[str, Read]:
    hints = get_type_hints(of)
    return {each.name: _reader(hints[each.name]) for each in attrs.fields(of) if each.init}


@cache
def _reader(hint: Any) -> Read:
    """What makes a value of this type from what JSON holds of it."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return _as_it_is
    if origin in (Union, types.UnionType):
        return partial(_one_of, inner)
    if origin in (tuple, frozenset):
        return partial(_several, origin, inner[0])
    if attrs.has(hint):
        return partial(_made, hint)
    if issubclass(hint, Enum):
        return (lambda word: FaultKind[word.upper()]) if hint is FaultKind else hint
    return _PLAIN[hint]


def _as_it_is(value: Any) -> Any:
    return value


def _one_of(hints: tuple[Any, ...], value: Any) -> Any:
    return None if value is None else _reader(_chosen(hints, value))(value)


def _several(of: Callable[[Iterable[Any]], Any], hint: Any, value: Any) -> Any:
    items = [STAND_IN] * min(value["items"], 1) if isinstance(value, dict) else value
    return of(map(_reader(hint), items))


def _chosen(hints: tuple[Any, ...], value: Any) -> Any:
    """Which of the types the value is one of: those that are told apart say so themselves, the rest by their shape."""
    if isinstance(value, dict):
        if "sha256" in value:
            return str
        made = [each for each in hints if attrs.has(each)]
        return _BY_WORD[value["is"]] if "is" in value else made[0]
    if isinstance(value, list):
        return next(each for each in hints if get_origin(each) is tuple)
    return next(each for each in hints if each in _PLAIN or (isinstance(each, type) and issubclass(each, Enum)))


def _same(of: type) -> Read:
    def read(value: Any) -> Any:
        if of is str and isinstance(value, dict) and "sha256" in value:
            return STAND_IN
        if type(value) is not of:
            msg = f"{value!r} stands where {of.__name__} should"
            raise TypeError(msg)
        return value

    return read


# Numbers that JSON has no one form for are told as text.
_PLAIN: Mapping[Any, Read] = {str: _same(str), bool: _same(bool), int: int, float: float}
