"""The watch: one task of a turn that sleeps until something in flight is overdue, and then ends it.

It never asks more often than the shortest patience, and is woken only for what is due before it would wake anyway; so
whatever makes progress pays nothing for being watched.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import anyio
import sniffio

from fsm_loop.ports import Clock


class Watched:
    """One thing in flight: when it is due, and how it is ended then."""

    __slots__ = ("due", "expire", "scope")

    def __init__(self, due: Callable[[], float], expire: Callable[[float], None] | None) -> None:
        self.due = due
        self.expire = expire
        self.scope = anyio.CancelScope()


class Watch:
    """Everything of a turn that is in flight and may be overdue."""

    def __init__(self, clock: Clock, tick_s: float) -> None:
        self._clock = clock
        self._tick_s = tick_s
        self._watched: set[Watched] = set()
        self._sleeps_until = math.inf
        self._nap: anyio.CancelScope | None = None

    def begin(self, due: Callable[[], float], expire: Callable[[float], None] | None = None) -> Watched:
        """Something is in flight from now on; its work belongs inside the scope of what is returned."""
        watched = Watched(due, expire)
        self._watched.add(watched)
        if self._nap is not None and self._wakes_at() < self._sleeps_until:
            self._nap.cancel()
        return watched

    def end(self, watched: Watched) -> None:
        """It is in flight no longer."""
        self._watched.discard(watched)

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            with anyio.CancelScope() as self._nap:
                self._sleeps_until = self._wakes_at()
                await self._clock.sleep_until(self._sleeps_until)
            self._end_overdue()

    def _wakes_at(self) -> float:
        """The next moment to look: when something is due, but a due time may also come nearer, by a tick at most."""
        if not self._watched:
            return math.inf
        return min(self._clock.now() + self._tick_s, *(each.due() for each in self._watched))

    def _end_overdue(self) -> None:
        now = self._clock.now()
        for each in tuple(self._watched):
            if each.due() <= now:
                self.end(each)
                if each.expire is not None:
                    each.expire(now)
                each.scope.cancel()


def is_cancelled() -> bool:
    """Whether this task is being cancelled from outside; if not, a cancellation is somebody's own exception."""
    if anyio.current_effective_deadline() == -math.inf:
        return True
    if sniffio.current_async_library() != "asyncio":
        return True  # trio alone can raise its Cancelled
    import asyncio  # a tenth of what the door may cost, and trio does without it

    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def told(error: BaseException) -> str:
    """The error in one line."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
