"""A raw HTTP/1.1 server on loopback that replays a case byte for byte: delays, cuts, resets, silence, bad bytes.

It is a protocol of asyncio's and nothing else, for what frameworks tidy is what a case is about. Its seconds are the
event loop's, times *scale*: in a virtual loop they are exact.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Callable, Mapping
from typing import Any, Self

from attrs import define, field

from fsm_loop.testing.wire.case import Case, Received
from fsm_loop.testing.wire.checks import problems_of
from fsm_loop.testing.wire.payload import body_bytes, head_bytes, keeps_promise, step_bytes, unrolled

Parts = Mapping[str, Any]

HOST = "127.0.0.1"
BEFORE_RESET_S = 0.02  # a reset throws away what the other side has not read: it gets the time to read it
SURPLUS = {"status": 599, "body": {"error": {"message": "the case has no response left", "type": "surplus_request"}}}


@define(eq=False)
class WireServer:
    """Serves one run of a case between `async with` and its end.

    `requests` are all that came, `ends` when each answer was over (or was left), `violations` what a client did that
    the case has no answer for; *tell* hears `request_sent` and `response_opened` as they happen.
    """

    case: Case
    scale: float = 1.0
    tell: Callable[[str], None] = lambda _: None
    requests: list[Received] = field(factory=list, init=False)
    ends: list[float] = field(factory=list, init=False)
    violations: list[str] = field(factory=list, init=False)
    port: int = field(default=0, init=False)
    _next: int = field(default=0, init=False)
    _began_at: float = field(default=0.0, init=False)
    _listener: asyncio.Server | None = field(default=None, init=False)
    _connections: set[_Connection] = field(factory=set, init=False)
    _down: asyncio.Task[None] | None = field(default=None, init=False)

    @property
    def base_url(self) -> str:
        """Where an OpenAI client finds it."""
        return f"{self.root_url}/v1"

    @property
    def root_url(self) -> str:
        """Where an Anthropic client finds it."""
        return f"http://{HOST}:{self.port}"

    @property
    def open_connections(self) -> int:
        """The connections that stand now."""
        return len(self._connections)

    def now(self) -> float:
        """Virtual seconds since its start."""
        return (asyncio.get_running_loop().time() - self._began_at) / self.scale

    async def __aenter__(self) -> Self:
        self._began_at = asyncio.get_running_loop().time()
        await self._listen()
        self._go_down()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._down is not None:
            self._down.cancel()
        self._close()
        for each in tuple(self._connections):
            each.drop()
        await asyncio.sleep(0)

    async def pause(self, seconds: float) -> None:
        """Wait for so many virtual seconds."""
        await asyncio.sleep(seconds * self.scale)

    # ------------------------------------------------------------ listening, and being gone

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(lambda: _Connection(self), HOST, self.port)
        self.port = self._listener.sockets[0].getsockname()[1]

    def _close(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def _go_down(self) -> None:
        """Be gone where the next response says so: nobody listens, and connections that were kept alive are closed."""
        upcoming = self.case.exchange[self._next] if self._next < len(self.case.exchange) else {}
        if upcoming.get("connect") != "refuse":
            return
        self._close()
        for each in tuple(self._connections):
            each.drop()
        self._down = asyncio.get_running_loop().create_task(self._come_back(upcoming.get("down_for", 1.0)))

    async def _come_back(self, after_s: float) -> None:
        await self.pause(after_s)
        self._next += 1
        await self._listen()
        self._go_down()

    # ------------------------------------------------------------ what a request gets

    def take(self, path: str, headers: Mapping[str, str], raw: bytes) -> Parts:
        """The response to this request, the next of the case."""
        number = len(self.requests) + 1
        try:
            body = json.loads(raw) if raw else None
        except ValueError as error:
            body = None
            self.violations.append(f"request {number} is not JSON: {error}")
        self.requests.append(Received(number, self.now(), path, headers, body))
        self.tell("request_sent")
        response = self._response(number)
        wanted = response.get("for_model")
        if wanted and isinstance(body, dict) and body.get("model") != wanted:
            self.violations.append(f"request {number} asks the model {body.get('model')!r}, not {wanted!r}")
        return response

    def _response(self, number: int) -> Parts:
        exchange = self.case.exchange
        if self._next >= len(exchange):
            if self.case.repeats_last:
                return exchange[-1]
            self.violations.append(f"request {number} is one more than the case has responses")
            return SURPLUS
        place, self._next = self._next, self._next + 1
        for each in self.case.switches:
            if each["at"] == place and not problems_of(self.requests, number, each["if"], self.case.protocol):
                return each["response"]  # type: ignore[no-any-return]  # JSON, checked when the case was read
        return exchange[place]

    def ended(self) -> None:
        """An answer is over."""
        self.ends.append(self.now())
        self._go_down()

    def opened(self, connection: _Connection) -> None:
        """A connection was made."""
        self._connections.add(connection)

    def closed(self, connection: _Connection) -> None:
        """A connection is gone."""
        self._connections.discard(connection)


class _Connection(asyncio.Protocol):
    """One connection: requests one after another, each answered to its end before the next is read."""

    def __init__(self, server: WireServer) -> None:
        self._server = server
        self._buffer = b""
        self._answer: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        self._writable.set()

    # ------------------------------------------------------------ what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.closed(self)
        self._writable.set()
        if self._answer is not None:
            self._answer.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._look()

    # ------------------------------------------------------------ requests

    def drop(self) -> None:
        """Close at once, whatever is in flight."""
        if self._transport is not None:
            self._transport.abort()

    def _look(self) -> None:
        """Begin to answer where a whole request is here and none is being answered."""
        if self._answer is not None:
            return
        head, found, rest = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        first, *lines = head.decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        length = int(headers.get("content-length", 0))
        if len(rest) < length:
            return
        self._buffer = rest[length:]
        response = self._server.take(first.split(" ")[1], headers, rest[:length])
        self._answer = asyncio.get_running_loop().create_task(self._respond(response))

    async def _respond(self, response: Parts) -> None:
        alive = False
        try:
            alive = await self._play(response)
        finally:
            self._answer = None
            self._server.ended()
        if alive:
            self._look()
        elif self._transport is not None:
            self._transport.close()

    async def _play(self, response: Parts) -> bool:
        """Put the response on the wire; whether the connection can be used again."""
        await self._server.pause(response.get("headers_delay", 0))
        match response.get("connect", "ok"):
            case "close" | "refuse":
                return False
            case "reset":
                self._reset()
                return False
            case "hang":
                return await self._hang()
        body = None if "steps" in response else body_bytes(response)
        head, chunked = head_bytes(response, body)
        self._write(head)
        self._server.tell("response_opened")
        if body is None:
            return await self._play_steps(response["steps"], chunked=chunked)
        self._write(body)
        await self._writable.wait()
        return await self._end(response.get("end", "clean"), chunked=False) and keeps_promise(response, body)

    async def _play_steps(self, steps: Any, *, chunked: bool) -> bool:
        for step in unrolled(steps):
            if step.get("delay"):
                await self._server.pause(step["delay"])
            data = step_bytes(step)
            size = step.get("split") or len(data) or 1
            for at in range(0, len(data), size):
                piece = data[at : at + size]
                self._write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
                await self._writable.wait()
                await asyncio.sleep(0)
            if "end" in step:
                return await self._end(step["end"], chunked=chunked) and chunked
        return await self._end("clean", chunked=chunked) and chunked

    async def _end(self, how: str, *, chunked: bool) -> bool:
        match how:
            case "clean":
                if chunked:
                    self._write(b"0\r\n\r\n")
                    await self._writable.wait()
                return True
            case "reset":
                await asyncio.sleep(BEFORE_RESET_S)
                self._reset()
            case "hang":
                return await self._hang()
        return False

    async def _hang(self) -> bool:
        """Nothing more, until the client goes away."""
        await asyncio.get_running_loop().create_future()
        return False

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _reset(self) -> None:
        """Close so that the other side gets a reset, and no end."""
        if self._transport is None:
            return
        close_as_reset(self._transport)
        self._transport.abort()


def close_as_reset(transport: asyncio.BaseTransport) -> None:
    """Let the other side get a reset, and no end, when this connection is closed."""
    sock: socket.socket | None = transport.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
