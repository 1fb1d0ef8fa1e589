"""A real HTTP/1.1 server on loopback that answers by a script: for tests of whatever talks to a model over a wire.

It runs in threads, so that synchronous and asynchronous tests use it alike, and it can do what servers do when they
fail: hang, cut the body off, reset the connection, answer with a page of HTML. Every request that reached it is kept.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self

from attrs import define, field, frozen

PATIENCE_S = 10.0  # of the server with a client that neither speaks nor goes
MAX_HEAD_BYTES = 1 << 20


@frozen
class Send:
    """These bytes go out."""

    data: bytes


@frozen
class Wait:
    """Nothing, until the test sets the event."""

    until: threading.Event


@frozen
class Hang:
    """Nothing more, until the client goes away."""


@frozen
class Cut:
    """The connection is closed here, without the end that was promised."""


@frozen
class Reset:
    """The connection is reset here."""


Step = Send | Wait | Hang | Cut | Reset


@frozen
class Answer:
    """What one request gets: a status, headers, and steps that make the body; a *status* of 0 sends no head at all.

    The body is chunked, and ended properly where no step cuts it off; with `length` it has a Content-Length instead.
    """

    steps: tuple[Step, ...] = ()
    status: int = 200
    headers: Mapping[str, str] = field(factory=dict)
    length: int | None = None


@frozen
class Received:
    """A request that reached the server."""

    method: str
    path: str
    headers: Mapping[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        """The body, as JSON."""
        return json.loads(self.raw)


# ---------------------------------------------------------------- answers


def chunk(delta: Mapping[str, Any] | None = None, finish: str | None = None, **fields: Any) -> dict[str, Any]:
    """One chunk of a streamed chat completion; *fields* stand beside the choices, or replace them."""
    choice = {"index": 0, "delta": dict(delta or {}), "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "model": "m", "choices": [choice], **fields}


def said(text: str) -> dict[str, Any]:
    """A chunk of text."""
    return chunk({"content": text})


def called(slot: int, call_id: str | None, name: str | None, arguments: str) -> dict[str, Any]:
    """A chunk with a piece of a tool call."""
    function = {"arguments": arguments} if name is None else {"name": name, "arguments": arguments}
    piece = {"index": slot, "function": function}
    return chunk({"tool_calls": [piece if call_id is None else {**piece, "id": call_id, "type": "function"}]})


def event(data: Any) -> Send:
    """One server-sent event: JSON, or text as it is."""
    text = data if isinstance(data, str) else json.dumps(data)
    return Send(b"data: " + text.encode() + b"\n\n")


def stream(
    *chunks: Any, end: Step | None = None, done: bool = True, headers: Mapping[str, str] | None = None
) -> Answer:
    """A stream of chunks (or steps), then `[DONE]` unless it ends by *end* or is not *done*."""
    steps: list[Step] = [each if isinstance(each, Step) else event(each) for each in chunks]
    if end is not None:
        steps.append(end)
    elif done:
        steps.append(event("[DONE]"))
    return Answer(tuple(steps), 200, {"content-type": "text/event-stream", **(headers or {})})


def whole(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """One body with its length told: JSON, or text as it is."""
    raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    kind = "text/html" if raw.lstrip().startswith(b"<") else "application/json"
    return Answer((Send(raw),), status, {"content-type": kind, **(headers or {})}, len(raw))


def completion(text: str | None = None, finish: str | None = "stop", **message: Any) -> Answer:
    """A chat completion in one body."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    return whole({"id": "c1", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage})


def failure(status: int, message: str, headers: Mapping[str, str] | None = None, **error: Any) -> Answer:
    """An error in OpenAI's shape."""
    return whole({"error": {"message": message, "type": None, "param": None, "code": None, **error}}, status, headers)


NO_ANSWER = Answer((Cut(),), status=0)
RESET_AT_ONCE = Answer((Reset(),), status=0)
SILENCE = Answer((Hang(),), status=0)

Script = Iterable[Answer] | Callable[[Received], Answer]


# ---------------------------------------------------------------- the server


