"""JSON that may be cut anywhere, told string by string with the place of each: pure, and never refused."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from attrs import define, field, frozen

MARKS = frozenset({"index", "output_index", "content_index", "summary_index", "item_id", "type"})

_TOKEN = re.compile(
    r'"(?P<string>(?:[^"\\]|\\[\s\S])*)\\?(?:"|\Z)|(?P<number>-?\d[\d.eE+-]*)|(?P<mark>[{}\[\],:])|(?P<word>\w+)'
)
_UNIT = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\[\s\S]|[\s\S]")
_LINE = re.compile(r"(?P<line>[^\r\n]*)(?:\r\n|\r|\n|\Z)")
_SHORT_ESCAPE, _PAIR = 6, 12  # characters of `\uXXXX`, and of two of them


@define(eq=False)
class Box:
    """An object or a list on the way to a value: its key or its place, and the values that tell it from others."""

    is_object: bool
    key: str = ""
    place: int = 0
    wants_key: bool = False
    marks: dict[str, str] = field(factory=dict)


@frozen
class Found:
    """A string (without its quotes), a number or a word of JSON, from `start` to `end`; `path` are the keys to it."""

    kind: str
    start: int
    end: int
    path: tuple[str, ...]
    boxes: tuple[Box, ...] = field(repr=False)

    @property
    def channel(self) -> tuple[object, ...]:
        """What it is a piece of, where it is one: the keys, and whatever tells those around it from one another."""
        marks = (tuple(sorted(box.marks.items())) if box.is_object else () for box in self.boxes)
        places = (
            box.place
            for box, inner in zip(self.boxes, self.boxes[1:], strict=False)
            if not box.is_object and "index" not in inner.marks
        )
        return (self.path, *marks, *places)


def found_in(text: str) -> Iterator[Found]:
    """Everything in the text that says something, in order: of kind key, string, number or word.

    Of the same text always the same; where it is no JSON the paths are guesses, and nothing is left out.
    """
    boxes: list[Box] = []
    told: list[Found] = []
    for token in _TOKEN.finditer(text):
        if token["mark"]:
            _move(token["mark"], boxes)
            continue
        kind = next(name for name in ("string", "number", "word") if token[name] is not None)
        start, end = token.span(kind)
        box = boxes[-1] if boxes else None
        if kind == "string" and box is not None and box.wants_key:
            kind, box.key, box.wants_key = "key", token["string"], False
        path = tuple(each.key for each in boxes if each.is_object)
        told.append(Found(kind, start, end, path, tuple(boxes)))
        if box is not None and kind != "key" and box.key in MARKS:
            box.marks[box.key] = token[kind]
    yield from told  # marks may come behind what they mark


def _move(mark: str, boxes: list[Box]) -> None:
    if mark in "{[":
        boxes.append(Box(mark == "{", wants_key=mark == "{"))
    elif mark in "}]":
        del boxes[-1:]
    elif mark == "," and boxes:
        boxes[-1].place += 1
        boxes[-1].wants_key = boxes[-1].is_object


def units(raw: str) -> list[tuple[str, str]]:
    """What stands between the quotes of a string, unit by unit: as it is written, and the character that it is."""
    return [(unit, _character(unit)) for unit in _UNIT.findall(raw)]


def _character(unit: str) -> str:
    if not unit.startswith("\\") or len(unit) == 1:
        return unit
    try:
        return str(json.loads(f'"{unit}"'))
    except ValueError:
        return "\\"


def written(unit: str, character: str) -> str:
    """The character as the unit writes it, in as many characters; a unit that is no letter stays."""
    if len(unit) == 1:
        return character
    if len(unit) == _SHORT_ESCAPE:
        return f"\\u{ord(character):04x}"
    if len(unit) == _PAIR:
        high, low = divmod(ord(character) - 0x10000, 0x400)
        return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
    return unit


@frozen
class Line:
    """A part of a body of server-sent events: a record's data (`field` is data), or another line's value."""

    field: str
    places: Sequence[int]  # of its characters in the body


def lines_of(text: str) -> Iterator[Line]:
    """The data of each record, its lines joined, and the value of each other line."""
    data: list[int] = []
    for line in _LINE.finditer(text):
        start, end = line.span("line")
        name, colon, _ = line["line"].lstrip("\ufeff").partition(":")
        at = start + line["line"].index(":") + 1 if colon else start
        at += text[at : at + 1] == " "
        if start == end and data:
            yield Line("data", data)
            data = []
        elif name == "data" and colon:
            data.extend(range(at, end))
        elif start < end:
            yield Line(name if colon else "?", range(at, end))
    if data:
        yield Line("data", data)
