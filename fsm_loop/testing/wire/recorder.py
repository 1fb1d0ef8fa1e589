"""A proxy on loopback that passes everything on as it comes, and writes down each turn as a case."""

from __future__ import annotations

import asyncio
import json
import secrets as chance
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web
from attrs import define, field

from fsm_loop.testing.wire.disguise import SHORTEST_SECRET, Disguise
from fsm_loop.testing.wire.heard import Heard, heard
from fsm_loop.testing.wire.recorded import MOST_ANSWER_BYTES, Exchange, case_of_recording
from fsm_loop.testing.wire.replied import has_said_all
from fsm_loop.testing.wire.server import BEFORE_RESET_S, HOST, close_as_reset

PATHS = {"/chat/completions": "openai-chat", "/messages": "anthropic", "/responses": "openai-responses"}
LEAVES_S = 1.0  # how long an answer is listened to when its client has left
CONNECTS_S = 30.0
MOST_REQUEST_BYTES = 64 * 2**20
MOST_EXCHANGES = 200  # of one turn
MOST_TURNS = 50  # that may go on at once

# What belongs to one connection, and is not passed on.
# fmt: off
HOP = frozenset({
    "connection", "keep-alive", "proxy-authenticate", "proxy-connection", "te", "trailer", "transfer-encoding",
    "upgrade", "host", "content-length", "accept-encoding", "expect",
})
# fmt: on
SHAPELESS = (ValueError, TypeError, AttributeError, KeyError, IndexError, RecursionError)  # what is not as promised
SECRET_HEADERS = ("authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie")


@define(eq=False)
class Turn:
    """The exchanges of one turn, and the file that they are written to."""

    path: Path
    exchanges: list[Exchange] = field(factory=list)
    closed: bool = False


