"""Anthropic's Messages on both ways to the wire, against a real server on loopback, on asyncio and on trio."""

from __future__ import annotations

import json
import sys

import anthropic
import anyio
import pytest

from fsm_loop import ConfigError, Loop, LoopConfig, MissingExtra, ModelError
from fsm_loop.core.effects import Request
from fsm_loop.core.faults import FaultKind
from fsm_loop.core.messages import Finish, MediaPart, Usage, UserMessage
from fsm_loop.ports import CallDelta, Meta, Model, ReasoningDelta, Refreshes, Stopped, Streams, TextDelta, ToolSpec
from fsm_loop.providers.anthropic_decode import replay_item
from fsm_loop.providers.anthropic_messages import VERSION, AnthropicMessages
from fsm_loop.providers.openai_chat import OpenAIChat
from fsm_loop.testing import server as s

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("way")]

SECRET = "sk-ant-very-secret-key"
PATIENT = LoopConfig()
QUICK = LoopConfig(base_delay_s=0, recoveries=0)
ASK = Request(0, (UserMessage("Hello"),))
PLAIN = Request(0, (UserMessage("Hello"),), stream=False)

BEGIN = {"type": "message_start", "message": {"model": "m-1", "usage": {"input_tokens": 3, "output_tokens": 1}}}
END = {"type": "message_stop"}


def block(place, start, *deltas):
    """The events of one content block."""
    return [
        {"type": "content_block_start", "index": place, "content_block": start},
        *({"type": "content_block_delta", "index": place, "delta": each} for each in deltas),
        {"type": "content_block_stop", "index": place},
    ]


def words(place, text):
    """A block of text."""
    return block(place, {"type": "text", "text": ""}, {"type": "text_delta", "text": text})


def thinks(place, text, signature):
    """A block of signed thoughts."""
    start = {"type": "thinking", "thinking": "", "signature": ""}
    signed = {"type": "signature_delta", "signature": signature}
    return block(place, start, {"type": "thinking_delta", "thinking": text}, signed)


def calls(place, call_id, name, *pieces):
    """A block that calls a tool."""
    start = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
    return block(place, start, *({"type": "input_json_delta", "partial_json": piece} for piece in pieces))


def stops(reason, **usage):
    """The message is about to end."""
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 7, **usage}}


def reply(*blocks, reason="end_turn", headers=None):
    """A whole streamed reply, its events named as the vendor names them."""
    events = [BEGIN, {"type": "ping"}, *(each for events in blocks for each in events), stops(reason), END]
    sent = [s.Send(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode()) for each in events]
    return s.stream(*sent, done=False, headers=headers)


def breaks(kind, *events):
    """A stream that breaks off with an error event."""
    return s.stream(BEGIN, *events, {"type": "error", "error": {"type": kind, "message": "so it is"}}, done=False)


def failure(status, kind, message, headers=None):
    """An error in the vendor's shape."""
    return s.whole({"type": "error", "error": {"type": kind, "message": message}}, status, headers)


def body(*content, reason="end_turn"):
    """A reply in one body."""
    usage = {"input_tokens": 3, "output_tokens": 2}
    return s.whole({"type": "message", "model": "m-1", "content": content, "stop_reason": reason, "usage": usage})


HI = reply(words(0, "Hi"))


def model_at(server, **options):
    """A model behind this server."""
    return AnthropicMessages("m", base_url=server.base_url, **{"api_key": SECRET, **options})


async def deltas_of(model, request=ASK, tools=()):
    """All deltas of one request, but for what is only known about the reply."""
    async with model.ask(request, tools, PATIENT) as deltas:
        return [delta async for delta in deltas if not isinstance(delta, Meta)]


async def fault_of(model, request=ASK):
    """The fault that one request ends in."""
    with pytest.raises(ModelError) as raised:
        await deltas_of(model, request)
    return raised.value.fault


def key_of(received):
    """The key that the request came with: the SDK has another header for it than the protocol's own."""
    headers = received.headers
    return headers.get("x-api-key") or headers["authorization"].removeprefix("Bearer ")


def look(at: str) -> str:
    """Look at something."""
    return f"{at} is green"


