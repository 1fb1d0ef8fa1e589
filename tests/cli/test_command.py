"""The command itself, as its own process, against a real server on loopback."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from attrs import frozen

from fsm_loop.testing.server import (
    NO_ANSWER,
    SILENCE,
    ChatServer,
    Hang,
    called,
    chunk,
    failure,
    said,
    stream,
)

PATIENCE_S = 60  # of a test with its process; each is over in a second or two
KEY = "sk-do-not-tell-anybody"
LAST = chunk(finish="stop")

TOOLS = """
import os, threading

def add(a: int, b: int) -> int:
    "Add two numbers."
    print("noise of a tool")
    os.system("echo noise of a process")
    return a + b

def stuck() -> str:
    "Never comes back."
    threading.Event().wait()
"""


@frozen
class Ended:
    """A process that has ended."""

    status: int
    out: str
    err: str

    @property
    def told(self):
        """The one object on standard output."""
        return json.loads(self.out)


class Command:
    """Starts the command in a directory of its own, with an environment that says nothing to it."""

    def __init__(self, directory):
        self.directory = directory
        ours = ("OPENAI_", "FSM_LOOP_", "HERMES_")
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}

    def start(self, *arguments, stdout=subprocess.PIPE, **environment):
        return subprocess.Popen(
            [sys.executable, "-m", "fsm_loop", *arguments],
            cwd=self.directory,
            env={**self.environment, **environment},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ended(self, process):
        try:
            out, err = process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()  # a test that fails leaves nothing behind
            raise
        assert "Traceback" not in err
        return Ended(process.returncode, out or "", err)

    def __call__(self, *arguments, **environment):
        return self.ended(self.start(*arguments, **environment))

    def run(self, server, *arguments, **environment):
        return self("run", "hi", "--base-url", server.base_url, *arguments, **environment)

    def sees(self, words):
        """Wait until the trail holds these words."""
        self.until(lambda: (self.directory / "t").exists() and words in (self.directory / "t").read_text())

    def until(self, holds):
        """Wait until it holds; a test that waits too long fails."""
        end = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < end
            time.sleep(0.01)


@pytest.fixture
def command(tmp_path):
    """The command, in a directory that holds the module `my_tools`."""
    (tmp_path / "my_tools.py").write_text(TOOLS)
    return Command(tmp_path)


def test_the_answer_and_nothing_else_is_piped(command):
    """Standard output holds the joined answer; the path through the states and the end stand beside it."""
    with ChatServer([stream(said("one "), chunk(finish="length")), stream(said("two"), LAST)]) as server:
        ended = command.run(server, "--max-tokens", "5", "--system", "be brief", "--model", "m1")
    asked = server.requests[0].body

    assert (0, "one two\n") == (ended.status, ended.out)
    assert "ready > calling > streaming > truncated > calling > streaming > done" in ended.err
    assert "streaming.model_replied.was_cut" in ended.err
    assert ended.err.endswith("The turn ended as completed in state streaming.\n")
    assert ("m1", 5, [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]) == (
        *(asked[key] for key in ("model", "max_tokens", "messages")),
    )


def test_json_is_one_object_whatever_tools_print(command):
    """With --json, standard output holds one object, and what tools and their processes print goes elsewhere."""
    calls = stream(called(0, "c1", "add", '{"a": 1, "b": 2}'), chunk(finish="tool_calls"))
    with ChatServer([calls, stream(said("three"), LAST)]) as server:
        ended = command.run(server, "--json", "--tool", "my_tools:add")

    assert (0, "completed", "three") == (ended.status, ended.told["outcome"], ended.told["text"])
    assert [["ready", "ready.turn_started", "calling"], ["streaming", "streaming.model_replied", "done"]] == [
        ended.told["path"][0],
        ended.told["path"][-1],
    ]
    assert "noise of a tool\n" in ended.err
    assert "noise of a process\n" in ended.err


def test_noise_of_tools_is_not_piped(command):
    """Without --json too, only the answer is piped."""
    calls = stream(called(0, "c1", "add", '{"a": 1, "b": 2}'), chunk(finish="tool_calls"))
    with ChatServer([calls, stream(said("three"), LAST)]) as server:
        ended = command.run(server, "--tool", "my_tools:add")

    assert (0, "three\n") == (ended.status, ended.out)


OUTCOMES = [
    (0, "completed", [stream(said("ok"), LAST)], {}),
    (1, "failed", [failure(404, "no such model", code="model_not_found")], {}),
    (3, "refused", [stream(said("no"), chunk(finish="content_filter"))], {}),
    (3, "partial", [stream(said("half"), chunk(finish="length"))], {"FSM_LOOP_CONTINUATIONS": "0"}),
    (3, "exhausted", [stream(called(0, "c1", "add", '{"a": 1, "b": 2}'), chunk(finish="tool_calls")), stream(said("so far"), LAST)], {"FSM_LOOP_MAX_ITERATIONS": "1"}),
]  # fmt: skip


@pytest.mark.parametrize(("status", "outcome", "script", "environment"), OUTCOMES, ids=[each[1] for each in OUTCOMES])
def test_the_exit_status(command, status, outcome, script, environment):
    """The exit status says how the turn ended, and the object says it in a word."""
    with ChatServer(script) as server:
        ended = command.run(server, "--json", "--tool", "my_tools:add", **environment)

    assert (status, outcome) == (ended.status, ended.told["outcome"])


HALF = stream(said("half"), end=Hang())
HANGING = [
    ("calling", "", SILENCE, True, signal.SIGINT, "user (Ctrl-C)"),
    ("calling", "", SILENCE, False, signal.SIGTERM, "system (SIGTERM)"),
    ("streaming", "half", HALF, True, signal.SIGTERM, "system (SIGTERM)"),
    ("streaming", "half", HALF, False, signal.SIGINT, "user (Ctrl-C)"),
]


@pytest.mark.parametrize(("state", "text", "answer", "as_json", "number", "issuer"), HANGING)
def test_a_signal_interrupts_the_turn(command, state, text, answer, as_json, number, issuer):
    """A signal during a server's silence ends the turn, and its result and its end are still told."""
    with ChatServer([answer]) as server:
        process = command.start("run", "hi", "--base-url", server.base_url, "--trail", "t", *["--json"] * as_json)
        assert server.began.wait(PATIENCE_S)
        command.sees(f'"after":"{state}"')
        process.send_signal(number)
        ended = command.ended(process)
    why = f"The turn ended as interrupted in state {state}; asked by {issuer}."

    assert 130 == ended.status
    if as_json:
        assert ["interrupted", text, state, why] == [ended.told[k] for k in ("outcome", "text", "last_state", "why")]
    else:
        assert (f"{text}\n" if text else "") == ended.out
        assert ended.err.endswith(f"{why}\n")


