"""The command on a terminal: what is drawn, and how it is left."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time

import pytest

from fsm_loop.testing.server import ChatServer, Cut, Hang, called, chunk, said, stream

pty = pytest.importorskip("pty", reason="this system has no pseudo-terminals")

PATIENCE_S = 60
STEERING = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A process on a pseudo-terminal of its own."""

    def __init__(self, *arguments, cwd=None):
        self.side, other = pty.openpty()
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "FSM_LOOP_"))
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fsm_loop", "run", "hi", *arguments],
            cwd=cwd,
            env={**environment, "TERM": "xterm", "COLUMNS": "160", "LINES": "24"},
            stdin=other,
            stdout=other,
            stderr=other,
        )
        os.close(other)
        self.seen = ""

    def until(self, words):
        """Read until these words have been seen (None: until the process has closed the terminal)."""
        end = time.monotonic() + PATIENCE_S
        while words is None or words not in self.seen:
            ready, _, _ = select.select([self.side], [], [], max(0.0, end - time.monotonic()))
            if not ready or time.monotonic() > end:
                self.process.kill()
                pytest.fail(f"{words!r} did not come within {PATIENCE_S} s; what came ends in {self.seen[-300:]!r}")
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


BLOCKING = """
import time

async def blocks() -> str:
    "Never lets the event loop go on."
    print("it has begun")
    while True:
        time.sleep(0.01)
"""


def test_a_second_ctrl_c_leaves_the_terminal_as_it_was(tmp_path):
    """Where the process is ended by a second Ctrl-C, the cursor that was hidden is shown again."""
    (tmp_path / "blocking_tools.py").write_text(BLOCKING)
    with ChatServer([stream(called(0, "c1", "blocks", "{}"), chunk(finish="tool_calls"))]) as server:
        terminal = Terminal("--base-url", server.base_url, "--tool", "blocking_tools:blocks", cwd=tmp_path)
        terminal.until("it has begun")
        terminal.process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            terminal.process.wait(0.2)
        terminal.process.send_signal(signal.SIGINT)
        status = terminal.ended()

    assert 130 == status
    assert terminal.seen.rindex("\x1b[?25h") > terminal.seen.rindex("\x1b[?25l")


def test_json_on_a_terminal_is_one_object():
    """With --json only the line is drawn while the answer streams, and the object is printed at the end."""
    with ChatServer([stream(said("half an answer"), end=Hang())]) as server:
        terminal = Terminal("--base-url", server.base_url, "--json")
        terminal.until("streaming · request 1")
        live = terminal.seen
        terminal.process.send_signal(signal.SIGINT)
        status = terminal.ended()

    assert 130 == status
    assert "half an answer" not in live
    assert plain(terminal.seen).splitlines()[-1].startswith('{"outcome": "interrupted", "text": "half an answer"')