async def turn(*answers, tools=(), config=QUICK, prompt="Hello", **options):
    """One turn against a server that follows this script: its result, and the bodies of its requests."""
    with s.ChatServer(answers) as server:
        async with model_at(server, **options) as model:
            with anyio.fail_after(10):
                result = await Loop(model=model, tools=tools, config=config).run(prompt)
    return result, [each.body for each in server.requests]


# ---------------------------------------------------------------- one request


async def test_a_stream():
    """A streamed reply, delta by delta, with what it cost, whence it came, and what goes back."""
    answer = reply(thinks(0, "hm", "c2ln"), words(1, "Hi"), headers={"request-id": "r1"})
    with s.ChatServer([answer]) as server:
        async with model_at(server) as model, model.ask(ASK, (), PATIENT) as stream:
            deltas = [delta async for delta in stream]

    kept = [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}, {"type": "text", "text": "Hi"}]
    assert [
        Meta(Usage(3, 1), model="m-1", request_id="r1"),
        ReasoningDelta("hm"),
        TextDelta("Hi"),
        Meta(Usage(3, 7), (replay_item("m", kept),)),
        Stopped(Finish.STOP),
    ] == deltas


async def test_a_whole_body():
    """A reply without streaming is the same deltas at once."""
    call = {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": "x"}}
    with s.ChatServer([body({"type": "text", "text": "Hi."}, call, reason="tool_use")]) as server:
        async with model_at(server) as model:
            deltas = await deltas_of(model, PLAIN)

    assert [
        TextDelta("Hi."),
        CallDelta(0, "t1", "look"),
        CallDelta(0, arguments='{"at": "x"}'),
        Stopped(Finish.TOOL_CALLS),
    ] == deltas
    assert "stream" not in server.requests[0].body


@pytest.mark.parametrize(("request_", "answer"), [(ASK, body({"type": "text", "text": "Hi"})), (PLAIN, HI)])
async def test_what_was_not_asked_for_is_read_all_the_same(request_, answer):
    """A body where a stream was asked for, or the other way round, is a reply."""
    with s.ChatServer([answer]) as server:
        async with model_at(server) as model:
            assert [TextDelta("Hi"), Stopped(Finish.STOP)] == await deltas_of(model, request_)


async def test_what_goes_out(way):
    """Body, key, version, path and further headers reach the server as they were meant."""
    options = {"extra": {"temperature": 0}, "headers": {"anthropic-beta": "b1"}, "max_tokens": 99}
    with s.ChatServer([HI]) as server:
        async with model_at(server, **options) as model:
            await deltas_of(model, tools=[ToolSpec("look")])
    (received,) = server.requests

    assert ("POST", "/v1/messages") == (received.method, received.path)
    assert (SECRET, "b1") == (key_of(received), received.headers["anthropic-beta"])
    assert VERSION == received.headers["anthropic-version"] or way == "over the SDK"  # which has its own
    assert ("m", 0, 99, "look", True) == (
        received.body["model"],
        received.body["temperature"],
        received.body["max_tokens"],
        received.body["tools"][0]["name"],
        received.body["stream"],
    )


async def test_one_connection_serves_many_requests():
    """A reply that ended leaves its connection to the next request, and so does a failure."""
    with s.ChatServer([HI, body({"type": "text", "text": "b"}), failure(429, "rate_limit_error", "x"), HI]) as server:
        async with model_at(server) as model:
            await deltas_of(model)
            await deltas_of(model, PLAIN)
            await fault_of(model)
            await deltas_of(model)

    assert (4, 1) == (len(server.requests), server.connections)


async def test_a_server_that_hangs_behind_its_end_is_not_waited_for():
    """Once `message_stop` is read the reply is over, whatever the server does with the connection."""
    with s.ChatServer([s.stream(BEGIN, *words(0, "Hi"), stops("end_turn"), END, end=s.Hang())]) as server:
        async with model_at(server) as model:
            with anyio.fail_after(5):
                assert [TextDelta("Hi"), Stopped(Finish.STOP)] == await deltas_of(model)


# ---------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (failure(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum"), FaultKind.CONTEXT_TOO_LONG),
        (failure(400, "invalid_request_error", "input length and `max_tokens` exceed context limit: 1 + 2 > 2"), FaultKind.CONTEXT_TOO_LONG),
        (failure(400, "invalid_request_error", "max_tokens: 99999 > 64000, which is the maximum allowed number of output tokens"), FaultKind.OUTPUT_LIMIT_TOO_HIGH),
        (failure(400, "invalid_request_error", "messages.1.content.0: Invalid `signature` in `thinking` block"), FaultKind.HISTORY_REFUSED),
        (failure(400, "invalid_request_error", "messages.2: `tool_use` ids were found without `tool_result` blocks"), FaultKind.HISTORY_REFUSED),
        (failure(400, "invalid_request_error", "messages: text content blocks must be non-empty"), FaultKind.HISTORY_REFUSED),
        (failure(400, "invalid_request_error", "This model does not support assistant message prefill."), FaultKind.HISTORY_REFUSED),
        (failure(400, "invalid_request_error", "Your credit balance is too low"), FaultKind.QUOTA_SPENT),
        (failure(400, "invalid_request_error", "strange"), FaultKind.BAD_REQUEST),
        (failure(401, "authentication_error", "invalid x-api-key"), FaultKind.CREDENTIAL_EXPIRED),
        (failure(402, "billing_error", "pay first"), FaultKind.QUOTA_SPENT),
        (failure(403, "permission_error", "not for you"), FaultKind.ACCESS_DENIED),
        (failure(404, "not_found_error", "model: m"), FaultKind.MODEL_NOT_FOUND),
        (failure(413, "request_too_large", "Request exceeds the maximum size"), FaultKind.CONTEXT_TOO_LONG),
        (failure(429, "rate_limit_error", "slow down"), FaultKind.RATE_LIMITED),
        (failure(500, "api_error", "Internal server error"), FaultKind.SERVER_ERROR),
        (failure(504, "timeout_error", "took too long"), FaultKind.SERVER_ERROR),
        (failure(529, "overloaded_error", "Overloaded"), FaultKind.OVERLOADED),
        (breaks("overloaded_error"), FaultKind.OVERLOADED),
        (breaks("rate_limit_error"), FaultKind.RATE_LIMITED),
        (breaks("api_error"), FaultKind.SERVER_ERROR),
        (breaks("authentication_error"), FaultKind.CREDENTIAL_EXPIRED),
        (breaks("permission_error"), FaultKind.ACCESS_DENIED),
        (s.whole("<html><title>502 Bad Gateway</title></html>"), FaultKind.MALFORMED),
        (s.whole("<html><title>502 Bad Gateway</title></html>", 502), FaultKind.SERVER_ERROR),
        (s.stream("{"), FaultKind.MALFORMED),
        (s.stream(BEGIN, end=s.Cut()), FaultKind.DROPPED),
        (s.RESET_AT_ONCE, FaultKind.DROPPED),
    ],
)  # fmt: skip
async def test_failures(answer, kind):
    """Whatever the server answers comes back as a fault in our words, with the provider's name."""
    with s.ChatServer([answer]) as server:
        async with model_at(server, name="claude") as model:
            fault = await fault_of(model)

    assert (kind, "claude", 1) == (fault.kind, fault.provider, len(server.requests))


