"""What a client said in a request, the same for the three protocols: who speaks, which calls, which results."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from attrs import define, field, frozen

# A result looks like an error where one of these words stands: two of the protocols have no flag for it.
_ERROR = re.compile(
    r"error|fail|interrupt|cancel|abort|timed? ?out|not (?:found|exist|executed|available)|no such|unknown|invalid"
    r"|truncat|skipp|denied",
    re.IGNORECASE,
)


@frozen
class Call:
    """A tool call; `arguments` as they stand in the request."""

    id: str
    name: str
    arguments: Any


@frozen
class Result:
    """The result of a tool call."""

    id: str
    text: str
    is_error: bool


@define
class Heard:
    """One message of the request; `empty` where the provider would refuse it for saying nothing."""

    role: str
    text: str = ""
    calls: list[Call] = field(factory=list)
    results: list[Result] = field(factory=list)
    empty: bool = False


def heard(body: Any, protocol: str) -> list[Heard]:
    """The messages of a request's body."""
    if not isinstance(body, dict):
        return []
    if protocol == "openai-responses":
        return _responses(body)
    read = _anthropic if protocol == "anthropic" else _chat
    return [read(message) for message in body.get("messages") or ()]


def _text(content: Any) -> str:
    """All the text in a message's content."""
    if isinstance(content, str):
        return content
    found = []
    for part in content if isinstance(content, list) else ():
        if isinstance(part, str):
            found.append(part)
        elif isinstance(part, dict):
            inner = part.get("text") if part.get("type") != "tool_result" else _text(part.get("content"))
            found.append(inner if isinstance(inner, str) else "")
    return "".join(found)


def _chat(message: Mapping[str, Any]) -> Heard:
    content, role = message.get("content"), str(message.get("role"))
    said = Heard(role, _text(content))
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        said.calls.append(Call(call.get("id") or "", function.get("name") or "", function.get("arguments")))
    silent = not said.text.strip()
    if role == "tool":
        said.results.append(Result(message.get("tool_call_id") or "", said.text, _ERROR.search(said.text) is not None))
        said.empty = silent
    elif role in ("user", "assistant"):
        said.empty = silent and not said.calls and not isinstance(content, list)
    return said


def _anthropic(message: Mapping[str, Any]) -> Heard:
    content = message.get("content")
    said = Heard(str(message.get("role")), _text(content))
    said.empty = not content or (isinstance(content, str) and not content.strip())
    for block in content if isinstance(content, list) else ():
        match block:
            case {"type": "tool_use"}:
                said.calls.append(Call(block.get("id") or "", block.get("name") or "", block.get("input")))
            case {"type": "tool_result"}:
                text = _text(block.get("content"))
                wrong = bool(block.get("is_error")) or _ERROR.search(text) is not None
                said.results.append(Result(block.get("tool_use_id") or "", text, wrong))
                said.empty = said.empty or not text.strip()
            case {"type": "text", "text": str(text)} if not text.strip():
                said.empty = True
    return said


def _responses(body: Mapping[str, Any]) -> list[Heard]:
    given = body.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given or []
    found: list[Heard] = []
    for item in items:
        match item.get("type", "message"):
            case "message":
                found.append(Heard(str(item.get("role")), _text(item.get("content"))))
            case "function_call":
                if not found or found[-1].role != "assistant":
                    found.append(Heard("assistant"))
                found[-1].calls.append(Call(item.get("call_id") or "", item.get("name") or "", item.get("arguments")))
            case "function_call_output":
                text = _text(item.get("output"))
                result = Result(item.get("call_id") or "", text, _ERROR.search(text) is not None)
                found.append(Heard("tool", text, results=[result], empty=not text.strip()))
    return found
