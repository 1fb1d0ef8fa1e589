"""Whole turns over the real provider and a real server on loopback: what the page decides, the wire shows."""

from __future__ import annotations

import time

import anyio
import anyio.to_thread
import pytest

from fsm_loop import Loop, LoopConfig
from fsm_loop.ports import TextDelta
from fsm_loop.providers.openai_chat import OpenAIChat
from fsm_loop.testing import server as s

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("way")]

CONFIG = LoopConfig(base_delay_s=0, recoveries=0)
STOP = s.chunk(finish="stop")
CALLS = s.chunk(finish="tool_calls")


def look(at: str) -> str:
    """Look at something."""
    return f"{at} is green"


async def turn(answers, *, config=CONFIG, tools=(), key="k", prompt="Hello"):
    """One turn against a server that follows this script: its result, and the requests that the server saw."""
    with s.ChatServer(answers) as server:
        async with OpenAIChat("m", base_url=server.base_url, api_key=key) as model:
            with anyio.fail_after(10):
                result = await Loop(model=model, tools=tools, config=config).run(prompt)
    return result, server.requests


def roles_of(received):
    """The roles of a request's messages, in order."""
    return [each["role"] for each in received.body["messages"]]


ASKS = s.stream(
    s.called(0, "c1", "look", ""), s.called(0, None, None, '{"at": '), s.called(0, None, None, '"it"}'), CALLS
)


async def test_a_tool_is_called_and_answered():
    """The call that came in fragments runs, and its result goes back under its id."""
    result, requests = await turn([ASKS, s.stream(s.said("Green."), STOP)], tools=[look])

    assert ("completed", "Green.", 2) == (result.outcome, result.text, result.llm_calls)
    assert ["user", "assistant", "tool"] == roles_of(requests[1])
    assert {"role": "tool", "tool_call_id": "c1", "content": "it is green"} == requests[1].body["messages"][2]
    assert '{"at": "it"}' == requests[1].body["messages"][1]["tool_calls"][0]["function"]["arguments"]


async def test_a_drop_with_a_tool_in_flight_is_asked_again():
    """A call that came half is thrown away, and the one that comes whole runs once."""
    ran = []

    def note(text: str) -> str:
        """Note something."""
        ran.append(text)
        return "noted"

    half = s.stream(s.said("Now. "), s.called(0, "c1", "note", '{"text": "a'), end=s.Reset())
    whole = s.stream(s.said("Now. "), s.called(0, "c2", "note", '{"text": "all"}'), CALLS)
    result, requests = await turn([half, whole, s.stream(s.said("Done."), STOP)], tools=[note])

    assert ("completed", ["all"], 3) == (result.outcome, ran, len(requests))
    assert requests[0].body["messages"] == requests[1].body["messages"]
    assert "streaming.stream_dropped.tool_in_flight+stream_retries_left" in [row for _, row, _ in result.path]


async def test_a_rate_limit_is_waited_for():
    """Retry-After is waited for, and each request on the wire is one attempt of the turn."""
    busy = s.failure(429, "Rate limit reached", {"retry-after-ms": "30"}, code="rate_limit_exceeded")
    result, requests = await turn([busy, busy, s.stream(s.said("Hi."), STOP)])

    assert ("completed", "Hi.") == (result.outcome, result.text)
    assert 3 == result.llm_calls == len(requests)
    assert result.waited_s >= 0.06


async def test_a_quota_is_not_waited_for():
    """Money that is spent ends the turn after one request, and says so."""
    result, requests = await turn(lambda received: s.failure(429, "No money", code="insufficient_quota"))

    assert ("failed", "quota_spent", 1) == (result.outcome, result.fault.kind.word, len(requests))


async def test_an_error_inside_a_stream_is_retried():
    """An error under the status 200, before anything was shown, is a failed call."""
    broken = s.stream(s.chunk({"role": "assistant"}), {"error": {"message": "Down", "code": 502}})
    result, requests = await turn([broken, s.stream(s.said("Hi."), STOP)])

    assert ("completed", "Hi.", 2) == (result.outcome, result.text, len(requests))


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(s.Reset(), id="reset"),
        pytest.param(s.Cut(), id="closed"),
        pytest.param(s.event({"error": {"message": "Down", "code": 502}}), id="an error inside"),
        pytest.param(s.Send(b""), id="ended without saying so"),
    ],
)
async def test_a_text_that_breaks_off_is_continued(end):
    """What was shown stays, the model is asked to go on behind it, and the pieces are one answer."""
    answers = [s.stream(s.said("One, "), s.said("two, "), end=end), s.stream(s.said("three."), STOP)]
    result, requests = await turn(answers)

    assert ("completed", "One, two, three.", 2) == (result.outcome, result.text, len(requests))
    assert ["user", "assistant", "user"] == roles_of(requests[1])
    assert "One, two, " == requests[1].body["messages"][1]["content"]


async def test_a_text_that_was_cut_is_continued():
    """A finish reason `length` is followed by a request to go on."""
    answers = [s.stream(s.said("One, "), s.chunk(finish="length")), s.stream(s.said("two."), STOP)]
    result, requests = await turn(answers, config=LoopConfig(max_output_tokens=7))

    assert ("completed", "One, two.") == (result.outcome, result.text)
    assert 7 == requests[0].body["max_tokens"]


