"""Many turns against a server that does whatever servers do wrong, some of them interrupted: what is left behind.

What the server does and when a turn is interrupted is told by a seed. Server and turns are in one process, the server in
a thread of its own; the connections that count are those that lead to it.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import sys
import threading
import tracemalloc
import warnings
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from importlib import import_module
from typing import Any, Self

import anyio
import psutil
import sniffio
from attrs import field, frozen

from fsm_loop import Loop, LoopConfig
from fsm_loop.testing.wire.connect import SDK, WAYS, Endpoint
from fsm_loop.testing.wire.server import close_as_reset
from tests.wire.fuzz import framed
from tests.wire.streams import MESSAGES, RESPONSES, by_hand

SEED = 7
AT_ONCE = 16
HARDEST_S = 0.2  # within which a turn is interrupted
SETTLES_S = 5.0  # at most, for the kernel to tell the end of what was closed
CONFIG = LoopConfig(
    base_delay_s=0.001,
    max_delay_s=0.002,
    max_wait_s=0.01,
    connect_timeout_s=5,
    first_token_timeout_s=1,
    stale_after_s=0.5,
    linger_s=0.2,
    call_deadline_s=2,
    api_max_retries=1,
    stream_retries=1,
    continuations=1,
    recoveries=0,
)
# What the server does, and how often in comparison.
DEEDS = {
    "answer": 8, "call": 4, "reset at once": 1, "close at once": 1, "reset": 2, "cut": 2, "stall": 1, "silence": 1, "drip": 1,
    "429": 1, "500": 1, "half of a refusal": 1, "late reset": 1, "no end": 1,
}  # fmt: skip
ENDS = {"run": 5, "interrupt": 3, "leave": 2, "cancel": 2}  # and what is done to a turn


@frozen
class Left:
    """What is left behind a number of turns; `grown_bytes` since a third of them, with the garbage collected."""

    turns: int
    outcomes: dict[str, int]
    deeds: dict[str, int]
    most_connections: int
    kept_connections: int
    connections: int
    tasks: int
    grown_bytes: int
    complaints: list[str] = field(repr=False)


# ---------------------------------------------------------------- the server


class Hostile:
    """A server on loopback, in a thread, between `with` and its end."""

    def __init__(self, protocol: str, turns: int) -> None:
        good = by_hand(protocol)
        self.deeds: Counter[str] = Counter()
        self.port = 0
        self._good = {name: framed(good[name].events, named=True, newline="\n") for name in ("text", "call")}
        self._asked = [0] * turns  # of whole length from the beginning: it is in the process whose memory is looked at
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(10)
        assert not self._thread.is_alive()

    async def _run(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        self._talks: set[Any] = set()
        async with await asyncio.start_server(self._talk, "127.0.0.1", 0, backlog=512) as server:
            self.port = server.sockets[0].getsockname()[1]
            self._ready.set()
            await self._over.wait()
            for talk in tuple(self._talks):
                talk.cancel()
            await asyncio.gather(*self._talks, return_exceptions=True)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk = asyncio.current_task()
        self._talks.add(talk)
        try:
            while await self._answer(await _read(reader), reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            self._talks.discard(talk)

    async def _answer(  # noqa: C901  # a table of deeds
        self, turn: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Answer one request, well or not; whether the connection stands."""
        self._asked[turn] += 1
        luck = random.Random(f"{SEED} {turn} {self._asked[turn]}")
        deed = luck.choices([*DEEDS], [*DEEDS.values()])[0]
        self.deeds[deed] += 1
        body = self._good["call" if deed == "call" else "text"]
        cut = luck.randrange(1, len(body))
        match deed:
            case "answer" | "call":
                writer.write(HEAD + _chunk(body) + END)
                return True
            case "close at once" | "reset at once":
                pass
            case "silence":
                await _gone(reader)
            case "stall":
                writer.write(HEAD + _chunk(body[:cut]))
                await _gone(reader)
            case "drip":
                writer.write(HEAD)
                for at in range(0, len(body), 64):
                    writer.write(_chunk(body[at : at + 64]))
                    await writer.drain()
                    await asyncio.sleep(0.002)
                writer.write(END)
                return True
            case "429" | "500":
                words = b'{"error": {"message": "no"}}'
                writer.write(
                    b"HTTP/1.1 %b No\r\nretry-after: 0\r\ncontent-length: %d\r\n\r\n%b"
                    % (deed.encode(), len(words), words)
                )
                return True
            case "half of a refusal":
                writer.write(b'HTTP/1.1 503 No\r\ncontent-length: 1000\r\n\r\n{"error": ')
            case "no end":
                writer.write(HEAD + _chunk(body))
                await _gone(reader)
            case _:
                writer.write(HEAD + _chunk(body if deed == "late reset" else body[:cut]))
                await asyncio.sleep(0.001)
        if "reset" in deed:
            close_as_reset(writer.transport)
        return False


NAME = "turn "
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


async def _gone(reader: asyncio.StreamReader) -> None:
    await reader.read(1)


