"""What a model replied in a body, on the three protocols, as far as a recording needs it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import define, field

from fsm_loop.testing.wire.heard import Call
from fsm_loop.testing.wire.scan import lines_of

Parts = Mapping[str, Any]

# What stands in a stream that has said its last word, whether or not the connection has ended.
LAST_WORDS = re.compile(
    rb'\[DONE\]|"(?:finish|stop)_reason": ?"|message_stop|"error"|event: ?error'
    rb"|response\.(?:completed|incomplete|failed)"
)

# The words with which a model says that its turn is over, on any of the protocols.
OVER = frozenset({"stop", "end_turn", "stop_sequence", "completed", "content_filter", "refusal"})


@define
class Replied:
    """The text, the calls and the word for the end; all that came, where the body was cut."""

    text: str = ""
    finish: str = ""
    calls: list[Call] = field(factory=list)

    @property
    def is_over(self) -> bool:
        """Whether the turn ends with it."""
        return self.finish in OVER and not self.calls and bool(self.text.strip())


def replied(body: bytes, protocol: str, *, events: bool) -> Replied:
    """The reply in this body; of what is none, nothing."""
    text = body.decode("utf-8", "replace")
    found = [*_values(text, events=events)]
    return {"openai-chat": _chat, "anthropic": _anthropic, "openai-responses": _responses}[protocol](found)


def has_said_all(body: bytes) -> bool:
    """Whether a client may take this stream to be over before its connection is."""
    return LAST_WORDS.search(body) is not None


def _values(text: str, *, events: bool) -> Iterator[Parts]:
    payloads = (
        ["".join(text[at] for at in line.places) for line in lines_of(text) if line.field == "data"]
        if events
        else [text]
    )
    for each in payloads:
        try:
            value = json.loads(each)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


def _chat(values: Sequence[Parts]) -> Replied:
    reply, calls = Replied(), dict[object, Call]()
    for choice in (each for value in values for each in _list(value.get("choices"))[:1]):
        said = _dict(choice.get("delta")) or _dict(choice.get("message"))
        reply.text += _string(said.get("content"))
        reply.finish = _string(choice.get("finish_reason")) or reply.finish
        for place, each in enumerate(_list(said.get("tool_calls"))):
            function, key = _dict(each.get("function")), each.get("index", place)
            _add(calls, key, each.get("id"), function.get("name"), function.get("arguments"))
    reply.calls = [*calls.values()]
    return reply


def _anthropic(values: Sequence[Parts]) -> Replied:
    reply, calls = Replied(), dict[object, Call]()
    for value in values:
        begun, delta = _dict(value.get("content_block")), _dict(value.get("delta"))
        blocks = [begun, *_list(value.get("content"))]
        reply.text += "".join(_string(each.get("text")) for each in (*blocks, delta))
        reply.finish = _string(delta.get("stop_reason")) or _string(value.get("stop_reason")) or reply.finish
        for place, each in enumerate(blocks):
            if each.get("type") == "tool_use":
                arguments = json.dumps(each.get("input")) if each is not begun else ""
                _add(calls, value.get("index", place), each.get("id"), each.get("name"), arguments)
        if "partial_json" in delta:
            _add(calls, value.get("index"), "", "", delta["partial_json"])
    reply.calls = [*calls.values()]
    return reply


def _responses(values: Sequence[Parts]) -> Replied:
    reply = Replied()
    for value in values:
        response = _dict(value.get("response")) or value
        reply.finish = _string(response.get("status")) or reply.finish
        if "output" in response and response.get("status") in OVER | {"incomplete", "failed"}:
            items = _list(response["output"])
            said = "".join(_string(part.get("text")) for item in items for part in _list(item.get("content")))
            reply.text = reply.text or said
            reply.calls = [_item_call(item) for item in items if item.get("type") == "function_call"] or reply.calls
        if value.get("type") == "response.output_text.delta":
            reply.text += _string(value.get("delta"))
        item = _dict(value.get("item"))
        if value.get("type") == "response.output_item.done" and item.get("type") == "function_call":
            reply.calls.append(_item_call(item))
    return reply


def _item_call(item: Parts) -> Call:
    return Call(_string(item.get("call_id")), _string(item.get("name")), _string(item.get("arguments")))


def _add(calls: dict[object, Call], key: object, call_id: Any, name: Any, arguments: Any) -> None:
    """One more piece of a call; another id under the same key is another call."""
    was = calls.get(key, Call("", "", ""))
    if was.id and _string(call_id) not in ("", was.id):
        calls[key, was.id], was = was, Call("", "", "")
    text = arguments if isinstance(arguments, str) else "" if arguments is None else json.dumps(arguments)
    calls[key] = Call(was.id or _string(call_id), was.name or _string(name), was.arguments + text)


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _dict(value: Any) -> Parts:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Parts]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
