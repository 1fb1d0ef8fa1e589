"""The command `fsm-loop diagram`: the machine as a picture, or as the text of one."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fsm_loop.cli.pages import page_of
from fsm_loop.cli.stops import Status, Stop
from fsm_loop.export.drawing import View


class Format(StrEnum):
    """What a diagram is written as."""

    MERMAID = "mermaid"
    DOT = "dot"
    SVG = "svg"
    PNG = "png"


def diagram(
    view: Annotated[
        View,
        typer.Option(
            help="overview: one arrow from state to state; full: one for each row; the others show a part, row by row."
        ),
    ] = View.OVERVIEW,
    kind: Annotated[Format, typer.Option("--format", help="What to write; svg and png are drawn by Graphviz.")] = (
        Format.MERMAID
    ),
    page: Annotated[str | None, typer.Option(metavar="MODULE:NAME", help="A page of your own.")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Where to write it.")] = None,
) -> int:
    """Print the machine as a state diagram."""
    drawn = _drawn(view, kind, page)
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


def _drawn(view: View, kind: Format, page: str | None) -> bytes:
    from fsm_loop.export.dot import dot
    from fsm_loop.export.mermaid import mermaid
    from fsm_loop.export.model import outline
    from fsm_loop.export.picture import picture

    words = outline(page_of(page))
    if kind is Format.MERMAID:
        return mermaid(words, view).encode()
    text = dot(words, view)
    return text.encode() if kind is Format.DOT else picture(text, kind.value)
