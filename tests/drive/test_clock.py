"""The machine's own time and luck."""

from __future__ import annotations

import math
import time

import anyio
import pytest

from fsm_loop.drive.clock import MonotonicClock, SystemChance
from tests.drive.turns import on_each_backend


@on_each_backend
@pytest.mark.parametrize("ahead_s", [-5.0, 0.0, 0.02])
def test_a_moment_is_waited_for(backend, ahead_s):
    """Whoever waits for a moment wakes at or after it; one that has passed is not waited for."""
    clock = MonotonicClock()

    async def main():
        moment = clock.now() + ahead_s
        await clock.sleep_until(moment)
        return clock.now() - moment

    assert 0 <= anyio.run(main, backend=backend) < 6


@on_each_backend
def test_an_infinite_moment_never_comes(backend):
    """Only a cancellation ends it."""

    async def main():
        with anyio.move_on_after(0.01) as scope:
            await MonotonicClock().sleep_until(math.inf)
        return scope.cancelled_caught

    assert anyio.run(main, backend=backend)


def test_the_time_is_monotonic():
    """It is the machine's monotonic clock."""
    assert time.monotonic() <= MonotonicClock().now() <= time.monotonic()


def test_two_processes_have_different_luck():
    """Each has draws of its own, in [0, 1)."""
    one, other = SystemChance(), SystemChance()
    draws = [[each.draw() for _ in range(100)] for each in (one, other)]

    assert draws[0] != draws[1]
    assert all(0 <= draw < 1 for each in draws for draw in each)
