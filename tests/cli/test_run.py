"""One run of a turn, in this process, with scripted models in the place of real ones."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path

import pytest

from fsm_loop.audit.reading import read
from fsm_loop.audit.sqlite import MAGIC
from fsm_loop.audit.verify import verify
from fsm_loop.cli import main, run
from fsm_loop.core.faults import Fault, FaultKind
from fsm_loop.errors import MissingExtra, ModelError
from fsm_loop.testing.fakes import ScriptedModel, calls, fails, says


class Closing(ScriptedModel):
    """A scripted model that has connections to close."""

    closed = False

    async def aclose(self):
        self.closed = True


@pytest.fixture
def asked(monkeypatch, capsys):
    """The command, asked with these models behind it: its status, what it printed, what it said beside that."""

    def ask(*models, arguments=()):
        @contextmanager
        def models_for(options, tell):
            yield models

        monkeypatch.setattr(run, "models_for", models_for)
        monkeypatch.setattr(run, "nobody_at", lambda options: "")
        return (main(["run", "hi", *arguments]), *capsys.readouterr())

    return ask


def stops_with(monkeypatch, error):
    """Whatever is done to get a model raises this."""

    @contextmanager
    def models_for(options, tell):
        raise error
        yield

    monkeypatch.setattr(run, "models_for", models_for)


def test_the_answer_is_printed(asked):
    """The answer ends with one line feed, whether the model wrote one or not."""
    for text in ("an answer", "an answer\n"):
        status, out, err = asked(ScriptedModel([says(text)]))

        assert (0, "an answer\n") == (status, out)
        assert err.endswith("The turn ended as completed in state streaming.\n")


def test_no_answer_prints_nothing(asked):
    """A turn without an answer leaves standard output empty."""
    status, out, err = asked(ScriptedModel([fails(FaultKind.ACCESS_DENIED, "no")]))

    assert (1, "") == (status, out)
    assert "the credential may not do this: no." in err


def test_a_fallback_is_behind_the_model(asked):
    """The second model answers where the first one cannot."""
    status, out, _ = asked(ScriptedModel([fails(FaultKind.ACCESS_DENIED)]), ScriptedModel([says("from the second")]))

    assert (0, "from the second\n") == (status, out)


def test_connections_are_closed_inside_the_event_loop(asked):
    """Every model that has connections has closed them when the run is over."""
    model = Closing([says("ok")])
    asked(model)

    assert model.closed


def test_what_fails_after_the_answer_adds_no_second_object(asked):
    """Once the object is printed, a failure is a sentence and an exit status, and nothing more is printed."""

    class Stuck(ScriptedModel):
        async def aclose(self):
            raise RuntimeError("will not close")

    status, out, err = asked(Stuck([says("ok")]), arguments=["--json"])

    assert 1 == status
    assert "completed" == json.loads(out)["outcome"]
    assert err.startswith("fsm-loop: a fault of fsm-loop itself: RuntimeError: will not close")


def test_with_json_nothing_else_is_printed(asked):
    """With --json there is one line on standard output, and nothing beside it."""
    status, out, err = asked(ScriptedModel([says("ok")]), arguments=["--json"])

    assert (0, "") == (status, err)
    assert "completed" == json.loads(out)["outcome"]
    assert 1 == out.count("\n")


def test_a_tool_may_print(asked, tmp_path, monkeypatch):
    """What a tool prints while the turn runs is no part of the answer."""
    (tmp_path / "prints_.py").write_text("def add(a: int, b: int) -> int:\n    print('noise')\n    return a + b\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    script = [calls(("add", {"a": 1, "b": 2})), says("three")]
    status, out, err = asked(ScriptedModel(script), arguments=["--tool", "prints_:add"])

    assert (0, "three\n") == (status, out)
    assert err.startswith("noise\n")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MissingExtra("the embedded model needs a package"), "the embedded model needs a package"),
        (ModelError(Fault(FaultKind.NOT_READY, "no weights")), "the provider could not be made ready: no weights"),
        (RuntimeError("broken"), "a fault of fsm-loop itself: RuntimeError: broken (test_run.py, line "),
    ],
)
@pytest.mark.parametrize("options", [[], ["--json"]], ids=["text", "json"])
def test_a_run_without_a_turn(monkeypatch, capsys, error, expected, options):
    """Where no turn can begin, a sentence says why, exit status 1, and with --json the object says it too."""
    stops_with(monkeypatch, error)
    status = main(["run", "hi", *options])
    out, err = capsys.readouterr()

    assert 1 == status
    assert err.startswith(f"fsm-loop: {expected}")
    if options:
        assert ("failed", True) == (json.loads(out)["outcome"], json.loads(out)["why"].startswith(expected))
    else:
        assert "" == out


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["text", "json"])
def test_ctrl_c_before_the_turn(monkeypatch, capsys, options):
    """An interrupt while the model is being made ready is an interrupted turn that never began."""
    stops_with(monkeypatch, KeyboardInterrupt())
    status = main(["run", "hi", *options])
    out, err = capsys.readouterr()

    assert (130, "fsm-loop: the turn was interrupted before it began\n") == (status, err)
    assert (["interrupted"] if options else []) == [json.loads(line)["outcome"] for line in out.splitlines()]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_trail_that_ends_early_is_said(asked):
    """A trail that can no longer be written changes nothing of the turn, and is told."""
    status, out, err = asked(ScriptedModel([says("ok")]), arguments=["--trail", "/dev/full"])

    assert (0, "ok\n") == (status, out)
    assert "fsm-loop: the trail ended early: JsonLines: OSError: " in err


def test_a_trail_may_be_a_store(asked, tmp_path):
    """A trail whose name ends as a database's is one, and its records are verified."""
    path = tmp_path / "t.sqlite"
    status, *_ = asked(ScriptedModel([says("ok")]), arguments=["--trail", str(path)])
    (turn,) = verify(read(path)).turns

    assert (0, None, "completed") == (status, turn.problem, turn.outcome)
    assert path.read_bytes().startswith(MAGIC)