def test_a_tool_that_never_comes_back_keeps_nobody(command):
    """Ctrl-C during a tool that is stuck in its thread ends the turn and the process."""
    with ChatServer([stream(called(0, "c1", "stuck", "{}"), chunk(finish="tool_calls"))]) as server:
        process = command.start(
            "run", "hi", "--base-url", server.base_url, "--trail", "t", "--tool", "my_tools:stuck", "--json"
        )
        command.sees('"after":"tool_exec"')
        process.send_signal(signal.SIGINT)
        ended = command.ended(process)

    assert (130, "interrupted", "tool_exec") == (ended.status, ended.told["outcome"], ended.told["last_state"])
    assert "outcome unknown" in ended.told["messages"][2]["content"]


BLOCKING = """
import time

async def blocks() -> str:
    "Never lets the event loop go on."
    open("began", "w").close()
    while True:
        time.sleep(0.01)
"""


def test_a_second_signal_leaves_at_once(command):
    """Where even the event loop is stuck, the second Ctrl-C ends the process."""
    (command.directory / "blocking_tools.py").write_text(BLOCKING)
    with ChatServer([stream(called(0, "c1", "blocks", "{}"), chunk(finish="tool_calls"))]) as server:
        process = command.start("run", "hi", "--base-url", server.base_url, "--tool", "blocking_tools:blocks", "--json")
        command.until((command.directory / "began").exists)
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.2)
        process.send_signal(signal.SIGINT)
        ended = command.ended(process)

    assert (130, "") == (ended.status, ended.out)


