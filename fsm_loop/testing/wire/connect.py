"""The providers that a case is played on, by the protocol that it names."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from attrs import frozen

from fsm_loop.ports import Model


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


Close = Callable[[], Awaitable[None]]


def openai_chat(endpoint: Endpoint) -> tuple[Model, Close]:
    """Chat Completions; where the pool is to be small, over a client of the SDK's own."""
    from fsm_loop.providers.openai_chat import OpenAIChat

    client = _narrow_client(endpoint) if endpoint.connections else None
    model = OpenAIChat(
        endpoint.model,
        base_url=endpoint.base_url,
        api_key=endpoint.key,
        client=client,
        stream=endpoint.stream,
        cumulative=bool(endpoint.compat.get("cumulative_deltas")),
        call_id_pattern=str(endpoint.compat.get("tool_id_pattern", "")),
    )
    return model, model.aclose if client is None else client.close


def _narrow_client(endpoint: Endpoint) -> Any:
    import httpx2
    import openai

    limits = httpx2.Limits(max_connections=endpoint.connections)
    http = openai.DefaultAsyncHttpxClient(limits=limits, trust_env=False)
    return openai.AsyncOpenAI(api_key="unset", base_url=endpoint.base_url, max_retries=0, http_client=http)


WAYS: Mapping[str, Callable[[Endpoint], tuple[Model, Close]]] = {"openai-chat": openai_chat}


def why_not(protocol: str) -> str:
    """Why a case of this protocol cannot be played; empty where it can."""
    return "" if protocol in WAYS else f"no provider speaks {protocol} yet"
