"""What providers of every protocol share: one request and its deltas, the key, the way to the wire.

A protocol adds what is its own: what is sent, how it is read, and in which headers the key goes.
"""

from __future__ import annotations

import os
import ssl
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar, Never, Protocol

import anyio
from attrs import frozen

from fsm_loop.config import LoopConfig
from fsm_loop.core.effects import Request
from fsm_loop.errors import ConfigError, MissingExtra, ModelError
from fsm_loop.ports import Delta, ToolSpec, request_headers
from fsm_loop.providers.asked import ApiKey, AskedModel, within
from fsm_loop.providers.classify import fault_of, fault_of_response, request_id_of
from fsm_loop.providers.over_sdk import SdkTransport
from fsm_loop.providers.said import passwords
from fsm_loop.providers.transport import (
    Answer,
    HttpTransport,
    PerLoop,
    Transport,
    Wire,
    is_here,
    needs_socks,
    proxy_of,
    speaks_http,
)

KEYLESS = "none"  # what is sent as a key to a server that was named without one
DRAIN_S = 0.1  # for the end of a body whose last event has been read, so that its connection can be used again
LONGEST_REFUSAL_BYTES = 1024 * 1024  # of the body of a failure that is read
OK = range(200, 300)


@frozen
class Vendor:
    """The names that belong to a protocol: its path, its home, its variables, and its SDK."""

    path: str
    url: str
    url_variable: str
    key_variable: str
    sdk: str  # the module, and the extra that brings it
    client: str  # the SDK's asynchronous client


class Reader(Protocol):
    """Bytes of one reply, as deltas; `done` is true when nothing more can come that counts."""

    done: bool

    def feed(self, chunk: bytes) -> Iterable[Delta]:
        """The deltas that these bytes bring; raises ModelError."""
        ...

    def end(self) -> Iterable[Delta]:
        """The deltas that were still to come, now that all bytes are here; raises ModelError."""
        ...