@pytest.mark.parametrize("status", [408, 409, 429, 500, 529])
async def test_one_request_is_one_attempt(status):
    """Nobody below us tries again, also where the server says that one should."""
    with s.ChatServer([failure(status, "api_error", "x", {"x-should-retry": "true"})] * 3) as server:
        async with model_at(server) as model:
            fault = await fault_of(model)

    assert (1, True, status) == (len(server.requests), fault.should_retry, fault.status)


async def test_a_fault_knows_its_request():
    """The provider's id of the request, and how long it asks to wait, are in the fault."""
    with s.ChatServer([failure(429, "rate_limit_error", "x", {"request-id": "r7", "retry-after": "3"})]) as server:
        async with model_at(server) as model:
            fault = await fault_of(model)

    assert ("r7", 3.0, "rate_limit_error") == (fault.request_id, fault.retry_after_s, fault.code)


async def test_no_secret_is_told():
    """A key that the server says back is not in the fault."""
    with s.ChatServer([failure(401, "authentication_error", f"invalid x-api-key {SECRET}")]) as server:
        async with model_at(server) as model:
            with pytest.raises(ModelError) as raised:
                await deltas_of(model)

    assert SECRET not in f"{raised.value.fault} {raised.value!r}"


async def test_pictures_go_before_words_where_bytes_are_too_many():
    """A body that is too large is mended by leaving out pictures where there are some."""
    seen = Request(0, (UserMessage((MediaPart("data:image/png;base64,AAAA"),)),))
    with s.ChatServer([failure(413, "request_too_large", "Request exceeds the maximum size")]) as server:
        async with model_at(server) as model:
            assert FaultKind.MEDIA_REFUSED is (await fault_of(model, seen)).kind


