"""What whoever follows a turn is told, in order: the typed event stream of `Loop.stream`.

Text and reasoning come as TextDelta and ReasoningDelta of `ports`; Withdrawn and Reconnecting are the page's own.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import anyio
from attrs import frozen

from fsm_loop.core.effects import Reconnecting, Withdrawn
from fsm_loop.core.messages import ToolCall, ToolStatus
from fsm_loop.core.step import Moved
from fsm_loop.ports import ReasoningDelta, TextDelta

if TYPE_CHECKING:
    from fsm_loop.drive.result import TurnResult

BACKLOG = 1024  # events that may wait for a slow consumer before the model's stream is read no further


@frozen
class ToolStarted:
    """A tool begins to run."""

    call: ToolCall


@frozen
class ToolFinished:
    """A tool call has its result."""

    call: ToolCall
    text: str
    status: ToolStatus


@frozen
class StateChanged:
    """A row fired: from *before* to *after*; `wait_s` is how long a wait that begins here will last."""

    before: str
    row: str
    after: str
    moved: tuple[Moved, ...] = ()
    wait_s: float = 0.0


@frozen
class Finished:
    """The turn is over."""

    result: TurnResult


Note = TextDelta | ReasoningDelta | ToolStarted | ToolFinished | StateChanged | Withdrawn | Reconnecting | Finished


class Outbox:
    """The notes that wait for the consumer, oldest first."""

    def __init__(self) -> None:
        self._notes: deque[Note] = deque()
        self._arrived = anyio.Event()
        self._taken = anyio.Event()
        self._closed = False

    def put(self, note: Note) -> None:
        """One more note; nobody waits here."""
        self._notes.append(note)
        self._arrived.set()

    def close(self) -> None:
        """No more notes will come."""
        self._closed = True
        self._arrived.set()
        self._taken.set()

    @property
    def full(self) -> bool:
        """Whether the consumer is so far behind that the stream should be read no further."""
        return len(self._notes) >= BACKLOG

    async def drained(self) -> None:
        """Wait until the consumer has caught up by half."""
        while len(self._notes) > BACKLOG // 2 and not self._closed:
            self._taken = anyio.Event()
            await self._taken.wait()

    async def take(self) -> Note | None:
        """The next note; None when all have been taken and no more will come."""
        while not self._notes:
            if self._closed:
                return None
            if self._arrived.is_set():
                self._arrived = anyio.Event()
            await self._arrived.wait()
        self._taken.set()
        return self._notes.popleft()
