"""Small cases, played: what the user does meanwhile, how tools run, and what a program is told of it."""

from __future__ import annotations

import re

import pytest

from fsm_loop.core.faults import FaultKind, RepairKind
from fsm_loop.core.machine import PAGE, State
from fsm_loop.core.messages import Finish
from fsm_loop.testing.wire import words
from fsm_loop.testing.wire.case import CaseError, case_of, cases_in
from fsm_loop.testing.wire.play import play
from fsm_loop.testing.wire.report import tried
from fsm_loop.testing.wire.scripted import config_of
from tests.wire.parts import calls, case, raw, says, sse

pytest.importorskip("openai")

LOOK = {"name": "look", "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": []}}


def test_a_plain_answer():
    """What was said, in which states, with what it took."""
    played = play(case(says("Hi", ".")))

    assert ("done", "Hi.", 1, 0.0) == (played.outcome, played.text, played.llm_calls, played.seconds)
    assert ["calling", "streaming", "done"] == played.states
    assert ["request_sent", "response_opened", "first_output", "text", "finish_stop"] == played.events


@pytest.mark.parametrize(
    ("script", "status", "seconds"),
    [
        ([{"delay": 5, "returns": {"a": 1}}], "tool_finished", 5.0),
        ([{"raises": "RuntimeError: full"}], "tool_failed", 0.0),
        ([{"raises": "asyncio.CancelledError"}], "tool_failed", 0.0),
        ([{"raises": "NoSuchError: odd"}], "tool_failed", 0.0),
        ([{"hangs": True}], "tool_failed", 60.0),
    ],
)
def test_tools_follow_their_script(script, status, seconds):
    """They return, raise, take their time, or hang until their time is over."""
    tools = [{**LOOK, "script": script}]
    played = play(case(calls("look", {"n": 1}), says("Hi."), setup={"tools": tools}))

    assert [{"name": "look", "arguments": {"n": 1}}] == played.tool_calls
    assert ("done", seconds) == (played.outcome, played.seconds)
    assert status in played.events


def test_the_last_of_a_script_repeats():
    """The n-th run takes the n-th entry."""
    tools = [{**LOOK, "script": [{"raises": "ValueError: no"}, {"returns": "yes"}]}]
    exchange = [calls("look", {}, f"call_{number}") for number in range(3)]
    played = play(case(*exchange, says("Hi."), setup={"tools": tools}))

    assert ["tool_failed", "tool_finished", "tool_finished"] == [
        word for word in played.events if word in words.TOOLS.values()
    ]
    assert [{"name": "look", "arguments": {}}] * 3 == played.tool_calls


def test_the_user_interrupts_and_goes_on():
    """An interrupt ends the turn at its second; a new word begins another one, with what was said."""
    slow = {"status": 200, "steps": [sse("Once "), sse("more", delay=60)]}
    actions = [
        {"when": {"event": "text", "nth": 1}, "delay": 3, "do": "interrupt"},
        {"when": {"event": "interrupted"}, "delay": 2, "do": "new_turn", "text": "again"},
    ]
    played = play(case(slow, says("Hi."), setup={"actions": actions}))

    assert ("done", "Once Hi.", 2, 5.0) == (played.outcome, played.text, played.llm_calls, played.seconds)
    assert ["user", "assistant", "user", "assistant"] == [message["role"] for message in played.messages]


@pytest.mark.parametrize("delay", [1, 100])
def test_a_steer_is_never_lost(delay):
    """One that comes while the turn runs is delivered in it; one that comes too late is a turn of its own."""
    actions = [{"when": {"event": "request_sent"}, "delay": delay, "do": "steer", "text": "in French"}]
    actions.append({"when": {"event": "finish_stop"}, "delay": 200, "do": "new_turn", "text": "thanks"})
    slow = {"status": 200, "steps": [sse("Hi.", delay=10), sse(finish="stop")]}
    played = play(case(slow, says("Salut."), says("Bye."), setup={"actions": actions[: 1 + (delay > 10)]}))

    heard = [request for request in played.requests if "in French" in str(request.body)]
    assert "Hi.Salut." == played.text[:9]
    assert heard[0].number == 2


