"""What every provider is, whatever carries its requests.

A model by its name, with a key that may be asked for, and faults that name the provider and tell no secret.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, Self

from attrs import evolve

from fsm_loop.config import LoopConfig
from fsm_loop.core.effects import Request
from fsm_loop.core.faults import Fault, FaultKind
from fsm_loop.core.messages import MediaPart, UserMessage
from fsm_loop.errors import ModelError
from fsm_loop.ports import Delta, ToolSpec
from fsm_loop.providers.classify import fitted
from fsm_loop.providers.said import redacted

ApiKey = str | Callable[[], str | Awaitable[str]]

LEAST_S = 0.001  # no timeout is less


class AskedModel(ABC):
    """One model behind one endpoint; a provider says how a request is carried, in `_deltas`."""

    def __init__(
        self, *, name: str, stream: bool, api_key: ApiKey | None, key: str, secrets: Iterable[str] = ()
    ) -> None:
        """Where *api_key* is a function it gives the key when one is needed; else *key* is the key, or empty."""
        self._name = name
        self._streams = stream
        self._key_giver = api_key if callable(api_key) else None
        self._key = key
        self._secrets = {*secrets, key}

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
        await self._ask_for_key()
        return self._key != before

    @abstractmethod
    async def aclose(self) -> None:
        """Let go of what is held beyond a request."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    # ------------------------------------------------------------ for those who carry requests

    @abstractmethod
    def _deltas(self, request: Request, tools: Sequence[ToolSpec], config: LoopConfig) -> AsyncGenerator[Delta]:
        """What comes of one request; raises ModelError, and nothing else."""

    async def _have_key(self) -> None:
        """Ask for a key where one is given when it is needed, and none was given yet."""
        if self._key_giver is not None and not self._key:
            await self._ask_for_key()

    async def _ask_for_key(self) -> None:
        """A key from whoever gives them; requests use it from now on, and no message tells it."""
        assert self._key_giver is not None
        try:
            given = self._key_giver()
            key = str(await given if inspect.isawaitable(given) else given)
        except Exception as error:  # noqa: BLE001  # only its name is told: a vault's text may hold anything
            raise ModelError(Fault(FaultKind.NOT_READY, f"no key could be had: {type(error).__name__}")) from None
        self._key = key
        self._secrets.add(key)

    def _fitted(self, fault: Fault, request: Request, body: Mapping[str, Any], request_id: str) -> Fault:
        """The fault as it stands for this request, with the provider's name, the request's id, and no secret."""
        own = fitted(fault, parameters=body, streamed=request.stream, media=_holds_media(request))
        return evolve(
            own,
            message=self._hidden(fault.message),
            code=self._hidden(own.code),
            parameter=self._hidden(own.parameter),
            provider=self._name,
            request_id=self._hidden(fault.request_id or request_id),
        )

    def _hidden(self, text: str) -> str:
        """What a provider says, without the secrets that it was sent."""
        return redacted(text, self._secrets) if text else text

    def _cause(self, error: Exception) -> Exception | None:
        """The error, where its own text holds no secret that a traceback would show."""
        return error if redacted(str(error), self._secrets) == str(error) else None


def within(seconds: float, request: Request) -> float:
    """So many seconds, or what is left of the turn's own."""
    left_s = seconds if request.time_left_s is None else min(seconds, request.time_left_s)
    return max(left_s, LEAST_S)


def _holds_media(request: Request) -> bool:
    return any(
        isinstance(part, MediaPart)
        for message in request.messages
        if isinstance(message, UserMessage) and not isinstance(message.content, str)
        for part in message.content
    )
