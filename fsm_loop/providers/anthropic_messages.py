"""Anthropic's Messages, and whatever is compatible with it.

What is sent is decided in `anthropic_encode`, what the bytes mean in `chat_read` and `anthropic_decode`, what carries
them in `transport`, and what went wrong in `classify`; none of them knows this file.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fsm_loop.core.effects import Request
from fsm_loop.errors import ConfigError
from fsm_loop.ports import Delta, ToolSpec
from fsm_loop.providers.anthropic_decode import MessagesDecoder
from fsm_loop.providers.anthropic_encode import MAX_TOKENS, MessagesShape, body_of
from fsm_loop.providers.asked import ApiKey
from fsm_loop.providers.aws_events import FIRST_BYTE, AwsDecoder
from fsm_loop.providers.chat_read import ReplyReader
from fsm_loop.providers.wired import Vendor, WiredModel

if TYPE_CHECKING:
    import anthropic

__all__ = ["VERSION", "AnthropicMessages"]

VERSION = "2023-06-01"  # of the protocol: the one that every server of this kind knows


class MessagesReader(ReplyReader):
    """One reply while it is read; Bedrock's stream is known by its first byte."""

    def _begin(self, chunk: bytes) -> Iterator[Delta]:
        if self._head or not chunk.startswith(FIRST_BYTE):
            yield from super()._begin(chunk)
            return
        self._events, self._heard = AwsDecoder(), True
        yield from self._stream(chunk)


class AnthropicMessages(WiredModel):
    """One model behind one endpoint that speaks Messages; made once, asked for ever, on asyncio or trio.

    There are two ways to the wire. Built in (extra `http`): HTTP over aiohttp, on trio over httpx. `proxy` is a proxy's
    address (http, https, or with the extra `socks` socks5 and socks5h), else those of the environment count; `verify`
    is an `ssl.SSLContext`, with your own CA or client certificate, or false for a server that need not prove who it
    is; `max_connections` bounds the pool. Or `client`, an `anthropic.AsyncAnthropic` of your own, or one
    for Bedrock or Vertex: it is yours to close, and `base_url`, `headers` and those three are its affair. Where the
    extra is not installed, but the SDK is, a client of the SDK is made.

    `api_key` is a key, or a function (async or not) that gives one: it is asked before the first request, and again
    when the key is no longer accepted. Without it ANTHROPIC_API_KEY counts, and ANTHROPIC_BASE_URL where no `base_url`
    is given; a server that is named may do without a key. As in the SDK an address is told without its `/v1`.

    `extra` are further parameters of the body (`thinking`, `temperature`, tools that run over there), `headers`
    further headers (`anthropic-beta`; or `anthropic-version`, 2023-06-01 unless it is given; a client of the SDK has
    its own). The protocol demands an output limit: `max_tokens` holds where the turn has none of its own. `stream`
    false asks for each reply in one body.
    """

    vendor = Vendor(
        path="/v1/messages",
        url="https://api.anthropic.com",
        url_variable="ANTHROPIC_BASE_URL",
        key_variable="ANTHROPIC_API_KEY",
        sdk="anthropic",
        client="AsyncAnthropic",
    )

    def __init__(  # noqa: PLR0913  # each is a wish of the user's
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: ApiKey | None = None,
        client: anthropic.AsyncAnthropic | None = None,
        name: str | None = None,
        extra: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        max_tokens: int = MAX_TOKENS,
        proxy: str | None = None,
        verify: ssl.SSLContext | bool = True,
        max_connections: int | None = None,
        stream: bool = True,
    ) -> None:
        if max_tokens < 1:
            raise ConfigError(f"max_tokens is {max_tokens}; it must be at least 1")
        self._shape = MessagesShape(model, dict(extra or {}), max_tokens)
        super().__init__(
            name=name or model,
            stream=stream,
            base_url=base_url and base_url.rstrip("/").removesuffix("/v1"),
            api_key=api_key,
            client=client,
            headers=headers,
            proxy=proxy,
            verify=verify,
            max_connections=max_connections,
        )

    def _body(self, request: Request, tools: Sequence[ToolSpec]) -> dict[str, Any]:
        return body_of(request, tools, self._shape)

    def _reader(self, request: Request, request_id: str) -> MessagesReader:
        return MessagesReader(MessagesDecoder(self._shape.model, request_id), streamed=request.stream)

    def _key_headers(self, key: str) -> dict[str, str]:
        return {"x-api-key": key, "anthropic-version": VERSION}
