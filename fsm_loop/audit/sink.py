"""What every place that a trail is written to has in common: a scribe for each turn, and what happens when it fails."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal, Self, TypedDict, Unpack

from fsm_loop.audit.facts import Redact
from fsm_loop.audit.scribe import Scribe, Sign
from fsm_loop.core.rows import Page
from fsm_loop.core.step import Decision, Turn
from fsm_loop.errors import TrailFailed

Content = Literal["digests", "full"]
OnSinkFailure = Literal["go on", "stop"]


class Wishes(TypedDict, total=False):
    """How a trail is written, wherever it is written to.

    `content="full"` keeps what users, models and tools say; without it the trail holds lengths and digests. `redact`
    sees every field first, by its name, and gives what is written instead. `sign` signs the last hash of each turn.
    With `on_sink_failure="stop"` a turn whose trail cannot be written ends as failed; else it goes on without, and
    the result says so. `wall` is the time of day, in seconds since 1970.
    """

    content: Content
    redact: Redact | None
    sign: Sign | None
    on_sink_failure: OnSinkFailure
    wall: Callable[[], float]


class Sink(ABC):
    """A watcher that writes the records of turns somewhere, each turn's apart; they may run side by side."""

    def __init__(self, **wishes: Unpack[Wishes]) -> None:
        content, failing = wishes.get("content", "digests"), wishes.get("on_sink_failure", "go on")
        one_of("content", content, "digests", "full")
        one_of("on_sink_failure", failing, "go on", "stop")
        self._full = content == "full"
        self._stops = failing == "stop"
        self._redact = wishes.get("redact")
        self._sign = wishes.get("sign")
        self._wall = wishes.get("wall", time.time)
        self._scribes: dict[str, Scribe] = {}

    @abstractmethod
    def write(self, scribe: Scribe, line: bytes, *, last: bool = False) -> None:
        """Keep one line of the scribe's turn; `last` ends the turn. What cannot be kept raises."""

    def opened(self, turn_id: str, turn: Turn, page: Page) -> None:
        """A turn begins: its first record is written."""
        scribe = Scribe(turn_id, self._wall, full=self._full, redact=self._redact, sign=self._sign)
        self._scribes[turn_id] = scribe
        self._keep(scribe, lambda: scribe.opening(turn, page))

    def saw(self, turn_id: str, seq: int, decision: Decision) -> None:
        """One decision was made: its record is written."""
        scribe = self._scribes[turn_id]
        self._keep(scribe, lambda: scribe.decision(seq, decision))

    def closed(self, turn_id: str, turn: Turn) -> None:
        """The turn is over: its last record is written."""
        scribe = self._scribes.pop(turn_id)
        self._keep(scribe, lambda: scribe.end(turn), last=True)

    def _keep(self, scribe: Scribe, tell: Callable[[], bytes], *, last: bool = False) -> None:
        try:
            self.write(scribe, tell(), last=last)
        except Exception as error:
            self._scribes.pop(scribe.turn_id, None)
            if self._stops:
                msg = f"the trail cannot be written: {error}"
                raise TrailFailed(msg) from error
            raise

    @abstractmethod
    def close(self) -> None:
        """No more records will come."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def one_of(name: str, given: str, *allowed: str) -> None:
    """Raise ValueError where what was given is not allowed."""
    if given not in allowed:
        words = " or ".join(map(repr, allowed))
        msg = f"{name} is {given!r}; it must be {words}"
        raise ValueError(msg)
