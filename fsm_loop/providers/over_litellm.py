"""Whatever the library litellm can speak, as a model: a hundred vendors under one shape, that of Chat Completions.

litellm opens the request and reads the wire; what its chunks mean is decided in `chat_decode`, and what went wrong in
`litellm_faults`. It runs on asyncio alone. The module is not called `litellm`: nobody shall take one for the other.
"""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache
from importlib.util import find_spec
from typing import Any

import anyio
import sniffio

from fsm_loop.config import LoopConfig
from fsm_loop.core.effects import Request
from fsm_loop.core.faults import Fault, FaultKind
from fsm_loop.errors import ConfigError, MissingExtra, ModelError
from fsm_loop.ports import Delta, ToolSpec
from fsm_loop.providers.asked import ApiKey, AskedModel, within
from fsm_loop.providers.call_ids import check_pattern
from fsm_loop.providers.chat_decode import ChatDecoder
from fsm_loop.providers.chat_encode import ChatShape, body_of
from fsm_loop.providers.classify import request_id_of
from fsm_loop.providers.litellm_faults import fault_of_litellm, is_end
from fsm_loop.providers.said import passwords
from fsm_loop.providers.transport import CLOSE_S

# What the turn has the only say in: a retry of litellm's would be a request that nobody counts.
ONLY_OURS = frozenset(
    ("messages", "stream", "max_retries", "num_retries", "fallbacks", "context_window_fallback_dict", "timeout")
)
_OFFLINE = "LITELLM_LOCAL_MODEL_COST_MAP"  # without it the import asks the network for a list of prices
_LOGGERS = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy")


class LiteLLM(AskedModel):
    """One model by litellm's name for it, `anthropic/claude-...` or `openai/NAME`; made once, asked for ever.

    `options` go to `litellm.acompletion` as they are: `api_base`, `api_version`, `drop_params`, `extra_headers` and
    whatever the vendor's route takes; retries and fallbacks are the turn's affair and stay off. `api_key` is a key, or
    a function (async or not) that gives one, asked again when the key is no longer accepted; without it litellm looks
    for the vendor's own variable in the environment. `stream` false asks for each reply in one body.

    The connections are litellm's own, shared by all that uses it in this process: one request that is left is closed
    at once, the pool stays. Raises MissingExtra where litellm is not installed.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: ApiKey | None = None,
        name: str | None = None,
        stream: bool = True,
        returns_reasoning: bool = False,
        call_id_pattern: str = "",
        **options: Any,
    ) -> None:
        refused = sorted(ONLY_OURS.intersection(options))
        if refused:
            raise ConfigError(f"LiteLLM takes no option {refused[0]!r}: the turn decides on it; leave it out")
        check_pattern(call_id_pattern)
        self._litellm = quiet_litellm()
        self._shape = ChatShape(model, options, "", returns_reasoning, call_id_pattern)
        key = "" if callable(api_key) else api_key or ""
        super().__init__(name=name or model, stream=stream, api_key=api_key, key=key, secrets=_secrets_in(options))

    async def aclose(self) -> None:
        """Nothing: the connections are litellm's, and others may use them."""

    async def _deltas(self, request: Request, tools: Sequence[ToolSpec], config: LoopConfig) -> AsyncGenerator[Delta]:
        body: dict[str, Any] = {}
        request_id = ""
        try:
            _needs_asyncio()
            body = body_of(request, tools, self._shape)
            patience_s = config.call_deadline_s if request.stream else config.read_timeout_s
            reply = await self._litellm.acompletion(**body, **await self._ours(patience_s, request))
            request_id = self._hidden(_id_in(reply))
            decoder = ChatDecoder(request_id)
            if not request.stream:
                for delta in decoder.whole(_fields(reply)):
                    yield delta
                return
            async with _closing(reply):
                async for chunk in reply:
                    for delta in decoder.chunk(_fields(chunk)):
                        yield delta
        except ModelError as error:
            raise ModelError(self._fitted(error.fault, request, body, request_id)) from error
        except Exception as error:  # noqa: BLE001  # whatever litellm raises is a fault
            if is_end(error):  # the stream broke off unsaid: no terminal evidence, and that is all there is to tell
                return
            fault = self._fitted(fault_of_litellm(error), request, body, request_id)
            raise ModelError(fault) from self._cause(error)

    async def _ours(self, patience_s: float, request: Request) -> dict[str, Any]:
        """What every request says beside its body."""
        await self._have_key()
        key = {"api_key": self._key} if self._key else {}
        return {**key, "timeout": within(patience_s, request), "max_retries": 0, "num_retries": 0}


@cache
def quiet_litellm() -> Any:
    """The library, imported without a look at the network, and silent: it prints nothing and logs nothing.

    Importing it takes seconds. A variable or a log level that the user has set for it stays as it is.
    """
    if find_spec("litellm") is None:
        raise MissingExtra("LiteLLM needs the extra `litellm`: pip install 'fsm-loop[litellm]'")
    unset = _OFFLINE not in os.environ
    if unset:
        os.environ[_OFFLINE] = "True"
    try:
        litellm: Any = importlib.import_module("litellm")
    finally:
        if unset:
            del os.environ[_OFFLINE]
    litellm.suppress_debug_info = True
    for logger in map(logging.getLogger, _LOGGERS):
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.CRITICAL + 1)
    return litellm


def _needs_asyncio() -> None:
    if sniffio.current_async_library() != "asyncio":
        raise ModelError(Fault(FaultKind.NOT_READY, "litellm runs on asyncio alone: use another provider on trio"))


@asynccontextmanager
async def _closing(reply: Any) -> AsyncIterator[None]:
    """Whatever happens, the connection is closed or free again behind it."""
    try:
        yield
    finally:
        with anyio.move_on_after(CLOSE_S, shield=True):
            await reply.aclose()


def _fields(reply: Any) -> dict[str, Any]:
    """A reply of litellm's, or a chunk, as the JSON that it stands for."""
    fields: dict[str, Any] = reply.model_dump(exclude_none=True, warnings=False)
    return fields


def _id_in(reply: Any) -> str:
    """The provider's id of the request, where litellm has kept the headers."""
    headers = getattr(reply, "_response_headers", None) or {}
    return request_id_of({str(name).lower(): str(value) for name, value in dict(headers).items()})


def _secrets_in(options: Mapping[str, Any]) -> list[str]:
    """What litellm sends and no message may tell: headers, a password in the address, the environment's keys."""
    headers = options.get("extra_headers") or options.get("headers") or {}
    address = str(options.get("api_base") or options.get("base_url") or "")
    keys = [value for name, value in os.environ.items() if name.endswith(("_API_KEY", "_TOKEN", "_SECRET_ACCESS_KEY"))]
    return [*map(str, dict(headers).values()), *passwords(address), *keys]
