"""The outline of a page: states, events, rows and counters as plain words, in the order of the page.

Exporters read this and nothing else, so a user's own page is drawn and written like ours. An outline holds text and
truth values alone; what a name means is the sentence beside it, taken from the docstring of the thing itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from inspect import getdoc

from attrs import frozen

from fsm_loop import config
from fsm_loop.core import counters, events, rows
from fsm_loop.core.machine import PAGE
from fsm_loop.core.rows import Page


@frozen
class State:
    """What a turn waits for; the sentence finishes "it waits for ..."."""

    name: str
    sentence: str
    start: bool
    done: bool


@frozen
class Event:
    """Something that happened; a `word` is the user's or the host's, any other answers an effect.

    `kind` is what it is one of (`call_failed`, of which there are several); empty where it stands alone.
    """

    name: str
    sentence: str
    word: bool
    kind: str


@frozen
class Guard:
    """A question that a row asks; the sentence finishes "it holds when ..."."""

    name: str
    sentence: str


@frozen
class Row:
    """One row: where, on what, when, where to, what is done, what is counted.

    `line` is the line of the page that the row comes from, the first being 0: a line that begins in several states
    stands for a row in each. `moves` is false where the page leaves the turn in its state whatever that state is.
    """

    name: str
    line: int
    source: str
    event: str
    guards: tuple[Guard, ...]
    target: str
    moves: bool
    action: str
    sentence: str
    spends: str | None
    refills: tuple[str, ...]


@frozen
class Counter:
    """One counter: what it counts, where its cap is set, which rows spend and refill it.

    `rank` is its place in the list of ranks, the highest being 1. `setting` is the field of the configuration that
    holds the cap and `env` its environment variables; both are empty where the cap is not a setting. `refilled_on`
    holds occasions in words.
    """

    rank: int
    name: str
    counts: str
    cap: str
    setting: str
    env: tuple[str, ...]
    spent_by: tuple[str, ...]
    refilled_by: tuple[str, ...]
    refilled_on: tuple[str, ...]
    measured: bool
    by_host: bool


@frozen
class Setting:
    """One setting that is not a counter's cap: a delay, a timer, a size."""

    name: str
    default: str
    unit: str
    env: tuple[str, ...]
    sentence: str


@frozen
class Outline:
    """All of a page, in words."""

    states: tuple[State, ...]
    events: tuple[Event, ...]
    rows: tuple[Row, ...]
    counters: tuple[Counter, ...]
    settings: tuple[Setting, ...]

    def row(self, name: str) -> Row:
        """The row of this name."""
        return next(row for row in self.rows if row.name == name)

    def rows_of(self, state: str) -> tuple[Row, ...]:
        """The rows that begin in this state."""
        return tuple(row for row in self.rows if row.source == state)

    @property
    def alive(self) -> tuple[str, ...]:
        """The states from which a turn can go on."""
        return tuple(state.name for state in self.states if not state.done)

    @property
    def anywhere(self) -> tuple[str, ...]:
        """The words that are heard in every state but the last."""
        heard = {(row.source, row.event) for row in self.rows}
        words = (event.name for event in self.events if event.word)
        return tuple(word for word in words if all((state, word) in heard for state in self.alive))


def outline(page: Page = PAGE) -> Outline:
    """The page in words."""
    settings = config.LoopConfig.describe()
    caps = {counter.cap for counter in page.counters}
    return Outline(
        states=tuple(State(_low(each), str(each.value), each is page.start, each is page.done) for each in page.states),
        events=tuple(_event(each) for each in dict.fromkeys(line.on for line in page.lines)),
        rows=tuple(_row(page, place, line, row) for place, line in enumerate(page.lines) for row in line.rows()),
        counters=tuple(_counter(page, rank, each, settings) for rank, each in enumerate(page.counters, 1)),
        settings=tuple(
            Setting(each.name, _said(each.default), each.unit, each.env, each.sentence)
            for each in settings
            if each.name not in caps
        ),
    )


def _event(event: type[events.Event]) -> Event:
    kind = "" if event.__base__ in (events.Event, events.PortEvent, None) else events.name_of(event.__base__)
    return Event(events.name_of(event), _sentence(event), not issubclass(event, events.PortEvent), kind)


def _row(page: Page, place: int, line: rows.Line, row: rows.Row) -> Row:
    return Row(
        name=row.name,
        line=place,
        source=_low(row.source),
        event=row.trigger,
        guards=tuple(Guard(rows.name_of_guard(each), _sentence(each)) for each in row.when),
        target=_low(row.to),
        moves=line.to is not None,
        action=_name(row.do),
        sentence=_sentence(row.do),
        spends=row.spends.name if row.spends else None,
        refills=tuple(each.name for each in page.refills(row)),
    )


def _counter(page: Page, rank: int, counter: counters.Counter, settings: Iterable[config.Row]) -> Counter:
    setting = next((each for each in settings if each.name == counter.cap), None)
    return Counter(
        rank=rank,
        name=counter.name,
        counts=counter.counts,
        cap=_cap(counter, setting),
        setting=setting.name if setting else "",
        env=setting.env if setting else (),
        spent_by=tuple(row.name for row in page.rows if row.spends is counter),
        refilled_by=tuple(row.name for row in page.rows if counter in page.refills(row)),
        refilled_on=tuple(occasion.value for occasion in counter.refilled_by),
        measured=counter.measured,
        by_host=counter.by_host,
    )


def _cap(counter: counters.Counter, setting: config.Row | None) -> str:
    if counter.cap is None:
        return "length of the fallback chain"
    cap = counter.cap if setting is None else setting.default
    return "no limit" if cap is None else _said(cap)


def _low(state: Enum) -> str:
    return state.name.lower()


def _name(thing: object) -> str:
    return str(getattr(thing, "__name__", thing))


def _sentence(thing: object) -> str:
    """The first line of its docstring; where it has none, its name read aloud."""
    return (getdoc(thing) or _name(thing).replace("_", " ")).partition("\n")[0]


def _said(value: object) -> str:
    """A default as one says it."""
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return ", ".join(map(_said, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
