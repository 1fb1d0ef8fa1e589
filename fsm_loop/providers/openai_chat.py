"""OpenAI's Chat Completions, and whatever is compatible with it, over the official SDK's client.

The SDK carries the bytes and nothing else: its typed chunks cost more than all the rest of a chunk together, and its
retries would be requests that nobody counts. What the bytes mean is decided in `chat_read` and `chat_decode`, what is
sent in `chat_encode`, and what went wrong in `classify`; none of them knows this file.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

import anyio
import anyio.lowlevel
from attrs import evolve

from fsm_loop.config import LoopConfig
from fsm_loop.core.effects import Request
from fsm_loop.core.faults import Fault, FaultKind
from fsm_loop.core.messages import MediaPart, UserMessage
from fsm_loop.errors import ConfigError, MissingExtra, ModelError
from fsm_loop.ports import Delta, ToolSpec
from fsm_loop.providers.call_ids import check_pattern
from fsm_loop.providers.chat_encode import ChatShape, body_of
from fsm_loop.providers.chat_read import ChatReader
from fsm_loop.providers.classify import fault_of, fitted, request_id_of
from fsm_loop.providers.said import redacted

if TYPE_CHECKING:
    import httpx2
    import openai

ApiKey = str | Callable[[], str | Awaitable[str]]

PATH = "/chat/completions"
KEYLESS = "none"  # what is sent as a key to a server that was named without one
DRAIN_S = 0.1  # for the end of a body whose last event has been read, so that its connection can be used again
CLOSE_S = 1.0  # for a connection to close, whatever else is cancelled
LEAST_S = 0.001  # no timeout of the transport is less
# The SDK's own word for "hand over the response unread"; it is what `with_streaming_response` sets.
_UNREAD = {"X-Stainless-Raw-Response": "stream"}


class OpenAIChat:
    """One model behind one endpoint that speaks Chat Completions; made once, asked for ever, on asyncio or trio.

    `api_key` is a key, or a function (async or not) that gives one: it is asked before the first request, and again
    when the key is no longer accepted. Without it OPENAI_API_KEY counts, as everywhere in the SDK; a server named by
    `base_url` may do without a key. `client` is an `openai.AsyncOpenAI` of your own, for Azure or a proxy, say; it is
    yours to close. `extra` are further parameters of the body, `headers` further headers.

    For servers with habits of their own: `stream` false asks for each reply in one body; `cumulative` is for one whose
    every chunk holds all of the text so far; ids of tool calls that do not match `call_id_pattern` are sent as others.

    `aclose` closes the connections; the next request opens new ones. Connections belong to one event loop: close before
    the loop ends.
    """

    def __init__(  # noqa: PLR0913  # each is a wish of the user's
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: ApiKey | None = None,
        client: openai.AsyncOpenAI | None = None,
        name: str | None = None,
        extra: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        output_limit_name: str = "",
        returns_reasoning: bool = False,
        stream: bool = True,
        cumulative: bool = False,
        call_id_pattern: str = "",
    ) -> None:
        check_pattern(call_id_pattern)
        self._sdk = _sdk()
        self._shape = ChatShape(model, dict(extra or {}), output_limit_name, returns_reasoning, call_id_pattern)
        self._streams = stream
        self._cumulative = cumulative
        self._name = name or model
        self._base_url = base_url
        self._key_giver = api_key if callable(api_key) else None
        self._key = "" if callable(api_key) or client is not None else _key(api_key, base_url)
        self._headers = dict(headers or {})
        self._given = client
        self._client: openai.AsyncOpenAI | None = None
        self._home: object = None  # the event loop that the client's connections belong to
        self._secrets = {*self._headers.values(), urlsplit(base_url or "").password or "", self._key}

    @property
    def name(self) -> str:
        """What it is called in trails and results."""
        return self._name

    @property
    def streams(self) -> bool:
        """Whether its replies are streamed."""
        return self._streams

    @asynccontextmanager
    async def ask(
        self, request: Request, tools: Sequence[ToolSpec], config: LoopConfig
    ) -> AsyncIterator[AsyncIterator[Delta]]:
        """One request on the wire, sent when the first delta is asked for; leaving the context closes it."""
        async with aclosing(self._deltas(request, tools, config)) as deltas:
            yield deltas

    async def refresh(self) -> bool:
        """Ask for a fresh key; whether it is another one than before."""
        if self._key_giver is None:
            return False
        before = self._key
        return await self._ask_for_key() != before

    async def aclose(self) -> None:
        """Close the connections; a client that was given stays open."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    # ------------------------------------------------------------ one request

    async def _deltas(self, request: Request, tools: Sequence[ToolSpec], config: LoopConfig) -> AsyncGenerator[Delta]:
        body: dict[str, Any] = {}
        response: httpx2.Response | None = None
        try:
            body = body_of(request, tools, self._shape)
            response = await self._sent(body, _timeout(self._sdk, request, config))
            reader = ChatReader(request_id_of(response.headers), streamed=request.stream, cumulative=self._cumulative)
            async with _closing(response) as chunks, aclosing(_read(reader, chunks)) as deltas:
                async for delta in deltas:
                    yield delta
        except ModelError as error:
            raise ModelError(self._fitted(error.fault, request, body, response)) from error
        except Exception as error:  # noqa: BLE001  # whatever the transport raises is a fault
            fault = self._fitted(fault_of(error), request, body, response)
            raise ModelError(fault) from (None if self._tells(error) else error)

    async def _sent(self, body: dict[str, Any], patience: Any) -> httpx2.Response:
        """The answer, its body unread. Raises what the SDK raises for a status that is none of success."""
        import httpx2

        client = await self._client_here()
        options: Any = {"headers": _UNREAD, "timeout": patience, "max_retries": 0}
        return await client.post(PATH, cast_to=httpx2.Response, body=body, options=options)

    # ------------------------------------------------------------ the client and its key

    async def _client_here(self) -> openai.AsyncOpenAI:
        """The client whose connections belong to the event loop that runs now."""
        if self._key_giver is not None and not self._key:
            await self._ask_for_key()
        if self._given is not None:
            self._secrets.add(self._given.api_key)
            return self._given
        home = anyio.lowlevel.current_token()
        if self._client is None or self._home != home:
            self._home = home
            self._client = self._sdk.AsyncOpenAI(
                api_key=self._key,
                base_url=self._base_url,
                default_headers=self._headers,
                max_retries=0,
                http_client=self._sdk.DefaultAsyncHttpxClient(trust_env=False) if _is_here(self._base_url) else None,
            )
        return self._client

    async def _ask_for_key(self) -> str:
        """A key from whoever gives them; clients use it from now on, and no message tells it."""
        assert self._key_giver is not None
        try:
            given = self._key_giver()
            key = str(await given if inspect.isawaitable(given) else given)
        except Exception as error:  # noqa: BLE001  # only its name is told: a vault's text may hold anything
            raise ModelError(Fault(FaultKind.NOT_READY, f"no key could be had: {type(error).__name__}")) from None
        self._key = key
        self._secrets.add(key)
        for client in (self._client, self._given):
            if client is not None:
                client.api_key = key
        return key

    # ------------------------------------------------------------ what went wrong

    def _fitted(
        self, fault: Fault, request: Request, body: Mapping[str, Any], response: httpx2.Response | None
    ) -> Fault:
        """The fault as it stands for this request, with the provider's name, the request's id, and no secret."""
        own = fitted(fault, parameters=body, streamed=request.stream, media=_holds_media(request))
        request_id = fault.request_id or (request_id_of(response.headers) if response is not None else "")
        return evolve(own, message=redacted(fault.message, self._secrets), provider=self._name, request_id=request_id)

    def _tells(self, error: Exception) -> bool:
        """Whether the error's own text holds a secret, so that no traceback may show it."""
        return redacted(str(error), self._secrets) != str(error)


