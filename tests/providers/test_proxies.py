"""Proxies that nobody here wrote, of HTTP and SOCKS, with passwords and without; and servers that ask who is there."""

from __future__ import annotations

import asyncio
import gc
import queue
import ssl
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pytest

from fsm_loop import ConfigError, LoopConfig, ModelError
from fsm_loop.core.effects import Request
from fsm_loop.core.faults import FaultKind
from fsm_loop.core.messages import Finish, UserMessage
from fsm_loop.ports import Meta, Stopped, TextDelta
from fsm_loop.providers.anthropic_messages import AnthropicMessages
from fsm_loop.providers.openai_chat import OpenAIChat
from fsm_loop.providers.openai_responses import OpenAIResponses
from fsm_loop.testing import server as s

pytest.importorskip("pproxy")

pytestmark = pytest.mark.anyio

CERTIFICATE = Path(__file__).with_name("loopback.pem")  # made for these tests, for 127.0.0.1, by nobody
CONFIG = LoopConfig(connect_timeout_s=5)
USER, PASSWORD = "me", "s3cr3t-w0rd"
REPLY = [TextDelta("Hi."), Stopped(Finish.STOP)]
KINDS = ("http", "socks5", "socks5h")


async def deltas_of(model):
    """All deltas of one request, but for what is only known about the reply."""
    async with model, model.ask(Request(0, (UserMessage("Hello"),)), (), CONFIG) as deltas:
        return [delta async for delta in deltas if not isinstance(delta, Meta)]


async def fault_of(model):
    """The fault that one request ends in."""
    with pytest.raises(ModelError) as raised:
        await deltas_of(model)
    assert PASSWORD not in str(raised.value)
    return raised.value.fault


@contextmanager
def in_thread(start):
    """An asyncio server in a thread of its own; its port."""
    ready, ports, loops = threading.Event(), [], []

    async def serve():
        over = asyncio.Event()
        server = await start()
        ports.append(server.sockets[0].getsockname()[1])
        loops.append((asyncio.get_running_loop(), over))
        ready.set()
        await over.wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield ports[0]
    finally:
        loop, over = loops[0]
        loop.call_soon_threadsafe(over.set)
        thread.join(10)


class Proxy:
    """A proxy that speaks HTTP and SOCKS5 on one port, in a process of its own, between `with` and its end."""

    def __init__(self, *, secret: bool) -> None:
        user = f"#{USER}:{PASSWORD}" if secret else ""
        self._command = [sys.executable, "-c", PROXY, f"http+socks5://127.0.0.1:0/{user}"]
        self._lines: queue.Queue[str] = queue.Queue()

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        self.port = int(self._lines.get(timeout=20))
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._thread.join(10)
        self._process.wait(10)
        self._process.stdout.close()

    def _read(self) -> None:
        for line in self._process.stdout:
            self._lines.put(line.strip())

    def asked_for(self, host: str) -> list[str]:
        """What it was asked to reach, up to this host; it is waited for."""
        lines: list[str] = []
        while not lines or host not in lines[-1]:
            lines.append(self._lines.get(timeout=20))
        return lines


# Prints the port, then whatever it is asked to reach.
PROXY = """
import asyncio, functools, sys, pproxy
tell = functools.partial(print, flush=True)
async def main():
    server = await pproxy.Server(sys.argv[1]).start_server({"rserver": [], "verbose": tell})
    tell(server.sockets[0].getsockname()[1])
    await asyncio.Event().wait()
asyncio.run(main())
"""


@pytest.fixture(scope="module")
def open_proxy():
    """One that lets everybody through."""
    with Proxy(secret=False) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def closed_proxy():
    """One that wants a password."""
    with Proxy(secret=True) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def strange_proxy():
    """One that wants a password and has never been told it: it knows again whoever has told it once."""
    with Proxy(secret=True) as proxy:
        yield proxy


@pytest.fixture(params=[False, True], ids=["open", "closed"])
def proxy(request, open_proxy, closed_proxy):
    """Each of them, and who is let through."""
    return (closed_proxy, f"{USER}:{PASSWORD}") if request.param else (open_proxy, "")


