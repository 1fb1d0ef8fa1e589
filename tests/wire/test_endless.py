"""Replies without end, without bottom and without measure: each meets a limit that has a name."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fsm_loop.core.faults import FaultKind
from fsm_loop.providers import chat_read, fields, said, sse, wired
from tests.wire.fuzz import Reply, framed, framed_by_aws
from tests.wire.fuzzed_turns import Bench, bare
from tests.wire.streams import CHAT, MESSAGES, PROTOCOLS, RESPONSES, Event, by_hand

PIECE_BYTES = 1 << 16
STEP_S = 1.0  # between two pieces, so that time can end what nothing else does
LIMIT_BYTES = 1 << 20  # in place of the limits of a reply, which would take long to reach
MOST_TIMES = 12  # the memory of a reply is no more than so many times its limit
K = FaultKind


class Endless:
    """The steps of a reply that goes on for ever; `taken_bytes` is how much of it was read."""

    def __init__(self, piece: Callable[[int], bytes], begin: bytes = b"") -> None:
        self._piece = piece
        self._begin = begin
        self.taken_bytes = 0

    def __iter__(self) -> Iterator[bytes | float]:
        yield self._begin
        number = 0
        while True:
            piece = self._piece(number)
            self.taken_bytes += len(piece)
            yield piece
            yield STEP_S
            number += 1


def event(value: Any, name: str = "") -> bytes:
    """One event of a stream."""
    return framed([Event(name, json.dumps(value))], named=True, newline="\n")


def text(protocol: str, words: str) -> dict[str, Any]:
    """A delta of text."""
    return {
        CHAT: {"choices": [{"index": 0, "delta": {"content": words}}]},
        MESSAGES: {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": words}},
        RESPONSES: {"type": "response.output_text.delta", "item_id": "m", "output_index": 0, "delta": words},
    }[protocol]


def call(protocol: str, number: int) -> dict[str, Any]:
    """The beginning of one more call."""
    function = {"name": "look", "arguments": "{}"}
    item = {"type": "function_call", "id": f"f{number}", "call_id": f"c{number}", **function}
    block = {"type": "tool_use", "id": f"c{number}", "name": "look", "input": {}}
    return {
        CHAT: {
            "choices": [
                {"index": 0, "delta": {"tool_calls": [{"index": number, "id": f"c{number}", "function": function}]}}
            ]
        },
        MESSAGES: {"type": "content_block_start", "index": number, "content_block": block},
        RESPONSES: {"type": "response.output_item.added", "output_index": number, "item": item},
    }[protocol]


def arguments(protocol: str, piece: str) -> dict[str, Any]:
    """A piece of a call's arguments."""
    return {
        CHAT: {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}}]},
        MESSAGES: {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": piece},
        },
        RESPONSES: {
            "type": "response.function_call_arguments.delta",
            "item_id": "f0",
            "output_index": 0,
            "delta": piece,
        },
    }[protocol]


def many(make: Callable[[str, int], dict[str, Any]], protocol: str) -> Callable[[int], bytes]:
    """A piece of the stream: a hundred such events."""
    return lambda number: b"".join(event(make(protocol, number * 100 + place)) for place in range(100))


def play(protocol: str, steps: Any, status: int = 200) -> Any:
    """A turn whose every request is answered so."""
    with bare() as loop:
        bench = Bench(protocol)
        result, _ = loop.run_until_complete(bench.turn([Reply(status, {}, steps)]))

    assert ([], []) == (bench.errors, bench.ran)
    return result


def faults(result: Any) -> set[FaultKind]:
    """The kinds of faults that the turn met."""
    return {fault.kind for each in result.trail if (fault := getattr(each.event, "fault", None)) is not None}


@pytest.fixture
def low(monkeypatch):
    """Limits that are soon reached."""
    for name in ("MAX_REPLY_BYTES", "MAX_BODY_BYTES"):
        monkeypatch.setattr(chat_read, name, LIMIT_BYTES)
    monkeypatch.setattr(sse.SseDecoder.__init__, "__defaults__", (LIMIT_BYTES,))


