"""The way to the wire: what every provider needs of it, and the two ways there are.

`HttpTransport` speaks HTTP itself, over aiohttp on asyncio and over httpx on trio; `SdkTransport` lets a client of a
vendor's SDK do it. A transport carries bytes: what they mean is the provider's affair, what went wrong is `classify`'s.
"""

from __future__ import annotations

import asyncio
import base64
import re
import ssl
import urllib.request
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from importlib.util import find_spec
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

import anyio.lowlevel
import msgspec.json
import sniffio
from attrs import frozen

from fsm_loop.core.faults import Fault, FaultKind
from fsm_loop.errors import ConfigError, MissingExtra, ModelError

T = TypeVar("T")
Trust = ssl.SSLContext | bool  # whom to trust; false: anybody

CLOSE_S = 1.0  # for a connection to close, whatever else is cancelled
IDLE_S = 30.0  # a connection that was not used for so long is not used again
WRITE_S = 60.0  # for a server to take one more piece of a request
USER_AGENT = "fsm-loop"
PROXIES = ("http", "https", "socks5", "socks5h")  # how a proxy may be reached
MOST_HOPS = 4

_MOVED = (307, 308)  # the statuses that ask for the same request, elsewhere
_SENDABLE = re.compile(r"[\t\x20-\x7e]*")


class Answer(Protocol):
    """What a server has answered, its body unread."""

    @property
    def status(self) -> int:
        """The HTTP status; one of failure is an answer like any other."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, their names in lower case."""
        ...

    @property
    def ended(self) -> bool:
        """Whether it is known that no more of the body can come."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """The bytes of the body as they come, unpacked; asked for once."""
        ...


class Transport(Protocol):
    """Carries requests to one server."""

    def post(
        self,
        path: str,
        body: Mapping[str, Any],
        headers: Mapping[str, str],
        *,
        connect_timeout_s: float,
        read_timeout_s: float | None,
    ) -> AbstractAsyncContextManager[Answer]:
        """One request, sent once. Leaving the context frees the connection, or closes it where the body is not read.

        Without a read timeout an answer may take for ever, and so may each of its chunks. What is raised is what the
        transport is built on raises: `classify.fault_of` knows it.
        """
        ...

    async def aclose(self) -> None:
        """Close the connections of the event loop that runs; a request after that opens new ones."""
        ...


@frozen
class Wire:
    """How a server is reached: through a proxy or not, trusting whom, over how many connections at once."""

    base_url: str
    proxy: str | None = None
    verify: Trust = True
    max_connections: int | None = None


class Pool(Protocol):
    """The connections of one event loop."""

    def post(
        self,
        url: str,
        payload: bytes,
        headers: Mapping[str, str],
        connect_timeout_s: float,
        read_timeout_s: float | None,
    ) -> AbstractAsyncContextManager[Answer]:
        """As a transport's."""
        ...

    async def aclose(self) -> None:
        """Close them."""
        ...


class PerLoop(Generic[T]):
    """One thing for each event loop, made when it is first asked for: connections belong to the loop that runs."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: dict[Any, T] = {}

    def here(self) -> T:
        """The one of the event loop that runs."""
        home = anyio.lowlevel.current_token().native_token
        found = self._made.get(home)
        if found is None:
            self._made = {loop: each for loop, each in self._made.items() if not _is_over(loop)}
            found = self._made[home] = self._make()
        return found

    def taken(self) -> T | None:
        """The one of the event loop that runs, no longer kept here; None where there is none."""
        return self._made.pop(anyio.lowlevel.current_token().native_token, None)

    def all(self) -> list[T]:
        """Those of all event loops."""
        return [*self._made.values()]


def _is_over(loop: Any) -> bool:
    """Whether this event loop has ended: asyncio's says so, trio's token takes no more calls."""
    if isinstance(loop, asyncio.AbstractEventLoop):
        return loop.is_closed()
    try:
        loop.run_sync_soon(int)
    except RuntimeError:
        return True
    return False


class HttpTransport:
    """HTTP of our own: one pool for each event loop, connections kept alive.

    A user and a password in the address go into a header. A server on this machine is reached past the proxies of the
    environment; a `proxy` that is named is used whatever the address. An address that leads on is followed on its own
    host and no further, for the key goes along.
    """

    def __init__(self, wire: Wire, headers: Mapping[str, str] | None = None) -> None:
        address, basic = _without_password(wire.base_url)
        self._base_url = address.rstrip("/")
        self._basic = basic
        self._headers = {
            "accept": "application/json",
            "content-type": "application/json",
            "user-agent": USER_AGENT,
            **{name.lower(): value for name, value in (headers or {}).items()},
        }
        proxy = proxy_of(wire.proxy) or proxy_of(_proxy_for(address))
        self._pools: PerLoop[Pool] = PerLoop(lambda: _pool(wire, address, proxy))

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
        """One request, its body sent as JSON."""
        payload = msgspec.json.encode(body)
        sent = _sendable({**headers, **self._headers, **self._basic})
        pool = self._pools.here()
        url = self._base_url + path
        for _ in range(MOST_HOPS):
            async with pool.post(url, payload, sent, connect_timeout_s, read_timeout_s) as answer:
                onward = _onward(url, answer)
                if onward is None:
                    yield answer
                    return
            url = onward
        raise ModelError(Fault(FaultKind.BAD_REQUEST, f"{self._base_url} leads on and on"))

    async def aclose(self) -> None:
        """Close the connections of the event loop that runs."""
        pool = self._pools.taken()
        if pool is not None:
            with anyio.move_on_after(CLOSE_S, shield=True):
                await pool.aclose()


def speaks_http() -> bool:
    """Whether what the extra `http` brings is there."""
    return find_spec("aiohttp") is not None or find_spec("httpx") is not None


def is_here(url: str) -> bool:
    """Whether the server is on this machine, where no proxy of the environment leads."""
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def _onward(url: str, answer: Answer) -> str | None:
    """Where the same request is to be sent instead; None where it is not, or where that is another host's affair."""
    if answer.status not in _MOVED or "location" not in answer.headers:
        return None
    onward = urljoin(url, answer.headers["location"])
    here, there = urlsplit(url), urlsplit(onward)
    safe = there.scheme in (here.scheme, "https")
    return onward if here.hostname == there.hostname and safe else None


