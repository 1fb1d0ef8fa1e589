"""The commands and their options, and what is said where they are wrong."""

from __future__ import annotations

import importlib.metadata
import tomllib

import pytest

from fsm_loop.cli.stops import STATUS_OF, Status, Stop, stop_of
from fsm_loop.config import LoopConfig
from fsm_loop.core.faults import Fault, FaultKind
from fsm_loop.errors import ConfigError, FsmLoopError, MessageError, MissingExtra, ModelError, ToolError
from fsm_loop.export import check, mermaid, write
from fsm_loop.export.model import outline

URL = ("--base-url", "http://127.0.0.1:9/v1")


@pytest.fixture(autouse=True)
def nothing_in_the_environment(monkeypatch, tmp_path):
    """No key, no address and no limit of whoever runs the tests."""
    import os

    for name in list(os.environ):
        if name.startswith(("OPENAI_", "FSM_LOOP_", "HERMES_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


WRONG = [
    (["nonsense"], "No such command 'nonsense'; see `fsm-loop --help`"),
    (["run"], "Missing argument 'prompt'; see `fsm-loop run --help`"),
    (["run", "hi", "--nonsense"], "No such option: --nonsense"),
    (["run", "hi", "--model"], "Option '--model' requires an argument; see `fsm-loop"),
    (["run", "hi", "--provider", "nonsense"], "Invalid value for '--provider'"),
    (["run", "hi", "--max-tokens", "many"], "Invalid value for '--max-tokens'"),
    (["run", "hi", *URL, "--max-tokens", "0"], "max_output_tokens: 0 is too small"),
    (["run", "hi", "--provider", "openai"], "there is no key: set OPENAI_API_KEY"),
    (["run", "hi", "--base-url", "nonsense"], "--base-url: 'nonsense' is not an address"),
    (["run", "hi", "--api-key-env", "NO_SUCH_KEY"], "--api-key-env: the environment variable NO_SUCH_KEY is not set"),
    (["run", "hi", "--provider", "local", *URL], "--base-url does not go with --provider local"),
    (["run", "hi", "--provider", "local", "--fallback", "m"], "--fallback m: with --provider local, give its address"),
    (["run", " ", *URL], "the prompt is empty; say what to ask"),
    (["run", "hi", *URL, "--tool", "nonsense"], "--tool nonsense: give a module and a function"),
    (["run", "hi", *URL, "--tool", "no_such_module:f"], "--tool no_such_module:f: there is no module no_such_module"),
    (["run", "hi", *URL, "--tool", "os:nonsense"], "--tool os:nonsense: the module os has no function nonsense"),
    (["run", "hi", *URL, "--tool", "os:listdir"], "tool listdir: parameter 'path' has no type hint"),
    (["run", "hi", *URL, "--tool", "platform:node", "--tool", "platform:node"], "two tools are named 'node'"),
    (["run", "hi", *URL, "--config", "nowhere.toml"], "nowhere.toml: cannot be read: No such file or directory"),
    (["run", "hi", *URL, "--trail", "nowhere/trail"], "--trail: nowhere/trail cannot be written: No such file or directory"),
    (["config", "--config", "nowhere.toml"], "nowhere.toml: cannot be read: No such file or directory"),
    (["export", "--root", "nowhere"], "--root: nowhere is not a directory"),
    (["diagram", "--view", "nonsense"], "Invalid value for '--view'"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "expected"), WRONG, ids=[" ".join(each[0]) for each in WRONG])
def test_a_wrong_use_is_said_in_a_sentence(command, arguments, expected):
    """A wrong use is exit status 2, one sentence that says what is wrong, and nothing printed."""
    status, out, err = command(*arguments)

    assert (2, "") == (status, out)
    assert err.startswith(f"fsm-loop: {expected}")
    assert 1 == err.count("\n")


def test_a_bad_value_of_the_environment_is_said(command, monkeypatch):
    """A limit that is none is refused with its variable's name, before anything is asked."""
    monkeypatch.setenv("FSM_LOOP_STREAM_RETRIES", "many")
    status, out, err = command("run", "hi", *URL)

    assert (2, "") == (status, out)
    assert err.startswith("fsm-loop: FSM_LOOP_STREAM_RETRIES: 'many' is not a whole number; allowed:")


def test_without_a_command_there_is_help(command):
    """The command alone says what it can do, as a wrong use."""
    status, out, err = command()

    assert (2, "") == (status, out)
    assert all(name in err for name in ("run", "export", "diagram", "config"))


@pytest.mark.parametrize("name", ["run", "export", "diagram", "config"])
def test_help_is_printed(command, name):
    """Help is asked for, so it is printed."""
    status, out, err = command(name, "--help")

    assert (0, "") == (status, err)
    assert out.startswith(f"Usage: fsm-loop {name} ")


def test_the_version(command):
    """The version is the installed package's."""
    assert (0, f"fsm-loop {importlib.metadata.version('fsm-loop')}\n", "") == command("--version")


def test_the_settings_are_a_file_that_can_be_read_back(command, tmp_path, monkeypatch):
    """What is printed sets exactly what is in force: the file's values, and the environment's before them."""
    (tmp_path / "limits.toml").write_text("max_iterations = 7\ntool_timeout_s = 'none'\ncost = 1.5\n")
    monkeypatch.setenv("HERMES_STREAM_RETRIES", "0")
    status, out, err = command("config", "--config", "limits.toml")
    (tmp_path / "printed.toml").write_text(out)
    read_back = LoopConfig.from_toml(tmp_path / "printed.toml")

    assert (0, "") == (status, err)
    assert LoopConfig(max_iterations=7, tool_timeout_s=None, cost=1.5, stream_retries=0) == read_back
    assert [row.name for row in LoopConfig.describe()] == list(tomllib.loads(out)["fsm_loop"])


def test_a_setting_is_told_whole(command):
    """A setting has its sentence, its unit, its environment variables and its value."""
    _, out, _ = command("config")

    assert (
        "# Silent reconnects after a dropped stream; one more attempt than this is made. "
        "(reconnects; FSM_LOOP_STREAM_RETRIES, HERMES_STREAM_RETRIES)\nstream_retries = 2\n"
    ) in out


@pytest.mark.parametrize(
    ("arguments", "draw"),
    [([], mermaid.overview), (["--view", "overview"], mermaid.overview), (["--view", "full"], mermaid.full)],
)
def test_a_diagram(command, tmp_path, arguments, draw):
    """The diagram is the page's, printed or written."""
    expected = draw(outline())

    assert (0, expected, "") == command("diagram", *arguments)
    assert (0, "", "") == command("diagram", *arguments, "-o", "drawn.mmd")
    assert expected == (tmp_path / "drawn.mmd").read_text(encoding="utf-8")


def test_a_diagram_that_cannot_be_written_is_said(command):
    """A place that is not there is a sentence and a failure."""
    status, _, err = command("diagram", "-o", "nowhere/drawn.mmd")

    assert (1, "fsm-loop: --output: nowhere/drawn.mmd: No such file or directory\n") == (status, err)


def test_export_writes_what_is_generated(command, tmp_path):
    """What is generated is written once; after that all is current."""
    status, out, err = command("export")

    assert (0, "") == (status, err)
    assert "diagrams/overview.mmd" in out.splitlines()
    assert "" == check(tmp_path)
    assert (0, "", "") == command("export")
    assert (0, "", "") == command("export", "--check")


def test_export_check_shows_what_has_drifted(command, tmp_path):
    """A generated file that was edited is shown as a difference, and nothing is written."""
    write(tmp_path)
    edited = tmp_path / "diagrams" / "overview.mmd"
    edited.write_text("by hand\n")
    status, out, err = command("export", "--check", "--root", str(tmp_path))

    assert (1, "fsm-loop: generated files are not current; run `fsm-loop export`\n") == (status, err)
    assert "-by hand\n" in out
    assert "by hand\n" == edited.read_text()


@pytest.mark.parametrize(
    ("error", "expected", "status"),
    [
        (Stop("so", Status.FAILED), "so", 1),
        (ConfigError("bad"), "bad", 2),
        (ToolError("bad"), "bad", 2),
        (MessageError("bad"), "bad", 2),
        (MissingExtra("install it"), "install it", 1),
        (FsmLoopError("it did not start"), "it did not start", 1),
        (ModelError(Fault(FaultKind.NOT_READY, "no weights")), "the provider could not be made ready: no weights", 1),
        (KeyError("a\nb"), "a fault of fsm-loop itself: KeyError: 'a\\nb'", 1),
    ],
)
def test_an_error_in_a_sentence(error, expected, status):
    """Every error has its sentence and its exit status."""
    stop = stop_of(error)

    assert (expected, status) == (stop.sentence, stop.status)


def test_a_fault_of_ours_names_its_place():
    """An error that nobody foresaw says where it arose, since no traceback does."""
    with pytest.raises(ZeroDivisionError) as caught:
        1 / 0  # noqa: B018  # it is there to raise

    assert "(test_app.py, line " in stop_of(caught.value).sentence


def test_every_outcome_has_a_status():
    """Exit statuses are as the help says them."""
    said = {"completed": 0, "failed": 1, "partial": 3, "exhausted": 3, "refused": 3, "interrupted": 130}

    assert said == STATUS_OF