# fmt: off
STREAMS = {
    "a line":                lambda protocol: Endless(lambda n: b"x" * PIECE_BYTES, b"data: "),
    "a name":                lambda protocol: Endless(lambda n: b"x" * PIECE_BYTES, b"event: "),
    "lines of one event":    lambda protocol: Endless(lambda n: b"data: x\n" * 8192),
    "empty lines of one":    lambda protocol: Endless(lambda n: b"data\n" * 8192),
    "text":                  lambda protocol: Endless(lambda n: event(text(protocol, "word " * 200)) * 60),
    "words":                 lambda protocol: Endless(lambda n: event(text(protocol, "ab")) * 500),
    "arguments":             lambda protocol: Endless(lambda n: event(arguments(protocol, "[1, ")) * 500, event(call(protocol, 0))),
    "events of no meaning":  lambda protocol: Endless(lambda n: event({"type": "new", "choices": []}) * 2000),
    "a body":                lambda protocol: Endless(lambda n: b'"a", ' * 8192, b"["),
    "a page":                lambda protocol: Endless(lambda n: b"<title>" * 8192, b"<html>"),
}
# fmt: on


OF_ITS_OWN = (
    "text",
    "words",
    "arguments",
    "events of no meaning",
    "calls",
)  # for each protocol; bytes are alike in all


@pytest.mark.usefixtures("low")
@pytest.mark.parametrize(
    ("name", "protocol"),
    [(name, protocol) for name in STREAMS for protocol in (PROTOCOLS if name in OF_ITS_OWN else [CHAT])],
)
def test_no_more_is_read_than_a_limit_allows(name, protocol):
    """What has no end is given up as soon as a limit is passed, is a fault like any other, and is not kept."""
    steps = STREAMS[name](protocol)
    tracemalloc.start()
    try:
        result = play(protocol, steps)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert "failed" == result.outcome
    assert {K.MALFORMED} == faults(result)
    assert steps.taken_bytes <= (LIMIT_BYTES + 3 * PIECE_BYTES) * result.llm_calls
    assert peak < MOST_TIMES * LIMIT_BYTES


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_reply_has_no_more_items_than_a_limit_allows(protocol):
    """Calls without end are given up by their number: each new one is compared with those before it."""
    steps = Endless(many(call, protocol))
    result = play(protocol, steps)

    assert {K.MALFORMED} == faults(result)
    assert f"more than {fields.MOST_ITEMS} " in result.fault.message


