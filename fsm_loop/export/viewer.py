"""The viewer: one HTML file that shows turns step by step, with all that it needs inside and no way to the network.

What users, models and tools said stands in it as data: escaped here, and shown by the page as text and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from attrs import Factory, frozen

from fsm_loop.core.machine import PAGE
from fsm_loop.core.rows import Page
from fsm_loop.errors import FsmLoopError
from fsm_loop.export.dot import dot
from fsm_loop.export.drawing import View, drawing
from fsm_loop.export.kept import kept_picture
from fsm_loop.export.model import Outline, outline
from fsm_loop.export.picture import PictureError, picture

MOST_RECORDS = 200_000  # that one file shows; a browser holds so many without trouble
VIEWS = (View.OVERVIEW, View.FULL)

# What could end a block of data or begin another one, and what older readers of JavaScript take for the end of a line.
_ESCAPES = {ord(each): f"\\u{ord(each):04x}" for each in "<>&\u2028\u2029"}
_UNSHOWN = ("previous", "turn", "is")  # members of a record that the page does not need


class ViewerError(FsmLoopError):
    """There is nothing to show, or more than one file can hold."""


@frozen
class Judged:
    """What was found of the trail: whether its chain holds (None where nobody looked), and that in a sentence."""

    holds: bool | None = None
    sentence: str = "the chain was not checked"


@frozen
class Shown:
    """What a file shows: the records of the turns, in any order, and what is known about them.

    `why` holds, for each turn by its id, sentences on how it ended. With `live` the page asks `events`, beside itself,
    for the records that follow.
    """

    records: Sequence[Mapping[str, Any]] = ()
    judged: Judged = Judged()
    why: Mapping[str, Sequence[str]] = Factory(dict)
    title: str = "trail"
    live: bool = False


def viewer(shown: Shown, page: Page = PAGE) -> str:
    """The whole HTML file. Raises ViewerError where there are no records, or more than `MOST_RECORDS`."""
    if not shown.records and not shown.live:
        raise ViewerError("the trail has no records, so there is nothing to show")
    if len(shown.records) > MOST_RECORDS:
        raise ViewerError(
            f"the trail has {len(shown.records)} records, and one file shows {MOST_RECORDS}; name one turn of it"
        )
    words = outline(page)
    data = {
        "title": shown.title,
        "live": shown.live,
        "verdict": {"holds": shown.judged.holds, "sentence": shown.judged.sentence},
        "why": {turn: list(sentences) for turn, sentences in shown.why.items()},
        "page": _words(words),
        "turns": _turns(shown.records),
    }
    return _assembled(data, {view.value: _svg(words, view, page) for view in VIEWS}, live=shown.live)


def told(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record as the page reads it: without what it does not need."""
    kept = {name: value for name, value in record.items() if name not in _UNSHOWN}
    if record["is"] == "opening":
        kept["page"] = {name: value for name, value in record["page"].items() if name != "rows"}
    return kept


def embedded(data: Any) -> str:
    """The data as JSON that can stand inside a script block, whatever text is in it."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).translate(_ESCAPES)


def _turns(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The records turn by turn, in the order in which the turns began."""
    turns: dict[str, dict[str, Any]] = {}
    for record in records:
        turn_id = record["turn"]
        turn = turns.setdefault(turn_id, {"id": turn_id, "opening": None, "decisions": [], "end": None})
        if record["is"] == "decision":
            turn["decisions"].append(told(record))
        else:
            turn[record["is"]] = told(record)
    return list(turns.values())


def _words(words: Outline) -> dict[str, Any]:
    return {
        "states": [{"name": each.name, "sentence": each.sentence, "done": each.done} for each in words.states],
        "rows": {each.name: [each.source, each.target] for each in words.rows},
        "counters": [{"name": e.name, "counts": e.counts, "setting": e.setting, "cap": e.cap} for e in words.counters],
        "arrows": {view.value: _arrows(words, view) for view in VIEWS},
    }


def _arrows(words: Outline, view: View) -> dict[str, str]:
    """For each row, the arrow that stands for it: its own, or that of a row from the same line of the page."""
    own = {row.name: arrow.id for arrow in drawing(words, view).arrows for row in arrow.rows}
    lines = {row.line: own[row.name] for row in words.rows if row.name in own}
    return {row.name: arrow for row in words.rows if (arrow := own.get(row.name) or lines.get(row.line))}


def _svg(words: Outline, view: View, page: Page) -> str:
    """The diagram: the kept one where it is ours, else drawn now; empty without Graphviz, and the page says so."""
    kept = kept_picture() if page is PAGE and view is View.OVERVIEW else None
    if kept is not None:
        return kept
    try:
        drawn = picture(dot(words, view), "svg").decode()
    except PictureError:
        return ""
    return drawn[drawn.index("<svg") :]


def _assembled(data: Mapping[str, Any], pictures: Mapping[str, str], *, live: bool) -> str:
    style, script = _part("viewer.css"), _part("viewer.js")
    asked = "'self'" if live else "'none'"
    policy = (
        f"default-src 'none'; img-src data:; style-src {_allowed(style)}; script-src {_allowed(script)}; "
        f"connect-src {asked}; base-uri 'none'; form-action 'none'"
    )
    drawn = "\n".join(f'<template id="svg-{name}">{svg}</template>' for name, svg in pictures.items())
    parts = {"policy": policy, "style": style, "pictures": drawn, "data": embedded(data), "script": script}
    pieces = _part("viewer.html").split("%%")  # text, name, text, name, ..., text; nothing put in is looked at again
    return "".join(parts[piece] if place % 2 else piece for place, piece in enumerate(pieces))


def _allowed(text: str) -> str:
    """The source of a Content-Security-Policy that allows this text and no other."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _part(name: str) -> str:
    return files("fsm_loop.export").joinpath(name).read_text(encoding="utf-8")
