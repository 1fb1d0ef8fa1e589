"""A request in the words of OpenAI's Responses: pure, so that any transport can send it.

Nothing is stored at the provider. So a reasoning model is asked for its reasoning sealed, and gets it back with what
followed it: an item of reasoning that nothing follows is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from attrs import field, frozen

from fsm_loop.core.conversation import joined
from fsm_loop.core.effects import Request
from fsm_loop.core.messages import (
    AssistantMessage,
    Message,
    Part,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
    arguments_of,
)
from fsm_loop.ports import ToolSpec
from fsm_loop.providers.call_ids import fitted_id
from fsm_loop.providers.chat_encode import BE_BRIEF, NO_OUTPUT
from fsm_loop.providers.classify import root_of
from fsm_loop.providers.fields import items, mapping, text
from fsm_loop.providers.openai_responses_items import CALL, MESSAGE, PROTOCOL

SEALED = "reasoning.encrypted_content"
CALL_ID_PATTERN = r"^[a-zA-Z0-9_-]{1,64}$"
NEVER_DROPPED = ("model", "input")
OURS = ("model", "input", "stream")  # what `extra` has no say in

# The vendor's prefix that gateways put before a model's name ("openai/o3") does not count.
_REASONS = re.compile(r"(?:.*/)?(?:o\d|gpt-(?:[5-9]|\d\d)(?!.*chat)|codex|grok-(?:[4-9]|code|3-mini))", re.IGNORECASE)
_EFFORTS = (
    (re.compile(r"(?:.*/)?gpt-5(?:-mini|-nano)?(?:-\d|$)", re.IGNORECASE), "minimal"),
    (re.compile(r"(?:.*/)?(?:o\d|gpt-[5-9](?!.*(?:chat|pro))|gpt-oss|codex|grok-3-mini)", re.IGNORECASE), "low"),
)

Parts = dict[str, Any]


@frozen
class ResponsesShape:
    """What of the body is this provider's own: its model and its further parameters."""

    model: str
    extra: Mapping[str, Any] = field(factory=dict)

    @property
    def reasons(self) -> bool:
        """Whether the model is known to reason, by its name or by what is asked of it."""
        return _REASONS.match(self.model) is not None or "reasoning" in self.extra


def body_of(request: Request, tools: Sequence[ToolSpec], shape: ResponsesShape) -> dict[str, Any]:
    """The body of the request; parameters that the provider does not know are left out of it."""
    dropped = set(map(root_of, request.without)).difference(NEVER_DROPPED)
    body: dict[str, Any] = {"store": False}
    if shape.reasons:
        body["include"] = [SEALED]
    body |= {name: value for name, value in shape.extra.items() if name not in OURS}
    messages = request.messages
    if "instructions" not in dropped:
        lead = [each.text for each in takewhile(lambda each: isinstance(each, SystemMessage), messages)]
        messages = messages[len(lead) :]
        instructions = [*filter(None, (body.get("instructions"), *lead))]
        body |= {"instructions": "\n\n".join(instructions)} if instructions else {}
    body |= {"model": shape.model, "input": _input(messages, shape)}
    _offer(body, request, tools)
    if request.output_limit is not None:
        body["max_output_tokens"] = request.output_limit
    if request.stream:
        body["stream"] = True
    if request.less_reasoning:
        _think_less(body, request, shape)
    return {name: value for name, value in body.items() if name not in dropped}


# ---------------------------------------------------------------- items


def _input(messages: Sequence[Message], shape: ResponsesShape) -> list[Parts]:
    return [item for message in _told_together(messages) for item in _items(message, shape)]


def _told_together(messages: Sequence[Message]) -> list[Message]:
    """The messages that say something, two in a row of the user's as one: templates of local servers want turns."""
    fresh: list[Message] = []
    for message in messages:
        before = fresh[-1] if fresh else None
        if isinstance(message, UserMessage) and isinstance(before, UserMessage):
            fresh[-1] = joined(before, message)
        elif not (isinstance(message, AssistantMessage) and not message.text and not message.tool_calls):
            fresh.append(message)
    return fresh


def _items(message: Message, shape: ResponsesShape) -> list[Parts]:
    match message:
        case SystemMessage(words):
            return [{"type": MESSAGE, "role": "system", "content": words}]
        case UserMessage(content):
            said = content if isinstance(content, str) else [*map(_part, content)]
            return [{"type": MESSAGE, "role": "user", "content": said}]
        case ToolMessage(call_id, words):
            return [
                {
                    "type": f"{CALL}_output",
                    "call_id": _call_id(call_id),
                    "output": words if words.strip() else NO_OUTPUT,
                }
            ]
        case _:
            return _assistant(message, shape)


def _part(part: Part) -> Parts:
    if isinstance(part, TextPart):
        return {"type": "input_text", "text": part.text}
    return {"type": "input_image", "image_url": part.url, "detail": "auto"}


def _call_id(call_id: str) -> str:
    return fitted_id(call_id, CALL_ID_PATTERN)


