"""The command `fsm-loop diagram`: the machine as a picture, or as the text of one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fsm_loop.cli.pages import page_of
from fsm_loop.cli.stops import Status, Stop
from fsm_loop.export.drawing import Drawing, View, drawing
from fsm_loop.export.model import Outline


class Format(StrEnum):
    """What a diagram is written as."""

    MERMAID = "mermaid"
    DOT = "dot"
    SVG = "svg"
    PNG = "png"
    PLANTUML = "plantuml"
    SCXML = "scxml"
    XSTATE = "xstate"
    JSON = "json"


WHOLE = (Format.SCXML, Format.XSTATE, Format.JSON)  # what is no picture is always all of the page


def diagram(
    view: Annotated[
        View,
        typer.Option(
            help="overview: one arrow from state to state; full: one for each row; the others show a part, row by row."
        ),
    ] = View.OVERVIEW,
    kind: Annotated[
        Format,
        typer.Option(
            "--format",
            help="svg and png are drawn by Graphviz; scxml, xstate and json are the page itself, not a view.",
        ),
    ] = (Format.MERMAID),
    page: Annotated[str | None, typer.Option(metavar="MODULE:NAME", help="A page of your own.")] = None,
    trail: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Lay the turns of this trail over it; may be given several times."),
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Where to write it.")] = None,
) -> int:
    """Print the machine as a state diagram."""
    drawn = _drawn(view, kind, page, trail or [])
    if output is None:
        if kind is Format.PNG and sys.stdout.isatty():
            raise Stop("a PNG is no text for a terminal; give a file with -o FILE")
        sys.stdout.flush()
        sys.stdout.buffer.write(drawn)
        return Status.COMPLETED
    try:
        output.write_bytes(drawn)
    except OSError as error:
        raise Stop(f"--output: {output}: {error.strerror}", Status.FAILED) from error
    return Status.COMPLETED


def _drawn(view: View, kind: Format, page: str | None, trails: Sequence[Path]) -> bytes:
    from fsm_loop.export.dot import dot_of
    from fsm_loop.export.mermaid import mermaid_of
    from fsm_loop.export.model import outline
    from fsm_loop.export.picture import picture
    from fsm_loop.export.plantuml import plantuml_of

    words = outline(page_of(page))
    if kind in WHOLE:
        if trails or view is not View.OVERVIEW:
            raise Stop(f"--format {kind.value} is the whole page: it takes no --view and no --trail")
        return _whole(words, kind).encode()
    shown = _over(words, view, trails) if trails else drawing(words, view)
    if kind is Format.MERMAID:
        return mermaid_of(shown, view).encode()
    if kind is Format.PLANTUML:
        return plantuml_of(shown).encode()
    text = dot_of(shown, view)
    return text.encode() if kind is Format.DOT else picture(text, kind.value)


def _whole(words: Outline, kind: Format) -> str:
    from fsm_loop.export.plain import as_json
    from fsm_loop.export.statecharts import scxml, xstate

    return {Format.SCXML: scxml, Format.XSTATE: xstate, Format.JSON: as_json}[kind](words)


def _over(words: Outline, view: View, trails: Sequence[Path]) -> Drawing:
    from fsm_loop.audit.reading import records
    from fsm_loop.export.overlay import overlaid, tally

    found = tally(records(trails))
    if not found.turns:
        raise Stop(f"--trail: there is no turn in {', '.join(map(str, trails))}")
    return overlaid(words, view, found)
