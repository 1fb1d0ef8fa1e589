"""The page as a Mermaid state diagram: an overview to look at, and the whole of it, row by row.

The overview leaves out what would hide the rest. Words that are heard everywhere (the interrupt first of all) stand in
a note, and so does a state that answers all that another one answers: the arrows are drawn from the other one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from textwrap import wrap

from fsm_loop.export.model import Outline, Row

WRITTEN_BY = "Written by `fsm-loop export` from the page of the machine. Do not edit: change the page, then run it."
# What is drawn wider than this shrinks on the page of a repository until it cannot be read.
_OVERVIEW = ("config:", "  state:", "    nodeSpacing: 25", "    rankSpacing: 30")
_LABEL_WIDTH = 16
_MOST_COUNTERS = 3
# A label ends at a colon or a semicolon; the rest would be read as markup.
_NOT_IN_A_LABEL = re.compile(r"[^\w .,()/\[\]-]")

_Drawn = dict[tuple[str, str], list[Row]]


def overview(outline: Outline) -> str:
    """The diagram to look at: one arrow from a state to another, with the events and what is spent on the way."""
    alike = _alike(outline)
    arrows = [
        f"{source} --> {target} : {_broken(_summary(outline, rows))}"
        for (source, target), rows in _merged(outline, alike).items()
    ]
    return _diagram("An agent's turn", outline, [*arrows, *_note(outline, alike)], _OVERVIEW)


def full(outline: Outline) -> str:
    """The whole diagram: one arrow for each row, in the order of the page; rows that stay in a state share one.

    Of several arrows from a state to itself, Mermaid shows only the last.
    """
    labels: dict[tuple[str, str, str], list[str]] = {}
    for row in outline.rows:
        one = "" if row.source == row.target else row.name
        labels.setdefault((row.source, row.target, one), []).append(_label(row))
    arrows = [f"{source} --> {target} : {'<br>'.join(said)}" for (source, target, _), said in labels.items()]
    return _diagram("An agent's turn, row by row", outline, arrows)


def _diagram(title: str, outline: Outline, body: Iterable[str], config: Iterable[str] = ()) -> str:
    head = ["---", f"# {WRITTEN_BY}", f"title: {title}", *config, "---", "stateDiagram-v2"]
    begin = [f"[*] --> {state.name}" for state in outline.states if state.start]
    end = [f"{state.name} --> [*]" for state in outline.states if state.done]
    return "\n".join([*head, *(f"    {line}" for line in ["direction LR", *begin, *body, *end])]) + "\n"


def _label(row: Row) -> str:
    """All of a row, on one line: the event, the guards, the action and what is spent."""
    asked = f" [{', '.join(guard.name for guard in row.guards)}]" if row.guards else ""
    spent = f" ({row.spends})" if row.spends else ""
    return _NOT_IN_A_LABEL.sub(" ", f"{row.event}{asked} / {row.action}{spent}")


# ---------------------------------------------------------------- the overview


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


def _merged(outline: Outline, alike: dict[str, str]) -> _Drawn:
    """The rows to draw, by where they lead from and to; one that stays and counts nothing is not drawn."""
    drawn: _Drawn = {}
    elsewhere = {state: {row.line for row in outline.rows_of(other)} for state, other in alike.items()}
    for row in outline.rows:
        heard = row.event not in outline.anywhere and row.source in outline.alive
        idle = row.source == row.target and not row.spends
        if heard and not idle and row.line not in elsewhere.get(row.source, ()):
            drawn.setdefault((row.source, row.target), []).append(row)
    return drawn


def _summary(outline: Outline, rows: Sequence[Row]) -> list[str]:
    """The events of an arrow and what each spends; those that spend the same stand together."""
    parts: list[str] = []
    for counters, events in _by_counters(rows).items():
        parts.append(", ".join(_by_kind(outline, rows[0].source, events)))
        if counters:
            parts.append(f"({', '.join(counters) if len(counters) <= _MOST_COUNTERS else f'{len(counters)} counters'})")
    return parts


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


def _broken(parts: Iterable[str]) -> str:
    return "<br>".join(_NOT_IN_A_LABEL.sub(" ", line) for part in parts for line in wrap(part, _LABEL_WIDTH))


def _note(outline: Outline, alike: dict[str, str]) -> list[str]:
    """What is true of so many states that an arrow for each would hide the rest."""
    start = next(state.name for state in outline.states if state.start)
    done = next(state.name for state in outline.states if state.done)
    twins = [f"{state} answers all that {other} answers, in the same way." for state, other in alike.items()]
    words = [f"{word}: {_outcomes(outline, word)}" for word in outline.anywhere]
    heard = [f"In every state but {done}:", *words] if words else []
    lines = [*twins, *_kinds(outline), *heard]
    return [f"note right of {start}", *(f"    {line}" for line in lines), "end note"] if lines else []


def _kinds(outline: Outline) -> list[str]:
    """What a kind of events stands for."""
    kinds: dict[str, list[str]] = {}
    for event in outline.events:
        if event.kind:
            kinds.setdefault(event.kind, []).append(event.name)
    return [
        f"{kind}: each of {', '.join(events)} that the state awaits"
        for kind, events in kinds.items()
        if len(events) > 1
    ]


def _outcomes(outline: Outline, word: str) -> str:
    """Where a word leads from the states of a turn that goes on."""
    rows = [row for row in outline.rows if row.event == word and row.source in outline.alive]
    ways = ["kept" if not row.moves else f"to {row.target}{f' ({row.spends})' if row.spends else ''}" for row in rows]
    return ", or ".join(dict.fromkeys(ways))