def _spoken(words: str, kept: Mapping[str, Any] | None = None) -> Parts:
    """Words of the model's; with the id and the phase of the message that they are unchanged."""
    own = {"id": kept["id"], "status": "completed"} if kept and kept["id"] else {}
    phase = {"phase": kept["phase"]} if kept and "phase" in kept else {}
    content = [{"type": "output_text", "text": words, "annotations": []}]
    return {"type": MESSAGE, "role": "assistant", "content": content, **own, **phase}


def _call(call: ToolCall, kept: Mapping[str, Any] | None = None) -> Parts:
    """The call, with arguments that are a JSON object: servers parse them, and fail for ever on what is none."""
    arguments = call.arguments if call.arguments.strip() else "{}"
    if arguments_of(call) is None:
        arguments = json.dumps({"invalid_json": call.arguments})
    own = {"id": kept["id"]} if kept and kept["id"] and kept["call_id"] == call.id else {}
    return {"type": CALL, "call_id": _call_id(call.id), "name": call.name, "arguments": arguments, **own}


# ---------------------------------------------------------------- what the model wants back


def _assistant(message: AssistantMessage, shape: ResponsesShape) -> list[Parts]:
    """What the model said, item by item where that was kept for this very model; else its text and its calls."""
    kept = _kept(message.replay, shape)
    if not _fits(kept, message):
        kept = [{"type": MESSAGE, "id": "", "text": message.text}]
        kept += [{"type": CALL, "id": "", "call_id": "", "name": each.name} for each in message.tool_calls]
    calls = iter(message.tool_calls)
    words = _words(kept, message.text)
    found: list[Parts] = []
    for each in kept:
        if each["type"] == MESSAGE:
            found += next(words)
        elif each["type"] == CALL:
            found.append(_call(next(calls), each))
        else:
            found.append(dict(each))
    return [*_followed(found)]


def _fits(kept: Sequence[Parts], message: AssistantMessage) -> bool:
    """Whether what was kept has a place for all that the message says: somebody may have changed it since."""
    names = [each["name"] for each in kept if each["type"] == CALL]
    spoke = any(each["type"] == MESSAGE for each in kept)
    return names == [each.name for each in message.tool_calls] and (spoke or not message.text)


def _words(kept: Sequence[Parts], words: str) -> Iterator[list[Parts]]:
    """The messages in which the words stand: as they were where they are the same, else all in the first of them."""
    messages = [each for each in kept if each["type"] == MESSAGE]
    if words == "".join(each["text"] for each in messages):
        yield from ([_spoken(each["text"], each)] if each["text"] else [] for each in messages)
        return
    phases = {name: value for each in messages[-1:] for name, value in each.items() if name == "phase"}
    yield [_spoken(words, {"id": "", **phases})] if words else []
    yield from ([] for _ in messages[1:])


def _kept(replay: Sequence[Any], shape: ResponsesShape) -> list[Parts]:
    """The items that this model wants back: what one model sealed, no other can open."""
    for each in reversed(replay):
        kept = mapping(each)
        if kept.get("protocol") == PROTOCOL and kept.get("model") == shape.model:
            return [dict(item) for item in items(kept.get("items"))]
    return []


def _followed(found: Sequence[Parts]) -> Iterator[Parts]:
    """The items without reasoning that none of them follows."""
    last = max((place for place, each in enumerate(found) if each["type"] in (MESSAGE, CALL)), default=-1)
    return (each for place, each in enumerate(found) if place <= last)


# ---------------------------------------------------------------- tools and reasoning


def _offer(body: dict[str, Any], request: Request, tools: Sequence[ToolSpec]) -> None:
    """The tools on offer; where none is, they are still defined for a history that holds calls, and forbidden."""
    defined = [*items(body.pop("tools", None)), *map(_tool, tools)]
    if not defined:
        return
    if not request.tools:
        if not any(each["type"] == CALL for each in body["input"]):
            body.pop("tool_choice", None)
            return
        body["tool_choice"] = "none"
    body["tools"] = defined


def _tool(spec: ToolSpec) -> Parts:
    """The tool; not `strict`, which is the API's default and takes few schemas as they are."""
    return {
        "type": "function",
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.parameters,
        "strict": False,
    }


def _think_less(body: dict[str, Any], request: Request, shape: ResponsesShape) -> None:
    """Ask for less reasoning: by the parameter where the model has it, else in words, so that the request differs."""
    effort = next((effort for names, effort in _EFFORTS if names.match(shape.model)), "")
    asked = mapping(body.get("reasoning"))
    refused = any(root_of(name) == "reasoning" for name in request.without)
    if effort and not refused and asked.get("effort") != effort:
        body["reasoning"] = {**asked, "effort": effort}
        return
    last = body["input"][-1] if body["input"] else {}
    if last.get("role") != "user":
        body["input"].append({"type": MESSAGE, "role": "user", "content": BE_BRIEF})
    elif isinstance(last["content"], str):
        last["content"] = f"{text(last['content'])}\n\n{BE_BRIEF}"
    else:
        last["content"] = [*last["content"], {"type": "input_text", "text": BE_BRIEF}]
