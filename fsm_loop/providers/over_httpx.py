"""HTTP over httpx, for trio; httpx2, on which the SDKs sit, has the same classes."""

from __future__ import annotations

import importlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Self

import anyio

from fsm_loop.providers.transport import CLOSE_S, IDLE_S, WRITE_S, Answer, Trust

if TYPE_CHECKING:
    import httpx


class HttpxPool:
    """The connections of one event loop."""

    def __init__(self, library: str, trust: Trust, proxy: str | None, max_connections: int | None) -> None:
        self._httpx: Any = importlib.import_module(library)
        self._client = self._httpx.AsyncClient(
            verify=trust,
            proxy=proxy,
            trust_env=False,
            limits=self._httpx.Limits(max_connections=max_connections, keepalive_expiry=IDLE_S),
        )
        self._body: Any = type("Body", (_Body, self._httpx.AsyncByteStream), {})

    @asynccontextmanager
    async def post(
        self,
        url: str,
        payload: bytes,
        headers: Mapping[str, str],
        connect_timeout_s: float,
        read_timeout_s: float | None,
    ) -> AsyncIterator[Answer]:
        """One request."""
        timeout = timeout_of(self._httpx, connect_timeout_s, read_timeout_s)
        opened = _Opened()
        request = self._client.build_request(
            "POST", url, content=payload, headers=headers, timeout=timeout, extensions={"trace": opened}
        )
        request.stream = self._body(payload)
        try:
            response = await self._client.send(request, stream=True)
        except BaseException:
            await opened.aclose()
            raise
        async with answering(response) as answer:
            yield answer

    async def aclose(self) -> None:
        """Close them."""
        await self._client.aclose()


class _Body:
    """The body of a request; httpx's own is a generator, and trio warns of one that was not read to its end."""

    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self._left = 0

    def __aiter__(self) -> Self:
        self._left = 1
        return self

    async def __anext__(self) -> bytes:
        if not self._left:
            raise StopAsyncIteration
        self._left = 0
        return self._payload


class _Opened:
    """The connection that a request has opened and not used yet: whoever is cancelled there leaves it open in httpcore.

    So does a SOCKS proxy that turns the request away.
    """

    def __init__(self) -> None:
        self._stream: Any = None

    async def __call__(self, event: str, facts: Mapping[str, Any]) -> None:
        """What httpcore tells of each of its steps."""
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            self._stream = facts["return_value"]
        elif event.endswith("send_request_headers.started"):
            self._stream = None

    async def aclose(self) -> None:
        """Close it, if it is there."""
        if self._stream is not None:
            with anyio.move_on_after(CLOSE_S, shield=True):
                await self._stream.aclose()


def timeout_of(library: Any, connect_timeout_s: float, read_timeout_s: float | None) -> Any:
    """The patience of one request, as httpx or httpx2 is told it."""
    return library.Timeout(
        connect=connect_timeout_s, pool=connect_timeout_s, write=read_timeout_s or WRITE_S, read=read_timeout_s
    )


class HttpxAnswer:
    """An answer as httpx has it; that its body has ended it knows only once it has looked."""

    ended = False

    def __init__(self, response: httpx.Response, chunks: AsyncIterator[bytes]) -> None:
        self.status = response.status_code
        self.headers = {name.lower(): value for name, value in response.headers.items()}
        self._chunks = chunks

    def chunks(self) -> AsyncIterator[bytes]:
        """Whatever has come, whenever something has."""
        return self._chunks


@asynccontextmanager
async def answering(response: httpx.Response) -> AsyncIterator[HttpxAnswer]:
    """The answer, and whatever happens, a connection that is closed or free again behind it.

    httpx leaves generators open within its own where a body is not read to its end, and trio warns of each. Read on
    after the connection is closed they fail at once, and are done with; over HTTP/2 they might wait.
    """
    chunks: AsyncGenerator[bytes] = response.aiter_bytes()  # type: ignore[assignment]  # it is a generator
    try:
        yield HttpxAnswer(response, chunks)
    finally:
        with anyio.move_on_after(CLOSE_S, shield=True):
            await response.aclose()
            if response.http_version.startswith("HTTP/1"):
                with suppress(Exception):
                    async for _ in chunks:
                        pass
            await chunks.aclose()
