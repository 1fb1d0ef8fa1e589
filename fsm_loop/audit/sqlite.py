"""The trails of many turns in one SQLite file, where they can be looked up by turn, by outcome and by counter.

A record is one row, written in a transaction of its own before anything is done about it: what is asked for stands in
the file before it is begun, and what came of it after.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack

import msgspec

from fsm_loop.audit.sink import Sink, Wishes, one_of
from fsm_loop.errors import TrailError

if TYPE_CHECKING:
    import os

    from fsm_loop.audit.scribe import Scribe

Fsync = Literal["each", "end", "never"]
MAGIC = b"SQLite format 3\x00"  # how every SQLite file begins
BUSY_TIMEOUT_S = 5.0  # how long another writer is waited for, before the record counts as not written

TABLES = """
CREATE TABLE IF NOT EXISTS records (id INTEGER PRIMARY KEY, turn TEXT NOT NULL, line BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS records_of_turn ON records (turn, id);
CREATE TABLE IF NOT EXISTS turns (
    id TEXT PRIMARY KEY, began REAL NOT NULL, ended REAL, outcome TEXT, counter TEXT, head TEXT
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS turns_by_outcome ON turns (outcome, began);
CREATE INDEX IF NOT EXISTS turns_by_counter ON turns (counter, began);
"""


class SqliteTrails(Sink):
    """A watcher that keeps trails in an SQLite file (WAL), a row for each record and one for each turn.

    Several turns, threads and programs may share a file. `fsync` is as in JsonLines: what is written outlives the
    process in any case; "each" record, those of a turn at its "end", or "never" by our doing, outlives the machine.
    The table `turns` holds when each began and ended, its outcome, the counter that ended it and its last hash.
    Raises TrailError where the file cannot be opened or is something else.
    """

    def __init__(self, path: str | os.PathLike[str], *, fsync: Fsync = "never", **wishes: Unpack[Wishes]) -> None:
        super().__init__(**wishes)
        one_of("fsync", fsync, "each", "end", "never")
        self._fsync = fsync
        try:
            self._base = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
            self._base.execute("PRAGMA journal_mode = WAL")
            self._base.execute(f"PRAGMA synchronous = {'FULL' if fsync == 'each' else 'OFF'}")
            self._base.executescript(TABLES)
        except sqlite3.Error as error:
            msg = f"{path}: cannot be used as a store of trails: {error}"
            raise TrailError(msg) from error

    def write(self, scribe: Scribe, line: bytes, *, last: bool = False) -> None:
        """One row more, and what is known of its turn with the first and the last of them."""
        base = self._base
        if not (last or scribe.is_new):
            base.execute("INSERT INTO records (turn, line) VALUES (?, ?)", (scribe.turn_id, line))
            return
        if last and self._fsync == "end":
            base.execute("PRAGMA synchronous = FULL")
        base.execute("BEGIN IMMEDIATE")
        try:
            base.execute("INSERT INTO records (turn, line) VALUES (?, ?)", (scribe.turn_id, line))
            self._note(scribe, msgspec.json.decode(line), last=last)
            base.execute("COMMIT")
        except BaseException:
            base.execute("ROLLBACK")
            raise
        finally:
            if last and self._fsync == "end":
                base.execute("PRAGMA synchronous = OFF")

    def _note(self, scribe: Scribe, record: dict[str, object], *, last: bool) -> None:
        if not last:
            self._base.execute("INSERT INTO turns (id, began) VALUES (?, ?)", (scribe.turn_id, record["wall"]))
            return
        spent = record["exhausted"]
        counter = spent["counter"] if isinstance(spent, dict) else None
        known = (record["wall"], record["outcome"], counter, scribe.head, scribe.turn_id)
        self._base.execute("UPDATE turns SET ended = ?, outcome = ?, counter = ?, head = ? WHERE id = ?", known)

    def close(self) -> None:
        """No more records will come."""
        self._base.close()


def is_store(path: str | os.PathLike[str]) -> bool:
    """Whether the file is an SQLite file; raises OSError where it cannot be read."""
    if not Path(path).is_file():
        return False
    with Path(path).open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def rows(path: str | os.PathLike[str]) -> Iterator[tuple[int, bytes]]:
    """The records of a store, in the order in which they were written, with their row's number.

    Raises TrailError where it is no store of trails.
    """
    address = f"file:{Path(path).resolve().as_posix().replace('?', '%3f').replace('#', '%23')}"
    try:
        with closing(_opened(address)) as base:
            yield from base.execute("SELECT id, CAST(line AS BLOB) FROM records ORDER BY id")
    except sqlite3.Error as error:
        msg = f"{path}: is no store of trails: {error}"
        raise TrailError(msg) from error


def _opened(address: str) -> sqlite3.Connection:
    """The file, which may have to be mended after a crash; one that may not be written is read as it stands."""
    for mode in ("mode=rw", "mode=ro", "mode=ro&immutable=1"):
        base = sqlite3.connect(f"{address}?{mode}", uri=True, timeout=BUSY_TIMEOUT_S)
        try:
            base.execute("SELECT count(*) FROM sqlite_master")
        except sqlite3.OperationalError:
            base.close()
            if mode.endswith("=1"):
                raise
        else:
            return base
    raise AssertionError("unreachable")
