"""The end of a turn, as it is told."""

from __future__ import annotations

import io
import json
import math

import pytest
from rich.console import Console

from fsm_loop.cli.ending import ROWS, as_json, compressed, counted, no_turn, summary
from fsm_loop.config import LoopConfig
from fsm_loop.core.faults import FaultKind
from fsm_loop.core.messages import Usage
from fsm_loop.loop import Loop
from fsm_loop.testing.clock import VirtualClock
from fsm_loop.testing.fakes import ScriptedModel, SeededChance, calls, fails, says

KEYS = {
    "outcome", "text", "exhausted", "fault", "last_state", "llm_calls", "usage", "counters", "path",
    "turn_id", "messages", "pending_steer", "why", "waited_s",
}  # fmt: skip


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def ended(*script, **limits):
    """The result of a turn that follows this script; the seed is 1."""
    clock = VirtualClock()
    model = ScriptedModel(script, clock=clock)
    loop = Loop(model=model, tools=[add], clock=clock, chance=SeededChance(1), config=LoopConfig(**limits))
    return clock.run(lambda: loop.run("hi"))


def drawn(result, width=200):
    """The summary as it is printed."""
    console = Console(width=width, record=True, file=io.StringIO())
    for thing in summary(result):
        console.print(thing)
    return console.export_text()


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ("", ""),
        ("a", "a"),
        ("abc", "a > b > c"),
        ("abab", "(a > b) x2"),
        ("xababy", "x > (a > b) x2 > y"),
        ("xabcabcabcz", "x > (a > b > c) x3 > z"),
        ("ababababab", "(a > b) x5"),
        ("abcabd", "a > b > c > a > b > d"),
        ("aaab", "(a) x3 > b"),
    ],
)
def test_a_path_is_told_shortly(states, expected):
    """A stretch of states that comes again and again stands once, with its number."""
    assert expected == compressed(list(states))


def test_a_result_is_one_object():
    """The object holds how the turn ended, what it took, and its path."""
    result = ended(calls(("add", {"a": 1, "b": 2})), says("three", usage=Usage(5, 6, cost=0.5)))
    told = json.loads(as_json(result))

    assert set(told) == KEYS
    assert ("completed", "three", "streaming", 2) == tuple(
        told[k] for k in ("outcome", "text", "last_state", "llm_calls")
    )
    assert (None, None, []) == (told["exhausted"], told["fault"], told["pending_steer"])
    assert ["ready", "ready.turn_started", "calling"] == told["path"][0]
    assert [list(each) for each in result.path] == told["path"]
    assert (2, 1) == (told["counters"]["requests"], told["counters"]["iterations"])
    assert {
        "input_tokens": 5,
        "output_tokens": 6,
        "cached_input_tokens": 0,
        "reasoning_tokens": 0,
        "cost": 0.5,
    } == told["usage"]
    assert result.messages == told["messages"]
    assert (result.turn_id, result.why, 0.0) == (told["turn_id"], told["why"], told["waited_s"])


def test_an_exhausted_turn_names_its_counter():
    """The counter that ended the turn stands with its value and its cap."""
    told = json.loads(as_json(ended(calls(("add", {"a": 1, "b": 2})), says("so far"), max_iterations=1)))

    assert ("exhausted", {"counter": "iterations", "value": 1, "cap": 1}) == (told["outcome"], told["exhausted"])


def test_a_failed_turn_names_its_fault():
    """The fault that ended the turn stands with its kind, its message and its status."""
    told = json.loads(as_json(ended(fails(FaultKind.ACCESS_DENIED, "no", status=403))))

    assert ("failed", "access_denied", "no", 403) == (
        told["outcome"],
        *(told["fault"][k] for k in ("kind", "message", "status")),
    )


@pytest.mark.unwritten
def test_a_strange_result_is_valid_json():
    """Numbers that are none and lone surrogates leave one line of plain ASCII that any program reads."""
    text = as_json(ended(says("a\ud800\u2028b\n", usage=Usage(1, 1, cost=math.nan))))

    def refuse(word):
        raise AssertionError(word)

    assert "nan" == json.loads(text, parse_constant=refuse)["usage"]["cost"]
    assert text.isascii()
    assert 1 == len(text.splitlines())


@pytest.mark.parametrize(
    ("outcome", "fault"), [("failed", {"kind": "not_ready", "message": "why", "status": None}), ("interrupted", None)]
)
def test_a_turn_that_never_began_has_the_same_fields(outcome, fault):
    """A program reads the same object where there was no turn."""
    told = json.loads(no_turn(outcome, "why"))

    assert set(told) == KEYS
    assert (outcome, "why", 0, [], fault) == (
        told["outcome"],
        told["why"],
        told["llm_calls"],
        told["path"],
        told["fault"],
    )


def test_the_summary_tells_the_way():
    """The summary has the states, the rows with what they counted, the counters with their caps, and the end."""
    text = drawn(ended(fails(FaultKind.OVERLOADED), says("ok", usage=Usage(5, 6, cost=0.5))))

    assert "ready > calling > backoff > calling > streaming > done\n" in text
    assert "2  calling.model_failed.may_retry+api_retries_left  api_retries 0->1/3" in text
    assert "requests 2/160, api_retries 1/3, 2 calls, 5 tokens in, 6 out, $0.5000, waited 5" in text
    assert text.endswith("The turn ended as completed in state streaming.\n")


def test_one_call_is_one_call():
    """The number of calls is told as one says it."""
    assert "requests 1/160, 1 call, 0 tokens in, 0 out, waited 0.0 s" == counted(ended(says("ok")))


@pytest.mark.parametrize(("rounds", "expected"), [(1, None), (2, "1 to 4 once more"), (9, "1 to 4 8 times more")])
def test_rounds_are_written_once(rounds, expected):
    """Rows that come again and again stand once, with how often they come again."""
    text = drawn(ended(*[calls(("add", {"a": 1, "b": 2}))] * rounds, says("ok")))

    assert 1 == text.count("streaming.model_replied.has_valid_call+iterations_left")
    assert (expected is None) or expected in text


def test_results_that_come_one_by_one_are_written_once():
    """One row that fires again and again stands once too."""
    text = drawn(ended(calls(*[("add", {"a": 1, "b": 2})] * 5), says("ok")))

    assert "4  tool_exec.tool_returned " in text
    assert "4 3 times more" in text


def test_a_long_way_is_cut_in_its_middle():
    """A path that nobody would read shows its beginning and its end."""
    script = [
        fails(FaultKind.OVERLOADED) if n % 7 in (0, 3) else calls(*[("add", {"a": 1, "b": 2})] * (n % 5 + 1))
        for n in range(40)
    ]
    lines = drawn(ended(*script, says("ok"), max_iterations=100)).splitlines()

    assert "..." in [line.strip() for line in lines]
    assert len(lines) <= ROWS + 8


def test_a_fault_cannot_steer_the_terminal():
    """The words of a provider are told without their control characters."""
    assert "\x1b" not in drawn(ended(fails(FaultKind.ACCESS_DENIED, "no\x1b]0;title\x07")))
