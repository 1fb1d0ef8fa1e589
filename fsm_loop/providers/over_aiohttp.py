"""HTTP over aiohttp, for asyncio."""

from __future__ import annotations

import asyncio
import warnings
import weakref
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import aiohttp
from yarl import URL

from fsm_loop.providers.transport import IDLE_S, Answer, Trust

LONGEST_LINE_BYTES = 64 * 1024  # of a header: gateways add long ones


class _Connector(aiohttp.TCPConnector):
    """Connections that are let go without a word on standard error where nobody closed them: Python's own warning."""

    def __del__(self) -> None:  # type: ignore[override]  # aiohttp's own takes the module of the warnings
        if not self.closed:
            self._close()
            warnings.warn("connections were not closed: call aclose", ResourceWarning, source=self, stacklevel=2)


class AiohttpPool:
    """The connections of one event loop."""

    def __init__(self, trust: Trust, proxy: str | None, max_connections: int | None) -> None:
        connector = _Connector(ssl=trust, limit=max_connections or 0, keepalive_timeout=IDLE_S)
        self._proxy = proxy
        self._urls: dict[str, URL] = {}
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            max_line_size=LONGEST_LINE_BYTES,
            max_field_size=LONGEST_LINE_BYTES,
        )
        weakref.finalize(self, self._session.detach)

    @asynccontextmanager
    async def post(
        self,
        url: str,
        payload: bytes,
        headers: Mapping[str, str],
        connect_timeout_s: float,
        read_timeout_s: float | None,
    ) -> AsyncIterator[Answer]:
        """One request; aiohttp repeats none that is not idempotent."""
        timeout = aiohttp.ClientTimeout(
            total=None, connect=connect_timeout_s, sock_connect=connect_timeout_s, sock_read=read_timeout_s
        )
        await asyncio.sleep(0)  # so that a connection that its server has closed meanwhile is seen to be closed
        response = await self._session.post(
            self._url(url), data=payload, headers=headers, timeout=timeout, proxy=self._proxy, allow_redirects=False
        )
        try:
            yield _AiohttpAnswer(response)
        finally:
            response.close()  # a body that was read to its end has given its connection back by then

    def _url(self, url: str) -> URL:
        found = self._urls.get(url)
        if found is None:
            found = self._urls[url] = URL(url)
        return found

    async def aclose(self) -> None:
        """Close them."""
        await self._session.close()


class _AiohttpAnswer:
    """An answer as aiohttp has it."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.headers.items()}

    @property
    def ended(self) -> bool:
        """Whether all of the body has been read."""
        return self._response.content.at_eof()

    def chunks(self) -> AsyncIterator[bytes]:
        """Whatever has come, whenever something has."""
        return self._response.content.iter_any()