@define(eq=False)
class Recorder:
    """Between `async with` and its end, whatever is asked at `base_url` is asked of the server, and written down.

    *server* is the address of a provider, as a client would be given it; *folder* is where cases go, one file for each
    turn, written anew whenever an answer is over; `written` are those that are there. *tell* hears of each. Raises
    OSError where the port is taken.
    """

    server: str
    folder: Path
    port: int = 0
    keep_text: bool = False
    tell: Callable[[str], None] = lambda _: None
    written: list[Path] = field(factory=list, init=False)
    _key: bytes = field(factory=lambda: chance.token_bytes(32), repr=False, init=False)
    _turns: list[Turn] = field(factory=list, init=False)
    _secrets: set[str] = field(factory=set, repr=False, init=False)
    _session: aiohttp.ClientSession | None = field(default=None, init=False)
    _listener: asyncio.Server | None = field(default=None, init=False)
    _handlers: web.Server | None = field(default=None, init=False)
    _readers: set[asyncio.Task[None]] = field(factory=set, init=False)
    _writers: set[asyncio.Task[None]] = field(factory=set, init=False)
    _pen: asyncio.Lock = field(factory=asyncio.Lock, init=False)

    @property
    def root_url(self) -> str:
        """Its address, without a path."""
        return f"http://{HOST}:{self.port}"

    @property
    def base_url(self) -> str:
        """What a client is given in place of the server's address."""
        return self.root_url + urlsplit(self.server).path.rstrip("/")

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        # A new connection for each request: what comes of one must not be the fault of the one before.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(force_close=True, limit=0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECTS_S),
            trust_env=True,
        )
        self._handlers = web.Server(self._asked, handler_cancellation=True)
        try:
            self._listener = await loop.create_server(self._handlers, HOST, self.port)
        except OSError:
            await self._session.close()
            raise
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._listener is not None
        assert self._handlers is not None
        assert self._session is not None
        self._listener.close()
        for each in tuple(self._readers):
            each.cancel()
        await asyncio.gather(*self._readers)
        await asyncio.gather(*self._writers)
        await self._handlers.shutdown(0)
        await self._session.close()

    # ------------------------------------------------------------ a request, and its answer to the client

    async def _asked(self, request: web.BaseRequest) -> web.StreamResponse:
        raw = await _body(request)
        if raw is None:
            return web.Response(status=413, text="the request is larger than the recorder takes")
        exchange = self._exchange(request, raw)
        turn = self._turn(exchange) if exchange is not None else None
        heard: asyncio.Queue[bytes | web.StreamResponse | None] = asyncio.Queue()
        known = exchange or Exchange("", {}, "", 0.0)
        reader = asyncio.get_running_loop().create_task(self._read(request, raw, known, turn, heard))
        self._readers.add(reader)
        reader.add_done_callback(self._readers.discard)
        try:
            return await self._pass_on(request, known, heard)
        except (asyncio.CancelledError, ConnectionError):
            known.left = not known.end
            asyncio.get_running_loop().call_later(LEAVES_S, reader.cancel)
            raise

    async def _pass_on(
        self, request: web.BaseRequest, exchange: Exchange, heard: asyncio.Queue[Any]
    ) -> web.StreamResponse:
        """Give the client what is heard, as it is heard, to the same end."""
        answer = await heard.get()
        if answer is None:
            answer = web.Response()
        else:
            await answer.prepare(request)
            while (piece := await heard.get()) is not None:
                await answer.write(piece)
        transport = request.transport
        if exchange.end in ("abrupt", "reset") and transport is not None:
            if exchange.end == "reset":
                await asyncio.sleep(BEFORE_RESET_S)
                close_as_reset(transport)
                transport.abort()
            else:
                transport.close()
        return answer  # type: ignore[no-any-return]  # the first thing in the queue

    # ------------------------------------------------------------ what the server says

    async def _read(
        self, request: web.BaseRequest, raw: bytes, exchange: Exchange, turn: Turn | None, heard: asyncio.Queue[Any]
    ) -> None:
        """Ask the server, and hear it to its end; the end is known before the client learns of it."""
        loop = asyncio.get_running_loop()
        try:
            await self._hear(request, raw, exchange, heard)
            exchange.end = "clean"
        except asyncio.CancelledError:
            exchange.end = "hang" if exchange.left else ""  # or the recorder itself ends
        except (aiohttp.ClientError, OSError) as error:
            exchange.end = "reset" if _is_reset(error) else "abrupt"
            if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
                exchange.connect = "refuse"
        exchange.ended_at = loop.time()
        if not exchange.status and exchange.connect == "ok":
            exchange.connect = {"abrupt": "close"}.get(exchange.end, exchange.end)
        if turn is not None and exchange.end:
            writer = loop.create_task(self._write(turn))
            self._writers.add(writer)
            writer.add_done_callback(self._writers.discard)
        heard.put_nowait(None)

    async def _hear(self, request: web.BaseRequest, raw: bytes, exchange: Exchange, heard: asyncio.Queue[Any]) -> None:
        assert self._session is not None
        server, loop = urlsplit(self.server), asyncio.get_running_loop()
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in HOP]
        async with self._session.request(
            request.method,
            f"{server.scheme}://{server.netloc}{request.path_qs}",
            data=raw or None,
            headers=[*headers, ("accept-encoding", "identity")],
            allow_redirects=False,
        ) as answer:
            exchange.opened_at, exchange.status, exchange.headers = loop.time(), answer.status, _passed(answer)
            heard.put_nowait(_opened(answer, exchange))
            async for piece, _ in answer.content.iter_chunks():
                if piece:
                    exchange.take(loop.time(), piece)
                    heard.put_nowait(piece)

    # ------------------------------------------------------------ turns, and their files

    def _exchange(self, request: web.BaseRequest, raw: bytes) -> Exchange | None:
        """The exchange that begins; None where it is none with a model."""
        for secret in _secrets_of(request):
            self._secrets.add(secret)
        protocol = next((each for end, each in PATHS.items() if request.path.rstrip("/").endswith(end)), "")
        try:
            body = json.loads(raw)
            heard(body, protocol)
        except SHAPELESS:
            body = None
        if not protocol or request.method != "POST" or not isinstance(body, dict):
            self.tell(f"{request.method} {request.path}: passed on, not recorded")
            return None
        credential = next((request.headers[name] for name in SECRET_HEADERS if name in request.headers), "")
        return Exchange(protocol, body, credential, asyncio.get_running_loop().time())

    def _turn(self, exchange: Exchange) -> Turn:
        """The turn that the request goes on with, or a new one."""
        for turn in reversed(self._turns):
            if _goes_on(turn, exchange):
                break
        else:
            turn = Turn(self._free_path(exchange.protocol))
            self._turns = [*self._turns[-MOST_TURNS + 1 :], turn]
        turn.exchanges.append(exchange)
        if len(turn.exchanges) > MOST_EXCHANGES:
            self._give_up(turn, f"a turn has more than {MOST_EXCHANGES} requests")
        return turn

    def _give_up(self, turn: Turn, why: str) -> None:
        turn.closed = True
        self.tell(f"{turn.path.stem}: {why}; the rest is passed on, not recorded")

    def _free_path(self, protocol: str) -> Path:
        """A file that is not there yet; it is made at once, so that no other takes it."""
        number = 1
        while True:
            path = self.folder / f"recorded-{protocol}-{number}.json"
            if not path.exists() and path not in (turn.path for turn in self._turns):
                return path
            number += 1

    async def _write(self, turn: Turn) -> None:
        """Write the turn down, as far as its answers are over; in a thread, for others are being answered."""
        async with self._pen:
            done = [*takewhile(lambda each: each.end, turn.exchanges)]
            if any(each.is_too_large for each in done) and not turn.closed:
                self._give_up(turn, f"an answer is larger than {MOST_ANSWER_BYTES // 2**20} MB")
            if not done or turn.closed:
                return
            disguise = Disguise(self._key, sorted(self._secrets), self.keep_text)
            try:
                await asyncio.to_thread(_put, turn.path, done, disguise)
            except OSError as error:
                self._give_up(turn, f"cannot be written: {error.strerror}")
                return
            except SHAPELESS as error:
                self._give_up(turn, f"no case can be made of it: {type(error).__name__}: {error}")
                return
        if turn.path not in self.written:
            self.written.append(turn.path)
        count = "1 request" if len(done) == 1 else f"{len(done)} requests"
        self.tell(f"{turn.path}: {count}; {done[-1].outcome}")