async def _read(reader: asyncio.StreamReader) -> int:
    """The number of the turn, which the words of the user say."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    size = next(int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"content-length:"))
    body = json.dumps(json.loads(await reader.readexactly(size)))
    return int(body[body.index(NAME) + len(NAME) :].partition('"')[0])


# ---------------------------------------------------------------- the turns


async def look(city: str, days: int = 1) -> str:
    """The weather.

    Args:
        city: where
        days: how many

    """
    return "sunny"


async def _turn(loop: Loop, number: int) -> str:
    """One turn and its end: how it ended, or what was done to it."""
    luck = random.Random(f"{SEED} {number}")
    way = luck.choices([*ENDS], [*ENDS.values()])[0]
    after_s = luck.random() * HARDEST_S
    words = f"{NAME}{number}"
    if way == "run":
        return (await loop.run(words)).outcome
    if way == "cancel":
        with anyio.move_on_after(after_s):
            return (await loop.run(words)).outcome
        return "cancelled"
    async with loop.stream(words) as turn, anyio.create_task_group() as group:
        if way == "interrupt":
            group.start_soon(_interrupt, turn, after_s)
        left = luck.randrange(1, 8) if way == "leave" else None
        async for _ in turn:
            left = None if left is None else left - 1
            if left == 0:
                break
        group.cancel_scope.cancel()
    return turn.result.outcome


async def _interrupt(turn: Any, after_s: float) -> None:
    await anyio.sleep(after_s)
    turn.interrupt()


@asynccontextmanager
async def _model(protocol: str, way: str, port: int) -> AsyncIterator[Any]:
    url = f"http://127.0.0.1:{port}"
    if protocol == RESPONSES and way == SDK:
        import openai

        from fsm_loop.providers.openai_responses import OpenAIResponses

        http = openai.DefaultAsyncHttpxClient(trust_env=False)
        async with openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0, http_client=http) as client:
            yield OpenAIResponses("m", client=client)
        return
    model, close = WAYS[protocol](Endpoint("m", f"{url}/v1", url, lambda: "k", True, {}, None, way))
    try:
        yield model
    finally:
        await close()


async def _all(protocol: str, way: str, port: int, turns: int, deeds: Counter[str]) -> Left:
    """So many turns over one model, and what they leave behind."""
    outcomes: Counter[str] = Counter()
    slots = anyio.CapacityLimiter(AT_ONCE)
    most, warm = 0, turns // 3
    tasks = _tasks()
    async with _model(protocol, way, port) as model:
        loop = Loop(model=model, tools=[look], config=CONFIG)

        async def one(number: int) -> None:
            nonlocal most
            async with slots:
                outcomes[await _turn(loop, number)] += 1
                if number % 10 == 0:
                    most = max(most, len(connections(port)))

        held = [await _held_after(one, range(warm)), await _held_after(one, range(warm, turns))]
        kept = len(connections(port))
    with anyio.move_on_after(SETTLES_S):
        while connections(port):  # noqa: ASYNC110  # the kernel tells of no end
            await anyio.sleep(0.01)
    return Left(
        turns=turns,
        outcomes=dict(outcomes),
        deeds=dict(deeds),
        most_connections=most,
        kept_connections=kept,
        connections=len(connections(port)),
        tasks=_tasks() - tasks,
        grown_bytes=held[1] - held[0],
        complaints=[],
    )


async def _held_after(one: Callable[[int], Any], numbers: range) -> int:
    """The bytes that Python holds once these turns are over, with the garbage collected."""
    async with anyio.create_task_group() as group:
        for number in numbers:
            group.start_soon(one, number)
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def connections(port: int) -> list[Any]:
    """The connections of this process that lead to this port, however they stand."""
    return [each for each in psutil.Process().net_connections("tcp") if each.raddr and each.raddr.port == port]


def _tasks() -> int:
    """The tasks of the event loop that runs."""
    if sniffio.current_async_library() == "trio":
        import trio

        return trio.lowlevel.current_statistics().tasks_living
    return len(asyncio.all_tasks())


@contextmanager
def _heard() -> Iterator[list[str]]:
    """Warnings and errors that nobody could catch."""
    told: list[str] = []
    before: Callable[..., Any] = sys.unraisablehook
    sys.unraisablehook = lambda unraisable: told.append(
        f"unraisable: {unraisable.exc_value!r} in {unraisable.object!r}"
    )
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield told
            gc.collect()
            told += [f"{each.category.__name__}: {each.message}" for each in caught]
    finally:
        sys.unraisablehook = before


def fire(protocol: str, way: str, backend: str, turns: int) -> Left:
    """So many turns, on this way to the wire and this event loop, and all that is left of them."""
    if way == SDK:  # before memory is watched, which makes an import slow
        import_module("anthropic" if protocol == MESSAGES else "openai")
    with Hostile(protocol, turns) as server, _heard() as complaints:
        tracemalloc.start()
        try:
            run = partial(_all, protocol, way, server.port, turns, server.deeds)
            left = anyio.run(run, backend=backend)
        finally:
            tracemalloc.stop()
    left.complaints.extend(complaints)
    return left
