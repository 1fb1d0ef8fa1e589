"""The time and the luck of this machine, for the ports Clock and Chance."""

from __future__ import annotations

import math
import random
import time

import anyio


class MonotonicClock:
    """The machine's own monotonic time."""

    now = staticmethod(time.monotonic)

    async def sleep_until(self, moment: float) -> None:
        """Wait until *moment*; for ever where it is infinite."""
        if moment == math.inf:
            await anyio.sleep_forever()
        await anyio.sleep(max(0.0, moment - time.monotonic()))


class SystemChance:
    """Luck that differs between processes, so that many of them do not retry in step."""

    def __init__(self) -> None:
        self.draw = random.Random().random  # noqa: S311  # jitter is no secret
