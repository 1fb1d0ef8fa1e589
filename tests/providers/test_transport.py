"""The way to the wire: proxies, trust, passwords, headers, and the pools of several event loops."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import anyio
import openai
import pytest

from fsm_loop import ConfigError, LoopConfig, ModelError
from fsm_loop.core.effects import Request
from fsm_loop.core.faults import FaultKind
from fsm_loop.core.messages import Finish, UserMessage
from fsm_loop.ports import Meta, Stopped, TextDelta
from fsm_loop.providers.openai_chat import OpenAIChat
from fsm_loop.providers.over_sdk import SdkTransport
from fsm_loop.providers.transport import HttpTransport, PerLoop, Wire, is_here, speaks_http, trusted
from fsm_loop.testing import server as s

pytestmark = pytest.mark.anyio

CERTIFICATE = Path(__file__).with_name("loopback.pem")  # made for these tests, for 127.0.0.1, by nobody
CONFIG = LoopConfig(connect_timeout_s=5)
STOP = s.chunk(finish="stop")
REPLY = [TextDelta("Hi."), Stopped(Finish.STOP)]


async def deltas_of(model, config=CONFIG, *, stream=True):
    """All deltas of one request, but for what is only known about the reply."""
    async with model.ask(Request(0, (UserMessage("Hello"),), stream=stream), (), config) as deltas:
        return [delta async for delta in deltas if not isinstance(delta, Meta)]


async def fault_of(model, config=CONFIG):
    """The fault that one request ends in."""
    with pytest.raises(ModelError) as raised:
        await deltas_of(model, config)
    return raised.value.fault


def hi():
    """A server that says hi, once."""
    return s.ChatServer([s.stream(s.said("Hi."), STOP)])


# ---------------------------------------------------------------- proxies


@pytest.fixture
def no_proxies(monkeypatch):
    """The environment names none."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.mark.usefixtures("way")
async def test_a_proxy_that_is_named_is_asked():
    """The proxy gets the whole address, and the password that goes with its own."""
    with hi() as server:
        proxy = f"http://me:s3cr3t@{server.base_url.split('/')[2]}"
        async with OpenAIChat("m", base_url="http://models.invalid/v1", api_key="k", proxy=proxy) as model:
            assert REPLY == await deltas_of(model)
    (received,) = server.requests

    assert "http://models.invalid/v1/chat/completions" == received.path
    assert f"Basic {base64.b64encode(b'me:s3cr3t').decode()}" == received.headers["proxy-authorization"]


@pytest.mark.usefixtures("way", "no_proxies")
@pytest.mark.parametrize("form", ["http://{}", "{}"])
async def test_a_proxy_of_the_environment_is_asked(monkeypatch, form):
    """Where the environment names a proxy, it is the way to every server that is not on this machine."""
    with hi() as server:
        monkeypatch.setenv("HTTP_PROXY", form.format(server.base_url.split("/")[2]))
        monkeypatch.setenv("http_proxy", form.format(server.base_url.split("/")[2]))
        async with OpenAIChat("m", base_url="http://models.invalid/v1", api_key="k") as model:
            assert REPLY == await deltas_of(model)

    assert "http://models.invalid/v1/chat/completions" == server.requests[0].path


@pytest.mark.usefixtures("way", "no_proxies")
async def test_what_the_environment_excepts_is_asked_directly(monkeypatch):
    """A host of NO_PROXY has no proxy before it."""
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("no_proxy", "localhost.localdomain,models.invalid")
    async with OpenAIChat("m", base_url="http://models.invalid/v1", api_key="k") as model:
        message = (await fault_of(model)).message

    assert "127.0.0.1" not in message


@pytest.mark.usefixtures("way")
async def test_a_proxy_that_is_not_there():
    """Nobody listens where the proxy should be: no connection could be made."""
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        proxy = f"http://127.0.0.1:{nobody.getsockname()[1]}"
    async with OpenAIChat("m", base_url="http://models.invalid/v1", api_key="k", proxy=proxy) as model:
        assert FaultKind.CONNECT_FAILED is (await fault_of(model)).kind


# ---------------------------------------------------------------- trust


