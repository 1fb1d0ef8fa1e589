"""The recorder: what it passes on, what it writes down, and what of anybody's never stands in what is written."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path

import aiohttp
import pytest

from fsm_loop.testing.wire.case import case_of, cases_in
from fsm_loop.testing.wire.judge import differences
from fsm_loop.testing.wire.play import play
from fsm_loop.testing.wire.recorder import LEAVES_S, Recorder
from fsm_loop.testing.wire.server import WireServer
from fsm_loop.testing.wire.virtual import run_virtual
from tests.wire.parts import case, says, sse
from tests.wire.recording import recorded

pytest.importorskip("openai")

# What cannot come out the same: a word of the user's after the final answer begins a new case, and a call that a model
# writes as plain text is disguised as all text is.
APART = ("steer-during-final-answer", "tool-call-as-xml-text")
CASES = [each for each in cases_in(Path(__file__).parent / "cases") if each.id not in APART]


@pytest.mark.parametrize("played", CASES, ids=lambda each: each.id)
def test_a_recorded_case_comes_to_the_same_end(played, tmp_path):
    """Faults, cut streams, resets and waits are recorded as such: the case, played, ends as the turn did."""
    through, files = recorded(played, tmp_path)
    (written,) = files
    written["setup"]["config"] = dict(played.setup["config"])  # what no proxy can know, and a person completes
    written["setup"]["actions"] = played.setup["actions"]
    again = case_of(written)
    replayed = play(again)

    assert [] == differences(again, replayed)
    assert (through.outcome, through.reason, len(through.requests)) == (
        replayed.outcome,
        replayed.reason,
        len(replayed.requests),
    )


# ---------------------------------------------------------------- nothing of anybody's

SECRETS = ["sk-canary-0123456789abcdef", "Zq9secretcookie77", "Zq9secretquery77", "Zq9opaquebearer77", "Zq9sessionid77"]
TEXTS = [
    "Canarius",
    "Wisteria",
    "Quillfeather",
    "wisteria.quill",
    "Zugspitzweg",
    "491512345678",
    "Überweisung",
    "山東太郎",
]
SAID = (
    "Dear Canarius Quillfeather <wisteria.quill@nest.example>, Zugspitzweg 7, +491512345678: Überweisung an 山東太郎."
    f" My keys are {SECRETS[1]}, {SECRETS[2]} and {SECRETS[3]}."
)

ARGUMENTS = json.dumps(
    {"city": "Zugspitzweg", "Wisteria": {"phone": 491512345678, "deep": json.dumps({"who": "Canarius"})}}
)


def chunk(delta, **facts):
    """One record of a chat stream."""
    return {"sse": {"data": {"id": "chatcmpl-Canarius", "choices": [{"index": 0, "delta": delta, **facts}]}}}


def pieces(text, size=3):
    """The text in pieces."""
    return [text[at : at + size] for at in range(0, len(text), size)]


def calls(arguments):
    """A piece of a call's arguments."""
    return chunk({"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]})


HEADERS = {
    "set-cookie": "session=Zq9sessionid77",
    "x-request-id": "req_Canarius",
    "openai-organization": "Wisteria",
    "retry-after": "2",
    "x-ratelimit-reset-tokens": "6m0s",
}
WRONG = {"message": f"Rate limit reached for Canarius in organization org-Wisteria0123 with {SECRETS[0]}. {SAID}"}
CHAT = [
    {"status": 429, "headers": HEADERS, "body": {"error": {**WRONG, "type": "requests", "failed_generation": SAID}}},
    {"status": 400, "body_text": f"<html><body>{SAID} {SECRETS[0]}</body></html>"},
    {"status": 200, "steps": [*(chunk({"content": each}) for each in pieces(SAID)), {"text": f'data: {{"choices":[{{"delta":{{"content":"{SAID[:40]}'}, {"end": "reset"}]},
    {"status": 200, "steps": [chunk({"reasoning_content": SAID, "content": None}), {"comment": SAID}, {**chunk({"content": SAID}), "split": 5}, {"text": f"oops: {SAID}\n\n"}, {"b64": "//5DYW5hcml1cwo="}, {"end": "abrupt"}]},
    {"status": 200, "steps": [chunk({"tool_calls": [{"index": 0, "id": "call_Canarius", "function": {"name": "look", "arguments": ""}}]}), *map(calls, pieces(ARGUMENTS)), chunk({}, finish_reason="tool_calls"), {"sse": {"data": "[DONE]"}}]},
    {"status": 200, "body": {"id": "x", "choices": [{"index": 0, "message": {"role": "assistant", "content": SAID, "name": "Canarius"}, "finish_reason": "stop"}], "metadata": {"Wisteria": 491512345678}}},
]  # fmt: skip
ANTHROPIC = [
    {"status": 529, "body": {"type": "error", "error": {"type": "overloaded_error", **WRONG}}},
    {"status": 200, "body": {"type": "message", "content": [{"type": "thinking", "thinking": SAID, "signature": "Canarius=="}, {"type": "text", "text": SAID}, {"type": "tool_use", "id": "toolu_Canarius", "name": "look", "input": json.loads(ARGUMENTS)}], "stop_reason": "tool_use"}},
]  # fmt: skip
RESPONSES = [
    {"status": 200, "steps": [{"sse": {"event": "response.output_text.delta", "data": {"type": "response.output_text.delta", "item_id": "msg_Canarius", "delta": each}}} for each in pieces(SAID)]},
    {"status": 200, "body": {"status": "completed", "instructions": SAID, "output": [{"type": "message", "content": [{"type": "output_text", "text": SAID}]}, {"type": "reasoning", "encrypted_content": "Canarius"}]}},
]  # fmt: skip
LOOK = {
    "name": "look",
    "description": SAID,
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "description": SAID, "enum": ["Zugspitzweg"]}},
    },
}


