"""Every case of what real providers do on the wire, played against the real loop over real HTTP, in virtual time."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fsm_loop.testing.wire.case import cases_in
from fsm_loop.testing.wire.connect import HTTP, SDK, why_not
from fsm_loop.testing.wire.judge import differences
from fsm_loop.testing.wire.play import play

pytest.importorskip("openai")

HERE = Path(__file__).parent
# A case whose expectation is in dispute has a heading there, and the argument below it.
DISPUTED = set(re.findall(r"^## (\S+)$", (HERE / "disputed.md").read_text(encoding="utf-8"), re.MULTILINE))
CASES = cases_in(HERE / "cases")
MOST_DISPUTES = 5


def runs():
    """Each run of each case whose protocol is spoken, those in dispute expected to fail."""
    for case in CASES:
        marks = [pytest.mark.xfail(reason="see disputed.md")] if case.id in DISPUTED else []
        if not why_not(case.protocol):
            yield from (pytest.param(run, id=run.name, marks=marks) for run in case.runs())


@pytest.mark.parametrize("way", [HTTP, SDK])
@pytest.mark.parametrize("case", [*runs()])
def test_it_ends_as_expected(case, way):
    """What came of the case is what a right loop does about it, on both ways to the wire."""
    assert [] == differences(case, play(case, way))


def test_few_are_disputed():
    """Each case in dispute is one of the folder, and they are few."""
    assert DISPUTED <= {case.id for case in CASES}
    assert len(DISPUTED) <= MOST_DISPUTES
