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
_JSON_OPENS = re.compile(
    r"<tool_call>|<function_call>|<\|tool_call\|>|\[TOOL_CALLS\]|<\|python_tag\|>|```tool_c(?:all|ode)\n"
)
_JSON_CLOSES = ("</tool_call>", "</function_call>", "<|/tool_call|>", "```")
_TAG_OPENS = re.compile(r"<(?:function=|invoke name=[\"'])(?P<name>[\w.-]+)")
_TAG_CLOSES = re.compile(r"</(?:function|invoke)>\s*(?:</[a-z_]{1,20}>)?\Z")
_TOKEN_OPENS = re.compile(r"<[|\uff5c]tool[_\u2581]sep[|\uff5c]>(?P<name>[\w.-]+)")
_TOKEN_CLOSES = re.compile(r"<[|\uff5c]tool[_\u2581]calls?[_\u2581]end[|\uff5c]>\Z")
_FENCE = re.compile(r"\A```(?:json)?\n")
_TAIL_CHARS = 100  # in which a closing tag stands
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
    if reply.finish is Finish.WINDOW_FULL and not (reply.text or reply.reasoning):
        return Fault(FaultKind.CONTEXT_TOO_LONG, "the model's window was full before it said anything")
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
    if reply.tool_calls or reply.finish is not Finish.STOP:
        return None
    text = reply.text.rstrip()
    if not text.endswith((">", "}", "]", "`")) or len(text) > LONGEST_BLOCK_CHARS:
        return None
    return next((call for call in _written(text) if call.name in tools), None)


def _written(text: str) -> Iterator[ToolCall]:
    """The calls that the last block of the text may be."""
    opens = _last(_JSON_OPENS, text)
    if opens is not None:
        yield from _calls_in(_without(_JSON_CLOSES, text[opens.end() :]))
    tail = text[-_TAIL_CHARS:]
    for starts, ends in ((_TAG_OPENS, _TAG_CLOSES), (_TOKEN_OPENS, _TOKEN_CLOSES)):
        opens = _last(starts, text)
        if opens is not None and ends.search(tail):
            yield ToolCall("", opens["name"], "{}", WRITTEN)
    yield from _calls_in(_without(("```",), _FENCE.sub("", text.lstrip())), bare=True)


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    found = None
    for found in pattern.finditer(text):  # noqa: B007  # the last one is wanted
        pass
    return found


def _without(endings: tuple[str, ...], text: str) -> str:
    for each in endings:
        text = text.removesuffix(each).rstrip()
    return text


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