def asked(path):
    """A request that is full of what is somebody's, in the shape of its protocol."""
    call = {"id": "call_Canarius", "type": "function", "function": {"name": "look", "arguments": ARGUMENTS}}
    user, result = (
        {"role": "user", "content": SAID, "name": "Canarius"},
        {"role": "tool", "tool_call_id": "call_Canarius", "content": SAID},
    )
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,Canarius{SECRETS[0]}"}}
    if path.endswith("messages"):
        blocks = [
            {"type": "tool_result", "tool_use_id": "toolu_Canarius", "content": SAID},
            {"type": "text", "text": SAID},
        ]
        use = {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "toolu_Canarius", "name": "look", "input": json.loads(ARGUMENTS)}],
        }
        tools = [{"name": "look", "description": SAID, "input_schema": LOOK["parameters"]}]
        return {
            "model": "m",
            "system": SAID,
            "messages": [user, use, {"role": "user", "content": blocks}],
            "tools": tools,
            "metadata": {"user_id": "Canarius"},
        }
    if path.endswith("responses"):
        items = [
            user,
            {"type": "function_call", "call_id": "call_Canarius", "name": "look", "arguments": ARGUMENTS},
            {"type": "function_call_output", "call_id": "call_Canarius", "output": SAID},
        ]
        return {
            "model": "m",
            "instructions": SAID,
            "input": items,
            "tools": [{"type": "function", **LOOK}],
            "user": "Canarius",
        }
    parts = {"role": "user", "content": [{"type": "text", "text": SAID}, image]}
    messages = [
        {"role": "system", "content": SAID},
        user,
        {"role": "assistant", "content": SAID, "tool_calls": [call]},
        result,
        parts,
    ]
    return {"model": "m", "messages": messages, "tools": [{"type": "function", "function": LOOK}], "user": "Canarius"}  # fmt: skip


