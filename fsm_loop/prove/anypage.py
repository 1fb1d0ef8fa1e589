"""What a turn can come to on any page, from the page alone: how often each row can fire, at most.

A counter is spent its cap, and its cap again each time that it is refilled, and each refill is paid for by a counter
that stands above it. A row in no loop fires once. A row in a loop that spends nothing fires at most once between two
rows of that loop that spend. What is added up is the heaviest way through the parts that the loops make of the page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from fsm_loop.config import LoopConfig
from fsm_loop.core.counters import Counter, Occasion
from fsm_loop.core.effects import CallModel, Effect, RunTool
from fsm_loop.core.events import ToolReturned, TurnStarted
from fsm_loop.core.rows import Page, Row
from fsm_loop.prove.loops import components
from fsm_loop.prove.places import Edge, Place, asks, edges_of, is_a_word


def most_spent(page: Page, config: LoopConfig, chain: int) -> dict[Counter, float]:
    """How often each counter of the page can be spent in one turn, at most; measured ones are left out."""
    spent: dict[Counter, float] = {}
    for counter in page.counters:
        if counter.measured:
            continue
        cap = counter.limit(config, chain)
        payers = {row.spends for row in page.rows if row.spends and _refills(page, row, counter)}
        spent[counter] = float("inf") if cap is None else cap * (1 + sum(spent[each] for each in payers))
    return spent


def _refills(page: Page, row: Row, counter: Counter) -> bool:
    return counter in page.refills(row) and Occasion.WORD not in row.brings


def most_calls_on(page: Page, config: LoopConfig, chain: int) -> float:
    """The most model calls of one turn on this page."""
    return _heaviest(page, most_spent(page, config, chain), _asks_for(CallModel))


def most_tool_rounds_on(page: Page, config: LoopConfig, chain: int) -> float:
    """The most rounds of tools of one turn on this page."""
    return _heaviest(page, most_spent(page, config, chain), _asks_for(RunTool))


def _asks_for(effect: type[Effect]) -> Callable[[Row], bool]:
    def asked(row: Row) -> bool:
        known = asks(row.do)
        return known is None or effect in known  # what cannot be read may ask for anything

    return asked


def _heaviest(page: Page, spent: Mapping[Counter, float], counts: Callable[[Row], bool]) -> float:
    edges = [edge for edge in edges_of(page) if edge.row.on is TurnStarted or not is_a_word(edge.row)]
    loops = list(components(edges))
    part = {place: number for number, loop in enumerate(loops) for edge in loop for place in (edge.here, edge.there)}
    inside = {number: _in_loop(loop, spent, counts) for number, loop in enumerate(loops)}
    onward: dict[object, list[tuple[object, float]]] = {}
    for edge in edges:
        here, there = part.get(edge.here, edge.here), part.get(edge.there, edge.there)
        if here != there:
            onward.setdefault(here, []).append((there, float(counts(edge.row))))
    heaviest: dict[object, float] = {}

    def most(at: object) -> float:
        if at not in heaviest:
            further = max((weight + most(there) for there, weight in onward.get(at, ())), default=0.0)
            heaviest[at] = further + (inside[at] if isinstance(at, int) else 0.0)
        return heaviest[at]

    start = Place(page.start, frozenset())
    return most(part.get(start, start))


def _in_loop(loop: Iterable[Edge], spent: Mapping[Counter, float], counts: Callable[[Row], bool]) -> float:
    """How often the rows that count can fire while the turn stays in this part."""
    rows = {edge.row.name: edge.row for edge in loop}.values()
    paid = {row.spends for row in rows if row.spends and counts(row)}
    unpaid = [edge for edge in loop if not edge.row.spends and counts(edge.row) and edge.row.on is not ToolReturned]
    stretches = 1 + sum(spent[each] for each in {row.spends for row in rows if row.spends})
    return sum(spent[each] for each in paid) + len(unpaid) * stretches
