"""Mutated replies over real sockets, on both ways to the wire: the framing and the packing of HTTP are mutated as well."""

from __future__ import annotations

import asyncio
import gzip
import random
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm_loop.testing.wire.connect import HTTP, SDK, WAYS, Endpoint
from fsm_loop.testing.wire.server import close_as_reset
from fsm_loop.testing.wire.virtual import VirtualLoop
from tests.wire.fuzz import Reply, replies, seeds_of
from tests.wire.fuzzed_turns import FUZZ, Bench, bare, check
from tests.wire.streams import CHAT, MESSAGES, PROTOCOLS

TURNS = FUZZ // 20 or 60
BOMB_BYTES = 8 << 20  # what a few thousand bytes unpack to
PARTS = 3  # in which a body goes out


def plain(body: bytes) -> bytes:
    """As long as its header says."""
    return _head(body, b"content-length: %d" % len(body))


def chunked(body: bytes) -> bytes:
    """In chunks, and their end."""
    return _head(b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in _parts(body)) + b"0\r\n\r\n", CHUNKED)


def _head(body: bytes, *lines: bytes) -> bytes:
    return b"\r\n".join((*lines, b"", b"")) + body


def _parts(body: bytes) -> list[bytes]:
    size = max(1, len(body) // PARTS)
    return [body[at : at + size] for at in range(0, len(body), size)]


def _packed(body: bytes, name: bytes = b"gzip") -> bytes:
    return _head(body, b"content-encoding: " + name, b"content-length: %d" % len(body))


CHUNKED = b"transfer-encoding: chunked"
# What stands behind the status line: further headers, a blank line, the body.
FRAMINGS: tuple[Callable[[bytes], bytes], ...] = (
    chunked,
    plain,
    _head,  # until the connection ends
    lambda body: _head(body, b"content-length: %d" % (len(body) + 10)),
    lambda body: _head(body, b"content-length: %d" % (len(body) // 2)),
    lambda body: _head(body, b"content-length: -1"),
    lambda body: _head(body, b"content-length: 1e3"),
    lambda body: _head(body, b"content-length: 9", b"content-length: 10"),
    lambda body: chunked(body)[:-5],
    lambda body: chunked(body)[:-7] + b"zz\r\n",
    lambda body: _head(b"7fffffffffffffff\r\n" + body, CHUNKED),
    lambda body: _head(b"-5\r\n" + body, CHUNKED),
    lambda body: _head(body, CHUNKED, b"content-length: 5"),
    lambda body: chunked(body) + b"HTTP/1.1 200 OK\r\n\r\n" + body,
    lambda body: _packed(gzip.compress(body)),
    lambda body: _packed(gzip.compress(body)[:-9]),
    lambda body: _packed(gzip.compress(body)[:10] + body),
    _packed,  # that is not packed at all
    lambda body: _packed(gzip.compress(body) + body),
    lambda body: _packed(gzip.compress(b"data: " + bytes(BOMB_BYTES))),
    lambda body: _packed(zlib.compress(body), b"deflate"),
    lambda body: _packed(zlib.compress(body)[2:], b"deflate"),
    lambda body: _packed(body, b"br"),
    lambda body: _packed(body, b"x-unknown, gzip"),
    lambda body: b"no colon here\r\n" + plain(body),
    lambda body: b"x: " + b"y" * 70_000 + b"\r\n" + plain(body),
    lambda body: b"".join(b"x%d: y\r\n" % number for number in range(3000)) + plain(body),
    lambda body: b"\x00\xff: \x01\r\n" + plain(body),
)
STATUS_LINES = (b"HTTP/1.1 %d OK",) * 20 + (
    b"HTTP/1.0 %d OK", b"HTTP/1.1 %d", b"HTTP/9.9 %d OK", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 %d OK", b"HTTP/1.1 abc %d", b"ICY %d", b"%d", b"\x16\x03\x01%d",
)  # fmt: skip


class FakeServer:
    """Answers on loopback by a script, in bytes that need be no HTTP; the last answer comes again and again."""

    def __init__(self) -> None:
        self.served: list[Reply] = []
        self._answers: list[tuple[Reply, bytes]] = []
        self._talks: set[asyncio.Task[Any]] = set()

    def begin(self, answers: list[tuple[Reply, bytes]]) -> None:
        self.served, self._answers = [], list(answers)

    async def close(self) -> None:
        for talk in tuple(self._talks):
            talk.cancel()
        await asyncio.gather(*self._talks, return_exceptions=True)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk: Any = asyncio.current_task()
        self._talks.add(talk)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = next(
                    int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
                )
                await reader.readexactly(size)
                reply, raw = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
                self.served.append(reply)
                if not await self._answer(writer, reply, raw):
                    return
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            self._talks.discard(talk)

    async def _answer(self, writer: asyncio.StreamWriter, reply: Reply, raw: bytes) -> bool:
        for part in _parts(raw):
            writer.write(part)
            await writer.drain()
        match reply.steps[-1:]:
            case [float(seconds)]:
                await asyncio.sleep(min(seconds, 1e5))
            case [Exception()]:
                close_as_reset(writer.transport)
                return False
        return len(raw) % 2 == 0


def bench_at(url: str, protocol: str, way: str) -> tuple[Bench, Any]:
    """A bench whose model speaks with a real server."""
    endpoint = Endpoint("m", f"{url}/v1", url, lambda: "k", stream=True, compat={}, connections=None, way=way)
    model, close = WAYS[protocol](endpoint)
    return Bench(protocol, model=model), close


@pytest.mark.parametrize(("protocol", "way"), [*((each, HTTP) for each in PROTOCOLS), (CHAT, SDK), (MESSAGES, SDK)])
def test_whatever_comes_over_real_sockets(protocol, way):
    """Whatever bytes a server sends in place of HTTP, the turn ends by a name, and no connection stays behind."""
    answer = st.tuples(replies(seeds_of(protocol), aws=protocol == MESSAGES), st.integers(0, 1 << 16))
    with bare(VirtualLoop) as loop:
        server = FakeServer()
        listening = loop.run_until_complete(asyncio.start_server(server.serve, "127.0.0.1", 0))
        bench, close = bench_at(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}", protocol, way)

        @settings(max_examples=TURNS, derandomize=not FUZZ, deadline=None, database=None, print_blob=True)
        @given(st.lists(answer, min_size=1, max_size=2))
        def any_turn(drawn: list[tuple[Reply, int]]) -> None:
            server.begin([(reply, _raw(reply, number)) for reply, number in drawn])
            result = loop.run_until_complete(bench.run())
            check(bench, result, server)

        try:
            any_turn()
        finally:
            listening.close()
            for last in (close, server.close):
                loop.run_until_complete(last())


def _raw(reply: Reply, number: int) -> bytes:
    """The answer as bytes of a wire."""
    luck = random.Random(number)
    line = luck.choice(STATUS_LINES) % reply.status
    headers = b"".join(f"{name}: {value}\r\n".encode("latin-1") for name, value in reply.headers.items())
    framing = FRAMINGS[0] if luck.random() < 0.4 else luck.choice(FRAMINGS)
    return line + b"\r\n" + headers + framing(reply.sent)
