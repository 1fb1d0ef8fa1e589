"""A watcher in a thread of its own, so that a slow place to write to does not hold up the turn."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from queue import Full, Queue
from threading import Thread
from typing import Self

from fsm_loop.core.rows import Page
from fsm_loop.core.step import Decision, Turn
from fsm_loop.drive.watch import told
from fsm_loop.errors import FsmLoopError
from fsm_loop.ports import Follows, Watcher

MOST_WAITING = 10_000  # decisions that wait to be written; one more, and the turn goes on without its trail


class Behind(FsmLoopError):  # noqa: N818  # what it is
    """The watcher in its thread cannot keep up, or has failed; the turn goes on without it."""


class Apart:
    """Hands all that a watcher is told to a thread, in order, and does not wait for it.

    What waits in the queue is lost where the process is killed, and a failure is told with the next decision, so a
    sink that must stop a turn does not belong in here. `most_waiting` bounds the queue; a turn for which it is full
    goes on without its trail, and its result says so. `close` waits until all is written, for `patience_s` seconds.
    """

    def __init__(self, watcher: Watcher, *, most_waiting: int = MOST_WAITING, patience_s: float = 30.0) -> None:
        self._watcher = watcher
        self._patience_s = patience_s
        self._waiting: Queue[tuple[str, Callable[[], None]] | None] = Queue(most_waiting)
        self._failed: dict[str, str] = {}
        self._thread = Thread(target=self._write, name="fsm-loop trail", daemon=True)
        self._thread.start()

    def opened(self, turn_id: str, turn: Turn, page: Page) -> None:
        """A turn begins."""
        if isinstance(self._watcher, Follows):
            self._hand(turn_id, partial(self._watcher.opened, turn_id, turn, page))

    def saw(self, turn_id: str, seq: int, decision: Decision) -> None:
        """One decision was made."""
        self._hand(turn_id, partial(self._watcher.saw, turn_id, seq, decision))

    def closed(self, turn_id: str, turn: Turn) -> None:
        """The turn is over."""
        if isinstance(self._watcher, Follows):
            self._hand(turn_id, partial(self._watcher.closed, turn_id, turn))

    def close(self) -> None:
        """Wait until all that was handed over is written; raises Behind where that takes too long."""
        try:
            self._waiting.put(None, timeout=self._patience_s)
        except Full:
            pass
        else:
            self._thread.join(self._patience_s)
        if self._thread.is_alive():
            msg = f"{self._waiting.qsize()} records were not written within {self._patience_s:g} s"
            raise Behind(msg)

    def _hand(self, turn_id: str, word: Callable[[], None]) -> None:
        if turn_id in self._failed:
            raise Behind(self._failed.pop(turn_id))
        try:
            self._waiting.put_nowait((turn_id, word))
        except Full:
            msg = f"{self._waiting.maxsize} records wait to be written, and there is no room for more"
            raise Behind(msg) from None

    def _write(self) -> None:
        while (next_one := self._waiting.get()) is not None:
            turn_id, word = next_one
            if turn_id in self._failed:
                continue
            try:
                word()
            except Exception as error:  # noqa: BLE001  # told with the next decision of the turn
                self._failed[turn_id] = told(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
