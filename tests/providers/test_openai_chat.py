"""Chat Completions on both ways to the wire, against a real server on loopback, on asyncio and on trio."""

from __future__ import annotations

import gc
import socket
import sys
import threading
import time

import anyio
import anyio.to_thread
import openai
import pytest

from fsm_loop import ConfigError, LoopConfig, MissingExtra, ModelError
from fsm_loop.core.effects import Request
from fsm_loop.core.faults import FaultKind
from fsm_loop.core.messages import Finish, MediaPart, TextPart, Usage, UserMessage
from fsm_loop.ports import Meta, Model, Refreshes, Stopped, Streams, TextDelta, ToolSpec
from fsm_loop.providers.openai_chat import CLOSE_S, OpenAIChat
from fsm_loop.testing import server as s

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("way")]

SECRET = "sk-very-secret-key"
PATIENT = LoopConfig()
ASK = Request(0, (UserMessage("Hello"),))
PLAIN = Request(0, (UserMessage("Hello"),), stream=False)
STOP = s.chunk(finish="stop")


def model_at(server, **options):
    """A model behind this server."""
    return OpenAIChat("m", base_url=server.base_url, **{"api_key": SECRET, **options})


async def deltas_of(model, request=ASK, config=PATIENT, tools=()):
    """All deltas of one request, but for what is only known about the reply."""
    async with model.ask(request, tools, config) as deltas:
        return [delta async for delta in deltas if not isinstance(delta, Meta)]


async def fault_of(model, request=ASK, config=PATIENT):
    """The fault that one request ends in."""
    with pytest.raises(ModelError) as raised:
        await deltas_of(model, request, config)
    return raised.value.fault


async def soon(event):
    """Whether the thread's event is set within a few seconds."""
    return await anyio.to_thread.run_sync(event.wait, 5)


# ---------------------------------------------------------------- what comes back


async def test_a_stream():
    """A streamed reply, delta by delta, with what it cost and whence it came."""
    usage = s.chunk(choices=[], usage={"prompt_tokens": 3, "completion_tokens": 2})
    answer = s.stream(
        s.chunk({"role": "assistant"}), s.said("Hi"), s.said("."), STOP, usage, headers={"x-request-id": "r1"}
    )
    with s.ChatServer([answer]) as server:
        async with model_at(server) as model, model.ask(ASK, (), PATIENT) as stream:
            deltas = [delta async for delta in stream]

    assert [
        Meta(model="m", request_id="r1"),
        TextDelta("Hi"),
        TextDelta("."),
        Stopped(Finish.STOP),
        Meta(Usage(3, 2), model="m", request_id="r1"),
    ] == deltas


async def test_a_whole_body():
    """A reply without streaming is the same deltas at once."""
    with s.ChatServer([s.completion("Hi.")]) as server:
        async with model_at(server) as model:
            deltas = await deltas_of(model, PLAIN)

    assert [TextDelta("Hi."), Stopped(Finish.STOP)] == deltas
    assert "stream" not in server.requests[0].body


@pytest.mark.parametrize(("request_", "answer"), [(ASK, s.completion("Hi.")), (PLAIN, s.stream(s.said("Hi."), STOP))])
async def test_what_was_not_asked_for_is_read_all_the_same(request_, answer):
    """A body where a stream was asked for, or the other way round, is a reply."""
    with s.ChatServer([answer]) as server:
        async with model_at(server) as model:
            assert [TextDelta("Hi."), Stopped(Finish.STOP)] == await deltas_of(model, request_)


async def test_what_goes_out():
    """Body, key, path and further headers reach the server as they were meant."""
    spec = ToolSpec("look")
    with s.ChatServer([s.stream(STOP)]) as server:
        async with model_at(server, extra={"temperature": 0}, headers={"X-Team": "blue"}) as model:
            await deltas_of(model, tools=(spec,))
    (received,) = server.requests

    assert ("POST", "/v1/chat/completions") == (received.method, received.path)
    assert (f"Bearer {SECRET}", "blue") == (received.headers["authorization"], received.headers["x-team"])
    assert ("m", 0, "look", True) == (
        received.body["model"],
        received.body["temperature"],
        received.body["tools"][0]["function"]["name"],
        received.body["stream"],
    )


