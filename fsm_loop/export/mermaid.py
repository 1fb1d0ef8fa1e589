"""A picture of a page as a Mermaid state diagram (`stateDiagram-v2`), which many pages of repositories draw."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from textwrap import wrap

from fsm_loop.export.drawing import Arrow, Drawing, View, drawing
from fsm_loop.export.model import Outline

WRITTEN_BY = "Written by `fsm-loop export` from the page of the machine. Do not edit: change the page, then run it."
# What is drawn wider than this shrinks on the page of a repository until it cannot be read.
_NARROW = ("config:", "  state:", "    nodeSpacing: 25", "    rankSpacing: 30")
_LABEL_WIDTH = 16
# A label ends at a colon or a semicolon; the rest would be read as markup.
_NOT_IN_A_LABEL = re.compile(r"[^\w .,()/\[\]-]")


def mermaid(outline: Outline, view: View = View.OVERVIEW) -> str:
    """The diagram of this view. Raises ViewError where no row of the page belongs to it."""
    return mermaid_of(drawing(outline, view), view)


def mermaid_of(picture: Drawing, view: View) -> str:
    """This picture, drawn as those of this view are."""
    return _diagram(picture, _LABEL_WIDTH if view is View.OVERVIEW else None)


def overview(outline: Outline) -> str:
    """The diagram to look at: one arrow from a state to another, with the events and what is spent on the way."""
    return mermaid(outline)


def full(outline: Outline) -> str:
    """The whole diagram: one arrow for each row, in the order of the page; rows that stay in a state share one."""
    return mermaid(outline, View.FULL)


def _diagram(picture: Drawing, width: int | None) -> str:
    """The picture; where a *width* is given, in characters, longer labels are broken and all is drawn closely."""
    head = ["---", f"# {WRITTEN_BY}", f"title: {picture.title}", *(_NARROW if width else ()), "---", "stateDiagram-v2"]
    body = [
        "direction LR",
        *(f"[*] --> {state.name}" for state in picture.states if state.start),
        *(_drawn(arrows, width) for arrows in _grouped(picture.arrows)),
        *_note(picture),
        *(f"{state.name} --> [*]" for state in picture.states if state.done),
    ]
    return "\n".join([*head, *(f"    {line}" for line in body)]) + "\n"


def _grouped(arrows: Iterable[Arrow]) -> Iterable[list[Arrow]]:
    """Each arrow by itself, but of those from a state to itself, which Mermaid draws over each other, all together."""
    groups: dict[str, list[Arrow]] = {}
    for arrow in arrows:
        groups.setdefault(arrow.source if arrow.source == arrow.target else arrow.id, []).append(arrow)
    return groups.values()


def _drawn(arrows: Sequence[Arrow], width: int | None) -> str:
    said = [line for arrow in arrows for line in arrow.label]
    lines = [piece for line in said for piece in wrap(line, width)] if width else said
    label = "<br>".join(_NOT_IN_A_LABEL.sub(" ", line) for line in lines)
    return f"{arrows[0].source} --> {arrows[0].target}" + (f" : {label}" if label else "")


def _note(picture: Drawing) -> Iterable[str]:
    """What is true of so many states that an arrow for each would hide the rest."""
    if picture.notes:
        yield from (f"note right of {picture.states[0].name}", *(f"    {line}" for line in picture.notes), "end note")
