"""Turns laid over the picture: what was counted stands at its arrow and in its state."""

from __future__ import annotations

import json

import pytest

from fsm_loop.audit.jsonl import JsonLines
from fsm_loop.cli import main
from fsm_loop.core.faults import FaultKind
from fsm_loop.export.drawing import View
from fsm_loop.export.model import outline
from fsm_loop.export.overlay import Tally, overlaid, tally
from fsm_loop.testing.fakes import Pause, calls, fails, says
from tests.drive.turns import drive

CALL = calls(("add", {"a": 1, "b": 2}))


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.fixture(scope="module")
def trail(tmp_path_factory):
    """Three turns: one is retried and runs a tool, one answers at once after two seconds, one runs out of iterations."""
    path = tmp_path_factory.mktemp("trail") / "trail.jsonl"
    with JsonLines(path) as watcher:
        ports = {"watchers": [watcher]}
        drive([fails(FaultKind.OVERLOADED, retry_after_s=5.0), CALL, says("three")], tools=[add], ports=ports)
        drive([(Pause(2.0), *says("ok"))], ports=ports)
        drive([CALL] * 2, tools=[add], max_iterations=1, grace_calls=0, ports=ports)
    return path


@pytest.fixture(scope="module")
def found(trail):
    """What was counted."""
    return tally(map(json.loads, trail.read_text().splitlines()))


def arrows(picture):
    """The first line and the share of each arrow, by its states."""
    return {(each.source, each.target): (each.label[:1], each.share) for each in picture.arrows}


def test_what_is_counted(found):
    """Turns, decisions, rows, the turns that passed one, ends, and the seconds of each stay."""
    assert (3, 0, 0) == (found.turns, found.unfinished, found.late)
    assert {"completed": 2, "exhausted": 1} == found.outcomes
    assert {"iterations": 1} == found.counters
    assert (5, 3) == (found.rows["calling.slot_granted.budget_left"], found.passed["calling.slot_granted.budget_left"])
    assert [5.0] == list(found.seconds["backoff"])
    assert [0.0, 0.0, 0.0, 2.0] == sorted(found.seconds["calling"])[:3] + sorted(found.seconds["calling"])[-1:]
    assert sum(found.rows.values()) == found.decisions


def test_the_overview(found):
    """Each arrow has its times and its share of the turns, also where the view draws its rows from another state."""
    picture = overlaid(outline(), View.OVERVIEW, found)
    drawn = arrows(picture)

    assert (("3 x, 100 % of turns",), 1.0) == drawn["ready", "calling"]
    assert (("2 x, 67 % of turns",), pytest.approx(2 / 3)) == drawn["streaming", "tool_exec"]
    assert (("1 x, 33 % of turns",), pytest.approx(1 / 3)) == drawn["calling", "backoff"]
    assert ((), 0.0) == drawn["streaming", "truncated"]
    assert "An agent's turn: 3 turns, " in picture.title
    assert "1 stay\nmedian 5 s, 95th 5 s" == picture.under["backoff"]
    assert ("no turn came here", "") == (picture.under["recovering"], picture.under["ready"])
    assert "2 completed, 1 exhausted" == picture.under["done"]
    assert "Ended by a counter: iterations 1." in picture.notes


def test_what_the_overview_leaves_out_is_added_where_it_was_taken():
    """An interrupt, which has no arrow in the overview, has one where a turn was interrupted."""
    record = {"turn": "t", "is": "decision", "facts": {}, "moved": [], "effects": []}
    told = [
        {**record, "at": 0, "state": "ready", "row": "ready.turn_started", "after": "calling"},
        {**record, "at": 1.5, "state": "calling", "row": "calling.interrupt_asked", "after": "done"},
        {**record, "at": 9, "state": "done", "row": "late", "after": "done"},
    ]
    backoff = [
        *told[:1],
        {**record, "at": 2, "state": "calling", "row": "calling.model_failed.may_retry+api_retries_left", "after": "backoff"},
        {**record, "at": 3, "state": "backoff", "row": "backoff.interrupt_asked", "after": "done"},
    ]  # fmt: skip
    picture = overlaid(outline(), View.OVERVIEW, tally([*told, *({**each, "turn": "u"} for each in backoff)]))

    assert (("1 x, 50 % of turns",), 0.5) == arrows(picture)["backoff", "done"]
    assert "2 without an end" == picture.under["done"]
    assert "1 answers came late, and changed nothing." in picture.notes


@pytest.mark.parametrize("view", View)
def test_every_view_can_be_laid_over(found, view):
    """Whatever is shown, what no turn took is pale and the rest is counted."""
    picture = overlaid(outline(), view, found)

    assert all(each.share is not None for each in picture.arrows)
    assert all(bool(each.share) == bool(each.label) for each in picture.arrows)
    if view is View.FULL:
        assert (
            sum(int(each.label[0].split(" ")[0].replace(",", "")) for each in picture.arrows if each.label)
            == found.decisions
        )


def test_without_turns_nothing_was_taken():
    """No record is no turn, and every arrow is pale."""
    assert {0.0} == {each.share for each in overlaid(outline(), View.OVERVIEW, Tally()).arrows}


@pytest.mark.parametrize("kind", ["dot", "mermaid", "svg"])
def test_the_command(trail, capsysbinary, kind):
    """`--trail` lays turns over the picture, in every format that draws it."""
    status = main(["diagram", "--trail", str(trail), "--trail", str(trail), "--format", kind])
    out, err = capsysbinary.readouterr()

    assert (0, b"") == (status, err)
    assert b"6 x, 100" in out.replace(b"&#160;", b" ").replace(b"<br>", b" ")


@pytest.mark.parametrize(
    ("text", "sentence"), [("", b"--trail: there is no turn in"), ("x\n", b"t:1: it is no JSON object"), (None, b"cannot be read")]
)  # fmt: skip
def test_what_is_no_trail(tmp_path, capsysbinary, text, sentence):
    """A file that is none, or holds none, is status 2 and a sentence."""
    if text is not None:
        (tmp_path / "t").write_text(text)
    status = main(["diagram", "--trail", str(tmp_path / "t")])
    out, err = capsysbinary.readouterr()

    assert (2, b"") == (status, out)
    assert sentence in err
