"""The page as a written specification: states, rows, counters and delays, each with its sentence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fsm_loop.export.mermaid import WRITTEN_BY
from fsm_loop.export.model import Counter, Outline, Row

_ROWS = """\
Rows for one state and event are tried from the top, and the first whose guards all hold fires; the last of them has no
guard. An event that answers an attempt which is no longer current is late, and changes nothing. Any other event that a
state does not list is a fault of the driver, and raises.
"""

_COUNTERS = """\
Only rows move a counter. A row that spends one fires only while the counter is under its cap. The list is in the order
of ranks: a row that refills a counter spends one that stands above it (a word of the user's needs no paying for), so
no loop of the page can refill what it lives on.
"""


def specification(outline: Outline) -> str:
    """The whole of specs/machine.md."""
    rows = (part for state in outline.states for part in (f"### {state.name}", _rows(outline.rows_of(state.name))))
    parts = [
        f"<!-- {WRITTEN_BY} -->",
        "# The machine",
        "## States",
        _states(outline),
        "## Events",
        _events(outline),
        "## Rows",
        _ROWS.rstrip(),
        *rows,
        "## Counters",
        _COUNTERS.rstrip(),
        _counters(outline),
        "## Delays, timers and sizes",
        _settings(outline),
    ]
    return "\n\n".join(parts) + "\n"


def counters(outline: Outline) -> str:
    """The counters in short, for the README."""
    return _table(
        ("counter", "cap", "counts", "spent on", "refilled by"),
        [
            (f"`{each.name}`", each.cap, each.counts, _spent_on(outline, each), _refilled(each))
            for each in outline.counters
        ],
    )


# ---------------------------------------------------------------- the tables


def _states(outline: Outline) -> str:
    return _table(
        ("state", "it waits for", ""),
        [
            (f"`{each.name}`", each.sentence, "start" if each.start else "end" if each.done else "")
            for each in outline.states
        ],
    )


def _events(outline: Outline) -> str:
    return _table(
        ("event", "what happened", "whose it is"),
        [
            (f"`{each.name}`", each.sentence, "the user's or the host's" if each.word else "a port's")
            for each in outline.events
        ],
    )


def _rows(rows: Sequence[Row]) -> str:
    """The rows of one state, those for one event together; the event is said once."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.event, []).append(row)
    return _table(
        ("on", "when", "goes to", "what is done", "spends", "refills", "row"),
        [
            (
                "" if place else f"`{event}`",
                "; ".join(guard.sentence for guard in row.guards) or "otherwise" if place or row.guards else "",
                row.target if row.moves else "(stays)",
                row.sentence,
                row.spends or "",
                ", ".join(row.refills),
                f"`{row.name}`",
            )
            for event, group in groups.items()
            for place, row in enumerate(group)
        ],
    )


def _counters(outline: Outline) -> str:
    return _table(
        ("rank", "counter", "counts", "cap", "setting", "variables", "spent by", "refilled by"),
        [
            (
                str(each.rank),
                f"`{each.name}`",
                each.counts,
                each.cap,
                _code(each.setting),
                _code(*each.env),
                _spent_by(outline, each),
                _refilled(each),
            )
            for each in outline.counters
        ],
    )


def _settings(outline: Outline) -> str:
    return _table(
        ("setting", "default", "unit", "variables", "what it is"),
        [(_code(each.name), each.default, each.unit, _code(*each.env), each.sentence) for each in outline.settings],
    )


# ---------------------------------------------------------------- the words


def _spent_on(outline: Outline, counter: Counter) -> str:
    """The events that spend a counter."""
    if counter.measured:
        return "what is reported"
    return ", ".join(dict.fromkeys(outline.row(name).event for name in counter.spent_by))


def _spent_by(outline: Outline, counter: Counter) -> str:
    """The events that spend a counter, each with the states it does so in."""
    if counter.measured:
        return "nothing: it follows what events report"
    where: dict[str, dict[str, None]] = {}
    for row in map(outline.row, counter.spent_by):
        where.setdefault(row.event, {})[row.source] = None
    return "; ".join(f"{event} in {', '.join(states)}" for event, states in where.items())


def _refilled(counter: Counter) -> str:
    return ", ".join(counter.refilled_on) or "never"


def _code(*names: str) -> str:
    return ", ".join(f"`{name}`" for name in names if name)


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table; a bar in a cell would end it."""
    whole = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in line] for line in lines)]
    return "\n".join(f"| {' | '.join(line)} |" for line in whole)
