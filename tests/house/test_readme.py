"""What the README shows is so: its programs run, its settings are taken, its links lead somewhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import tomllib
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from fsm_loop import LoopConfig
from fsm_loop.audit.reading import read
from fsm_loop.audit.verify import verify
from fsm_loop.cli.stops import STATUS_OF, Status
from tests.house.source import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"<!-- example: (\S+) -->\n```python\n(.*?)```\n", README, re.DOTALL))
HANG = "hang"
PATIENCE_S = 30  # for a program that should be over within a second


class Server(ThreadingHTTPServer):
    """A server of the OpenAI protocol that follows a script: for each request in turn, what it streams."""

    def __init__(self, script):
        super().__init__(("127.0.0.1", 0), Handler)
        self.replies = iter(script)
        self.requests = []
        self.closing = threading.Event()

    @property
    def base_url(self):
        """Where it is, as a client is told."""
        return f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        """Keep the request, and stream the next reply of the script."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(body)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for each in next(self.server.replies):
            if each == HANG:
                self.server.closing.wait(PATIENCE_S)
                return
            self.wfile.write(f"data: {each if isinstance(each, str) else json.dumps(each)}\n\n".encode())
            self.wfile.flush()

    def log_message(self, *args):
        """Nothing is told."""


@contextmanager
def serving(script):
    """A scripted server for as long as this lasts."""
    with Server(script) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.closing.set()
            server.shutdown()
            thread.join()


def chunk(delta, finish=None):
    """One chunk of a streamed reply."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "scripted", "choices": [choice]}


def says(*texts):
    """Chunks of text."""
    return [chunk({"content": text}) for text in texts]


def run(code, server, cwd=ROOT):
    """Run a program of the README against this server, and return what it prints."""
    env = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    env |= {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "none", "PYTHONUTF8": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert "" == done.stderr
    assert 0 == done.returncode
    return done.stdout


def test_the_embedding_example_runs():
    """The first program asks, runs its tool, asks again with the result, and tells the end."""
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a": 19, '}}
    rest = {"index": 0, "function": {"arguments": '"b": 23}'}}
    asks = [chunk({"tool_calls": [call]}), chunk({"tool_calls": [rest]}), chunk({}, "tool_calls"), "[DONE]"]
    answers = [*says("It is ", "42."), chunk({}, "stop"), "[DONE]"]
    with serving([asks, answers]) as server:
        said = run(EXAMPLES["examples/embed.py"], server)
    first, second = server.requests

    assert ["completed: It is 42.", "spent: None", "messages: 4"] == said.splitlines()
    assert ["add"] == [tool["function"]["name"] for tool in first["tools"]]
    assert [{"role": "user", "content": "What is 19 + 23?"}] == first["messages"]
    assert {"role": "tool", "tool_call_id": "call_1", "content": "42"} == second["messages"][-1]


def test_the_embedding_example_is_short():
    """The first program has fifteen lines, without those that are empty."""
    assert len([line for line in EXAMPLES["examples/embed.py"].splitlines() if line.strip()]) <= 15


def test_the_following_example_runs():
    """The second program shows words as they come, steers in the middle of a reply, and interrupts the next one."""
    english = [*says("one two ", "three four ", "five "), HANG]
    french = [*says("six sept ", "dix-neuf vingt "), HANG]
    with serving([english, french]) as server:
        said = run(EXAMPLES["examples/follow.py"], server)
    second = server.requests[1]["messages"]

    assert "one two three four five" in said
    assert "six sept dix-neuf vingt" in said
    assert "[calling > streaming: calling.stream_started]" in said
    assert "[streaming > calling: streaming.steer_given.is_now]" in said
    assert "The turn ended as interrupted in state streaming; asked by reader (enough)." == said.splitlines()[-1]
    assert [
        {"role": "assistant", "content": "one two three four five "},
        {"role": "user", "content": "Go on in French."},
    ] == second[-2:]


def test_the_audited_example_runs(tmp_path):
    """The third program leaves a trail that is verified, and says under which id."""
    with serving([[*says("A path."), chunk({}, "stop"), "[DONE]"]]) as server:
        outcome, turn_id = run(EXAMPLES["examples/audit.py"], server, tmp_path).split()
    verdict = verify(read(tmp_path / "trail.jsonl"))

    assert ("completed", True) == (outcome, verdict.verified)
    assert [(turn_id, True)] == [(each.turn_id, each.over) for each in verdict.turns]


def test_the_examples_are_the_files():
    """A program of the README is the file that its mark names, and each file is shown."""
    kept = {f"examples/{path.name}": path.read_text(encoding="utf-8") for path in (ROOT / "examples").glob("*.py")}

    assert kept == EXAMPLES


@pytest.mark.parametrize("name", ["diagram", "counters", "proof"])
def test_the_readme_holds_what_is_generated(name):
    """The marks of each generated block are there; that the block is current is the drift test's to say."""
    assert 1 == README.count(f"<!-- generated: {name} -->\n")


def test_the_configuration_is_taken(tmp_path):
    """The TOML file that is shown can be read, and each of its values is another one than the default."""
    text = re.search(r"```toml\n(.*?)```", README, re.DOTALL)[1]
    path = tmp_path / "limits.toml"
    path.write_text(text, encoding="utf-8")
    config = LoopConfig.from_toml(path)
    defaults = LoopConfig()
    names = tomllib.loads(text)["fsm_loop"]

    assert [] == [name for name in names if getattr(config, name) == getattr(defaults, name)]


def test_the_variables_are_known():
    """Each environment variable that is shown sets something."""
    shown = set(re.findall(r"\bFSM_LOOP_\w+", README))
    known = {env for row in LoopConfig.describe() for env in row.env}

    assert {"FSM_LOOP_STREAM_RETRIES"} <= shown <= known


def test_the_exit_statuses_are_those_of_the_command():
    """The table of exit statuses has each of the command's, with the outcomes that give it."""
    section = README.partition("| exit status | meaning |")[2].partition("\n\n")[0]
    shown = {int(number): words for number, words in re.findall(r"\| (\d+) \| (.*) \|", section)}

    assert {status.value for status in Status} == set(shown)
    assert [] == [outcome for outcome, status in STATUS_OF.items() if outcome not in shown[status.value]]


def test_the_outcomes_are_all_there():
    """The table of outcomes has each that a turn can end with."""
    section = README.partition("| outcome | what it means |")[2].partition("\n\n")[0]

    assert set(STATUS_OF) == set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))


def test_the_links_lead_somewhere():
    """Each file that is linked to is there."""
    links = re.findall(r"\]\(([^)#]+)\)", README)

    assert links
    assert [] == [link for link in links if "://" not in link and not (ROOT / link).exists()]


def test_the_make_targets_are_there():
    """Each `make` that is shown is a target of the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    shown = set(re.findall(r"(?:\$ |`)make ([a-z-]+)", README))

    assert {"run", "test"} <= shown <= targets


def test_the_extras_are_there():
    """Each extra that is shown is one of the package's."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    shown = {extra for names in re.findall(r"'\.\[([\w,]+)\]'", README) for extra in names.split(",")}

    assert {"http"} <= shown <= set(project["optional-dependencies"])
