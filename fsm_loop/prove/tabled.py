"""The worst case as the rows of a table: what is counted, how much, for how long that is, and what to know of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fsm_loop.prove.bounds import SAYS, Bound, Bounds
from fsm_loop.prove.stopping import Stopping
from fsm_loop.prove.warnings import lasts

Cells = tuple[str, str, str, str]
# Each bound, how deep it stands under another one, and what to know of it.
ROWS = (
    ("llm_calls", 0, "grace call included"),
    ("llm_calls_of_one_provider", 1, "whichever it is"),
    ("llm_calls_uncapped", 1, ""),
    ("llm_calls_unasked", 2, ""),
    ("tool_rounds", 0, ""),
    ("output_tokens", 0, "each reply up to its limit"),
    ("waited_s", 0, "jitter, Retry-After at most"),
    ("lasted_s", 0, ""),
)


def lines_of(worst: Bounds, stop: Stopping) -> list[Cells]:
    """A row for each number, in the order in which a person asks for them."""
    given = set(worst.plain()) - (set() if worst.chain else {"llm_calls_of_one_provider"})
    rows = [_cells(worst[name], SAYS[name][1], deep, note) for name, deep, note in ROWS if name in given]
    rows += [_cells(alike[0], f"until {_listed(alike)}", 1, "") for alike in _ends(worst)]
    return [*rows, ("after an interrupt", "0 s", "", "")] if stop.at_once else rows


def _cells(bound: Bound, says: str, deep: int, note: str) -> Cells:
    says = "  " * deep + says
    if bound.value is None:
        return says, "-", "", bound.note
    seconds = bound.unit == "s"
    number = f"{round(bound.value, 1):,}".removesuffix(".0") + (" s" if seconds else "")
    told = note if bound.exact else f"at most: {bound.note}"
    return says, number, lasts(bound.value) if seconds and bound.value >= 60 else "", told  # noqa: PLR2004  # a minute


def _ends(worst: Bounds) -> Iterator[Sequence[Bound]]:
    """The ends that take equally long, together."""
    ends = [each for each in worst.all if each.name.startswith("until_")]
    for first in ends:
        alike = [each for each in ends if (each.value, each.note) == (first.value, first.note)]
        if alike[0] is first:
            yield alike


def _listed(ends: Sequence[Bound]) -> str:
    names = [each.name.removeprefix("until_").removesuffix("_s") for each in ends]
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))