def test_a_case_that_has_no_end_is_told():
    """A turn that never ends is a difference, not a test that hangs."""
    tools = [{**LOOK, "script": [{"delay": 100_000}]}]
    setup = {"tools": tools, "config": {"tool_timeout": 90_000}}
    report = tried(case(calls("look", {}), setup=setup))

    assert "the turn had no end" in report.differences


def test_a_report_of_a_case_and_its_variants():
    """The first run is told, and the differences of each, the variants' by their names."""
    variant = {"name": "worse", "at": 0, "response": says("Ho."), "expect": {"max_llm_calls": 2}}
    report = tried(case(says("Hi."), variants=[variant]))
    facts = report.plain()

    assert report.ok is False
    assert ["worse: visible text: 'Ho.', expected 'Hi.'"] == facts["differences"]
    assert ("small", False, "done", 1, "Hi.", []) == tuple(
        facts[name] for name in ("id", "ok", "outcome", "llm_calls", "visible_text", "tool_calls")
    )
    assert 1 == len(report.paths)


def test_a_protocol_that_nobody_speaks_is_skipped(monkeypatch):
    """It is neither right nor wrong, and says why."""
    monkeypatch.setattr("fsm_loop.testing.wire.connect.WAYS", {})
    report = tried(case(says("Hi.")))

    assert report.ok is None
    assert {
        "id": "small",
        "ok": None,
        "differences": [],
        "skipped": "no provider speaks openai-chat yet",
    } == report.plain()


# ---------------------------------------------------------------- reading cases


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"schema_version": 2}, "$.schema_version: 1 was expected"),
        ({"protocol": "telex"}, "$.protocol: 'telex' is not one of ['openai-chat', 'anthropic', 'openai-responses']"),
        ({"setup": None}, "$.setup: None is not of type 'object'"),
        ({"variants": [{"name": "x", "at": 7, "response": says("Ho.")}]}, "IndexError: list index out of range"),
        ({"exchange": 3}, "$.exchange: 3 is not of type 'array'"),
        ({"visible": "Hi."}, "$: Additional properties are not allowed ('visible' was unexpected)"),
    ],
)
def test_what_is_no_case_is_refused(change, told):
    """It is told what is wrong with it, and where it stands."""
    with pytest.raises(CaseError, match=f"^here: is no case: {re.escape(told)}$"):
        case_of({**raw(says("Hi.")), **change}, "here")


def test_a_folder_without_a_case_is_refused(tmp_path):
    """An empty folder, a missing one, and a file that is no JSON."""
    with pytest.raises(CaseError, match="there is no case here"):
        cases_in(tmp_path)
    with pytest.raises(CaseError, match="there is no case here"):
        cases_in(tmp_path / "none")
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(CaseError, match="is not JSON"):
        cases_in(tmp_path)


# ---------------------------------------------------------------- words


def test_every_word_of_ours_has_one_of_theirs():
    """No fault, repair, finish, state or outcome of ours is without a word of the cases'."""
    outcomes = {"completed", "partial", "refused", "exhausted", "interrupted", "failed"}

    assert set(FaultKind) == set(words.FAULTS)
    assert set(RepairKind) == set(words.REPAIRS)
    assert {None, *Finish} == set(words.FINISHES)
    assert {state.name.lower() for state in State} - {"ready"} == set(words.STATES)
    assert outcomes == set(words.OUTCOMES)


def test_every_action_that_is_translated_is_on_the_page():
    """A row whose action is renamed would fall silent here."""
    actions = {row.do.__name__ for row in PAGE.rows}

    assert set(words.ACTIONS) | words.RAISES | words.SILENT_WAITS <= actions


@pytest.mark.parametrize(
    ("given", "field", "expected"),
    [
        ({}, "api_max_retries", 3),
        ({"max_retries": 0}, "api_max_retries", 0),
        ({}, "bad_tool_rounds", 2),
        ({"unknown_tool_limit": 3}, "bad_tool_rounds", 3),
        ({"malformed_retries": 5, "unknown_tool_limit": 4}, "bad_tool_rounds", 4),
        ({"first_token_timeout": 7}, "read_timeout_s", 7),
        ({}, "recoveries", 0),
    ],
)
def test_settings_of_a_case_are_ours(given, field, expected):
    """By the one table; of two that are one of ours, what is given counts, and the smaller of what is given."""
    assert expected == getattr(config_of(given), field)
