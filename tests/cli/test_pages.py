"""The page that --page names, and a sentence for each way in which it is none."""

from __future__ import annotations

import sys

import pytest

from fsm_loop.cli.pages import page_of
from fsm_loop.cli.stops import Status, Stop
from fsm_loop.core.machine import PAGE
from tests.export.own_page import OWN_PAGE


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write a module of this text; it can be imported by the name that comes back."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    def written(text):
        (tmp_path / "my_machine.py").write_text(text, encoding="utf-8")
        monkeypatch.delitem(sys.modules, "my_machine", raising=False)
        return "my_machine"

    yield written
    sys.modules.pop("my_machine", None)


def test_a_page_is_found():
    """Without a name it is ours; with one it is the page of that name, which may stand inside something."""
    assert page_of(None) is PAGE
    assert page_of("tests.export.own_page:OWN_PAGE") is OWN_PAGE
    assert page_of("fsm_loop:PAGE") is PAGE


BROKEN = """
from attrs import evolve
from fsm_loop import PAGE
from fsm_loop.core.rows import Page
MINE = Page(PAGE.states, PAGE.start, PAGE.done, PAGE.lines[:-3], PAGE.counters[:-1])
"""


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ("", "", "give a module and a page, as in my_machine:PAGE"),
        ("", ":MINE", "my_machine has no MINE"),
        ("MINE = 3", ":MINE", "it is int, not a Page"),
        ("import no_such_thing", ":MINE", "it imports no_such_thing, which is not there"),
        ("1 / 0", ":MINE", "cannot be imported: ZeroDivisionError: division by zero"),
        ("(", ":MINE", "cannot be imported: SyntaxError"),
    ],
)
def test_what_is_no_page_is_told(module, text, name, said):
    """A wrong name, a module that fails and a thing that is no page are wrong uses, each told in a sentence."""
    with pytest.raises(Stop) as stopped:
        page_of(module(text) + name)

    assert Status.USAGE == stopped.value.status
    assert said in stopped.value.sentence
    assert "\n" not in stopped.value.sentence


def test_a_module_that_is_not_there_is_told():
    """So is a module that nobody has."""
    with pytest.raises(Stop, match="there is no such module"):
        page_of("no_such_module_of_mine:PAGE")


def test_a_page_that_breaks_a_rule_has_failed(module):
    """A page that was refused when it was made is what a check is there to find: the rule is told, with status 1."""
    with pytest.raises(Stop) as stopped:
        page_of(module(BROKEN) + ":MINE")

    assert Status.FAILED == stopped.value.status
    assert "the page breaks a rule: " in stopped.value.sentence
    assert "slot_waits is not one of the page's counters" in stopped.value.sentence
