"""The trail as lines of JSON."""

from __future__ import annotations

import json
import math

import pytest

from fsm_loop import LoopConfig
from fsm_loop.audit.jsonl import JsonLines, record_of
from fsm_loop.core.events import ModelReplied, SlotGranted, TimerFired, TurnStarted
from fsm_loop.core.faults import FaultKind
from fsm_loop.core.messages import Reply, UserMessage
from fsm_loop.core.step import begin_turn, step
from fsm_loop.loop import Loop
from fsm_loop.testing.clock import VirtualClock
from fsm_loop.testing.fakes import ScriptedModel, SeededChance, calls, fails, says

FIELDS = ["turn", "seq", "at", "state", "trigger", "facts", "guards", "row", "moved", "effects", "after"]
START = TurnStarted(messages=(UserMessage("hi"),), at=1.5)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def decisions(*events):
    """What these events lead to, one after the other, from the beginning of a turn."""
    turn, made = begin_turn(LoopConfig()), []
    for event in events:
        made.append(step(turn, event))
        turn = made[-1].turn
    return made


def test_a_line_says_all_of_a_decision():
    """A decision's record holds what came, which guards were asked, which row fired, what moved and what is to do."""
    decision = decisions(START, SlotGranted(attempt=1, at=2.0, chance=0.125))[1]

    assert {
        "turn": "t1",
        "seq": 1,
        "at": 2.0,
        "state": "calling",
        "trigger": "slot_granted",
        "facts": {"chance": 0.125, "attempt": 1},
        "guards": [{"guard": "budget_left", "answer": True}],
        "row": "calling.slot_granted.budget_left",
        "moved": [{"counter": "requests", "before": 0, "after": 1, "cap": 160}],
        "effects": ["CallModel"],
        "after": "calling",
    } == record_of("t1", 1, decision)


def test_a_late_event_is_written_too():
    """An event that changed nothing has its line, and no row."""
    late = decisions(START, TimerFired(attempt=99))[1]
    record = record_of("t1", 1, late)

    assert ("late", "calling", "calling", []) == (record["row"], record["state"], record["after"], record["effects"])


def test_a_turn_is_a_line_for_each_decision(tmp_path):
    """The file holds the turn's path, line by line, each line with the same fields."""
    path, clock = tmp_path / "trail.jsonl", VirtualClock()
    model = ScriptedModel([fails(FaultKind.OVERLOADED), calls(("add", {"a": 1, "b": 2})), says("three")], clock=clock)
    with JsonLines(path) as watcher:
        loop = Loop(model=model, tools=[add], watchers=[watcher], clock=clock, chance=SeededChance(1))
        result = clock.run(lambda: loop.run("1 + 2?"))
    lines = [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]

    assert result.path == [(line["state"], line["row"], line["after"]) for line in lines]
    assert list(range(len(lines))) == [line["seq"] for line in lines]
    assert {result.turn_id} == {line["turn"] for line in lines}
    assert {tuple(FIELDS)} == {tuple(line) for line in lines}
    assert () == result.trail_faults


def test_a_line_is_there_before_the_next_decision(tmp_path):
    """What was decided can be read at once, by another program too."""
    path = tmp_path / "trail.jsonl"
    watcher = JsonLines(path)
    watcher.saw("t1", 0, decisions(START)[0])

    assert b"\n" == path.read_bytes()[-1:]
    watcher.close()


def test_a_trail_is_added_to(tmp_path):
    """Opening a trail again keeps what it holds."""
    path = tmp_path / "trail.jsonl"
    for turn in ("t1", "t2"):
        with JsonLines(path) as watcher:
            watcher.saw(turn, 0, decisions(START)[0])

    assert ["t1", "t2"] == [json.loads(line)["turn"] for line in path.read_text().splitlines()]


STRANGE = [
    ModelReplied(attempt=1, reply=Reply("a\ud800\x00\u2028\n", reasoning="\udfff")),
    ModelReplied(attempt=1, reply=Reply("x", replay=(object(), {"n": math.nan}, b"raw"))),
    ModelReplied(attempt=1, reply=Reply("x"), at=math.inf, chance=math.nan),
]


@pytest.mark.parametrize("content", ["digests", "full"])
@pytest.mark.parametrize("event", STRANGE)
def test_strange_content_is_one_line(tmp_path, event, content):
    """Lone surrogates, line separators and numbers that are none make one line of JSON, and nothing raises."""
    path = tmp_path / "trail.jsonl"
    with JsonLines(path, content=content) as watcher:
        watcher.saw("t1", 2, decisions(START, SlotGranted(attempt=1), event)[2])
    (line,) = path.read_bytes().splitlines()

    def refuse(word):
        raise AssertionError(word)

    assert "model_replied" == json.loads(line, parse_constant=refuse)["trigger"]


def test_full_content_keeps_the_text(tmp_path):
    """The text stands in the trail where it was asked for, and nowhere else."""
    held = {}
    for content in ("digests", "full"):
        path = tmp_path / content
        with JsonLines(path, content=content) as watcher:
            watcher.saw("t1", 0, decisions(TurnStarted(messages=(UserMessage("my secret"),)))[0])
        held[content] = "my secret" in path.read_text()

    assert {"digests": False, "full": True} == held


def test_another_content_is_refused(tmp_path):
    """A content that is neither of the two is an error, before a file is made."""
    with pytest.raises(ValueError, match="must be 'digests' or 'full'"):
        JsonLines(tmp_path / "trail", content="some")

    assert [] == list(tmp_path.iterdir())


def test_a_trail_that_cannot_be_opened_says_so(tmp_path):
    """A file in a directory that is not there is an error at once, not at the first decision."""
    with pytest.raises(FileNotFoundError):
        JsonLines(tmp_path / "nowhere" / "trail.jsonl")
