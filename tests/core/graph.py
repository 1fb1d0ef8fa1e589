"""The page as a graph, to ask of it what no single row can tell: whether every loop pays for what it lives on.

A place of the graph is a state together with what the turn waits for in it: grace, for one, waits for a slot, then for
a sign of life, then for the rest. Which answer an effect has is a promise of the drivers (effects.py); which effects a
row asks for is what its examples show. Between two words of the user the words are no part of a loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attrs import frozen

from fsm_loop.core.counters import Counter, Occasion
from fsm_loop.core.effects import CallModel, JudgeCut, Repair, ReserveSlot, RunTool, SetTimer, SwitchProvider
from fsm_loop.core.events import (
    CutJudged,
    InterruptAsked,
    ModelFailed,
    ModelReplied,
    PortEvent,
    ProviderFailed,
    ProviderReady,
    RebuildAsked,
    RequestRepaired,
    SlotGranted,
    SlotRefused,
    SteerGiven,
    StreamDropped,
    StreamStalled,
    StreamStarted,
    TimerFired,
    ToolReturned,
)
from fsm_loop.core.machine import State
from fsm_loop.core.rows import Page, Row

THE_REST = frozenset({ModelReplied, ModelFailed, StreamDropped, StreamStalled})
ANSWERS = {
    ReserveSlot: frozenset({SlotGranted, SlotRefused}),
    CallModel: THE_REST | {StreamStarted},
    JudgeCut: frozenset({CutJudged}),
    RunTool: frozenset({ToolReturned}),
    SetTimer: frozenset({TimerFired}),
    Repair: frozenset({RequestRepaired}),
    SwitchProvider: frozenset({ProviderReady, ProviderFailed}),
}
WORDS = (SteerGiven, InterruptAsked)

Waits = frozenset[type[PortEvent]]
Asks = dict[str, list[type]]


@frozen
class Place:
    """A state, and the answers that may come in it."""

    state: State
    waits: Waits

    def __str__(self) -> str:
        """Read as a sentence begins: in this state, for these answers."""
        return f"{self.state.name.lower()} for {'/'.join(sorted(each.__name__ for each in self.waits)) or 'nothing'}"


@frozen
class Edge:
    """A row, from a place to a place."""

    here: Place
    row: Row
    there: Place


@frozen
class Layer:
    """A component that comes apart: its places, the counters that take it apart, and the rows that are left in a loop."""

    places: frozenset[Place]
    spends: tuple[Counter, ...]
    left: tuple[Edge, ...]


def waits_after(row: Row, waits: Waits, asks: Asks) -> Waits:
    """What is waited for once the row has fired: the answers to what it asks for, or what was waited for before."""
    if row.to is State.DONE:
        return frozenset()
    answers = [ANSWERS[effect] for effect in asks[row.name] if effect in ANSWERS]
    if answers:
        return frozenset().union(*answers)
    return THE_REST if row.on is StreamStarted else waits


def edges_of(page: Page, asks: Asks) -> tuple[Edge, ...]:
    """Every row from every place that the turn can be in, the words of the user among them."""
    first = Place(page.start, frozenset())
    seen, frontier, edges = {first}, [first], []
    while frontier:
        here = frontier.pop()
        for row in page.rows:
            if row.source is here.state and (not issubclass(row.on, PortEvent) or row.on in here.waits):
                there = Place(row.to, waits_after(row, here.waits, asks))
                edges.append(Edge(here, row, there))
                if there not in seen:
                    seen.add(there)
                    frontier.append(there)
    return tuple(edges)


def is_a_word(row: Row) -> bool:
    """The user or the host pays for the row with a word, so it is no part of a loop that the turn makes."""
    unpaid = row.on is RebuildAsked and row.spends is None
    return issubclass(row.on, WORDS) or unpaid or Occasion.WORD in row.brings


def components(edges: Iterable[Edge]) -> Iterator[tuple[Edge, ...]]:
    """The edges of each strongly connected component that has a loop in it."""
    edges = tuple(edges)
    onward: dict[Place, set[Place]] = {}
    for edge in edges:
        onward.setdefault(edge.here, set()).add(edge.there)
    reach = {place: _reached(place, onward) for place in onward}
    told: set[Place] = set()
    for place in onward:
        if place in told or place not in reach[place]:
            continue
        inside = {other for other in reach[place] if place in reach.get(other, ())}
        told |= inside
        yield tuple(edge for edge in edges if edge.here in inside and edge.there in inside)


def _reached(start: Place, onward: dict[Place, set[Place]]) -> set[Place]:
    seen: set[Place] = set()
    frontier = [start]
    while frontier:
        for there in onward.get(frontier.pop(), ()):
            if there not in seen:
                seen.add(there)
                frontier.append(there)
    return seen


def certificate(page: Page, edges: Iterable[Edge], ignored: Counter | None = None) -> Iterator[Layer]:
    """The loops of these edges, taken apart by what they spend and never refill; a last layer spends nothing.

    One counter may be *ignored*, to see whether the others hold without it.
    """
    for loop in components(edges):
        refilled = {counter for edge in loop for counter in page.refills(edge.row)}
        spends = {edge.row.spends for edge in loop if edge.row.spends} - refilled - {ignored}
        places = frozenset(edge.here for edge in loop)
        left = tuple(edge for edge in loop if edge.row.spends not in spends)
        yield Layer(places, tuple(each for each in page.counters if each in spends), () if spends else loop)
        if spends:
            yield from certificate(page, left, ignored)


def told(layers: Iterable[Layer]) -> str:
    """The certificate, to be read."""
    return "\n".join(
        f"{', '.join(each.name for each in layer.spends) or 'NOTHING'}: "
        f"{', '.join(sorted({place.state.name.lower() for place in layer.places}))}"
        for layer in layers
    )
