"""The virtual clock: time passes when nothing else can happen, and only then."""

from __future__ import annotations

import math
import threading
import time

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from fsm_loop.testing.clock import VirtualClock
from tests.drive.turns import on_each_backend


@on_each_backend
def test_a_day_passes_in_no_time(backend):
    """Nobody waits for virtual time in earnest."""
    clock = VirtualClock()
    since = time.perf_counter()

    async def main():
        for _ in range(24):
            await clock.sleep(3600)
        return clock.now()

    assert 86_400.0 == clock.run(main, backend)
    assert time.perf_counter() - since < 5


@on_each_backend
def test_sleepers_wake_in_order(backend):
    """Whoever is due first wakes first, those that are due together in the order in which they lay down, as far as a backend keeps it."""
    clock, woken = VirtualClock(), []

    async def sleeps(seconds):
        await clock.sleep(seconds)
        woken.append((clock.now(), seconds))

    async def main():
        async with anyio.create_task_group() as group:
            for seconds in (5, 1, 3, 0.5, 3):
                group.start_soon(sleeps, seconds)

    clock.run(main, backend)

    assert [(0.5, 0.5), (1, 1), (3, 3), (3, 3), (5, 5)] == woken


@on_each_backend
def test_no_time_passes_while_anything_can_happen(backend):
    """A task that works on, letting others run, holds the clock; so do cancellations that are on their way."""
    clock = VirtualClock()

    async def main():
        seen = []

        async def sleeper():
            await clock.sleep(1)
            seen.append(clock.now())

        async def nested(depth):
            if depth:
                async with anyio.create_task_group() as group:
                    group.start_soon(nested, depth - 1)
            else:
                await anyio.sleep_forever()

        async with anyio.create_task_group() as group:
            group.start_soon(sleeper)
            for _ in range(200):
                await anyio.lowlevel.checkpoint()
            worked_until = clock.now()
            async with anyio.create_task_group() as inner:
                inner.start_soon(nested, 5)
                await anyio.lowlevel.checkpoint()
                inner.cancel_scope.cancel()
            cancelled_at = clock.now()
        return worked_until, cancelled_at, seen

    assert (0.0, 0.0, [1.0]) == clock.run(main, backend)


@on_each_backend
def test_no_time_passes_while_a_thread_works(backend):
    """A tool in a thread takes no virtual time."""
    clock = VirtualClock()
    release = threading.Event()

    async def main():
        async with anyio.create_task_group() as group:
            group.start_soon(clock.sleep, 10)

            def work():
                release.wait(0.05)
                return clock.now()

            return await anyio.to_thread.run_sync(work)

    assert 0.0 == clock.run(main, backend)


@on_each_backend
def test_a_jump_wakes_all_that_are_due(backend):
    """A machine that slept has missed its moments: whoever was due wakes at once, at the time that it is now."""
    clock, woken = VirtualClock(100.0), []

    async def sleeps(moment):
        await clock.sleep_until(moment)
        woken.append((moment, clock.now()))

    async def main():
        async with anyio.create_task_group() as group:
            for moment in (150.0, 4000.0, 90.0):
                group.start_soon(sleeps, moment)
            for _ in range(5):
                await anyio.lowlevel.checkpoint()
            clock.jump(3600)

    clock.run(main, backend)

    assert [(90.0, 100.0), (150.0, 3700.0), (4000.0, 4000.0)] == woken


@on_each_backend
def test_a_sleeper_that_is_cancelled_is_forgotten(backend):
    """Its moment holds nobody up, and does not come back."""
    clock = VirtualClock()

    async def main():
        async with anyio.create_task_group() as group:
            group.start_soon(clock.sleep, 50)
            group.start_soon(clock.sleep_until, math.inf)
            await clock.sleep(1)
            group.cancel_scope.cancel()
        return clock.now(), clock._sleepers

    assert (1.0, []) == clock.run(main, backend)


@on_each_backend
def test_what_is_raised_comes_out_as_itself(backend):
    """An exception inside of `run` is in no group."""

    async def main():
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        VirtualClock().run(main, backend)


@on_each_backend
def test_a_scope_around_it_is_cancelled_as_any(backend):
    """A cancellation from outside goes through."""
    clock = VirtualClock()

    async def main():
        with anyio.move_on_after(0.01) as scope:
            await clock.drive(anyio.sleep_forever)
        return scope.cancelled_caught

    assert anyio.run(main, backend=backend)
