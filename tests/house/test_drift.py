"""What is generated is never edited: it is what the page says now."""

from __future__ import annotations

from fsm_loop.core.machine import State
from fsm_loop.export import artefacts, check
from tests.house.source import ROOT


def test_what_is_generated_is_current():
    """Every kept artefact is, letter by letter, what would be written from the page now."""
    assert "" == check(ROOT)


def test_the_artefacts_were_seen():
    """The check reads the README, the specification and a diagram, and all of them speak of every state."""
    made = artefacts(ROOT)

    assert {"README.md", "specs/machine.md", "diagrams/full.mmd"} <= set(made)
    assert {} == {
        name: missing
        for name, text in made.items()
        if (missing := [one.name for one in State if one.name.lower() not in text])
    }
