"""What is a case, and what is none: everything that is allowed is understood, and nothing else passes."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsm_loop.testing.wire import case as module
from fsm_loop.testing.wire.case import CaseError, case_of, cases_in
from fsm_loop.testing.wire.checks import CHECKS
from fsm_loop.testing.wire.judge import differences
from fsm_loop.testing.wire.play import play
from fsm_loop.testing.wire.words import CONFIG, ELSEWHERE
from tests.wire.parts import raw, says, sse

pytest.importorskip("openai")
pytest.importorskip("jsonschema")

HI = {
    "status": 200,
    "steps": [{"text": 'data: {"choices":[{"index":0,"delta":{"content":"Hi."},"finish_reason":"stop"}]}\n\n'}],
}


def changed(**parts):
    """A case with another part, and the rest as it is."""
    return raw(says("Hi."), **parts)


WRONG = [
    (changed(protocol="smtp"), "$.protocol"),
    (changed(extra=1), "$: "),
    (changed(setup={"config": {"max_retry": 3}}), "$.setup.config"),
    (changed(setup={"actions": [{"when": {"event": "text"}, "do": "steer"}]}), "'text' is a required property"),
    (changed(setup={"actions": [{"when": {"event": "sunrise"}, "do": "interrupt"}]}), "$.setup.actions[0].when.event"),
    (changed(expect={"events": 3}), "$.expect.events"),
    (changed(expect={"waits": [{"after_request": 0}]}), "$.expect.waits[0].after_request"),
    (changed(expect={"visible_text": {"regex": "("}}), "$.expect.visible_text"),
    (changed(expect={"requests": [{"n": 1, "checks": [{"check": "shiny"}]}]}), "checks[0].check"),
    (changed(expect={"requests": [{"n": 1, "checks": [{"check": "contains"}]}]}), "'text' is a required property"),
    (changed(expect={"requests": [{"n": 1, "checks": [{"check": "count_text", "text": "x"}]}]}), "'value' is a required property"),
    (changed(expect={"requests": [{"n": 2, "checks": [{"check": "differs_from"}]}]}), "'request' is a required property"),
    (changed(expect={"requests": [{"n": 2, "checks": [{"check": "tool_ids_match", "pattern": "["}]}]}), "pattern"),
    (raw({"status": 200}), "$.exchange[0]"),
    (raw({"status": 200, "steps": [{"text": "a", "comment": "b"}]}), "$.exchange[0].steps[0]"),
    (raw({"status": 200, "steps": [{"end": "soon"}]}), "$.exchange[0].steps[0].end"),
    (raw(says("Hi."), variants=[{"name": "v", "at": 3, "response": {"connect": "close"}}]), "IndexError"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "words"), WRONG, ids=[words for _, words in WRONG])
def test_what_is_no_case_is_told_with_its_place(value, words):
    """One sentence that names the place, and what is wrong there."""
    with pytest.raises(CaseError, match="is no case") as caught:
        case_of(value)

    assert words in str(caught.value)


def test_names_are_known_where_schemas_are_not(monkeypatch):
    """Without the package that knows schemas, no case of the folder has a field too many."""
    monkeypatch.setattr(module, "_validator", lambda: None)

    assert [] != cases_in(Path(__file__).parent / "cases")


def test_every_name_of_the_schema_is_understood():
    """Each check has a function, and each setting a place."""
    import json

    parts = json.loads(module.schema())["$defs"]

    assert set(parts["check"]["properties"]["check"]["enum"]) == set(CHECKS)
    assert set(parts["config"]["properties"]) == set(CONFIG) | ELSEWHERE


def test_every_expectation_of_the_schema_is_judged():
    """Each field, missed, is a difference; `must_not` is for people."""
    import json

    missed = {
        "events": ["refused"],
        "forbid_events": ["request_sent"],
        "states": ["backoff"],
        "outcome": "failed",
        "min_llm_calls": 2,
        "max_http_requests": 0,
        "visible_text": "Ho.",
        "visible_text_if_done": "Ho.",
        "tool_calls": [{"name": "look", "arguments": {}}],
        "requests": [{"n": 1, "checks": [{"check": "contains", "text": "nothing of the kind"}]}],
        "max_virtual_seconds": 1,
        "usage": {"input": 99},
        "open_connections_after": 0,
        "final_transcript": ["user"],
        "max_llm_calls": 1,
    }
    slow = {**says("Hi."), "headers_delay": 3}
    judged_together = {"min_llm_calls": {"max_llm_calls": 2}, "max_llm_calls": None}
    untold = {"reason", "waits", "transcript_utf8_clean", "must_not", "max_llm_calls"}
    fields = set(json.loads(module.schema())["$defs"]["expect_partial"]["properties"])

    assert fields == set(missed) | untold
    for name, value in missed.items():
        if name in untold:
            continue
        case = case_of(raw(slow, expect={**(judged_together.get(name) or {}), name: value}))
        assert 1 == len(differences(case, play(case))), name


@pytest.mark.parametrize(
    ("expect", "exchange"),
    [
        ({"outcome": "failed", "reason": ["server_error"], "visible_text": ""}, [{"status": 500, "body": {}}]),
        ({"max_llm_calls": 2, "waits": [{"after_request": 1, "min": 7, "max": 7}]}, [{"status": 429, "headers": {"retry-after": "7"}, "body": {}}, says("Hi.")]),
        ({"transcript_utf8_clean": True}, [says("Hi.")]),
    ],
)  # fmt: skip
def test_what_needs_a_fault_is_judged_by_one(expect, exchange):
    """Reason, waits and a clean transcript: met."""
    config = {"max_retries": 0} if len(exchange) == 1 else {}
    case = case_of(raw(*exchange, expect=expect, setup={"config": config}))

    assert [] == differences(case, play(case))


@pytest.mark.parametrize(
    ("steps", "seconds"),
    [
        ([{"repeat": {"times": 3, "steps": [{"comment": "x", "delay": 2}]}}, HI["steps"][0]], 6),
        ([{"delay": 5, "repeat": {"times": 2, "steps": [{"comment": "x"}]}}, HI["steps"][0]], 5),
        ([{"comment": "x", "split": 1}, {"delay": 1}, sse("Hi.", finish="stop"), {"delay": 2, "end": "clean"}], 3),
        ([HI["steps"][0], {"repeat": {"times": 1, "steps": [{"comment": "x"}]}, "end": "clean"}, {"end": "reset"}], 0),
    ],
)
def test_every_step_takes_its_time(steps, seconds):
    """Delays stand before blocks and pieces alike, and an end is the end wherever it stands."""
    case = case_of(raw({"status": 200, "steps": steps}))
    played = play(case)

    assert [] == differences(case, played)
    assert seconds == round(played.ends[0])
