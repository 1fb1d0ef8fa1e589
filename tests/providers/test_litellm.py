"""litellm as a model: its own exceptions, real HTTP through it, and cases of the wire."""

from __future__ import annotations

import asyncio
import inspect
import io
import json
import logging
import os
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import anyio
import pytest

from fsm_loop import Loop, LoopConfig
from fsm_loop.core.effects import Request
from fsm_loop.core.faults import FaultKind
from fsm_loop.core.messages import Finish, MediaPart, TextPart, UserMessage
from fsm_loop.errors import ConfigError, MissingExtra, ModelError
from fsm_loop.ports import CallDelta, Meta, ReasoningDelta, Stopped, TextDelta, ToolSpec
from fsm_loop.providers import over_litellm
from fsm_loop.providers.litellm_faults import KINDS, fault_of_litellm, kind_of
from fsm_loop.testing.server import (
    NO_ANSWER,
    Answer,
    ChatServer,
    Cut,
    Hang,
    Send,
    called,
    chunk,
    completion,
    failure,
    said,
    stream,
    whole,
)
from fsm_loop.testing.wire import play as playing
from fsm_loop.testing.wire.case import cases_in
from fsm_loop.testing.wire.judge import differences

pytest.importorskip("openai")
if over_litellm.find_spec("litellm") is None:
    pytest.skip("litellm is not installed", allow_module_level=True)

LIMIT_S = 60.0
KEY = "sk-not-a-real-key"
# aiohttp, below litellm, warns of a pool that its event loop outlives; and litellm's coroutines for its own logging
# are dropped with their loop.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:pydantic.*"),
]


@pytest.fixture(scope="module", name="litellm")
def _litellm():
    return over_litellm.quiet_litellm()


async def close_pools():
    """Close what litellm keeps open: tests have an event loop each."""
    litellm = over_litellm.quiet_litellm()
    await litellm.close_litellm_async_clients()
    litellm.in_memory_llm_clients_cache.flush_cache()


def deltas(answers, *, route="openai/m", stream=True, message="hi", tools=(), **options):
    """What a model says to one message, and the fault that ended it, if one did; with the requests that went out."""

    async def asked(server):
        url = server.base_url if route.startswith("openai") else server.base_url.removesuffix("/v1")
        model = over_litellm.LiteLLM(route, api_key=KEY, api_base=url, stream=stream, **options)
        heard, fault = [], None
        request = Request(0, (UserMessage(message),), stream=stream)
        try:
            with anyio.fail_after(LIMIT_S):
                async with model.ask(request, tools, LoopConfig()) as found:
                    heard += [each async for each in found]
        except ModelError as error:
            fault = error.fault
        await close_pools()
        return heard, fault

    with ChatServer(answers) as server:
        heard, fault = asyncio.run(asked(server))
        return heard, fault, server.requests


def test_what_a_stream_says():
    """Text, reasoning, calls, the end and the usage come through, with the request's id."""
    usage = {
        "prompt_tokens": 3,
        "completion_tokens": 2,
        "total_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 1},
    }
    answer = stream(
        chunk({"reasoning_content": "hm"}),
        said("Hel"),
        called(0, "id1", "f", '{"a":'),
        called(0, None, None, "1}"),
        chunk({}, "tool_calls"),
        chunk(choices=[], usage=usage),
        headers={"x-request-id": "r9"},
    )
    heard, fault, requests = deltas([answer], tools=[ToolSpec("f")])

    assert fault is None
    assert [ReasoningDelta("hm"), TextDelta("Hel"), CallDelta(0, "id1", "f", '{"a":'), CallDelta(0, "", "", "1}")] == [
        each for each in heard if not isinstance(each, Meta | Stopped)
    ]
    assert Stopped(Finish.TOOL_CALLS) in heard
    last = [each for each in heard if isinstance(each, Meta)][-1]
    assert (3, 2, 1, "r9") == (
        last.usage.input_tokens,
        last.usage.output_tokens,
        last.usage.cached_input_tokens,
        last.request_id,
    )
    assert f"Bearer {KEY}" == requests[0].headers["authorization"]
    assert ["f"] == [each["function"]["name"] for each in requests[0].body["tools"]]