@define(eq=False)
class ChatServer:
    """Serves on loopback between `with` and its end: the answers of the script in order, then a 599 for each more.

    `requests` are all that came, in order; `connections` counts how many were made, `went_away` is set as soon as a
    client closes its connection while the server hangs.
    """

    script: Script = ()
    requests: list[Received] = field(factory=list, init=False)
    connections: int = field(default=0, init=False)
    went_away: threading.Event = field(factory=threading.Event, init=False)
    began: threading.Event = field(factory=threading.Event, init=False)
    _answers: Iterator[Answer] = field(default=iter(()), init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    _listener: socket.socket | None = field(default=None, init=False)
    _open: set[socket.socket] = field(factory=set, init=False)
    _threads: list[threading.Thread] = field(factory=list, init=False)
    _stopping: bool = field(default=False, init=False)

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        if not callable(self.script):
            self._answers = iter(self.script)
        self._begin_thread(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping = True
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
            self._listener.close()
        with self._lock:
            still_open = tuple(self._open)
        for connection in still_open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(PATIENCE_S)

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._listener is not None, "the server is not running"
        return int(self._listener.getsockname()[1])

    @property
    def base_url(self) -> str:
        """What a client is to be given."""
        return f"http://127.0.0.1:{self.port}/v1"

    def _begin_thread(self, target: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        assert self._listener is not None
        while not self._stopping:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.settimeout(PATIENCE_S)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connections += 1
            with self._lock:
                self._open.add(connection)
            self._begin_thread(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        """Answer the requests of one connection, until either side ends it."""
        try:
            with connection, contextlib.suppress(OSError):
                buffer = bytearray()
                while not self._stopping and (received := _read(connection, buffer)) is not None:
                    if not self._answer(connection, self._next(received)):
                        return
        finally:
            with self._lock:
                self._open.discard(connection)

    def _next(self, received: Received) -> Answer:
        with self._lock:
            self.requests.append(received)
            if callable(self.script):
                return self.script(received)
            return next(self._answers, failure(599, f"the script has no answer number {len(self.requests)}"))

    def _answer(self, connection: socket.socket, answer: Answer) -> bool:
        """Carry the answer out; whether the connection can be used again."""
        chunked = answer.length is None
        if answer.status:
            connection.sendall(_head(answer))
        for step in answer.steps:
            match step:
                case Send(data) if chunked and answer.status:
                    connection.sendall(b"%x\r\n%b\r\n" % (len(data), data) if data else b"")
                case Send(data):
                    connection.sendall(data)
                case Wait(until):
                    self.began.set()
                    until.wait(PATIENCE_S)
                case Hang():
                    self.began.set()
                    self._hang(connection)
                    return False
                case Cut():
                    connection.shutdown(socket.SHUT_RDWR)
                    return False
                case Reset():
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    return False
        if chunked:
            connection.sendall(b"0\r\n\r\n")
        return True

    def _hang(self, connection: socket.socket) -> None:
        """Wait until the client goes away; that it went is what some tests are about."""
        try:
            gone = connection.recv(1) == b""
        except ConnectionError:
            gone = True
        if gone and not self._stopping:
            self.went_away.set()


def _head(answer: Answer) -> bytes:
    framing = {"transfer-encoding": "chunked"} if answer.length is None else {"content-length": str(answer.length)}
    lines = [f"HTTP/1.1 {answer.status} Scripted", *(f"{k}: {v}" for k, v in {**framing, **answer.headers}.items())]
    return "\r\n".join([*lines, "", ""]).encode()


def _read(connection: socket.socket, buffer: bytearray) -> Received | None:
    """The next request, None where the client has closed."""
    while (end := buffer.find(b"\r\n\r\n")) < 0:
        if len(buffer) > MAX_HEAD_BYTES or not (data := connection.recv(65536)):
            return None
        buffer += data
    first, *lines = buffer[:end].decode("latin-1").split("\r\n")
    del buffer[: end + 4]
    method, path, _ = first.split(" ", 2)
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    size = int(headers.get("content-length", 0))
    while len(buffer) < size:
        if not (data := connection.recv(65536)):
            return None
        buffer += data
    raw = bytes(buffer[:size])
    del buffer[:size]
    return Received(method, path, headers, raw)
