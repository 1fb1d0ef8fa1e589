"""OpenAI's Chat Completions, and whatever is compatible with it.

What the bytes mean is decided in `chat_read` and `chat_decode`, what is sent in `chat_encode`, what carries them in
`transport`, and what went wrong in `classify`; none of them knows this file.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fsm_loop.core.effects import Request
from fsm_loop.ports import ToolSpec
from fsm_loop.providers.asked import ApiKey
from fsm_loop.providers.call_ids import check_pattern
from fsm_loop.providers.chat_encode import ChatShape, body_of
from fsm_loop.providers.chat_read import ChatReader
from fsm_loop.providers.transport import CLOSE_S
from fsm_loop.providers.wired import KEYLESS, Vendor, WiredModel

if TYPE_CHECKING:
    import openai

__all__ = ["CLOSE_S", "KEYLESS", "ApiKey", "OpenAIChat"]

# The SDK's variables, and the headers that it makes of them.
ACCOUNT = {"OPENAI_ORG_ID": "openai-organization", "OPENAI_PROJECT_ID": "openai-project"}


def account_headers() -> dict[str, str]:
    """The headers of the organization and project that the environment names, as the SDK sends them."""
    return {name: os.environ[variable] for variable, name in ACCOUNT.items() if os.environ.get(variable)}


class OpenAIChat(WiredModel):
    """One model behind one endpoint that speaks Chat Completions; made once, asked for ever, on asyncio or trio.

    There are two ways to the wire. Built in (extra `http`): HTTP over aiohttp, on trio over httpx. `proxy` is a proxy's
    address (http, https, or with the extra `socks` socks5 and socks5h), else those of the environment count; `verify`
    is an `ssl.SSLContext`, with your own CA or client certificate, or false for a server that need not prove who it
    is; `max_connections` bounds the pool. Or `client`, an `openai.AsyncOpenAI` of your own, for Azure,
    say: it is yours to close, and `base_url`, `headers` and those three are its affair. Where the extra is not
    installed, but the SDK is, a client of the SDK is made.

    `api_key` is a key, or a function (async or not) that gives one: it is asked before the first request, and again
    when the key is no longer accepted. Without it OPENAI_API_KEY counts, and OPENAI_BASE_URL where no `base_url` is
    given; a server that is named may do without a key. `extra` are further parameters of the body, `headers` further
    headers.

    For servers with habits of their own: `stream` false asks for each reply in one body; `cumulative` is for one whose
    every chunk holds all of the text so far; ids of tool calls that do not match `call_id_pattern` are sent as others.

    `aclose` closes the connections; the next request opens new ones. Connections belong to one event loop: close before
    the loop ends.
    """

    vendor = Vendor(
        path="/chat/completions",
        url="https://api.openai.com/v1",
        url_variable="OPENAI_BASE_URL",
        key_variable="OPENAI_API_KEY",
        sdk="openai",
        client="AsyncOpenAI",
    )

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
        proxy: str | None = None,
        verify: ssl.SSLContext | bool = True,
        max_connections: int | None = None,
        output_limit_name: str = "",
        returns_reasoning: bool = False,
        stream: bool = True,
        cumulative: bool = False,
        call_id_pattern: str = "",
    ) -> None:
        check_pattern(call_id_pattern)
        self._shape = ChatShape(model, dict(extra or {}), output_limit_name, returns_reasoning, call_id_pattern)
        self._cumulative = cumulative
        super().__init__(
            name=name or model,
            stream=stream,
            base_url=base_url,
            api_key=api_key,
            client=client,
            headers=headers,
            proxy=proxy,
            verify=verify,
            max_connections=max_connections,
        )
        self._account = account_headers()

    def _body(self, request: Request, tools: Sequence[ToolSpec]) -> dict[str, Any]:
        return body_of(request, tools, self._shape)

    def _reader(self, request: Request, request_id: str) -> ChatReader:
        return ChatReader(request_id, streamed=request.stream, cumulative=self._cumulative)

    def _key_headers(self, key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {key}", **self._account}
