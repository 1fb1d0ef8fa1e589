"""What a page is made of: lines, the rows they stand for, and the rules that a page must keep.

A line may begin in several states; a row begins in one, and has a name made of its cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, TypeVar

from attrs import field, frozen

from fsm_loop.core.counters import Counter, Occasion, refilled
from fsm_loop.core.ends import Did
from fsm_loop.core.events import Event, InterruptAsked, PortEvent, name_of
from fsm_loop.core.guards import Left
from fsm_loop.core.record import Record
from fsm_loop.errors import PageError

E = TypeVar("E", bound=Event)
Guard = Callable[[Record, Any], bool]
Action = Callable[[Record, Any], Did]


@frozen
class Row:
    """In this state, on this event, when these guards hold: count, go there, do that."""

    source: Enum
    on: type[Event]
    when: tuple[Guard, ...]
    to: Enum
    do: Action
    spends: Counter | None = None
    brings: tuple[Occasion, ...] = ()
    name: str = field(init=False)

    @name.default
    def _named(self) -> str:
        asked = "+".join(name_of_guard(guard) for guard in self.when)
        return ".".join(part for part in (self.source.name.lower(), name_of(self.on), asked) if part)

    @property
    def trigger(self) -> str:
        """The name of the event that this row waits for."""
        return name_of(self.on)

    @property
    def asks(self) -> tuple[Counter, ...]:
        """The counters that must have one left for this row to fire."""
        return tuple(counter for guard in self.when if isinstance(guard, Left) for counter in guard.counters)


@frozen
class Line:
    """One line of the page: a row for each of its states."""

    sources: tuple[Enum, ...]
    on: type[Event]
    when: tuple[Guard, ...]
    to: Enum | None
    do: Action
    spends: Counter | None
    brings: tuple[Occasion, ...]

    def rows(self) -> Iterator[Row]:
        """The rows that this line stands for."""
        for source in self.sources:
            yield Row(source, self.on, self.when, self.to or source, self.do, self.spends, self.brings)


def line(  # a line of the page has these cells
    source: Enum | tuple[Enum, ...],
    on: type[E],
    when: Sequence[Callable[[Record, E], bool]],
    to: Enum | None,
    do: Callable[[Record, E], Did],
    spends: Counter | None = None,
    brings: tuple[Occasion, ...] = (),
) -> Line:
    """A line of the page; *to* None stays in the state. The types see that guards and action can read the event."""
    sources = source if isinstance(source, tuple) else (source,)
    return Line(sources, on, tuple(when), to, do, spends, brings)


@frozen(eq=False)
class Page:
    """A machine, whole: its states, its lines in their order, its counters in the order of their ranks.

    `version` is what its maker calls it, for whoever reads a trail years later.

    Raises PageError where a rule is broken; the text names the row and the rule.
    """

    states: tuple[Enum, ...]
    start: Enum
    done: Enum
    lines: tuple[Line, ...]
    counters: tuple[Counter, ...]
    version: str = ""
    rows: tuple[Row, ...] = field(init=False)

    @rows.default
    def _rows(self) -> tuple[Row, ...]:
        return tuple(row for each in self.lines for row in each.rows())

    def __attrs_post_init__(self) -> None:
        """A page that breaks a rule is never made."""
        for problem in problems(self):
            raise PageError(problem)

    def groups(self) -> dict[tuple[Enum, type[Event]], list[Row]]:
        """The rows of each state and event, in their order."""
        groups: dict[tuple[Enum, type[Event]], list[Row]] = {}
        for row in self.rows:
            groups.setdefault((row.source, row.on), []).append(row)
        return groups

    def refills(self, row: Row) -> tuple[Counter, ...]:
        """The counters that this row refills."""
        return refilled(self.counters, row.brings)


def name_of_guard(guard: Guard) -> str:
    """The guard as rows, trails and diagrams write it."""
    return str(getattr(guard, "__name__", guard))


# ---------------------------------------------------------------- the rules


def problems(page: Page) -> Iterator[str]:
    """Every rule that the page breaks, a sentence each."""
    for rule in (_duplicates, _otherwise, _left_last, _counters, _payment, _owners, _reach, _interrupts, _the_end):
        yield from rule(page)


def _duplicates(page: Page) -> Iterator[str]:
    seen: set[str] = set()
    for row in page.rows:
        if row.name in seen:
            yield f"{row.name}: stands twice on the page; the second would never fire"
        seen.add(row.name)


def _otherwise(page: Page) -> Iterator[str]:
    for rows in page.groups().values():
        for row in rows[:-1]:
            if not row.when:
                yield f"{row.name}: has no guard, so the rows after it would never fire; put it last"
        if rows[-1].when:
            yield f"{rows[-1].name}: is the last of its group and has a guard; add a row without one, for otherwise"


def _left_last(page: Page) -> Iterator[str]:
    for row in page.rows:
        kinds = [isinstance(guard, Left) for guard in row.when]
        if kinds != sorted(kinds):
            yield f"{row.name}: left(...) must stand behind the other guards, so that a miss names the counter"


def _counters(page: Page) -> Iterator[str]:
    known = set(page.counters)
    for row in page.rows:
        for counter in {*row.asks, *([row.spends] if row.spends else [])} - known:
            yield f"{row.name}: counter {counter.name} is not one of the page's counters"
        if row.spends and row.spends not in row.asks:
            yield f"{row.name}: spends {row.spends.name} without asking left({row.spends.name})"
        if row.spends and row.spends.measured:
            yield f"{row.name}: spends {row.spends.name}, which is measured and not spent"
    spent = {row.spends for row in page.rows}
    asked = {counter for row in page.rows for counter in row.asks}
    for counter in page.counters:
        if counter not in (asked if counter.measured else spent):
            yield f"counter {counter.name}: no row {'asks for' if counter.measured else 'spends'} it"


def _payment(page: Page) -> Iterator[str]:
    rank = {counter: place for place, counter in enumerate(page.counters)}
    for row in page.rows:
        if Occasion.WORD in row.brings:
            continue  # a word of the user pays for what it refills, and words are not the loop's to make
        for counter in page.refills(row):
            if row.spends is None or rank.get(row.spends, len(rank)) >= rank[counter]:
                yield f"{row.name}: refills {counter.name} and spends nothing that stands above it"


def _owners(page: Page) -> Iterator[str]:
    for row in page.rows:
        if row.spends and row.spends.by_host == issubclass(row.on, PortEvent):
            whose = "the host's" if row.spends.by_host else "the loop's"
            yield f"{row.name}: spends {row.spends.name}, which is {whose}"


def _reach(page: Page) -> Iterator[str]:
    reached, frontier = {page.start}, [page.start]
    while frontier:
        here = frontier.pop()
        onward = {row.to for row in page.rows if row.source is here} - reached
        reached |= onward
        frontier.extend(onward)
    for state in page.states:
        if state not in reached:
            yield f"state {state.name.lower()}: cannot be reached from {page.start.name.lower()}"
    for state in {each for row in page.rows for each in (row.source, row.to)} - set(page.states):
        yield f"state {state.name.lower()}: stands in a row and is not one of the page's states"


def _interrupts(page: Page) -> Iterator[str]:
    groups = page.groups()
    for state in _others(page):
        rows = groups.get((state, InterruptAsked), [])
        if not rows or rows[0].when or rows[0].to is not page.done:
            yield f"state {state.name.lower()}: an interrupt does not always end it"


def _the_end(page: Page) -> Iterator[str]:
    for row in page.rows:
        if row.source is page.done and (row.to is not page.done or row.spends or row.brings):
            yield f"{row.name}: leaves the end, or counts after it"


def _others(page: Page) -> Iterable[Enum]:
    return (state for state in page.states if state is not page.done)
