"""What a picture of a page shows: states, arrows with their labels, and notes. Each format draws the same.

A view chooses the rows; `overview` leaves out what would hide the rest. Words that are heard everywhere (the interrupt
first of all) stand in a note, and so does a state that answers all that another one answers: the arrows are drawn from
the other one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType

from attrs import frozen

from fsm_loop.errors import FsmLoopError
from fsm_loop.export.model import Outline, Row, State

_MOST_COUNTERS = 3
_NOT_IN_AN_ID = re.compile(r"[^\w.-]")


class View(StrEnum):
    """Which rows a picture shows."""

    OVERVIEW = "overview"
    FULL = "full"
    RETRIES = "retries"
    TRUNCATION = "truncation"
    TOOLS = "tools"
    ENDING = "ending"


class Way(StrEnum):
    """What an arrow is to a turn; each has its colour and its line."""

    STRAIGHT = "the straight way to an answer"
    DETOUR = "a detour: something is tried again, mended or asked on"
    END = "an end without an answer, or with half of one"
    WORD = "a word of the user or the host"


class ViewError(FsmLoopError):
    """No row of the page belongs to the view."""


@frozen
class Arrow:
    """One arrow, for one row or several; each of *label* is a line. The same rows always have the same `id`.

    `share` is that of the turns that took it, where turns are laid over the picture; None where none are.
    """

    id: str
    source: str
    target: str
    way: Way
    label: tuple[str, ...]
    rows: tuple[Row, ...]
    share: float | None = None


@frozen
class Drawing:
    """A picture in words: all that each format needs. `notes` are whole sentences, `under` a line for a state."""

    title: str
    states: tuple[State, ...]
    arrows: tuple[Arrow, ...]
    notes: tuple[str, ...] = ()
    under: Mapping[str, str] = MappingProxyType({})


def drawing(outline: Outline, view: View = View.OVERVIEW) -> Drawing:
    """The picture of this view. Raises ViewError where no row of the page belongs to it."""
    if view is View.OVERVIEW:
        return _overview(outline)
    if view is View.FULL:
        ways = _ways(outline)
        arrows = [_arrow(ways, [row], (label(row),), f"row-{row_id(row.name)}") for row in outline.rows]
        return Drawing("An agent's turn, row by row", outline.states, tuple(arrows))
    return _part(outline, view)


def row_id(name: str) -> str:
    """The name of a row as an identifier of a page or a picture."""
    return _NOT_IN_AN_ID.sub("-", name)


def label(row: Row) -> str:
    """All of a row, on one line: the event, the guards, the action and what is spent."""
    asked = f" [{', '.join(guard.name for guard in row.guards)}]" if row.guards else ""
    return f"{row.event}{asked} / {row.action}{_spent(row)}"


def _spent(row: Row) -> str:
    return f" ({row.spends})" if row.spends else ""


def arrow_of(outline: Outline, rows: Sequence[Row], lines: tuple[str, ...]) -> Arrow:
    """One arrow for these rows, which lead from one state to another."""
    return _arrow(_ways(outline), rows, lines)


def _arrow(ways: Mapping[str, Way], rows: Sequence[Row], lines: tuple[str, ...], name: str = "") -> Arrow:
    first = rows[0]
    taken = {ways[row.name] for row in rows}
    way = next(each for each in Way if each in taken)  # the best of them, so that the straight way is never broken
    name = name or f"rows-{first.source}-{first.target}"
    return Arrow(name, first.source, first.target, way, lines, tuple(rows))


# ---------------------------------------------------------------- what an arrow is to a turn


def _ways(outline: Outline) -> Mapping[str, Way]:
    """The kind of each row, by its name, told from the page alone."""
    straight = _straight(outline)
    words = {event.name for event in outline.events if event.word}
    start, done = _start(outline), _done(outline)

    def way(row: Row) -> Way:
        if row.event in words and not row.source == start != row.target:  # but for the word that begins the turn
            return Way.WORD
        if row.name in straight:
            return Way.STRAIGHT
        return Way.END if row.target == done else Way.DETOUR

    return {row.name: way(row) for row in outline.rows}


def _straight(outline: Outline) -> frozenset[str]:
    """The rows on some way from the start to a completed end on which nothing fails and nothing is tried again.

    What is tried again is counted, and the count begins anew when it went well: so a row that spends a counter with
    a refill is none of these.
    """
    refilled = {counter.name for counter in outline.counters if counter.refilled_by}
    failures = {event.name for event in outline.events if event.kind}
    start, done = _start(outline), _done(outline)
    smooth = [
        row
        for row in outline.rows
        if row.event not in failures
        and row.spends not in refilled
        and (row.target != done or row.action == "completed")
    ]
    onward = _reached(start, [(row.source, row.target) for row in smooth])
    back = _reached(done, [(row.target, row.source) for row in smooth])
    return frozenset(row.name for row in smooth if row.source in onward & back and row.target in onward & back)


def _reached(begin: str, pairs: Sequence[tuple[str, str]]) -> set[str]:
    reached, fresh = {begin}, [begin]
    while fresh:
        here = fresh.pop()
        more = {target for source, target in pairs if source == here} - reached
        reached |= more
        fresh += more
    return reached


def _start(outline: Outline) -> str:
    return next(state.name for state in outline.states if state.start)


def _done(outline: Outline) -> str:
    return next(state.name for state in outline.states if state.done)


# ---------------------------------------------------------------- a part of the page


def _touches(*states: str) -> Callable[[Row], bool]:
    return lambda row: row.source in states or row.target in states


def _spends(*counters: str) -> Callable[[Row], bool]:
    return lambda row: row.spends in counters


_WAITS = _touches("backoff", "recovering", "repairing", "fallback")
_PARTS: dict[View, tuple[str, tuple[Callable[[Row], bool], ...]]] = {
    View.RETRIES: ("How a turn tries again", (_WAITS, _spends("stream_retries", "api_retries"))),
    View.TRUNCATION: ("How a cut reply goes on", (_touches("truncated"),)),
    View.TOOLS: ("How tools are run", (_touches("tool_exec"), _spends("iterations", "bad_tool_rounds"))),
    View.ENDING: ("How a turn ends", (_touches("done", "grace"),)),
}


def _part(outline: Outline, view: View) -> Drawing:
    """Some rows of the page, each on a line; those of a way between the same two states share an arrow."""
    title, tests = _PARTS[view]
    alike, ways = _alike(outline), _ways(outline)
    chosen: dict[str, list[Row]] = {}
    for (source, target), rows in _merged(outline, alike).items():
        for row in rows:
            if any(test(row) for test in tests):
                chosen.setdefault(f"rows-{source}-{target}-{ways[row.name].name.lower()}", []).append(row)
    arrows = [
        _arrow(ways, rows, tuple(dict.fromkeys(_short(outline, row) for row in rows)), name)
        for name, rows in chosen.items()
    ]
    if not arrows:
        raise ViewError(f"no row of this page belongs to the view {view}; choose overview or full")
    named = {state for arrow in arrows for state in (arrow.source, arrow.target)}
    states = tuple(state for state in outline.states if state.name in named)
    twins = tuple(_twin(state, other) for state, other in alike.items() if other in named)
    return Drawing(title, states, tuple(arrows), (*twins, *_words(outline)))


def _short(outline: Outline, row: Row) -> str:
    """A row on a line: the event, the guards without those that ask for what is spent, what is spent, how it ends."""
    asked = ", ".join(guard.name for guard in row.guards if guard.name != f"{row.spends}_left")
    end = f" / {row.action}" if row.target == _done(outline) else ""
    return f"{row.event}{f' [{asked}]' if asked else ''}{end}{_spent(row)}"


# ---------------------------------------------------------------- the overview


def _overview(outline: Outline) -> Drawing:
    """One arrow from a state to another, with the events and what is spent on the way."""
    alike = _alike(outline)
    merged = _merged(outline, alike)
    ways = _ways(outline)
    arrows = tuple(_arrow(ways, rows, tuple(_summary(outline, rows))) for rows in merged.values())
    twins = tuple(_twin(state, other) for state, other in alike.items())
    return Drawing("An agent's turn", outline.states, arrows, (*twins, *_kinds(outline), *_words(outline)))


def _alike(outline: Outline) -> dict[str, str]:
    """The states that answer all that another one answers, each with that other one."""
    lines = {state: {row.line for row in _answers(outline, state)} for state in outline.alive}
    alike: dict[str, str] = {}
    for place, state in enumerate(outline.alive):
        for at, other in enumerate(outline.alive):
            shares = lines[other] and lines[other] <= lines[state] and (lines[other] != lines[state] or place < at)
            if place != at and shares and other not in alike:
                alike.setdefault(state, other)
    return alike


def _answers(outline: Outline, state: str) -> tuple[Row, ...]:
    """The rows of a state, without those for words that are heard everywhere."""
    return tuple(row for row in outline.rows_of(state) if row.event not in outline.anywhere)


def _merged(outline: Outline, alike: dict[str, str]) -> dict[tuple[str, str], list[Row]]:
    """The rows to draw, by where they lead from and to; one that stays and counts nothing is not drawn."""
    drawn: dict[tuple[str, str], list[Row]] = {}
    elsewhere = {state: {row.line for row in outline.rows_of(other)} for state, other in alike.items()}
    for row in outline.rows:
        heard = row.event not in outline.anywhere and row.source in outline.alive
        idle = row.source == row.target and not row.spends
        if heard and not idle and row.line not in elsewhere.get(row.source, ()):
            drawn.setdefault((row.source, row.target), []).append(row)
    return drawn


def _summary(outline: Outline, rows: Sequence[Row]) -> Iterable[str]:
    """The events of an arrow and what each spends; those that spend the same stand together."""
    for counters, events in _by_counters(rows).items():
        yield ", ".join(_by_kind(outline, rows[0].source, events))
        if counters:
            few = len(counters) <= _MOST_COUNTERS
            yield f"({', '.join(counters)})" if few else f"({len(counters)} counters)"


def _by_counters(rows: Sequence[Row]) -> dict[tuple[str, ...], list[str]]:
    """The events of these rows, by all the counters that a row for one of them may spend."""
    spent: dict[str, dict[str, None]] = {}
    for row in rows:
        spent.setdefault(row.event, {}).update({row.spends: None} if row.spends else {})
    events: dict[tuple[str, ...], list[str]] = {}
    for event, counters in spent.items():
        events.setdefault(tuple(counters), []).append(event)
    return events


def _by_kind(outline: Outline, state: str, events: Sequence[str]) -> list[str]:
    """The events, those of a kind under one name where all of that kind that the state awaits are there."""
    kinds = {event.name: event.kind for event in outline.events if event.kind}
    families: dict[str, set[str]] = {}
    for row in outline.rows_of(state):
        if row.event in kinds:
            families.setdefault(kinds[row.event], set()).add(row.event)
    whole = {kind for kind, family in families.items() if len(family) > 1 and family <= set(events)}
    return list(dict.fromkeys(kinds[event] if kinds.get(event) in whole else event for event in events))


# ---------------------------------------------------------------- what is true of many states


def _twin(state: str, other: str) -> str:
    return f"{state} answers all that {other} answers, in the same way."


def _kinds(outline: Outline) -> Iterable[str]:
    """What a kind of events stands for."""
    kinds: dict[str, list[str]] = {}
    for event in outline.events:
        if event.kind:
            kinds.setdefault(event.kind, []).append(event.name)
    for kind, events in kinds.items():
        if len(events) > 1:
            yield f"{kind}: each of {', '.join(events)} that the state awaits"


def _words(outline: Outline) -> Iterable[str]:
    """Where the words lead that are heard in every state of a turn that goes on."""
    if outline.anywhere:
        yield f"In every state but {_done(outline)}:"
    for word in outline.anywhere:
        yield f"{word}: {_outcomes(outline, word)}"


def _outcomes(outline: Outline, word: str) -> str:
    """Where a word leads from the states of a turn that goes on."""
    rows = [row for row in outline.rows if row.event == word and row.source in outline.alive]
    ways = ["kept" if not row.moves else f"to {row.target}{_spent(row)}" for row in rows]
    return ", or ".join(dict.fromkeys(ways))
