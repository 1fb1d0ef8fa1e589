"""A request in the words of OpenAI's Chat Completions: pure, so that any transport can send it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve, field, frozen

from fsm_loop.core.conversation import joined
from fsm_loop.core.effects import Request
from fsm_loop.core.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage, arguments_of
from fsm_loop.drive.edge import plain_message
from fsm_loop.ports import ToolSpec
from fsm_loop.providers.call_ids import fitted_id
from fsm_loop.providers.classify import root_of

BE_BRIEF = "Think as briefly as you can, and answer."
NO_OUTPUT = "(no output)"
LIMITS = ("max_tokens", "max_completion_tokens")
NEVER_DROPPED = ("model", "messages")
OURS = ("model", "messages", "stream", "stream_options")  # what `extra` has no say in

# The vendor's prefix that gateways put before a model's name ("openai/o3") does not count.
_NEW_LIMIT = re.compile(r"(?:.*/)?(?:o\d|gpt-5)", re.IGNORECASE)
_EFFORTS = (
    (re.compile(r"(?:.*/)?gpt-5(?:-mini|-nano)?(?:-\d|$)", re.IGNORECASE), "minimal"),
    (re.compile(r"(?:.*/)?(?:o\d|gpt-5|gpt-oss|grok-3-mini)", re.IGNORECASE), "low"),
)


@frozen
class ChatShape:
    """What of the body is this provider's own: its model, its further parameters, and two habits.

    `output_limit_name` is one of LIMITS, or empty where the model's name shall decide; `returns_reasoning` sends the
    model's reasoning back with its messages, which some providers demand and others refuse. `call_id_pattern` is the
    form of ids that it takes, empty for any.
    """

    model: str
    extra: Mapping[str, Any] = field(factory=dict)
    output_limit_name: str = ""
    returns_reasoning: bool = False
    call_id_pattern: str = ""


def body_of(request: Request, tools: Sequence[ToolSpec], shape: ChatShape) -> dict[str, Any]:
    """The body of the request; parameters that the provider does not know are left out of it."""
    body = {name: value for name, value in shape.extra.items() if name not in OURS}
    body |= {"model": shape.model, "messages": _messages(request.messages, shape)}
    body |= _tools(request, tools)
    if request.output_limit is not None:
        body = {name: value for name, value in body.items() if name not in LIMITS} | _limit(request, shape)
    if request.stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    if request.less_reasoning:
        _think_less(body, request, shape)
    return without(body, request.without)


def without(body: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The body without these parameters; a name that points inside one (`a.b`, `a[0]`) takes the whole of it."""
    dropped = set(map(root_of, names)).difference(NEVER_DROPPED)
    return {name: value for name, value in body.items() if name not in dropped}


def _messages(messages: tuple[Message, ...], shape: ChatShape) -> list[dict[str, Any]]:
    return [_message(each, shape) for each in _told_together(messages)]


def _told_together(messages: tuple[Message, ...]) -> list[Message]:
    """The messages that say something, two in a row of the user's as one: templates of local servers want turns."""
    fresh: list[Message] = []
    for message in messages:
        before = fresh[-1] if fresh else None
        if isinstance(message, UserMessage) and isinstance(before, UserMessage):
            fresh[-1] = joined(before, message)
        elif not _says_nothing(message):
            fresh.append(message)
    return fresh


def _says_nothing(message: Message) -> bool:
    return isinstance(message, AssistantMessage) and not message.text and not message.tool_calls


def _message(message: Message, shape: ChatShape) -> dict[str, Any]:
    match message:
        case ToolMessage(call_id, text):  # several providers refuse an empty text
            return plain_message(
                evolve(message, text=text or NO_OUTPUT, call_id=fitted_id(call_id, shape.call_id_pattern))
            )
        case AssistantMessage(tool_calls=calls, reasoning=reasoning):
            plain = plain_message(evolve(message, tool_calls=tuple(_sendable(call, shape) for call in calls)))
            if shape.returns_reasoning and reasoning:
                plain["reasoning_content"] = reasoning
            return plain
        case _:
            return plain_message(message)


def _sendable(call: ToolCall, shape: ChatShape) -> ToolCall:
    """The call with arguments that are a JSON object: servers parse them, and fail for ever on what is none."""
    fit = evolve(call, id=fitted_id(call.id, shape.call_id_pattern))
    if arguments_of(call) is not None:
        return fit
    return evolve(fit, arguments=json.dumps({"invalid_json": call.arguments}))


def _tools(request: Request, tools: Sequence[ToolSpec]) -> dict[str, Any]:
    """The tools on offer; where none is, they are still defined for a history that holds calls, and forbidden."""
    if not tools:
        return {}
    offered = {"tools": [_tool(spec) for spec in tools]}
    if request.tools:
        return offered
    called = any(isinstance(each, AssistantMessage) and each.tool_calls for each in request.messages)
    return {**offered, "tool_choice": "none"} if called else {}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return {"type": "function", "function": function}


def _limit(request: Request, shape: ChatShape) -> dict[str, Any]:
    """The output limit under the name that the model knows: the other one where it was refused."""
    old, new = LIMITS
    first = shape.output_limit_name or (new if _NEW_LIMIT.match(shape.model) else old)
    name = next((each for each in (first, *LIMITS) if each not in request.without), None)
    return {} if name is None else {name: request.output_limit}


def _think_less(body: dict[str, Any], request: Request, shape: ChatShape) -> None:
    """Ask for less reasoning: by the parameter where the model has it, else in words, so that the request differs."""
    effort = next((effort for names, effort in _EFFORTS if names.match(shape.model)), "")
    if effort and "reasoning_effort" not in request.without and body.get("reasoning_effort") != effort:
        body["reasoning_effort"] = effort
        return
    messages = body["messages"]
    last = request.messages[-1] if request.messages else None
    if isinstance(last, UserMessage) and isinstance(last.content, str):
        messages[-1] = {"role": "user", "content": f"{last.content}\n\n{BE_BRIEF}"}
    elif isinstance(last, UserMessage):
        messages[-1] = {"role": "user", "content": [*messages[-1]["content"], {"type": "text", "text": BE_BRIEF}]}
    else:
        messages.append({"role": "user", "content": BE_BRIEF})
