"""What `fsm-loop check` says beside the proof: the odds under a profile, and z3's opinion."""

from __future__ import annotations

import json
from functools import partial

import pytest

from fsm_loop.core import counters as c
from fsm_loop.core.counters import Occasion
from fsm_loop.prove.rank import has_z3
from tests.prove.broken import spends, with_lines


@pytest.fixture
def command(command, tmp_path):
    """The command in this process, under a small config: its status, what it printed, and what it said beside that."""
    file = tmp_path / "limits.toml"
    file.write_text("max_requests = 10\nmax_iterations = 3\n", encoding="utf-8")
    return partial(command, "check", "--config", file)


@pytest.fixture
def mine(tmp_path):
    """A profile of one's own."""
    path = tmp_path / "mine.toml"
    path.write_text("[chances]\nempty = 0.25\n", encoding="utf-8")
    return path


def test_the_odds_are_told_to_a_person(command, mine):
    """After the proof: each end with its probability, and what a turn takes."""
    status, told, said = command("--odds", mine)
    order = ["Every turn ends", "Under the profile mine", "completed", "empty_replies was spent", "model calls\n"]

    assert (0, "") == (status, said)
    assert told.index(order[0]) < told.index(order[1]) < told.rindex(order[2]) < told.index(order[3])
    assert told.rindex(order[4]) > told.index(order[3])


def test_the_odds_are_told_to_a_program(command, mine):
    """Under a key of their own; null where no profile was given."""
    plain = json.loads(command("--odds", mine, "--json")[1])

    assert 1 / 64 == pytest.approx(plain["odds"]["exhausted"]["empty_replies"])
    assert json.loads(command("--json")[1])["odds"] is None


def test_a_wrong_profile_is_a_wrong_use(command, mine):
    """One sentence that says what is allowed, and status 2."""
    mine.write_text("[chances]\nemty = 0.25\n", encoding="utf-8")
    wrong, missing = command("--odds", mine), command("--odds", "windy")

    assert (2, "") == wrong[:2]
    assert "'emty' under [chances]" in wrong[2]
    assert "allowed are tool_round" in wrong[2]
    assert 2 == missing[0]
    assert "calm, flaky_network, rate_limited, long_answers, outage" in missing[2]


def test_a_page_without_an_end_has_no_odds(command, monkeypatch):
    """The loop is told, and that there are no odds."""
    page = with_lines(spends(c.api_retries), brings=(Occasion.CUT_REPLY,))
    monkeypatch.setattr("fsm_loop.cli.pages.PAGE", page)
    status, told, _ = command("--odds", "calm")

    assert 1 == status
    assert "There are no odds" in told


@pytest.mark.skipif(not has_z3(), reason="z3 is not installed: pip install 'fsm-loop[prove]'")
def test_z3_is_asked(command):
    """A line for a person, and a certificate for a program."""
    assert "z3 agrees: each of 1" in command()[1]
    assert json.loads(command("--json")[1])["certificate_z3"]["holds"] is True


def test_z3_is_left_out_where_it_is_not(command, monkeypatch):
    """Without z3 the proof stands, and it is said that there was no second opinion."""
    monkeypatch.setattr("fsm_loop.prove.rank.find_spec", lambda name: None)
    status, told, said = command()

    assert (0, "") == (status, said)
    assert "z3 was left out, for it is not installed: pip install 'fsm-loop[prove]'" in told.replace("\n", " ")
    assert json.loads(command("--json")[1])["certificate_z3"] is None