async def test_one_connection_serves_many_requests():
    """A reply that ended leaves its connection to the next request, whether `[DONE]` or a length ended it."""
    with s.ChatServer([s.stream(s.said("a"), STOP), s.completion("b"), s.failure(429, "x"), s.stream(STOP)]) as server:
        async with model_at(server) as model:
            await deltas_of(model)
            await deltas_of(model, PLAIN)
            await fault_of(model)
            await deltas_of(model)

    assert (4, 1) == (len(server.requests), server.connections)


async def test_a_server_that_hangs_behind_done_is_not_waited_for():
    """Once `[DONE]` is read the reply is over, whatever the server does with the connection."""
    with s.ChatServer([s.stream(s.said("Hi"), STOP, "[DONE]", end=s.Hang())]) as server:
        async with model_at(server) as model:
            with anyio.fail_after(5):
                deltas = await deltas_of(model)

        assert [TextDelta("Hi"), Stopped(Finish.STOP)] == deltas
        assert await soon(server.went_away)


async def test_a_proxy_of_the_environment_does_not_stand_before_this_machine(monkeypatch):
    """A server on loopback is asked directly."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with s.ChatServer([s.stream(STOP)]) as server:
        async with model_at(server) as model:
            assert [Stopped(Finish.STOP)] == await deltas_of(model)


# ---------------------------------------------------------------- what goes wrong


def refused():
    """An address on this machine where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        return f"http://127.0.0.1:{nobody.getsockname()[1]}/v1"


async def test_nobody_listens():
    """A connection that is refused could not be made."""
    async with OpenAIChat("m", base_url=refused()) as model:
        assert FaultKind.CONNECT_FAILED is (await fault_of(model)).kind


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        pytest.param(s.NO_ANSWER, FaultKind.DROPPED, id="closed before a word"),
        pytest.param(s.RESET_AT_ONCE, FaultKind.DROPPED, id="reset before a word"),
        pytest.param(s.stream(s.said("Hi"), end=s.Cut()), FaultKind.DROPPED, id="closed in the middle"),
        pytest.param(s.stream(s.said("Hi"), end=s.Reset()), FaultKind.DROPPED, id="reset in the middle"),
        pytest.param(s.Answer((s.Send(b'{"cho'), s.Cut()), 200, {}, 100), FaultKind.DROPPED, id="a body cut short"),
        pytest.param(s.Answer((s.Send(b"garbage\r\n\r\n"),), 0), FaultKind.DROPPED, id="no HTTP at all"),
        pytest.param(s.whole("<html><title>Down</title></html>"), FaultKind.MALFORMED, id="a page of HTML"),
        pytest.param(s.whole("{}"), FaultKind.MALFORMED, id="a body without choices"),
        pytest.param(s.stream(s.said("Hi"), {"error": {"message": "x", "code": 502}}), FaultKind.SERVER_ERROR, id="an error inside"),
        pytest.param(s.failure(401, "Who are you?"), FaultKind.CREDENTIAL_EXPIRED, id="401"),
        pytest.param(s.failure(404, "The model `m` does not exist"), FaultKind.MODEL_NOT_FOUND, id="404"),
        pytest.param(s.failure(400, "maximum context length is 9 tokens"), FaultKind.CONTEXT_TOO_LONG, id="400"),
        pytest.param(s.whole("<html><title>502</title></html>", 502), FaultKind.SERVER_ERROR, id="502"),
        pytest.param(s.failure(400, "Unsupported parameter: 'stream_options'"), FaultKind.PARAMETER_UNSUPPORTED, id="a parameter"),
        pytest.param(s.failure(400, "Unsupported parameter: 'seed'"), FaultKind.BAD_REQUEST, id="a parameter that was not sent"),
        pytest.param(s.failure(400, "image_url is not supported"), FaultKind.BAD_REQUEST, id="an image that was not sent"),
    ],
)  # fmt: skip
async def test_failures(answer, kind):
    """Whatever the server does is one fault, of one request: the SDK retries nothing on its own."""
    with s.ChatServer([answer]) as server:
        async with model_at(server, name="primary") as model:
            fault = await fault_of(model)

    assert (kind, "primary") == (fault.kind, fault.provider)
    assert fault.message
    assert 1 == len(server.requests)


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # httpx leaves a generator of its own open here; trio says so
async def test_a_body_that_is_not_compressed_as_it_says():
    """What cannot be unpacked cannot be read."""
    with s.ChatServer([s.Answer((s.Send(b"plain"),), 200, {"content-encoding": "gzip"}, 5)]) as server:
        async with model_at(server) as model:
            fault = await fault_of(model)
        gc.collect()

    assert FaultKind.MALFORMED is fault.kind


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503])
async def test_one_request_is_one_attempt(status):
    """What the SDK would retry by itself goes out once, even where the server asks for a retry."""
    with s.ChatServer(
        lambda received: s.failure(status, "x", {"x-should-retry": "true", "retry-after": "0.01"})
    ) as server:
        async with model_at(server) as model:
            fault = await fault_of(model)

    assert 1 == len(server.requests)
    assert (status, True, 0.01) == (fault.status, fault.should_retry, fault.retry_after_s)


