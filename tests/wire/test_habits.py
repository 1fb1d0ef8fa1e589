"""Habits of servers that are no case of their own: odd pieces of calls, odd chunks, odd errors, odd waits."""

from __future__ import annotations

import pytest

from fsm_loop.testing.wire.judge import differences
from fsm_loop.testing.wire.play import play
from tests.wire.parts import DONE, calls, case, says, sse

pytest.importorskip("openai")

WEATHER = {
    "name": "weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "script": [{"returns": "mild"}],
}
NOW = {
    "name": "now",
    "parameters": {"type": "object", "properties": {}, "required": []},
    "script": [{"returns": "noon"}],
}
OSLO = {"name": "weather", "arguments": {"city": "Oslo"}}
ROME = {"name": "weather", "arguments": {"city": "Rome"}}
WHOLE, OPEN, REST = '{"city": "Oslo"}', '{"city": ', '"Oslo"}'
SOUND = ("tool_pairing", "nonempty_tool_ids", "unique_tool_ids", "arguments_valid_json", "arguments_are_strings")
STOP, HI = sse(finish="stop"), sse("Hi.")
MISSING = object()


def chunk(delta, finish=None, **fields):
    """A chunk with this delta."""
    return {"sse": {"data": {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **fields}}}


def data(value, **record):
    """A record of this data."""
    return {"sse": {"data": value, **record}}


def piece(index=MISSING, call_id=MISSING, name=MISSING, arguments=MISSING):
    """A piece of a tool call with whatever is given of it."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not MISSING}
    given = {key: value for key, value in (("index", index), ("id", call_id)) if value is not MISSING}
    return {**given, "function": function}


def pieces(*them, finish=None):
    """A chunk with these pieces."""
    return chunk({"tool_calls": [*them]}, finish)


def stream(*steps):
    """A streamed reply of these steps."""
    return {"status": 200, "steps": [*steps]}


def failure(status, message, headers=None, **error):
    """An error in OpenAI's shape."""
    return {"status": status, "headers": headers or {}, "body": {"error": {"message": message, **error}}}