def test_a_reply_in_one_body():
    """A reply that is not streamed is read as one body, and asked for as one."""
    heard, _, requests = deltas([completion("hello")], stream=False)

    assert [TextDelta("hello"), Stopped(Finish.STOP)] == heard[1:]
    assert not requests[0].body.get("stream")


def test_an_image_is_sent():
    """An image in a user's message goes out in the form of Chat Completions."""
    parts = (TextPart("what is it"), MediaPart("data:image/png;base64,AAAA"))
    _, _, requests = deltas([stream(said("a cat"), chunk({}, "stop"))], message=parts)

    assert "data:image/png;base64,AAAA" in json.dumps(requests[0].body)


@pytest.mark.parametrize(
    ("answer", "kind", "status", "retry_after_s"),
    [
        (failure(429, "slow down", {"retry-after": "7"}), FaultKind.RATE_LIMITED, 429, 7),
        (
            failure(400, "maximum context length is 100 tokens", code="context_length_exceeded"),
            FaultKind.CONTEXT_TOO_LONG,
            400,
            None,
        ),
        (failure(401, "no such key"), FaultKind.CREDENTIAL_EXPIRED, 401, None),
        (failure(403, "not for you"), FaultKind.ACCESS_DENIED, 403, None),
        (failure(404, "The model `m` does not exist", code="model_not_found"), FaultKind.MODEL_NOT_FOUND, 404, None),
        (whole("<html><title>Bad gateway</title></html>", 502), FaultKind.SERVER_ERROR, 502, None),
        (NO_ANSWER, FaultKind.DROPPED, None, None),
        (stream(said("Hel"), end=Cut()), FaultKind.DROPPED, None, None),
        (stream(said("Hel"), {"error": {"message": "overloaded", "code": 503}}), FaultKind.OVERLOADED, 503, None),
    ],
    ids=["429", "too long", "401", "403", "404", "page", "no answer", "cut", "in the stream"],
)
def test_what_goes_wrong_on_the_way(answer, kind, status, retry_after_s):
    """What lies behind litellm's exception decides; one request went out, and the key is nowhere told."""
    _, fault, requests = deltas([answer])

    assert (kind, status, retry_after_s) == (fault.kind, fault.status, fault.retry_after_s)
    assert "openai/m" == fault.provider
    assert KEY not in fault.message
    assert 1 == len(requests)


def test_nobody_listens():
    """A server that is not there could not be connected to."""

    async def asked():
        model = over_litellm.LiteLLM("openai/m", api_key=KEY, api_base="http://127.0.0.1:9/v1")
        with pytest.raises(ModelError) as caught:
            async with model.ask(Request(0, (UserMessage("hi"),)), (), LoopConfig()) as found:
                await anext(found)
        await close_pools()
        return caught.value.fault

    assert FaultKind.CONNECT_FAILED is asyncio.run(asked()).kind


def test_a_stream_that_ends_unsaid_has_no_evidence():
    """An end without a finish reason is raised by litellm; here it is a stream that stops, without terminal evidence."""
    heard, fault, _ = deltas([stream(said("a"), done=False)])

    assert (None, [TextDelta("a")]) == (fault, heard[1:])


def messages_stream(*events, end=None):
    """A stream of Anthropic's Messages."""
    sent = tuple(Send(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode()) for each in events)
    return Answer(sent + ((end,) if end else ()), 200, {"content-type": "text/event-stream"})


