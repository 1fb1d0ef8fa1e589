"""The command that proves that every turn ends, and prints the worst case of a config."""

from __future__ import annotations

import json
from functools import partial

import pytest

from fsm_loop.core import counters as c
from fsm_loop.core.events import InterruptAsked
from fsm_loop.core.machine import State
from tests.prove.broken import FREE, at, spends, with_lines, without_lines

OWN = "tests.export.own_page:OWN_PAGE"


@pytest.fixture
def command(command):
    """The command in this process: its status, what it printed, and what it said beside that."""
    return partial(command, "check")


@pytest.fixture
def file(tmp_path):
    """A file of settings."""
    path = tmp_path / "limits.toml"
    path.write_text(
        "max_requests = 20\nmax_iterations = 5\nread_timeout_s = 120.0\nmax_output_tokens = 4096\n", encoding="utf-8"
    )
    return path


def test_it_is_told_to_a_person(command, file):
    """The verdict comes first, then the worst case, why it ends, the formulas, and what to look at."""
    status, told, said = command("--config", file, "--chain", 1)
    order = [
        "Every turn ends, whatever the caps are.",
        "Under this config it is over after at most 21 model calls and ",
        "The worst case with 1 fallback; ",
        "  model calls ",
        "  after an interrupt",
        "Why it ends: ",
        "An interrupt ends the turn at once: ",
        "To look at:",
        "  - read_timeout_s (120 s) is above stale_after_s (90 s)",
        "hops          = chain * (1 + cycles)",
    ]

    assert (0, "") == (status, said)
    assert sorted(told.index(each) for each in order) == [told.index(each) for each in order]
    assert max(map(len, told.splitlines())) <= 120


def test_it_is_told_to_a_program(command, file):
    """One JSON object holds it all."""
    status, told, said = command("--config", file, "--json")
    plain = json.loads(told)

    assert (0, "") == (status, said)
    assert (True, 0, 21) == (plain["terminates"], plain["chain"], plain["bounds"]["llm_calls"])
    assert {} == plain["not_exact"]
    assert plain["bounds"]["output_tokens"] > 20 * 4096
    assert plain["certificate"]["terminates"]
    assert ["requests"] == plain["certificate_without_requests"]["without"]
    assert {"ends_at_once": True, "states": 10, "breaks": []} == plain["interrupt"]
    assert "min(calls, max_requests + grace_calls)" == plain["formula"]["llm_calls"]
    assert any(each.startswith("read_timeout_s (120 s)") for each in plain["warnings"])


def test_a_config_that_is_well_has_nothing_to_look_at(command, tmp_path):
    """Where nothing is to be said, that is said."""
    path = tmp_path / "limits.toml"
    path.write_text(
        "first_token_timeout_s = 31.0\ncall_deadline_s = 600.0\nrecoveries = 1\nrecovery_plan_s = [15.0]\n",
        encoding="utf-8",
    )
    _, told, _ = command("--config", path)

    assert "with one provider" in told
    assert "\nNothing to look at.\n" in told


def test_what_is_not_exact_says_so(command, tmp_path):
    """A number that no turn was walked to has its words, here and for a program."""
    path = tmp_path / "limits.toml"
    path.write_text("max_iterations = 10000\n", encoding="utf-8")
    _, told, _ = command("--config", path)
    _, plain, _ = command("--config", path, "--json")

    assert "at most: a turn so long is not walked" in " ".join(told.split())
    assert "llm_calls_uncapped" in json.loads(plain)["not_exact"]


def test_a_page_of_a_user_s_own(command):
    """Another page is proved as ours is; its numbers are those that its rows allow, and no formula is claimed."""
    status, told, _ = command("--page", OWN)
    _, plain, _ = command("--page", OWN, "--json")
    found = json.loads(plain)

    assert 0 == status
    assert "look at" not in told
    assert "as far as the page alone tells it" in told
    assert "at most: by counting rows" in told
    assert "asked: thoughts" in told
    assert (True, None) == (found["terminates"], found["formula"])
    assert {"llm_calls", "tool_rounds", "waited_s", "lasted_s", "output_tokens"} == set(found["not_exact"])


# fmt: off
FAILING = {
    "a loop that nothing counts": (
        with_lines(spends(c.slot_waits), **FREE), "A TURN MAY GO ON FOR EVER", "backoff.timer_fired -> calling"),
    "a loop that max_requests alone counts": (
        with_lines(spends(c.credential_refreshes), **FREE), "A TURN IS BOUNDED BY max_requests ALONE", "needs_refresh_credential"),
    "an interrupt that is not heard": (
        without_lines(at(State.BACKOFF, InterruptAsked)), "AN INTERRUPT DOES NOT ALWAYS END IT AT ONCE", "backoff: no row hears it"),
}
# fmt: on


@pytest.mark.parametrize(("page", "verdict", "why"), FAILING.values(), ids=FAILING)
def test_a_page_that_fails_is_status_1(command, monkeypatch, page, verdict, why):
    """A page that fails is told so in the first line, with what is wrong row by row, and the status is 1."""
    monkeypatch.setattr("fsm_loop.cli.pages.page_of", lambda spec: page)
    status, told, _ = command()
    again, plain, _ = command("--json")

    assert (1, 1) == (status, again)
    assert verdict in told.splitlines()[0]
    assert why in told
    assert why.partition(" -> ")[0] in plain


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--chain", "-1"), "--chain"),
        (("--chain", "many"), "--chain"),
        (("--config", "nowhere.toml"), "nowhere.toml: cannot be read"),
        (("--page", "nowhere"), "give a module and a page"),
        (("--page", "no_such_module_of_mine:PAGE"), "there is no such module"),
    ],
)
def test_a_wrong_use_is_status_2(command, arguments, said):
    """What cannot be read is a wrong use, told in one sentence."""
    status, told, error = command(*arguments)

    assert (2, "") == (status, told)
    assert said in error
