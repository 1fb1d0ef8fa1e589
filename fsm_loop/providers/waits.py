"""How long a provider asks to wait: out of its headers, its body, its words. Pure but for a default `now`."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

Headers = Mapping[str, str]
Now = Callable[[], float]  # wall-clock seconds since the epoch

TOO_MANY_REQUESTS = 429

# 11.372s  730ms  6m0s  1h2m3s  20 seconds  2 minutes
_DURATION = r"(?:\d+(?:\.\d+)?\s*(?:milliseconds?|ms|hours?|h|minutes?|mins?|m|seconds?|secs?|s)\b\s*)+"
_UNIT_S = {"ms": 0.001, "milli": 0.001, "h": 3600.0, "m": 60.0, "s": 1.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(milli|ms|h|m|s)")
_PACKED = re.compile(r"(?<=[a-z])(?=\d)")
_WORDS = re.compile(
    r"(?:try|retry|retrying|available|resets?|wait)(?: your request)?(?: again)?(?: in| after| for)? (?:about )?"
    rf"({_DURATION})",
    re.IGNORECASE,
)
_BARE = re.compile(r"\d+(?:\.\d+)?")
_EPOCH_S = 1e9  # a number this large is a date, in seconds or (a thousand times as large) in milliseconds
_EPOCH_MS = 1e12


def wait_of(status: int | None, headers: Headers, body: Any, words: str, now: Now = time.time) -> float | None:
    """The seconds that the provider asks to wait, None where it asks for none: its own header first, then its words.

    The reset of a rate limit's window is the last to be asked, and only after a 429: it tells when all of the window
    is free again, which is later than when one may ask again.
    """
    found = (
        _milliseconds(headers.get("retry-after-ms")),
        _retry_after(headers, now),
        _retry_delay(body),
        _in_words(words),
        _window(headers, now) if status == TOO_MANY_REQUESTS else None,
    )
    return next((seconds for seconds in found if seconds is not None), None)


def _positive(seconds: float) -> float | None:
    return seconds if seconds > 0 and math.isfinite(seconds) else None


def _number(text: str | None) -> float | None:
    return float(text) if text is not None and _BARE.fullmatch(text.strip()) else None


def _milliseconds(text: str | None) -> float | None:
    number = _number(text)
    return None if number is None else _positive(number / 1000)


def _retry_after(headers: Headers, now: Now) -> float | None:
    """Seconds, a duration or a date; a date counts from the server's own `Date`, so that no clock needs to be right."""
    text = headers.get("retry-after")
    if text is None:
        return None
    number = _number(text)
    if number is not None:
        return _positive(number)
    moment = _moment(text)
    if moment is None:
        return _duration(text)
    here = _moment(headers.get("date", ""))
    return _positive(moment - (now() if here is None else here))


def _moment(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _duration(text: str) -> float | None:
    """The seconds of `1m2s`, `730ms` or `20 seconds`; None where it is no duration."""
    spaced = _PACKED.sub(" ", text.strip().lower())
    if not re.fullmatch(_DURATION, spaced):
        return None
    return _positive(sum(float(number) * _UNIT_S[unit] for number, unit in _PART.findall(spaced)))


def _retry_delay(body: Any) -> float | None:
    """Google's RetryInfo, wherever in the body it stands."""
    match body:
        case {"retryDelay": str(text)}:
            return _duration(text)
        case dict():
            return next((found for each in body.values() if (found := _retry_delay(each)) is not None), None)
        case list():
            return next((found for each in body if (found := _retry_delay(each)) is not None), None)
        case _:
            return None


def _in_words(words: str) -> float | None:
    found = _WORDS.search(_PACKED.sub(" ", words))
    return None if found is None else _duration(found[1])


def _window(headers: Headers, now: Now) -> float | None:
    """When the window that is spent is free again; where none is said to be spent, the later one."""
    resets = {
        name: seconds
        for name, text in headers.items()
        if name.startswith("x-ratelimit-reset") and (seconds := _reset(text, now)) is not None
    }
    spent = [seconds for name, seconds in resets.items() if headers.get(name.replace("reset", "remaining")) == "0"]
    return max(spent or resets.values(), default=None)


def _reset(text: str, now: Now) -> float | None:
    number = _number(text)
    if number is None:
        return _duration(text)
    if number >= _EPOCH_MS:
        return _positive(number / 1000 - now())
    return _positive(number - now()) if number >= _EPOCH_S else _positive(number)
