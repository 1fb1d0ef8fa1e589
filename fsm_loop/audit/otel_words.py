"""The words of OpenTelemetry's conventions for generative AI, and what a turn says in them.

The conventions are still in development, and left the package of OpenTelemetry's names for a repository of their own;
so the few names that are used stand here. What they have no word for is under `fsm_loop.`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from fsm_loop.core.effects import CallModel, Repair, Say, SetTimer, SwitchProvider, Withdrawn
from fsm_loop.core.events import CallFailed, InterruptAsked, RebuildAsked, SteerGiven
from fsm_loop.core.faults import Fault
from fsm_loop.core.messages import (
    AssistantMessage,
    MediaPart,
    Message,
    Reply,
    SystemMessage,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from fsm_loop.core.record import Record
from fsm_loop.core.step import Decision

Value = str | bool | int | float | tuple[str, ...]
Attributes = dict[str, Value]

OPERATION = "gen_ai.operation.name"
INVOKE_AGENT, CHAT, EXECUTE_TOOL = "invoke_agent", "chat", "execute_tool"
AGENT = "gen_ai.agent.name"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
ERROR = "error.type"
TOOL, CALL_ID, TOOL_TYPE = "gen_ai.tool.name", "gen_ai.tool.call.id", "gen_ai.tool.type"
TOKEN_TYPE = "gen_ai.token.type"  # noqa: S105  # tokens of text
INPUT, OUTPUT = "gen_ai.input.messages", "gen_ai.output.messages"
ARGUMENTS, RESULT = "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"
OUTCOME, COUNTER = "fsm_loop.outcome", "fsm_loop.counter.name"

# Where the conventions want the buckets of a histogram to end.
TURN_SECONDS = tuple(0.1 * 2**power for power in range(13))
SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
TOKENS = tuple(4**power for power in range(14))


def of_request(effect: CallModel) -> Attributes:
    """What is asked for, without a word of it."""
    request = effect.request
    told: Attributes = {
        "gen_ai.request.stream": request.stream,
        "fsm_loop.attempt": effect.attempt,
        "fsm_loop.provider": request.provider,
        "fsm_loop.tools_offered": request.tools,
    }
    if request.output_limit is not None:
        told["gen_ai.request.max_tokens"] = request.output_limit
    return told


def of_reply(reply: Reply) -> Attributes:
    """What came, whole or in part, without a word of it; what is not known is left out."""
    told: dict[str, Value | None] = {
        "gen_ai.response.finish_reasons": None if reply.finish is None else (reply.finish.value,),
        RESPONSE_MODEL: reply.model,
        "gen_ai.response.id": reply.request_id,
        "fsm_loop.text_chars": len(reply.text),
        "fsm_loop.tool_calls": len(reply.tool_calls),
    }
    return {**{name: value for name, value in told.items() if value}, **of_usage(reply.usage)}


def of_usage(usage: Usage) -> Attributes:
    """Tokens and money; a provider that does not count has used none that are known."""
    told: Attributes = {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cached_input_tokens,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning_tokens,
        "fsm_loop.cost_usd": usage.cost,
    }
    return {name: value for name, value in told.items() if value}


def of_fault(fault: Fault) -> Attributes:
    """What went wrong, by its kind; a provider's own words may hold anybody's text."""
    told: Attributes = {ERROR: fault.kind.word}
    if fault.status is not None:
        told["http.response.status_code"] = fault.status
    return told


def of_end(record: Record) -> Attributes:
    """How the turn ended, and what it took; the turn must be over."""
    end = record.end
    assert end is not None, "the turn has not ended"
    told: Attributes = {OUTCOME: end.outcome, "fsm_loop.llm_calls": record.sent, **of_usage(record.usage)}
    if end.exhausted is not None:
        told |= of_counter(end.exhausted.counter, None, end.exhausted.value, end.exhausted.cap)
    if end.fault is not None:
        told |= of_fault(end.fault)
    return told


def of_counter(name: str, before: float | None, after: float, cap: float | None) -> Attributes:
    """A counter, its value before and after, and its cap."""
    told: Attributes = {COUNTER: name}
    for part, value in (("before", before), ("after", after), ("cap", cap)):
        if value is not None:
            told[f"fsm_loop.counter.{part}"] = value
    return told


# ---------------------------------------------------------------- what stands on a turn's span as an event


def happenings(decision: Decision, providers: tuple[str, ...]) -> Iterable[tuple[str, Attributes]]:
    """What the decision has to tell beside the spans: each a name and what is its own."""
    event = decision.event
    fault = of_fault(event.fault) if isinstance(event, CallFailed) else {}
    told: list[tuple[str, Attributes]] = []
    for effect in decision.effects:
        match effect:
            case SetTimer(delay_s=delay_s, reason=reason):
                told.append(("fsm_loop.wait", {**fault, "fsm_loop.delay_s": delay_s, "fsm_loop.reason": reason}))
            case SwitchProvider(provider=place):
                told.append(("fsm_loop.fallback", {**fault, REQUEST_MODEL: providers[place]}))
            case Repair(kind=kind):
                told.append(("fsm_loop.repair", {**fault, "fsm_loop.repair": kind.value}))
            case Say(note) if isinstance(note, Withdrawn):
                told.append(("fsm_loop.withdrawn", {"fsm_loop.text_chars": len(note.text)}))
    return [*_retried(decision, fault), *told]


def _retried(decision: Decision, fault: Attributes) -> Iterable[tuple[str, Attributes]]:
    """Another request is to come of this decision, or a word of somebody was heard."""
    event, spends = decision.event, decision.row and decision.row.spends
    if isinstance(event, CallFailed):
        if spends is not None and spends.name in RETRIES:
            yield "fsm_loop.retry", fault
    elif isinstance(event, SteerGiven | RebuildAsked):
        yield ("fsm_loop.steer" if isinstance(event, SteerGiven) else "fsm_loop.rebuild"), {}
    elif isinstance(event, InterruptAsked):
        yield "fsm_loop.interrupt", {"fsm_loop.issuer": event.issuer}
    elif spends is not None and spends.name in AGAIN:
        yield f"fsm_loop.{AGAIN[spends.name]}", {}


# The counters that are spent on asking once more, and what their spending is called.
RETRIES = frozenset({"api_retries", "stream_retries", "bad_tool_rounds"})
AGAIN = {
    "continuations": "continuation",
    "boosts": "boost",
    "empty_replies": "nudge",
    "bad_tool_rounds": "bad_calls",
    "grace_calls": "grace",
}


def of_decision(seq: int, decision: Decision) -> Attributes:
    """Which row of the page it was, and the counter that it spent."""
    told: Attributes = {"fsm_loop.seq": seq, "fsm_loop.row": decision.name}
    spends = decision.row and decision.row.spends
    for each in decision.moved if spends else ():
        if spends and each.counter == spends.name:
            told |= of_counter(each.counter, each.before, each.after, each.cap)
    return told


# ---------------------------------------------------------------- text, where it is asked for


def as_json(value: Any) -> str:
    """The value as the conventions have it in an attribute that can hold no structure."""
    return json.dumps(value, ensure_ascii=False)


def messages(given: Iterable[Message]) -> list[dict[str, Any]]:
    """Messages in the conventions' shape: a role, and parts."""
    return [_message(each) for each in given]


