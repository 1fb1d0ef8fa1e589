"""The notes that wait for the consumer: none is lost, none comes twice, nobody waits for ever."""

from __future__ import annotations

import anyio
import pytest

from fsm_loop.drive.notes import BACKLOG, Outbox
from fsm_loop.ports import TextDelta
from fsm_loop.testing.clock import VirtualClock
from tests.drive.turns import on_each_backend


async def take_all(outbox, into):
    """Take notes until there are no more."""
    while (note := await outbox.take()) is not None:
        into.append(note.text)


@on_each_backend
@pytest.mark.parametrize("consumers", [1, 2, 5])
def test_each_note_is_taken_once(backend, consumers):
    """However many take, each note goes to one of them, and all of them hear of the end."""
    clock = VirtualClock()
    taken = [[] for _ in range(consumers)]

    async def main():
        outbox = Outbox()
        async with anyio.create_task_group() as group:
            for into in taken:
                group.start_soon(take_all, outbox, into)
            for number in range(50):
                outbox.put(TextDelta(str(number)))
                if number % 7 == 0:
                    await clock.sleep(1)
            await clock.sleep(1)
            outbox.close()

    async def bounded():
        with anyio.fail_after(10):
            await main()

    clock.run(bounded, backend)

    assert sorted(map(str, range(50))) == sorted(text for each in taken for text in each)
    assert all(each == sorted(each, key=int) for each in taken)


@on_each_backend
def test_what_was_put_before_the_end_is_still_taken(backend):
    """A closed outbox gives what it holds, then None, as often as it is asked."""

    async def main():
        outbox = Outbox()
        outbox.put(TextDelta("last"))
        outbox.close()
        return [await outbox.take() for _ in range(3)]

    assert [TextDelta("last"), None, None] == anyio.run(main, backend=backend)


@on_each_backend
def test_it_is_full_at_the_backlog(backend):
    """At BACKLOG notes the stream is to be held; it goes on when half of them are taken."""
    clock = VirtualClock()

    async def main():
        outbox = Outbox()
        for _ in range(BACKLOG - 1):
            outbox.put(TextDelta("x"))
        before = outbox.full
        outbox.put(TextDelta("x"))
        left = []

        async def waits():
            await outbox.drained()
            left.append(len(outbox._notes))

        async with anyio.create_task_group() as group:
            group.start_soon(waits)
            for _ in range(BACKLOG):
                await clock.sleep(1)
                await outbox.take()
        return before, left

    before, left = clock.run(main, backend)

    assert not before
    assert [BACKLOG // 2] == left


@on_each_backend
@pytest.mark.parametrize("taken", [0, 1])
def test_the_end_frees_whoever_is_held(backend, taken):
    """Who waits for the consumer waits no longer when no more notes will come."""

    async def main():
        outbox = Outbox()
        for _ in range(BACKLOG):
            outbox.put(TextDelta("x"))
        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                group.start_soon(outbox.drained)
                await anyio.lowlevel.checkpoint()
                for _ in range(taken):
                    await outbox.take()
                outbox.close()

    anyio.run(main, backend=backend)


@on_each_backend
def test_a_taker_that_is_cancelled_loses_nothing(backend):
    """A take that was cancelled has taken nothing: the next one has the note."""
    clock = VirtualClock()

    async def main():
        outbox = Outbox()
        with anyio.move_on_after(0):
            await outbox.take()
        outbox.put(TextDelta("kept"))
        return await outbox.take()

    assert TextDelta("kept") == clock.run(main, backend)
