"""Ids of tool calls in the form that a provider demands: the same id always becomes the same other one."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from functools import lru_cache

from fsm_loop.errors import ConfigError

_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_PREFIXES = ("", "call_", "toolu_", "chatcmpl-tool-", "fc_", "tooluse_")
_LONGEST = 64  # no provider is known to take a longer one
_COMMON = (9, 24, 8, 12, 16, 20, 22, 32, 40)  # lengths that are tried first: Mistral's nine, then long ones


def check_pattern(pattern: str) -> None:
    """Raise ConfigError where the pattern is no regular expression, or no id can be made that it takes."""
    try:
        re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"call_id_pattern {pattern!r} is no regular expression: {error}") from error
    if pattern and next(_fitting("", pattern), None) is None:
        raise ConfigError(f"call_id_pattern {pattern!r}: no id of up to {_LONGEST} letters and digits fits it")


@lru_cache(maxsize=4096)
def fitted_id(call_id: str, pattern: str) -> str:
    """The id itself where the pattern takes it, else one made of it that the pattern takes."""
    if not pattern or re.search(pattern, call_id):
        return call_id
    return next(_fitting(call_id, pattern), call_id)


def _fitting(call_id: str, pattern: str) -> Iterator[str]:
    digest = _letters(call_id)
    lengths = (*_COMMON, *range(1, _LONGEST + 1))
    made = (prefix + digest[:length] for prefix in _PREFIXES for length in lengths)
    return (each for each in made if re.search(pattern, each))


def _letters(call_id: str) -> str:
    """Letters and digits that stand for the id: as many as the longest id may need."""
    number, letters = int.from_bytes(hashlib.sha512(call_id.encode("utf-8", "surrogatepass")).digest()), ""
    while len(letters) < _LONGEST:
        number, at = divmod(number, len(_LETTERS))
        letters += _LETTERS[at]
    return letters