@contextmanager
def secure_server():
    """A server behind TLS, whose certificate nobody has signed; it says hi to whoever trusts it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    body = b"".join(step.data for step in s.stream(s.said("Hi."), STOP).steps)
    answer = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(body) + body
    listening = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            try:
                plain, _ = listening.accept()
            except OSError:
                return
            with plain:
                try:
                    with context.wrap_socket(plain, server_side=True) as talk:
                        talk.settimeout(5)
                        while talk.recv(65536):
                            talk.sendall(answer)
                except OSError:
                    pass  # it was not trusted, or it is left

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"https://127.0.0.1:{listening.getsockname()[1]}/v1"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(10)


@pytest.mark.usefixtures("way")
async def test_nobody_is_trusted_who_cannot_prove_it():
    """A certificate that nobody has signed is no one's word, and the fault says so."""
    with secure_server() as url:
        async with OpenAIChat("m", base_url=url, api_key="k") as model:
            assert FaultKind.UNTRUSTED is (await fault_of(model)).kind


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("verify", ["context", "false"])
async def test_whoever_the_user_trusts_is_trusted(verify):
    """A context of the user's own knows the certificate; without verification any will do."""
    trust = ssl.create_default_context(cafile=CERTIFICATE) if verify == "context" else False
    with secure_server() as url:
        async with OpenAIChat("m", base_url=url, api_key="k", verify=trust) as model:
            assert REPLY == await deltas_of(model)


def test_the_systems_trust_is_loaded_once():
    """The context of those whom the system trusts is made once, for it takes long, and it verifies."""
    assert trusted() is trusted()
    assert (ssl.CERT_REQUIRED, True) == (trusted().verify_mode, trusted().check_hostname)
    assert trusted().cert_store_stats()["x509_ca"] > 0


# ---------------------------------------------------------------- what goes out


async def test_a_password_in_the_address_goes_into_a_header():
    """As in every client of HTTP; the address that is asked has none in it."""
    with hi() as server:
        address = server.base_url.replace("//", "//me%40home:pass:word@")
        async with OpenAIChat("m", base_url=address) as model:
            await deltas_of(model)
        (received,), host = server.requests, server.base_url.split("/")[2]

    assert f"Basic {base64.b64encode(b'me@home:pass:word').decode()}" == received.headers["authorization"]
    assert host == received.headers["host"]


async def test_the_users_headers_win():
    """A header that the user gives stands in place of the one that would have been sent."""
    with hi() as server:
        headers = {"Authorization": "Token t", "User-Agent": "mine"}
        async with OpenAIChat("m", base_url=server.base_url, api_key="k", headers=headers) as model:
            await deltas_of(model)
    (received,) = server.requests

    assert ("Token t", "mine", "application/json") == (
        received.headers["authorization"],
        received.headers["user-agent"],
        received.headers["content-type"],
    )


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("status", [307, 308])
async def test_an_address_that_leads_on_is_followed(status):
    """The same request goes to where the server says, on its own host, with the key."""
    moved = s.whole("", status, {"location": "/v2/chat"})
    with s.ChatServer([moved, s.stream(s.said("Hi."), STOP)]) as server:
        async with OpenAIChat("m", base_url=server.base_url, api_key="k") as model:
            assert REPLY == await deltas_of(model)

    assert ["/v1/chat/completions", "/v2/chat"] == [each.path for each in server.requests]
    assert ["Bearer k"] * 2 == [each.headers["authorization"] for each in server.requests]
    assert server.requests[0].raw == server.requests[1].raw


@pytest.mark.parametrize(
    "location", ["http://models.invalid/v1/chat/completions", "ftp://127.0.0.1/", "/v1/chat/completions", None]
)
async def test_an_address_that_leads_astray_is_not_followed(location):
    """No key goes to another host, and no request goes round for ever: the address is wrong."""
    moved = s.whole("", 308, {} if location is None else {"location": location})
    with s.ChatServer(lambda received: moved) as server:
        async with OpenAIChat("m", base_url=server.base_url, api_key="k") as model:
            assert FaultKind.BAD_REQUEST is (await fault_of(model)).kind

    assert (4 if location == "/v1/chat/completions" else 1) == len(server.requests)


@pytest.mark.usefixtures("way")
async def test_the_account_of_the_environment_is_told(monkeypatch):
    """The SDK's variables for organisation and project count on both ways."""
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")
    with hi() as server:
        async with OpenAIChat("m", base_url=server.base_url, api_key="k") as model:
            await deltas_of(model)
    (received,) = server.requests

    assert ("org-1", "proj-1") == (received.headers["openai-organization"], received.headers["openai-project"])


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/v1", "http://127.8.9.1/v1", "http://localhost:8/v1", "http://[::1]/v1"]
)
def test_this_machine_is_known(url):
    """Loopback has several names."""
    assert is_here(url)


def test_others_are_not_this_machine():
    """A name that only looks like loopback is none."""
    assert not any(
        map(is_here, ["http://models.invalid/v1", "http://localhost.invalid/v1", "http://10.0.0.127/v1", ""])
    )


# ---------------------------------------------------------------- connections