# fmt: off
CALLS = {
    "index as text":            ([pieces(piece("0", "a", "weather", OPEN)), pieces(piece("0", arguments=REST))], [OSLO]),
    "index null":               ([pieces(piece(None, "a", "weather", OPEN)), pieces(piece(None, arguments=REST))], [OSLO]),
    "index jumps":              ([pieces(piece(5, "a", "weather", WHOLE))], [OSLO]),
    "id comes late":            ([pieces(piece(0, name="weather", arguments=OPEN)), pieces(piece(0, "a", arguments=REST))], [OSLO]),
    "id and name in each":      ([pieces(piece(0, "a", "weather", OPEN)), pieces(piece(0, "a", "weather", REST))], [OSLO]),
    "empty id and name later":  ([pieces(piece(0, "a", "weather", OPEN)), pieces(piece(0, "", "", REST))], [OSLO]),
    "id is a number":           ([pieces(piece(0, 7, "weather", WHOLE))], [OSLO]),
    "arguments an object":      ([pieces(piece(0, "a", "weather", {"city": "Oslo"}))], [OSLO]),
    "arguments null at first":  ([pieces(piece(0, "a", "weather", None)), pieces(piece(0, arguments=WHOLE))], [OSLO]),
    "no arguments":             ([pieces(piece(0, "a", "now"))], [{"name": "now", "arguments": {}}]),
    "empty arguments":          ([pieces(piece(0, "a", "now", ""))], [{"name": "now", "arguments": {}}]),
    "two by turns":             ([pieces(piece(0, "a", "weather", OPEN)), pieces(piece(1, "b", "weather", OPEN)), pieces(piece(0, arguments=REST)), pieces(piece(1, arguments='"Rome"}'))], [OSLO, ROME]),
    "one id, two places":       ([pieces(piece(0, "a", "weather", WHOLE)), pieces(piece(1, "a", "weather", '{"city": "Rome"}'))], [OSLO, ROME]),
    "no index, two at once":    ([pieces(piece(call_id="a", name="weather", arguments=WHOLE), piece(call_id="b", name="weather", arguments='{"city": "Rome"}'))], [OSLO, ROME]),
    "neither, two at once":     ([pieces(piece(name="weather", arguments=WHOLE), piece(name="weather", arguments='{"city": "Rome"}'))], [OSLO, ROME]),
    "the old function_call":    ([chunk({"function_call": {"name": "weather", "arguments": OPEN}}), chunk({"function_call": {"arguments": REST}})], [OSLO]),
    "a message, not a delta":   ([data({"choices": [{"index": 0, "message": {"tool_calls": [piece(call_id="a", name="weather", arguments=WHOLE)]}}]})], [OSLO]),
    "finish in the same chunk": ([pieces(piece(0, "a", "weather", WHOLE), finish="tool_calls")], [OSLO]),
    "empty lists behind it":    ([pieces(piece(0, "a", "weather", WHOLE)), chunk({"tool_calls": []}), chunk({"tool_calls": None})], [OSLO]),
}
SHAPES = {
    "choices empty at first":   [data({"choices": [], "prompt_filter_results": [{}]}), HI, STOP, DONE],
    "no choices at first":      [data({"id": "x"}), HI, STOP, DONE],
    "delta null":               [data({"choices": [{"index": 0, "delta": None}]}), HI, STOP, DONE],
    "error null beside text":   [chunk({"content": "Hi."}, error=None), STOP, DONE],
    "error empty beside text":  [chunk({"content": "Hi."}, error={}), STOP, DONE],
    "usage null":               [chunk({"content": "Hi."}, usage=None), STOP, DONE],
    "two ends":                 [HI, STOP, DONE, DONE],
    "text after the end":       [HI, STOP, DONE, sse("more")],
    "an end with a space":      [HI, STOP, {"text": "data: [DONE] \n\n"}],
    "data on two lines":        [{"text": 'data: {"choices":[{"index":0,\ndata: "delta":{"content":"Hi."}}]}\n\n'}, STOP, DONE],
    "two events in one":        [{"text": 'data: {"choices":[{"delta":{"content":"H"}}]}\ndata: {"choices":[{"delta":{"content":"i."}}]}\n\n'}, STOP, DONE],
    "lines that end with CR":   [{"text": 'data: {"choices":[{"delta":{"content":"Hi."},"finish_reason":"stop"}]}\r\rdata: [DONE]\r\r'}],
    "a ping as an object":      [data({"type": "ping"}), HI, STOP, DONE],
    "nothing, in three ways":   [{"text": "data:\n\n"}, data({}), data("null"), HI, STOP, DONE],
    "byte by byte":             [{**HI, "split": 1}, STOP, DONE],
    "content in parts":         [chunk({"content": [{"type": "text", "text": "Hi."}]}), STOP, DONE],
    "another choice":           [data({"choices": [{"index": 1, "delta": {"content": "X"}}]}), HI, STOP, DONE],
    "finish in capitals":       [HI, sse(finish="STOP"), DONE],
    "finish of another kind":   [HI, sse(finish="eos"), DONE],
    "finish an empty text":     [chunk({"content": "Hi."}, ""), STOP, DONE],
    "finish the word null":     [chunk({"content": "H"}, "null"), chunk({"content": "i."}, "null"), STOP, DONE],
    "no end but a finish":      [HI, STOP],
    "a reset after the finish": [HI, STOP, {"end": "reset"}],
    "an error after it":        [HI, STOP, data({"error": {"message": "late", "code": 500}}), DONE],
    "a message, not a delta":   [data({"choices": [{"index": 0, "message": {"content": "Hi."}, "finish_reason": "stop"}]})],
}
TRANSIENT = "stream_error|server_error|overloaded|rate_limited|invalid_response|stream_dropped|stream_incomplete"
ERRORS = {
    "in a choice":              ([data({"choices": [{"delta": {}, "finish_reason": "error", "error": {"code": 502, "message": "Up"}}]})], TRANSIENT),
    "an event of that name":    ([data({"message": "Overloaded", "type": "overloaded_error"}, event="error")], "overloaded"),
    "a detail":                 ([data({"detail": "Internal Server Error"})], TRANSIENT),
    "a code and a message":     ([data({"code": 500, "message": "Internal error"})], TRANSIENT),
    "an object of that name":   ([data({"object": "error", "message": "died", "code": 500})], "server_error"),
    "a number":                 ([data({"error": 503})], TRANSIENT),
    "a yes":                    ([data({"error": True, "message": "boom"})], TRANSIENT),
    "a list":                   ([data([{"error": {"code": 503, "status": "UNAVAILABLE", "message": "x"}}])], "overloaded"),
    "a line of text":           ([{"text": "error: something broke\n\n"}], TRANSIENT),
    "a line of JSON":           ([{"text": '{"error":{"message":"overloaded","code":529}}\n'}], "overloaded"),
    "a rate, in words":         ([data({"error": {"message": "Rate limit reached. Please try again in 7s.", "code": "rate_limit_exceeded"}})], "rate_limited"),
    "in the middle of a call":  ([pieces(piece(0, "a", "weather", OPEN)), data({"error": {"message": "overloaded"}})], "overloaded"),
    "half a line":              ([{"text": 'data: {"choices":[{"delta":{"content":"Hel\n\n'}], TRANSIENT),
}
WAITS = {
    "seconds and a half":       ({"retry-after": "1.5"}, 1.5, 15),
    "no milliseconds":          ({"retry-after-ms": "0"}, 3, 10),
    "a window that is spent":   ({"x-ratelimit-reset-requests": "20s", "x-ratelimit-remaining-requests": "0"}, 20, 60),
    "a date that is past":      ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 3, 10),
    "a word":                   ({"retry-after": "soon"}, 3, 10),
    "less than nothing":        ({"retry-after": "-5"}, 3, 10),
}
# fmt: on


