"""A turn while it runs: the text as it streams and a line on how the turn stands.

The text is drawn in a region that is drawn anew, so text that is withdrawn is gone from the screen. Only as much of it
as fits is drawn; the whole answer is printed once the turn is over. Where there is no terminal, nothing is drawn, and
standard error has one line for each wait and each turning of the way.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol, Self

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from fsm_loop.cli.outlet import Outlet, visible
from fsm_loop.core.effects import Reconnecting, Withdrawn
from fsm_loop.core.step import Moved
from fsm_loop.drive.notes import (
    Note,
    StateChanged,
    ToolFinished,
    ToolStarted,
)
from fsm_loop.ports import ReasoningDelta, TextDelta

FRAMES_PER_S = 8
TOLD_STATES = frozenset({"backoff", "recovering", "fallback", "repairing", "truncated", "grace"})


class View(Protocol):
    """Whoever shows a turn while it runs."""

    def saw(self, note: Note) -> None:
        """One thing happened."""
        ...

    def close(self) -> None:
        """Nothing more is shown."""
        ...


class Progress:
    """What is known of a turn while it runs."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self.state = "ready"
        self.counters: dict[str, Moved] = {}
        self.text = ""
        self.thought = 0
        self.withdrawn = 0
        self.waited_s = 0.0
        self._wait: tuple[float, float] | None = None

    def saw(self, note: Note) -> None:
        """One thing happened."""
        match note:
            case TextDelta(text):
                self.text += text
            case ReasoningDelta(text):
                self.thought += len(text)
            case Withdrawn(text):
                self.text = self.text.removesuffix(text) if self.text.endswith(text) else ""
                self.withdrawn += len(text)
            case StateChanged():
                self._changed(note)
            case _:
                pass

    def _changed(self, change: StateChanged) -> None:
        self.state = change.after
        self.counters |= {moved.counter: moved for moved in change.moved}
        now = self._now()
        if self._wait is not None:
            self.waited_s += now - self._wait[0]
        self._wait = (now, now + change.wait_s) if change.wait_s else None

    def line(self) -> str:
        """How the turn stands, on one line."""
        now, waited_s, words = self._now(), self.waited_s, [self.state]
        requests = self.counters.get("requests")
        if requests is not None:
            words.append(f"request {requests.after:g}")
        if self._wait is not None:
            since, until = self._wait
            waited_s += now - since
            words.append(f"goes on in {max(0.0, until - now):.1f} s")
        words += [_told(each) for each in self.counters.values() if each.after and each.counter not in _NOT_TOLD]
        if waited_s:
            words.append(f"waited {waited_s:.1f} s")
        if self.thought:
            words.append(f"{self.thought} characters thought")
        if self.withdrawn:
            words.append(f"{self.withdrawn} characters taken back")
        return " · ".join(words)


_NOT_TOLD = frozenset({"requests", "cost", "turn_seconds"})


def _told(moved: Moved) -> str:
    return f"{moved.counter} {moved.after:g}" + ("" if moved.cap is None else f"/{moved.cap:g}")


class Screen:
    """A turn on a terminal."""

    def __init__(self, console: Console, *, with_text: bool) -> None:
        self._console = console
        self._with_text = with_text
        self._progress = Progress()
        self._live = Live(self, console=console, refresh_per_second=FRAMES_PER_S, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """What was drawn is taken away again."""
        self._live.stop()

    def saw(self, note: Note) -> None:
        """One thing happened. Whatever is printed above draws the region anew, so that comes last."""
        self._progress.saw(note)
        match note:
            case ToolStarted(call):
                self._settle()
                self._console.print(Text(f"> {call.name} {_short(call.arguments)}", style="cyan"))
            case ToolFinished(call, text, status):
                self._console.print(Text(f"< {call.name} {status.value}: {_short(text)}", style="dim cyan"))
            case Withdrawn(text):
                self._console.print(Text(f"({len(text)} characters are taken back; they are told again)", style="dim"))
            case Reconnecting(reason):
                self._console.print(Text(f"(asked again: {visible(reason)})", style="dim"))
            case _:
                pass

    def _settle(self) -> None:
        """What the model said before its tools run stays above."""
        text, self._progress.text = self._progress.text, ""
        if self._with_text and text.strip():
            self._console.print(Text(visible(text), style="dim"))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The end of the text, as much of it as fits, and the line below it."""
        if self._with_text and self._progress.text:
            height = max(1, (options.max_height or console.height) - 3)
            recent = visible(self._progress.text[-height * options.max_width :])
            yield Text("\n").join(Text(recent).wrap(console, options.max_width)[-height:])
        yield Text(self._progress.line(), style="dim", no_wrap=True, overflow="ellipsis")


class Lines:
    """A turn where nothing can be drawn: a line when it leaves the straight way."""

    def __init__(self, out: Outlet) -> None:
        self._out = out

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def close(self) -> None:
        """Nothing was begun that has to end."""

    def saw(self, note: Note) -> None:
        """One thing happened."""
        match note:
            case StateChanged(row=row, after=after, wait_s=wait_s) if after in TOLD_STATES:
                waits = f", goes on in {wait_s:.1f} s" if wait_s else ""
                self._out.tell(f"{after}{waits} ({row})")
            case Withdrawn(text):
                self._out.tell(f"{len(text)} characters are taken back; they are told again")
            case _:
                pass


def view_on(out: Outlet) -> AbstractContextManager[Any]:
    """The view that this outlet can show."""
    console = out.live_on
    return Lines(out) if console is None else Screen(console, with_text=out.screen)


def _short(text: str, most: int = 100) -> str:
    line = visible(" ".join(text.split()))
    return line if len(line) <= most else f"{line[: most - 3]}..."
