"""What is said: messages, tool calls, replies and what they cost."""

from __future__ import annotations

import json
import re
from enum import StrEnum
from typing import Any

from attrs import evolve, field, frozen


@frozen
class TextPart:
    """A stretch of text in a message that also holds media."""

    text: str


@frozen
class MediaPart:
    """An image (or other media) in a user's message, by address or as a `data:` URL."""

    url: str
    kind: str = "image"


Part = TextPart | MediaPart


@frozen
class SystemMessage:
    """What the service tells the model before anybody speaks."""

    text: str


@frozen
class UserMessage:
    """What a user says: plain text, or parts where media are among it."""

    content: str | tuple[Part, ...]

    @property
    def text(self) -> str:
        """The text alone, media left out."""
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text for part in self.content if isinstance(part, TextPart))


@frozen
class ToolCall:
    """A model's wish to run a tool; `problem` says why it cannot be run, empty when it can."""

    id: str
    name: str
    arguments: str = "{}"
    problem: str = ""


@frozen
class AssistantMessage:
    """What a model said; `replay` holds what its provider wants back unchanged (signatures and the like)."""

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    replay: tuple[Any, ...] = ()


class ToolStatus(StrEnum):
    """How a tool call came to its one result."""

    OK = "ok"
    ERROR = "error"
    NOT_RUN = "not run"
    INTERRUPTED = "interrupted"
    UNKNOWN = "outcome unknown"


@frozen
class ToolMessage:
    """The one result of one tool call."""

    call_id: str
    text: str
    status: ToolStatus = ToolStatus.OK


Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage


class Finish(StrEnum):
    """How a model says that it ended: one vocabulary for every provider."""

    STOP = "stop"
    LENGTH = "length"
    WINDOW_FULL = "window_full"
    TOOL_CALLS = "tool_calls"
    REFUSED = "refused"
    PAUSED = "paused"


@frozen
class Usage:
    """Tokens and money; providers count, we add up. `cost` is in US dollars, 0 where no price is known."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float = 0.0

    @property
    def total_tokens(self) -> int:
        """What was read and what was written."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        """The two together."""
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_input_tokens + other.cached_input_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.cost + other.cost,
        )


NO_USAGE = Usage()


@frozen
class Reply:
    """What came of one request, whole or in part; `finish` is None without terminal evidence."""

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    finish: Finish | None = None
    usage: Usage = NO_USAGE
    replay: tuple[Any, ...] = ()
    model: str = field(default="", eq=False)
    request_id: str = field(default="", eq=False)

    def message(self, lead: str = "") -> AssistantMessage:
        """This reply as a message, behind the text that led up to it."""
        return AssistantMessage(lead + self.text, self.tool_calls, self.reasoning, self.replay)


NO_REPLY = Reply()


# Where JSON stops, the tail of a number, the start of a literal or half an escape may stand.
_UNFINISHED_NUMBER = re.compile(r"[.]|[eE][+-]?")
_UNFINISHED_ESCAPE = re.compile(r"\\u[0-9a-fA-F]{0,4}\Z")
_LITERALS = ("true", "false", "null", "NaN", "Infinity", "-Infinity")


def is_cut(arguments: str) -> bool:
    """Whether the JSON text stops in the middle, so that more of it could have made it whole.

    Blank arguments are whole: several providers send none for a tool that takes none.
    """
    if not arguments.strip():
        return False
    try:
        json.loads(arguments)
    except json.JSONDecodeError as error:
        return _stops_at_the_end(error)
    except (RecursionError, ValueError):  # nested too deeply, or a number of thousands of digits
        return False
    return False


def _stops_at_the_end(error: json.JSONDecodeError) -> bool:
    rest = error.doc[error.pos :].strip()
    if not rest or error.msg.startswith("Unterminated string"):
        return True
    if "escape" in error.msg:
        return _UNFINISHED_ESCAPE.search(error.doc) is not None
    if error.msg == "Expecting value":
        return any(each.startswith(rest) for each in _LITERALS)
    return error.doc[error.pos - 1].isdigit() and _UNFINISHED_NUMBER.fullmatch(rest) is not None


def arguments_of(call: ToolCall) -> dict[str, Any] | None:
    """The call's arguments as a mapping; None where they are not a JSON object."""
    if not call.arguments.strip():
        return {}
    try:
        value = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


_UNSENDABLE = re.compile("[\ud800-\udfff\x00]")


def clean(text: str) -> str:
    """The text as UTF-8 can carry it: lone surrogates and NULs become U+FFFD."""
    return _UNSENDABLE.sub("\ufffd", text)


def cleaned(message: Message) -> Message:
    """The message with every text of it clean; the same object where nothing was to do."""
    fresh: Message
    match message:
        case SystemMessage(text):
            fresh = SystemMessage(clean(text))
        case UserMessage(content):
            fresh = UserMessage(clean(content) if isinstance(content, str) else _clean_parts(content))
        case AssistantMessage(text, calls, reasoning, replay):
            fresh = AssistantMessage(clean(text), tuple(map(_clean_call, calls)), clean(reasoning), replay)
        case _:
            fresh = ToolMessage(clean(message.call_id), clean(message.text), message.status)
    return message if fresh == message else fresh


def _clean_parts(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    return tuple(TextPart(clean(part.text)) if isinstance(part, TextPart) else part for part in parts)


def _clean_call(call: ToolCall) -> ToolCall:
    return evolve(call, id=clean(call.id), name=clean(call.name), arguments=clean(call.arguments))


REPETITION_WINDOW = 600  # characters at the end of a text in which a repetition is looked for
SHORTEST_REPETITION = 60  # shorter texts are too short to tell a loop from a list


def repeats(text: str, share: float = 0.6) -> bool:
    """Whether the end of the text is one short stretch said over and over: no progress is made in it."""
    tail = text[-REPETITION_WINDOW:]
    if len(tail) < SHORTEST_REPETITION:
        return False
    needed = int(len(tail) * share)
    return any(_periodic(tail, period) >= max(needed, 3 * period) for period in range(1, len(tail) // 4 + 1))


def _periodic(text: str, period: int) -> int:
    """How many characters at the end of the text say again what stands *period* before them, and that once."""
    same = 0
    for here in range(len(text) - 1, period - 1, -1):
        if text[here] != text[here - period]:
            break
        same += 1
    return same + period
