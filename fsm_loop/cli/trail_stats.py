"""The command `fsm-loop trail stats`: many turns in figures."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fsm_loop.cli.stops import Status, Stop
from fsm_loop.cli.trail_show import MISSHAPEN
from fsm_loop.errors import TrailError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fsm_loop.audit.stats import Stats

MOST_BROKEN = 5  # lines that cannot be read and are told of


def stats(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Trails; any number of turns.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else.")] = False,
) -> int:
    """Count ends, counters, faults and retries, and say how long turns took and where the time went."""
    from fsm_loop.audit.reading import read
    from fsm_loop.audit.stats import Stats

    found, broken = Stats(), 0
    for file in files:
        for line in read(file):
            problem = line.problem or _counted(found, line.record or {})
            broken += bool(problem)
            if problem and broken <= MOST_BROKEN:
                print(f"fsm-loop: {line.place}: {problem}; it is left out", file=sys.stderr)
    if not found.turns and not found.decisions:
        raise Stop(f"there is no turn in {', '.join(map(str, files))}")
    if as_json:
        print(json.dumps({**found.plain(), "broken_lines": broken}))
    else:
        print("\n".join(_lines(found, broken)))
    return Status.COMPLETED


def _counted(found: Stats, record: Mapping[str, Any]) -> str:
    """Why the record cannot be counted; empty where it was."""
    try:
        found.see(record)
    except TrailError:
        raise
    except MISSHAPEN:
        return "it is no whole record of a trail"
    return ""


def _lines(found: Stats, broken: int) -> Iterator[str]:
    plain = found.plain()
    told = f"{_number(found.turns, 'turn')}, {_number(found.decisions, 'decision')}, {found.late} of them late"
    yield told + (f"; {_number(broken, 'line')} could not be read" if broken else "")
    ends = Counter(found.outcomes)
    if found.unfinished:
        ends["no end yet"] = found.unfinished
    yield from _counts("ends", ends, found.turns)
    yield from _counts("ended by the counter", found.counters, found.turns)
    yield from _counts("ended by the fault", found.ended_by_fault, found.turns)
    yield from _counts("faults on the way", found.faults, None)
    yield from _counts("counters spent", found.spends, None)
    yield ""
    yield f"{'':24}{'count':>9}{'p50':>11}{'p95':>11}{'p99':>11}{'max':>11}"
    for name, words in MEASURES.items():
        yield _spread(words, plain[name])
    for name, spread in sorted(plain["in_state_s"].items(), key=lambda each: -each[1]["p95"]):
        yield _spread(f"s in {name}", spread)


MEASURES = {
    "duration_s": "s from start to end",
    "waited_s": "s of waits",
    "calls": "calls of a model",
    "tool_calls": "tool calls",
    "tokens": "tokens",
}


def _counts(title: str, counts: Counter[str], of: int | None) -> Iterator[str]:
    if counts:
        yield f"{title}:"
    for name, count in counts.most_common():
        share = f"  {100 * count / of:5.1f} %" if of else ""
        yield f"  {name:<22}{count:>9}{share}"


def _number(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _spread(words: str, spread: Mapping[str, float]) -> str:
    values = "".join(f"{spread[name]:>11.5g}" for name in ("p50", "p95", "p99", "max"))
    return f"{words:<24}{spread['count']:>9.0f}{values}"
