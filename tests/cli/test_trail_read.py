"""`fsm-loop trail why`, `show` and `stats`: what they print of a trail, and what they say where there is none."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest

from fsm_loop.audit.jsonl import JsonLines
from fsm_loop.cli.trail_show import POLL_S, WIDTH, followed
from fsm_loop.core.faults import FaultKind
from fsm_loop.testing.fakes import calls, fails, says
from tests.drive.turns import drive

CALL = calls(("add", {"a": 1, "b": 2}))
SCRIPTS = {
    "completed": [fails(FaultKind.OVERLOADED, "busy\x1b[2J", status=503), CALL, says("three")],
    "exhausted": [CALL] * 3,
    "failed": [fails(FaultKind.ACCESS_DENIED, "no such key", status=401)],
}


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.fixture
def trail(tmp_path):
    """A trail of turns of these outcomes, in this order."""

    def write(*outcomes, name="trail.jsonl"):
        with JsonLines(tmp_path / name) as watcher:
            for outcome in outcomes:
                drive(SCRIPTS[outcome], tools=[add], max_iterations=2, grace_calls=0, ports={"watchers": [watcher]})
        return tmp_path / name

    return write


def ids(path):
    """The ids of the turns, in the order in which they began."""
    return [each["turn"] for each in map(json.loads, path.read_text().splitlines()) if each["is"] == "opening"]


def test_why_of_one_turn(command, trail):
    """The sentences of the turn, and nothing else."""
    path = trail("failed")
    status, out, err = command("trail", "why", path)

    assert (0, "") == (status, err)
    assert f"Turn {ids(path)[0]} ended as failed: 1 call, 0 tool calls, 0.0 s.\n" == out.splitlines(keepends=True)[0]
    assert "another provider to fall back to: there is none behind the first." in out


def test_why_of_several_turns(command, trail):
    """Those that did not complete are told of, and all are counted; one can be named."""
    path = trail("completed", "failed", "exhausted", "completed")
    first, failed, exhausted, _ = ids(path)
    _, out, _ = command("trail", "why", path)
    _, one, _ = command("trail", "why", path, "--turn", first[:12])

    assert [failed, exhausted] == [line.split()[1] for line in out.splitlines() if line.startswith("Turn ")]
    assert out.endswith("4 turns: 2 completed, 1 failed, 1 exhausted.\n")
    assert one.startswith(f"Turn {first} ended as completed: 3 calls")
    assert "\x1b" not in one  # what a provider says does not steer a terminal


def test_why_as_json(command, trail):
    """One object holds outcome, counter and sentences of every turn."""
    _, out, _ = command("trail", "why", trail("exhausted", "completed"), "--json")
    exhausted, completed = json.loads(out)["turns"]

    assert ("exhausted", "iterations") == (exhausted["outcome"], exhausted["counter"])
    assert ("completed", "") == (completed["outcome"], completed["counter"])
    assert exhausted["sentences"][0].startswith("Turn ")


def test_show(command, trail):
    """A line for each decision: when, from where to where, by which row, what was counted, waited for and said."""
    path = trail("completed")
    status, out, _ = command("trail", "show", path)
    lines = out.splitlines()

    assert 0 == status
    assert f"turn {ids(path)[0]}" == lines[0]
    assert "0  ready > calling           ready.turn_started" in lines[2]
    assert "api_retries 0->1/3  waits 4.8 s (backoff)  ! overloaded: busy" in lines[5]
    assert "runs add" in lines[10]
    assert all(len(line) <= WIDTH for line in lines)
    assert "ended as completed; 3 calls" in lines[-1]
    assert "\x1b" not in out


def test_show_names_the_counter_that_ended_a_turn(command, trail):
    """The last line of an exhausted turn says which counter was spent."""
    path = trail("completed", "exhausted")
    _, out, _ = command("trail", "show", path, "--turn", ids(path)[1])

    assert "ended as exhausted, iterations at 2 of 2; 2 calls" in out.splitlines()[-1]
    assert ids(path)[0] not in out


class EnoughError(Exception):
    """The test has seen enough."""


def until_enough(things):
    """The things up to the moment at which the test has seen enough."""
    with suppress(EnoughError):
        yield from things


def test_a_file_that_grows_is_followed(trail, tmp_path):
    """Records are told as they come; half a line is waited for; a file that is begun anew is read from its start."""
    whole = trail("failed").read_bytes()
    path, polls = tmp_path / "growing", []

    def grow(seconds):
        polls.append(seconds)
        match len(polls):
            case 1:
                path.write_bytes(whole[:100])
            case 2:
                path.write_bytes(whole)
            case 3:
                path.unlink()
                path.write_bytes(whole.splitlines(keepends=True)[0])
            case 4:
                raise EnoughError

    seen = list(until_enough(each["is"] for each in followed(path, poll=grow)))
    count = len(whole.splitlines())

    assert ["opening", *["decision"] * (count - 2), "end", "opening"] == seen
    assert [POLL_S] * 4 == polls


def test_stats(command, trail):
    """Ends, counters, faults and spends are counted, and times are spread."""
    status, out, _ = command("trail", "stats", trail("completed", "failed", "exhausted", "completed"))

    assert 0 == status
    assert out.startswith("4 turns, ")
    for line in (
        "  completed                     2   50.0 %",
        "  iterations                    1   25.0 %",
        "  access_denied                 1   25.0 %",
        "  overloaded                    2",
    ):
        assert line in out.splitlines()


def test_stats_as_json(command, trail):
    """One object holds every figure; a turn whose end is missing and a line that is broken are counted."""
    path = trail("completed", "exhausted", "failed")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]) + b"nonsense\n")
    status, out, err = command("trail", "stats", path, "--json")
    told = json.loads(out)

    assert 0 == status
    assert f"{path}:{len(lines)}: it is no JSON object" in err
    assert (3, 1, 1, len(lines) - 6) == (told["turns"], told["unfinished"], told["broken_lines"], told["decisions"])
    assert {"completed": 1, "exhausted": 1} == told["outcomes"]
    assert {"iterations": 1} == told["ended_by_counter"]
    assert {"overloaded": 1, "access_denied": 1} == told["faults"]
    assert {"requests": 6, "iterations": 3, "api_retries": 1} == told["spends"]
    assert {"count": 2, "p50": 2, "p95": 3, "p99": 3, "max": 3} == told["calls"]
    assert told["waited_s"]["max"] == pytest.approx(told["in_state_s"]["backoff"]["max"])


@pytest.mark.parametrize("name", ["why", "show", "stats"])
@pytest.mark.parametrize(
    ("text", "sentence"), [(None, "cannot be read: No such file or directory"), ("", "there is no turn")]
)
def test_what_is_no_trail_is_status_2(command, tmp_path, name, text, sentence):
    """A file that is none, or holds none, is a sentence on standard error."""
    if text is not None:
        (tmp_path / "t").write_text(text)
    status, out, err = command("trail", name, tmp_path / "t")

    assert (2, "") == (status, out)
    assert sentence in err


@pytest.mark.parametrize(
    "line", ['{"is":"decision","turn":"x"}', '{"is":"opening","turn":"x"}', '{"is":"end","turn":"x","outcome":3}']
)
def test_a_record_that_is_not_whole_is_told(command, trail, line):
    """It is told of, whatever it lacks; the figures and the table go on with the next record."""
    path = trail("failed")
    path.write_text(f"{line}\n{path.read_text()}")
    _, shown, _ = command("trail", "show", path)
    status, counted, _ = command("trail", "stats", path)
    result, _, err = command("trail", "why", path)

    assert (0, "") == (status, err if result == 0 else "")
    assert "ended as failed; 1 call" in shown
    assert "access_denied" in counted
    if "opening" not in line:
        assert "a record that is not whole" in shown
        assert "1 line could not be read" in counted
        assert (2, True) == (result, "a record is not whole" in err)


def test_turns_without_an_end_are_bounded(command, trail, monkeypatch):
    """Where more turns than the limit have no end, the count stops with a sentence."""
    monkeypatch.setattr("fsm_loop.audit.stats.MOST_OPEN_TURNS", 1)
    path = trail("failed", "failed")
    path.write_text("".join(line for line in path.read_text().splitlines(keepends=True) if '"is":"end"' not in line))
    status, out, err = command("trail", "stats", path)

    assert (2, "") == (status, out)
    assert "more than 1 turns have no end" in err


def test_a_turn_that_is_not_there(command, trail):
    """Its name is said again."""
    for name in ("why", "show"):
        status, _, err = command("trail", name, trail("failed"), "--turn", "zzz")

        assert 2 == status
        assert "there is no turn zzz in" in err