async def test_an_interrupt_closes_the_connection():
    """The turn ends at once with what was shown, and the server sees its client go."""
    with s.ChatServer([s.stream(s.said("Once "), end=s.Hang())]) as server:
        async with OpenAIChat("m", base_url=server.base_url) as model:
            async with Loop(model=model, config=CONFIG).stream("Hello") as running:
                async for note in running:
                    if isinstance(note, TextDelta):
                        began = time.perf_counter()
                        running.interrupt("tester")
            took_s = time.perf_counter() - began

            assert ("interrupted", "Once ") == (running.result.outcome, running.result.text)
            assert await anyio.to_thread.run_sync(server.went_away.wait, 5)
            assert took_s < 1  # 0.05 is the aim; the bound here is for a machine under load


async def test_a_stream_that_falls_silent_is_left():
    """The turn's watch ends a silent stream, the connection is closed, and the next attempt has a fresh one."""
    with s.ChatServer([s.stream(end=s.Hang()), s.stream(s.said("Hi."), STOP)]) as server:
        async with OpenAIChat("m", base_url=server.base_url) as model:
            config = LoopConfig(base_delay_s=0, first_token_timeout_s=0.1)
            result = await Loop(model=model, config=config).run("Hello")

            assert ("completed", "Hi.", 2) == (result.outcome, result.text, server.connections)
            assert await anyio.to_thread.run_sync(server.went_away.wait, 5)


async def test_a_key_that_ran_out_is_refreshed():
    """A 401 leads to a fresh key and the same request again."""
    keys = iter(["old", "new"])
    result, requests = await turn([s.failure(401, "expired"), s.stream(s.said("Hi."), STOP)], key=lambda: next(keys))

    assert ("completed", ["Bearer old", "Bearer new"]) == (
        result.outcome,
        [each.headers["authorization"] for each in requests],
    )


@pytest.mark.parametrize(
    ("refusal", "gone"),
    [
        ("Streaming is not supported for this model", {"stream", "stream_options"}),
        ("Unsupported parameter: 'stream_options'", {"stream_options"}),
    ],
)
async def test_what_a_provider_does_not_know_is_left_out(refusal, gone):
    """The request is changed by what the provider refused, and by nothing else."""
    result, requests = await turn([s.failure(400, refusal), s.completion("Hi.")])

    assert ("completed", "Hi.") == (result.outcome, result.text)
    assert gone == requests[0].body.keys() - requests[1].body.keys()


async def test_the_output_limit_takes_its_other_name():
    """A model that knows the limit by its new name gets it under that name."""
    refusal = s.failure(
        400, "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."
    )
    result, requests = await turn([refusal, s.completion("Hi.")], config=LoopConfig(max_output_tokens=7))

    assert "completed" == result.outcome
    assert (7, None) == (requests[1].body.get("max_completion_tokens"), requests[1].body.get("max_tokens"))


async def test_an_output_limit_that_is_too_high_is_lowered():
    """The limit that the provider names is the next request's."""
    refusal = s.failure(400, "max_tokens is too large: 99. This model supports at most 64 completion tokens")
    result, requests = await turn([refusal, s.completion("Hi.")], config=LoopConfig(max_output_tokens=99))

    assert ("completed", [99, 64]) == (result.outcome, [each.body["max_tokens"] for each in requests])


async def test_a_tools_broken_text_is_cleaned():
    """A lone surrogate out of a tool reaches no server: the request is cleaned and sent."""

    def read() -> str:
        """Read it."""
        return "a\ud800b"

    asks = s.stream(s.called(0, "c1", "read", "{}"), CALLS)
    result, requests = await turn([asks, s.stream(s.said("Read."), STOP)], tools=[read])

    assert ("completed", 2) == (result.outcome, len(requests))
    assert "a�b" == requests[1].body["messages"][2]["content"]


async def test_the_last_call_forbids_tools():
    """When the budget is spent, tools are defined for the history that holds them, and forbidden."""
    result, requests = await turn(
        [ASKS, s.stream(s.said("Green, I think."), STOP)], tools=[look], config=LoopConfig(max_iterations=1)
    )

    assert ("exhausted", "Green, I think.") == (result.outcome, result.text)
    assert "none" == requests[1].body["tool_choice"]
    assert requests[0].body["tools"] == requests[1].body["tools"]


async def test_another_server_takes_over():
    """Where the first server is gone for good, the second one answers."""
    with (
        s.ChatServer([s.failure(404, "The model `m` does not exist")]) as first,
        s.ChatServer([s.completion("Hi.")]) as second,
    ):
        async with OpenAIChat("m", base_url=first.base_url) as one, OpenAIChat("n", base_url=second.base_url) as other:
            result = await Loop(model=one, fallbacks=[other], config=CONFIG).run("Hello")

    assert ("completed", "Hi.", 2) == (result.outcome, result.text, result.llm_calls)
    assert "n" == second.requests[0].body["model"]


async def test_what_a_turn_cost_is_added_up():
    """The usage of each reply is in the result."""
    usage = s.chunk(choices=[], usage={"prompt_tokens": 3, "completion_tokens": 2})
    asks = s.stream(s.called(0, "c1", "look", '{"at": "it"}'), CALLS, usage)
    result, _ = await turn([asks, s.stream(s.said("Green."), STOP, usage)], tools=[look])

    assert (6, 4) == (result.usage.input_tokens, result.usage.output_tokens)


async def test_no_key_is_in_what_a_turn_leaves_behind():
    """A provider that echoes the key does not bring it into the result or the trail."""
    result, _ = await turn([s.failure(403, "key sk-very-secret-0123 is not allowed")], key="sk-very-secret-0123")

    assert "failed" == result.outcome
    assert "very-secret" not in f"{result}{result.why}"
