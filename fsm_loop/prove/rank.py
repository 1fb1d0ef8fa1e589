"""Termination as z3 sees it: a rank that every row lowers, for all values of the counters and of the caps.

The rank is a tuple that is read from the left: a level of the place; what is left of each counter, with a second level
of the place somewhere among them; a third level; the tool calls that are waited for. z3 is asked twice. First it
chooses the levels and the order, from what each row spends, asks for and refills; where there is no choice, the rows
that stand in each other's way are its answer. Then it is given every row with unknown counters and unknown caps, and
looks for values under which the rank does not fall, or a counter leaves its bounds. All of it is read from the page.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import attrs
from attrs import frozen

from fsm_loop.config import LoopConfig
from fsm_loop.core.counters import Counter
from fsm_loop.core.effects import RunTool
from fsm_loop.core.events import ToolReturned
from fsm_loop.core.machine import PAGE
from fsm_loop.core.rows import Page, Row
from fsm_loop.errors import MissingExtra
from fsm_loop.prove.places import Edge, Place, asks, edges_of, is_a_word

LEVELS = ("first", "middle", "last")
SEARCH_MS = 20_000  # milliseconds that z3 may look for a rank, or for values, before it is taken to know none


@frozen
class Failing:
    """A row that does not lower the rank, or does not keep a counter in its bounds; with values that show it."""

    row: str
    why: str
    values: Mapping[str, int]

    def __str__(self) -> str:
        """Read as a sentence."""
        values = ", ".join(f"{name} = {value}" for name, value in self.values.items())
        return f"{self.row}: {self.why}" + (f", as with {values}" if values else "")


@frozen
class Ranked:
    """What z3 found: the order of the counters in the rank, the number of rows that lower it, and those that fail.

    `conflict` names the rows that no rank of this kind lowers all together; empty where there is a rank.
    """

    order: tuple[Counter, ...]
    rows: int
    obligations: int
    conflict: tuple[str, ...]
    failing: tuple[Failing, ...]

    @property
    def holds(self) -> bool:
        """Whether every row lowers the rank and keeps each counter in its bounds, for all caps."""
        return not self.failing

    def plain(self) -> dict[str, Any]:
        """What was found, as data."""
        return {
            "holds": self.holds,
            "order": [counter.name for counter in self.order],
            "rows": self.rows,
            "obligations": self.obligations,
            "conflict": list(self.conflict),
            "failing": [{"row": each.row, "why": each.why, "values": dict(each.values)} for each in self.failing],
        }

    def __str__(self) -> str:
        """What was found, to be read."""
        if self.holds:
            return (
                f"z3 agrees: each of {self.rows} rows lowers one rank and keeps every counter under its cap, "
                "for all values of the counters and of the caps."
            )
        told = [f"z3 finds {len(self.failing)} row{'s' if self.failing[1:] else ''} that no rank allows:"]
        told += [f"  {each}" for each in self.failing]
        if self.conflict:
            told += ["  No rank lowers all of these together:", *(f"    {row}" for row in self.conflict)]
        return "\n".join(told)


def ranked(page: Page = PAGE, *, without: Collection[Counter] = ()) -> Ranked:
    """The page's termination, given to z3; *without* are counters left out of the rank.

    The page need not keep the rules that a page is made under. Raises MissingExtra where z3 is not installed.
    """
    try:
        import z3  # type: ignore[import-untyped]
    except ImportError as error:
        raise MissingExtra(
            "the rank needs z3, which is not installed; install it with: pip install 'fsm-loop[prove]'"
        ) from error
    return _Proof(z3, page, frozenset(without)).ranked()


def has_z3() -> bool:
    """Whether z3 can be asked."""
    return find_spec("z3") is not None


class _Proof:
    """One page, as z3 is asked about it."""

    def __init__(self, z3: Any, page: Page, without: frozenset[Counter]) -> None:
        self.z3 = z3
        self.page = page
        self.counters = tuple(each for each in page.counters if _is_ranked(each) and each not in without)
        self.edges = tuple(edge for edge in edges_of(page) if not is_a_word(edge.row))
        self.places = tuple(dict.fromkeys(place for edge in self.edges for place in (edge.here, edge.there)))

    def ranked(self) -> Ranked:
        rank, conflict = self._chosen()
        failing: dict[str, Failing] = {}
        found: dict[object, Failing | None] = {}
        for edge in self.edges:
            row = edge.row
            moves = tuple(_sign(level[edge.here], level[edge.there]) for level in rank.levels)
            alike = (row.spends, row.asks, self.page.refills(row), _waits_for_fewer(row), moves)
            if alike not in found:
                found[alike] = self._refuted(edge, rank)
            bad = found[alike]
            if bad is not None and row.name not in failing:
                failing[row.name] = attrs.evolve(bad, row=row.name)
        rows = len({edge.row.name for edge in self.edges})
        return Ranked(rank.order, rows, 2 * len(found), conflict, tuple(failing.values()))

    # ------------------------------------------------------------ the choice of a rank

    def _chosen(self) -> tuple[_Rank, tuple[str, ...]]:
        """A rank for as many rows as there is one for, and the rows among which z3 sees a conflict."""
        z3 = self.z3
        at = {place: number for number, place in enumerate(self.places)}
        levels = [[z3.Int(f"level {name} {n}") for n in range(len(self.places))] for name in LEVELS]
        order = {each: z3.Int(f"order {each.name}") for each in self.counters}
        middle = z3.Int("order middle")
        claims = {
            edge: self._lowered(
                edge.row, order, middle, [(each[at[edge.here]], each[at[edge.there]]) for each in levels]
            )
            for edge in self.edges
        }
        conflict: tuple[str, ...] = ()
        while True:
            solver = self._solver()
            solver.add(*(each >= 0 for each in (middle, *order.values())), *claims.values())
            answer = solver.check()
            if answer == z3.sat:
                break
            core = self._conflict(claims)
            conflict = conflict or tuple(dict.fromkeys(edge.row.name for edge in core))
            del claims[core[-1]]
        model = solver.model()

        def value(unknown: Any) -> int:
            return int(model.eval(unknown, model_completion=True).as_long())

        placed = {each: value(order[each]) for each in self.counters}
        ordered = tuple(sorted(self.counters, key=placed.__getitem__))
        split = sum(placed[each] < value(middle) for each in ordered)
        valued = ({place: value(level[at[place]]) for place in self.places} for level in levels)
        return _Rank(ordered, split, *valued), conflict

    def _conflict(self, claims: Mapping[Edge, Any]) -> list[Edge]:
        """Rows that no rank lowers all together, though it would lower them without any one of these."""
        solver, z3 = self._solver(), self.z3
        tags = {z3.Bool(f"edge {number}"): edge for number, edge in enumerate(claims)}
        for tag, edge in tags.items():
            solver.add(z3.Implies(tag, claims[edge]))
        needed = list(tags)
        solver.check(*needed)
        needed = list(solver.unsat_core()) or needed
        for tag in tuple(needed):
            others = [each for each in needed if not each.eq(tag)]
            if solver.check(*others) == z3.unsat:
                needed = others
        return [tags[tag] for tag in needed]

    def _solver(self) -> Any:
        solver = self.z3.SolverFor("QF_LIA")
        solver.set("timeout", SEARCH_MS)
        return solver

    def _lowered(self, row: Row, order: Mapping[Counter, Any], middle: Any, levels: Sequence[tuple[Any, Any]]) -> Any:
        """That the row lowers the rank, by the first part of it that the row moves."""
        z3 = self.z3
        pays, refills = self._spent(row), self._refilled(row)
        falls = [there < here for here, there in levels]
        stays = [there == here for here, there in levels]
        ways = [z3.And(falls[1], *(middle < order[each] for each in refills))]
        if pays is not None and pays not in refills:
            ways.append(z3.And(z3.Or(order[pays] < middle, stays[1]), *(order[pays] < order[each] for each in refills)))
        elif not refills:
            last = z3.Or(falls[2], stays[2]) if _waits_for_fewer(row) else falls[2]
            ways.append(z3.And(stays[1], last))
        return z3.Or(falls[0], z3.And(stays[0], z3.Or(*ways)))

    def _spent(self, row: Row) -> Counter | None:
        """The counter that the row spends, where the row asks whether one is left."""
        return row.spends if row.spends in self.counters and row.spends in row.asks else None

    def _refilled(self, row: Row) -> list[Counter]:
        return [each for each in self.page.refills(row) if each in self.counters]

    # ------------------------------------------------------------ the proof of a row

    def _refuted(self, edge: Edge, rank: _Rank) -> Failing | None:
        """Values under which the row does what it must not; None where there are none."""
        z3, row = self.z3, edge.row
        cap = {each: z3.Int(f"{each.name}.cap") for each in self.counters}
        old = {each: z3.Int(f"{each.name}.before") for each in self.counters}
        refilled = set(self.page.refills(row))
        new = {each: z3.IntVal(0) if each in refilled else old[each] for each in self.counters}
        if row.spends in self.counters:
            new[row.spends] = new[row.spends] + 1
        waits, waits_after = z3.Ints("tool_calls.before tool_calls.after")
        given = [z3.And(old[each] >= 0, old[each] <= cap[each]) for each in self.counters]
        given += [old[each] < cap[each] for each in row.asks if each in self.counters]
        given += [waits >= 0, waits_after >= 0]
        if _waits_for_fewer(row):
            given += [waits >= 1, waits_after == waits - 1]
        before, after = (
            rank.value([cap[each] - count[each] for each in rank.order], place, calls)
            for count, place, calls in ((old, edge.here, waits), (new, edge.there, waits_after))
        )
        kept = z3.And(*(z3.And(new[each] >= 0, new[each] <= cap[each]) for each in self.counters))
        for why, claim in (
            ("takes a counter past its cap", kept),
            ("does not lower the rank", self._less(after, before)),
        ):
            solver = self._solver()
            solver.add(*given, z3.Not(claim))
            if solver.check() != z3.unsat:
                touched = [each for each in self.counters if each is row.spends or each in refilled]
                return Failing(row.name, why, _values(solver.model(), touched, old, cap))
        return None

    def _less(self, one: Sequence[Any], other: Sequence[Any]) -> Any:
        """That one tuple stands before the other, read from the left."""
        z3 = self.z3
        less: Any = z3.BoolVal(val=False)
        for mine, theirs in reversed(list(zip(one, other, strict=True))):
            less = z3.Or(mine < theirs, z3.And(mine == theirs, less))
        return less


@frozen
class _Rank:
    """The rank: three levels of each place, and the counters; the first *split* stand before the middle level."""

    order: tuple[Counter, ...]
    split: int
    first: Mapping[Place, int]
    middle: Mapping[Place, int]
    last: Mapping[Place, int]

    @property
    def levels(self) -> tuple[Mapping[Place, int], ...]:
        return self.first, self.middle, self.last

    def value(self, left: Sequence[Any], place: Place, waits: Any) -> list[Any]:
        """The rank in this place, where so much is left of the counters, and so many tool calls are waited for."""
        first, middle, last = (level[place] for level in self.levels)
        return [first, *left[: self.split], middle, *left[self.split :], last, waits]


def _is_ranked(counter: Counter) -> bool:
    """Whether the counter has a cap in every config, and rows alone move it."""
    if counter.measured:
        return False
    if not isinstance(counter.cap, str):
        return True
    setting = attrs.fields_dict(LoopConfig).get(counter.cap)
    return setting is not None and not setting.metadata["allowed"].none


def _waits_for_fewer(row: Row) -> bool:
    """Whether one tool call fewer is waited for after the row, and none is begun by it."""
    asked = asks(row.do)
    return row.on is ToolReturned and asked is not None and RunTool not in asked


def _sign(here: int, there: int) -> int:
    return (there > here) - (there < here)


def _values(
    model: Any, counters: Sequence[Counter], before: Mapping[Counter, Any], cap: Mapping[Counter, Any]
) -> dict[str, int]:
    return dict(_shown(model, counters, before, cap))


def _shown(
    model: Any, counters: Sequence[Counter], before: Mapping[Counter, Any], cap: Mapping[Counter, Any]
) -> Iterator[tuple[str, int]]:
    for each in counters:
        yield each.name, int(model.eval(before[each], model_completion=True).as_long())
        yield f"{each.name}'s cap", int(model.eval(cap[each], model_completion=True).as_long())