def answers(reply: Reply) -> list[dict[str, Any]]:
    """A reply in the conventions' shape."""
    finish = "" if reply.finish is None else reply.finish.value
    return [{**_message(reply.message()), "finish_reason": finish}]


def _message(message: Message) -> dict[str, Any]:
    match message:
        case SystemMessage(text):
            return {"role": "system", "parts": [_text(text)]}
        case UserMessage(content):
            parts = [_text(content)] if isinstance(content, str) else [_part(each) for each in content]
            return {"role": "user", "parts": parts}
        case AssistantMessage(text, calls, reasoning):
            thought = [{"type": "reasoning", "content": reasoning}] if reasoning else []
            return {"role": "assistant", "parts": [*thought, *([_text(text)] if text else []), *map(_call, calls)]}
        case ToolMessage(call_id, text):
            return {"role": "tool", "parts": [{"type": "tool_call_response", "id": call_id, "response": text}]}


def _text(text: str) -> Mapping[str, str]:
    return {"type": "text", "content": text}


def _part(part: Any) -> Mapping[str, str]:
    if isinstance(part, MediaPart):
        return {"type": "uri", "modality": part.kind, "uri": part.url}
    return _text(part.text)


def _call(call: ToolCall) -> Mapping[str, str]:
    return {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments}
