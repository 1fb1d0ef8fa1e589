"""OpenAI's Responses, and whatever is compatible with it; nothing is stored at the provider.

What the bytes mean is decided in `chat_read` and `openai_responses_decode`, what is sent in `openai_responses_encode`,
what carries them in `transport`, and what went wrong in `classify`; none of them knows this file.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import evolve

from fsm_loop.core.effects import Request
from fsm_loop.ports import ToolSpec
from fsm_loop.providers.asked import ApiKey
from fsm_loop.providers.chat_read import ReplyReader
from fsm_loop.providers.openai_chat import OpenAIChat, account_headers
from fsm_loop.providers.openai_responses_decode import ResponsesDecoder
from fsm_loop.providers.openai_responses_encode import ResponsesShape, body_of
from fsm_loop.providers.wired import WiredModel

if TYPE_CHECKING:
    import openai


class OpenAIResponses(WiredModel):
    """One model behind one endpoint that speaks Responses; made once, asked for ever, on asyncio or trio.

    The ways to the wire, the key and the options are those of `OpenAIChat`. Every request holds the whole conversation
    and says `store: false`; what a reasoning model has thought comes back sealed, and is sent to it again, and to no
    other. `extra` are further parameters of the body (`reasoning`, `temperature`, tools of the provider's own), and
    what it says of `store` and `include` holds.
    """

    vendor = evolve(OpenAIChat.vendor, path="/responses")

    def __init__(  # noqa: PLR0913  # each is a wish of the user's
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: ApiKey | None = None,
        client: openai.AsyncOpenAI | None = None,
        name: str | None = None,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
        proxy: str | None = None,
        verify: ssl.SSLContext | bool = True,
        max_connections: int | None = None,
        stream: bool = True,
    ) -> None:
        self._shape = ResponsesShape(model, dict(extra or {}))
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

    def _reader(self, request: Request, request_id: str) -> ReplyReader:
        decoder = ResponsesDecoder(self._shape.model, request_id, request.output_limit)
        return ReplyReader(decoder, streamed=request.stream)

    def _key_headers(self, key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {key}", **self._account}
