"""The end of a turn, for a person and for a program."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import attrs
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from fsm_loop.audit.facts import plain
from fsm_loop.audit.log import told
from fsm_loop.cli.outlet import visible
from fsm_loop.core.faults import Fault
from fsm_loop.core.record import Spent
from fsm_loop.drive.result import Entry, TurnResult

ROWS = 60  # of the table of the path; what is more is left out in its middle
LONGEST_CYCLE = 24  # states (or rows) of a stretch whose repetitions are told by their number
COLOUR = {"completed": "green", "failed": "red", "interrupted": "yellow"}


def as_json(result: TurnResult) -> str:
    """The result as one JSON object, on one line of ASCII."""
    return _object(
        outcome=result.outcome,
        text=result.text,
        exhausted=_spent(result.exhausted),
        fault=_fault(result.fault),
        last_state=result.last_state,
        llm_calls=result.llm_calls,
        usage=_fields(result.usage),
        counters=dict(result.counters),
        path=[list(step) for step in result.path],
        turn_id=result.turn_id,
        messages=result.messages,
        pending_steer=list(result.pending_steer),
        why=result.why,
        waited_s=result.waited_s,
    )


def no_turn(outcome: str, why: str) -> str:
    """The same object for a turn that never began."""
    fault = {"kind": "not_ready", "message": why, "status": None} if outcome == "failed" else None
    empty: dict[str, Any] = {"usage": {}, "counters": {}, "path": [], "messages": [], "pending_steer": []}
    facts = {"text": "", "exhausted": None, "fault": fault, "last_state": "ready", "llm_calls": 0, "turn_id": ""}
    return _object(outcome=outcome, why=why, waited_s=0.0, **facts, **empty)


def summary(result: TurnResult) -> Iterator[RenderableType]:
    """The path through the states, the rows that made it, what was counted, and the end in a sentence."""
    states = [result.trail[0].before, *(each.after for each in result.trail)] if result.trail else []
    yield Text("")
    yield Text(compressed([state for state, _ in groupby(states)]), style="bold")
    yield _table(result.trail)
    yield Text(counted(result), style="dim")
    yield Text(visible(result.why), style=COLOUR.get(result.outcome, "magenta"))


def compressed(states: Sequence[str]) -> str:
    """The states in their order; a stretch that is gone through again and again stands once, with its number."""
    words = []
    for begin, length, times in stretches(states):
        stretch = " > ".join(states[begin : begin + length])
        words.append(stretch if times == 1 else f"({stretch}) x{times}")
    return " > ".join(words)


def stretches(things: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """The things in stretches that follow upon themselves: where one begins, how long it is, how often it comes."""
    at = 0
    while at < len(things):
        length, times = max(_repeats(things, at), key=lambda found: found[0] * (found[1] - 1))
        yield at, length, times
        at += length * times


def _repeats(things: Sequence[str], at: int) -> Iterator[tuple[int, int]]:
    """Each length of a stretch that begins here and follows upon itself, with how often it comes; first, one thing."""
    for length in range(1, LONGEST_CYCLE + 1):
        stretch, times = things[at : at + length], 1
        while things[at + length * times : at + length * (times + 1)] == stretch:
            times += 1
        if times > 1 or length == 1:
            yield length, times


def counted(result: TurnResult) -> str:
    """What the turn took: its counters, calls, tokens, money and waits."""
    caps = {moved.counter: moved.cap for each in result.trail for moved in each.moved}
    counters = [
        f"{name} {value:g}" + ("" if caps.get(name) is None else f"/{caps[name]:g}")
        for name, value in result.counters.items()
        if value and name not in ("tokens", "cost")
    ]
    usage = result.usage
    calls = "1 call" if result.llm_calls == 1 else f"{result.llm_calls} calls"
    words = [*counters, calls, f"{usage.input_tokens} tokens in", f"{usage.output_tokens} out"]
    if usage.cost:
        words.append(f"${usage.cost:.4f}")
    return ", ".join([*words, f"waited {result.waited_s:.1f} s"])


def _table(trail: Sequence[Entry]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for heading in ("#", "row", "counted", "next"):
        table.add_column(heading, overflow="fold", justify="right" if heading == "#" else "left")
    lines = list(_lines(trail))
    half = ROWS // 2
    for line in lines if len(lines) <= ROWS else (*lines[:half], _OMITTED, *lines[-half:]):
        table.add_row(*line)
    return table


_OMITTED = ("", "...", "", "")


def _lines(trail: Sequence[Entry]) -> Iterator[tuple[str, str, str, str]]:
    """A line for each decision; decisions that come again and again are written once."""
    for begin, length, times in stretches([each.row for each in trail]):
        for each in trail[begin : begin + length]:
            yield str(each.seq), each.row, ", ".join(map(told, each.moved)), each.after
        if times > 1:
            again = "once more" if times == 2 else f"{times - 1} times more"  # noqa: PLR2004  # as one says it
            yield "", f"{begin} to {begin + length - 1} {again}" if length > 1 else f"{begin} {again}", "", ""


def _spent(spent: Spent | None) -> dict[str, Any] | None:
    return None if spent is None else _fields(spent)


def _fault(fault: Fault | None) -> dict[str, Any] | None:
    return None if fault is None else _fields(fault)


def _fields(thing: Any) -> dict[str, Any]:
    return {each.name: getattr(thing, each.name) for each in attrs.fields(type(thing))}


def _object(**fields: Any) -> str:
    return json.dumps(plain(fields))
