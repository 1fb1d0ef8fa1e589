"""A trail read back, line by line, whatever has become of it; what is wrong with a line is said of it, not raised."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from attrs import frozen

from fsm_loop.audit.sqlite import is_store, rows
from fsm_loop.errors import TrailError

if TYPE_CHECKING:
    import os

LONGEST_LINE = 64 * 1024 * 1024  # bytes of a record that is read
KINDS = ("opening", "decision", "end")
_decode = msgspec.json.Decoder(dict).decode


@frozen
class Line:
    """One line of a trail: where it stands, its bytes, and, once it is asked for, its record, or why it is none.

    `whole` says whether the line had its end. A `torn` line is the last one of a file whose writer was stopped in the
    middle of it, or one that a later writer found so and left alone.
    """

    source: str
    number: int
    raw: bytes
    whole: bool = True

    @property
    def place(self) -> str:
        """Where it stands, for a person."""
        return f"{self.source}:{self.number}"

    @property
    def record(self) -> dict[str, Any] | None:
        """The record; None where the line is none."""
        return self._understood[0]

    @property
    def problem(self) -> str:
        """Why the line is no record; empty where it is one."""
        return self._understood[1]

    @property
    def torn(self) -> bool:
        """Whether the line breaks off in the middle."""
        return self._understood[2]

    @cached_property
    def _understood(self) -> tuple[dict[str, Any] | None, str, bool]:
        if len(self.raw) > LONGEST_LINE:
            return None, f"it is longer than {LONGEST_LINE} bytes", False
        try:
            record = _decode(self.raw)
        except msgspec.DecodeError as error:
            if not self.whole or "truncated" in str(error):
                return None, "it breaks off in the middle (its writer was stopped)", True
            return None, f"it is no JSON object: {error}", False
        except RecursionError:
            return None, "it is nested too deep to be read", False
        if record.get("is") not in KINDS or not isinstance(record.get("turn"), str):
            return None, "it is no record of a trail", False
        return record, "", False


def read(path: str | os.PathLike[str]) -> Iterator[Line]:
    """The lines of one file, in their order, blank ones left out; a store's are those of its rows.

    Raises TrailError where it cannot be read.
    """
    return (line_of(*each) for each in raw_lines(path))


def raw_lines(path: str | os.PathLike[str]) -> Iterator[tuple[str, int, bytes]]:
    """The lines of one file as they stand there: the file, the line's number, its bytes."""
    source = str(path)
    try:
        if is_store(path):
            yield from ((source, number, raw) for number, raw in rows(path))
            return
        with Path(path).open("rb") as file:
            number = 0
            while raw := file.readline(LONGEST_LINE + 1):
                number += 1
                if raw.strip():
                    yield source, number, raw
    except OSError as error:
        msg = f"{source}: cannot be read: {error.strerror}"
        raise TrailError(msg) from error


def line_of(source: str, number: int, raw: bytes) -> Line:
    """The line of these bytes, with its end or without."""
    return Line(source, number, raw.removesuffix(b"\n"), raw.endswith(b"\n"))


def records(paths: Iterable[str | os.PathLike[str]]) -> Iterator[dict[str, Any]]:
    """The records of the files, one file after the other, torn lines left out.

    Raises TrailError at the first line that is neither a record nor torn, and where a file cannot be read.
    """
    for path in paths:
        for line in read(path):
            if line.record is not None:
                yield line.record
            elif not line.torn:
                msg = f"{line.place}: {line.problem}"
                raise TrailError(msg)
