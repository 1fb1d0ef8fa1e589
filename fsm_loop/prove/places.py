"""The page as a graph of places, to ask of it what no single row can tell.

A place is a state together with what the turn waits for in it: grace, for one, waits for a slot, then for a sign of
life, then for the rest, and its rows on these follow each other and are no loops. What a row asks for is read in the
code of its action; which events answer is what the drivers promise (effects.py). Two things are taken as given: an
action that can ask for something does so each time, and each effect is answered once, but for a call that first says
that it lives, and tools, of which each answers for itself.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterator
from enum import Enum
from functools import cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

from attrs import frozen

from fsm_loop.core import events
from fsm_loop.core.counters import Occasion
from fsm_loop.core.effects import CallModel, Effect, JudgeCut, Repair, ReserveSlot, RunTool, SetTimer, SwitchProvider
from fsm_loop.core.events import Event, PortEvent, StreamStarted, ToolReturned
from fsm_loop.core.guards import steer_waiting
from fsm_loop.core.rows import Page, Row

Waits = frozenset[type[Event]]

NOTHING: Waits = frozenset()
THE_REST: Waits = frozenset({events.ModelReplied, events.ModelFailed, events.StreamDropped, events.StreamStalled})
ANSWERS: dict[type[Effect], Waits] = {
    ReserveSlot: frozenset({events.SlotGranted, events.SlotRefused}),
    CallModel: THE_REST | {StreamStarted},
    JudgeCut: frozenset({events.CutJudged}),
    RunTool: frozenset({ToolReturned}),
    SetTimer: frozenset({events.TimerFired}),
    Repair: frozenset({events.RequestRepaired}),
    SwitchProvider: frozenset({events.ProviderReady, events.ProviderFailed}),
}
# What is still to come once an answer has come, and nothing new was asked for.
STILL: dict[type[Event], Waits] = {StreamStarted: THE_REST, ToolReturned: frozenset({ToolReturned})}


@frozen
class Place:
    """A state, and the answers that may come in it."""

    state: Enum
    waits: Waits

    def __str__(self) -> str:
        """Read as a sentence begins: in this state, for these answers."""
        return f"{self.state.name.lower()} for {'/'.join(sorted(map(events.name_of, self.waits))) or 'nothing'}"


@frozen
class Edge:
    """A row, from a place to a place."""

    here: Place
    row: Row
    there: Place


def edges_of(page: Page) -> tuple[Edge, ...]:
    """Every row from every place that the turn can be in, the words of the user among them."""
    first = Place(page.start, NOTHING)
    seen, frontier, edges = {first}, [first], []
    while frontier:
        here = frontier.pop()
        for row in page.rows:
            if row.source is here.state and (not issubclass(row.on, PortEvent) or row.on in here.waits):
                there = Place(row.to, _waits_after(page, row, here.waits))
                edges.append(Edge(here, row, there))
                if there not in seen:
                    seen.add(there)
                    frontier.append(there)
    return tuple(edges)


def _waits_after(page: Page, row: Row, waits: Waits) -> Waits:
    """The answers to what the row asks for; where it asks for nothing, what is still to come."""
    if row.to is page.done:
        return NOTHING
    asked = asks(row.do)
    if asked is not None:
        answers = NOTHING.union(*(ANSWERS[effect] for effect in asked))
        still = answers or (STILL.get(row.on, NOTHING) if issubclass(row.on, PortEvent) else waits)
        if still:
            return still
    # Nobody knows what it waits for, so whatever the state lists may come.
    return frozenset(other.on for other in page.rows if other.source is row.to and issubclass(other.on, PortEvent))


def is_a_word(row: Row) -> bool:
    """A word of the user or of the host brings the row about, so it is no part of a loop that the turn makes.

    A row that an answer brings about is one only where it asks whether a word of the user waits.
    """
    if issubclass(row.on, PortEvent):
        return Occasion.WORD in row.brings and steer_waiting in row.when
    return row.spends is None


# ---------------------------------------------------------------- what an action asks for


@cache
def asks(action: Callable[..., Any]) -> tuple[type[Effect], ...] | None:
    """The effects with an answer that the action's code names, its helpers' code included; None if it has no code."""
    function = action if isinstance(action, FunctionType) else vars(type(action)).get("__call__")
    if not isinstance(function, FunctionType):
        return None
    home = function.__module__.partition(".")[0]
    named: set[type[Effect]] = set()
    seen, frontier = {function}, [function]
    while frontier:
        for value in _named_by(frontier.pop()):
            if isinstance(value, type) and value in ANSWERS:
                named.add(value)
            elif isinstance(value, FunctionType) and value not in seen and _near(value, home):
                seen.add(value)
                frontier.append(value)
    return tuple(effect for effect in ANSWERS if effect in named)


def _near(function: FunctionType, home: str) -> bool:
    return function.__module__.partition(".")[0] in (home, "fsm_loop")


def _named_by(function: FunctionType) -> Iterator[Any]:
    """What the names in a function stand for: globals, what modules among them hold, what it closes over."""
    names, parts = set[str](), set[str]()
    for instruction in _instructions(function.__code__):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            names.add(instruction.argval)
        elif instruction.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            parts.add(instruction.argval)
    for value in (function.__globals__[name] for name in names if name in function.__globals__):
        yield value
        if isinstance(value, ModuleType):
            yield from (getattr(value, part) for part in parts if hasattr(value, part))
    for cell in function.__closure__ or ():
        yield cell.cell_contents


def _instructions(code: CodeType) -> Iterator[dis.Instruction]:
    yield from dis.get_instructions(code)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _instructions(inner)
