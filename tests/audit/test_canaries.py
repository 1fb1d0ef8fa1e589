"""No secret in a trail, a log line, an error or a result: keys, headers and passwords that a server says again."""

from __future__ import annotations

import json

import pytest
import structlog
from anthropic import AsyncAnthropic
from anyio import run
from openai import AsyncOpenAI

from fsm_loop import LoopConfig
from fsm_loop.audit.jsonl import JsonLines
from fsm_loop.audit.log import LogWatcher
from fsm_loop.audit.reading import read
from fsm_loop.audit.sqlite import SqliteTrails
from fsm_loop.loop import Loop
from fsm_loop.providers.anthropic_messages import AnthropicMessages
from fsm_loop.providers.openai_chat import OpenAIChat
from fsm_loop.providers.openai_responses import OpenAIResponses
from fsm_loop.testing.server import Answer, ChatServer, Cut, Reset, Send, chunk, event, failure, stream, whole

# No pattern that looks like a key: what hides them must know them.
KEY, HEADER, PASSWORD = "canary-alpha-1111", "canary-bravo-2222", "canary-charlie-3333"
CANARIES = (KEY, HEADER, PASSWORD)
ALL = " ".join(CANARIES)
ECHO = {"x-request-id": KEY, "request-id": HEADER, "server": PASSWORD, "retry-after": "0"}
CONFIG = LoopConfig(
    api_max_retries=1, stream_retries=1, recoveries=0, base_delay_s=0, max_delay_s=0, jitter=0, read_timeout_s=5.0
)
STATUSES = (400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 529)
WORDS = (
    "", "context_length_exceeded", "invalid_api_key", "insufficient_quota", "max_tokens is too large", "unknown parameter",
    "content policy", "streaming is not supported", "image", "roles must alternate", "model not found",
)  # fmt: skip
ANSWERS = {
    **{
        f"{status} {words}": failure(status, f"{words} {ALL}", ECHO, code=KEY, param=HEADER, type=PASSWORD)
        for status in STATUSES
        for words in WORDS
    },
    "a page": Answer((Send(f"<title>{ALL}</title><p>{ALL}".encode()),), 502, {"content-type": "text/html"}),
    "an error in the stream": stream({"error": {"message": ALL, "code": KEY, "type": HEADER, "param": PASSWORD}}),
    "a stream that is none": Answer(
        (Send(f"data: {ALL}\n\n".encode()),), 200, {"content-type": "text/event-stream", **ECHO}
    ),
    "no JSON": whole(ALL),
    "cut": Answer((event(chunk({"content": "x"})), Cut()), 200, {"content-type": "text/event-stream", **ECHO}),
    "reset": Answer((Reset(),), 200, {"content-type": "text/event-stream", **ECHO}),
    "an answer": Answer(
        (event(chunk({"content": "ok"}, "stop")), event("[DONE]")), 200, {"content-type": "text/event-stream", **ECHO}
    ),
    "a redirect": Answer((), 307, {"location": f"http://u:{PASSWORD}@127.0.0.1:9/{KEY}"}),
}
FEW = ("400 ", "401 invalid_api_key", "429 ", "500 ", "a page", "an error in the stream", "no JSON", "cut", "an answer")
MODELS = {"chat": OpenAIChat, "messages": AnthropicMessages, "responses": OpenAIResponses}


SDKS = {"chat": AsyncOpenAI, "messages": AsyncAnthropic, "responses": AsyncOpenAI}


def wired(protocol, url):
    """A model that speaks for itself."""
    return MODELS[protocol]("m", base_url=url, api_key=KEY, headers={"x-proxy-key": HEADER})


def given(protocol, url):
    """A model over a client of its vendor's SDK that someone else has made, secrets and all."""
    client = SDKS[protocol](base_url=url, api_key=KEY, default_headers={"x-proxy-key": HEADER}, max_retries=0)
    model = MODELS[protocol]("m", client=client)
    model.aclose = client.close  # whoever made it closes it
    return model


def texts(tmp_path, protocol, answer, made=wired):
    """All that is said and kept of a turn whose server answers so."""
    lines = []
    with ChatServer([answer] * 8) as server, structlog.testing.capture_logs() as logged:
        host = server.base_url.removeprefix("http://")
        model = made(protocol, f"http://user:{PASSWORD}@{host}")
        with JsonLines(tmp_path / "t", content="full") as one, SqliteTrails(tmp_path / "s", content="full") as other:
            loop = Loop(model=model, config=CONFIG, watchers=[one, other, LogWatcher()])

            async def turn():
                async with loop:
                    return await loop.run("hi")

            result = run(turn)
        asked = [each.headers for each in server.requests]
    lines += [
        json.dumps(logged, default=str),
        repr(result),
        result.why,
        repr(result.trail),
        str(result.fault),
        repr(model),
    ]
    lines += [line.raw.decode() for name in ("t", "s") for line in read(tmp_path / name)]
    return asked, lines


@pytest.mark.parametrize("protocol", MODELS)
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_no_secret_is_told(tmp_path, protocol, answer):
    """The server had them all, and nothing that is kept or shown has one."""
    asked, lines = texts(tmp_path, protocol, answer)

    assert asked
    assert [] == [
        each for each in asked if HEADER not in str(each) or ("Basic" not in str(each) and KEY not in str(each))
    ]
    assert [] == [line for line in lines for canary in CANARIES if canary in line]


@pytest.mark.parametrize("protocol", MODELS)
@pytest.mark.parametrize("answer", FEW)
def test_no_secret_of_a_client_that_was_given_is_told(tmp_path, protocol, answer):
    """The key, the headers and the password are the client's, and are told by nobody either."""
    asked, lines = texts(tmp_path, protocol, ANSWERS[answer], given)

    assert asked
    assert [] == [line for line in lines for canary in CANARIES if canary in line]
