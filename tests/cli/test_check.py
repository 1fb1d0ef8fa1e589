"""The command that proves that every turn ends, and prints the worst case of a config."""

from __future__ import annotations

import json

import pytest

from fsm_loop.cli import main
from fsm_loop.core import counters as c
from tests.prove.broken import spends, with_lines


@pytest.fixture
def command(capsys):
    """The command in this process: its status, what it printed, and what it said beside that."""

    def run(*arguments):
        status = main(["check", *map(str, arguments)])
        return (status, *capsys.readouterr())

    return run


@pytest.fixture
def file(tmp_path):
    """A file of settings."""
    path = tmp_path / "limits.toml"
    path.write_text("max_requests = 20\nread_timeout_s = 120.0\n")
    return path


def test_it_is_told_to_a_person(command, file):
    """The certificate, the worst case, the formula, and what to look at."""
    status, told, said = command("--config", file, "--chain", 1)

    assert (0, "") == (status, said)
    assert told.startswith("Every loop is counted: ")
    assert "Every loop is counted, even without requests: " in told
    assert "with 1 provider behind the first" in told
    assert "model calls in one turn, the grace call among them: 21 calls" in told
    assert "hops          = chain * (1 + cycles)" in told
    assert "  - read_timeout_s (120 s) is above stale_after_s (90 s)" in told


def test_it_is_told_to_a_program(command, file):
    """One JSON object holds it all."""
    status, told, said = command("--config", file, "--json")
    plain = json.loads(told)

    assert (0, "") == (status, said)
    assert (True, 0, 21) == (plain["terminates"], plain["chain"], plain["bounds"]["llm_calls"])
    assert {} == plain["not_known"]
    assert plain["certificate"]["terminates"]
    assert ["requests"] == plain["certificate_without_requests"]["without"]
    assert any(each.startswith("read_timeout_s (120 s)") for each in plain["warnings"])


def test_a_config_that_is_well_has_nothing_to_look_at(command, tmp_path):
    """Where nothing is to be said, that is said."""
    path = tmp_path / "limits.toml"
    path.write_text("first_token_timeout_s = 20.0\nrecoveries = 1\nrecovery_plan_s = [15.0]\n")
    _, told, _ = command("--config", path)

    assert "with one provider" in told
    assert told.endswith("Nothing to look at.\n")


@pytest.mark.parametrize("arguments", [(), ("--json",)], ids=["", "json"])
def test_a_page_that_fails_is_status_1(command, monkeypatch, arguments):
    """Where a loop is not counted, the status is 1, and the loop is shown row by row."""
    from fsm_loop.prove import loops

    page = with_lines(spends(c.slot_waits), spends=None)
    monkeypatch.setattr("fsm_loop.prove.certificate", lambda **options: loops.certificate(page, **options))
    status, told, _ = command(*arguments)

    assert 1 == status
    assert "backoff.timer_fired" in told


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--chain", "-1"), "--chain"),
        (("--chain", "many"), "--chain"),
        (("--config", "nowhere.toml"), "nowhere.toml: cannot be read"),
    ],
)
def test_a_wrong_use_is_status_2(command, arguments, said):
    """What cannot be read is a wrong use, told in one sentence."""
    status, told, error = command(*arguments)

    assert (2, "") == (status, told)
    assert said in error
