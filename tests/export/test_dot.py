"""The DOT can be read by a real Graphviz, and what it draws shows what the page says."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest
from attrs import evolve

from fsm_loop import PAGE
from fsm_loop.export.dot import STYLES, dot
from fsm_loop.export.drawing import View, Way, drawing, row_id
from fsm_loop.export.model import outline
from fsm_loop.export.picture import PictureError, picture
from tests.export.own_page import OWN_PAGE

PAGES = pytest.mark.parametrize("page", [PAGE, OWN_PAGE], ids=["ours", "own"])


def drawn(page, view):
    """The id of each thing in the SVG, with all the text that is written on it."""
    root = ET.fromstring(picture(dot(outline(page), view), "svg"))
    return {
        each.get("id"): " ".join("".join(part.itertext()) for part in each.iter() if part.tag.endswith("text"))
        for each in root.iter()
        if each.get("id")
    }


@PAGES
@pytest.mark.parametrize("view", View)
def test_every_state_and_arrow_is_drawn(page, view):
    """What the drawing holds is in the SVG by its id: the name on each state, each word of the label on each arrow."""
    shown = drawn(page, view)
    wanted = drawing(outline(page), view)

    assert [] == [state.name for state in wanted.states if state.name not in shown[f"state-{state.name}"]]
    assert [] == [
        (arrow.id, word)
        for arrow in wanted.arrows
        for line in arrow.label
        for word in line.split()
        if word not in shown[arrow.id].replace("\xa0", " ")
    ]


@PAGES
def test_every_row_of_the_full_picture_has_its_id(page):
    """Each row of the page is one arrow, found by the row's own name."""
    shown = drawn(page, View.FULL)

    assert [] == [row.name for row in page.rows if f"row-{row_id(row.name)}" not in shown]


def test_ways_are_told_apart_in_grey():
    """No two kinds of arrow share a line, so that a picture without colours says the same."""
    assert len(Way) == len({style.line for style in STYLES.values()})


def test_a_kind_of_arrow_is_drawn_in_its_colour_and_line():
    """The straight way is solid and blue, a detour dashed, an end dotted."""
    text = dot(outline())

    assert re.search(r'"ready" -> "calling" .*color="#0b5cad".*style="solid"', text)
    assert re.search(r'"backoff" -> "calling" .*color="#b35900".*style="dashed"', text)
    assert re.search(r'"grace" -> "done" .*color="#6b6b6b".*style="dotted"', text)


def test_what_is_not_text_of_dot_is_escaped():
    """A state's sentence may hold any character; the user's own has a bar, and none of ours may break the markup."""
    shown = drawn(OWN_PAGE, View.OVERVIEW)

    assert "a person to allow" in shown["state-asked"]
    assert "| or not" in shown["state-asked"]


def test_marks_of_the_markup_are_shown_as_they_are():
    """A sentence with the marks that DOT and its labels are made of is written out, and breaks nothing."""
    said = outline(OWN_PAGE)
    states = tuple(
        evolve(each, sentence='a <b>"bold" & \\word') if each.name == "asked" else each for each in said.states
    )
    text = dot(evolve(said, states=states))
    shown = ET.fromstring(picture(text, "svg"))
    words = " ".join("".join(part.itertext()) for part in shown.iter() if part.tag.endswith("text"))

    assert 'a <b>"bold" &' in words.replace("\xa0", " ")


@pytest.mark.parametrize("view", View)
def test_a_picture_is_always_the_same(view):
    """The same page gives the same text, letter for letter."""
    assert dot(outline(), view) == dot(outline(), view)


def test_without_a_renderer_it_is_said_what_to_do(monkeypatch):
    """Where no Graphviz is, the error names the extra, the system's package, and what works without."""
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)

    with pytest.raises(PictureError, match=r"install fsm-loop\[diagrams\], or your system's graphviz, or ask for"):
        picture("digraph {}", "svg")


def test_what_cannot_be_drawn_is_said():
    """Graphviz's own words stand in the error."""
    with pytest.raises(PictureError, match=r"Graphviz could not draw the picture: .*syntax error"):
        picture("digraph {", "svg")
