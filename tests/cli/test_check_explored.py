"""The command that proves explores the turns as well, and says which invariant does not hold and how one comes there."""

from __future__ import annotations

import json
from functools import partial

import pytest

from fsm_loop.audit.reading import records
from fsm_loop.core.events import ProviderReady
from fsm_loop.core.machine import State
from fsm_loop.prove.invariants import CHECKS
from tests.prove.broken import with_lines

OWN = "tests.export.own_page:OWN_PAGE"


@pytest.fixture
def command(command):
    """The command in this process: its status, what it printed, and what it said beside that."""
    return partial(command, "check")


@pytest.fixture
def tiny(tmp_path):
    """A config of which every turn is explored at once."""
    path = tmp_path / "tiny.toml"
    path.write_text("max_requests = 1\nmax_iterations = 0\nstream_retries = 0\nrecoveries = 0\n", encoding="utf-8")
    return path


def test_what_was_explored_is_told_to_a_person(command, tiny):
    """It stands what was explored, how much of it, and which invariants hold."""
    status, told, said = command("--config", tiny)

    assert (0, "") == (status, said)
    assert "A small config like this one was explored, every turn of it: " in told
    assert "no invariant is broken." in told
    assert "Held everywhere: terminates, one_grace, bounded, interrupt_wins, tools_whole, paired," in told


def test_what_was_explored_is_told_to_a_program(command, tiny):
    """Each invariant is a name with true or false; states and edges are numbers."""
    status, told, _ = command("--config", tiny, "--json")
    found = json.loads(told)

    assert 0 == status
    assert dict.fromkeys(CHECKS, True) == found["invariants"]
    assert found["states"] > 100
    assert found["edges"] > found["states"]
    assert [] == found["explored"]["violations"]


def test_deep_explores_the_config_itself(command, tiny):
    """With --deep the caps are those of the config: of one request, as of two, all turns are known."""
    _, small, _ = command("--config", tiny, "--json")
    tiny.write_text(tiny.read_text().replace("max_requests = 1", "max_requests = 3"), encoding="utf-8")
    status, told, _ = command("--config", tiny, "--deep", "--json")

    assert 0 == status
    assert json.loads(told)["states"] > json.loads(small)["states"]
    assert 4 == json.loads(told)["explored"]["most_requests"]


def test_an_invariant_that_is_broken_is_status_1_and_has_a_trail(command, tiny, monkeypatch):
    """A page on which a provider that is ready is not asked ends well on paper: the exploration finds where it sticks."""
    page = with_lines(lambda each: each.on is ProviderReady, to=State.FALLBACK)
    monkeypatch.setattr("fsm_loop.cli.pages.PAGE", page)
    monkeypatch.setattr("fsm_loop.core.machine.PAGE", page)
    status, told, _ = command("--config", tiny, "--chain", 1)

    assert 1 == status
    assert "NOT HELD." in told
    assert "provider_ready -> fallback" in told


def test_a_page_of_one_s_own_is_explored_when_that_is_asked(command, tiny):
    """Without --deep it is said that it was not; with it, a turn that waits for what never comes is found."""
    _, told, _ = command("--page", OWN, "--config", tiny)
    status, deep, _ = command("--page", OWN, "--config", tiny, "--deep")

    assert "The invariants were not asked of this page's turns; --deep does it." in told
    assert 1 == status
    assert "terminates does not hold: the turn is not over, and waits for nothing" in deep
    assert "   1. ready: turn_started -> asked  (ready.turn_started)" in deep


def test_a_turn_that_breaks_an_invariant_is_kept_for_the_viewer(command, tiny, monkeypatch, tmp_path):
    """--trail writes the shortest turn to where it breaks, as `trail show` and `trail view` read one; else no file."""
    good = tmp_path / "good.jsonl"
    command("--config", tiny, "--chain", 1, "--trail", good)
    page = with_lines(lambda each: each.on is ProviderReady, to=State.FALLBACK)
    monkeypatch.setattr("fsm_loop.cli.pages.PAGE", page)
    monkeypatch.setattr("fsm_loop.core.machine.PAGE", page)
    status, told, _ = command("--config", tiny, "--chain", 1, "--trail", tmp_path / "bad.jsonl")
    rows = [each["row"] for each in records([tmp_path / "bad.jsonl"]) if each["is"] == "decision"]

    assert not good.exists()
    assert 1 == status
    assert "fallback.provider_ready" == rows[-1]
    assert all(row in told for row in rows)
