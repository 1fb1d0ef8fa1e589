"""Replies that ended well, and are none: what a provider's own word hides, told as the fault that it is."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator

from fsm_loop.core.faults import Fault, FaultKind
from fsm_loop.core.messages import Finish, Reply, ToolCall

WRITTEN = "invalid call: it was written as text, so nothing was run; ask for the tool through a tool call"
LONGEST_BLOCK_CHARS = 20_000  # of text at the end of a reply in which a written call is looked for

# Forms in which models write the call that their template should have made of it: each a block that ends the text.
_OF_JSON = re.compile(
    r"(?:<tool_call>|<function_call>|<\|tool_call\|>|\[TOOL_CALLS\]|<\|python_tag\|>|```(?:tool_call|tool_code)\n)"
    r"\s*(?P<json>[\[{].*[\]}])\s*(?:</tool_call>|</function_call>|<\|/tool_call\|>|```)?\s*\Z",
    re.DOTALL,
)
_OF_TAGS = re.compile(
    r"<(?:function=|invoke name=[\"'])(?P<name>[\w.-]+)[\"']?>?.*</(?:function|invoke)>"
    r"\s*(?:</(?:tool_call|function_calls|tool_calls)>)?\s*\Z",
    re.DOTALL,
)
_OF_TOKENS = re.compile(
    r"<[|\uff5c]tool[_\u2581]sep[|\uff5c]>(?P<name>[\w.-]+).*<[|\uff5c]tool[_\u2581]calls?[_\u2581]end[|\uff5c]>\s*\Z",
    re.DOTALL,
)
_ALL_JSON = re.compile(r"\s*(?:```(?:json)?\n)?\s*(?P<json>\{.*\})\s*(?:```)?\s*\Z", re.DOTALL)
_OF_A_CALL = (
    {"name", "arguments"},
    {"name", "parameters"},
    {"type", "name", "arguments"},
    {"type", "name", "parameters"},
)


def fault_of_reply(reply: Reply) -> Fault | None:
    """Why this reply is none, though the provider says that it ended; None where it is one."""
    if reply.tool_calls:
        return None
    usage = reply.usage
    wrote_nothing = not (reply.text or reply.reasoning or usage.output_tokens)
    if reply.finish is Finish.LENGTH and wrote_nothing and usage.input_tokens:
        read = f"{usage.input_tokens} tokens were read, and no room was left for a reply"
        return Fault(FaultKind.CONTEXT_TOO_LONG, read)
    if reply.finish is Finish.TOOL_CALLS:
        return Fault(FaultKind.MISSPOKE, "the reply ended as if it asked for a tool, and no call was in it")
    return None


def written_call(reply: Reply, tools: Container[str]) -> ToolCall | None:
    """The call of one of these tools that the reply writes out at its end instead of making it."""
    if reply.tool_calls or reply.finish is not Finish.STOP or not reply.text.rstrip().endswith((">", "}", "]", "`")):
        return None
    text = reply.text[-LONGEST_BLOCK_CHARS:]
    return next((call for call in _written(text) if call.name in tools), None)


def _written(text: str) -> Iterator[ToolCall]:
    found = _OF_JSON.search(text)
    if found:
        yield from _calls_in(found["json"])
    found = _OF_TAGS.search(text) or _OF_TOKENS.search(text)
    if found:
        yield ToolCall("", found["name"], "{}", WRITTEN)
    found = _ALL_JSON.match(text)
    if found:
        yield from _calls_in(found["json"], bare=True)


def _calls_in(text: str, *, bare: bool = False) -> Iterator[ToolCall]:
    """The calls that the JSON text holds; *bare* text is one only where it holds nothing but a call."""
    try:
        value = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, dict) and isinstance(each.get("name"), str) and (not bare or set(each) in _OF_A_CALL):
            arguments = each.get("arguments", each.get("parameters", {}))
            yield ToolCall("", each["name"], json.dumps(arguments), WRITTEN)
