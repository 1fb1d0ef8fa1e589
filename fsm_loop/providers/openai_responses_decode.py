"""What comes back from OpenAI's Responses, as deltas: pure, so that any transport can feed it.

Text and reasoning are passed on piece by piece; what a whole telling of an item has more of follows. A call's arguments
are passed on once, at the end of the reply, when all tellings of them can be compared. Only `response.completed`,
`.incomplete` and `.failed` (or an error) end a reply: `[DONE]` is none of this protocol's words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fsm_loop.core.faults import Fault, FaultKind
from fsm_loop.core.messages import Finish, Usage
from fsm_loop.errors import ModelError
from fsm_loop.ports import CallDelta, Delta, Meta, ReasoningDelta, Stopped, TextDelta
from fsm_loop.providers.chat_decode import DONE, parsed
from fsm_loop.providers.classify import fault_of_body
from fsm_loop.providers.fields import amount, arguments_in, count, index, mapping, text, word
from fsm_loop.providers.openai_responses_items import (
    CALL,
    MESSAGE,
    PROTOCOL,
    REASONING,
    Item,
    Items,
    reasoning_of,
    refuses,
    text_of,
)

# How a response can stand; whatever else a server says of one that has ended, it has ended well.
_FAILED, _INCOMPLETE = "failed", "incomplete"
_UNENDED = ("cancelled", "queued", "in_progress")
_TERMINAL: Mapping[str, str] = {
    "response.completed": "completed",
    "response.done": "completed",
    "response.incomplete": _INCOMPLETE,
    "response.failed": _FAILED,
    "response.cancelled": "cancelled",
}
_THOUGHTS = frozenset(
    (
        "response.reasoning_text.delta",
        "response.reasoning_summary_text.delta",
        "response.reasoning.delta",
        "response.reasoning_summary.delta",
    )
)
_BETWEEN_PARTS = "\n\n"  # of a summary


def replay_item(model: str, kept: list[dict[str, Any]]) -> dict[str, Any]:
    """What this model wants back; `message` in it is where its words stand, `function_call` where its calls do."""
    return {"protocol": PROTOCOL, "model": model, "items": kept}


class ResponsesDecoder:
    """One reply of *model* while it is read: feed it a stream's events, or one whole body.

    Text of a refusal is shown as the reply's text, and the reply ends as refused. `ended` is true once there is
    terminal evidence, `done` when nothing more can come that counts. A reply as long as *limit*, in tokens, was cut:
    llama.cpp calls it completed.
    """

    def __init__(self, model: str = "", request_id: str = "", limit: int | None = None) -> None:
        self.ended = False
        self.done = False
        self._model = model
        self._request_id = request_id
        self._limit = limit
        self._items = Items()
        self._refused = False
        self._introduced = False
        self._numbers: dict[int, int] = {}  # hashes of the events by their sequence number
        self._is_numbered = True

    def event(self, name: str, data: str) -> list[Delta]:
        """The deltas of one server-sent event; raises ModelError where it tells of a fault, or of nothing at all."""
        if self.done:
            return []
        if data == DONE:
            self.done = True
            return []
        try:
            value = parsed(data)
        except ValueError:
            return self._broken(name, data)
        if value is None:  # there are gateways that keep a connection alive so
            return []
        if not isinstance(value, dict):
            raise ModelError(Fault(FaultKind.MALFORMED, f"an event is a JSON {type(value).__name__}, not an object"))
        if self._is_repeated(value.get("sequence_number"), data):
            return []
        return [*self._deltas(text(value.get("type")) or name, value)]

    def whole(self, value: Any) -> list[Delta]:
        """The deltas of a reply that came in one body; such a body is terminal evidence by itself."""
        if not isinstance(value, dict):
            raise ModelError(Fault(FaultKind.MALFORMED, f"the reply is a JSON {type(value).__name__}, not an object"))
        if "output" not in value and "status" not in value:
            _raise_if_failed(value)
            raise ModelError(Fault(FaultKind.MALFORMED, "the reply has no output"))
        return [*self._end("completed", value)]

    def _is_repeated(self, number: Any, data: str) -> bool:
        """Whether this very event has come before; known only where events are numbered, each by its own."""
        if not self._is_numbered or not isinstance(number, int) or number <= 0:
            return False
        told, before = hash(data), self._numbers.get(number)
        if before is None:
            self._numbers[number] = told
            return False
        self._is_numbered = before == told
        return before == told

    def _deltas(self, kind: str, event: Mapping[str, Any]) -> Iterator[Delta]:
        if kind == "response.output_text.delta":
            yield from self._said(self._items.at(event, MESSAGE), text(event.get("delta")))
        elif kind in _THOUGHTS:
            yield from self._thought(self._items.at(event, REASONING), text(event.get("delta")))
        elif kind in _TERMINAL:
            yield from self._end(_TERMINAL[kind], mapping(event.get("response")))
        else:
            yield from self._seldom(kind, event)

    def _seldom(self, kind: str, event: Mapping[str, Any]) -> Iterator[Delta]:
        """The deltas of an event that is none of a hot loop's; one of a type that is not known says nothing."""
        match kind:
            case "response.function_call_arguments.delta":
                call = self._items.at(event, CALL)
                call.pieces.append(arguments_in(event.get("delta")))
                yield self._progress(call)
            case "response.function_call_arguments.done":
                call = self._items.at(event, CALL)
                call.learn(event)
                yield self._progress(call)
            case "response.output_item.added":
                yield from self._began(event)
            case "response.output_item.done":
                item = self._items.ended(event)
                yield from self._told(item, mapping(event.get("item")))
            case "response.refusal.delta":
                self._refused = True
                yield from self._said(self._items.at(event, MESSAGE), text(event.get("delta")))
            case "response.reasoning_summary_part.added":
                if index(event.get("summary_index")):
                    thoughts = self._items.at(event, REASONING)
                    yield from self._thought(thoughts, _BETWEEN_PARTS if thoughts.pieces else "")
            case "error":
                raise ModelError(_fault(event.get("error") or {**event, "type": ""}))
            case _:
                _raise_if_failed(event)
                yield from self._introduction(mapping(event.get("response")))

    def _broken(self, name: str, data: str) -> list[Delta]:
        """An event that is no JSON: some servers tell of a fault so."""
        if name == "error":
            raise ModelError(fault_of_body({"error": data}))
        for line in data.split("\n"):
            try:
                value = parsed(line)
            except ValueError:
                continue
            if mapping(value).get("error"):
                raise ModelError(fault_of_body(value))
        raise ModelError(Fault(FaultKind.MALFORMED, f"an event of the stream is not JSON: {data[:80]}"))

    # ------------------------------------------------------------ items

    def _began(self, event: Mapping[str, Any]) -> Iterator[Delta]:
        item, fields = self._items.began(event), mapping(event.get("item"))
        if item.kind == CALL:
            item.learn(fields)
            yield self._progress(item)

    def _told(self, item: Item, fields: Mapping[str, Any]) -> Iterator[Delta]:
        """What a whole telling of the item has more than its pieces."""
        if item.kind == MESSAGE:
            self._refused = self._refused or refuses(fields)
            yield from self._said(item, _rest(item, text_of(fields)))
        elif item.kind == REASONING and not item.pieces:
            yield from self._thought(item, reasoning_of(fields))
        elif item.kind == CALL:
            item.learn(fields)
            yield self._progress(item)

    def _said(self, item: Item, words: str) -> Iterator[Delta]:
        if words:
            item.pieces.append(words)
            yield TextDelta(words)

    def _thought(self, item: Item, thoughts: str) -> Iterator[Delta]:
        if thoughts:
            item.pieces.append(thoughts)
            yield ReasoningDelta(thoughts)

    def _progress(self, call: Item) -> CallDelta:
        """That there is a call and that it grows; its arguments follow at the end."""
        shown = call if call.twin is None else call.twin
        slot = self._items.slot_of(shown)
        return CallDelta(slot, shown.call_id or shown.id or f"call_{slot}", shown.name)

    # ------------------------------------------------------------ the reply

    def _introduction(self, response: Mapping[str, Any]) -> Iterator[Delta]:
        if response and not self._introduced:
            self._introduced = True
            yield Meta(model=word(response.get("model")), request_id=self._request_id)

    def _end(self, status: str, response: Mapping[str, Any]) -> Iterator[Delta]:
        """The reply has ended: well, cut, or as a fault. Raises ModelError for the last."""
        if status == "completed":
            status = text(response.get("status")) or (_FAILED if response.get("error") else status)
        if status == _FAILED:
            raise ModelError(_fault(response.get("error")))
        if status in _UNENDED:
            raise ModelError(Fault(FaultKind.INCOMPLETE, f"the reply ended as {status!r}", code=status))
        for item, fields in self._items.listed(response.get("output")):
            yield from self._told(item, fields)
        calls = self._items.calls()
        for call in calls:
            yield CallDelta(self._items.slot_of(call), call.call_id, call.name, call.settled())
        usage = _usage(response.get("usage"))
        finish = self._finish(status, response, usage, Finish.TOOL_CALLS if calls else Finish.STOP)
        kept = self._items.kept() if finish in (Finish.STOP, Finish.TOOL_CALLS) else []
        replay = (replay_item(self._model, kept),) if kept else ()
        yield Meta(usage, replay, word(response.get("model")), self._request_id)
        self.ended = self.done = True
        yield Stopped(finish)

    def _finish(self, status: str, response: Mapping[str, Any], usage: Usage | None, well: Finish) -> Finish:
        if self._refused:
            return Finish.REFUSED
        if status == _INCOMPLETE:
            return _cut(response)
        full = self._limit is not None and usage is not None and usage.output_tokens >= self._limit
        return Finish.LENGTH if full and well is Finish.STOP else well


