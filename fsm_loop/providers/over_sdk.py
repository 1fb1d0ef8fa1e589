"""The way to the wire over a client of a vendor's SDK: it carries the bytes and nothing else.

Its typed chunks cost more than all the rest of a chunk together, so the body is read unparsed; its retries would be
requests that nobody counts, so they are off.
"""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fsm_loop.errors import ConfigError
from fsm_loop.providers.over_httpx import HttpxAnswer, answering, timeout_of
from fsm_loop.providers.said import passwords
from fsm_loop.providers.transport import Answer

# The SDKs' own word for "hand over the response unread"; it is what `with_streaming_response` sets.
_UNREAD = {"X-Stainless-Raw-Response": "stream"}


class SdkTransport:
    """Requests over one client: openai.AsyncOpenAI, anthropic.AsyncAnthropic, or one derived from them."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._httpx = _library_of(client)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What the client sends and no message may tell: its key, headers and queries of its own, a password."""
        keys = [getattr(self._client, name, None) or "" for name in ("api_key", "auth_token")]
        own = [dict(getattr(self._client, name, None) or {}) for name in ("_custom_headers", "_custom_query")]
        sent = [str(value) for each in own for value in each.values()]
        return (*map(str, keys), *sent, *passwords(str(getattr(self._client, "base_url", ""))))

    def use_key(self, key: str) -> None:
        """From now on the client uses this key."""
        self._client.api_key = key

    @asynccontextmanager
    async def post(
        self,
        path: str,
        body: Mapping[str, Any],
        headers: Mapping[str, str],
        *,
        connect_timeout_s: float,
        read_timeout_s: float | None,
    ) -> AsyncIterator[Answer]:
        """One request. A status of failure, which the SDK raises after it has read the body, is an answer here."""
        patience = timeout_of(self._httpx, connect_timeout_s, read_timeout_s)
        options = {"headers": {**headers, **_UNREAD}, "timeout": patience, "max_retries": 0}
        refused: Any = None
        response: Any = None
        try:
            response = await self._client.post(path, cast_to=self._httpx.Response, body=dict(body), options=options)
        except Exception as error:
            refused = getattr(error, "response", None)
            if getattr(error, "status_code", None) is None or refused is None:
                raise
        if refused is not None:
            yield HttpxAnswer(refused, _once(refused.content))
            return
        async with answering(response) as answer:
            yield answer

    async def aclose(self) -> None:
        """Close the client's connections."""
        await self._client.close()


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content


def _library_of(client: Any) -> Any:
    """The httpx, or httpx2, that this client sits on."""
    kinds = type(getattr(client, "_client", None)).__mro__
    roots = [each.__module__.partition(".")[0] for each in kinds if each.__name__ == "AsyncClient"]
    if not roots:
        raise ConfigError(f"client must be an asynchronous client of an SDK, not {type(client).__name__}")
    return importlib.import_module(roots[0])
