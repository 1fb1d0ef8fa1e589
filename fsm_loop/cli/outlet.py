"""Where a run speaks: the answer on standard output and nothing else there, all the rest on standard error."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import TextIO

from attrs import define, field
from rich.console import Console, RenderableType

from fsm_loop.cli.stops import Status, Stop

WIDE = 140  # columns of what is read later, in a file

# What could move the cursor or change the terminal (line feed and tab stay), and what no terminal can be sent.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


@define(eq=False)
class Outlet:
    """The two channels of a run. `screen` says whether the answer's is a terminal that can be drawn on."""

    channel: TextIO
    as_json: bool
    screen: bool
    answered: bool = field(default=False, init=False)

    def answer(self, text: str) -> None:
        """The answer, or as much of one as there is, once; on a terminal without what would steer it."""
        self.answered = True
        try:
            if text:
                self.channel.write(visible(text) if self.screen else text)
                self.channel.write("" if text.endswith("\n") else "\n")
            self.channel.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise Stop(f"the answer could not be written: {error.strerror}", Status.FAILED) from error

    def tell(self, sentence: str) -> None:
        """A sentence for the user, beside the answer."""
        print(f"fsm-loop: {visible(sentence)}", file=sys.stderr, flush=True)

    def show(self, *things: RenderableType) -> None:
        """Something drawn, beside the answer."""
        console = Console(stderr=True, highlight=False)
        if not console.is_terminal:
            console.width = WIDE
        for thing in things:
            console.print(thing)

    @property
    def live_on(self) -> Console | None:
        """The terminal on which the turn can be followed; None where there is none."""
        for console in (Console(file=self.channel, highlight=False), Console(stderr=True, highlight=False)):
            if console.is_terminal and not console.is_dumb_terminal and (self.screen or console.stderr):
                return console
        return None


@contextmanager
def outlet(*, as_json: bool) -> Iterator[Outlet]:
    """The channels of one run."""
    if sys.stdout is not None and sys.stdout.isatty() and not as_json:
        yield Outlet(sys.stdout, as_json, screen=True)
        return
    with _kept_apart() as channel:
        yield Outlet(channel, as_json, screen=False)


def visible(text: str) -> str:
    """The text without what would steer a terminal."""
    return _CONTROL.sub("\ufffd", text)


@contextmanager
def _kept_apart() -> Iterator[TextIO]:
    """Standard output for one writer; whatever else writes there meanwhile (a tool, a library) goes to stderr."""
    try:
        sys.stdout.flush()
        number, kept = sys.stdout.fileno(), os.dup(sys.stdout.fileno())
        os.dup2(sys.stderr.fileno(), number)
    except (AttributeError, OSError, ValueError):  # replaced by something that is no file
        channel = sys.stdout
        with redirect_stdout(sys.stderr):
            yield channel
        return
    channel = os.fdopen(os.dup(kept), "w", encoding=sys.stdout.encoding, errors="replace")
    try:
        yield channel
    finally:
        sys.stdout.flush()
        os.dup2(kept, number)
        os.close(kept)
        with suppress(OSError):  # what could not be written has been said
            channel.close()
