"""HTTP over httpx, for trio; httpx2, on which the SDKs sit, has the same classes."""

from __future__ import annotations

import importlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

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
        request = self._client.build_request("POST", url, content=payload, headers=headers, timeout=timeout)
        response = await self._client.send(request, stream=True)
        async with answering(response) as answer:
            yield answer

    async def aclose(self) -> None:
        """Close them."""
        await self._client.aclose()


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
