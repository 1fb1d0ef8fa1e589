"""What comes back from OpenAI's Chat Completions, as deltas: pure, so that any transport can feed it.

Providers that call themselves compatible differ in all that is here: what can be made sense of is made sense of, and
only what cannot is a fault. A chunk that says nothing yields nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec.json

from fsm_loop.core.faults import Fault, FaultKind
from fsm_loop.core.messages import Finish, Usage, clean, is_cut
from fsm_loop.errors import ModelError
from fsm_loop.ports import CallDelta, Delta, Meta, ReasoningDelta, Stopped, TextDelta
from fsm_loop.providers.classify import fault_of_body
from fsm_loop.providers.fields import MOST_ITEMS, amount, arguments_in, count, index, items, mapping, too_many, word

DONE = "[DONE]"
_decode = msgspec.json.Decoder().decode


class _TextDelta(msgspec.Struct, forbid_unknown_fields=True):
    content: str
    role: Any = None
    reasoning_content: None = None
    reasoning: None = None
    refusal: None = None
    tool_calls: None = None
    function_call: None = None


class _TextChoice(msgspec.Struct):
    delta: _TextDelta
    index: Literal[0] | None = None
    finish_reason: None = None


class _TextChunk(msgspec.Struct):
    """What nearly every chunk is: some text, with no word of a fault, of an end or of what was used.

    Such a one is read in a third of the time; what else it may hold says nothing to a loop, and is not looked at.
    """

    choices: tuple[_TextChoice]
    object: Literal["chat.completion.chunk"] | None = None
    usage: None = None
    error: None = None
    type: None = None


_decode_text = msgspec.json.Decoder(_TextChunk).decode

FINISHES: Mapping[str, Finish] = {
    "stop": Finish.STOP,
    "length": Finish.LENGTH,
    "max_tokens": Finish.LENGTH,
    "model_length": Finish.LENGTH,
    "tool_calls": Finish.TOOL_CALLS,
    "function_call": Finish.TOOL_CALLS,
    "tool_use": Finish.TOOL_CALLS,
    "content_filter": Finish.REFUSED,
    "safety": Finish.REFUSED,
    "refusal": Finish.REFUSED,
}
# Words that stand where a finish reason should, and say that the reply broke off. Any other word ends it well.
FAILURES: Mapping[str, FaultKind] = {
    "abort": FaultKind.INCOMPLETE,
    "cancelled": FaultKind.INCOMPLETE,
    "error": FaultKind.SERVER_ERROR,
    "insufficient_system_resource": FaultKind.OVERLOADED,
    "malformed_function_call": FaultKind.MISSPOKE,
    "function_call_filter: malformed_function_call": FaultKind.MISSPOKE,
}


def parsed(text: str) -> Any:
    """The JSON value of the text, lone surrogates made U+FFFD, raw control characters borne; raises ValueError."""
    try:
        return _decode(text)
    except (ValueError, RecursionError):
        return _parsed_leniently(text)


def _parsed_leniently(text: str) -> Any:
    try:
        value = json.loads(text, strict=False)
        return _cleaned(value) if "\\u" in text else value
    except RecursionError as error:  # whoever asks stands deep already
        raise ValueError("nested too deeply") from error


def _cleaned(value: Any) -> Any:
    match value:
        case str():
            return clean(value)
        case list():
            return [_cleaned(each) for each in value]
        case dict():
            return {_cleaned(name): _cleaned(each) for name, each in value.items()}
        case _:
            return value


class _Slot:
    """A tool call as far as it has come."""

    __slots__ = ("arguments", "id", "name", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []


class _Slots:
    """The tool calls of one reply, told apart by index, by id, or, where there is neither, by what is whole."""

    def __init__(self) -> None:
        self.all: list[_Slot] = []
        self._by_index: dict[int, _Slot] = {}

    def add(self, piece: Mapping[str, Any], place: int) -> CallDelta | None:
        """Take in one piece, the one at this place in its chunk; None where it says nothing."""
        function = piece.get("function")
        function = function if isinstance(function, dict) else {}
        call_id, name = word(piece.get("id")), word(function.get("name"))
        arguments = arguments_in(function.get("arguments"))
        if not (call_id or name or arguments):
            return None
        slot = self._slot(index(piece.get("index")), call_id, name, place)
        fresh_name = _joined(slot, name)
        slot.id, slot.name = call_id or slot.id, fresh_name or slot.name
        slot.arguments.append(arguments)
        return CallDelta(slot.number, call_id, fresh_name, arguments)

    def _slot(self, index: int | None, call_id: str, name: str, place: int) -> _Slot:
        if index is not None:
            slot = self._by_index.get(index)
            if slot is None or (call_id and slot.id and call_id != slot.id):
                slot = (slot and self._with_id(call_id)) or self._new()
                self._by_index[index] = slot
            return slot
        if call_id:
            return self._with_id(call_id) or self._new()
        last = self.all[-1] if self.all else None
        if last is None or (name and last.name and (place > 0 or _whole("".join(last.arguments)))):
            return self._new()
        return last

    def _with_id(self, call_id: str) -> _Slot | None:
        return next((slot for slot in self.all if slot.id == call_id), None)

    def _new(self) -> _Slot:
        if len(self.all) >= MOST_ITEMS:
            raise too_many("calls")
        self.all.append(_Slot(len(self.all)))
        return self.all[-1]


def _joined(slot: _Slot, name: str) -> str:
    """The call's name once this piece is known, empty where it stays: a repeat is none, a further piece is added."""
    if not name or name == slot.name:
        return ""
    if not slot.name or name.startswith(slot.name):
        return name
    return "" if any(slot.arguments) else slot.name + name


