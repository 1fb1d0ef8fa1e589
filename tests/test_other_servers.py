"""Whole turns on servers that nobody here wrote: llama.cpp in three dialects, and litellm's proxy in front of it.

The proxy needs other versions of what is pinned here, so it has an environment of its own: `make proxy`.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from fsm_loop.core.faults import FaultKind
from fsm_loop.providers.anthropic_messages import AnthropicMessages
from fsm_loop.providers.openai_chat import OpenAIChat
from fsm_loop.providers.openai_responses import OpenAIResponses
from tests.embedded import LIMIT_S, follow, server_process

local = pytest.importorskip("fsm_loop.providers.local")

PROXY = Path(sys.prefix) / "proxy" / "bin" / "litellm"
DIALECTS = ["chat", "messages", "responses"]
STORY = "Write a long story about a fox."


def model_at(base_url, dialect, *, name="smollm2", stream=True):
    """The server as a model in this dialect; each request on a connection of its own, for llama.cpp closes them unsaid."""
    given = {"api_key": "none", "stream": stream, "headers": {"Connection": "close"}, "name": "first"}
    if dialect == "chat":
        return OpenAIChat(name, base_url=base_url, **given)
    if dialect == "responses":
        return OpenAIResponses(name, base_url=base_url, **given)
    return AnthropicMessages(name, base_url=base_url.removesuffix("/v1"), **given)


def stop(turn, shown):
    """Interrupt a turn that has begun to speak."""
    if len(shown) > 20:
        turn.interrupt("reader", "enough")


@pytest.fixture(scope="module", name="server")
def _server():
    """One embedded server for all the tests of this file."""
    with local.start() as server:
        yield server.base_url


# ---------------------------------------------------------------- llama.cpp


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_plain_answer(server, dialect, stream):
    """A question is answered in every dialect, streamed or in one body, and the tokens are counted."""
    result, shown = follow(model_at(server, dialect, stream=stream), "Say hello.", max_output_tokens=60)

    assert ("completed", shown) == (result.outcome, result.text)
    assert result.text.strip()
    assert result.usage.input_tokens > 0
    assert result.usage.output_tokens > 0


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_cut_answer_is_continued_to_one_text(server, dialect, stream):
    """An answer that the output limit cuts is one text and one message in the end."""
    model = model_at(server, dialect, stream=stream)
    result, shown = follow(model, "What is the capital of France?", max_output_tokens=4, continuations=20)

    assert ("completed", shown) == (result.outcome, result.text)
    assert "Paris" in result.text
    assert result.counters["continuations"] >= 1
    assert [{"role": "assistant", "content": result.text}] == result.messages[1:]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_tool_call_is_executed_and_answered(server, dialect, stream):
    """A tool that the model asks for runs, and the model answers with its result."""
    asked = []

    async def weather(city: str) -> str:
        """The weather in a city."""
        asked.append(city)
        return f"It is sunny in {city}, 23 degrees."

    model = model_at(server, dialect, stream=stream)
    result, _ = follow(model, "What is the weather in Paris?", tools=[weather], max_output_tokens=200, max_iterations=3)

    assert result.outcome in ("completed", "exhausted")
    assert f"It is sunny in {asked[0]}, 23 degrees." == result.messages[2]["content"]
    assert result.text.strip()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_interrupt_in_mid_stream(server, dialect):
    """A turn that is interrupted while it speaks keeps what was shown, and the server answers the next one."""
    result, shown = follow(model_at(server, dialect), STORY, stop)
    after, _ = follow(model_at(server, dialect), "Say hello.", max_output_tokens=20, continuations=0)

    assert ("interrupted", "reader", shown) == (result.outcome, result.issuer, result.text)
    assert after.text.strip()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_server_killed_in_mid_stream_is_a_named_end(dialect):
    """When the server is killed while it speaks, what was shown is kept and the end says what went wrong."""
    with server_process() as (process, base_url):

        def kill(_turn, shown):
            if len(shown) > 20:
                process.kill()

        result, shown = follow(model_at(base_url, dialect), STORY, kill, api_max_retries=0, recoveries=0)

    assert result.outcome in ("partial", "failed")
    assert FaultKind.CONNECT_FAILED is result.fault.kind
    assert shown == result.text
    assert len(shown) > 20


# ---------------------------------------------------------------- litellm's proxy in front of it

needs_proxy = pytest.mark.skipif(not PROXY.exists(), reason="litellm's proxy is not installed: make proxy")


@contextmanager
def proxy_of(upstreams, folder):
    """The proxy in a process of its own, on a free port, with these servers behind it by name: its base URL."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = folder / "proxy.yaml"
    config.write_text(
        "model_list:\n"
        + "".join(
            f"  - model_name: {name}\n    litellm_params: {{model: openai/smollm2, api_base: '{url}', api_key: none}}\n"
            for name, url in upstreams.items()
        )
        + "router_settings: {num_retries: 0, disable_cooldowns: true}\n"
        "litellm_settings: {num_retries: 0}\n"
    )
    environ = {name: value for name, value in os.environ.items() if not name.startswith("LITELLM")}
    environ |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "NO_PROXY": "127.0.0.1"}
    command = [PROXY, "--config", config, "--host", "127.0.0.1", "--port", str(port), "--telemetry", "False"]
    log = folder / "proxy.log"
    with (
        log.open("wb") as told,
        subprocess.Popen(command, stdout=told, stderr=told, env=environ, cwd=folder) as process,
    ):
        try:
            until_ready(process, f"http://127.0.0.1:{port}/health/liveliness", log)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()