async def test_a_clients_own_retries_are_off_too():
    """A client that was given, and that would retry, does not."""
    with s.ChatServer(lambda received: s.failure(500, "x")) as server:
        client = openai.AsyncOpenAI(api_key=SECRET, base_url=server.base_url, max_retries=5)
        async with client, OpenAIChat("m", client=client) as model:
            await fault_of(model)

    assert 1 == len(server.requests)


async def test_a_fault_knows_its_request():
    """The provider's id of the request is with its fault, also with one inside a stream."""
    answers = [s.failure(500, "x", {"x-request-id": "r1"}), s.stream({"error": "x"}, headers={"x-request-id": "r2"})]
    with s.ChatServer(answers) as server:
        async with model_at(server) as model:
            assert ["r1", "r2"] == [(await fault_of(model)).request_id for _ in answers]


async def test_pictures_go_before_words_where_bytes_are_too_many():
    """A request that is too large and holds an image is refused for the image."""
    request = Request(0, (UserMessage((MediaPart("data:image/png;base64,AA"),)),))
    words = Request(0, (UserMessage((TextPart("Hello"),)),))
    with s.ChatServer([s.failure(413, "Request too large"), s.failure(413, "Request too large")]) as server:
        async with model_at(server) as model:
            assert FaultKind.MEDIA_REFUSED is (await fault_of(model, request)).kind
            assert FaultKind.CONTEXT_TOO_LONG is (await fault_of(model, words)).kind


async def test_text_that_cannot_be_sent():
    """A lone surrogate in the request is a fault with a repair, and nothing goes out."""
    with s.ChatServer() as server:
        async with model_at(server) as model:
            fault = await fault_of(model, Request(0, (UserMessage("a\ud800"),)))

    assert FaultKind.BAD_UNICODE is fault.kind
    assert [] == server.requests


@pytest.mark.parametrize("key", ["sk-ключ-very-secret", "sk-with-a\nline-feed"])
async def test_a_key_that_no_header_can_carry_is_not_told(key):
    """Such a key fails as a bad request, whose message does not quote it."""
    with s.ChatServer() as server:
        async with model_at(server, api_key=key) as model:
            fault = await fault_of(model)

    assert FaultKind.BAD_REQUEST is fault.kind
    assert not any(part in fault.message for part in ("very-secret", "line-feed"))


async def test_no_secret_is_told():
    """Neither the key, nor a further header's value, nor the address's password is in a message that echoes them."""
    echo = f"Incorrect API key provided: {SECRET}; x-team: blue-s3cr3t; at http://me:pass-s3cr3t@host/v1, pass-s3cr3t"
    with s.ChatServer([s.failure(401, echo), s.stream({"error": echo})]) as server:
        address = server.base_url.replace("//", "//me:pass-s3cr3t@")
        async with OpenAIChat("m", base_url=address, api_key=SECRET, headers={"X-Team": "blue-s3cr3t"}) as model:
            messages = [(await fault_of(model)).message for _ in range(2)]

    assert not any(secret in message for secret in (SECRET, "s3cr3t") for message in messages)


# ---------------------------------------------------------------- patience


async def test_a_body_that_does_not_come_has_stalled():
    """Without streaming the transport waits for read_timeout_s."""
    with s.ChatServer([s.SILENCE]) as server:
        async with model_at(server) as model:
            fault = await fault_of(model, PLAIN, LoopConfig(read_timeout_s=0.05))

        assert FaultKind.STALLED is fault.kind
        assert await soon(server.went_away)


async def test_a_silent_stream_is_the_turns_affair():
    """While streaming the transport has no patience of its own: the turn's watch has one."""
    go_on = threading.Event()
    with s.ChatServer([s.stream(s.said("a"), s.Wait(go_on), s.said("b"), STOP)]) as server:
        async with model_at(server) as model, anyio.create_task_group() as group:
            group.start_soon(set_after, 0.1, go_on)  # far longer than the patience that there must not be
            deltas = await deltas_of(model, config=LoopConfig(read_timeout_s=0.01, connect_timeout_s=5))

    assert [TextDelta("a"), TextDelta("b"), Stopped(Finish.STOP)] == deltas