@pytest.mark.parametrize("name", CALLS)
def test_pieces_of_calls(name):
    """However the pieces come, the calls are those that were meant, and what is sent back is sound."""
    steps, expected = CALLS[name]
    checks = [{"check": each} for each in SOUND]
    expect = {"tool_calls": expected, "max_llm_calls": 2, "requests": [{"n": 2, "checks": checks}]}
    run = case(
        stream(*steps, sse(finish="tool_calls"), DONE), says("Hi."), setup={"tools": [WEATHER, NOW]}, expect=expect
    )

    assert [] == differences(run, play(run))


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_of_streams(name):
    """The answer is whole after one request."""
    run = case(stream(*SHAPES[name]))

    assert [] == differences(run, play(run))


@pytest.mark.parametrize("name", ERRORS)
def test_errors_inside_a_reply(name):
    """What passes is tried again, and nothing of the first try is shown."""
    steps, word = ERRORS[name]
    expect = {"events": [word, "backoff_started", "finish_stop"], "max_llm_calls": 2}
    run = case(stream(*steps), says("Hi."), setup={"tools": [WEATHER]}, expect=expect)

    assert [] == differences(run, play(run))


@pytest.mark.parametrize("name", WAITS)
def test_waits_that_are_asked_for(name):
    """A wait that makes sense is a lower bound; one that makes none is our own."""
    headers, least, most = WAITS[name]
    expect = {
        "events": ["rate_limited"],
        "max_llm_calls": 2,
        "waits": [{"after_request": 1, "min": least, "max": most}],
    }
    run = case(failure(429, "slow down", headers), says("Hi."), expect=expect)

    assert [] == differences(run, play(run))


PICTURE = [
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "look"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 4000}},
        ],
    }
]
TALK = [
    {"role": "user", "content": "x" * 3000},
    {"role": "assistant", "content": "y" * 3000},
    {"role": "user", "content": "go"},
]
# fmt: off
REPAIRS = {
    "another key":         (failure(401, "Incorrect API key provided"), {"credentials": ["old", "new"]}, ["auth_failed", "auth_refreshed"], {"check": "auth_differs_from", "request": 1}),
    "pictures too large":  (failure(413, "Request too large"), {"messages": PICTURE}, ["request_too_large", "media_stripped"], {"check": "smaller_than", "request": 1}),
    "pictures refused":    (failure(400, "image_url is only supported by certain models."), {"messages": PICTURE}, ["media_stripped"], {"check": "smaller_than", "request": 1}),
    "text too large":      (failure(413, "Request Entity Too Large"), {"messages": TALK}, ["request_too_large", "context_compressed"], {"check": "smaller_than", "request": 1}),
    "another parameter":   (failure(400, "Unsupported parameter: 'max_tokens' is not supported with this model.", param="max_tokens", code="unsupported_parameter"), {}, [], {"check": "differs_from", "request": 1}),
}
# fmt: on


@pytest.mark.parametrize("name", REPAIRS)
def test_requests_that_are_changed(name):
    """A request that cannot succeed is changed as it must be, and goes out again at once."""
    refusal, setup, events, check = REPAIRS[name]
    expect = {
        "events": events,
        "forbid_events": ["backoff_started"],
        "max_llm_calls": 2,
        "requests": [{"n": 2, "checks": [check]}],
    }
    run = case(refusal, says("Hi."), setup=setup, expect=expect)

    assert [] == differences(run, play(run))


def test_a_history_that_was_cut():
    """A result without its call, and a call without its result, brick nothing."""
    lost = {"role": "assistant", "content": "", "tool_calls": [{"id": "q", "name": "weather", "arguments": {}}]}
    stray = {"role": "tool", "content": "stale", "tool_call_id": "gone"}
    hi = {"role": "user", "content": "Hi"}
    checks = [{"check": "tool_pairing"}, {"check": "not_contains", "text": "gone"}, {"check": "roles_alternate"}]
    run = case(
        says("Hi."),
        setup={"messages": [hi, stray, lost, hi], "tools": [WEATHER]},
        expect={"requests": [{"n": 1, "checks": checks}]},
    )

    assert [] == differences(run, play(run))


def test_an_interrupted_tool_and_what_comes_after():
    """The call has its one result, the next request is sound, and nothing was waited for."""
    actions = [
        {"when": {"event": "tool_started"}, "delay": 5, "do": "interrupt"},
        {"when": {"event": "interrupted"}, "delay": 1, "do": "new_turn", "text": "another way"},
    ]
    slow = {**NOW, "script": [{"delay": 50, "returns": "late"}]}
    checks = [{"check": each} for each in ("tool_pairing", "roles_alternate", "ends_with_user_or_tool")]
    checks.append({"check": "tool_result_is_error", "tool_call_id": "call_a"})
    expect = {
        "tool_calls": [{"name": "now", "arguments": {}}],
        "max_llm_calls": 2,
        "max_virtual_seconds": 10,
        "requests": [{"n": 2, "checks": checks}],
    }
    run = case(calls("now", {}), says("Hi."), setup={"tools": [slow], "actions": actions}, expect=expect)

    assert [] == differences(run, play(run))
