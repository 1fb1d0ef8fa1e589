"""The machine takes exactly the steps of the written spec, and a page that is changed does not."""

from __future__ import annotations

import json

import pytest

from fsm_loop import PAGE
from fsm_loop.prove.graph import compared, read_graphs
from tests.prove import tlc
from tests.prove.broken import PLANTED

# Rows of `calling` for what was shown: the page has them because it writes one line for both states that ask, and a
# driver that shows something has told of the first sign of life before, so the spec knows no such step.
NEVER_IN_CALLING = {
    "calling.stream_dropped.tool_in_flight+stream_retries_left",
    "calling.stream_dropped.text_shown+stream_retries_left",
    "calling.stream_dropped.text_shown+falls_back+fallbacks_left",
    "calling.stream_dropped.text_shown",
    "calling.stream_stalled.text_shown+tool_in_flight+stream_retries_left",
    "calling.stream_stalled.text_shown+api_retries_left",
    "calling.stream_stalled.text_shown+falls_back+fallbacks_left",
    "calling.stream_stalled.text_shown",
}
QUICK = ("loop_tools", "loop_cuts")  # the configs that TLC has done with first
JAVA = pytest.mark.skipif(bool(tlc.missing()), reason=tlc.missing() or "TLC is here")


@pytest.fixture(scope="module", name="graphs")
def _graphs():
    """The kept graphs, the smallest first."""
    return sorted(read_graphs(tlc.KEPT), key=lambda graph: graph.edges)


def test_the_machine_takes_the_steps_of_the_spec(graphs):
    """In every state of every graph the page answers the same events and goes to the same state; every row is used."""
    found = compared(graphs)

    assert str(found.difference) == "None"
    assert {row.name for row in PAGE.rows} - NEVER_IN_CALLING == found.rows
    assert {"loop", "loop_retries", "loop_no_chain", "loop_cuts", "loop_repairs", "loop_tools", "loop_words"} == {
        graph.name for graph in graphs
    }


def test_another_turn_for_each_state_takes_the_same_steps(graphs):
    """A state of the spec stands for many turns; the newest that comes there goes on as the first does."""
    small = [graph for graph in graphs if graph.name in (*QUICK, "loop_no_chain")]

    assert str(compared(small, newest=True).difference) == "None"


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_a_difference(graphs, name):
    """Each page that is broken on purpose parts from the spec somewhere, and it is said where."""
    make, *_ = PLANTED[name]
    found = compared(graphs, make()).difference

    assert found is not None
    assert found.spec != found.page
    assert str(found).startswith(f"{found.graph}: after\n  1. ")


def test_a_difference_is_told_as_a_way_from_the_beginning(graphs):
    """The steps are numbered; then stands what the spec does and what the page does, in what they differ."""
    make, *_ = PLANTED["a round of tools is not held back by its budget"]

    assert (
        "loop_tools: after\n"
        "  1. TurnStarted\n"
        "  2. SlotGranted\n"
        "  3. ModelReplied|tools|1|TRUE\n"
        "  4. ToolReturned|ok\n"
        "the spec: state grace, doing slot, pending 0, grace_calls 1\n"
        "the page: state calling, doing slot, pending 0, grace_calls 0"
    ) == str(compared(graphs, make()).difference).partition(" (")[0]


@JAVA
@pytest.mark.parametrize("name", tlc.SMALL)
def test_what_is_kept_is_what_the_spec_says(name):
    """TLC lists the same states and steps again, from the spec and the config beside it."""
    kept = {each["name"]: each for each in json.loads(tlc.unpacked(tlc.KEPT.read_bytes()))}
    made = json.loads(json.dumps(tlc.graph(name)))

    assert kept[name]["constants"] == made["constants"]
    assert kept[name]["labels"] == made["labels"]
    assert kept[name]["states"] == made["states"]
    assert kept[name]["edges"] == made["edges"]


@JAVA
@pytest.mark.parametrize("name", QUICK)
def test_what_the_spec_promises_holds(name):
    """TLC finds no turn that breaks an invariant or a promise; `python tests/prove/tlc.py check` asks every config."""
    assert "Model checking completed. No error has been found." in tlc.check(name)


@JAVA
def test_a_promise_that_is_broken_is_found(monkeypatch, tmp_path):
    """A spec that asks for the last reply twice is refused, so the check can fail."""
    text = tlc.SPEC.read_text(encoding="utf-8")
    right = 'OneGrace == (state = "grace" => count["grace_calls"] = 1)'
    assert right in text
    broken = tmp_path / "loop.tla"
    broken.write_text(text.replace(right, right.replace("= 1)", "= 0)")), encoding="utf-8")
    monkeypatch.setattr(tlc, "SPEC", broken)

    with pytest.raises(AssertionError, match="Invariant OneGrace is violated"):
        tlc.check("loop_tools")