async def set_after(seconds, event):
    """Sets the event when so much time has passed."""
    await anyio.sleep(seconds)
    event.set()


async def test_the_turns_own_seconds_bound_a_call():
    """Where little time is left the transport's patience is no longer than that."""
    with s.ChatServer([s.SILENCE]) as server:
        async with model_at(server) as model:
            with anyio.fail_after(5):
                fault = await fault_of(model, Request(0, (UserMessage("x"),), stream=False, time_left_s=0.05))

    assert FaultKind.STALLED is fault.kind


# ---------------------------------------------------------------- letting go


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(s.SILENCE, id="before the status"),
        pytest.param(s.Answer((s.Hang(),), 200, {"content-type": "text/event-stream"}), id="before the first chunk"),
        pytest.param(s.stream(s.said("Hi"), end=s.Hang()), id="in the middle"),
        pytest.param(s.Answer((s.Hang(),), 500, {}, 99), id="in the body of an error"),
    ],
)
async def test_cancelling_closes_the_connection(answer):
    """Whenever a call is cancelled it ends at once, and the server sees its connection go."""
    with s.ChatServer([answer, s.stream(STOP)]) as server:
        async with model_at(server) as model:
            with anyio.fail_after(5):
                async with anyio.create_task_group() as group:
                    group.start_soon(deltas_of, model)
                    await soon(server.began)
                    group.cancel_scope.cancel()

            assert await soon(server.went_away)
            assert [Stopped(Finish.STOP)] == await deltas_of(model)


async def test_leaving_early_closes_the_connection():
    """Whoever leaves the context in mid-stream has closed the connection."""
    with s.ChatServer([s.stream(s.said("Hi"), end=s.Hang())]) as server:
        async with model_at(server) as model:
            async with model.ask(ASK, (), PATIENT) as deltas:
                async for delta in deltas:
                    if isinstance(delta, TextDelta):
                        began = time.perf_counter()
                        break
            took_s = time.perf_counter() - began

            assert await soon(server.went_away)
            assert took_s < CLOSE_S / 2  # it is closed, not waited for


async def raising(model):
    """Reads a delta, and fails on it."""
    async with model.ask(ASK, (), PATIENT) as deltas:
        async for _ in deltas:
            raise KeyError


async def test_what_a_consumer_raises_is_its_own():
    """An error of whoever reads the deltas comes out as it is, and closes the connection."""
    with s.ChatServer([s.stream(s.said("Hi"), end=s.Hang())]) as server:
        async with model_at(server) as model:
            with pytest.raises(KeyError):
                await raising(model)

            assert await soon(server.went_away)


async def test_cancelled_calls_leave_no_connection_behind():
    """Many calls that are cancelled do not use up the pool."""
    with s.ChatServer(lambda received: s.stream(s.said("Hi"), end=s.Hang())) as server:
        client = openai.AsyncOpenAI(
            api_key=SECRET,
            base_url=server.base_url,
            http_client=openai.DefaultAsyncHttpxClient(
                limits=openai.DEFAULT_CONNECTION_LIMITS.__class__(max_connections=2)
            ),
        )
        async with client:
            model = OpenAIChat("m", client=client)
            for _ in range(6):
                async with model.ask(ASK, (), LoopConfig(connect_timeout_s=1)) as deltas:
                    async for delta in deltas:
                        if isinstance(delta, TextDelta):
                            break

    assert 6 == len(server.requests)


async def test_a_closed_model_can_be_asked_again():
    """Closing lets the connections go; the next request opens new ones."""
    with s.ChatServer([s.stream(STOP), s.stream(STOP)]) as server:
        model = model_at(server)
        await model.aclose()
        for _ in range(2):
            await deltas_of(model)
            await model.aclose()

    assert 2 == server.connections


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # a loop that ends leaves its connections to the collector
def test_another_event_loop_has_connections_of_its_own():
    """A model that was asked in an event loop that is gone can be asked in the next."""
    with s.ChatServer([s.stream(s.said("a"), STOP)] * 3) as server:
        model = model_at(server)
        found = [anyio.run(deltas_of, model, backend=backend) for backend in ("asyncio", "asyncio", "trio")]
        del model
        gc.collect()

    assert [[TextDelta("a"), Stopped(Finish.STOP)]] * 3 == found