def asks(exchange, path, folder, *, body=None, keep_text=False, **facts):
    """All the answers of a case, asked for through a recorder: their bodies, and what was written, as text."""

    async def main():
        headers = {"authorization": f"Bearer {SECRETS[3]}", "x-api-key": SECRETS[0], "cookie": f"a={SECRETS[1]}"}
        server = WireServer(case(*exchange, **facts))
        told = []
        async with server, Recorder(f"{server.root_url}/v1", folder, keep_text=keep_text, tell=told.append) as recorder:
            async with aiohttp.ClientSession(headers=headers) as client:
                bodies = [
                    await _ask(client, f"{recorder.root_url}{path}?key={SECRETS[2]}", body or asked(path))
                    for _ in exchange
                ]
            await asyncio.sleep(2 * LEAVES_S)
        return bodies, told, server

    bodies, told, server = run_virtual(main)
    return bodies, told, server, "".join(each.read_text() for each in sorted(folder.rglob("*")))


async def _ask(client, url, body):
    try:
        async with client.post(url, json=body) as answer:
            return await answer.read()
    except aiohttp.ClientError as error:
        return type(error)


@pytest.mark.parametrize("keep_text", [False, True])
@pytest.mark.parametrize(
    ("path", "exchange"),
    [("/v1/chat/completions", CHAT), ("/v1/messages", ANTHROPIC), ("/v1/responses", RESPONSES)],
)
def test_nothing_of_anybodys_is_written(path, exchange, keep_text, tmp_path):
    """No credential, and without --keep-text no text, name, number or address, in any byte of what is written."""
    _, _, server, written = asks(exchange, path, tmp_path, keep_text=keep_text)
    plain = json.dumps(json.loads(written), ensure_ascii=False)  # so that escapes hide nothing

    assert len(exchange) == len(json.loads(written)["exchange"])
    assert [] == [each for each in SECRETS if each in plain]
    assert [each for each in TEXTS if each in plain] == (TEXTS if keep_text else [])
    assert SECRETS[3] in server.requests[0].headers["authorization"]  # and it was passed on


def test_what_an_error_says_can_still_be_read(tmp_path):
    """The words of which errors are made stay, and their numbers: a case of a rate limit is one still."""
    _, _, _, written = asks(CHAT[:1], "/v1/chat/completions", tmp_path)
    (answer,) = json.loads(written)["exchange"]

    assert answer["body"]["error"]["message"].startswith("Rate limit reached for ")
    assert "requests" == answer["body"]["error"]["type"]
    assert {"retry-after": "2", "x-ratelimit-reset-tokens": "6m0s"}.items() <= answer["headers"].items()
    assert {"content-type", "retry-after", "x-ratelimit-reset-tokens", "x-request-id"} == set(answer["headers"])


# ---------------------------------------------------------------- what is passed on, and what is recorded

CHAT_PATH = "/v1/chat/completions"
PLAIN = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True}


def test_with_kept_text_the_answers_are_what_they_were(tmp_path):
    """Piece by piece, each silence where it was, and each cut where it was."""
    steps = [sse("Hi"), {"text": 'data: {"choices":[{"index":0,"delta":{"conte', "delay": 2.5}, {"text": 'nt":"."}}]}\n\n'}, {"b64": "/w=="}, {"delay": 30, "end": "reset"}]  # fmt: skip
    _, _, _, written = asks([{"status": 200, "headers_delay": 4, "steps": steps}], CHAT_PATH, tmp_path, body=PLAIN, keep_text=True)  # fmt: skip
    (answer,) = json.loads(written)["exchange"]
    silence = answer["steps"][-1].pop("delay")

    assert (4, {"end": "reset"}) == (answer["headers_delay"], answer["steps"][-1])
    assert steps[:-1] == answer["steps"][:-1]
    assert 30 <= silence < 31  # the server gives a client time to read before a reset


