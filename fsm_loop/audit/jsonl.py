"""The trail as a file of lines: one JSON object for each record, written out before anything is done about it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, Unpack

from fsm_loop.audit.scribe import Scribe
from fsm_loop.audit.sink import Sink, Wishes, one_of

Fsync = Literal["each", "end", "never"]


class JsonLines(Sink):
    """A watcher that appends each record to a file, as one line of canonical JSON.

    A line goes to the system whole, so several turns, and several programs, may share a file: `turn` tells their
    lines apart. What was written outlives the process, however it ends. `fsync` says what outlives the machine:
    "each" record, the records of each turn at its "end", or "never" by our doing (the system writes it out when it
    sees fit). It holds the turn up for as long as the disk takes, milliseconds as a rule. Raises OSError where the
    file cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str], *, fsync: Fsync = "never", **wishes: Unpack[Wishes]) -> None:
        super().__init__(**wishes)
        one_of("fsync", fsync, "each", "end", "never")
        self._fsync = fsync
        self._file = Path(path).open("ab", buffering=0)  # noqa: SIM115  # open for as long as turns are watched
        self._torn = not _ends_a_line(path)

    def write(self, scribe: Scribe, line: bytes, *, last: bool = False) -> None:  # noqa: ARG002  # the line says whose
        """One line of the file; what stands torn before it, after a crash or on a full disk, stays a line by itself."""
        rest = memoryview(b"\n" + line if self._torn else line)
        while rest:
            self._torn = True
            rest = rest[self._file.write(rest) :]
        self._torn = False
        if self._fsync == "each" or (last and self._fsync == "end"):
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """No more lines will come."""
        self._file.close()


def _ends_a_line(path: str | os.PathLike[str]) -> bool:
    """Whether the next line may be appended as it is; what is no file (a pipe, a terminal) has no torn end."""
    if not Path(path).is_file() or Path(path).stat().st_size == 0:
        return True
    with Path(path).open("rb") as kept:
        kept.seek(-1, os.SEEK_END)
        return kept.read(1) == b"\n"