# ---------------------------------------------------------------- the key


async def test_a_key_can_be_refreshed():
    """A function gives the key before the first request, and another one when it is asked again."""
    keys = iter(["key-one", "key-two", "key-two"])
    with s.ChatServer([s.stream(STOP), s.failure(401, "key-one is too old"), s.stream(STOP)]) as server:
        async with model_at(server, api_key=lambda: next(keys)) as model:
            await deltas_of(model)
            fault = await fault_of(model)
            assert [True, False] == [await model.refresh(), await model.refresh()]
            await deltas_of(model)

    assert (FaultKind.CREDENTIAL_EXPIRED, "*** is too old") == (fault.kind, fault.message)
    assert ["Bearer key-one", "Bearer key-one", "Bearer key-two"] == [
        each.headers["authorization"] for each in server.requests
    ]


async def test_a_key_may_take_its_time():
    """The function may be asynchronous, and it serves a client that was given as well."""

    async def key():
        await anyio.lowlevel.checkpoint()
        return "key-one"

    with s.ChatServer([s.stream(STOP)]) as server:
        async with openai.AsyncOpenAI(api_key="old", base_url=server.base_url) as client:
            await deltas_of(OpenAIChat("m", client=client, api_key=key))

    assert "Bearer key-one" == server.requests[0].headers["authorization"]


async def test_a_key_that_cannot_be_had():
    """What the function raises is a fault of the call; its text tells no key."""

    def broken():
        raise OSError(f"the vault said no to {SECRET}")

    with s.ChatServer() as server:
        async with model_at(server, api_key=broken) as model:
            fault = await fault_of(model)

    assert FaultKind.NOT_READY is fault.kind
    assert SECRET not in fault.message


async def test_a_plain_key_cannot_be_refreshed():
    """Without a function there is no other key to take."""
    with s.ChatServer() as server:
        assert not await model_at(server).refresh()


def test_it_is_an_adapter_of_the_ports():
    """The provider has what the ports ask for."""
    model = OpenAIChat("gpt-x", base_url="http://127.0.0.1:1/v1")

    assert isinstance(model, Model)
    assert isinstance(model, Refreshes)
    assert "gpt-x" == model.name


def test_a_missing_key_is_told_at_once():
    """Without a key and without an address there is nothing to ask, and the sentence says what to do."""
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        OpenAIChat("m")


async def test_the_environments_key(monkeypatch):
    """The SDK's own variables count, and a server that is named may do without a key."""
    with s.ChatServer([s.stream(STOP), s.stream(STOP)]) as server:
        async with model_at(server, api_key=None) as keyless:
            await deltas_of(keyless)
        monkeypatch.setenv("OPENAI_API_KEY", "key-env")
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        async with OpenAIChat("m") as model:
            await deltas_of(model)

    assert ["Bearer none", "Bearer key-env"] == [each.headers["authorization"] for each in server.requests]


def test_the_extra_is_missing(monkeypatch):
    """Without the extra and without the SDK the error says how to install either."""
    for name in ("aiohttp", "httpx", "openai"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match=r"pip install 'fsm-loop\[http\]' or 'fsm-loop\[openai\]'"):
        OpenAIChat("m", api_key="k")


# ---------------------------------------------------------------- servers with habits of their own


async def test_text_that_is_told_from_its_beginning_each_time():
    """A server whose every chunk holds all of the text so far is understood where it is said to be one."""
    with s.ChatServer([s.stream(s.said("Al"), s.said("Alpha"), STOP)]) as server:
        async with model_at(server, cumulative=True) as model:
            assert [TextDelta("Al"), TextDelta("pha"), Stopped(Finish.STOP)] == await deltas_of(model)


async def test_a_model_that_does_not_stream_says_so():
    """The driver asks it for whole replies; any other model is asked for a stream."""
    with s.ChatServer([]) as server:
        async with model_at(server, stream=False) as whole, model_at(server) as streamed:
            assert (False, True) == (whole.streams, streamed.streams)
            assert isinstance(whole, Streams)


def test_a_form_of_ids_that_none_can_have_is_refused():
    """It is told when the model is made."""
    with pytest.raises(ConfigError, match="call_id_pattern"):
        OpenAIChat("m", base_url="http://127.0.0.1:9/v1", call_id_pattern="^[.]{3}$")
