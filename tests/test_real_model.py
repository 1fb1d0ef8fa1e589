"""Whole turns on a real model: llama.cpp on loopback, over real HTTP, with real cuts and a real kill."""

from __future__ import annotations

import pytest

from fsm_loop.providers.openai_chat import OpenAIChat
from tests.embedded import follow, server_process

local = pytest.importorskip("fsm_loop.providers.local")


@pytest.fixture(scope="module", name="server")
def _server():
    """One embedded server for all the tests of this file."""
    with local.start() as server:
        yield server


def run(server, prompt, **given):
    """One turn on the server, with what its consumer has on the screen in the end."""
    return follow(model_at(server), prompt, **given)


def model_at(server, base_url=None):
    """The model of the server, at another address where one is given."""
    return OpenAIChat(server.model, base_url=base_url or server.base_url)


def states(result):
    """The states on the way, each stay once."""
    path = [before for before, _, _ in result.path] + ["done"]
    return [state for state, last in zip(path, [None, *path], strict=False) if state != last]


def test_a_plain_answer(server):
    """A question is answered: the way is ready, calling, streaming, done, and what was shown is the answer."""
    result, shown = run(server, "Say hello.", max_output_tokens=60)

    assert ("completed", shown) == (result.outcome, result.text)
    assert result.text.strip()
    assert ["ready", "calling", "streaming", "done"] == states(result)
    assert result.usage.output_tokens > 0


def test_a_cut_answer_is_continued_to_one_text(server):
    """An answer that the output limit cuts several times is one text in the end, and one message."""
    result, shown = run(server, "What is the capital of France?", max_output_tokens=4, continuations=20)

    assert ("completed", shown) == (result.outcome, result.text)
    assert "Paris" in result.text
    assert result.counters["continuations"] >= 1
    assert states(result).count("truncated") == result.counters["continuations"]
    assert [{"role": "assistant", "content": result.text}] == result.messages[1:]


def test_a_tool_call_is_executed_and_answered(server):
    """A tool that the model asks for runs with the arguments that it gave, and the model answers with the result."""
    asked = []

    async def weather(city: str) -> str:
        """The weather in a city."""
        asked.append(city)
        return f"It is sunny in {city}, 23 degrees."

    result, _ = run(server, "What is the weather in Paris?", tools=[weather], max_output_tokens=200, max_iterations=3)

    assert result.outcome in ("completed", "exhausted")
    assert asked
    assert ["assistant", "tool"] == [message["role"] for message in result.messages[1:3]]
    assert f"It is sunny in {asked[0]}, 23 degrees." == result.messages[2]["content"]
    assert "tool_exec" in states(result)
    assert result.text.strip()


def test_an_interrupt_in_mid_stream(server):
    """A turn that is interrupted while it speaks keeps what was shown, and the next one is answered."""

    def stop(turn, shown):
        if len(shown) > 20:
            turn.interrupt("reader", "enough")

    result, shown = follow(model_at(server), "Write a long story about a fox.", stop)
    after, _ = run(server, "Say hello.", max_output_tokens=20, continuations=0)

    assert ("interrupted", "reader", "enough") == (result.outcome, result.issuer, result.reason)
    assert shown == result.text
    assert {"role": "assistant", "content": shown} == result.messages[-1]
    assert after.text.strip()


def test_a_server_killed_in_mid_stream_is_replaced(server):
    """When the server is killed while it speaks, the second one goes on, and nothing is shown twice."""
    with server_process() as (process, base_url):

        def kill(_turn, shown):
            if len(shown) > 20:
                process.kill()

        second = OpenAIChat(server.model, base_url=server.base_url, name="second")
        result, shown = follow(
            model_at(server, base_url),
            "Write a long story about a fox.",
            kill,
            fallbacks=[second],
            api_max_retries=0,
            max_output_tokens=80,
            continuations=2,
        )

    assert result.outcome in ("completed", "partial")
    assert shown == result.text
    assert len(result.text) > 40
    assert 1 == result.counters["fallbacks"]
    assert ["truncated", "calling", "fallback", "calling", "streaming"] == states(result)[3:8]