class WiredModel(AskedModel):
    """One model behind one endpoint; made once, asked for ever, on asyncio or trio.

    `aclose` closes the connections; the next request opens new ones. Connections belong to one event loop: close before
    the loop ends.
    """

    vendor: ClassVar[Vendor]

    def __init__(  # noqa: PLR0913  # each is a wish of the user's
        self,
        *,
        name: str,
        stream: bool,
        base_url: str | None,
        api_key: ApiKey | None,
        client: Any,
        headers: Mapping[str, str] | None,
        proxy: str | None,
        verify: ssl.SSLContext | bool,
        max_connections: int | None,
    ) -> None:
        url = base_url or os.environ.get(self.vendor.url_variable) or self.vendor.url
        self._wire = Wire(url, proxy_of(proxy), verify, max_connections)
        self._headers = dict(headers or {})
        key = "" if callable(api_key) or client is not None else self._first_key(api_key, base_url)
        secrets = (*self._headers.values(), *passwords(url, proxy or ""))
        super().__init__(name=name, stream=stream, api_key=api_key, key=key, secrets=secrets)
        self._given = None if client is None else SdkTransport(client)
        self._http: HttpTransport | None = None
        self._made: PerLoop[SdkTransport] = PerLoop(self._make_client)
        if client is None:
            self._http = self._own_http()

    async def aclose(self) -> None:
        """Close the connections; a client that was given stays open."""
        if self._http is not None:
            await self._http.aclose()
            return
        made = self._made.taken()
        if made is not None:
            await made.aclose()

    # ------------------------------------------------------------ what is a protocol's own

    @abstractmethod
    def _body(self, request: Request, tools: Sequence[ToolSpec]) -> dict[str, Any]:
        """The body of the request; raises ModelError where it cannot be made."""

    @abstractmethod
    def _reader(self, request: Request, request_id: str) -> Reader:
        """Whoever reads the reply to this request."""

    @abstractmethod
    def _key_headers(self, key: str) -> dict[str, str]:
        """The headers of a request that goes out without an SDK; names in lower case."""

    def _sdk_headers(self) -> dict[str, str]:
        """The headers that a request over an SDK's client takes beside those of the client."""
        return {}

    # ------------------------------------------------------------ one request

    async def _deltas(self, request: Request, tools: Sequence[ToolSpec], config: LoopConfig) -> AsyncGenerator[Delta]:
        body: dict[str, Any] = {}
        request_id = ""
        try:
            body = self._body(request, tools)
            transport, own = await self._way()
            headers = {**request_headers.get(), **own}
            connect_s = within(config.connect_timeout_s, request)
            read_s = None if request.stream else within(config.read_timeout_s, request)
            async with transport.post(
                self.vendor.path, body, headers, connect_timeout_s=connect_s, read_timeout_s=read_s
            ) as answer:
                request_id = self._hidden(request_id_of(answer.headers))
                if answer.status not in OK:
                    await _refuse(answer, within(config.read_timeout_s, request))
                reader = self._reader(request, request_id)
                chunks = answer.chunks()
                async for chunk in chunks:
                    for delta in reader.feed(chunk):
                        yield delta
                    if reader.done:
                        if not answer.ended:
                            await _drained(chunks)
                        return
                for delta in reader.end():
                    yield delta
        except ModelError as error:
            raise ModelError(self._fitted(error.fault, request, body, request_id)) from error
        except Exception as error:  # noqa: BLE001  # whatever the transport raises is a fault
            fault = self._fitted(fault_of(error), request, body, request_id)
            raise ModelError(fault) from self._cause(error)

    # ------------------------------------------------------------ the way to the wire, and the key

    async def _way(self) -> tuple[Transport, dict[str, str]]:
        """What carries a request in the event loop that runs, and the headers that it is given."""
        await self._have_key()
        if self._http is not None:
            return self._http, self._key_headers(self._key)
        sdk = self._given or self._made.here()
        self._secrets.update(sdk.secrets)
        return sdk, self._sdk_headers()

    def _own_http(self) -> HttpTransport | None:
        """HTTP of our own; None where only an SDK is there to speak it."""
        if speaks_http():
            return HttpTransport(self._wire, self._headers)
        if find_spec(self.vendor.sdk) is None:
            raise MissingExtra(
                f"{type(self).__name__} needs the extra `http` or the SDK: pip install 'fsm-loop[http]' or "
                f"'fsm-loop[{self.vendor.sdk}]'"
            )
        return None

    def _make_client(self) -> SdkTransport:
        sdk: Any = import_module(self.vendor.sdk)
        wire = self._wire
        http: dict[str, Any] = {"trust_env": not is_here(wire.base_url), "verify": wire.verify}
        if wire.proxy is not None:
            needs_socks(wire.proxy)
            http["proxy"] = wire.proxy
        client = getattr(sdk, self.vendor.client)(
            api_key=self._key,
            base_url=wire.base_url,
            default_headers=self._headers,
            max_retries=0,
            http_client=sdk.DefaultAsyncHttpxClient(**http),
        )
        return SdkTransport(client)

    def _first_key(self, given: str | None, base_url: str | None) -> str:
        key = given or os.environ.get(self.vendor.key_variable)
        if key:
            return str(key)
        if base_url or os.environ.get(self.vendor.url_variable):
            return KEYLESS
        raise ConfigError(
            f"{type(self).__name__} needs a key: give api_key, or set {self.vendor.key_variable}; "
            "a local server needs its base_url"
        )

    async def _ask_for_key(self) -> None:
        await super()._ask_for_key()
        for sdk in (*self._made.all(), *filter(None, [self._given])):
            sdk.use_key(self._key)


async def _drained(chunks: AsyncIterator[bytes]) -> None:
    """The rest of the body, read for a moment, so that its connection can be used again."""
    with anyio.move_on_after(DRAIN_S):
        async for _ in chunks:
            pass


async def _refuse(answer: Answer, patience_s: float) -> Never:
    """Raise the fault that this answer is; where its body breaks off or does not end, its status says enough."""
    body = bytearray()
    try:
        with anyio.move_on_after(patience_s):
            async for chunk in answer.chunks():
                body += chunk
                if len(body) > LONGEST_REFUSAL_BYTES:
                    break
    except Exception:  # noqa: BLE001, S110  # see above
        pass
    raise ModelError(fault_of_response(answer.status, answer.headers, body.decode("utf-8", "replace")))
