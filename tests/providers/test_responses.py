"""OpenAI's Responses against a real server on loopback, on both ways to the wire, on asyncio and on trio."""

from __future__ import annotations

import openai
import pytest
from attrs import evolve

from fsm_loop import ConfigError, Loop, LoopConfig, ModelError
from fsm_loop.core.effects import Request
from fsm_loop.core.faults import FaultKind
from fsm_loop.core.messages import Finish, UserMessage
from fsm_loop.ports import Meta, Model, Refreshes, Stopped, Streams, TextDelta, ToolSpec
from fsm_loop.providers.openai_responses import OpenAIResponses
from fsm_loop.testing import server as s
from tests.providers.responses import (
    MODEL,
    added,
    argued,
    call,
    created,
    done,
    ended,
    message,
    piece,
    reasoning,
    replay_of,
    response,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("way")]

SECRET = "sk-very-secret-key"
PATIENT = LoopConfig()
ASK = Request(0, (UserMessage("Hello"),))
PLAIN = Request(0, (UserMessage("Hello"),), stream=False)
HI = (created(), added(message("")), piece("Hi."), done(message()), ended(message()))
SEALED = reasoning(summary=["Hm"])
LOOK = (
    created(),
    done(SEALED, 0),
    added(call("", name="look"), 1),
    argued('{"n": 1}', place=1),
    done(call('{"n": 1}'), 1),
    ended(SEALED, call('{"n": 1}')),
)


def replied(*events, **headers):
    """A streamed reply; nothing of this protocol says `[DONE]`."""
    return s.stream(*events, done=False, headers=headers)


def model_at(server, **options):
    """A model behind this server."""
    return OpenAIResponses(MODEL, base_url=server.base_url, **{"api_key": SECRET, **options})


async def deltas_of(model, request=ASK, tools=()):
    """All deltas of one request, but for what is only known about the reply."""
    async with model.ask(request, tools, PATIENT) as deltas:
        return [delta async for delta in deltas if not isinstance(delta, Meta)]


async def fault_of(model, request=ASK):
    """The fault that one request ends in."""
    with pytest.raises(ModelError) as raised:
        await deltas_of(model, request)
    return raised.value.fault


async def test_a_stream():
    """A streamed reply, delta by delta, with whence it came."""
    with s.ChatServer([replied(*HI, **{"x-request-id": "r1"})]) as server:
        async with model_at(server) as model, model.ask(ASK, (), PATIENT) as stream:
            deltas = [delta async for delta in stream]

    assert [
        Meta(model="m", request_id="r1"),
        TextDelta("Hi."),
        Meta(model="m", request_id="r1"),
        Stopped(Finish.STOP),
    ] == deltas


@pytest.mark.parametrize(
    ("request_", "answer"),
    [(PLAIN, s.whole(response([message()]))), (PLAIN, replied(*HI)), (ASK, s.whole(response([message()])))],
)
async def test_a_reply_in_one_body(request_, answer):
    """A reply without streaming is the same reply, and each is read where the other was asked for."""
    with s.ChatServer([answer]) as server:
        async with model_at(server) as model:
            deltas = await deltas_of(model, request_)

    assert [TextDelta("Hi."), Stopped(Finish.STOP)] == deltas


async def test_a_reply_as_long_as_its_limit():
    """Text that took all the tokens that were asked for was cut, though the server calls it completed."""
    usage = {"input_tokens": 1, "output_tokens": 5}
    with s.ChatServer([s.whole(response([message()], usage=usage))]) as server:
        async with model_at(server) as model:
            deltas = await deltas_of(model, evolve(PLAIN, output_limit=5))

    assert [TextDelta("Hi."), Stopped(Finish.LENGTH)] == deltas


async def test_an_empty_body():
    """Where one body was asked for, none at all is no reply."""
    with s.ChatServer([s.whole("")]) as server:
        async with model_at(server) as model:
            assert FaultKind.MALFORMED is (await fault_of(model, PLAIN)).kind


async def test_what_goes_out():
    """Body, key and path reach the server as they were meant."""
    with s.ChatServer([replied(*HI)]) as server:
        async with model_at(server, extra={"temperature": 0}) as model:
            await deltas_of(model, tools=(ToolSpec("look"),))
    (received,) = server.requests

    assert ("POST", "/v1/responses") == (received.method, received.path)
    assert f"Bearer {SECRET}" == received.headers["authorization"]
    assert (MODEL, 0, "look", True, False) == (
        received.body["model"],
        received.body["temperature"],
        received.body["tools"][0]["name"],
        received.body["stream"],
        received.body["store"],
    )


async def test_one_connection_serves_many_requests():
    """A reply that ended, or failed, leaves its connection to the next request."""
    answers = [replied(*HI), s.whole(response([message()])), s.failure(429, "x"), replied(*HI)]
    with s.ChatServer(answers) as server:
        async with model_at(server) as model:
            await deltas_of(model)
            await deltas_of(model, PLAIN)
            await fault_of(model)
            await deltas_of(model)

    assert (4, 1) == (len(server.requests), server.connections)