@pytest.mark.parametrize(
    "piece",
    [b"\n" * PIECE_BYTES, b" " * PIECE_BYTES, b"\xef\xbb\xbf" * (PIECE_BYTES // 3), b": ping\n\n"],
    ids=["lines", "blanks", "marks", "comments"],
)
def test_what_says_nothing_is_ended_by_time(piece):
    """Blanks and comments are no sign of life, however many there are, and none of them is kept."""
    tracemalloc.start()
    try:
        result = play(CHAT, Endless(lambda n: piece))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert {K.STALLED} == faults(result)
    assert peak < LIMIT_BYTES


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_body_of_a_refusal_is_not_read_for_ever(protocol):
    """Its beginning says enough."""
    steps = Endless(lambda n: b"overloaded " * 8192)
    result = play(protocol, steps, status=503)

    assert {K.OVERLOADED} == faults(result)
    assert steps.taken_bytes <= 2 * wired.LONGEST_REFUSAL_BYTES * result.llm_calls


def test_a_frame_that_is_too_long_is_none():
    """A frame of Bedrock's that says it has more than an event may have is not waited for."""
    steps = Endless(lambda n: b"x" * PIECE_BYTES, b"\x00\xff\xff\xff\x00\x00\x00\x00crc.")
    result = play(MESSAGES, steps)

    assert {K.MALFORMED} == faults(result) or steps.taken_bytes <= 2 * sse.MAX_EVENT_BYTES * result.llm_calls


def nested(levels: int) -> str:
    """Lists in lists."""
    return "[" * levels + "]" * levels


DEEP = 20_000
# fmt: off
BOTTOMLESS = {
    "an event":      dict.fromkeys(PROTOCOLS, nested(DEEP)),
    "an open one":   dict.fromkeys(PROTOCOLS, "[" * DEEP),
    "objects":       dict.fromkeys(PROTOCOLS, '{"error":' * DEEP),
    "an error":      dict.fromkeys(PROTOCOLS, '{"error": ' + nested(DEEP) + "}"),
    "a surrogate":   dict.fromkeys(PROTOCOLS, '["\\ud800", ' + nested(400) + "]"),
    "arguments": {
        CHAT:      '{"choices": [{"delta": {"tool_calls": [{"id": "a", "function": {"name": "look", "arguments": ' + nested(DEEP) + '}}]}, "finish_reason": "tool_calls"}]}',
        MESSAGES:  '{"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "a", "name": "look", "input": ' + nested(DEEP) + "}}",
        RESPONSES: '{"type": "response.function_call_arguments.done", "item_id": "f0", "arguments": ' + nested(DEEP) + "}",
    },
    "a content": {
        CHAT:      '{"choices": [{"delta": {"content": ' + '[{"type": "thinking", "thinking": ' * DEEP + "}}]}",
        MESSAGES:  '{"type": "content_block_start", "content_block": {"type": "thinking", "thinking": ' + nested(DEEP) + "}}",
        RESPONSES: '{"type": "response.output_item.done", "item": {"type": "message", "content": ' + nested(DEEP) + "}}",
    },
}
# fmt: on


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("name", BOTTOMLESS)
@pytest.mark.parametrize("streamed", [True, False])
def test_what_has_no_bottom_is_no_reply(name, protocol, streamed):
    """However deep JSON is nested, in a stream or in one body, it is a fault, and not an error of this side."""
    data = BOTTOMLESS[name][protocol].encode()
    result = play(protocol, (b"data: " + data + b"\n\n" if streamed else data,))

    assert "failed" == result.outcome
    assert faults(result) <= {K.MALFORMED, K.SERVER_ERROR, K.INCOMPLETE}


@pytest.mark.parametrize(
    ("levels", "outcome"), [(fields.MAX_DEPTH - 10, "completed"), (fields.MAX_DEPTH + 1, "failed")]
)
@pytest.mark.parametrize("protocol", [MESSAGES, RESPONSES])
def test_what_a_provider_wants_back_has_a_bottom(protocol, levels, outcome):
    """What is kept to be sent again is nested no deeper than requests and trails can bear."""
    value = json.loads(nested(levels))
    result = play(protocol, (framed(_kept(protocol, value), named=True, newline="\n"),))

    assert outcome == result.outcome


def _kept(protocol: str, value: Any) -> list[Event]:
    """A reply with something in it that its provider wants back."""
    if protocol == RESPONSES:
        item = {"type": "web_search_call", "id": "ws_1", "action": value}
        says = {"type": "message", "id": "m1", "content": [{"type": "output_text", "text": "Hi."}]}
        response = {"status": "completed", "output": [item, says]}
        return [Event("", json.dumps({"type": "response.completed", "response": response}))]
    found = {"type": "web_search_tool_result", "tool_use_id": "s", "content": value}
    return [
        Event("", json.dumps({"type": "content_block_start", "index": 0, "content_block": found})),
        Event("", json.dumps(text(MESSAGES, "Hi.") | {"index": 1})),
        Event("", json.dumps({"type": "message_delta", "delta": {"stop_reason": "end_turn"}})),
    ]


HOSTILE = (
    "<title>",
    "<title",
    "<script>",
    "<style x",
    "<",
    "://a:",
    "bearer ",
    "api_key=",
    "Please try again in ",
    '{"',
)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("words", HOSTILE)
def test_long_words_of_failure_are_not_looked_through_for_ever(words, protocol):
    """What looks for known words sees no more of a text than a limit; a pattern would go over all of it again and again."""
    data = json.dumps({"error": {"message": words * (1 << 16), "code": words * 1000, "type": words * 1000}})
    result = play(protocol, (f"data: {data}\n\n".encode(),))

    assert "failed" == result.outcome
    assert len(result.fault.message) <= said.MAX_MESSAGE_CHARS
    assert len(result.fault.code) <= said.MAX_MESSAGE_CHARS


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_good_reply_is_within_every_limit(protocol):
    """None of it changes a reply that is as it should be."""
    good = by_hand(protocol)["text"]
    frames = [framed(good.events, named=True, newline="\n")] + [framed_by_aws(good.events)] * (protocol == MESSAGES)
    for body in frames:
        assert "completed" == play(protocol, (body,)).outcome
