"""Time that passes only while nothing can happen."""

from __future__ import annotations

import asyncio
import math
import threading
import time

import pytest

from fsm_loop.testing.wire.virtual import LoopClock, ScaledClock, run_virtual


def test_waits_take_no_time_and_are_exact():
    """Hours pass at once, to the second, in the order in which they end."""
    told = []

    async def wait(seconds):
        await asyncio.sleep(seconds)
        told.append((seconds, asyncio.get_running_loop().time()))

    async def main():
        await asyncio.gather(wait(7200), wait(3600), wait(0.5))

    began = time.monotonic()
    run_virtual(main)

    assert [(0.5, 0.5), (3600, 3600), (7200, 7200)] == told
    assert time.monotonic() - began < 60


def test_bytes_come_before_time():
    """What is on its way to a socket is read before any timer fires."""

    async def main():
        async def answer(reader, writer):
            writer.write(await reader.readexactly(1))
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"x")
        async with asyncio.timeout(1e-6):
            answered = await reader.read()
        writer.close()
        server.close()
        return answered

    assert b"x" == run_virtual(main)


def test_a_thread_holds_time_up():
    """While a thread is at work no virtual second passes."""
    begun = threading.Event()

    async def main():
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(None, begun.wait, 30)
        timer = asyncio.create_task(asyncio.sleep(1000))
        await asyncio.sleep(0)
        before = loop.time()
        begun.set()
        await work
        at_work = loop.time() - before
        await timer
        return at_work, loop.time()

    assert (0, 1000) == run_virtual(main)


def test_the_clock_of_the_loop():
    """It tells the loop's time, waits until a moment, and not for one that has passed."""

    async def main():
        clock = LoopClock()
        await clock.sleep_until(12.5)
        await clock.sleep_until(3)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(100):
                await clock.sleep_until(math.inf)
        return clock.now()

    assert 112.5 == run_virtual(main)


def test_a_scaled_clock_runs_faster():
    """A wait of a thousand of its seconds is a wait of a thousandth of them."""

    async def main():
        clock = ScaledClock(1e-6)
        began = clock.now()
        await clock.sleep_until(began + 1000)
        return clock.now() - began

    assert asyncio.run(main()) >= 1000
