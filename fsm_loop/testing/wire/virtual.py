"""Time for a case: an event loop whose seconds pass only while nothing can happen, and clocks for a turn.

In a `VirtualLoop` every timer is virtual, of the turn, of its transport and of the server alike, so a case of ten
minutes is over at once and its waits are exact however busy the machine is. Sockets are real: before time passes, the
loop looks whether bytes have arrived.
"""

from __future__ import annotations

import asyncio
import math
import selectors
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import anyio

T = TypeVar("T")

GRACE_S = 0.001  # of real time for the kernel to deliver what is on its way
THREAD_LOOK_S = 0.005  # between two looks at a thread that is at work


class _Selector(selectors.DefaultSelector):
    """Waits for real bytes, never for real time."""

    def __init__(self) -> None:
        super().__init__()
        self.passed_s = 0.0
        self.threads_at_work = 0

    def select(self, timeout: float | None = None) -> list[Any]:
        """What is ready; where nothing is, the time until the next timer has passed."""
        found = super().select(0)
        if found or (timeout is not None and timeout <= 0):
            return found
        if self.threads_at_work or timeout is None:
            return super().select(THREAD_LOOK_S)
        found = super().select(GRACE_S)
        if not found:
            self.passed_s += timeout
        return found


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual seconds, from 0. While a thread of its executor is at work no time passes."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        """The virtual seconds that have passed."""
        return self._virtual.passed_s

    def run_in_executor(  # type: ignore[override]  # the function's own types do not matter here
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> Any:
        """Run it in a thread, and let no time pass meanwhile."""
        self._virtual.threads_at_work += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._thread_done)
        return future

    def _thread_done(self, _: Any) -> None:
        self._virtual.threads_at_work -= 1


def run_virtual(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run *main* in a virtual loop of its own."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main())


class LoopClock:
    """The time of the event loop that runs: in a `VirtualLoop`, virtual seconds."""

    def now(self) -> float:
        """The time now."""
        return asyncio.get_running_loop().time()

    async def sleep_until(self, moment: float) -> None:
        """Wait until *moment*; for ever where it is infinite."""
        if moment == math.inf:
            await anyio.sleep_forever()
        await asyncio.sleep(max(0.0, moment - self.now()))


class ScaledClock:
    """Real time that seems to pass faster: one second of it takes *scale* real seconds."""

    def __init__(self, scale: float) -> None:
        self._scale = scale

    def now(self) -> float:
        """The time now."""
        return time.monotonic() / self._scale

    async def sleep_until(self, moment: float) -> None:
        """Wait until *moment*; for ever where it is infinite."""
        if moment == math.inf:
            await anyio.sleep_forever()
        await anyio.sleep(max(0.0, moment - self.now()) * self._scale)
