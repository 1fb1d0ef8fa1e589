"""What a case sets a loop up with: its messages, its tools that follow a script, its limits, and a plain compactor."""

from __future__ import annotations

import asyncio
import builtins
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio

from fsm_loop.config import LoopConfig
from fsm_loop.core.faults import Fault
from fsm_loop.core.messages import Message, SystemMessage, ToolMessage, UserMessage
from fsm_loop.ports import Clock
from fsm_loop.testing.wire.words import CONFIG, DEFAULTS

Parts = Mapping[str, Any]

TYPES: Mapping[str, Any] = {
    "string": str, "integer": int, "number": float, "boolean": bool, "object": dict[str, Any], "array": list[Any],
}  # fmt: skip
SHORT_RESULT_CHARS = 200  # of a tool's result that a compactor leaves where there is nothing else to leave out


def config_of(given: Parts) -> LoopConfig:
    """The case's settings as ours, those that it does not give by the cases' defaults."""
    return LoopConfig(**{**_fields(DEFAULTS), **_fields(given)})


def _fields(settings: Parts) -> dict[str, Any]:
    """Our names for the settings; of two that are one of ours, the smaller one holds."""
    values: dict[str, Any] = {}
    for name in CONFIG.keys() & settings.keys():
        for field in CONFIG[name]:
            values[field] = min(settings[name], values.get(field, settings[name]))
    return values


def messages_of(given: Sequence[Parts]) -> list[dict[str, Any]]:
    """The case's messages, OpenAI-shaped."""
    return [_message(each) for each in given]


def _message(given: Parts) -> dict[str, Any]:
    message = {name: value for name, value in given.items() if name != "tool_calls"}
    if isinstance(given.get("content"), list):
        message["content"] = [_part(part) for part in given["content"]]
    if given.get("tool_calls"):
        message["tool_calls"] = [
            {"id": call["id"], "type": "function", "function": _function(call)} for call in given["tool_calls"]
        ]
    return message


def _part(given: Parts) -> Parts:
    """The part of a message; an image is told as a `data:` URL."""
    if given.get("type") != "image":
        return given
    return {"type": "image_url", "image_url": {"url": f"data:{given['media_type']};base64,{given['data']}"}}


def _function(call: Parts) -> dict[str, str]:
    return {"name": call["name"], "arguments": json.dumps(call["arguments"])}


def tool_of(given: Parts, clock: Clock, executed: list[dict[str, Any]]) -> Callable[..., Any]:
    """The tool as a plain function of its parameters, each run of it the next step of its script."""
    properties = given["parameters"].get("properties", {})
    required = given["parameters"].get("required", ())
    runs = 0

    async def tool(**arguments: Any) -> Any:
        nonlocal runs
        step = given["script"][min(runs, len(given["script"]) - 1)]
        runs += 1
        passed = {name: value for name, value in arguments.items() if value is not None or name in required}
        executed.append({"name": given["name"], "arguments": passed})
        if step.get("delay"):
            await clock.sleep_until(clock.now() + step["delay"])
        if step.get("hangs"):
            await anyio.sleep_forever()
        if "raises" in step:
            raise _error(step["raises"])
        return step.get("returns")

    hints = {name: TYPES.get(str(each.get("type")), Any) for name, each in properties.items()}
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=hint)
        if name in required
        else inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=hint | None, default=None)
        for name, hint in hints.items()
    ]
    tool.__name__ = given["name"]
    tool.__doc__ = given.get("description", "")
    tool.__annotations__ = {each.name: each.annotation for each in parameters}
    tool.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # inspect looks for it
    return tool


def _error(told: str) -> BaseException:
    """The exception that a script names: `asyncio.CancelledError`, or `RuntimeError: disk full`."""
    name, _, text = told.partition(": ")
    if name == "asyncio.CancelledError":
        return asyncio.CancelledError(*filter(None, [text]))
    kind = getattr(builtins, name, RuntimeError)
    error: BaseException = kind(text) if isinstance(kind, type) and issubclass(kind, Exception) else RuntimeError(told)
    return error


class PlainCompactor:
    """Leaves out the older half of the conversation; where the user spoke but once, shortens results of tools."""

    async def compact(self, messages: Sequence[Message], fault: Fault) -> Sequence[Message]:
        """The messages, made shorter; the same ones where that cannot be."""
        begins = [place for place, each in enumerate(messages) if isinstance(each, UserMessage)]
        if len(begins) > 1:
            kept = begins[(len(begins) + 1) // 2]
            system = [each for each in messages[:kept] if isinstance(each, SystemMessage)]
            return [*system, *messages[kept:]]
        return [_shortened(each) for each in messages]


def _shortened(message: Message) -> Message:
    if isinstance(message, ToolMessage) and len(message.text) > SHORT_RESULT_CHARS:
        return ToolMessage(message.call_id, f"{message.text[:SHORT_RESULT_CHARS]} [cut]", message.status)
    return message
