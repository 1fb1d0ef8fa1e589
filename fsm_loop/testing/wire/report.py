"""What came of a case with all its variants, in one line for a person and one object for a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from fsm_loop.testing.wire.case import Case
from fsm_loop.testing.wire.connect import HTTP, why_not
from fsm_loop.testing.wire.judge import differences
from fsm_loop.testing.wire.play import Played, play


@frozen
class Report:
    """One case: its first run, and everything in which any of its runs differs from what is expected.

    `skipped` says why it could not be played, empty where it was. `paths` are the ways through the rows of the runs
    that differ, `ways` the ways to the wire on which it was played.
    """

    case: Case
    played: Played | None = None
    differences: Sequence[str] = ()
    paths: Sequence[Sequence[str]] = ()
    skipped: str = ""
    ways: tuple[str, ...] = ()

    @property
    def ok(self) -> bool | None:
        """Whether all is as expected; None where the case was skipped."""
        return None if self.skipped else not self.differences

    def plain(self) -> dict[str, Any]:
        """The report for a program."""
        facts = {"id": self.case.id, "ok": self.ok, "differences": list(self.differences)}
        if self.played is None:
            return {**facts, "skipped": self.skipped}
        played = self.played
        return facts | {
            "outcome": played.outcome,
            "reason": played.reason,
            "llm_calls": played.llm_calls,
            "visible_text": played.text,
            "tool_calls": list(played.tool_calls),
            "virtual_seconds": round(played.seconds, 3),
        }


def tried(case: Case, ways: Sequence[str] = (HTTP,)) -> Report:
    """The case and each of its variants, played on each of these ways to the wire, and judged."""
    reason = why_not(case.protocol)
    if reason:
        return Report(case, skipped=reason)
    first: Played | None = None
    found: list[str] = []
    paths = []
    for way in ways:
        for run in case.runs():
            played = play(run, way)
            first = first or played
            wrong = differences(run, played)
            where = ", ".join(filter(None, (run.variant, way if len(ways) > 1 else "")))
            found += [f"{where}: {each}" if where else each for each in wrong]
            if wrong:
                paths.append([entry.row for entry in played.trail])
    return Report(case, first, found, paths, ways=tuple(ways))