@contextmanager
def secure_server(*, asks: bool = False) -> Iterator[str]:
    """A server behind TLS that says hi; *asks* makes it ask the client for a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    if asks:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(CERTIFICATE)
    body = b"".join(step.data for step in s.stream(s.said("Hi."), s.chunk(finish="stop")).steps)
    answer = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(body) + body

    async def talk(reader, writer):
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            size = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(size)
            writer.write(answer)
            await reader.read()
        except (OSError, asyncio.IncompleteReadError):
            pass  # it was not trusted, or it is left
        finally:
            writer.close()

    with in_thread(lambda: asyncio.start_server(talk, "127.0.0.1", 0, ssl=context)) as port:
        yield f"https://127.0.0.1:{port}/v1"


def trusting():
    """A trust in the one certificate there is."""
    return ssl.create_default_context(cafile=CERTIFICATE)


def hi():
    """A server that says hi, once."""
    return s.ChatServer([s.stream(s.said("Hi."), s.chunk(finish="stop"))])


def at(port, kind, user=""):
    """The address of the proxy."""
    return f"{kind}://{user and user + '@'}127.0.0.1:{port}"


@pytest.fixture
def _collected(request, way):
    """Nothing is left to the garbage collector; but httpcore leaves it the socket of a SOCKS handshake that failed.

    On the way that is built in that socket is closed; over an SDK's client nobody can get at it.
    """
    if way == "over the SDK":
        request.applymarker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))
    yield
    with warnings.catch_warnings():
        if way == "over the SDK":
            warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


# ---------------------------------------------------------------- through a proxy


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_is_reached_through_a_proxy(kind, proxy):
    """Plain HTTP goes through each kind of proxy, with and without a password, which goes no further."""
    through, user = proxy
    with hi() as server:
        model = OpenAIChat("m", base_url=server.base_url, api_key="k", proxy=at(through.port, kind, user))

        assert REPLY == await deltas_of(model)
        assert through.asked_for(str(server.port))
        assert "proxy-authorization" not in server.requests[0].headers


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_secure_server_is_reached_through_a_tunnel(kind, proxy):
    """What is said to a server behind TLS goes through a tunnel (CONNECT, or SOCKS), and its certificate is looked at."""
    through, user = proxy
    with secure_server() as url:
        address = at(through.port, kind, user)
        model = OpenAIChat("m", base_url=url, api_key="k", proxy=address, verify=trusting())
        stranger = OpenAIChat("m", base_url=url, api_key="k", proxy=address)

        assert REPLY == await deltas_of(model)
        assert through.asked_for(url.split(":")[2].removesuffix("/v1"))
        assert FaultKind.UNTRUSTED is (await fault_of(stranger)).kind


@pytest.mark.usefixtures("_collected")
@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_password_that_is_wrong_is_not_told(kind, secure, strange_proxy):
    """The proxy turns the request away; the fault says so, and not with which password."""
    with hi() as plain, secure_server() as url:
        address = at(strange_proxy.port, kind, f"{USER}:{PASSWORD}x")
        asked = url if secure else plain.base_url
        fault = await fault_of(OpenAIChat("m", base_url=asked, api_key="k", proxy=address, verify=trusting()))

    assert fault.kind in (FaultKind.CONNECT_FAILED, FaultKind.ACCESS_DENIED, FaultKind.DROPPED)
    assert [] == plain.requests
    assert fault.message


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("kind", KINDS)
async def test_the_environment_may_name_each_kind(monkeypatch, kind, closed_proxy):
    """ALL_PROXY is asked for what is not on this machine, NO_PROXY excepts from it, and its password is not told."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("all_proxy", at(closed_proxy.port, kind, f"{USER}:{PASSWORD}"))
    monkeypatch.setenv("no_proxy", "excepted.invalid")
    for host in ("excepted.invalid", "models.invalid"):
        assert await fault_of(OpenAIChat("m", base_url=f"http://{host}/v1", api_key="k"))

    assert not any("excepted" in each for each in closed_proxy.asked_for("models.invalid"))


@pytest.mark.parametrize("make", [OpenAIChat, AnthropicMessages, OpenAIResponses])
@pytest.mark.parametrize("proxy", ["socks4://127.0.0.1:1", "ftp://me:s3cr3t-w0rd@proxy"])
def test_a_proxy_of_another_kind_is_refused(make, proxy):
    """At once, with the kinds that there are, and without its password."""
    with pytest.raises(ConfigError, match="http, https, socks5, socks5h") as raised:
        make("m", api_key="k", proxy=proxy)

    assert PASSWORD not in str(raised.value)


async def test_a_proxy_may_be_named_without_its_kind(open_proxy):
    """As in the environment: HTTP is meant."""
    with hi() as server:
        model = OpenAIChat("m", base_url=server.base_url, api_key="k", proxy=f"127.0.0.1:{open_proxy.port}")

        assert REPLY == await deltas_of(model)
        assert open_proxy.asked_for(str(server.port))


@pytest.mark.usefixtures("way")
async def test_socks_that_is_not_installed(monkeypatch):
    """The fault says what to install."""
    monkeypatch.setitem(sys.modules, "socksio", None)
    fault = await fault_of(OpenAIChat("m", base_url="http://models.invalid", api_key="k", proxy="socks5://127.0.0.1:1"))

    assert FaultKind.NOT_READY is fault.kind
    assert "pip install 'fsm-loop[socks]'" in fault.message


# ---------------------------------------------------------------- who is there


@pytest.mark.usefixtures("way")
async def test_a_client_may_have_a_certificate():
    """A server that asks who is there gets the certificate of the context that was given."""
    trust = trusting()
    trust.load_cert_chain(CERTIFICATE)
    with secure_server(asks=True) as url:
        assert REPLY == await deltas_of(OpenAIChat("m", base_url=url, api_key="k", verify=trust))


@pytest.mark.usefixtures("way")
async def test_a_client_without_one_is_turned_away():
    """It is no reply, and it is named."""
    with secure_server(asks=True) as url:
        fault = await fault_of(OpenAIChat("m", base_url=url, api_key="k", verify=trusting()))

    assert fault.kind in (FaultKind.CONNECT_FAILED, FaultKind.DROPPED)