def _rest(item: Item, told: str) -> str:
    """What the whole text has more than was shown; nothing where it is another text, for what was shown stands."""
    shown = item.said
    return told[len(shown) :] if told.startswith(shown) else ""


def _cut(response: Mapping[str, Any]) -> Finish:
    reason = mapping(response.get("incomplete_details")).get("reason")
    return Finish.REFUSED if reason == "content_filter" else Finish.LENGTH


def _fault(error: Any) -> Fault:
    """The fault that the provider tells of; one of which it says nothing is its own."""
    if not error:
        return Fault(FaultKind.SERVER_ERROR, "the provider says that the response failed, and not why")
    return fault_of_body({"error": error})


def _raise_if_failed(value: Mapping[str, Any]) -> None:
    """Raise what a body or an event of no known type tells of, if it tells of a fault."""
    if value.get("error"):
        raise ModelError(fault_of_body(value))
    if "choices" in value:
        raise ModelError(Fault(FaultKind.MALFORMED, "the server answers in the words of Chat Completions"))


def _usage(value: Any) -> Usage | None:
    if not isinstance(value, dict) or not value:
        return None
    read, written = mapping(value.get("input_tokens_details")), mapping(value.get("output_tokens_details"))
    return Usage(
        input_tokens=count(value.get("input_tokens")),
        output_tokens=count(value.get("output_tokens")),
        cached_input_tokens=count(read.get("cached_tokens")),
        reasoning_tokens=count(written.get("reasoning_tokens")),
        cost=amount(value.get("cost")),
    )
