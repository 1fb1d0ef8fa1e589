"""What turns have done, laid over the picture of the page: how often each arrow was taken, and where the time went.

It reads the records of trails as plain mappings, in any order that keeps each turn's own.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import Factory, define, evolve

from fsm_loop.export.drawing import Arrow, Drawing, View, arrow_of, drawing
from fsm_loop.export.model import Outline, Row

MOST_LISTED = 6  # ends and counters in the notes


def _floats() -> array[float]:
    return array("d")


@define
class _Turn:
    """A turn whose end has not been read yet."""

    state: str = ""
    since: float = 0.0
    rows: set[str] = Factory(set)
    ways: set[tuple[str, str]] = Factory(set)


@define
class Tally:
    """What was counted over all turns; eight bytes for each decision's time, and the open turns."""

    turns: int = 0
    decisions: int = 0
    late: int = 0
    rows: Counter[str] = Factory(Counter)
    passed: Counter[str] = Factory(Counter)
    went: Counter[tuple[str, str]] = Factory(Counter)
    visited: set[str] = Factory(set)
    outcomes: Counter[str] = Factory(Counter)
    counters: Counter[str] = Factory(Counter)
    seconds: dict[str, array[float]] = Factory(lambda: defaultdict(_floats))
    _open: dict[str, _Turn] = Factory(dict)

    @property
    def unfinished(self) -> int:
        """Turns without an end."""
        return len(self._open)

    def see(self, record: Mapping[str, Any]) -> None:
        """One record more."""
        if record["is"] == "end":
            self._open.pop(record["turn"], None)
            self.outcomes[record["outcome"]] += 1
            if record["exhausted"]:
                self.counters[record["exhausted"]["counter"]] += 1
            return
        turn = self._open.get(record["turn"])
        if turn is None:
            turn = self._open[record["turn"]] = _Turn()
            self.turns += 1
        if record["is"] == "decision":
            self._decided(turn, record)

    def _decided(self, turn: _Turn, record: Mapping[str, Any]) -> None:
        self.decisions += 1
        row, at = record["row"], float(record["at"])
        if row == "late":
            self.late += 1
            return
        self.rows[row] += 1
        if row not in turn.rows:
            turn.rows.add(row)
            self.passed[row] += 1
        way = record["state"], record["after"]
        if way not in turn.ways:
            turn.ways.add(way)
            self.went[way] += 1
        self.visited.update(way)
        if turn.state and way[0] != way[1]:
            self.seconds[turn.state].append(at - turn.since)
        if way[1] != turn.state:
            turn.state, turn.since = way[1], at


def tally(records: Iterable[Mapping[str, Any]]) -> Tally:
    """Count these records."""
    found = Tally()
    for record in records:
        found.see(record)
    return found


def overlaid(outline: Outline, view: View, found: Tally) -> Drawing:
    """The picture of this view, with what was counted; what the overview leaves out is added where it was taken."""
    picture = drawing(outline, view)
    whole = view is View.OVERVIEW
    arrows = [
        _counted(arrow, _of(arrow, outline) if whole else arrow.rows, found, whole=whole) for arrow in picture.arrows
    ]
    if whole:
        arrows += [_counted(arrow, arrow.rows, found, whole=True) for arrow in _left_out(outline, picture, found)]
    under = {state.name: _times(state.name, found) for state in picture.states}
    under |= {state.name: _ends(found) for state in picture.states if state.done}
    title = f"{picture.title}: {found.turns:,} {'turn' if found.turns == 1 else 'turns'}, {found.decisions:,} decisions"
    return evolve(picture, title=title, arrows=tuple(arrows), under=under, notes=tuple(_notes(found)))


def _of(arrow: Arrow, outline: Outline) -> Sequence[Row]:
    """The rows that lead the same way as the arrow; of those that stay where they are, the arrow's own."""
    if arrow.source == arrow.target:
        return arrow.rows
    return [row for row in outline.rows if (row.source, row.target) == (arrow.source, arrow.target)]


def _left_out(outline: Outline, picture: Drawing, found: Tally) -> Iterator[Arrow]:
    drawn = {(arrow.source, arrow.target) for arrow in picture.arrows}
    others: dict[tuple[str, str], list[Row]] = {}
    for row in outline.rows:
        if found.rows[row.name] and row.source != row.target and (row.source, row.target) not in drawn:
            others.setdefault((row.source, row.target), []).append(row)
    for rows in others.values():
        yield arrow_of(outline, rows, tuple(dict.fromkeys(row.event for row in rows)))


def _counted(arrow: Arrow, rows: Sequence[Row], found: Tally, *, whole: bool) -> Arrow:
    """The arrow with what was counted; *whole* where its rows are all that lead from its one state to the other."""
    times = sum(found.rows[row.name] for row in rows)
    if not times:
        return evolve(arrow, label=(), share=0.0)
    taken = [found.passed[row.name] for row in rows if found.passed[row.name]]
    exact = whole and arrow.source != arrow.target
    passed = found.went[arrow.source, arrow.target] if exact else max(taken)
    share, at_least = passed / found.turns, "" if exact or len(taken) == 1 else "at least "
    return evolve(arrow, label=(f"{times:,} x, {at_least}{_percent(share)} of turns", *arrow.label), share=share)


def _percent(share: float) -> str:
    return "under 1 %" if 0 < share < 0.01 else f"{100 * share:.0f} %"  # noqa: PLR2004  # a hundredth


def _times(state: str, found: Tally) -> str:
    ordered = sorted(found.seconds.get(state, ()))
    if not ordered:
        return "" if state in found.visited else "no turn came here"
    stays = "1 stay" if len(ordered) == 1 else f"{len(ordered):,} stays"
    return f"{stays}\nmedian {_at(ordered, 50)}, 95th {_at(ordered, 95)}"


def _at(ordered: Sequence[float], percent: int) -> str:
    value = ordered[max(0, -(-percent * len(ordered) // 100) - 1)]
    return f"{value:.3g} s"


def _ends(found: Tally) -> str:
    ends = [f"{count:,} {outcome}" for outcome, count in found.outcomes.most_common(MOST_LISTED)]
    if found.unfinished:
        ends.append(f"{found.unfinished:,} without an end")
    return ", ".join(ends)


def _notes(found: Tally) -> Iterator[str]:
    """What the arrows do not show."""
    yield "The wider an arrow, the more turns took it; what no turn took is pale."
    if found.counters:
        counted = ", ".join(f"{name} {count:,}" for name, count in found.counters.most_common(MOST_LISTED))
        yield f"Ended by a counter: {counted}."
    if found.late:
        yield f"{found.late:,} answers came late, and changed nothing."
