"""What is written of an event: all of it that is not somebody's text."""

from __future__ import annotations

import json
import math
from enum import Enum

import pytest

from fsm_loop.audit.facts import DEEPEST, Telling, digest, plain
from fsm_loop.core.effects import (
    Abandon,
    CallModel,
    Repair,
    Request,
    ReserveSlot,
    RunTool,
    Say,
    SetTimer,
    Withdrawn,
)
from fsm_loop.core.effects import (
    Finish as Finishes,
)
from fsm_loop.core.events import (
    InterruptAsked,
    ModelFailed,
    ModelReplied,
    RebuildAsked,
    RequestRepaired,
    SteerGiven,
    TimerFired,
    ToolReturned,
    TurnStarted,
)
from fsm_loop.core.faults import Fault, FaultKind, RepairKind
from fsm_loop.core.messages import (
    AssistantMessage,
    Finish,
    MediaPart,
    Reply,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolStatus,
    Usage,
    UserMessage,
)


def facts(event, *, full=False, redact=None):
    """What a trail tells of the event."""
    return Telling(full, redact).facts(event)


SECRET = "the launch code is 0000"
CALL = ToolCall("call_1", "add", f'{{"a": "{SECRET}"}}', f"do not fit: {SECRET}")
MESSAGES = (
    SystemMessage(SECRET),
    UserMessage((TextPart(SECRET), MediaPart(f"data:{SECRET}"))),
    AssistantMessage(SECRET, (CALL,), SECRET, ({"signature": SECRET},)),
    ToolMessage("call_1", SECRET),
)
REPLY = Reply(SECRET, (CALL,), SECRET, Finish.STOP, Usage(3, 4), ({"signature": SECRET},), "model-1", "req_1")
FAULT = Fault(FaultKind.OVERLOADED, "busy", status=503, retry_after_s=2.5, code="overloaded_error")

TEXTED = [
    TurnStarted(messages=MESSAGES),
    SteerGiven(text=SECRET, partial=REPLY),
    RebuildAsked(messages=MESSAGES),
    ModelReplied(attempt=1, reply=REPLY),
    ModelFailed(attempt=1, fault=FAULT, partial=REPLY),
    ToolReturned(attempt=1, call_id="call_1", text=SECRET, stop=SECRET),
    RequestRepaired(attempt=1, changed=True, prompt=MESSAGES, said=MESSAGES),
    InterruptAsked(partial=REPLY, unstoppable=frozenset({"call_1"})),
]


@pytest.mark.parametrize("event", TEXTED, ids=lambda event: type(event).__name__)
def test_no_text_is_written_unless_it_is_asked_for(event):
    """What users, models and tools say stands in the full facts, and nowhere in the others."""
    assert SECRET not in json.dumps(facts(event))
    assert SECRET in json.dumps(facts(event, full=True))


@pytest.mark.parametrize(
    ("event", "path", "expected"),
    [
        (TimerFired(attempt=7, chance=0.25, at=3.0), (), {"chance": 0.25, "attempt": 7}),
        (TEXTED[0], ("messages", 0), {"is": "system", "text": digest(SECRET)}),
        (TEXTED[0], ("messages", 1, "content", 1), {"is": "media", "url": digest(f"data:{SECRET}")}),
        (TEXTED[0], ("messages", 3, "call_id"), "call_1"),
        (TEXTED[3], ("reply", "finish"), "stop"),
        (TEXTED[3], ("reply", "usage", "output_tokens"), 4),
        (TEXTED[3], ("reply", "replay"), {"items": 1}),
        (TEXTED[3], ("reply", "request_id"), "req_1"),
        (TEXTED[3], ("reply", "tool_calls", 0, "name"), "add"),
        (TEXTED[4], ("fault", "kind"), "overloaded"),
        (TEXTED[4], ("fault", "message"), "busy"),
        (TEXTED[4], ("fault", "retry_after_s"), 2.5),
        (ToolReturned(attempt=1, call_id="c", text="", status=ToolStatus.ERROR), ("status",), ToolStatus.ERROR.value),
        (TEXTED[7], ("unstoppable",), ["call_1"]),
        (InterruptAsked(issuer="user", reason="Ctrl-C"), ("reason",), "Ctrl-C"),
        (ModelFailed(attempt=1, fault=Fault(FaultKind.UNKNOWN, "x" * 900)), ("fault", "message"), "x" * 500),
        (ToolReturned(attempt=1, call_id="no word at all", text=""), ("call_id",), digest("no word at all")),
        (ToolReturned(attempt=1, call_id="c", text=""), ("text",), ""),
    ],
)
def test_a_fact(event, path, expected):
    """A fact is a plain value, and a text is its length and digest."""
    found = facts(event)
    for step in path:
        found = found[step]

    assert expected == found


