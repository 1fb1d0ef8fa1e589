"""A picture of a page as PlantUML: the same arrows as every picture of that view."""

from __future__ import annotations

import re
from collections.abc import Iterable

from fsm_loop.export.dot import STYLES
from fsm_loop.export.drawing import Arrow, Drawing
from fsm_loop.export.mermaid import WRITTEN_BY
from fsm_loop.export.model import State

_NOT_IN_A_LABEL = re.compile(r"[\n\\]")
_LINES = {"solid": "bold", "dashed": "dashed", "dotted": "dotted", "bold": ""}


def plantuml_of(picture: Drawing) -> str:
    """The picture, states with what they wait for, arrows with their labels."""
    lines = [
        f"' {WRITTEN_BY}",
        "@startuml",
        f"title {picture.title}",
        "hide empty description",
        *(line for state in picture.states for line in _state(state, picture.under.get(state.name, ""))),
        *(f"[*] --> {state.name}" for state in picture.states if state.start),
        *map(_drawn, picture.arrows),
        *(f"{state.name} --> [*]" for state in picture.states if state.done),
        *_note(picture),
        "@enduml",
    ]
    return "\n".join(lines) + "\n"


def _state(state: State, under: str) -> Iterable[str]:
    yield f"state {state.name} : {_label(state.sentence)}"
    yield from (f"{state.name} : {_label(line)}" for line in under.splitlines())


def _drawn(arrow: Arrow) -> str:
    style = STYLES[arrow.way]
    line = _LINES[style.line]
    colour = "#d8d8d8" if arrow.share == 0 else style.colour
    said = "\\n".join(map(_label, arrow.label))
    return f"{arrow.source} -[{colour}{',' if line else ''}{line}]-> {arrow.target}" + (f" : {said}" if said else "")


def _note(picture: Drawing) -> Iterable[str]:
    if picture.notes:
        yield from ("legend right", *map(_label, picture.notes), "endlegend")


def _label(text: str) -> str:
    return _NOT_IN_A_LABEL.sub(" ", text)