async def test_a_pool_may_be_small():
    """No more connections than were allowed; whoever waits too long for one has none."""
    with s.ChatServer(lambda received: s.stream(s.said("Hi."), end=s.Hang())) as server:
        request = Request(0, (UserMessage("Hello"),))
        model = OpenAIChat("m", base_url=server.base_url, max_connections=1)
        async with model, model.ask(request, (), CONFIG) as deltas:
            await anext(deltas)
            with anyio.fail_after(5):
                fault = await fault_of(model, LoopConfig(connect_timeout_s=0.05))

    assert (FaultKind.CONNECT_FAILED, 1) == (fault.kind, len(server.requests))


async def test_many_at_once():
    """Without a bound each request has a connection, however many there are."""
    told = []
    with s.ChatServer(lambda received: s.stream(s.said("Hi."), STOP)) as server:
        async with OpenAIChat("m", base_url=server.base_url) as model, anyio.create_task_group() as group:

            async def ask():
                told.append(await deltas_of(model))

            for _ in range(150):
                group.start_soon(ask)

    assert ([REPLY] * 150, 150) == (told, len(server.requests))


async def test_each_loop_has_its_own():
    """Two event loops that run at the same time share no connection; one that has ended is forgotten."""
    made = PerLoop(object)
    here = made.here()

    def there():
        return asyncio.run(found(made))

    other, another = await anyio.to_thread.run_sync(there), await anyio.to_thread.run_sync(there)

    assert made.here() is here
    assert 3 == len({id(each) for each in (here, other, another)})
    assert [here, another] == made.all()


async def found(made):
    """The one of the event loop that runs."""
    return made.here()


async def test_one_that_is_taken_is_made_again():
    """What was taken to be closed is not used again."""
    made = PerLoop(object)
    first = made.here()

    assert first is made.taken()
    assert made.taken() is None
    assert made.here() is not first


# ---------------------------------------------------------------- what is installed


def test_what_speaks_http(monkeypatch):
    """Either library will do."""
    assert speaks_http()
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    assert speaks_http()
    monkeypatch.setitem(sys.modules, "httpx", None)
    assert not speaks_http()


@pytest.mark.parametrize("gone", [("aiohttp",), ("httpx",), ("openai",), ("aiohttp", "openai")])
async def test_one_library_is_enough(monkeypatch, gone):
    """Where one is missing another does its part: httpx on asyncio, httpx2 in place of httpx."""
    for name in gone:
        monkeypatch.setitem(sys.modules, name, None)
    with hi() as server:
        async with OpenAIChat("m", base_url=server.base_url) as model:
            assert REPLY == await deltas_of(model)


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_nothing_speaks_http_on_trio(monkeypatch, anyio_backend):
    """On trio aiohttp is of no use; the fault says what to install."""
    for name in ("httpx", "httpx2"):
        monkeypatch.setitem(sys.modules, name, None)
    async with OpenAIChat("m", base_url="http://127.0.0.1:1/v1") as model:
        fault = await fault_of(model)

    assert FaultKind.NOT_READY is fault.kind
    assert "pip install 'fsm-loop[http]'" in fault.message


async def test_the_key_of_a_given_client_is_not_told():
    """What a client was made with is as secret as what a model was made with."""
    with s.ChatServer([s.failure(403, "plain-words-as-a-key is no good")]) as server:
        async with openai.AsyncOpenAI(api_key="plain-words-as-a-key", base_url=server.base_url) as client:
            fault = await fault_of(OpenAIChat("m", client=client))

    assert "*** is no good" == fault.message


def test_a_client_that_is_none_is_refused():
    """A synchronous client cannot be awaited, and anything else is none."""
    with (
        openai.OpenAI(api_key="k") as client,
        pytest.raises(ConfigError, match="asynchronous client of an SDK, not OpenAI"),
    ):
        OpenAIChat("m", client=client)


# ---------------------------------------------------------------- the transport by itself


@pytest.mark.parametrize("kind", [HttpTransport, SdkTransport])
async def test_a_status_of_failure_is_an_answer(kind):
    """What a transport is told is not judged by it: status, headers in lower case, body."""
    answers = [s.failure(429, "Slow down", {"X-Request-Id": "r1"}), s.stream(s.said("Hi."), STOP)]
    seen = []
    with s.ChatServer(answers) as server:
        client = openai.AsyncOpenAI(api_key="k", base_url=server.base_url)
        transport = HttpTransport(Wire(server.base_url)) if kind is HttpTransport else SdkTransport(client)
        for _ in answers:
            async with transport.post(
                "/chat/completions", {"model": "m"}, {}, connect_timeout_s=5, read_timeout_s=5
            ) as answer:
                body = b"".join([chunk async for chunk in answer.chunks()])
                seen.append((answer.status, answer.headers.get("x-request-id"), body))
        await transport.aclose()
        await client.close()

    assert [(429, "r1"), (200, None)] == [each[:2] for each in seen]
    assert b"Slow down" in seen[0][2]
    assert b"[DONE]" in seen[1][2]
    assert 1 == server.connections
