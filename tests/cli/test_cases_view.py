"""A case is shown as a person wants to see it: the wire, the loop, and the verdict."""

from __future__ import annotations

import json

import pytest

from fsm_loop.cli import main
from tests.wire.parts import raw, says, sse

BUSY = {"status": 503, "headers": {"retry-after": "2"}, "body": {"error": {"message": "busy"}}}
SLOW = {"status": 200, "steps": [sse("Hi."), sse(finish="stop", delay=4), {"end": "reset"}]}


@pytest.fixture
def view(tmp_path, capsys):
    """What is printed for this case, line by line."""

    def run(*exchange, **facts):
        (tmp_path / "small.json").write_text(json.dumps(raw(*exchange, **facts)), encoding="utf-8")
        main(["cases", str(tmp_path), "--view", "--way", "http"])
        return capsys.readouterr().out.splitlines()

    return run


def test_the_wire_stands_beside_the_loop(view):
    """Answers with their headers and times, then decisions with what was counted, each request behind the one that sent it."""
    told = view(BUSY, SLOW, expect={"max_llm_calls": 2})
    at = {line.strip(): number for number, line in enumerate(told)}
    course = [line.strip() for line in told[at["The loop:"] + 1 :]]

    assert told[0].startswith("ok    small: done, 2 calls")
    assert (
        at["The wire:"]
        < at["1. status 503"]
        < at["retry-after: 2"]
        < at['{"error":{"message":"busy"}}']
        < at["2. status 200"]
    )
    assert any(line.strip().startswith("+4 s  data: ") for line in told)
    assert '{"end": "reset"}' in at
    assert "0.000 s  ready.turn_started -> calling" == course[0]
    assert "0.000 s  calling.slot_granted.budget_left -> calling  [requests 0->1/160]" == course[1]
    assert "0.000 s  request 1 /v1/chat/completions: m, 1 messages" == course[2]
    assert course[3].startswith(
        "0.000 s  calling.model_failed.may_retry+api_retries_left -> backoff  [api_retries 0->1/3]  fault: "
    )
    assert course[4].startswith("2.000 s  backoff.timer_fired")
    assert "What came of it: done" in at
    assert "shown: 'Hi.'" in at
    assert "as expected" in at


def test_what_differs_stands_last(view):
    """A case that is not as expected says in what."""
    told = [line.strip() for line in view(says("Ho."))]

    assert "not as expected:" in told
    assert told[told.index("not as expected:") + 1].startswith("visible text: 'Ho.', expected 'Hi.'")


def test_what_is_long_is_told_by_its_ends(view):
    """No line of the wire is longer than a screen; of a long one the beginning and the end are there."""
    told = view(says("Hi." + "x" * 500), expect={"visible_text": "Hi." + "x" * 500})
    data = next(line for line in told if "data: " in line)

    assert len(data) < 150
    assert '"choices"' in data
    assert " ... " in data


def test_many_steps_are_told_by_their_number(view):
    """An answer of many pieces shows the first of them."""
    told = [line.strip() for line in view(says(*["x"] * 100), expect={"visible_text": "x" * 100})]

    assert "and 62 more" in told
