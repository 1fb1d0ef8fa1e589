"""The command `fsm-loop trail show`: the decisions of turns, a line each, also while they are made."""

from __future__ import annotations

import os
import textwrap
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from fsm_loop.cli.outlet import visible
from fsm_loop.cli.stops import Status, Stop

POLL_S = 0.25  # how often a file that is followed is looked at
WIDTH = 100  # columns; what does not fit goes on below, under the states
UNDER = " " * 18
MISSHAPEN = (LookupError, TypeError, ValueError, AttributeError)  # what reading members raises where they are not such
Told = Mapping[str, Any]


def show(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A trail.")],
    turn: Annotated[
        str | None, typer.Option(metavar="ID", help="This turn alone; the beginning of its id will do.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as the file grows, until Ctrl-C.")] = False,
) -> int:
    """Print each decision on a line: when, from where to where, by which row, what was counted, what went wrong."""
    from fsm_loop.audit.reading import read

    lines = followed(file, poll=time.sleep) if follow else (each.record for each in read(file) if each.record)
    shown = False
    table = _Table()
    for record in lines:
        if turn is None or record["turn"].startswith(turn):
            shown = True
            try:
                lines_of_it = list(table.lines(record))
            except MISSHAPEN:
                lines_of_it = [
                    f"{'':>10}  ! a record that is not whole; fsm-loop trail verify says what is wrong with it"
                ]
            for line in lines_of_it:
                print(visible(line), flush=follow)
    if not shown and not follow:
        raise Stop(f"there is no turn {turn or ''} in {file}".replace("  ", " "))
    return Status.COMPLETED


class _Table:
    """The lines of the table; a turn's name stands before its lines whenever another turn's stood there."""

    def __init__(self) -> None:
        self._turn = ""
        self._began: dict[str, float] = {}

    def lines(self, record: Told) -> Iterator[str]:
        """The lines of one record."""
        turn = record["turn"]
        if turn != self._turn:
            self._turn = turn
            yield f"turn {turn}"
        match record["is"]:
            case "opening":
                yield f"{'':>10}  asks {', '.join(map(_text, record['providers']))}; content: {record['content']}"
            case "decision":
                at = float(record["at"])
                yield from _laid_out(_decision(record, at - self._began.setdefault(turn, at)))
            case _:
                spent = record["exhausted"]
                by = f", {spent['counter']} at {spent['value']:.10g} of {spent['cap']:.10g}" if spent else ""
                yield f"{'':>10}  ended as {record['outcome']}{by}; {record['llm_calls']} call" + "s" * (
                    record["llm_calls"] != 1
                )


def _decision(record: Told, since_s: float) -> list[str]:
    way = record["after"] if record["after"] == record["state"] else f"{record['state']} > {record['after']}"
    words = [f"{since_s:>8.2f} s  {record['seq']:>4}  {way:<24}", record["row"]]
    words += [
        f"{m['counter']} {m['before']:.10g}->{m['after']:.10g}" + (f"/{m['cap']:.10g}" if m["cap"] else "")
        for m in record["moved"]
    ]
    words += [
        f"waits {float(e['delay_s']):.1f} s ({_text(e.get('reason', ''))})"
        for e in record["effects"]
        if e["effect"] == "SetTimer"
    ]
    words += [f"runs {_text(e['name'])}" for e in record["effects"] if e["effect"] == "RunTool"]
    fault = record["facts"].get("fault")
    if fault:
        words.append(f"! {fault.get('kind')}: {_text(fault.get('message', ''))}".removesuffix(": "))
    return words


def _laid_out(words: list[str]) -> Iterator[str]:
    """The words on as many lines of WIDTH as they need."""
    line = words[0]
    for word in words[1:]:
        if len(line) + 2 + len(word) <= WIDTH:
            line += f"  {word}"
        else:
            yield line.rstrip()
            line = UNDER + word
    yield from textwrap.wrap(line, WIDTH, subsequent_indent=f"{UNDER}  ", break_on_hyphens=False)


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"[{value.get('chars', '?')} characters]"
    return " ".join(str(value).split())


def followed(file: Path, *, poll: Any) -> Iterator[Told]:
    """The records of a file of lines as it grows; one that is not there yet, or begun anew, is waited for.

    `poll` is called with POLL_S whenever there is nothing new.
    """
    from fsm_loop.audit.reading import line_of
    from fsm_loop.audit.sqlite import is_store

    if is_store(file):
        raise Stop(f"{file}: a store cannot be followed; --follow is for files of lines")
    number, rest, at, inode = 0, b"", 0, None
    while True:
        try:
            with file.open("rb") as opened:
                status = os.fstat(opened.fileno())
                if inode != status.st_ino or status.st_size < at:
                    number, rest, at, inode = 0, b"", 0, status.st_ino
                opened.seek(at)
                fresh = opened.read()
                at += len(fresh)
        except FileNotFoundError:
            fresh = b""
        except OSError as error:
            raise Stop(f"{file}: cannot be read: {error.strerror}") from error
        *whole, rest = (rest + fresh).split(b"\n")
        for raw in whole:
            number += 1
            record = line_of(str(file), number, raw + b"\n").record if raw.strip() else None
            if record is not None:
                yield record
        if not fresh:
            poll(POLL_S)
