"""The diagrams can be read by Mermaid, and show what the page says."""

from __future__ import annotations

import re

import pytest

from fsm_loop import PAGE
from fsm_loop.export.mermaid import full, overview
from fsm_loop.export.model import outline
from tests.export.own_page import OWN_PAGE

ARROW = re.compile(r"(?P<source>\w+|\[\*\]) --> (?P<target>\w+|\[\*\])(?: : (?P<label>[^:;#<>]+(?:<br>[^:;#<>]+)*))?")
NOTE = re.compile(r"note right of \w+\n(?: {8}\S.*\n)+ {4}end note\n")
PAGES = pytest.mark.parametrize("page", [PAGE, OWN_PAGE], ids=["ours", "own"])
VIEWS = pytest.mark.parametrize("view", [overview, full])


def parts(text):
    """The front matter, the notes, and each other line of the diagram; fails where a line is none of these."""
    _, front, body = text.split("---\n", 2)
    head, direction, *lines = NOTE.sub("\n", body).splitlines()
    assert ("stateDiagram-v2", "    direction LR") == (head, direction)
    return front, NOTE.findall(body), [line.strip() for line in lines if line.strip()]


def arrows(text):
    """Source, target and label of each arrow; fails where a line is no arrow."""
    found = [(line, ARROW.fullmatch(line)) for line in parts(text)[2]]
    assert [] == [line for line, match in found if match is None]
    return [(match["source"], match["target"], match["label"]) for _, match in found]


def pairs(page):
    """Where each row of the page leads from and to."""
    return [(row.source.name.lower(), row.to.name.lower()) for row in page.rows]


@PAGES
@VIEWS
def test_a_diagram_has_a_shape_that_can_be_read(page, view):
    """Front matter with a title, then arrows and notes that are closed; every state is named."""
    text = view(outline(page))
    front, _, _ = parts(text)
    named = {state for source, target, _ in arrows(text) for state in (source, target)}

    assert front.startswith("# Written by `fsm-loop export`")
    assert "\ntitle: An agent's turn" in front
    assert {"[*]", *(state.name.lower() for state in page.states)} == named
    assert text.count("note right of") == text.count("end note") == len(parts(text)[1])


@PAGES
@VIEWS
def test_a_diagram_begins_and_ends_where_the_page_does(page, view):
    """One arrow comes from the black dot to the first state, one goes from the last to the ringed one."""
    dotted = [(source, target) for source, target, _ in arrows(view(outline(page))) if "[*]" in (source, target)]

    assert [("[*]", page.start.name.lower()), (page.done.name.lower(), "[*]")] == dotted


@PAGES
def test_the_full_diagram_has_every_row(page):
    """There is one arrow for each row, in the order of the page, with its event, guards, action and counter.

    Rows that stay in a state stand on one arrow, for of several such arrows only the last would be shown.
    """
    expected = {}
    for row, (source, target) in zip(page.rows, pairs(page), strict=True):
        guards = f" [{', '.join(guard.__name__ for guard in row.when)}]" if row.when else ""
        spent = f" ({row.spends.name})" if row.spends else ""
        key = (source, target, "" if source == target else row.name)
        expected.setdefault(key, []).append(f"{row.trigger}{guards} / {row.do.__name__}{spent}")

    assert [(source, target, "<br>".join(labels)) for (source, target, _), labels in expected.items()] == arrows(
        full(outline(page))
    )[1:-1]


@PAGES
def test_the_overview_has_one_arrow_for_two_states(page):
    """No two arrows lead from the same state to the same other one, and each stands for a row."""
    drawn = [(source, target) for source, target, _ in arrows(overview(outline(page)))[1:-1]]

    assert sorted(set(drawn)) == sorted(drawn)
    assert set() == set(drawn) - set(pairs(page))


@PAGES
def test_the_overview_leaves_out_only_what_it_says(page):
    """Each row is on an arrow from its state, or from the state that the note names in its stead."""
    words = outline(page)
    labels = {(source, target): label for source, target, label in arrows(overview(words)) if label}
    kinds = {event.name: event.kind for event in words.events}
    missing = []
    for row in words.rows:
        idle = row.source == row.target and row.spends is None
        if row.event in words.anywhere or row.source == "done" or idle:
            continue
        here = labels.get((row.source, row.target), "")
        there = labels.get(("streaming", row.target), "") if row.source == "calling" else ""
        if not any(name in label for name in (row.event, kinds[row.event]) if name for label in (here, there)):
            missing.append(row.name)

    assert [] == missing


def test_the_overview_draws_what_is_shared_once():
    """A state that answers all that another one answers has only those arrows that are its own."""
    from_calling = [target for source, target, _ in arrows(overview(outline())) if source == "calling"]

    assert ["calling", "grace", "done", "backoff", "fallback", "streaming"] == from_calling


def test_the_overview_says_what_is_spent():
    """An arrow carries its events and, in brackets, what is spent; many counters are told by their number."""
    labels = {(source, target): label for source, target, label in arrows(overview(outline()))}

    assert "model_replied<br>(iterations)" == labels["streaming", "tool_exec"]
    assert "call_failed<br>(api_retries)" == labels["streaming", "backoff"]
    assert "model_failed<br>(8 counters)" == labels["streaming", "repairing"]
    assert "cut_judged<br>(boosts,<br>continuations)" == labels["truncated", "calling"]


def test_the_overview_notes_what_holds_in_every_state():
    """The interrupt, the steer and the rebuild stand in one note, with where they lead."""
    _, notes, _ = parts(overview(outline()))
    lines = [line.strip() for line in notes[0].splitlines()]

    assert 1 == len(notes)
    assert [
        "calling answers all that streaming answers, in the same way.",
        "call_failed: each of slot_refused, stream_dropped, stream_stalled, model_failed, provider_failed that the state awaits",
        "In every state but done:",
        "interrupt_asked: to done",
        "steer_given: to calling, or kept",
        "rebuild_asked: to calling (rebuilds), or kept",
    ] == lines[1:-1]


@VIEWS
def test_a_user_s_state_is_drawn(view):
    """A state and a counter of a user's own page are in the diagram."""
    found = arrows(view(outline(OWN_PAGE)))

    assert "thoughts" in next(label for source, target, label in found if source == target == "asked")
    assert ("ready", "asked") in {(source, target) for source, target, _ in found}


@VIEWS
def test_a_diagram_is_always_the_same(view):
    """The same page gives the same text, letter for letter."""
    assert view(outline()) == view(outline())
