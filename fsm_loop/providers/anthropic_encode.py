"""A request in the words of Anthropic's Messages: pure, so that any transport can send it."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote_to_bytes

from attrs import field, frozen

from fsm_loop.core.effects import Request
from fsm_loop.core.messages import (
    AssistantMessage,
    MediaPart,
    Message,
    Part,
    SystemMessage,
    ToolCall,
    ToolMessage,
    ToolStatus,
    UserMessage,
    arguments_of,
)
from fsm_loop.ports import ToolSpec
from fsm_loop.providers.anthropic_decode import OWN_TOOLS, PROTOCOL
from fsm_loop.providers.call_ids import fitted_id
from fsm_loop.providers.chat_encode import BE_BRIEF, NO_OUTPUT
from fsm_loop.providers.classify import root_of
from fsm_loop.providers.fields import count, items, mapping

MAX_TOKENS = 8192  # where nobody said how long a reply may be: the API demands a number
SMALLEST_BUDGET = 1024  # of thoughts, in tokens: the API takes no smaller one
CALL_ID_PATTERN = r"^[a-zA-Z0-9_-]{1,64}$"
BEFORE = "(The conversation goes on from here.)"  # a user speaks first
NEVER_DROPPED = ("model", "messages", "max_tokens")
OURS = ("model", "messages", "stream")  # what `extra` has no say in
THOUGHTS = ("thinking", "redacted_thinking")

Block = dict[str, Any]


@frozen
class MessagesShape:
    """What of the body is this provider's own: its model, its further parameters, and how long a reply may be."""

    model: str
    extra: Mapping[str, Any] = field(factory=dict)
    max_tokens: int = MAX_TOKENS


def body_of(request: Request, tools: Sequence[ToolSpec], shape: MessagesShape) -> dict[str, Any]:
    """The body of the request; parameters that the provider does not know are left out of it."""
    dropped = set(map(root_of, request.without)).difference(NEVER_DROPPED)
    body = {name: value for name, value in shape.extra.items() if name not in dropped.union(OURS)}
    limit = request.output_limit or count(body.get("max_tokens")) or shape.max_tokens
    body |= {"model": shape.model, "max_tokens": limit, "messages": _messages(request.messages, shape)}
    system = "\n\n".join(
        each.text for each in request.messages if isinstance(each, SystemMessage) and each.text.strip()
    )
    if system:
        body["system"] = system
    _offer(body, request, tools)
    _fit_thinking(body)
    if request.less_reasoning:
        _think_less(body, request)
    if request.stream:
        body["stream"] = True
    return {name: value for name, value in body.items() if name not in dropped}


# ---------------------------------------------------------------- messages


def _messages(messages: Sequence[Message], shape: MessagesShape) -> list[dict[str, Any]]:
    """The messages in turns: what one side says in a row is one message, and the user speaks first."""
    turns = _in_turns((_role(message), _blocks(message, shape)) for message in messages)
    before, last = turns[:-1], turns[-1:]
    turns = _in_turns([*((role, _without_unanswered(blocks)) for role, blocks in before), *last])
    if turns and turns[0][0] == "assistant":
        turns.insert(0, ("user", [_text(BEFORE)]))
    if turns and turns[-1][0] == "assistant":
        _trim_end(turns[-1][1])
    return [{"role": role, "content": blocks} for role, blocks in turns]


def _role(message: Message) -> str:
    return "assistant" if isinstance(message, AssistantMessage) else "user"


def _in_turns(said: Iterable[tuple[str, list[Block]]]) -> list[tuple[str, list[Block]]]:
    """What is said, neighbours of one side as one, and without what says nothing."""
    turns: list[tuple[str, list[Block]]] = []
    for role, blocks in said:
        if blocks and turns and turns[-1][0] == role:
            turns[-1][1].extend(blocks)
        elif blocks:
            turns.append((role, [*blocks]))
    return turns


def _blocks(message: Message, shape: MessagesShape) -> list[Block]:
    match message:
        case SystemMessage():
            return []
        case UserMessage(content):
            parts = (content,) if isinstance(content, str) else content
            return [block for part in parts if (block := _part(part)) is not None]
        case ToolMessage():
            return [_result(message)]
        case _:
            return _assistant(message, shape)


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _part(part: str | Part) -> Block | None:
    """The part as a block; text that holds nothing is refused, so it is none."""
    if isinstance(part, MediaPart):
        return _media(part.url)
    text = part if isinstance(part, str) else part.text
    return _text(text) if text.strip() else None


def _media(url: str) -> Block:
    if not url.startswith("data:"):
        kind = "document" if url.partition("?")[0].lower().endswith(".pdf") else "image"
        return {"type": kind, "source": {"type": "url", "url": url}}
    head, _, data = url.removeprefix("data:").partition(",")
    media_type, *marks = head.split(";")
    if "base64" not in marks:
        data = base64.b64encode(unquote_to_bytes(data)).decode()
    kind = "document" if media_type == "application/pdf" else "image"
    return {"type": kind, "source": {"type": "base64", "media_type": media_type or "image/png", "data": data}}


def _result(message: ToolMessage) -> Block:
    result = {
        "type": "tool_result",
        "tool_use_id": fitted_id(message.call_id, CALL_ID_PATTERN),
        "content": message.text if message.text.strip() else NO_OUTPUT,
    }
    return result if message.status is ToolStatus.OK else {**result, "is_error": True}


def _call(call: ToolCall) -> Block:
    """The call; arguments that are no object are told in one, for the model to see what it wrote."""
    arguments = arguments_of(call)
    return {
        "type": "tool_use",
        "id": fitted_id(call.id, CALL_ID_PATTERN),
        "name": call.name or "unnamed",
        "input": {"invalid_json": call.arguments} if arguments is None else arguments,
    }