def _put(path: Path, exchanges: Sequence[Exchange], disguise: Disguise) -> None:
    """Write the case; whoever reads it meanwhile gets the one before, whole."""
    case = case_of_recording(exchanges, path.stem, disguise)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".part")
    beside.write_text(f"{json.dumps(case, indent=1)}\n", encoding="ascii")
    beside.replace(path)


def _goes_on(turn: Turn, exchange: Exchange) -> bool:
    """Whether the request belongs to this turn: it begins or ends as the one before, whose answer did not end it."""
    before = turn.exchanges[-1]
    if turn.closed or before.protocol != exchange.protocol:
        return False
    if not (before.end or before.left or has_said_all(before.raw)):
        return False  # it is being answered: another turn asks at the same time
    one, two = _spoken(before), _spoken(exchange)
    if not one or not two or (before.end in ("", "clean") and before.reply().is_over and not two[-1].results):
        return False
    alike = one[0].text.startswith(two[0].text) or two[0].text.startswith(one[0].text)  # a nudge may have been added
    return alike or one[-1] == two[-1]


def _spoken(exchange: Exchange) -> list[Heard]:
    return [each for each in heard(exchange.body, exchange.protocol) if each.role not in ("system", "developer")]


async def _body(request: web.BaseRequest) -> bytes | None:
    """The body of the request; None where it is too large."""
    pieces, size = [], 0
    async for piece in request.content.iter_any():
        size += len(piece)
        if size > MOST_REQUEST_BYTES:
            return None
        pieces.append(piece)
    return b"".join(pieces)


def _secrets_of(request: web.BaseRequest) -> Iterator[str]:
    """The credentials that a request comes with, each by its value."""
    told = [request.headers[name] for name in SECRET_HEADERS if name in request.headers]
    values = [
        *request.query.values(),
        *(word for each in told for word in each.replace(";", " ").replace("=", " ").split()),
    ]
    yield from (each for each in (*values, *told) if len(each) >= SHORTEST_SECRET)


def _passed(answer: aiohttp.ClientResponse) -> list[tuple[str, str]]:
    """The headers that are passed on; a body that was packed is unpacked, and is longer than it says."""
    gone = {"connection", "keep-alive", "transfer-encoding", "content-encoding"}
    if "content-encoding" in answer.headers:
        gone.add("content-length")
    return [(name, value) for name, value in answer.headers.items() if name.lower() not in gone]


def _opened(answer: aiohttp.ClientResponse, exchange: Exchange) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status, reason=answer.reason)
    for name, value in exchange.headers:
        response.headers.add(name, value)
    if not exchange.header("content-length"):
        response.enable_chunked_encoding()
    return response


def _is_reset(error: BaseException | None) -> bool:
    """Whether the connection was reset: somewhere in the error, or behind it, stands the system's word for it.

    Of a body that broke off aiohttp says so in the words of its error alone.
    """
    while error is not None:
        if ConnectionResetError.__name__ in repr(error) and not isinstance(error, aiohttp.ServerDisconnectedError):
            return True
        error = error.__cause__ or error.__context__
    return False
