"""The command that plays cases of the wire."""

from __future__ import annotations

import json
from functools import partial

import pytest

from tests.wire.parts import raw, says

pytest.importorskip("openai")


@pytest.fixture
def folder(tmp_path):
    """Three cases: one as expected, one not, one whose protocol nobody speaks."""
    cases = {
        "good": raw(says("Hi."), id="good"),
        "wrong": raw(says("Ho."), id="wrong"),
        "strange": raw(says("Hi."), id="strange", protocol="openai-responses"),
    }
    for name, each in cases.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(each))
    return tmp_path


@pytest.fixture
def command(command):
    """The command in this process: its status, what it printed, and what it said beside that."""
    return partial(command, "cases")


def test_a_line_for_each_case(command, folder, monkeypatch):
    """What is as expected takes a line; what is not is followed by the differences and the path."""
    monkeypatch.setattr("fsm_loop.testing.wire.connect.WAYS", {"openai-chat": _chat()})
    status, told, _ = command(folder)
    lines = told.splitlines()

    assert 1 == status
    assert lines[0].startswith("ok    good: done, 1 call")
    assert lines[1].startswith("skip  strange: no provider speaks openai-responses")
    assert lines[2].startswith("FAIL  wrong: done, 1 call")
    assert "http: visible text: 'Ho.', expected 'Hi.'" in lines[3]
    assert "sdk: visible text: 'Ho.', expected 'Hi.'" in lines[4]
    assert "path: ready.turn_started > " in lines[5]
    assert "3 cases: 1 as expected, 1 not, 1 skipped" in lines[-1]


@pytest.mark.parametrize("way", ["http", "sdk"])
def test_one_way_to_the_wire(command, folder, way):
    """With --way a case is played once, and a difference needs no word of the way."""
    status, told, _ = command(folder, "--way", way, "--case", "wrong")
    lines = told.splitlines()

    assert 1 == status
    assert lines[0].startswith("FAIL  wrong: done, 1 call")
    assert "runs" not in lines[0]
    assert lines[1].strip() == "visible text: 'Ho.', expected 'Hi.'"


def _chat():
    from fsm_loop.testing.wire.connect import openai_chat

    return openai_chat


def test_one_object_for_each_case(command, folder):
    """With --json a program gets all of it, and only what it asks for; all is well where these are."""
    status, told, _ = command(folder, "--case", "good", "--json")

    assert 0 == status
    assert [("good", True)] == [(each["id"], each["ok"]) for each in json.loads(told)]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere"], "there is no case here"),
        ([".", "--case", "none"], "there is no case"),
        (["--way", "post", "."], "'post' is not one of 'http', 'sdk', 'both'"),
        ([], "give the folder that holds the cases"),
    ],
)
def test_a_wrong_use(command, folder, monkeypatch, arguments, sentence):
    """It is told in one sentence, and the status is 2."""
    monkeypatch.chdir(folder)
    status, told, beside = command(*arguments)

    assert (2, "") == (status, told)
    assert sentence in beside


def test_the_schema_is_printed(command):
    """It is JSON, and names the parts of a case."""
    status, told, _ = command("--schema")

    assert 0 == status
    assert {"exchange", "expect", "setup"} <= set(json.loads(told)["properties"])


@pytest.mark.parametrize("schema", ["whole", "names alone"])
def test_a_case_that_is_none_is_told_place_by_place(command, tmp_path, monkeypatch, schema):
    """A field that no case has is never passed over: each is told with its place, in one sentence.

    That is so where the package is missing that knows schemas.
    """
    if schema == "names alone":
        monkeypatch.setattr("fsm_loop.testing.wire.case._validator", lambda: None)
    wrong = raw(says("Hi."), expect={"visble_text": "Hi."})
    wrong["exchange"][0]["steps"][0]["dely"] = 3
    (tmp_path / "wrong.json").write_text(json.dumps(wrong), encoding="utf-8")
    status, told, beside = command(tmp_path)

    assert (2, "") == (status, told)
    assert 1 == beside.count("\n")
    for place, name in (("$.exchange[0].steps[0]", "dely"), ("$.expect", "visble_text")):
        words = (
            f"Additional properties are not allowed ('{name}' was unexpected)"
            if schema == "whole"
            else f"a case has no field '{name}' there"
        )
        assert f"{place}: {words}" in beside