BEGIN = {
    "type": "message_start",
    "message": {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "model": "c",
        "content": [],
        "stop_reason": None,
        "usage": {"input_tokens": 9, "output_tokens": 1, "cache_read_input_tokens": 4},
    },
}
THINK = (
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
    {"type": "content_block_stop", "index": 0},
)
CALL = (
    {
        "type": "content_block_start",
        "index": 1,
        "content_block": {"type": "tool_use", "id": "t1", "name": "f", "input": {}},
    },
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"a":1}'}},
    {"type": "content_block_stop", "index": 1},
)
END = (
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 7}},
    {"type": "message_stop"},
)
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


def test_another_protocol_behind_the_same_shape():
    """Anthropic's Messages come through as the same deltas."""
    heard, fault, requests = deltas([messages_stream(BEGIN, *THINK, *CALL, *END)], route="anthropic/claude-x")

    assert fault is None
    assert "/v1/messages" == requests[0].path
    assert ReasoningDelta("hm") in heard
    assert Stopped(Finish.TOOL_CALLS) in heard
    assert [("t1", "f")] == [(each.id, each.name) for each in heard if isinstance(each, CallDelta) and each.id]
    assert (7, 4) == (heard[-1].usage.output_tokens, heard[-1].usage.cached_input_tokens)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (messages_stream(BEGIN, OVERLOADED), FaultKind.OVERLOADED),
        (messages_stream(BEGIN, *THINK, end=Cut()), FaultKind.DROPPED),
        (
            whole({"type": "error", "error": {"type": "rate_limit_error", "message": "slow"}}, 429),
            FaultKind.RATE_LIMITED,
        ),
        (
            whole(
                {
                    "type": "error",
                    "error": {
                        "type": "invalid_request_error",
                        "message": "prompt is too long: 210000 tokens > 200000 maximum",
                    },
                },
                400,
            ),
            FaultKind.CONTEXT_TOO_LONG,
        ),
        (NO_ANSWER, FaultKind.DROPPED),
    ],
    ids=["in the stream", "cut", "429", "too long", "no answer"],
)
def test_what_goes_wrong_on_the_other_protocol(answer, kind):
    """On Anthropic's route too, the fault is what the server did."""
    assert kind is deltas([answer], route="anthropic/claude-x")[1].kind


def test_a_turn_that_is_interrupted_closes_its_connection():
    """The server sees the client go, though it had more to say."""

    async def run(server):
        model = over_litellm.LiteLLM("openai/m", api_key=KEY, api_base=server.base_url)
        with anyio.fail_after(LIMIT_S):
            async with Loop(model=model).stream("hi") as turn:
                async for note in turn:
                    if type(note).__name__ == "TextDelta":
                        turn.interrupt("reader", "enough")
            gone = await anyio.to_thread.run_sync(server.went_away.wait, LIMIT_S / 2)
        await close_pools()
        return turn.result, gone

    with ChatServer([stream(said("Hel"), end=Hang())]) as server:
        result, gone = asyncio.run(run(server))

    assert ("interrupted", "Hel", True) == (result.outcome, result.text, gone)


def test_every_exception_of_litellm_has_a_kind(litellm):
    """Each exception class that litellm names is known, by its own line or by its base's, and no line is of none."""
    classes = {
        name: each
        for name, each in inspect.getmembers(litellm.exceptions, inspect.isclass)
        if issubclass(each, Exception) and each.__module__ == "litellm.exceptions"
    }

    assert [] == [name for name, each in classes.items() if kind_of(each) is None]
    assert set(KINDS) <= set(classes)


def test_a_parameter_that_litellm_itself_refuses(litellm):
    """What a vendor does not take, litellm knows: the parameter has a name, so that it can be left out."""
    error = litellm.UnsupportedParamsError(
        "xyz does not support parameters: ['reasoning_effort'], for model=m.", llm_provider="xyz", model="m"
    )
    fault = fault_of_litellm(error)

    assert (FaultKind.PARAMETER_UNSUPPORTED, "reasoning_effort") == (fault.kind, fault.parameter)