def test_all_of_the_replay_is_in_the_full_facts():
    """A provider's own items are kept unchanged where text is kept."""
    assert [{"signature": SECRET}] == facts(TEXTED[3], full=True)["reply"]["replay"]


def test_a_digest_tells_texts_apart():
    """A digest is the length and the SHA-256 of the text."""
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

    assert {"chars": 0, "sha256": empty} == digest("")
    assert digest("a\ud800") != digest("a\ud801")


class Colour(Enum):
    RED = 1


def nested(levels: int) -> list:
    """A list in a list in a list, and so on."""
    value: list = []
    for _ in range(levels):
        value = [value]
    return value


STRANGE = [
    (math.nan, "nan"),
    (-math.inf, "-inf"),
    (10**400, "a whole number of 1329 bits"),
    (2**1000, str(2**1000)),
    (2**53, str(2**53)),
    (2**53 - 1, 2**53 - 1),
    (-(2**53), str(-(2**53))),
    (3.0, 3),
    (-0.0, 0),
    (1e-5, 1e-5),
    (9e-6, 9e-6),
    (5e-324, 5e-324),
    (1e300, "1e+300"),
    (-2.5, -2.5),
    (True, True),
    (None, None),
    ("a\ud800b", "a\ud800b"),
    (b"raw", "bytes"),
    (object(), "object"),
    (Colour.RED, "red"),
    (FaultKind.DROPPED, "dropped"),
    (Finish.LENGTH, "length"),
    ({1: {math.inf}}, {"1": ["inf"]}),
    (frozenset({"b", "a"}), ["a", "b"]),
    ((1, (2.5,)), [1, [2.5]]),
]


@pytest.mark.parametrize(("value", "expected"), STRANGE, ids=map(str, range(len(STRANGE))))
def test_whatever_it_is_json_can_hold_it(value, expected):
    """A value that JSON has no form for becomes text."""
    assert expected == plain(value)

    json.dumps(plain(value), allow_nan=False)


def test_what_has_no_bottom_is_cut():
    """Items that lie deeper than anyone reads are told by their type."""
    text = json.dumps(plain(nested(5000)))

    assert "[" * DEEPEST + '"list"' + "]" * DEEPEST == text


def test_what_is_as_it_is_by_default_is_left_out():
    """A reply that says nothing but its text has its text alone, and an event that carries none has no reply."""
    assert {"attempt": 1, "reply": {"text": "hi"}} == facts(ModelReplied(attempt=1, reply=Reply("hi")), full=True)
    assert {"attempt": 1, "fault": {"kind": "dropped"}} == facts(ModelFailed(attempt=1, fault=Fault(FaultKind.DROPPED)))


@pytest.mark.parametrize("event", TEXTED, ids=lambda event: type(event).__name__)
def test_who_redacts_sees_every_field_first(event):
    """A text that is redacted stands nowhere, even in full; what is not changed is as it was."""
    seen = []

    def redact(name, value):
        seen.append(name)
        return value.replace(SECRET, "[gone]") if isinstance(value, str) else value

    told = json.dumps(
        facts(event, full=True, redact=lambda name, value: redact(name, value) if name != "replay" else ())
    )

    assert SECRET not in told
    assert "[gone]" in told
    assert seen


REQUEST = Request(1, (UserMessage(SECRET),), output_limit=100)
ASKED = [
    (ReserveSlot(3, 0), {"attempt": 3, "provider": 0}),
    (
        CallModel(3, REQUEST),
        {"attempt": 3, "provider": 1, "messages": 1, "tools": True, "output_limit": 100, "stream": True},
    ),
    (RunTool(3, CALL), {"attempt": 3, "call_id": "call_1", "name": "add"}),
    (SetTimer(3, 2.5, "backoff"), {"attempt": 3, "delay_s": 2.5, "reason": "backoff"}),
    (Repair(3, RepairKind.COMPACT, FAULT, REQUEST, (), ()), {"attempt": 3, "kind": "compact"}),
    (Say(Withdrawn(SECRET)), {"note": "Withdrawn", "chars": len(SECRET)}),
    (Abandon(3), {"attempt": 3}),
    (Finishes("partial"), {"outcome": "partial"}),
]


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize(("effect", "expected"), ASKED, ids=lambda one: type(one).__name__)
def test_what_is_to_be_done(effect, expected, full):
    """An effect is told by its name and by what tells it from its like, and never by its text."""
    assert {"effect": type(effect).__name__, **expected} == Telling(full=full).asked(effect)