async def test_nothing_is_read_behind_the_end():
    """A connection that stays open behind `response.completed` holds nobody up."""
    with s.ChatServer([s.stream(*HI, end=s.Hang())]) as server:
        async with model_at(server) as model:
            deltas = await deltas_of(model)

    assert [TextDelta("Hi."), Stopped(Finish.STOP)] == deltas


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (s.failure(401, "bad key"), FaultKind.CREDENTIAL_EXPIRED),
        (s.failure(400, "Unknown parameter: 'include'.", param="include", code="unknown_parameter"), FaultKind.PARAMETER_UNSUPPORTED),
        (s.failure(400, "Encrypted content is not supported with this model.", param="include"), FaultKind.PARAMETER_UNSUPPORTED),
        (s.failure(400, "Unknown parameter: 'input[1].status'.", param="input[1].status"), FaultKind.HISTORY_REFUSED),
        (s.failure(400, "No tool output found for function call call_a.", param="input"), FaultKind.HISTORY_REFUSED),
        (s.failure(400, "Item 'rs_1' of type 'reasoning' was provided without its required following item."), FaultKind.HISTORY_REFUSED),
        (s.failure(404, "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false."), FaultKind.HISTORY_REFUSED),
        (s.failure(400, "The encrypted content for item rs_1 could not be verified."), FaultKind.HISTORY_REFUSED),
        (s.failure(400, "Your organization must be verified to stream this model.", param="stream"), FaultKind.STREAMING_UNSUPPORTED),
        (replied(created(), piece("Hi"), ended(status="failed")), FaultKind.SERVER_ERROR),
        (s.stream(created(), piece("Hi"), end=s.Cut()), FaultKind.DROPPED),
        (s.whole("<html>no</html>"), FaultKind.MALFORMED),
    ],
)  # fmt: skip
async def test_faults(answer, kind):
    """What goes wrong is told in our words, with the provider's name and without the key."""
    with s.ChatServer([answer]) as server:
        async with model_at(server, name="prov") as model:
            fault = await fault_of(model)

    assert (kind, "prov") == (fault.kind, fault.provider)
    assert SECRET not in fault.sentence


async def test_an_end_without_evidence():
    """A stream that ends without a terminal event yields what it held, and no end."""
    with s.ChatServer([s.stream(created(), piece("Hi"))]) as server:
        async with model_at(server) as model:
            assert [TextDelta("Hi")] == await deltas_of(model)


async def test_reasoning_comes_back_to_its_model():
    """Within a turn the model gets its sealed reasoning back, before the call that followed it."""

    def look(n: int) -> str:
        """Look."""
        return f"saw {n}"

    with s.ChatServer([replied(*LOOK), replied(*HI)]) as server:
        async with model_at(server) as model:
            result = await Loop(model=model, tools=[look]).run("Go")
    kept = {"type": "reasoning", "id": "rs_1", "summary": SEALED["summary"], "encrypted_content": "gAAA"}
    asked = {"type": "function_call", "call_id": "call_a", "name": "look", "arguments": '{"n": 1}', "id": "fc_1"}
    answered = {"type": "function_call_output", "call_id": "call_a", "output": "saw 1"}

    assert ("completed", "Hi.") == (result.outcome, result.text)
    assert [kept, asked, answered] == server.requests[1].body["input"][1:]


async def test_another_provider_gets_none_of_it():
    """A provider that takes over is sent the words and the calls, and no reasoning that it cannot open."""

    def look(n: int) -> str:
        """Look."""
        return f"saw {n}"

    answers = [replied(*LOOK), s.failure(400, "no"), replied(*HI)]
    with s.ChatServer(answers) as server:
        other = OpenAIResponses("o3", base_url=server.base_url, api_key=SECRET)
        async with model_at(server) as model, other:
            result = await Loop(model=model, fallbacks=[other], tools=[look]).run("Go")
    kinds = [item["type"] for item in server.requests[2].body["input"]]

    assert "completed" == result.outcome
    assert ["message", "function_call", "function_call_output"] == kinds


async def test_what_can_be_read_is_kept():
    """The reply's own items come with its end."""
    with s.ChatServer([replied(*LOOK)]) as server:
        async with model_at(server) as model, model.ask(ASK, (), PATIENT) as stream:
            (kept,) = replay_of([delta async for delta in stream])

    assert ["reasoning", "function_call"] == [each["type"] for each in kept["items"]]


async def test_a_client_of_the_users_own():
    """The user's client carries the request with its own address and key, and stays open."""
    with s.ChatServer([replied(*HI), replied(*HI)]) as server:
        async with openai.AsyncOpenAI(base_url=server.base_url, api_key=SECRET) as client:
            async with OpenAIResponses(MODEL, client=client) as model:
                await deltas_of(model)
            assert [TextDelta("Hi."), Stopped(Finish.STOP)] == await deltas_of(OpenAIResponses(MODEL, client=client))
    (received, _) = server.requests

    assert ("/v1/responses", f"Bearer {SECRET}") == (received.path, received.headers["authorization"])


async def test_what_it_is():
    """It is a model that streams or not and can take a fresh key, named by its model or as it is told."""
    model = OpenAIResponses("o3", api_key=SECRET, stream=False)

    assert isinstance(model, Model)
    assert isinstance(model, Refreshes)
    assert isinstance(model, Streams)
    assert ("o3", False) == (model.name, model.streams)


async def test_a_key_is_needed():
    """Without a key and without an address nothing can be asked."""
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        OpenAIResponses("o3")