def _pool(wire: Wire, address: str, proxy: str | None) -> Pool:
    """A pool of the library that fits the event loop; aiohttp knows no SOCKS."""
    secure = any(urlsplit(each).scheme == "https" for each in (address, proxy or ""))
    trust = trusted() if wire.verify is True and secure else wire.verify
    socks = needs_socks(proxy)
    if sniffio.current_async_library() == "asyncio" and not socks and find_spec("aiohttp") is not None:
        from fsm_loop.providers.over_aiohttp import AiohttpPool

        return AiohttpPool(trust, proxy, wire.max_connections)
    library = next((name for name in ("httpx", "httpx2") if find_spec(name) is not None), None)
    if library is None:
        raise MissingExtra("HTTP on trio, or through SOCKS, needs httpx: pip install 'fsm-loop[http]'")
    from fsm_loop.providers.over_httpx import HttpxPool

    return HttpxPool(library, trust, proxy, wire.max_connections)


def proxy_of(address: str | None) -> str | None:
    """The proxy's address, http:// before one that does not say how; raises ConfigError for one of another kind."""
    if not address:
        return None
    scheme, says, _ = address.rpartition("://")
    if says and scheme.lower() not in PROXIES:
        raise ConfigError(f"a proxy is reached by one of {', '.join(PROXIES)}, not by {scheme!r}")
    return address if says else f"http://{address}"


def needs_socks(proxy: str | None) -> bool:
    """Whether this proxy speaks SOCKS; raises MissingExtra where nothing here does."""
    if proxy is None or not proxy.lower().startswith("socks"):
        return False
    if find_spec("socksio") is None:
        raise MissingExtra("a SOCKS proxy needs the extra `socks`: pip install 'fsm-loop[socks]'")
    return True


@cache
def trusted() -> ssl.SSLContext:
    """Whom the system trusts and whom certifi does, where it is there; SSL_CERT_FILE and SSL_CERT_DIR alone, if set."""
    context = ssl.create_default_context()
    paths = ssl.get_default_verify_paths()
    named = any(name in _environment() for name in (paths.openssl_cafile_env, paths.openssl_capath_env))
    if not named and find_spec("certifi") is not None:
        import certifi

        context.load_verify_locations(certifi.where())
    return context


def _environment() -> Mapping[str, str]:
    import os

    return os.environ


def _proxy_for(url: str) -> str | None:
    """The proxy that the environment names for this address."""
    parts = urlsplit(url)
    if is_here(url) or urllib.request.proxy_bypass(parts.hostname or ""):
        return None
    proxies = urllib.request.getproxies()
    return proxies.get(parts.scheme) or proxies.get("all")


def _without_password(url: str) -> tuple[str, Mapping[str, str]]:
    """The address without the user and the password in it, and the header that carries them."""
    parts = urlsplit(url)
    if parts.username is None:
        return url, {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    basic = base64.b64encode(pair.encode()).decode()
    address = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    return address, {"authorization": f"Basic {basic}"}


def _sendable(headers: Mapping[str, str]) -> Mapping[str, str]:
    """The headers, if each can be sent; what cannot is not quoted, for it may be a key."""
    for name, value in headers.items():
        if _SENDABLE.fullmatch(value) is None:
            raise ModelError(Fault(FaultKind.BAD_REQUEST, f"the header {name!r} cannot be sent as it is"))
    return headers
