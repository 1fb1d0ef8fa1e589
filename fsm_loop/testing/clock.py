"""A clock that jumps to the next moment as soon as nothing else can run; no test waits for it."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread
import sniffio

T = TypeVar("T")


class VirtualClock:
    """Virtual seconds, from 0. Whatever is to be timed by it runs inside `run`, on asyncio or on trio.

    While a thread of anyio's is at work no virtual time passes; a socket that is awaited does not hold it up.
    """

    def __init__(self, start_s: float = 0.0) -> None:
        self._now = start_s
        self._sleepers: list[tuple[float, int, anyio.Event]] = []
        self._order = itertools.count()

    def now(self) -> float:
        """The time now."""
        return self._now

    def jump(self, seconds: float) -> None:
        """Let time pass at once, as when a machine slept; whoever is due wakes."""
        self._now += seconds
        self._wake()

    async def sleep_until(self, moment: float) -> None:
        """Wait until *moment*; for ever where it is infinite."""
        if moment == math.inf:
            await anyio.sleep_forever()
        if moment <= self._now:
            await anyio.lowlevel.checkpoint()
            return
        woken = anyio.Event()
        entry = (moment, next(self._order), woken)
        heapq.heappush(self._sleepers, entry)
        try:
            await woken.wait()
        finally:
            if not woken.is_set():
                self._sleepers.remove(entry)
                heapq.heapify(self._sleepers)

    async def sleep(self, seconds: float) -> None:
        """Wait for so many virtual seconds."""
        await self.sleep_until(self._now + seconds)

    def _wake(self) -> None:
        while self._sleepers and self._sleepers[0][0] <= self._now:
            heapq.heappop(self._sleepers)[2].set()

    async def _jump_when_idle(self) -> None:
        while True:
            await all_others_blocked()
            if self._sleepers and not _thread_at_work():
                self._now = max(self._now, self._sleepers[0][0])
                self._wake()
            else:
                await anyio.sleep(0.001)  # a thread or a socket is awaited: real time must pass

    async def drive(self, main: Callable[[], Awaitable[T]]) -> T:
        """Run *main* with time passing whenever everything waits."""
        results: list[T] = []
        raised: list[BaseException] = []  # carried out of the group, so that it stays one exception
        async with anyio.create_task_group() as group:
            group.start_soon(self._jump_when_idle)
            try:
                results.append(await main())
            except anyio.get_cancelled_exc_class():
                raise
            except BaseException as error:  # noqa: BLE001  # see above
                raised.append(error)
            group.cancel_scope.cancel()
        if raised:
            raise raised[0]
        return results[0]

    def run(self, main: Callable[[], Awaitable[T]], backend: str = "asyncio") -> T:
        """Run *main* in an event loop of its own, on *backend*."""
        return anyio.run(self.drive, main, backend=backend)


def _thread_at_work() -> bool:
    return anyio.to_thread.current_default_thread_limiter().borrowed_tokens > 0


async def all_others_blocked() -> None:
    """Wait until no other task of this event loop can go on by itself."""
    if sniffio.current_async_library() == "trio":
        import trio.testing

        await trio.testing.wait_all_tasks_blocked()
        return
    loop: Any = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(0)
        if not loop._ready:  # noqa: SLF001  # tasks alone do not tell: a callback may be due
            return
