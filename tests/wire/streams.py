"""Good replies of each protocol, as the events that make them: what fuzzing begins with.

Written by hand where a test must know what is in them, taken from the cases where many habits are wanted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from fsm_loop.testing.wire.case import cases_in

CHAT, MESSAGES, RESPONSES = "openai-chat", "anthropic", "openai-responses"
PROTOCOLS = (CHAT, MESSAGES, RESPONSES)
CASES = Path(__file__).parent / "cases"
TOOL, ARGUMENTS = "look", {"city": "Pa\u00dfau \U0001f600", "days": 2}
MOST_EVENTS = 40  # of one stream that is taken from a case


class Event(NamedTuple):
    """One event: its name, empty where it has none, and its data as JSON, or as whatever text it is."""

    name: str
    data: str


class Good(NamedTuple):
    """One reply as it should be; `streamed` false: one body, told as the data of one event."""

    name: str
    events: tuple[Event, ...]
    streamed: bool = True


def _event(value: Any, name: str = "") -> Event:
    return Event(name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _typed(value: dict[str, Any]) -> Event:
    return _event(value, value["type"])


# ---------------------------------------------------------------- Chat Completions


def _chunk(finish: str | None = None, **delta: Any) -> Event:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return _event({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]})


def _piece(slot: int, arguments: str, call_id: str | None = None) -> Event:
    function = {"arguments": arguments} if call_id is None else {"name": TOOL, "arguments": arguments}
    piece = {"index": slot, "function": function}
    return _chunk(tool_calls=[piece if call_id is None else {**piece, "id": call_id, "type": "function"}])


def _completion(finish: str, **message: Any) -> tuple[Event, ...]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    return (_event({"id": "c1", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage}),)


def _chat() -> Iterator[Good]:
    told = json.dumps(ARGUMENTS, ensure_ascii=False)
    usage = _event({"id": "c1", "model": "m", "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4}})
    done = Event("", "[DONE]")
    begin = _chunk(role="assistant", content="")
    pieces = [_piece(0, told[at : at + 6]) for at in range(0, len(told), 6)]
    call = [{"id": "call_a", "type": "function", "function": {"name": TOOL, "arguments": told}}]
    yield Good("text", (begin, _chunk(content="Hel"), _chunk(content="lo \u4f60"), _chunk("stop"), usage, done))
    yield Good("call", (begin, _piece(0, "", "call_a"), *pieces, _chunk("tool_calls"), usage, done))
    yield Good(
        "two calls", (_chunk(content="So"), _piece(0, told, "a"), _piece(1, told, "b"), _chunk("tool_calls"), done)
    )
    yield Good("thoughts", (_chunk(reasoning_content="Hm"), _chunk(content="Yes."), _chunk("stop"), done))
    yield Good("cut", (_chunk(content="A long"), _chunk(content=" story"), _chunk("length"), usage, done))
    yield Good("refused", (_chunk(refusal="No."), _chunk("stop"), done))
    yield Good("whole text", _completion("stop", content="Hello."), streamed=False)
    yield Good("whole call", _completion("tool_calls", content=None, tool_calls=call), streamed=False)


# ---------------------------------------------------------------- Messages


def _block(place: int, start: dict[str, Any], *deltas: dict[str, Any]) -> tuple[Event, ...]:
    return (
        _typed({"type": "content_block_start", "index": place, "content_block": start}),
        *(_typed({"type": "content_block_delta", "index": place, "delta": delta}) for delta in deltas),
        _typed({"type": "content_block_stop", "index": place}),
    )


def _message(stop: str, *blocks: tuple[Event, ...]) -> tuple[Event, ...]:
    usage = {"input_tokens": 9, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    return (
        _typed({"type": "message_start", "message": message}),
        _typed({"type": "ping"}),
        *(event for block in blocks for event in block),
        _typed({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 4}}),
        _typed({"type": "message_stop"}),
    )


def _messages() -> Iterator[Good]:
    told = json.dumps(ARGUMENTS, ensure_ascii=False)
    pieces = [{"type": "input_json_delta", "partial_json": told[at : at + 6]} for at in range(0, len(told), 6)]
    say = _block(0, {"type": "text", "text": ""}, *({"type": "text_delta", "text": t} for t in ("Hel", "lo \u4f60")))
    think = _block(
        0,
        {"type": "thinking", "thinking": ""},
        {"type": "thinking_delta", "thinking": "Hm"},
        {"type": "signature_delta", "signature": "EqQB"},
    )
    search = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}
    cited = {"type": "citations_delta", "citation": {"type": "char_location", "cited_text": "x"}}

    def call(place: int) -> tuple[Event, ...]:
        start = {"type": "tool_use", "id": f"toolu_{place}", "name": TOOL, "input": {}}
        return _block(place, start, *pieces)

    yield Good("text", _message("end_turn", say))
    yield Good("call", _message("tool_use", say, call(1)))
    yield Good("two calls", _message("tool_use", call(0), call(1)))
    yield Good("thoughts", _message("tool_use", think, call(1)))
    yield Good("cut", _message("max_tokens", say))
    yield Good("refused", _message("refusal", say))
    yield Good(
        "searched",
        _message(
            "pause_turn",
            _block(0, search, {"type": "input_json_delta", "partial_json": '{"query": "x"}'}),
            _block(1, found),
            _block(2, {"type": "text", "text": ""}, {"type": "text_delta", "text": "x"}, cited),
        ),
    )
    content = [{"type": "text", "text": "So"}, {"type": "tool_use", "id": "toolu_1", "name": TOOL, "input": ARGUMENTS}]
    body = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "usage": {"input_tokens": 3}}
    yield Good("whole text", (_event({**body, "content": content[:1], "stop_reason": "end_turn"}),), streamed=False)
    yield Good("whole call", (_event({**body, "content": content, "stop_reason": "tool_use"}),), streamed=False)


# ---------------------------------------------------------------- Responses


def _response(output: list[dict[str, Any]], status: str, **facts: Any) -> dict[str, Any]:
    usage = {"input_tokens": 9, "output_tokens": 4}
    return {"id": "r1", "object": "response", "model": "m", "status": status, "output": output, "usage": usage, **facts}


def _events(output: list[dict[str, Any]], *between: dict[str, Any], status: str = "completed") -> tuple[Event, ...]:
    """The reply, its events numbered."""
    last = {"type": f"response.{status}", "response": _response(output, status)}
    first = {"type": "response.created", "response": _response([], "in_progress")}
    return tuple(_typed({**each, "sequence_number": number}) for number, each in enumerate([first, *between, last]))


def _told(place: int, item: dict[str, Any], empty: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    at = {"item_id": item["id"], "output_index": place}
    return [
        {"type": "response.output_item.added", "output_index": place, "item": {**item, **empty}},
        *({**delta, **at} for delta in deltas),
        {"type": "response.output_item.done", "output_index": place, "item": item},
    ]


def _responses() -> Iterator[Good]:
    told = json.dumps(ARGUMENTS, ensure_ascii=False)
    says = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "Hello \u4f60", "annotations": []}],
    }
    refuses = {**says, "content": [{"type": "refusal", "refusal": "No."}]}
    thinks = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    words = [{"type": "response.output_text.delta", "delta": each} for each in ("Hel", "lo \u4f60")]
    message = _told(0, says, {"content": []}, *words)
    thought = _told(0, thinks, {}, {"type": "response.reasoning_summary_text.delta", "delta": "Hm"})
    pieces = [
        {"type": "response.function_call_arguments.delta", "delta": told[at : at + 6]} for at in range(0, len(told), 6)
    ]
    whole = {"type": "response.function_call_arguments.done", "arguments": told}

    def asked(number: int) -> dict[str, Any]:
        names = {"id": f"fc_{number}", "call_id": f"call_{number}", "name": TOOL}
        return {"type": "function_call", **names, "arguments": told}

    def call(place: int) -> list[dict[str, Any]]:
        return _told(place, asked(place), {"arguments": ""}, *pieces, whole)

    yield Good("text", _events([says], *message))
    yield Good("call", _events([says, asked(1)], *message, *call(1)))
    yield Good("two calls", _events([asked(0), asked(1)], *call(0), *call(1)))
    yield Good("thoughts", _events([thinks, asked(1)], *thought, *call(1)))
    yield Good("cut", _events([says], *message, status="incomplete"))
    refusal = {"type": "response.refusal.delta", "delta": "No."}
    yield Good("refused", _events([refuses], *_told(0, refuses, {"content": []}, refusal)))
    yield Good("failed", _events([], *message, status="failed"))
    yield Good("whole text", (_event(_response([says], "completed")),), streamed=False)
    yield Good("whole call", (_event(_response([asked(0)], "completed")),), streamed=False)


# ---------------------------------------------------------------- all of them


def by_hand(protocol: str) -> dict[str, Good]:
    """Replies whose content is known, by their names."""
    made = {CHAT: _chat, MESSAGES: _messages, RESPONSES: _responses}[protocol]()
    return {each.name: each for each in made}


def of_cases(protocol: str) -> list[Good]:
    """Replies of the cases: whatever real servers sent, good or not."""
    found = [
        Good(f"{case.id} {number}", events)
        for case in cases_in(CASES)
        if case.protocol == protocol
        for number, response in enumerate(case.exchange)
        if (events := tuple(_of_steps(response.get("steps", ()))))
    ]
    return sorted(found, key=lambda each: (len(each.events), each.name))


def _of_steps(steps: Any) -> Iterator[Event]:
    for step in steps[:MOST_EVENTS]:
        record = step.get("sse", {})
        if "data" in record:
            yield _event(record["data"], record.get("event") or "")
