"""A picture of a page as Graphviz DOT, which also draws the SVG and the PNG.

Each kind of arrow has a colour and a line of its own, so that the picture can be read in grey too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from textwrap import wrap

from attrs import evolve, frozen

from fsm_loop.export.drawing import Arrow, Drawing, View, Way, drawing
from fsm_loop.export.mermaid import WRITTEN_BY
from fsm_loop.export.model import Outline, State

FONT = "Helvetica"  # the renderers know its widths, and browsers have one like it
_SENTENCE_WIDTH = 26
_LABEL_WIDTH = {View.OVERVIEW: 30}
_NOTE_WIDTH = 64
_PALE, _WIDEST = "#d8d8d8", 5.0  # an arrow that no turn took, and how much wider one is that all took


@frozen
class Style:
    """How arrows of a kind are drawn."""

    colour: str
    line: str
    width: float
    weight: int


STYLES = {
    Way.STRAIGHT: Style("#0b5cad", "solid", 2.2, 8),
    Way.DETOUR: Style("#b35900", "dashed", 1.2, 2),
    Way.END: Style("#6b6b6b", "dotted", 1.4, 1),
    Way.WORD: Style("#7a3e9d", "bold", 1.0, 1),
}


def dot(outline: Outline, view: View = View.OVERVIEW) -> str:
    """The picture of this view. Raises ViewError where no row of the page belongs to it."""
    return dot_of(drawing(outline, view), view)


def dot_of(picture: Drawing, view: View) -> str:
    """This picture, drawn as those of this view are."""
    lines = [
        f"// {WRITTEN_BY}",
        f"digraph {_quoted(picture.title)} {{",
        f"    graph [{_given(_graph_style(picture, view))}]",
        f"    node [{_given({'fontname': FONT, 'fontsize': 12, 'shape': 'box', 'margin': '0.12,0.06'})}]",
        f"    edge [{_given({'fontname': FONT, 'fontsize': 9, 'arrowsize': 0.7})}]",
        *(f"    {line}" for line in _states(picture.states, picture.under)),
        *(f"    {_drawn(arrow, _LABEL_WIDTH.get(view))}" for arrow in picture.arrows),
        *(f"    {line}" for line in _beside(picture)),
        "}",
    ]
    return "\n".join(lines) + "\n"


def _graph_style(picture: Drawing, view: View) -> dict[str, object]:
    return {
        "label": picture.title,
        "labelloc": "t",
        "fontname": FONT,
        "fontsize": 16,
        "rankdir": "TB",
        "nodesep": 0.35,
        "ranksep": 0.55 if view is not View.FULL else 0.9,
        "bgcolor": "white",
    }


def _states(states: Iterable[State], under: Mapping[str, str]) -> Iterable[str]:
    """Each state with what it waits for; the last one has a double frame, the first a dot before it."""
    for state in states:
        sentence = "<br/>".join(escape(line) for line in wrap(state.sentence, _SENTENCE_WIDTH))
        if under.get(state.name):
            said_under = [line for part in under[state.name].splitlines() for line in wrap(part, _SENTENCE_WIDTH + 4)]
            lines = "<br/>".join(map(escape, said_under))
            sentence += f'</font><br/><font point-size="10" color="#111111">{lines}'
        said = f'<<b>{escape(state.name)}</b><br/><font point-size="9" color="#444444">{sentence}</font>>'
        style: dict[str, object] = {
            "id": f"state-{state.name}",
            "style": "rounded,filled",
            "fillcolor": "#eef4fb" if not state.done else "#f0f0f0",
            "tooltip": state.sentence,
        }
        if state.done:
            style["peripheries"] = 2
        yield f"{_quoted(state.name)} [label={said}, {_given(style)}]"
        if state.start:
            yield f'"" [{_given({"shape": "point", "width": 0.14, "id": "start"})}]'
            yield f'"" -> {_quoted(state.name)}'


def _drawn(arrow: Arrow, width: int | None) -> str:
    style = _laid_over(STYLES[arrow.way], arrow.share)
    lines = [piece for line in arrow.label for piece in (wrap(line, width) if width else [line])]
    given = _given(
        {
            "id": arrow.id,
            "class": arrow.way.name.lower(),
            "color": style.colour,
            "fontcolor": style.colour,
            "style": style.line,
            "penwidth": style.width,
            "weight": style.weight,
            "tooltip": "\n".join(row.name for row in arrow.rows),
        }
    )
    said = "".join(f"  {_escaped(line)}\\l" for line in lines)  # a little apart from its line
    return f'{_quoted(arrow.source)} -> {_quoted(arrow.target)} [label="{said}", {given}]'


def _laid_over(style: Style, share: float | None) -> Style:
    """The style of an arrow that so many of the turns took: pale where none did, wider the more did."""
    if share is None:
        return style
    return evolve(style, width=1 + _WIDEST * share) if share else evolve(style, colour=_PALE, width=0.8)


def _beside(picture: Drawing) -> Iterable[str]:
    """The legend, and what is true of so many states that an arrow for each would hide the rest."""
    ways = {arrow.way for arrow in picture.arrows}
    rows = [
        f'<tr><td align="left"><font color="{STYLES[way].colour}">{_sample(way)}</font></td>'
        f'<td align="left">{escape(way.value)}</td></tr>'
        for way in Way
        if way in ways
    ]
    notes = [f'<tr><td colspan="2" align="left">{_paragraph(note)}</td></tr>' for note in picture.notes]
    table = "".join([*rows, *notes])
    yield (
        f'legend [shape=plain, fontsize=9, id="legend", label=<<table border="0" cellborder="0" cellspacing="1" '
        f'cellpadding="1">{table}</table>>]'
    )


def _paragraph(text: str) -> str:
    return "".join(f'{escape(line)}<br align="left"/>' for line in wrap(text, _NOTE_WIDTH))


def _sample(way: Way) -> str:
    """The line of a way, in characters."""
    return {"solid": "&#8212;&#8212;&#8212;", "dashed": "- - - -", "dotted": ". . . . .", "bold": "&#8212; -"}[
        STYLES[way].line
    ]


def _given(attributes: dict[str, object]) -> str:
    return ", ".join(f"{name}={_quoted(str(value))}" for name, value in attributes.items())


def _quoted(text: str) -> str:
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
