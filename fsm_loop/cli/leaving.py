"""How a run is left: Ctrl-C stops the turn, a second one leaves at once, and nothing stuck keeps the process."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from types import FrameType
from typing import Any, Self

from fsm_loop.cli.stops import Status
from fsm_loop.loop import RunningTurn

GRACE_S = 2.0  # for the event loop to close, once all has been told
LAST_S = 0.2  # for an idle thread to end

ISSUERS = {signal.SIGINT: ("user", "Ctrl-C"), signal.SIGTERM: ("system", "SIGTERM")}


class Leaving:
    """The signals of one run. Before the turn begins, a signal is a KeyboardInterrupt.

    They are taken as they come, not by the event loop: it may be the loop that is stuck.
    """

    def __init__(self) -> None:
        self._turn: RunningTurn | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: threading.Timer | None = None
        self._asked = False
        self._before: dict[signal.Signals, Any] = {}
        self._threads = set(threading.enumerate())

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._came) for number in ISSUERS}
        return self

    def __exit__(self, *_: object) -> None:
        self.closed()
        if self._asked:
            return  # the process is about to end, and a second signal still ends it at once
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def stops(self, turn: RunningTurn) -> None:
        """From now on, a signal interrupts this turn."""
        self._loop = asyncio.get_running_loop()
        self._turn = turn

    def told(self, status: int) -> None:
        """All has been told: the process ends soon, whatever the event loop still waits for (the name of a host)."""
        self._timer = threading.Timer(GRACE_S, _end, [status])
        self._timer.daemon = True
        self._timer.start()

    def closed(self) -> None:
        """The event loop has closed."""
        if self._timer is not None:
            self._timer.cancel()

    def leave(self, status: int) -> None:
        """End the process here if a thread of the run would keep it from ending by itself: a tool that is stuck."""
        for thread in set(threading.enumerate()) - self._threads:
            if not thread.daemon:
                thread.join(LAST_S)
                if thread.is_alive():
                    _end(status)

    def _came(self, number: int, _: FrameType | None) -> None:
        if self._asked:
            _end(Status.INTERRUPTED)
        self._asked = True
        if self._turn is None or self._loop is None:
            raise KeyboardInterrupt
        self._loop.call_soon_threadsafe(self._turn.interrupt, *ISSUERS[signal.Signals(number)])


def _end(status: int) -> None:
    """End the process now, with the terminal as it was."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream.isatty():
                stream.write("\x1b[?25h")  # the cursor, which a live display hides
            stream.flush()
        except (AttributeError, OSError, RuntimeError, ValueError):  # closed, broken, or in use by what was stopped
            continue
    os._exit(status)