def unused_port():
    """A port of this machine at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


UNREACHABLE = [
    ("http://127.0.0.1:{port}/v1", "http://127.0.0.1:{port}/v1 cannot be reached (Connection refused)"),
    ("http://me:secret@127.0.0.1:{port}/v1", "http://127.0.0.1:{port}/v1 cannot be reached (Connection refused)"),
]


@pytest.mark.parametrize(("url", "expected"), UNREACHABLE, ids=["plain", "with-a-password"])
def test_a_server_that_is_not_there(command, url, expected):
    """A server that was never there is asked once: a sentence, exit status 1, and an object that says the same."""
    port = unused_port()
    ended = command("run", "hi", "--base-url", url.format(port=port), "--json")

    assert (1, "failed", "connect_failed") == (ended.status, ended.told["outcome"], ended.told["fault"]["kind"])
    assert 1 == ended.told["llm_calls"]
    assert f"fsm-loop: {expected.format(port=port)}; it is asked once, and nothing is retried\n" == ended.err
    assert "secret" not in ended.out


def test_a_fallback_is_asked_where_the_primary_is_not_there(command):
    """With a fallback behind it, a server that is not there is the turn's business."""
    with ChatServer([stream(said("ok"), LAST)]) as server:
        ended = command(
            *("run", "hi", "--base-url", f"http://127.0.0.1:{unused_port()}/v1"),
            *("--fallback", f"other@{server.base_url}", "--json"),
            OPENAI_API_KEY=KEY,
            FSM_LOOP_API_MAX_RETRIES="0",
        )
    (asked,) = server.requests

    assert (0, "ok", 1) == (ended.status, ended.told["text"], ended.told["counters"]["fallbacks"])
    assert "other" == asked.body["model"]
    assert KEY not in str(asked.headers)


def test_a_key_is_sent_and_never_told(command):
    """The key reaches the server, and no message, object or trail holds it, even where the server says it again."""
    with ChatServer([failure(403, f"the key {KEY} may not do this")]) as server:
        ended = command.run(server, "--json", "--trail", "t", "--api-key-env", "MY_KEY", MY_KEY=KEY)

    assert f"Bearer {KEY}" == server.requests[0].headers["authorization"]
    assert (1, "access_denied") == (ended.status, ended.told["fault"]["kind"])
    assert KEY not in ended.out + ended.err + (command.directory / "t").read_text()


def test_a_config_file_is_read(command):
    """Limits come from the file, and the environment before it."""
    (command.directory / "limits.toml").write_text("max_output_tokens = 11\nstream_retries = 0\n")
    with ChatServer([NO_ANSWER]) as server:
        ended = command.run(
            server, "--config", "limits.toml", "--json", FSM_LOOP_API_MAX_RETRIES="0", FSM_LOOP_RECOVERIES="0"
        )

    assert 11 == server.requests[0].body["max_tokens"]
    assert (1, 1) == (ended.status, ended.told["llm_calls"])


def test_a_trail_is_the_path(command):
    """The file of --trail holds a line for each decision of the path, between an opening and an end."""
    with ChatServer([stream(said("ok"), LAST)]) as server:
        ended = command.run(server, "--trail", "t", "--json")
    lines = [json.loads(line) for line in (command.directory / "t").read_text().splitlines()]

    assert ended.told["path"] == [[line["state"], line["row"], line["after"]] for line in lines[1:-1]]


def test_a_reader_that_leaves_is_no_fault(command):
    """A pipe that is closed early ends the command without a word about it."""
    with ChatServer([stream(said("ok"), LAST)]) as server:
        process = command.start("run", "hi", "--base-url", server.base_url)
        process.stdout.close()
        process.stdout = None
        ended = command.ended(process)

    assert 1 == ended.status
    assert "roken" not in ended.err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("options", [[], ["--json"]], ids=["text", "json"])
def test_a_full_disk_is_said(command, options):
    """An answer that cannot be written is a sentence and a failure."""
    with ChatServer([stream(said("ok"), LAST)]) as server, Path("/dev/full").open("w") as full:
        process = command.start("run", "hi", "--base-url", server.base_url, *options, stdout=full)
        ended = command.ended(process)

    assert 1 == ended.status
    assert ended.err.endswith("fsm-loop: the answer could not be written: No space left on device\n")


def test_python_m_and_the_script_are_the_same(command):
    """The installed script and `python -m fsm_loop` print the same version."""
    script = subprocess.run(
        [Path(sys.executable).with_name("fsm-loop"), "--version"], capture_output=True, text=True, check=True
    )

    assert script.stdout == command("--version").out


def test_without_its_parts_the_command_says_how_to_get_them(command):
    """Where typer is not installed, one sentence says what to install."""
    hidden = "import sys; sys.modules['typer'] = None; from fsm_loop.cli import main; sys.exit(main(['--version']))"
    process = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, check=False)

    assert (1, "") == (process.returncode, process.stdout)
    assert process.stderr.endswith("install it with: pip install 'fsm-loop[cli]'\n")
    assert 1 == process.stderr.count("\n")
