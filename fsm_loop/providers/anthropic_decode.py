"""What comes back from Anthropic's Messages, as deltas: pure, so that any transport can feed it.

Events, blocks and deltas of a type that is not known say nothing: new ones come without notice. What the provider wants
back unchanged (signed thoughts, the calls of its own tools and their results, citations) is kept as one replay item,
that says whose it is, in the order in which the model said it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fsm_loop.core.faults import Fault, FaultKind
from fsm_loop.core.messages import Finish, Usage
from fsm_loop.errors import ModelError
from fsm_loop.ports import CallDelta, Delta, Meta, ReasoningDelta, Stopped, TextDelta
from fsm_loop.providers import chat_decode
from fsm_loop.providers.chat_decode import parsed
from fsm_loop.providers.classify import fault_of_body
from fsm_loop.providers.fields import (
    MOST_ITEMS,
    arguments_in,
    count,
    index,
    items,
    mapping,
    not_deep,
    text,
    too_many,
    word,
)

PROTOCOL = "anthropic"

# Servers that call themselves compatible mix in the words of Chat Completions.
FINISHES: Mapping[str, Finish] = {
    **chat_decode.FINISHES,
    "end_turn": Finish.STOP,
    "stop_sequence": Finish.STOP,
    "max_tokens": Finish.LENGTH,
    "model_context_window_exceeded": Finish.WINDOW_FULL,
    "tool_use": Finish.TOOL_CALLS,
    "pause_turn": Finish.PAUSED,
    "refusal": Finish.REFUSED,
}

_USAGE = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
OWN_TOOLS = ("server_tool_use", "mcp_tool_use")


def replay_item(model: str, content: list[dict[str, Any]]) -> dict[str, Any]:
    """What this model wants back; `text` in it is where its words stand, `tool_use` where its calls do."""
    return {"protocol": PROTOCOL, "model": model, "content": content}


class _Block:
    """A content block as far as it has come."""

    __slots__ = ("citations", "kind", "pieces", "signature", "slot", "start")

    def __init__(self, start: Mapping[str, Any], slot: int | None) -> None:
        self.kind = text(start.get("type"))
        self.start = start
        self.slot = slot  # of the tool call that it is, None where it is none
        self.pieces: list[str] = []  # of its text, its thoughts or its input
        self.signature: list[str] = []
        self.citations: list[Any] = []

    @property
    def is_own(self) -> bool:
        """Whether it is of a tool that the provider runs itself."""
        return self.kind in OWN_TOOLS or self.kind.endswith("_tool_result")

    def kept(self) -> dict[str, Any] | None:
        """What of it goes back to the provider, None where it is nothing."""
        said = "".join(self.pieces)
        match self.kind:
            case "text":
                kept = {"type": "text", "text": said}
                return {**kept, "citations": self.citations} if self.citations else kept
            case "thinking":  # one that is not signed is refused
                signature = "".join(self.signature)
                return {"type": "thinking", "thinking": said, "signature": signature} if signature else None
            case "redacted_thinking":
                return {"type": "redacted_thinking", "data": text(self.start.get("data"))}
            case "tool_use":
                return {"type": "tool_use"}
        if not self.is_own:
            return None
        return {**self.start, "input": parsed(said)} if said.strip() else dict(self.start)


class MessagesDecoder:
    """One reply of *model* while it is read: feed it a stream's events, or one whole body.

    `ended` is true once there is terminal evidence, `done` when nothing more can come that counts.
    """

    def __init__(self, model: str = "", request_id: str = "") -> None:
        self.ended = False
        self.done = False
        self._model = model
        self._request_id = request_id
        self._blocks: list[_Block] = []
        self._by_index: dict[int, _Block] = {}
        self._calls = 0
        self._counts = dict.fromkeys(_USAGE, 0)
        self._thought_tokens = 0

    def event(self, name: str, data: str) -> list[Delta]:
        """The deltas of one server-sent event; raises ModelError where it tells of a fault, or of nothing at all."""
        if data == chat_decode.DONE:
            return []
        try:
            value = parsed(data)
        except ValueError:
            if name == "error":
                raise ModelError(fault_of_body({"error": data})) from None
            if name == "ping":
                return []
            raise ModelError(Fault(FaultKind.MALFORMED, f"an event is not JSON: {data[:80]}")) from None
        if value is None:
            return []
        if name == "error" and not mapping(value).get("error"):
            raise ModelError(fault_of_body({"error": value}))
        return self._deltas(_body(value), name)

    def whole(self, value: Any) -> list[Delta]:
        """The deltas of a reply that came in one body; such a body is terminal evidence by itself."""
        body = _body(value)
        if "content" not in body:
            raise ModelError(Fault(FaultKind.MALFORMED, "the reply has no content"))
        content, said = body["content"], [self._begin(body)]
        for place, each in enumerate(
            [{"type": "text", "text": content}] if content.__class__ is str else items(content)
        ):
            said += self._block(place, mapping(each))
            said += self._block_ended(place)
        said += self._finish(body.get("stop_reason"))
        return [*said, *self._end()]

    def _deltas(self, value: Mapping[str, Any], name: str) -> list[Delta]:
        place = index(value.get("index"))
        said: list[Delta] = []
        match value.get("type", name):
            case "content_block_delta":
                said = self._more(place, mapping(value.get("delta")))
            case "content_block_start":
                said = [*self._block(place, mapping(value.get("content_block")))]
            case "content_block_stop":
                said = self._block_ended(place)
            case "message_start":
                said = [self._begin(mapping(value.get("message")))]
            case "message_delta":
                self._count(value.get("usage"))
                said = self._finish(mapping(value.get("delta")).get("stop_reason"))
            case "message_stop":
                said = self._end()
        return said

    # ------------------------------------------------------------ blocks

    def _block(self, place: int | None, start: Mapping[str, Any]) -> Iterator[Delta]:
        """A block begins; some servers send all of it at once."""
        block = self._new(place, start)
        if block.slot is not None:
            yield CallDelta(block.slot, word(start.get("id")), word(start.get("name")))
        if block.kind == "text":
            yield from self._said(block, text(start.get("text")))
            block.citations += items(start.get("citations"))
        elif block.kind == "thinking":
            block.signature.append(text(start.get("signature")))
            yield from self._thought(block, text(start.get("thinking")))

    def _more(self, place: int | None, delta: Mapping[str, Any]) -> list[Delta]:
        match delta.get("type"):
            case "text_delta":
                return self._said(self._at(place, "text"), text(delta.get("text")))
            case "input_json_delta":
                return self._argued(self._at(place, "tool_use"), delta.get("partial_json"))
            case "thinking_delta":
                return self._thought(self._at(place, "thinking"), text(delta.get("thinking")))
            case "signature_delta":
                self._at(place, "thinking").signature.append(text(delta.get("signature")))
            case "citations_delta":
                self._at(place, "text").citations.append(delta.get("citation"))
        return []

    def _at(self, place: int | None, kind: str) -> _Block:
        """The block at this place; where none has begun there, one of this kind begins."""
        block = self._by_index.get(place) if place is not None else self._blocks[-1] if self._blocks else None
        return self._new(place, {"type": kind}) if block is None else block

    def _new(self, place: int | None, start: Mapping[str, Any]) -> _Block:
        if len(self._blocks) >= MOST_ITEMS:
            raise too_many("blocks")
        is_call = start.get("type") == "tool_use"
        block = _Block(start, self._calls if is_call else None)
        self._calls += is_call
        self._blocks.append(block)
        self._by_index[len(self._blocks) - 1 if place is None else place] = block
        return block

    def _said(self, block: _Block, words: str) -> list[Delta]:
        if not words:
            return []
        if block.kind == "text":
            block.pieces.append(words)
        return [TextDelta(words)]

    def _thought(self, block: _Block, thoughts: str) -> list[Delta]:
        if not thoughts:
            return []
        if block.kind == "thinking":
            block.pieces.append(thoughts)
        return [ReasoningDelta(thoughts)]

    def _argued(self, block: _Block, piece: Any) -> list[Delta]:
        arguments = arguments_in(piece)
        if not arguments:
            return []
        if block.slot is None:
            if block.is_own:
                block.pieces.append(arguments)
            return []
        block.pieces.append(arguments)
        return [CallDelta(block.slot, arguments=arguments)]

    def _block_ended(self, place: int | None) -> list[Delta]:
        """A block is whole: a call whose input came with its beginning has it now."""
        block = self._by_index.get(place) if place is not None else self._blocks[-1] if self._blocks else None
        if block is None or block.slot is None or block.pieces:
            return []
        return self._argued(block, block.start.get("input") or {})

    # ------------------------------------------------------------ the message

    def _begin(self, message: Mapping[str, Any]) -> Delta:
        self._count(message.get("usage"))
        return Meta(self._usage(), model=word(message.get("model")), request_id=self._request_id)

    def _finish(self, reason: Any) -> list[Delta]:
        if self.ended or not reason or not isinstance(reason, str):
            return []
        failure = chat_decode.FAILURES.get(reason.lower())
        if failure is not None:
            raise ModelError(Fault(failure, f"the reply ended with {reason!r}", code=reason))
        return self._stopped(FINISHES.get(reason.lower(), Finish.STOP))

    def _end(self) -> list[Delta]:
        """The provider says that this was all; without a stop reason it has ended well."""
        self.done = True
        return [] if self.ended else self._stopped(Finish.TOOL_CALLS if self._calls else Finish.STOP)

    def _stopped(self, finish: Finish) -> list[Delta]:
        self.ended = True
        return [Meta(self._usage(), self._replay()), Stopped(finish)]

    def _replay(self) -> tuple[Any, ...]:
        """What the provider wants back of the reply, nothing where its text and its calls are all of it."""
        try:
            content = [kept for block in self._blocks if (kept := block.kept()) is not None]
        except ValueError:  # the input of one of its own tools is cut
            return ()
        plain = all(block["type"] in ("text", "tool_use") and "citations" not in block for block in content)
        return () if plain else (replay_item(self._model, not_deep(content)),)

    def _count(self, usage: Any) -> None:
        """Counts are told again as they grow; servers that leave one out later mean no zero by it."""
        for name in _USAGE:
            self._counts[name] = max(self._counts[name], count(mapping(usage).get(name)))
        details = mapping(mapping(usage).get("output_tokens_details"))
        self._thought_tokens = max(self._thought_tokens, count(details.get("thinking_tokens")))

    def _usage(self) -> Usage:
        fresh, written, stored, cached = (self._counts[name] for name in _USAGE)
        return Usage(fresh + stored + cached, written, cached, self._thought_tokens)


def _body(value: Any) -> Mapping[str, Any]:
    """The value as a mapping that tells of no fault; raises ModelError where it is none, or does."""
    if not isinstance(value, dict):
        raise ModelError(Fault(FaultKind.MALFORMED, f"an event is a JSON {type(value).__name__}, not an object"))
    if value.get("type") == "error" or value.get("error"):
        raise ModelError(fault_of_body(value))
    return value
