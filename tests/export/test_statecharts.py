"""The page as SCXML and as XState: engines nobody here wrote load them and go the same way as the real machine."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from statemachine.io.scxml.processor import SCXMLProcessor

from fsm_loop.cli import main
from fsm_loop.core.machine import PAGE
from fsm_loop.export.model import outline
from fsm_loop.export.plain import as_json
from fsm_loop.export.statecharts import scxml, xstate
from tests.export.asked import right, scxml_takes, xstate_takes
from tests.export.own_page import OWN_PAGE
from tests.export.walked import walk

HERE = Path(__file__).parent
PACKAGES = Path(__file__).parents[2] / ".venv" / "node"
XSTATE = "xstate@5.20.1"
INSTALL_WITHIN_S, RUN_WITHIN_S = 120.0, 120.0
PAGES = pytest.mark.parametrize("page", [PAGE, OWN_PAGE], ids=["ours", "own"])


@pytest.fixture(scope="module")
def turns():
    """Turns in which nearly everything happens that can."""
    return walk(400)


def test_the_walk_goes_far(turns):
    """Every state is entered, half of the rows are fired (each row is compared by itself below), in thousands of steps."""
    rows = {row for turn in turns for *_, row in turn} - {"late"}
    live = {row.name for row in PAGE.rows if row.source is not PAGE.done}

    assert {state.name.lower() for state in PAGE.states} == {
        "ready",
        *(after for turn in turns for _, _, after, _ in turn),
    }
    assert len(rows & live) > 0.45 * len(live)
    assert sum(map(len, turns)) > 2000


def wrong(text, turns):
    """The first step at which the engine of python-statemachine goes another way than it is told; None where none is."""
    processor = SCXMLProcessor()
    processor.parse_scxml("turn", text)
    for turn in turns:
        machine = processor.start()
        for event, answers, after, row in turn:
            if row == "late":
                continue
            machine.send(event, **answers)
            if {state.id for state in machine.configuration} != {after}:
                return event, answers, after, row
    return None


def test_scxml_is_run_by_another_engine(turns, capsys):
    """python-statemachine reads it, has the same states, and takes the same way on every step."""
    processor = SCXMLProcessor()
    processor.parse_scxml("turn", scxml(outline()))
    machine = processor.start()

    assert {state.name.lower() for state in PAGE.states} == {state.id for state in machine.states}
    assert wrong(scxml(outline()), turns[:60]) is None


BROKEN = {
    "another target": ('event="stream_started" target="streaming"', 'event="stream_started" target="grace"'),
    "a guard dropped": (' cond="_event.data.was_refused"', ""),
    "an event renamed": ('event="timer_fired"', 'event="timer_rang"'),
}


@pytest.mark.parametrize(("old", "new"), BROKEN.values(), ids=BROKEN)
def test_a_chart_that_is_wrong_goes_another_way(turns, capsys, old, new):
    """The walk tells a chart with one thing changed from the right one."""
    text = scxml(outline())

    assert old in text
    assert wrong(text.replace(old, new), turns[:60]) is not None


def test_every_row_is_in_both():
    """A transition for each row of each live state, in the order of the page, with its guards."""
    rows = [row for row in outline().rows if row.source != "done"]
    chart = json.loads(xstate(outline()))["states"]
    ways = [way for state in chart.values() for each in state.get("on", {}).values() for way in each]

    assert {row.name for row in rows} == {way["description"] for way in ways}
    assert len(rows) == len(ways) == scxml(outline()).count("<transition ")
    for row in rows:
        (way,) = [each for each in ways if each["description"] == row.name]
        assert [guard.name for guard in row.guards] == way.get("guard", {"params": {"all": []}})["params"]["all"]
        assert row.target == way["target"]
        spends = [each["params"]["counter"] for each in way["actions"] if each["type"] == "spend"]
        assert ([row.spends] if row.spends else []) == spends


@pytest.fixture(scope="module")
def library():
    """The real xstate, kept beside the environment; skipped where there is no node, or npm cannot have it."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not here, so the real xstate cannot be asked")
    kept = PACKAGES / "node_modules" / "xstate" / "dist" / "xstate.esm.js"
    if not kept.is_file():
        PACKAGES.mkdir(parents=True, exist_ok=True)
        asked = ["npm", "install", "--prefix", str(PACKAGES), "--no-audit", "--no-fund", XSTATE]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=INSTALL_WITHIN_S, check=False)
        if done.returncode:
            pytest.skip(f"npm cannot have {XSTATE}: {done.stderr.strip()[-200:]}")
    return kept


def walked(library, folder, text, turns):
    """What the walk through the real xstate says."""
    (folder / "config.json").write_text(text, encoding="utf-8")
    (folder / "walk.json").write_text(json.dumps([[step for step in turn if step[3] != "late"] for turn in turns]))
    done = subprocess.run(
        ["node", HERE / "walk.mjs", library, folder / "config.json", folder / "walk.json"],
        capture_output=True, text=True, timeout=RUN_WITHIN_S, check=False,
    )  # fmt: skip
    assert "" == done.stderr
    return json.loads(done.stdout)


def test_xstate_goes_the_same_way(library, tmp_path, turns):
    """The real xstate takes the same way on every step of every turn."""
    found = walked(library, tmp_path, xstate(outline()), turns)

    assert {"steps": sum(step[3] != "late" for turn in turns for step in turn), "states": len(PAGE.states)} == found


def test_a_config_that_is_wrong_goes_another_way(library, tmp_path, turns):
    """A row with another target is found by the walk."""
    config = json.loads(xstate(outline()))
    config["states"]["calling"]["on"]["stream_started"][-1]["target"] = "grace"
    found = walked(library, tmp_path, json.dumps(config), turns)

    assert ("streaming", "grace") == (found["after"], found["value"])


@PAGES
def test_each_row_is_taken_in_scxml(page, capsys):
    """python-statemachine takes each row where the page takes it, and to where the page leads."""
    assert right(page) == scxml_takes(scxml(outline(page)), page)


@PAGES
def test_each_row_is_taken_in_xstate(library, tmp_path, page):
    """And so does the real xstate."""
    assert right(page) == xstate_takes(library, tmp_path, xstate(outline(page)), page)


def test_the_page_as_json():
    """The outline is there whole, in the order of the page."""
    told = json.loads(as_json(outline()))

    assert [row.name for row in PAGE.rows] == [row["name"] for row in told["rows"]]
    assert [counter.name for counter in PAGE.counters] == [counter["name"] for counter in told["counters"]]
    assert [state.name.lower() for state in PAGE.states] == [state["name"] for state in told["states"]]


@pytest.mark.parametrize("kind", ["plantuml", "scxml", "xstate", "json"])
def test_the_command(capsysbinary, kind):
    """Each is printed, for the shipped page and for one of a user's own."""
    whole = main(["diagram", "--format", kind]), capsysbinary.readouterr().out
    own = main(["diagram", "--format", kind, "--page", "tests.export.own_page:OWN_PAGE"]), capsysbinary.readouterr().out

    assert (0, 0) == (whole[0], own[0])
    assert b"a person to allow the turn" in own[1]
    assert b"a person to allow the turn" not in whole[1]


@pytest.mark.parametrize("kind", ["scxml", "xstate", "json"])
def test_what_is_whole_takes_no_view(capsys, kind):
    """A view of what is no picture is refused with a sentence."""
    status = main(["diagram", "--format", kind, "--view", "tools"])

    assert 2 == status
    assert f"--format {kind} is the whole page: it takes no --view and no --trail" in capsys.readouterr().err