def until_ready(process, url, log):
    """Wait for the proxy to answer; it takes seconds to begin."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except OSError:
            time.sleep(0.2)  # until another program is there, nothing else can tell
        else:
            return
    pytest.fail(f"litellm's proxy did not start: {log.read_text(errors='replace')[-2000:]}")


@pytest.fixture(scope="module", name="doomed")
def _doomed():
    """A server for each dialect that is there to be killed: its process and its base URL."""
    with ExitStack() as stack:
        yield {dialect: stack.enter_context(server_process()) for dialect in DIALECTS}


@pytest.fixture(scope="module", name="proxy")
def _proxy(server, doomed, tmp_path_factory):
    """One proxy for the tests below, for it takes seconds to begin."""
    upstreams = {"small": server} | {dialect: base_url for dialect, (_, base_url) in doomed.items()}
    with proxy_of(upstreams, tmp_path_factory.mktemp("proxy")) as base_url:
        yield base_url


@needs_proxy
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_plain_answer_through_the_proxy(proxy, dialect, stream):
    """The proxy answers in every dialect, streamed or in one body."""
    result, shown = follow(model_at(proxy, dialect, name="small", stream=stream), "Say hello.", max_output_tokens=60)

    assert ("completed", shown) == (result.outcome, result.text), result.why
    assert result.text.strip()


@needs_proxy
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_tool_call_through_the_proxy(proxy, dialect):
    """A tool call comes through the proxy whole, and its result goes back."""

    async def weather(city: str) -> str:
        """The weather in a city."""
        return f"It is sunny in {city}, 23 degrees."

    model = model_at(proxy, dialect, name="small")
    result, _ = follow(model, "What is the weather in Paris?", tools=[weather], max_output_tokens=200, max_iterations=3)

    assert result.outcome in ("completed", "exhausted"), result.why
    assert "23 degrees." in result.messages[2]["content"]


@needs_proxy
@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_interrupt_through_the_proxy(proxy, dialect):
    """A turn behind the proxy is interrupted like any other."""
    result, shown = follow(model_at(proxy, dialect, name="small"), STORY, stop)

    assert ("interrupted", shown) == (result.outcome, result.text)


@needs_proxy
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_server_killed_behind_the_proxy_is_a_named_end(proxy, doomed, dialect):
    """When the server behind the proxy is killed while it speaks, the turn ends with a name and a fault."""
    process, _ = doomed[dialect]

    def kill(_turn, shown):
        if len(shown) > 20:
            process.kill()

    model = model_at(proxy, dialect, name=dialect)
    result, shown = follow(model, STORY, kill, api_max_retries=0, recoveries=0, max_output_tokens=2000)

    assert result.outcome in ("partial", "failed"), result.why
    assert result.fault is not None
    assert shown == result.text
    assert len(shown) > 20