# ---------------------------------------------------------------- keys and clients


async def test_a_key_can_be_refreshed():
    """Who gives keys is asked before the first request, and for another one when the key is no longer accepted."""
    keys = iter(["key-1", "key-2"])
    with s.ChatServer([failure(401, "authentication_error", "expired"), HI]) as server:
        async with model_at(server, api_key=lambda: next(keys)) as model:
            result = await Loop(model=model, config=QUICK).run("Hello")

    assert ("completed", ["key-1", "key-2"]) == (result.outcome, [key_of(each) for each in server.requests])


async def test_the_key_goes_where_the_protocol_has_it(way):
    """Without an SDK the key stands in a header of its own."""
    with s.ChatServer([HI]) as server:
        async with model_at(server) as model:
            await deltas_of(model)

    assert (way == "built in") == (server.requests[0].headers.get("x-api-key") == SECRET)


async def test_a_client_of_ones_own():
    """Over a client that was given the same reply comes, with the client's key and no retries of its own."""
    with s.ChatServer([failure(529, "overloaded_error", "x"), HI]) as server:
        root = server.base_url.removesuffix("/v1")
        async with (
            anthropic.AsyncAnthropic(api_key=SECRET, base_url=root, max_retries=5) as client,
            AnthropicMessages("m", client=client) as model,
        ):
            fault = await fault_of(model)
            assert [TextDelta("Hi"), Stopped(Finish.STOP)] == await deltas_of(model)

    assert (FaultKind.OVERLOADED, 2) == (fault.kind, len(server.requests))
    assert {SECRET} == {*map(key_of, server.requests)}


async def test_the_environments_key(monkeypatch):
    """Key and address are found where the SDK finds them."""
    with s.ChatServer([HI]) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "from-outside")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.base_url.removesuffix("/v1"))
        async with AnthropicMessages("m") as model:
            await deltas_of(model)

    assert "from-outside" == key_of(server.requests[0])


def test_it_is_an_adapter_of_the_ports():
    """It is a model that can refresh its key, and that says whether it streams."""
    model = AnthropicMessages("m", api_key="k", stream=False)

    assert isinstance(model, Model)
    assert isinstance(model, Refreshes)
    assert isinstance(model, Streams)
    assert ("m", False) == (model.name, model.streams)


@pytest.mark.parametrize(
    ("options", "word"), [({}, "ANTHROPIC_API_KEY"), ({"api_key": "k", "max_tokens": 0}, "max_tokens")]
)
def test_what_cannot_be_is_told_at_once(options, word):
    """A key that is missing, or a limit that is none, is told when the model is made."""
    with pytest.raises(ConfigError, match=word):
        AnthropicMessages("m", **options)


def test_the_extra_is_missing(monkeypatch):
    """Without HTTP of our own and without the SDK it says what to install."""
    for name in ("aiohttp", "httpx", "anthropic"):
        monkeypatch.setitem(sys.modules, name, None)

    with pytest.raises(MissingExtra, match="anthropic"):
        AnthropicMessages("m", api_key="k")


# ---------------------------------------------------------------- whole turns


ASKS = reply(thinks(0, "hm", "c2ln"), words(1, "Now."), calls(2, "t1", "look", '{"at": ', '"it"}'), reason="tool_use")