# ---------------------------------------------------------------- what the model wants back


def _assistant(message: AssistantMessage, shape: MessagesShape) -> list[Block]:
    """What the model said, as it said it where that was kept for this very model; else its text and its calls."""
    kept = _kept(message.replay, shape)
    words = "".join(block["text"] for block in kept if block["type"] == "text")
    calls = iter(map(_call, message.tool_calls))
    placed = sum(block["type"] == "tool_use" for block in kept)
    led = next((place for place, block in enumerate(kept) if block["type"] not in THOUGHTS), len(kept))
    if placed == len(message.tool_calls) and message.text.endswith(words):
        lead = message.text.removesuffix(words)
        rest = [next(calls) if block["type"] == "tool_use" else block for block in kept[led:]]
        blocks = [*kept[:led], _text(lead), *rest]
    else:  # somebody has changed it since
        blocks = [*kept[:led], _text(message.text), *calls]
    return _unless_thoughts_alone([block for block in blocks if block["type"] != "text" or block["text"].strip()])


def _unless_thoughts_alone(content: list[Block]) -> list[Block]:
    return content if any(block["type"] not in THOUGHTS for block in content) else []


def _kept(replay: Sequence[Any], shape: MessagesShape) -> list[Block]:
    """The blocks that this model wants back: a signature is good for the model that gave it, and for no other."""
    for item in reversed(replay):
        kept = mapping(item)
        if kept.get("protocol") == PROTOCOL and kept.get("model") == shape.model:
            return [dict(block) for block in items(kept.get("content"))]
    return []


def _without_unanswered(content: list[Block]) -> list[Block]:
    """The blocks without calls of the provider's own tools that have no result, and results without a call."""
    called = {block.get("id") for block in content if block["type"] in OWN_TOOLS}
    answered = {block.get("tool_use_id") for block in content if _is_own_result(block)}
    kept = [
        block
        for block in content
        if (block["type"] not in OWN_TOOLS or block.get("id") in answered)
        and (not _is_own_result(block) or block.get("tool_use_id") in called)
    ]
    return _unless_thoughts_alone(kept)


def _is_own_result(block: Block) -> bool:
    return str(block["type"]).endswith("_tool_result")


def _trim_end(content: list[Block]) -> None:
    """White space at the very end of what the model is to go on from is refused."""
    if content[-1]["type"] == "text":
        content[-1]["text"] = content[-1]["text"].rstrip()


# ---------------------------------------------------------------- tools


def _offer(body: dict[str, Any], request: Request, tools: Sequence[ToolSpec]) -> None:
    """The tools on offer; a history that holds calls needs them defined even where none may be called."""
    defined = [*items(body.pop("tools", None)), *map(_tool, tools)]
    if not (request.tools and defined):
        body.pop("tool_choice", None)
        if not _holds_calls(body["messages"]):
            return
        body["tool_choice"] = {"type": "none"}
        defined = defined or _named_in(body["messages"])
    body["tools"] = defined


def _tool(spec: ToolSpec) -> Block:
    tool = {"name": spec.name, "description": spec.description, "input_schema": spec.parameters}
    return tool if spec.description else {"name": spec.name, "input_schema": spec.parameters}


def _holds_calls(messages: Sequence[Mapping[str, Any]]) -> bool:
    return any(block["type"] in ("tool_use", "tool_result") for each in messages for block in each["content"])


def _named_in(messages: Sequence[Mapping[str, Any]]) -> list[Block]:
    """The tools that the history names, where the turn itself has none."""
    names = {block["name"]: None for each in messages for block in each["content"] if block["type"] == "tool_use"}
    return [{"name": name, "input_schema": {"type": "object"}} for name in names]


# ---------------------------------------------------------------- thinking


def _fit_thinking(body: dict[str, Any]) -> None:
    """Thoughts must be fewer than the reply, and cannot begin in the middle of a round of tools."""
    thinking = mapping(body.get("thinking"))
    if thinking.get("type") != "enabled":
        return
    budget = count(thinking.get("budget_tokens"))
    if budget >= body["max_tokens"]:
        budget = body["max_tokens"] // 2
    _budget(body, 0 if _lacks_thoughts(body["messages"]) else budget)


def _budget(body: dict[str, Any], tokens: int) -> None:
    if tokens < SMALLEST_BUDGET:
        body["thinking"] = {"type": "disabled"}
    elif body["thinking"].get("budget_tokens") != tokens:
        body["thinking"] = {**body["thinking"], "budget_tokens": tokens}


def _lacks_thoughts(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the round of tools that the model is in was begun without thoughts, or they cannot be sent."""
    match messages:
        case [*_, {"role": "assistant", "content": said}, {"role": "user", "content": [{"type": "tool_result"}, *_]}]:
            return bool(said[0]["type"] not in THOUGHTS)
    return False


def _think_less(body: dict[str, Any], request: Request) -> None:
    """Ask for less reasoning: by the parameter where it was on, else in words, so that the request differs."""
    thinking = mapping(body.get("thinking"))
    match thinking.get("type"):
        case "enabled":
            _budget(body, SMALLEST_BUDGET if thinking["budget_tokens"] > SMALLEST_BUDGET else 0)
        case "adaptive":
            output = mapping(body.get("output_config"))
            if output.get("effort") == "low" or "output_config" in request.without:
                body["thinking"] = {"type": "disabled"}
            else:
                body["output_config"] = {**output, "effort": "low"}
        case _:
            _ask_to_be_brief(body["messages"])


def _ask_to_be_brief(messages: list[dict[str, Any]]) -> None:
    if messages and messages[-1]["role"] == "user":
        messages[-1]["content"].append(_text(BE_BRIEF))
    else:
        messages.append({"role": "user", "content": [_text(BE_BRIEF)]})
