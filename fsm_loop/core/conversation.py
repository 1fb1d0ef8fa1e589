"""How the words of a turn stand together: what is asked, what has been said, and every call with its one result."""

from __future__ import annotations

from fsm_loop.core.effects import Request
from fsm_loop.core.messages import (
    NO_REPLY,
    AssistantMessage,
    Message,
    Part,
    Reply,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolStatus,
    UserMessage,
)
from fsm_loop.core.record import Record

GO_ON = "Your answer was cut at the output limit. Go on exactly where it stopped; repeat nothing."
GO_ON_AFTER_DROP = (
    "The connection was lost in the middle of your answer. Go on exactly where it stopped; repeat nothing."
)
GO_ON_AFTER_LOST_CALL = (
    "The connection was lost in the middle of your answer, and your call of {names} was not run. "
    "Go on where the answer stopped; ask for the tool again if it is still needed."
)
GO_ON_SMALLER = (
    "Your answer was cut at the output limit in the middle of a tool call, and the call was not run. "
    "Go on where the text stopped, and split the call into several smaller ones."
)
CALL_AGAIN = (
    "Your last reply was to call a tool, but the call could not be read, and nothing was run. "
    "Call the tool again, with arguments that are valid JSON, or answer."
)
SPEAK = "Your last reply was empty. Please answer, or ask for a tool."
LAST_WORD = "The limit of this turn is reached: no more tools can be run. Give your best final answer now."
NOT_RUN = "not executed: the limit of this turn is reached"


def request_of(record: Record, *, tools: bool = True) -> Request:
    """The request as the record has it now."""
    messages = record.prompt + record.said
    if record.pieces:
        messages = (*messages, AssistantMessage("".join(record.pieces)))
    if record.nudge:
        messages = with_word(messages, record.nudge)
    provider = record.provider
    return Request(
        provider=provider,
        messages=messages,
        tools=tools,
        output_limit=record.shape.limit_for(provider, record.config),
        less_reasoning=record.shape.less_reasoning,
        stream=provider not in record.shape.unstreamed,
        without=frozenset(name for place, name in record.shape.without if place == provider),
        time_left_s=_time_for(record, tools=tools),
    )


def _time_for(record: Record, *, tools: bool) -> float | None:
    """The seconds that the call may take; the last word is had when the turn's own are spent, so it has some more."""
    left_s = record.seconds_left
    return left_s if left_s is None or tools else max(left_s, record.config.read_timeout_s)


def with_word(messages: tuple[Message, ...], word: str) -> tuple[Message, ...]:
    """The messages with this word of the user at their end; two in a row are one, for some providers refuse them."""
    last = messages[-1] if messages else None
    if not isinstance(last, UserMessage):
        return (*messages, UserMessage(word))
    return (*messages[:-1], joined(last, UserMessage(word)))


def joined(one: UserMessage, two: UserMessage) -> UserMessage:
    """Two messages of the user's as one."""
    if isinstance(one.content, str) and isinstance(two.content, str):
        return UserMessage("\n\n".join(filter(None, (one.content, two.content))))
    return UserMessage((*_parts(one), *_parts(two)))


def _parts(message: UserMessage) -> tuple[Part, ...]:
    return (TextPart(message.content),) if isinstance(message.content, str) else message.content


def with_steers(record: Record) -> Record:
    """The steers stand in the conversation now; an answer that was being continued stands before them."""
    if not record.steers:
        return record
    spoken = said(record, NO_REPLY) if record.pieces else record
    words = tuple(UserMessage(text) for text in record.steers)
    return spoken.but(said=spoken.said + words, steers=(), nudge="" if record.pieces else record.nudge, lead="")


def said(record: Record, reply: Reply, uncalled: str = "") -> Record:
    """The reply stands in the conversation, behind the pieces before it; calls in it are answered as *uncalled*."""
    message = reply.message("".join(record.pieces))
    answers = tuple(_uncalled(call, uncalled) for call in reply.tool_calls)
    return record.but(said=(*record.said, message, *answers), pieces=())


def _uncalled(call: ToolCall, why: str) -> ToolMessage:
    return error_of(call) or ToolMessage(call.id, why, ToolStatus.NOT_RUN)


def error_of(call: ToolCall) -> ToolMessage | None:
    """The error result of a call that cannot be run; None for one that can."""
    return ToolMessage(call.id, call.problem, ToolStatus.ERROR) if call.problem else None


def closed(record: Record, unstoppable: frozenset[str] = frozenset()) -> Record:
    """The tool round stands in the conversation, each call with exactly one result, in order."""
    if record.asked is None:
        return record
    results = tuple(
        result or _unfinished(call, unstoppable) for call, result in zip(record.calls, record.results, strict=True)
    )
    return record.but(said=(*record.said, record.asked, *results), asked=None, calls=(), results=())


def _unfinished(call: ToolCall, unstoppable: frozenset[str]) -> ToolMessage:
    if call.id in unstoppable:
        return ToolMessage(call.id, "outcome unknown: still running when the turn ended", ToolStatus.UNKNOWN)
    return ToolMessage(call.id, "interrupted: no result", ToolStatus.INTERRUPTED)


def last_text(record: Record) -> str:
    """The last words of the model in this turn."""
    spoken = (each.text for each in reversed(record.said) if isinstance(each, AssistantMessage))
    return next((text for text in spoken if text.strip()), "")
