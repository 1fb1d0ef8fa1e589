"""One event, one decision. The only file that knows `transitions`.

`transitions` fires the row: it tries the rows of the state and event in the order of the page, and asks their
guards. What it leaves unsaid is asserted here: that a row fired, and that the state is the row's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import Any

from attrs import Factory, define, field, frozen
from transitions import EventData, Machine, MachineError, Transition

from fsm_loop.config import LoopConfig
from fsm_loop.core.counters import Counter, Counts
from fsm_loop.core.effects import Effect
from fsm_loop.core.events import Event, name_of
from fsm_loop.core.guards import Left
from fsm_loop.core.machine import PAGE
from fsm_loop.core.record import Record, begin, is_late
from fsm_loop.core.rows import Guard, Page, Row
from fsm_loop.errors import UnexpectedEvent


@frozen
class Turn:
    """Where a turn stands, and all that is known of it."""

    state: Enum
    record: Record


@frozen
class Moved:
    """A counter that moved: its value before and after, and its cap (None where there is none)."""

    counter: str
    before: float
    after: float
    cap: float | None


@frozen
class Decision:
    """What one event led to: the row that fired (None for a late event), the turn that follows, what to do.

    `answers` holds each guard that was asked, with its answer, in order.
    """

    event: Event
    before: Enum
    row: Row | None
    turn: Turn
    effects: tuple[Effect, ...] = ()
    answers: tuple[tuple[Guard, bool], ...] = ()
    moved: tuple[Moved, ...] = ()

    @property
    def late(self) -> bool:
        """Whether the event's attempt was no longer current, so that nothing changed."""
        return self.row is None

    @property
    def name(self) -> str:
        """The name of the row, or `late`."""
        return "late" if self.row is None else self.row.name


def begin_turn(config: LoopConfig, providers: tuple[str, ...] = ("model",), page: Page = PAGE) -> Turn:
    """A turn that has not begun; *providers* are names, the primary first."""
    return Turn(page.start, begin(config, providers))


def step(turn: Turn, event: Event, page: Page = PAGE) -> Decision:
    """The decision that *event* leads to. Pure: the same turn and event always give the same decision.

    Raises UnexpectedEvent where the state does not await the event; that is the driver's fault.
    """
    if is_late(turn.record, event):
        return Decision(event, turn.state, None, turn)
    known = turn.record.after(event)
    cursor = _fire(page, turn, known, event)
    row = cursor.row
    if row is None or cursor.state is not row.to:  # the page was checked, so this is a fault of ours or the engine's
        msg = f"no row fired for {name_of(type(event))} in {turn.state.name.lower()}"
        raise AssertionError(msg)
    counts, missed = _counted(known.counts, row, page), _missed(known, cursor.answers)
    if counts is not known.counts or missed != known.missed:
        known = known.but(counts=counts, missed=missed)
    record, effects = row.do(known, event)
    after = Turn(row.to, record)
    return Decision(event, turn.state, row, after, effects, tuple(cursor.answers), _moved(turn, after, page))


@define(eq=False)
class _Cursor:
    """What the engine moves: thrown away after one event, and never added to the engine."""

    state: Enum
    record: Record
    event: Event
    row: Row | None = None
    answers: list[tuple[Guard, bool]] = field(default=Factory(list))


def _fire(page: Page, turn: Turn, known: Record, event: Event) -> _Cursor:
    cursor = _Cursor(turn.state, known, event)
    trigger = _engine(page).get(type(event))
    if trigger is None:
        raise UnexpectedEvent(_not_awaited(page, turn, event))
    try:
        trigger(cursor)
    except MachineError as error:
        raise UnexpectedEvent(_not_awaited(page, turn, event)) from error
    return cursor


def _not_awaited(page: Page, turn: Turn, event: Event) -> str:
    awaited = ", ".join(sorted({row.trigger for row in page.rows if row.source is turn.state}))
    return (
        f"{name_of(type(event))} came in state {turn.state.name.lower()}, which awaits {awaited}: "
        "the driver reported something that the page does not list"
    )


class _RowTransition(Transition):
    """A row, as the engine tries it: its guards are asked in order, and if all hold the cursor moves.

    The engine's own way of doing so evaluates lists of callbacks that are empty here, and writes to its log more
    often than it decides; the choice among the rows of a state and event stays the engine's.
    """

    def __init__(self, *args: Any, row: Row, **options: Any) -> None:
        super().__init__(*args, **options)
        self.row = row

    def execute(self, event_data: EventData) -> bool:
        """Fire if every guard holds; each answer is kept."""
        cursor, row = event_data.model, self.row
        assert isinstance(cursor, _Cursor)
        record, event, answers = cursor.record, cursor.event, cursor.answers
        for guard in row.when:
            answer = guard(record, event)
            answers.append((guard, answer))
            if not answer:
                return False
        cursor.state, cursor.row = row.to, row
        return True


class _Engine(Machine):
    transition_cls = _RowTransition


@cache
def _engine(page: Page) -> Mapping[type[Event], Callable[[_Cursor], bool]]:
    """The engine of this page: for each event, what fires it. Made once, for making it costs as much as a turn."""
    machine = _Engine(
        model=None, states=list(page.states), initial=page.start, auto_transitions=False, send_event=True, queued=False
    )
    for row in page.rows:
        machine.add_transition(row.trigger, row.source, row.to, row=row)
    return {row.on: machine.events[row.trigger].trigger for row in page.rows}


def _missed(known: Record, answers: list[tuple[Guard, bool]]) -> tuple[Counter, ...]:
    """The counters that kept a row from firing: asked last in their row, they alone said no."""
    return tuple(guard.missed(known) for guard, answer in answers if not answer and isinstance(guard, Left))


def _counted(counts: Counts, row: Row, page: Page) -> Counts:
    """The counts once the row has spent and refilled."""
    refills = _refills(page)[row.name]
    if row.spends is None and not refills:
        return counts
    fresh = {name: value for name, value in counts.items() if name not in refills}
    if row.spends is not None:
        fresh[row.spends.name] = fresh.get(row.spends.name, 0) + 1
    return fresh


@cache
def _refills(page: Page) -> Mapping[str, frozenset[str]]:
    return {row.name: frozenset(counter.name for counter in page.refills(row)) for row in page.rows}


@cache
def _places(page: Page) -> Mapping[str, int]:
    return {counter.name: place for place, counter in enumerate(page.counters)}


def _moved(before: Turn, after: Turn, page: Page) -> tuple[Moved, ...]:
    """The counters that the decision moved, in the order of their ranks."""
    old, new = before.record.counts, after.record.counts
    if old is new:
        return ()
    names = [name for name in {**old, **new} if old.get(name, 0) != new.get(name, 0)]
    places = _places(page)
    return tuple(
        Moved(name, old.get(name, 0), new.get(name, 0), after.record.cap(page.counters[places[name]]))
        for name in sorted(names, key=places.__getitem__)
    )