async def test_a_tool_is_called_and_answered():
    """The call that came in pieces runs, and its result goes back behind the signed thoughts that led to it."""
    result, (_, second) = await turn(ASKS, reply(words(0, "Green.")), tools=[look])

    assert ("completed", "Green.", 2) == (result.outcome, result.text, result.llm_calls)
    assert [
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                {"type": "text", "text": "Now."},
                {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": "it"}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "it is green"}]},
    ] == second["messages"][1:]


async def test_a_refused_signature_is_left_out():
    """Where the provider refuses a signature the thoughts go, and the call and its result stay."""
    refusal = failure(400, "invalid_request_error", "messages.1.content.0: Invalid `signature` in `thinking` block")
    result, (_, second, third) = await turn(ASKS, refusal, reply(words(0, "Green.")), tools=[look])

    assert ("completed", "Green.") == (result.outcome, result.text)
    assert "c2ln" in json.dumps(second)
    assert "c2ln" not in json.dumps(third)
    assert "tool_result" in json.dumps(third)


async def test_the_last_word_still_defines_the_tools():
    """When the budget is spent the tools are told and forbidden."""
    config = LoopConfig(max_iterations=1, recoveries=0)
    result, (first, second) = await turn(ASKS, reply(words(0, "So far.")), tools=[look], config=config)

    assert ("exhausted", "So far.") == (result.outcome, result.text)
    assert (first["tools"], {"type": "none"}) == (second["tools"], second["tool_choice"])


async def test_a_paused_reply_goes_on():
    """What the provider paused goes back as it was, and the pieces are one answer."""
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    piece = {"type": "input_json_delta", "partial_json": '{"q": "x"}'}
    paused = reply(words(0, "Searching. "), block(1, search, piece), reason="pause_turn")
    result, (_, second) = await turn(paused, reply(block(0, found), words(1, "Found.")))

    assert ("completed", "Searching. Found.") == (result.outcome, result.text)
    assert [{"type": "text", "text": "Searching. "}, {**search, "input": {"q": "x"}}] == second["messages"][-1][
        "content"
    ]


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [("end_turn", "completed"), ("stop_sequence", "completed"), ("refusal", "refused"), ("model_context_window_exceeded", "partial")],
)  # fmt: skip
async def test_how_a_turn_ends(reason, outcome):
    """Each end of a reply is an end of the turn; more room cannot be had where the model's window is full."""
    result, requests = await turn(reply(words(0, "So"), reason=reason))

    assert (outcome, "So", 1) == (result.outcome, result.text, len(requests))


async def test_a_cut_answer_is_gone_on_with():
    """The cut piece stands as the model's words before a word of the user's, and both pieces are one answer."""
    result, (_, second) = await turn(reply(words(0, "One, "), reason="max_tokens"), reply(words(0, "two.")))

    assert ("completed", "One, two.") == (result.outcome, result.text)
    assert ["user", "assistant", "user"] == [each["role"] for each in second["messages"]]


async def test_an_error_behind_the_end_changes_nothing():
    """Once the stop reason is there the reply is whole."""
    late = {"type": "error", "error": {"type": "api_error", "message": "late"}}
    result, requests = await turn(s.stream(BEGIN, *words(0, "Hi."), stops("end_turn"), late, done=False))

    assert ("completed", "Hi.", 1) == (result.outcome, result.text, len(requests))


async def test_a_call_without_an_end_is_not_run():
    """A call whose block is whole is asked for again where the message has no end."""
    ran = []

    def note() -> str:
        """Note something."""
        ran.append(1)
        return "noted"

    broken = breaks("api_error", *calls(0, "t1", "note", "{}"))
    whole = reply(calls(0, "t2", "note"), reason="tool_use")
    result, _ = await turn(broken, whole, reply(words(0, "Done.")), tools=[note])

    assert ("completed", [1], 3) == (result.outcome, ran, result.llm_calls)


async def test_a_change_of_the_provider_takes_no_thoughts_along():
    """What one protocol wants back is not sent to another, and the conversation goes on over there."""
    over_there = s.stream(s.said("Green."), s.chunk(finish="stop"))
    config = LoopConfig(api_max_retries=0, recoveries=0)
    with (
        s.ChatServer([ASKS, failure(529, "overloaded_error", "x")]) as one,
        s.ChatServer([over_there]) as two,
    ):
        async with model_at(one) as first, OpenAIChat("n", base_url=two.base_url, api_key="k") as second:
            result = await Loop(model=first, fallbacks=[second], tools=[look], config=config).run("Hello")

    assert ("completed", "Green.") == (result.outcome, result.text)
    assert "c2ln" not in json.dumps(two.requests[0].body)
    assert ["user", "assistant", "tool"] == [each["role"] for each in two.requests[0].body["messages"]]