@pytest.mark.parametrize(
    ("response", "kind", "body"),
    [
        ({"connect": "close"}, "transport_drop", aiohttp.ServerDisconnectedError),
        ({"connect": "reset"}, "transport_drop", None),
        ({"status": 200, "steps": [{"sse": {"data": "x"}}, {"end": "abrupt"}]}, "transport_drop", None),
        ({"status": 200, "headers": {"content-length": "9"}, "body_text": "ab"}, "transport_drop", None),
        ({"status": 503, "headers": {"content-type": "text/html"}, "body_text": "<p>busy</p>"}, "server_error", b"<p>busy</p>"),
        ({"status": 429, "body": {"error": "slow"}}, "rate_limit", b'{"error":"slow"}'),
    ],
)  # fmt: skip
def test_each_end_is_recorded_and_passed_on(response, kind, body, tmp_path):
    """What a client gets is what the server did, and the case says it with the same words."""
    bodies, _, _, written = asks([response], CHAT_PATH, tmp_path, body=PLAIN, keep_text=True)
    found = json.loads(written)
    (answer,) = found["exchange"]

    assert kind == found["kind"]
    assert {**response, **({"headers": answer["headers"]} if "headers" in answer else {})} == answer
    assert set(response.get("headers", {})) <= set(answer.get("headers", {}))
    assert (
        (isinstance(bodies[0], type) and issubclass(bodies[0], aiohttp.ClientError))
        if body is None
        else body == bodies[0]
    )


def test_a_client_that_leaves(tmp_path):
    """A silence is one as long as the client bore it; the answer before the next request is over."""

    async def main():
        hanging = {"status": 200, "steps": [sse("Hi"), {"end": "hang"}]}
        server = WireServer(case(hanging, says("Hi.")))
        async with server, Recorder(server.root_url, tmp_path) as recorder, aiohttp.ClientSession() as client:
            url = f"{recorder.base_url}{CHAT_PATH}"
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(50), client.post(url, json=PLAIN) as answer:
                    await answer.read()
            await _ask(client, url, PLAIN)
            await asyncio.sleep(2 * LEAVES_S)

    run_virtual(main)
    (path,) = tmp_path.iterdir()
    found = json.loads(path.read_text())

    assert ["hang", None] == [each["steps"][-1].get("end") for each in found["exchange"]]
    assert "The client left before answer 1 was over" in found["notes"]
    assert "stall" == found["kind"]


def test_a_server_that_is_away(tmp_path):
    """However often it is asked meanwhile, that nobody listens is one answer; it lasts until the next one is there."""
    down = {"connect": "refuse", "down_for": 100}

    async def main():
        server = WireServer(case(down, says("Hi.")))
        async with server, Recorder(server.root_url, tmp_path) as recorder, aiohttp.ClientSession() as client:
            for _ in range(3):
                await _ask(client, f"{recorder.base_url}{CHAT_PATH}", PLAIN)
                await asyncio.sleep(60)

    run_virtual(main)
    (path,) = tmp_path.iterdir()
    away, answer = json.loads(path.read_text())["exchange"]

    assert {"connect": "refuse", "down_for": 90.0} == away
    assert 200 == answer["status"]


def test_turns_are_cases_of_their_own(tmp_path):
    """A turn that is over is followed by another case; so is one that another client asks at the same time."""
    _, told, _, _ = asks([says("Hi."), says("Ho.")], CHAT_PATH, tmp_path, body=PLAIN)

    assert ["recorded-openai-chat-1.json", "recorded-openai-chat-2.json"] == sorted(
        each.name for each in tmp_path.iterdir()
    )
    assert [f"{tmp_path}/recorded-openai-chat-1.json: 1 request; status 200"] == told[:1]


def test_what_is_there_is_never_overwritten(tmp_path):
    """A second recording in the same folder goes on where the first one ended."""
    for _ in range(2):
        asks([says("Hi.")], CHAT_PATH, tmp_path, body=PLAIN)

    assert 2 == len([*tmp_path.iterdir()])


def test_other_requests_are_passed_on_alone(tmp_path):
    """What is no call of a model is answered, and not recorded."""
    bodies, told, _, _ = asks([{"status": 200, "body": {"data": []}}], "/v1/models", tmp_path)

    assert [b'{"data":[]}'] == bodies
    assert ["POST /v1/models: passed on, not recorded"] == told
    assert [] == [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    "body",
    [[], {"messages": 3}, {"messages": ["x"]}, {"messages": [{"role": "user", "content": {"a": 1}, "tool_calls": [3]}]}, {"model": 7, "tools": [1, {"name": []}]}],
)  # fmt: skip
def test_a_request_of_no_known_shape_is_passed_on(body, tmp_path):
    """Whether it can be recorded or not: the client gets its answer."""
    bodies, *_ = asks([{"status": 400, "body": {"error": "no"}}], CHAT_PATH, tmp_path, body=body)

    assert [b'{"error":"no"}'] == bodies