def _whole(arguments: str) -> bool:
    return bool(arguments.strip()) and not is_cut(arguments)


class ChatDecoder:
    """One reply while it is read: feed it a stream's events, or one whole body.

    Text of a refusal is shown as the reply's text, so that a person can read why, and the reply ends as refused
    whatever its finish reason says. `ended` is true once there is terminal evidence, `done` behind `[DONE]`.
    """

    def __init__(self, request_id: str = "", *, cumulative: bool = False) -> None:
        self.ended = False
        self.done = False
        self._so_far: dict[str, str] | None = {} if cumulative else None
        self._request_id = request_id
        self._introduced = False
        self._refused = False
        self._slots = _Slots()

    def event(self, name: str, data: str) -> list[Delta]:
        """The deltas of one server-sent event; raises ModelError where it tells of a fault, or of nothing at all."""
        if self._introduced and self._so_far is None and not name and (text := _text_alone(data)):
            return [TextDelta(text)]
        if data == DONE:
            self.done = True
            return self._done()
        try:
            value = parsed(data)
        except ValueError:
            return self._broken(name, data)
        if value is None:  # there are gateways that keep a connection alive so
            return []
        if name == "error" and not (isinstance(value, dict) and "error" in value):
            raise ModelError(fault_of_body({"error": value}))
        return self.chunk(value)

    def chunk(self, value: Any) -> list[Delta]:
        """The deltas of one chunk; raises ModelError where it tells of a fault, or has no shape that can be read."""
        value = _body(value)
        choice, usage = _choice(value), _usage(value.get("usage"))
        said: list[Delta] = []
        if choice is not None:
            said += self._said(_delta_of(choice))
            said += self._finish(choice.get("finish_reason"))
        if usage is None and (self._introduced or not said):
            return said
        return [self._meta(value, usage), *said]

    def whole(self, value: Any) -> list[Delta]:
        """The deltas of a reply that came in one body; such a body is terminal evidence by itself."""
        value = _body(value)
        choice = _choice(value)
        if choice is None:
            raise ModelError(Fault(FaultKind.MALFORMED, "the reply has no choices"))
        said = self._said(_told_once(_delta_of(choice)))
        deltas: list[Delta] = [self._meta(value, _usage(value.get("usage"))), *said]
        deltas += self._finish(choice.get("finish_reason"))
        return deltas if self.ended else deltas + self._done()

    def _done(self) -> list[Delta]:
        """The provider says that this was all; without a finish reason it has ended well."""
        if self.ended:
            return []
        return self._stopped(Finish.TOOL_CALLS if self._slots.all else Finish.STOP)

    def _broken(self, name: str, data: str) -> list[Delta]:
        """An event that is no JSON: each of its lines may be, and one of them may tell of a fault."""
        if name == "error":
            raise ModelError(fault_of_body({"error": data}))
        values = [value for line in data.split("\n") if (value := _parsed_or_none(line)) is not None]
        for value in values:
            if mapping(value).get("error"):
                raise ModelError(fault_of_body(value))
        if len(values) < data.count("\n") + 1:
            raise ModelError(Fault(FaultKind.MALFORMED, f"a chunk of the stream is not JSON: {data[:80]}"))
        return [delta for value in values for delta in self.chunk(value)]

    def _meta(self, value: Mapping[str, Any], usage: Usage | None) -> Meta:
        self._introduced = True
        return Meta(usage=usage, model=word(value.get("model")), request_id=self._request_id)

    def _said(self, delta: Mapping[str, Any]) -> Iterator[Delta]:
        if self._so_far is not None:
            delta = _news(delta, self._so_far)
        content = delta.get("content")
        if content.__class__ is str:
            if len(delta) == 1 and content:  # nearly every chunk
                yield TextDelta(content)
                return
            text, thought = content, ""
        else:
            text, thought = _of_parts(content)
        thought = word(delta.get("reasoning_content")) or word(delta.get("reasoning")) or thought
        if thought:
            yield ReasoningDelta(thought)
        if text:
            yield TextDelta(text)
        refusal = delta.get("refusal")
        if refusal and isinstance(refusal, str):
            self._refused = True
            yield TextDelta(refusal)
        pieces = delta.get("tool_calls")
        legacy = delta.get("function_call")
        if pieces and isinstance(pieces, list):
            yield from self._calls(pieces)
        elif isinstance(legacy, dict):
            yield from self._calls([{"index": 0, "function": legacy}])

    def _calls(self, pieces: list[Any]) -> Iterator[CallDelta]:
        for place, piece in enumerate(pieces):
            delta = self._slots.add(mapping(piece), place)
            if delta is not None:
                yield delta

    def _finish(self, reason: Any) -> list[Delta]:
        if self.ended or not reason or not isinstance(reason, str):
            return []
        failure = FAILURES.get(reason.lower())
        if failure is not None:
            raise ModelError(Fault(failure, f"the reply ended with {reason!r}", code=reason))
        return self._stopped(FINISHES.get(reason.lower(), Finish.STOP))

    def _stopped(self, finish: Finish) -> list[Delta]:
        self.ended = True
        return [Stopped(Finish.REFUSED if self._refused else finish)]


