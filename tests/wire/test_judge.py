"""What a case expects beside what came of it: each field, met and missed."""

from __future__ import annotations

import pytest
from attrs import evolve

from fsm_loop.testing.wire.case import Received
from fsm_loop.testing.wire.judge import differences
from fsm_loop.testing.wire.play import Played
from tests.wire.parts import case

CALL = {"name": "look", "arguments": {}}
GOOD = Played(
    outcome="done",
    reason="",
    text="Hi.",
    tool_calls=[CALL],
    events=["request_sent", "server_error|stream_error", "backoff_started", "finish_stop"],
    states=["calling", "backoff", "calling", "done"],
    llm_calls=2,
    seconds=20.0,
    usage={"input": 3, "output": 2},
    messages=[{"role": "user", "content": "Hi"}],
    requests=[Received(1, 0.0, "/", {}, {}), Received(2, 12.0, "/", {}, {})],
    ends=[2.0, 13.0],
    violations=[],
    open_connections=1,
    trail=(),
)
MET = {"max_llm_calls": 2, "tool_calls": [CALL]}


def judged(expect, **changes):
    """The differences between the good run, changed so, and these expectations."""
    return differences(case({"connect": "close"}, expect={**MET, **expect}), evolve(GOOD, **changes))


# fmt: off
FIELDS = [
    ({"outcome": ["failed", "done"]}, {}, True),
    ({"outcome": "failed"}, {}, False),
    ({}, {"outcome": ""}, False),
    ({"outcome": "failed", "reason": ["x", "stale"]}, {"outcome": "failed", "reason": "stale_stream|stale"}, True),
    ({"outcome": "failed", "reason": ["x"]}, {"outcome": "failed", "reason": "stale"}, False),
    ({"reason": ["x"]}, {}, True),  # an end that is done has no reason
    ({"visible_text": {"one_of": ["Ho.", "Hi."]}}, {}, True),
    ({"visible_text": "Ho."}, {}, False),
    ({"visible_text": {"contains": ["H"], "not_contains": ["o"], "regex": "i", "occurrences": {"i": [1, 1]}}}, {}, True),
    ({"visible_text": {"contains": ["o"]}}, {}, False),
    ({"visible_text": {"not_contains": ["i"]}}, {}, False),
    ({"visible_text": {"regex": "^i"}}, {}, False),
    ({"visible_text": {"occurrences": {"i": [2, 3]}}}, {}, False),
    ({"visible_text_if_done": "Ho."}, {}, False),
    ({"visible_text_if_done": "Ho.", "outcome": "failed"}, {"outcome": "failed"}, True),
    ({"tool_calls": {"one_of": [[], [CALL]]}}, {}, True),
    ({"tool_calls": []}, {}, False),
    ({"tool_calls": {"max_count": 1}}, {}, True),
    ({"tool_calls": {"max_count": 0}}, {}, False),
    ({"max_llm_calls": 1, "max_http_requests": 2}, {}, False),
    ({"min_llm_calls": 3, "max_llm_calls": 3}, {}, False),
    ({"max_http_requests": 1}, {}, False),
    ({"events": ["request_sent", "overloaded|server_error", "finish_stop"]}, {}, True),
    ({"events": ["finish_stop", "request_sent"]}, {}, False),
    ({"forbid_events": ["continued"]}, {}, True),
    ({"forbid_events": ["backoff_started"]}, {}, False),
    ({"states": ["backoff", "done"]}, {}, True),
    ({"states": ["done", "backoff"]}, {}, False),
    ({"max_virtual_seconds": 20}, {}, True),
    ({"max_virtual_seconds": 19}, {}, False),
    ({"waits": [{"after_request": 1, "min": 10, "max": 10}]}, {}, True),
    ({"waits": [{"after_request": 1, "min": 11}]}, {}, False),
    ({"waits": [{"after_request": 1, "max": 9}]}, {}, False),
    ({"waits": [{"after_request": 2, "min": 99}]}, {}, True),  # there was no request after it
    ({"usage": {"input": 3}}, {}, True),
    ({"usage": {"input": 4}}, {}, False),
    ({"open_connections_after": 1}, {}, True),
    ({"open_connections_after": 0}, {}, False),
    ({"transcript_utf8_clean": True}, {}, True),
    ({"transcript_utf8_clean": True}, {"messages": [{"role": "user", "content": "\ud800"}]}, False),
    ({"final_transcript": ["user"]}, {}, True),
    ({"final_transcript": ["user", "assistant"]}, {}, False),
    ({"requests": [{"n": 1, "checks": [{"check": "not_contains", "text": "x"}]}]}, {}, True),
    ({"requests": [{"n": 1, "checks": [{"check": "contains", "text": "x"}]}]}, {}, False),
    ({}, {"violations": ["request 3 is one more than the case has responses"]}, False),
]
# fmt: on


@pytest.mark.parametrize(("expect", "changes", "met"), FIELDS)
def test_a_field_is_met_or_it_is_a_difference(expect, changes, met):
    """What is as expected is no difference; what is not is one, and one only."""
    assert (0 if met else 1) == len(judged(expect, **changes))
