"""The providers that a case is played on, by the protocol that it names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from attrs import frozen

from fsm_loop.ports import Model

HTTP, SDK = "http", "sdk"  # the two ways to the wire: built in, or over a client of a vendor's SDK


@frozen
class Endpoint:
    """A model at the server of a case, and how it is to be spoken with."""

    model: str
    base_url: str
    root_url: str
    key: Callable[[], str]
    stream: bool
    compat: Mapping[str, Any]
    connections: int | None
    way: str = HTTP


Close = Callable[[], Awaitable[None]]


def openai_chat(endpoint: Endpoint) -> tuple[Model, Close]:
    """Chat Completions, on either way."""
    from fsm_loop.providers.openai_chat import OpenAIChat

    client = _openai_client(endpoint) if endpoint.way == SDK else None
    model = OpenAIChat(
        endpoint.model,
        base_url=endpoint.base_url,
        api_key=endpoint.key,
        client=client,
        stream=endpoint.stream,
        cumulative=bool(endpoint.compat.get("cumulative_deltas")),
        call_id_pattern=str(endpoint.compat.get("tool_id_pattern", "")),
        max_connections=endpoint.connections,
    )
    return model, model.aclose if client is None else client.close


def openai_responses(endpoint: Endpoint) -> tuple[Model, Close]:
    """OpenAI's Responses, on either way."""
    from fsm_loop.providers.openai_responses import OpenAIResponses

    client = _openai_client(endpoint) if endpoint.way == SDK else None
    model = OpenAIResponses(
        endpoint.model,
        base_url=endpoint.base_url,
        api_key=endpoint.key,
        client=client,
        max_connections=endpoint.connections,
        stream=endpoint.stream,
    )
    return model, model.aclose if client is None else client.close


def _openai_client(endpoint: Endpoint) -> Any:
    import httpx2
    import openai

    limits = httpx2.Limits(max_connections=endpoint.connections)
    http = openai.DefaultAsyncHttpxClient(limits=limits, trust_env=False)
    return openai.AsyncOpenAI(api_key="unset", base_url=endpoint.base_url, max_retries=0, http_client=http)


def anthropic_messages(endpoint: Endpoint) -> tuple[Model, Close]:
    """Anthropic's Messages, on either way."""
    from fsm_loop.providers.anthropic_messages import AnthropicMessages

    client = _anthropic_client(endpoint) if endpoint.way == SDK else None
    model = AnthropicMessages(
        endpoint.model,
        base_url=endpoint.root_url,
        api_key=endpoint.key,
        client=client,
        stream=endpoint.stream,
        max_connections=endpoint.connections,
    )
    return model, model.aclose if client is None else client.close


def _anthropic_client(endpoint: Endpoint) -> Any:
    import anthropic
    import httpx2

    limits = httpx2.Limits(max_connections=endpoint.connections)
    http = anthropic.DefaultAsyncHttpxClient(limits=limits, trust_env=False)
    return anthropic.AsyncAnthropic(api_key="unset", base_url=endpoint.root_url, max_retries=0, http_client=http)


WAYS: Mapping[str, Callable[[Endpoint], tuple[Model, Close]]] = {
    "openai-chat": openai_chat,
    "anthropic": anthropic_messages,
    "openai-responses": openai_responses,
}


def why_not(protocol: str) -> str:
    """Why a case of this protocol cannot be played; empty where it can."""
    return "" if protocol in WAYS else f"no provider speaks {protocol} yet"