def test_it_prints_nothing():
    """The advice that litellm gives on errors stays off the screen, and its loggers are silent."""
    with redirect_stdout(io.StringIO()) as printed:
        deltas([failure(500, "oh")])

    assert "" == printed.getvalue()
    assert not logging.getLogger("LiteLLM").isEnabledFor(logging.ERROR)


def test_the_import_asks_no_network_and_leaves_the_environment(tmp_path):
    """In a fresh process: nothing connects while litellm is imported, and the variable for that is gone again."""
    script = (
        "import socket, os\n"
        "def no(*a): raise SystemExit('connects')\n"
        "socket.socket.connect = socket.getaddrinfo = no\n"
        "import fsm_loop, sys\nassert 'litellm' not in sys.modules\n"
        "from fsm_loop.providers.over_litellm import quiet_litellm\nquiet_litellm()\n"
        "assert 'LITELLM_LOCAL_MODEL_COST_MAP' not in os.environ\nprint('well')\n"
    )
    environ = {name: value for name, value in os.environ.items() if not name.startswith("LITELLM")}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, env=environ, check=False
    )

    assert "well\n" == done.stdout, done.stderr


def test_without_litellm_the_extra_is_named(monkeypatch):
    """What is missing is told with how to install it."""
    monkeypatch.setattr(over_litellm, "find_spec", lambda name: None)
    over_litellm.quiet_litellm.cache_clear()
    with pytest.raises(MissingExtra, match=r"fsm-loop\[litellm\]"):
        over_litellm.LiteLLM("openai/m")


def test_retries_are_the_turns_affair():
    """An option that would retry behind the turn's back is refused."""
    with pytest.raises(ConfigError, match="num_retries"):
        over_litellm.LiteLLM("openai/m", num_retries=3)


def test_on_trio_it_says_that_it_cannot():
    """It runs on asyncio alone: a fault, and another provider may be asked."""
    result = anyio.run(Loop(model=over_litellm.LiteLLM("openai/m", api_key=KEY)).run, "hi", backend="trio")

    assert ("failed", FaultKind.NOT_READY) == (result.outcome, result.fault.kind)


# ---------------------------------------------------------------- cases of the wire

FOLDER = Path(__file__).parents[1] / "wire" / "cases"
CHAT = [run for case in cases_in(FOLDER) if case.protocol == "openai-chat" for run in case.runs()]
# Where litellm destroys what the loop would decide by.
THEIRS = {
    "cumulative-snapshots": "there is no option for texts that are told from their beginning",
    "done-marker-without-finish-reason": "[DONE] is no end to litellm: it raises for want of a finish reason",
    "gemini-malformed-for-ever": "an unknown finish reason becomes `stop`",
    "gemini-malformed-function-call": "an unknown finish reason becomes `stop`",
    "insufficient-system-resource": "an unknown finish reason becomes `stop`",
    "stream-request-gets-json-error-200": "a body that is no stream becomes an empty reply that ended well",
    "stream-request-gets-plain-json": "a body that is no stream becomes an empty reply that ended well",
}


def through_litellm(endpoint):
    """The case's endpoint by litellm's route for OpenAI."""
    pattern = str(endpoint.compat.get("tool_id_pattern", ""))
    model = over_litellm.LiteLLM(
        f"openai/{endpoint.model}",
        api_key=endpoint.key,
        api_base=endpoint.base_url,
        name=endpoint.model,
        stream=endpoint.stream,
        call_id_pattern=pattern,
    )
    return model, close_pools


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(run, id=run.name, marks=[pytest.mark.xfail(reason=THEIRS[run.id])] if run.id in THEIRS else [])
        for run in CHAT
    ],
)
def test_a_case_of_the_wire(case, monkeypatch):
    """What servers do when they go wrong ends as it should through litellm too, but where it destroys the evidence."""
    monkeypatch.setattr(playing, "WAYS", {"openai-chat": through_litellm})

    assert [] == differences(case, playing.play(case))
