"""The picture as PlantUML: the real PlantUML reads it, where it is there."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from fsm_loop.export.drawing import View, drawing
from fsm_loop.export.model import outline
from fsm_loop.export.plantuml import plantuml_of

CHECK_WITHIN_S = 120.0


def test_the_arrows_are_those_of_the_picture():
    """Every state with its sentence, every arrow with its label, the first and the last state marked."""
    picture = drawing(outline())
    lines = plantuml_of(picture).splitlines()

    assert ("@startuml", "@enduml") == (lines[1], lines[-1])
    assert {f"state {each.name} : {each.sentence}" for each in picture.states} <= set(lines)
    assert {"[*] --> ready", "done --> [*]"} <= set(lines)
    assert len(picture.arrows) == sum("]-> " in line for line in lines)
    assert "ready -[#0b5cad,bold]-> calling : turn_started" in lines


@pytest.mark.skipif(shutil.which("plantuml") is None, reason="the real PlantUML is not here (Debian: plantuml)")
def test_the_real_plantuml_reads_every_view(tmp_path):
    """Its own check of the syntax finds nothing, and finds something in a picture that is wrong."""
    for view in View:
        (tmp_path / f"{view}.puml").write_text(plantuml_of(drawing(outline(), view)))
    right = subprocess.run(
        ["plantuml", "-checkonly", *tmp_path.glob("*.puml")], capture_output=True, text=True, timeout=CHECK_WITHIN_S, check=False
    )  # fmt: skip
    (tmp_path / "wrong.puml").write_text(plantuml_of(drawing(outline())).replace("]->", "]->->", 1))
    wrong = subprocess.run(
        ["plantuml", "-checkonly", tmp_path / "wrong.puml"], capture_output=True, text=True, timeout=CHECK_WITHIN_S, check=False
    )  # fmt: skip

    assert (0, "") == (right.returncode, right.stderr)
    assert 0 != wrong.returncode
