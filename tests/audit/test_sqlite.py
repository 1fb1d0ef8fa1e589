"""The trails of many turns in one SQLite file."""

from __future__ import annotations

import sqlite3

import pytest

from fsm_loop import LoopConfig
from fsm_loop.audit.reading import read
from fsm_loop.audit.sqlite import SqliteTrails
from fsm_loop.audit.verify import verify
from fsm_loop.core.faults import FaultKind
from fsm_loop.errors import TrailError
from fsm_loop.loop import Loop
from fsm_loop.testing.clock import VirtualClock
from fsm_loop.testing.fakes import ScriptedModel, SeededChance, calls, fails, says


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


SCRIPTS = {
    "completed": [fails(FaultKind.OVERLOADED), calls(("add", {"a": 1, "b": 2})), says("three")],
    "exhausted": [calls(("add", {"a": 1, "b": 2}))] * 3,
    "failed": [fails(FaultKind.ACCESS_DENIED)],
}
CONFIG = LoopConfig(max_iterations=2, grace_calls=0)


def run(store, outcome):
    """A turn of this outcome, watched."""
    clock = VirtualClock()
    model = ScriptedModel(SCRIPTS[outcome], clock=clock)
    loop = Loop(model=model, tools=[add], watchers=[store], clock=clock, chance=SeededChance(1), config=CONFIG)
    return clock.run(lambda: loop.run("1 + 2?"))


def test_turns_are_looked_up(tmp_path):
    """Every turn has its row, with its outcome, the counter that ended it and its last hash."""
    path = tmp_path / "trails.sqlite"
    with SqliteTrails(path, wall=lambda: 1.5) as store:
        results = [run(store, outcome) for outcome in SCRIPTS]
    lines = list(read(path))
    heads = {each.record["turn"]: each.record["hash"] for each in lines}
    with sqlite3.connect(path) as base:
        kept = base.execute("SELECT id, began, ended, outcome, counter, head FROM turns").fetchall()
        plan = base.execute("EXPLAIN QUERY PLAN SELECT id FROM turns WHERE counter = 'iterations'").fetchall()

    assert {
        (each.turn_id, 1.5, 1.5, each.outcome, each.exhausted and each.exhausted.counter, heads[each.turn_id])
        for each in results
    } == set(kept)
    assert list(SCRIPTS) == [each.outcome for each in results]
    assert "turns_by_counter" in str(plan)


def test_a_store_is_read_as_a_file_is(tmp_path):
    """Its records are verified in the order in which they were written, each named by its row."""
    path = tmp_path / "trails.sqlite"
    with SqliteTrails(path) as store:
        results = [run(store, outcome) for outcome in SCRIPTS]
        during = list(read(path))
    lines = list(read(path))

    assert verify(lines).verified
    assert [each.turn_id for each in results] == [each.turn_id for each in verify(lines).turns]
    assert during == lines
    assert f"{path}:1" == lines[0].place


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("DELETE FROM records WHERE id = 4", "it does not follow the record before it"),
        ("UPDATE records SET line = replace(CAST(line AS TEXT), 'calling', 'grace') WHERE id = 4", "it was edited"),
        ("UPDATE records SET line = CAST('{' AS BLOB) WHERE id = 4", "it does not follow"),
    ],
)
def test_a_row_that_was_changed_is_found(tmp_path, change, sentence):
    """What somebody does to the rows is found by the chain."""
    path = tmp_path / "trails.sqlite"
    with SqliteTrails(path) as store:
        run(store, "completed")
    with sqlite3.connect(path) as base:
        base.execute(change)
    (problem, *_) = verify(read(path)).problems

    assert sentence in problem.sentence


def test_a_file_that_may_not_be_written_is_read(tmp_path):
    """A store on a shelf is read as it stands."""
    path = tmp_path / "trails.sqlite"
    with SqliteTrails(path) as store:
        run(store, "completed")
    path.chmod(0o444)
    tmp_path.chmod(0o555)
    try:
        assert verify(read(path)).verified
    finally:
        tmp_path.chmod(0o755)


@pytest.mark.parametrize(("fsync", "synchronous"), [("each", 2), ("end", 0), ("never", 0)])
def test_what_outlives_the_machine(tmp_path, fsync, synchronous):
    """SQLite waits for the disk at each record, or by our doing not at all but at the end of a turn."""
    statements = []
    with SqliteTrails(tmp_path / "trails.sqlite", fsync=fsync) as store:
        store._base.set_trace_callback(statements.append)
        run(store, "completed")
        now = store._base.execute("PRAGMA synchronous").fetchone()[0]
    waits = [each.split(" = ")[1] for each in statements if each.startswith("PRAGMA synchronous =")]

    assert synchronous == now
    assert (["FULL", "OFF"] if fsync == "end" else []) == waits


@pytest.mark.parametrize("stops", [False, True])
def test_a_store_that_is_held_by_another_is_a_fault_of_the_trail(tmp_path, monkeypatch, stops):
    """Where another writer does not let go in time, the record counts as not written."""
    monkeypatch.setattr("fsm_loop.audit.sqlite.BUSY_TIMEOUT_S", 0.0)
    path = tmp_path / "trails.sqlite"
    with SqliteTrails(path, on_sink_failure="stop" if stops else "go on") as store:
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        result = run(store, "completed")
        holder.close()

    assert ("failed" if stops else "completed") == result.outcome
    assert "database is locked" in result.trail_faults[0]


@pytest.mark.parametrize("made", ["text", "folder", "other"])
def test_what_is_no_store(tmp_path, made):
    """A file of something else, or a folder, is named as such, and nothing is changed in it."""
    path = tmp_path / "t"
    match made:
        case "text":
            path.write_text("no store " * 200)
        case "folder":
            path.mkdir()
        case _:
            with sqlite3.connect(path) as base:
                base.execute("CREATE TABLE other (x)")
    if made != "other":
        with pytest.raises(TrailError, match="cannot be used as a store of trails"):
            SqliteTrails(path)
    else:
        with pytest.raises(TrailError, match="is no store of trails: no such table"):
            list(read(path))
