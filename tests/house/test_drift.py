"""What is generated is never edited: it is what the page says now."""

from __future__ import annotations

import os
import subprocess
import sys

from fsm_loop.core.machine import State
from fsm_loop.export import artefacts, check
from tests.house.source import ROOT

DIGEST = """
import hashlib, pathlib
from fsm_loop.export import artefacts
made = artefacts(pathlib.Path())
print(hashlib.sha256(repr(made).encode()).hexdigest())
"""


def test_what_is_generated_is_current():
    """Every kept artefact is, letter by letter, what would be written from the page now."""
    assert "" == check(ROOT)


def test_the_artefacts_were_seen():
    """The check reads the README, the specification and the diagrams, and all of them speak of every state."""
    made = artefacts(ROOT)

    pictures = {"diagrams/overview.svg", "fsm_loop/export/overview.svg"}
    assert {"README.md", "specs/machine.md", "diagrams/full.mmd", "diagrams/overview.mmd"} | pictures == set(made)
    assert {} == {
        name: missing
        for name, text in made.items()
        if (missing := [one.name for one in State if one.name.lower() not in text])
    }


def test_the_order_is_never_that_of_a_set():
    """A process in which text has other hashes makes the same artefacts, letter by letter."""
    made = [
        subprocess.run(
            [sys.executable, "-c", DIGEST],
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    ]

    assert 64 == len(made[0].strip())
    assert 1 == len(set(made))
