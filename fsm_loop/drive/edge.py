"""The edge: OpenAI-shaped dictionaries outside, typed messages inside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fsm_loop.core.messages import (
    AssistantMessage,
    MediaPart,
    Message,
    Part,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolStatus,
    UserMessage,
)
from fsm_loop.errors import MessageError

ROLES = ("system", "developer", "user", "assistant", "tool")
Prompt = str | Sequence[Mapping[str, Any] | Message]


def typed(prompt: Prompt) -> tuple[Message, ...]:
    """The prompt as messages: a text is the user's word, a list is a conversation.

    Each tool call in it gets exactly one result, right behind it, and a result that answers none is left out: a history
    that was cut somewhere must not brick a session. Raises MessageError where a message has no shape.
    """
    if isinstance(prompt, str):
        return (UserMessage(prompt),)
    messages = tuple(_typed(place, each) for place, each in enumerate(prompt))
    if not messages:
        msg = "no messages were given; give a text, or a list with at least one message"
        raise MessageError(msg)
    return paired(messages)


def plain(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """The messages as OpenAI-shaped dictionaries."""
    return [plain_message(message) for message in messages]


def plain_message(message: Message) -> dict[str, Any]:
    """One message as an OpenAI-shaped dictionary."""
    match message:
        case SystemMessage(text):
            return {"role": "system", "content": text}
        case UserMessage(content):
            return {"role": "user", "content": content if isinstance(content, str) else [*map(_plain_part, content)]}
        case ToolMessage(call_id, text):
            return {"role": "tool", "tool_call_id": call_id, "content": text}
        case AssistantMessage(text, calls):
            shape: dict[str, Any] = {"role": "assistant", "content": text or None if calls else text}
            if calls:
                shape["tool_calls"] = [_plain_call(call) for call in calls]
            return shape


def _plain_part(part: Part) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    return {"type": "image_url", "image_url": {"url": part.url}}


def _plain_call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments or "{}"}}


def _typed(place: int, given: Any) -> Message:
    if isinstance(given, (SystemMessage, UserMessage, AssistantMessage, ToolMessage)):
        return given
    if not isinstance(given, Mapping):  # whoever has no type checker may give anything
        msg = f"message {place} is {type(given).__name__}; a message is a dictionary with role and content"
        raise MessageError(msg)
    try:
        return _of_role(given)
    except (KeyError, TypeError, AttributeError) as error:
        msg = f"message {place} (role {given.get('role')!r}) is not OpenAI-shaped: {type(error).__name__} {error}"
        raise MessageError(msg) from error
    except MessageError as error:
        msg = f"message {place}: {error}"
        raise MessageError(msg) from error


def _of_role(given: Mapping[str, Any]) -> Message:
    role, content = given.get("role"), given.get("content")
    match role:
        case "system" | "developer":
            return SystemMessage(_text(content))
        case "user":
            return UserMessage(content if isinstance(content, str) else _parts(content))
        case "assistant":
            calls = tuple(_typed_call(call) for call in given.get("tool_calls") or ())
            return AssistantMessage(_text(content), calls)
        case "tool":
            return ToolMessage(_string(given["tool_call_id"], "tool_call_id"), _text(content), ToolStatus.OK)
    msg = f"role is {role!r}; it must be one of {', '.join(ROLES)}"
    raise MessageError(msg)


def _typed_call(call: Mapping[str, Any]) -> ToolCall:
    function = call["function"]
    arguments = function.get("arguments") or "{}"
    return ToolCall(_string(call["id"], "id"), _string(function["name"], "name"), _string(arguments, "arguments"))


def _string(value: object, what: str) -> str:
    if isinstance(value, str):
        return value
    msg = f"{what} is {type(value).__name__}; it must be text"
    raise MessageError(msg)


def _text(content: object) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return "".join(part.text for part in _parts(content) if isinstance(part, TextPart))


def _parts(content: Any) -> tuple[Part, ...]:
    if content is None or not isinstance(content, Sequence):
        msg = f"content is {type(content).__name__}; it must be text or a list of parts"
        raise MessageError(msg)
    return tuple(_part(part) for part in content)


def _part(part: Mapping[str, Any]) -> Part:
    match part.get("type"):
        case "text" | "input_text" | "refusal":
            return TextPart(_string(part.get("text", part.get("refusal")), "text"))
        case "image_url":
            return MediaPart(_string(part["image_url"]["url"], "url"))
    msg = f"a part of type {part.get('type')!r} is not known; parts are text and image_url"
    raise MessageError(msg)


NO_RESULT = "outcome unknown: no result was kept"


def paired(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The messages with each tool call answered exactly once, right behind it; the same ones where they are so."""
    fresh: list[Message] = []
    for place, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            continue
        fresh.append(message)
        if isinstance(message, AssistantMessage) and message.tool_calls:
            answers = {each.call_id: each for each in reversed(_answers_behind(messages, place))}
            fresh += [answers.get(call.id) or _unanswered(call) for call in message.tool_calls]
    return messages if tuple(fresh) == messages else tuple(fresh)


def _answers_behind(messages: tuple[Message, ...], place: int) -> list[ToolMessage]:
    """The results between this message and the next that makes calls: ids may come again later."""
    found: list[ToolMessage] = []
    for message in messages[place + 1 :]:
        if isinstance(message, AssistantMessage) and message.tool_calls:
            break
        if isinstance(message, ToolMessage):
            found.append(message)
    return found


def _unanswered(call: ToolCall) -> ToolMessage:
    return ToolMessage(call.id, NO_RESULT, ToolStatus.UNKNOWN)