@asynccontextmanager
async def _closing(response: httpx2.Response) -> AsyncIterator[AsyncGenerator[bytes]]:
    """The bytes of the body, and whatever happens, a connection that is closed or free again behind it.

    httpx leaves generators open within its own where a body is not read to its end, and trio warns of each. Read on
    after the connection is closed they fail at once, and are done with; over HTTP/2 they might wait.
    """
    chunks = response.aiter_bytes()
    try:
        yield chunks
    finally:
        with anyio.move_on_after(CLOSE_S, shield=True):
            await response.aclose()
            if response.http_version.startswith("HTTP/1"):
                with suppress(Exception):
                    async for _ in chunks:
                        pass
            await chunks.aclose()


async def _read(reader: ChatReader, chunks: AsyncGenerator[bytes]) -> AsyncGenerator[Delta]:
    async for chunk in chunks:
        for delta in reader.feed(chunk):
            yield delta
        if reader.done:
            with anyio.move_on_after(DRAIN_S):
                async for _ in chunks:
                    pass
            return
    for delta in reader.end():
        yield delta


def _sdk() -> Any:
    try:
        import openai
    except ImportError as error:
        raise MissingExtra("OpenAIChat needs the `openai` SDK: pip install 'fsm-loop[openai]'") from error
    return openai


def _key(given: Any, base_url: str | None) -> str:
    key = given or os.environ.get("OPENAI_API_KEY")
    if key:
        return str(key)
    if base_url or os.environ.get("OPENAI_BASE_URL"):
        return KEYLESS
    raise ConfigError("OpenAIChat needs a key: give api_key, or set OPENAI_API_KEY; a local server needs its base_url")


def _is_here(base_url: str | None) -> bool:
    """Whether the server is on this machine, where no proxy of the environment leads."""
    host = urlsplit(base_url or "").hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def _timeout(sdk: Any, request: Request, config: LoopConfig) -> Any:
    """The transport's own patience: none while a stream is silent, for that the turn's watch has one."""

    def within(seconds: float) -> float:
        left = seconds if request.time_left_s is None else min(seconds, request.time_left_s)
        return max(left, LEAST_S)

    read = None if request.stream else within(config.read_timeout_s)
    connect = within(config.connect_timeout_s)
    return sdk.Timeout(connect=connect, pool=connect, write=within(config.read_timeout_s), read=read)


def _holds_media(request: Request) -> bool:
    return any(
        isinstance(part, MediaPart)
        for message in request.messages
        if isinstance(message, UserMessage) and not isinstance(message.content, str)
        for part in message.content
    )