def _text_alone(data: str) -> str:
    """The text of a chunk that says nothing else; empty where it says more, or something else."""
    try:
        return _decode_text(data).choices[0].delta.content
    except (ValueError, RecursionError):
        return ""


def _news(delta: Mapping[str, Any], so_far: dict[str, str]) -> Mapping[str, Any]:
    """The delta with what is new of texts that are told from their beginning in each chunk; *so_far* learns them."""
    fresh = dict(delta)
    for name in ("content", "reasoning_content", "reasoning"):
        text, before = delta.get(name), so_far.get(name, "")
        if isinstance(text, str) and text:
            whole = text.startswith(before)
            fresh[name] = text[len(before) :] if whole else text
            so_far[name] = text if whole else before + text
    return fresh


def _body(value: Any) -> Mapping[str, Any]:
    """The value as a mapping that tells of no fault; raises ModelError where it is none, or does."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, dict):
        raise ModelError(Fault(FaultKind.MALFORMED, f"a chunk is a JSON {type(value).__name__}, not an object"))
    if value.get("error") or value.get("object") == "error" or value.get("type") == "error":
        raise ModelError(fault_of_body(value))
    return value


def _choice(value: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The first choice: there are others only where `extra` asked for them."""
    choices = value.get("choices")
    if not isinstance(choices, list):
        return None
    for each in choices:
        if isinstance(each, dict) and each.get("index") in (0, None):
            return each
    return None


def _delta_of(choice: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(choice.get("delta")) or mapping(choice.get("message"))


def _told_once(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message without calls that repeat one before them in all; the others with a place of their own."""
    pieces = message.get("tool_calls")
    if not isinstance(pieces, list):
        return message
    distinct = [piece for place, piece in enumerate(pieces) if not _repeats(piece, pieces[:place])]
    placed = [{**piece, "index": place} for place, piece in enumerate(distinct) if isinstance(piece, dict)]
    return {**message, "tool_calls": placed}


def _repeats(piece: Any, earlier: list[Any]) -> bool:
    return bool(mapping(piece).get("id")) and piece in earlier


def _of_parts(content: Any) -> tuple[str, str]:
    """Text and reasoning of a content that comes in parts."""
    text, thought = "", ""
    for part in content if isinstance(content, list) else ():
        fields = mapping(part)
        if fields.get("type") == "thinking":
            thinking = fields.get("thinking")
            parts = (word(mapping(each).get("text")) for each in items(thinking))
            thought += thinking if isinstance(thinking, str) else "".join(parts)
        else:
            text += word(fields.get("text")) if not isinstance(part, str) else part
    return text, thought


def _parsed_or_none(line: str) -> Any:
    try:
        return parsed(line)
    except ValueError:
        return None


def _usage(value: Any) -> Usage | None:
    """What the provider counted; the names are OpenAI's, with DeepSeek's for the cache and OpenRouter's for money."""
    if not isinstance(value, dict) or not value:
        return None
    read, written = mapping(value.get("prompt_tokens_details")), mapping(value.get("completion_tokens_details"))
    return Usage(
        input_tokens=count(value.get("prompt_tokens")),
        output_tokens=count(value.get("completion_tokens")),
        cached_input_tokens=count(read.get("cached_tokens")) or count(value.get("prompt_cache_hit_tokens")),
        reasoning_tokens=count(written.get("reasoning_tokens")),
        cost=amount(value.get("cost")),
    )
