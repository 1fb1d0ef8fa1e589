"""Events and items of OpenAI's Responses, as short as a test needs them."""

from __future__ import annotations

from typing import Any

from fsm_loop.ports import CallDelta, Meta, ReasoningDelta, TextDelta

MODEL = "o4-mini"


def created(**facts: Any):
    """The reply begins."""
    return {"type": "response.created", "response": response([], "in_progress", **facts)}


def response(output, status="completed", **facts: Any):
    """A response as it stands."""
    return {
        "id": "resp_1",
        "object": "response",
        "model": "m",
        "status": status,
        "output": output,
        "error": None,
        **facts,
    }


def ended(*output, status="completed", kind="", **facts: Any):
    """The event that ends a reply."""
    return {"type": kind or f"response.{status}", "response": response([*output], status, **facts)}


def message(text="Hi.", item_id="msg_1", **fields: Any):
    """A message that is whole."""
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": item_id, "role": "assistant", "status": "completed", "content": content, **fields}


def refusal(text, item_id="msg_1"):
    """A message that refuses."""
    return {"type": "message", "id": item_id, "role": "assistant", "content": [{"type": "refusal", "refusal": text}]}


def call(arguments="{}", call_id="call_a", name="look", item_id="fc_1", **fields: Any):
    """A call that is whole."""
    return {"type": "function_call", "id": item_id, "call_id": call_id, "name": name, "arguments": arguments, **fields}


def reasoning(item_id="rs_1", sealed="gAAA", summary=(), **fields: Any):
    """A reasoning item that is whole."""
    parts = [{"type": "summary_text", "text": text} for text in summary]
    return {"type": "reasoning", "id": item_id, "summary": parts, "encrypted_content": sealed, **fields}


def piece(text, item_id="msg_1", place=0, kind="output_text"):
    """A piece of text, or of what *kind* says."""
    return {"type": f"response.{kind}.delta", "item_id": item_id, "output_index": place, "delta": text}


def argued(text, item_id="fc_1", place=0):
    """A piece of a call's arguments."""
    return piece(text, item_id, place, "function_call_arguments")


def added(item, place=0):
    """An item begins."""
    return {"type": "response.output_item.added", "output_index": place, "item": item}


def done(item, place=0):
    """An item is whole."""
    return {"type": "response.output_item.done", "output_index": place, "item": item}


def text_of(deltas):
    """The text that was shown."""
    return "".join(each.text for each in deltas if isinstance(each, TextDelta))


def thoughts_of(deltas):
    """The reasoning that was shown."""
    return "".join(each.text for each in deltas if isinstance(each, ReasoningDelta))


def calls_of(deltas):
    """The calls, put together as the driver does: id and name set, arguments added up."""
    slots: dict[int, tuple[str, str, str]] = {}
    for delta in deltas:
        if isinstance(delta, CallDelta):
            call_id, name, arguments = slots.get(delta.slot, ("", "", ""))
            slots[delta.slot] = (delta.id or call_id, delta.name or name, arguments + delta.arguments)
    return list(slots.values())


def replay_of(deltas):
    """What the model wants back."""
    return tuple(item for each in deltas if isinstance(each, Meta) for item in each.replay)
