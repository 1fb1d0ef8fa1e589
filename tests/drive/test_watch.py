"""The watch: what is in flight is ended when it is overdue, at that moment, and never before."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from fsm_loop.drive.watch import Watch, is_cancelled, told
from fsm_loop.testing.clock import VirtualClock
from tests.drive.turns import on_each_backend


def watching(work, backend, tick_s=10.0):
    """Run *work* with a clock and a watch that is at work."""
    clock = VirtualClock()
    watch = Watch(clock, tick_s)

    async def main():
        async with anyio.create_task_group() as group:
            group.start_soon(watch.run)
            result = await work(clock, watch)
            group.cancel_scope.cancel()
        return result

    return clock.run(main, backend)


@on_each_backend
@pytest.mark.parametrize("due", [0.0, 3.0, 10.0, 11.0, 1000.0])
def test_what_is_overdue_is_ended_at_that_moment(backend, due):
    """The work is cancelled when it is due, and told so first."""
    expired = []

    async def work(clock, watch):
        watched = watch.begin(lambda: due, expired.append)
        with watched.scope:
            await clock.sleep(5000)
        return clock.now(), watched.scope.cancelled_caught

    assert (due, True) == watching(work, backend)
    assert [due] == expired


@on_each_backend
def test_what_ends_in_time_is_left_alone(backend):
    """What is in flight no longer is not watched."""

    async def work(clock, watch):
        watched = watch.begin(lambda: 5.0)
        with watched.scope:
            await clock.sleep(4)
        watch.end(watched)
        await clock.sleep(10)
        return watched.scope.cancel_called

    assert not watching(work, backend)


@on_each_backend
def test_progress_puts_it_off(backend):
    """A due time that moves away is heard without a word to the watch."""
    at = {"progress": 0.0}

    async def work(clock, watch):
        watched = watch.begin(lambda: at["progress"] + 20)
        with watched.scope:
            for _ in range(10):
                await clock.sleep(15)
                at["progress"] = clock.now()
            await clock.sleep(5000)
        return clock.now()

    assert 170.0 == watching(work, backend)


@on_each_backend
def test_a_due_time_that_comes_nearer_by_a_tick_is_seen(backend):
    """A patience that becomes as short as a tick is kept to the moment."""
    due = {"at": 1000.0}

    async def work(clock, watch):
        watched = watch.begin(lambda: due["at"])
        with watched.scope:
            await clock.sleep(33)
            due["at"] = 43.0
            await clock.sleep(5000)
        return clock.now()

    assert 43.0 == watching(work, backend)


@on_each_backend
def test_many_are_watched_at_once(backend):
    """Each is ended at its own time, those that begin later too."""
    ended = {}

    async def work(clock, watch):
        async def one(number, after, patience):
            await clock.sleep(after)
            due = clock.now() + patience
            watched = watch.begin(lambda: due)
            with watched.scope:
                await clock.sleep(5000)
            ended[number] = clock.now()

        async with anyio.create_task_group() as group:
            for number, (after, patience) in enumerate([(0, 100), (5, 1), (5, 50), (7, 0.5), (99, 0.5)]):
                group.start_soon(one, number, after, patience)

    watching(work, backend)

    assert {0: 100, 1: 6, 2: 55, 3: 7.5, 4: 99.5} == ended


@on_each_backend
def test_a_clock_that_jumps_ends_it_once(backend):
    """After a jump of hours what is overdue is ended once, and what begins then has all its time."""
    expired = []

    async def work(clock, watch):
        first = watch.begin(lambda: 90.0, expired.append)
        with first.scope:
            clock.jump(7200)
            await clock.sleep(5000)
        due = clock.now() + 90
        second = watch.begin(lambda: due, expired.append)
        with second.scope:
            await clock.sleep(5000)
        return clock.now()

    assert 7290.0 == watching(work, backend)
    assert [7200.0, 7290.0] == expired


@on_each_backend
def test_who_is_cancelled_from_outside_knows(backend):
    """A cancellation of the scope around is one from outside."""

    async def main():
        with anyio.CancelScope() as scope:
            scope.cancel()
            try:
                await anyio.sleep(1)
            except anyio.get_cancelled_exc_class():
                return is_cancelled()
        return None

    seen = []

    async def outer():
        async def work():
            try:
                await anyio.sleep_forever()
            except anyio.get_cancelled_exc_class():
                seen.append(is_cancelled())
                raise

        async with anyio.create_task_group() as group:
            group.start_soon(work)
            await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        return await main()

    anyio.run(outer, backend=backend)

    assert [True] == seen


def test_on_trio_only_trio_cancels():
    """Nobody else can raise what trio raises, so whoever sees it was cancelled."""

    async def main():
        return is_cancelled()

    assert anyio.run(main, backend="trio")
    assert not anyio.run(main, backend="asyncio")


@pytest.mark.parametrize("by", ["itself", "its task"])
def test_on_asyncio_a_cancellation_of_ones_own_is_told_apart(by):
    """A CancelledError that something raised is no cancellation; one of the task is."""
    seen = []

    async def work():
        try:
            future = asyncio.get_running_loop().create_future()
            if by == "itself":
                future.cancel()
            await future
        except asyncio.CancelledError:
            seen.append(is_cancelled())

    async def main():
        task = asyncio.create_task(work())
        await asyncio.sleep(0)
        if by == "its task":
            task.cancel()
        await task

    asyncio.run(main())

    assert [by == "its task"] == seen


@pytest.mark.parametrize(
    ("error", "text"),
    [(KeyError("x"), "KeyError: 'x'"), (ValueError(), "ValueError"), (OSError("a b"), "OSError: a b")],
)
def test_an_error_is_told_in_one_line(error, text):
    """Its type, and its words where it has some."""
    assert text == told(error)
