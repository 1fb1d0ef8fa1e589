"""Every loop is counted: the proof from the page alone, for every value of the caps.

Take a part of the graph in which each place can be reached from each other, so that all its loops are in it. A row of
it that spends what no row of it refills can fire only as often as the cap says, so a turn that stays in that part
for ever fires it only so often. Leave these rows out, and look at the parts that remain, until no loop remains.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

import attrs
from attrs import frozen

from fsm_loop.config import LoopConfig
from fsm_loop.core.counters import Counter
from fsm_loop.core.effects import RunTool
from fsm_loop.core.events import PortEvent, ToolReturned
from fsm_loop.core.machine import PAGE
from fsm_loop.core.rows import Page, Row
from fsm_loop.prove.places import Edge, Place, asks, edges_of, is_a_word

PENDING = "each return leaves one tool call fewer to wait for, and no row of the loop runs another"
WORD = "a word of the user or of the host brings it about, and words are not the loop's to make"


_PENDING = Counter("pending", "tool calls that are waited for", 0)


@frozen
class Exempt:
    """Rows that are in a loop and need spend nothing, with the reason."""

    rows: tuple[str, ...]
    why: str


@frozen
class Part:
    """A part of the graph whose loops are paid for, and the parts that remain without the rows that pay.

    `spends` are the counters that no row of the part refills, and `pays` the rows that spend them. A part that spends
    nothing is `exempt`, or else is not counted: then `loop` is a way round that can be gone for ever, row by row.
    """

    depth: int
    places: tuple[Place, ...]
    rows: tuple[str, ...]
    spends: tuple[Counter, ...] = ()
    pays: tuple[str, ...] = ()
    exempt: Exempt | None = None
    loop: tuple[Edge, ...] = ()

    @property
    def states(self) -> tuple[str, ...]:
        """The states that the part goes through, in order of name."""
        return tuple(sorted({place.state.name.lower() for place in self.places}))


@frozen
class Certificate:
    """How the loops of a page come apart; `ranks` are its counters, those that pay before those that they refill."""

    ranks: tuple[Counter, ...]
    without: tuple[Counter, ...]
    parts: tuple[Part, ...]
    exempt: tuple[Exempt, ...]

    @property
    def terminates(self) -> bool:
        """Whether every loop is counted, or exempt for a reason."""
        return not self.loops

    @property
    def loops(self) -> tuple[tuple[Edge, ...], ...]:
        """The loops that are not counted."""
        return tuple(part.loop for part in self.parts if part.loop)

    def plain(self) -> dict[str, Any]:
        """The certificate as data."""
        return {
            "terminates": self.terminates,
            "ranks": [counter.name for counter in self.ranks],
            "without": [counter.name for counter in self.without],
            "parts": [_plain(part) for part in self.parts],
            "exempt": [{"rows": list(each.rows), "why": each.why} for each in self.exempt],
            "loops": [[edge.row.name for edge in loop] for loop in self.loops],
        }

    def __str__(self) -> str:
        """The certificate, to be read."""
        return "\n".join(_told(self))


def certificate(page: Page = PAGE, *, without: Collection[Counter] = ()) -> Certificate:
    """The loops of the page, taken apart by what they spend and never refill; *without* are counters left out of it.

    The page need not keep the rules that a Page is made under: what is not asked for is not taken as spent.
    """
    edges = edges_of(page)
    words = tuple(sorted({edge.row.name for edge in edges if is_a_word(edge.row) and edge.row.to is not page.done}))
    own = [edge for edge in edges if not is_a_word(edge.row)]
    parts = tuple(_apart(page, own, frozenset(without), 0))
    pending = [part.exempt for part in parts if part.exempt]
    exempt = (*pending, *([Exempt(words, WORD)] if words else []))
    return Certificate(page.counters, tuple(without), parts, exempt)


def _apart(page: Page, edges: Iterable[Edge], without: frozenset[Counter], depth: int) -> Iterator[Part]:
    for loop in components(edges):
        places = tuple(dict.fromkeys(edge.here for edge in loop))
        rows = _names(loop)
        refilled = {counter for edge in loop for counter in page.refills(edge.row)}
        spends = {spent for edge in loop if (spent := _spent(edge.row))} - refilled - without
        if spends:
            paying = [edge for edge in loop if _spent(edge.row) in spends]
            ranked = tuple(each for each in page.counters if each in spends)
            strangers = tuple(sorted(spends - set(ranked), key=lambda each: each.name))
            yield Part(depth, places, rows, ranked + strangers, _names(paying))
        else:
            paying = (
                [] if any(_runs_tools(edge.row) for edge in loop) else [e for e in loop if e.row.on is ToolReturned]
            )
            if not paying:
                yield Part(depth, places, rows, loop=_way_round(page, loop, without))
                continue
            yield Part(depth, places, rows, pays=_names(paying), exempt=Exempt(_names(paying), PENDING))
        yield from _apart(page, [edge for edge in loop if edge not in paying], without, depth + 1)


def _spent(row: Row) -> Counter | None:
    """The counter that the row spends, where its cap holds the row back."""
    counter = row.spends
    return counter if counter and counter in row.asks and not counter.measured and _has_cap(counter) else None


def _has_cap(counter: Counter) -> bool:
    """Whether the counter has a cap in every config."""
    if not isinstance(counter.cap, str):
        return True
    setting = attrs.fields_dict(LoopConfig).get(counter.cap)
    return setting is not None and not setting.metadata["allowed"].none


def _runs_tools(row: Row) -> bool:
    asked = asks(row.do)
    return asked is None or RunTool in asked


def _names(edges: Iterable[Edge]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(edge.row.name for edge in edges))


# ---------------------------------------------------------------- the graph


def components(edges: Iterable[Edge]) -> Iterator[tuple[Edge, ...]]:
    """The edges of each part of the graph in which each place can be reached from each other."""
    edges = tuple(edges)
    onward: dict[Place, list[Place]] = {}
    for edge in edges:
        onward.setdefault(edge.here, []).append(edge.there)
    reach = {place: _reached(place, onward) for place in onward}
    told: set[Place] = set()
    for place in onward:
        if place in told or place not in reach[place]:
            continue
        inside = {other for other in reach[place] if place in reach.get(other, ())}
        told |= inside
        yield tuple(edge for edge in edges if edge.here in inside and edge.there in inside)


def _reached(start: Place, onward: dict[Place, list[Place]]) -> set[Place]:
    seen: set[Place] = set()
    frontier = [start]
    while frontier:
        for there in onward.get(frontier.pop(), ()):
            if there not in seen:
                seen.add(there)
                frontier.append(there)
    return seen


def way(edges: Iterable[Edge], start: Place, goal: Place) -> tuple[Edge, ...]:
    """A shortest way from one place to another by these edges, among which there must be one."""
    edges = tuple(edges)
    come: dict[Place, tuple[Edge, ...]] = {start: ()}
    frontier = [start]
    while goal not in come:
        following = [edge for here in frontier for edge in edges if edge.here == here and edge.there not in come]
        assert following, f"no way from {start} to {goal}"
        frontier = []
        for edge in following:
            if edge.there not in come:
                come[edge.there] = (*come[edge.here], edge)
                frontier.append(edge.there)
    return come[goal]


def _way_round(page: Page, edges: tuple[Edge, ...], without: Collection[Counter]) -> tuple[Edge, ...]:
    """A way round that refills all that it spends: the shortest single round there is, or rounds tied together."""
    rounds = sorted(((edge, *way(edges, edge.there, edge.here)) for edge in edges), key=len)
    for each in rounds:
        if not _unpaid(page, each, without):
            return each
    walk = rounds[0]
    while missing := _unpaid(page, walk, without):
        refill = next(edge for edge in edges if missing[0] in _refills(page, edge.row))
        home = walk[0].here
        walk = (*walk, *way(edges, home, refill.here), refill, *way(edges, refill.there, home))
    return walk


def _unpaid(page: Page, walk: tuple[Edge, ...], without: Collection[Counter]) -> list[Counter]:
    """The counters that the walk spends and does not refill; the tool calls that are waited for are one of them."""
    spends = {spent for edge in walk if (spent := _spent(edge.row))} - set(without)
    spends |= {_PENDING for edge in walk if edge.row.on is ToolReturned}
    return sorted(spends - {each for edge in walk for each in _refills(page, edge.row)}, key=lambda each: each.name)


def _refills(page: Page, row: Row) -> tuple[Counter, ...]:
    return (*page.refills(row), *([_PENDING] if _runs_tools(row) else []))


# ---------------------------------------------------------------- to be read


def _plain(part: Part) -> dict[str, Any]:
    return {
        "depth": part.depth,
        "states": list(part.states),
        "places": [str(place) for place in part.places],
        "spends": [counter.name for counter in part.spends],
        "pays": list(part.pays),
        "exempt": part.exempt.why if part.exempt else None,
        "loop": [edge.row.name for edge in part.loop],
    }


def _told(certified: Certificate) -> Iterator[str]:
    besides = f", even without {', '.join(each.name for each in certified.without)}" if certified.without else ""
    if certified.terminates:
        yield f"Every loop is counted{besides}: between two words of the user, every turn ends, whatever the caps are."
    else:
        unsaid = f" (without {', '.join(each.name for each in certified.without)})" if certified.without else ""
        yield f"A turn may go on for ever{unsaid}: {len(certified.loops)} of its loops are not counted."
    for part in certified.parts:
        yield from _told_of(part)
    for each in certified.exempt:
        if each.why is WORD:
            kinds = sorted({row.partition(".")[2] for row in each.rows})
            yield f"  left out, for {WORD}: {', '.join(kinds)}"


def _told_of(part: Part) -> Iterator[str]:
    margin = "  " * (part.depth + 1)
    rows = f"{len(part.rows)} row" + ("s" if len(part.rows) > 1 else "")
    where = f"{', '.join(part.states)} ({rows})"
    if part.spends:
        spends = ", ".join(each.name for each in part.spends)
        yield f"{margin}{where}: spends {spends}; no row of it refills {'it' if len(part.spends) == 1 else 'them'}"
    elif part.exempt:
        yield f"{margin}{where}: spends nothing, for {part.exempt.why}"
    else:
        yield f"{margin}{where}: NOT COUNTED; this can be gone round for ever:"
        yield from (f"{margin}  {_told_step(edge)}" for edge in part.loop)


def _told_step(edge: Edge) -> str:
    spends = f", spends {edge.row.spends.name}" if edge.row.spends else ""
    who = "" if issubclass(edge.row.on, PortEvent) else " (a wish of the host)"
    return f"{edge.row.name} -> {edge.there.state.name.lower()}{spends}{who}"
