"""Why a turn ended, in sentences: for every outcome and every counter, as it was read and found right.

`WHY=write python -m pytest tests/audit/test_why.py` writes the texts in tests/audit/why anew; read them then.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from attrs import evolve

from fsm_loop.audit.events import config_of, event_of
from fsm_loop.audit.why import turns, why
from fsm_loop.core.faults import FaultKind
from fsm_loop.core.machine import PAGE
from fsm_loop.core.messages import Finish, Usage
from fsm_loop.core.step import begin_turn, step
from fsm_loop.errors import UnexpectedEvent
from fsm_loop.ports import Meta
from fsm_loop.testing.fakes import Pause, calls, fails, says
from tests.drive.turns import drive
from tests.retold import Retold

FOLDER = Path(__file__).parent / "why"
ADD = ("add", {"a": 1, "b": 2})
IMAGE = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]}]


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def for_ever(*replies):
    """The replies, and the last of them again and again."""
    return lambda request, left=list(replies): left.pop(0) if len(left) > 1 else left[0]


def spends(usage):
    """A wish for a tool that took so many tokens, or so much money."""
    return (*calls(ADD), Meta(usage=usage))


def numbered(make):
    """A reply for each request, made from its number."""
    count = iter(range(1000))
    return lambda request: make(next(count))


class Refuses:
    """A limiter that has no slot for a while."""

    async def reserve(self, provider, at):
        """Seconds to wait."""
        return 30.0


class Halves:
    """A compactor that finds something to leave out every time."""

    async def compact(self, messages, fault):
        """The messages without the first."""
        return messages[1:]


LONG = [{"role": "user", "content": f"word {number}"} for number in range(12)]
SOON = {"recoveries": 0, "api_max_retries": 0}
# What happens, and the counter or the outcome that it is about.
CASES = {
    "completed": lambda: drive([fails(FaultKind.OVERLOADED, "busy", status=503), calls(ADD), says("three")], tools=[add]),
    "refused": lambda: drive([says("I will", finish=Finish.REFUSED)]),
    "interrupted": lambda: drive([(Pause(5), *says("x"))], meanwhile=[(2, lambda turn: turn.interrupt("operator", "deploy"))]),
    "failed": lambda: drive([fails(FaultKind.ACCESS_DENIED, "no such key", status=401)]),
    "requests": lambda: drive(for_ever(calls(ADD)), tools=[add], max_requests=2, grace_calls=0),
    "iterations": lambda: drive(for_ever(calls(ADD)), tools=[add], max_iterations=2, grace_calls=0),
    "grace_calls": lambda: drive([calls(ADD), calls(ADD), says("my last word")], tools=[add], max_iterations=2),
    "tokens": lambda: drive([spends(Usage(600, 500))], tools=[add], tokens=1000, grace_calls=0),
    "cost": lambda: drive([spends(Usage(1, 1, cost=0.75))], tools=[add], cost=0.5, grace_calls=0),
    "turn_seconds": lambda: drive([(Pause(70), *calls(ADD))], tools=[add], turn_seconds=60, grace_calls=0),
    "sanitizations": lambda: drive(for_ever(fails(FaultKind.BAD_UNICODE, "lone surrogate", status=400)), prompt="a\ud800"),
    "credential_refreshes": lambda: drive(for_ever(fails(FaultKind.CREDENTIAL_EXPIRED, "token expired", status=401))),
    "output_limit_repairs": lambda: drive(
        numbered(lambda n: fails(FaultKind.OUTPUT_LIMIT_TOO_HIGH, "max_tokens too large", status=400, limit=4000 - 1000 * n)),
        max_output_tokens=8000,
    ),
    "history_repairs": lambda: drive(for_ever(fails(FaultKind.HISTORY_REFUSED, "roles must alternate", status=400)), prompt=LONG),
    "media_repairs": lambda: drive(for_ever(fails(FaultKind.MEDIA_REFUSED, "no images", status=400)), prompt=IMAGE),
    "parameter_repairs": lambda: drive(
        numbered(lambda n: fails(FaultKind.PARAMETER_UNSUPPORTED, "unknown", status=400, parameter=f"option{n}"))
    ),
    "stream_switches": lambda: drive(for_ever(fails(FaultKind.STREAMING_UNSUPPORTED, "no stream", status=400))),
    "continuations": lambda: drive(numbered(lambda n: says(f"part {n} ", finish=Finish.LENGTH))),
    "boosts": lambda: drive(for_ever(calls(ADD, finish=Finish.LENGTH)), tools=[add]),
    "empty_replies": lambda: drive(for_ever(says(""))),
    "bad_tool_rounds": lambda: drive(for_ever(calls(("no_such_tool", {}))), tools=[add]),
    "compactions": lambda: drive(
        for_ever(fails(FaultKind.CONTEXT_TOO_LONG, "128k", status=400)), prompt=LONG, ports={"compactor": Halves()}
    ),
    "recoveries": lambda: drive(for_ever(fails(FaultKind.OVERLOADED, "busy", status=529)), recoveries=2, api_max_retries=1),
    "fallbacks": lambda: drive(
        for_ever(fails(FaultKind.MODEL_NOT_FOUND, "no such model", status=404)),
        fallbacks=[for_ever(fails(FaultKind.QUOTA_SPENT, "pay first", status=402))],
    ),
    "no last word": lambda: drive([calls(ADD), fails(FaultKind.DROPPED)], tools=[add], max_iterations=1),
    "a wait too long": lambda: drive([fails(FaultKind.RATE_LIMITED, "tomorrow", status=429, retry_after_s=86400.0)]),
    "rebuilds": lambda: drive(
        [(Pause(5), *says("x"))] * 5,
        meanwhile=[(at, lambda turn: turn.rebuild([{"role": "user", "content": "again"}])) for at in (1, 2, 3, 4)],
    ),
    "api_retries": lambda: drive(for_ever(fails(FaultKind.RATE_LIMITED, "slow down", status=429, retry_after_s=7.0))),
    "stream_retries": lambda: drive(for_ever((*says("half", finish=None)[:0], *fails(FaultKind.DROPPED, "reset by peer"))), **SOON),
    "slot_waits": lambda: drive([says("never")], ports={"limiter": Refuses()}, **SOON),
    "unfinished": lambda: drive([calls(ADD), says("three")], tools=[add]),
    "window full": lambda: drive([calls(ADD, finish=Finish.WINDOW_FULL)], tools=[add]),
    "two budgets": lambda: drive(
        [spends(Usage(600, 500))], tools=[add], tokens=1000, max_iterations=1, grace_calls=0
    ),
}  # fmt: skip


LED_ON = "What would have led on:"
MORE = {"unfinished", "no last word", "a wait too long", "two budgets", "window full"}


def trail(name, monkeypatch):
    """The records of a case."""
    retold = Retold()
    retold.watch(monkeypatch)
    CASES[name]()
    ((kept, _),) = retold.kept
    return [json.loads(line) for line in kept.lines[: 6 if name == "unfinished" else None]]


@pytest.mark.parametrize("name", CASES)
def test_why(name, monkeypatch):
    """The sentences are those that were read and found right."""
    records = trail(name, monkeypatch)
    (turn,) = turns(records)
    found = why(turn)
    text = "\n".join(found.sentences).replace(turn.turn_id, "T") + "\n"
    path = FOLDER / f"{name}.txt"
    if os.environ.get("WHY") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    assert path.read_text() == text
    assert name in (
        *MORE,
        found.outcome,
        found.counter,
        *(each["counter"] for record in records for each in record.get("moved", ())),
    )


def decided_at(seq, records, config, providers):
    """The row that decides there, when the same events are told to a turn of this config and these providers."""
    turn = begin_turn(config, providers, PAGE)
    for record in records[1 : 2 + seq]:
        try:
            decision = step(turn, event_of(record, PAGE), PAGE)
        except UnexpectedEvent:
            return "another row decided before"
        turn = decision.turn
    return decision.row.name


@pytest.mark.parametrize("name", CASES)
def test_what_would_have_led_on_does(name, monkeypatch):
    """With a setting beyond what is said, or with another provider, the same events are decided otherwise."""
    records = trail(name, monkeypatch)
    opening, rest = records[0], records[1:]
    config, providers = config_of(opening["config"]), tuple(opening["providers"])
    sentences = why(turns(records)[0]).sentences
    deciding = re.search(r"by row (\S+)\.(?:$| )", "\n".join(sentences), re.MULTILINE)
    ways = sentences[sentences.index(LED_ON) + 1 :] if LED_ON in sentences else ()
    for way in ways:
        more = {name: int(value) + 1 for name, value in re.findall(r"(\w+) above (\d+)", way)}
        more |= {name: int(value) for name, value in re.findall(r"(\w+) at (\d+) or more", way)}
        seq = next(each["seq"] for each in reversed(rest) if each.get("row") == deciding[1])
        raised = evolve(config, **more)
        chain = (*providers, "one more") if "another provider" in way else providers

        assert more or chain != providers
        assert decided_at(seq, records, config, providers) == deciding[1]
        assert decided_at(seq, records, raised, chain) != deciding[1], way


def test_nothing_is_left_out():
    """Every outcome and every counter of the page has its case."""
    outcomes = {"completed", "refused", "interrupted", "failed"}  # partial and exhausted have counters

    assert CASES.keys() == outcomes | {each.name for each in PAGE.counters} | MORE
    assert {f"{name}.txt" for name in CASES} == {path.name for path in FOLDER.iterdir()}
