"""The command on a terminal: what is drawn, and how it is left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest

from fsm_loop.testing.server import ChatServer, Cut, Hang, called, chunk, said, stream

pty = pytest.importorskip("pty", reason="this system has no pseudo-terminals")

PATIENCE_S = 60
STEERING = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A process on a pseudo-terminal of its own."""

    def __init__(self, *arguments):
        self.side, other = pty.openpty()
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "FSM_LOOP_"))
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fsm_loop", "run", "hi", *arguments],
            env={**environment, "TERM": "xterm", "COLUMNS": "160", "LINES": "24"},
            stdin=other,
            stdout=other,
            stderr=other,
        )
        os.close(other)
        self.seen = ""

    def until(self, words):
        """Read until these words have been seen, or the process has closed the terminal."""
        while words is None or words not in self.seen:
            try:
                read = os.read(self.side, 65536)
            except OSError:
                read = b""
            if not read:
                assert words is None
                return
            self.seen += read.decode("utf-8", "replace")

    def ended(self):
        """The exit status, once all has been read."""
        self.until(None)
        os.close(self.side)
        return self.process.wait(PATIENCE_S)


def plain(text):
    """The text without what steers the terminal."""
    return STEERING.sub("", text).replace("\r", "")


def test_text_is_seen_as_it_streams_and_stays_at_the_end():
    """The text stands on the terminal while the model hangs; after Ctrl-C it stays, and the cursor is back."""
    with ChatServer([stream(said("half an answer"), end=Hang())]) as server:
        terminal = Terminal("--base-url", server.base_url)
        terminal.until("half an answer")
        live = terminal.seen
        terminal.process.send_signal(signal.SIGINT)
        status = terminal.ended()
    end = terminal.seen[len(live) :]

    assert 130 == status
    assert "streaming · request 1" in plain(terminal.seen)
    assert "half an answer\n\nready > calling > streaming > done\n" in plain(end)
    assert terminal.seen.rindex("\x1b[?25h") > terminal.seen.rindex("\x1b[?25l")


def test_withdrawn_text_is_taken_back():
    """Text of a reply that broke off is erased and said to be taken back; the final answer stands once, after it."""
    broken = stream(said("a wrong start"), called(0, "c1", "add", '{"a'), end=Cut())
    with ChatServer([broken, stream(said("a good answer"), chunk(finish="stop"))]) as server:
        terminal = Terminal("--base-url", server.base_url)
        status = terminal.ended()
    taken_back = terminal.seen.index("characters are taken back")

    assert 0 == status
    assert "a wrong start" not in terminal.seen[taken_back:]
    assert "a good answer\n\nready > " in plain(terminal.seen[taken_back:])


def test_json_on_a_terminal_is_one_object():
    """With --json the answer is not drawn while it streams, and the object is printed at the end."""
    with ChatServer([stream(said("ok"), chunk(finish="stop"))]) as server:
        terminal = Terminal("--base-url", server.base_url, "--json")
        status = terminal.ended()

    assert 0 == status
    assert plain(terminal.seen).splitlines()[-1].startswith('{"outcome": "completed", "text": "ok"')
