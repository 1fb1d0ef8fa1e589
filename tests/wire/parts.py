"""Small cases for the tests of the wire's own parts."""

from __future__ import annotations

import json

from fsm_loop.testing.wire.case import case_of

DONE = {"sse": {"data": "[DONE]"}}


def sse(text=None, finish=None, **step):
    """One chunk of a streamed reply."""
    delta = {} if text is None else {"content": text}
    return {"sse": {"data": {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}}, **step}


def says(*texts):
    """A whole streamed reply."""
    return {"status": 200, "steps": [*map(sse, texts), sse(finish="stop"), DONE]}


def calls(name, arguments, call_id="call_a"):
    """A whole streamed reply that asks for a tool."""
    call = {
        "index": 0,
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(arguments)},
    }
    record = {"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}]}
    return {"status": 200, "steps": [{"sse": {"data": record}}, sse(finish="tool_calls"), DONE]}


def raw(*exchange, expect=None, **facts):
    """A case as it stands in a file."""
    setup = {
        "models": ["m"],
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [],
        "actions": [],
        "config": {},
        **facts.pop("setup", {}),
    }
    expected = {"events": [], "outcome": "done", "max_llm_calls": 1, "visible_text": "Hi.", "tool_calls": []}
    return {
        "schema_version": 1,
        "id": "small",
        "title": "A small case",
        "kind": "sse_shape",
        "protocol": "openai-chat",
        "stream": True,
        "setup": setup,
        "exchange": list(exchange),
        "expect": {**expected, **(expect or {})},
        **facts,
    }


def case(*exchange, **facts):
    """A case."""
    return case_of(raw(*exchange, **facts))