def test_a_packed_body_is_unpacked(tmp_path):
    """A case is to be read: what comes packed all the same is recorded, and passed on, as what it is."""
    import base64

    packed = base64.b64encode(gzip.compress(b'{"error":"slow"}')).decode()
    response = {"status": 429, "headers": {"content-encoding": "gzip"}, "body_b64": packed}
    bodies, _, _, written = asks([response], CHAT_PATH, tmp_path, body=PLAIN, keep_text=True)

    assert [b'{"error":"slow"}'] == bodies
    assert "slow" in written


def test_an_answer_that_is_too_large(tmp_path, monkeypatch):
    """It is passed on whole, and its turn is left out, with a word."""
    monkeypatch.setattr("fsm_loop.testing.wire.recorded.MOST_ANSWER_BYTES", 100)
    bodies, told, _, _ = asks([says("Hi." * 100)], CHAT_PATH, tmp_path, body=PLAIN)

    assert b"Hi.Hi." in bodies[0]
    assert "is larger than" in told[0]
    assert [] == [*tmp_path.iterdir()]


def test_a_date_to_wait_for_becomes_seconds(tmp_path):
    """When the case is played the date is long past, and the wait is the same."""
    headers = {"retry-after": "Wed, 01 Jan 2025 00:00:30 GMT", "date": "Wed, 01 Jan 2025 00:00:00 GMT"}
    _, _, _, written = asks([{"status": 503, "headers": headers, "body": {}}], CHAT_PATH, tmp_path, body=PLAIN)

    assert "30" == json.loads(written)["exchange"][0]["headers"]["retry-after"]


def test_a_case_says_what_it_is_of(tmp_path):
    """Models, tools with the results that came, several credentials: what requests tell is in the setup."""
    call = {"id": "call_a", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    exchange = [{"status": 401, "body": {}}, parts_calls(), says("Hi.")]

    async def main():
        server = WireServer(case(*exchange))
        async with server, Recorder(server.root_url, tmp_path) as recorder, aiohttp.ClientSession() as client:
            tools = [
                {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
            ]
            ask = {**PLAIN, "tools": tools, "max_tokens": 77}
            more = [
                *PLAIN["messages"],
                {"role": "assistant", "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "call_a", "content": "sun"},
            ]
            for key, body in (("one", ask), ("two", ask), ("two", {**ask, "messages": more, "model": "n"})):
                async with client.post(
                    f"{recorder.base_url}{CHAT_PATH}", json=body, headers={"authorization": key}
                ) as answer:
                    await answer.read()
            await asyncio.sleep(2 * LEAVES_S)  # fmt: skip

    run_virtual(main)
    (path,) = tmp_path.iterdir()
    found = json.loads(path.read_text())
    (tool,) = found["setup"]["tools"]

    assert (["m", "n"], ["key-1", "key-2"], {"max_tokens": 77}) == tuple(found["setup"][each] for each in ("models", "credentials", "config"))  # fmt: skip
    assert ("look", 1, 3) == (tool["name"], len(tool["script"]), len(tool["script"][0]["returns"]))
    assert ("done", 3, {"max_count": 1}) == tuple(found["expect"][each] for each in ("outcome", "max_llm_calls", "tool_calls"))  # fmt: skip
    assert case_of(found).id == path.stem


def parts_calls():
    """A reply that asks for the tool `look`."""
    from tests.wire.parts import calls as reply

    return reply("look", {})


def test_a_port_that_is_taken(tmp_path):
    """The one who starts it is told."""

    async def main():
        async with Recorder("http://127.0.0.1:9", tmp_path) as one, Recorder("http://127.0.0.1:9", tmp_path, one.port):
            pass

    with pytest.raises(OSError, match="in use"):
        run_virtual(main)
