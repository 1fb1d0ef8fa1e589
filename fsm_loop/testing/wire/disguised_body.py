"""The body of an answer, disguised byte for byte: as long as it was, so that whatever was cut stays cut there."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise

from attrs import field, frozen

from fsm_loop.testing.wire.disguise import Disguise
from fsm_loop.testing.wire.scan import Found, Line, found_in, lines_of, units, written

# fmt: off
# Keys whose values say what something is, and nothing of anybody.
PLAIN = frozenset({
    "type", "object", "role", "status", "code", "param", "model", "finish_reason", "native_finish_reason",
    "stop_reason", "reason", "service_tier", "event", "phase", "format", "effort", "severity",
})
IDS = frozenset({
    "id", "call_id", "item_id", "tool_call_id", "tool_use_id", "response_id", "previous_response_id", "request_id",
})
ARGUMENTS = frozenset({"arguments", "partial_json"})  # JSON in a string
FREE = frozenset({"input", "arguments", "metadata"})  # whatever stands below these is somebody's
# Whatever stands below the first of these says what went wrong, and so do the second, where they are strings; but not
# the third, with which an error tells what a user or a model said.
FAILURES = frozenset({"error", "errors", "detail", "incomplete_details"})
SENTENCES = frozenset({"error", "message", "detail", "error_description", "msg", "title"})
ECHOES = frozenset({"failed_generation", "input", "ctx", "prompt", "messages"})
# fmt: on

_PLAIN_VALUE = re.compile(r"[A-Za-z0-9_.:/-]{0,80}")
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_.:/@-]{1,40}")
_WORD = re.compile(r"[^\W\d_]+")
_JSON_WORDS = ("true", "false", "null")


@frozen
class _Piece:
    """A piece of text in the body: what is to become of it, where its characters stand, and how each is written."""

    kind: str
    channel: object
    places: Sequence[int]
    units: Sequence[tuple[str, str]] = field(repr=False)

    @property
    def value(self) -> str:
        return "".join(character for _, character in self.units)


@frozen
class Bodies:
    """Disguises bodies; *names* are those of the tools that were offered, *keys* those of their parameters."""

    disguise: Disguise
    names: Collection[str] = ()
    keys: Collection[str] = ()
    models: Collection[str] = ()

    def disguised(self, body: bytes, *, events: bool) -> bytes:
        """The body in its disguise, with as many bytes; *events* says that it is one of server-sent events."""
        text = body.decode("utf-8", "surrogateescape")
        lines = lines_of(text) if events else [Line("data", range(len(text)))]
        pieces = [piece for line in lines for piece in self._pieces(text, line)]
        chars = list(text)
        for piece, new in self._turned(pieces):
            places = iter(piece.places)
            for (unit, _), character in zip(piece.units, new, strict=True):
                for each in written(unit, character):
                    chars[next(places)] = each
        result = "".join(chars).encode("utf-8", "surrogateescape")
        assert len(result) == len(body)
        return result

    def _turned(self, pieces: Sequence[_Piece]) -> Iterator[tuple[_Piece, str]]:
        """Each piece with what becomes of it; pieces of one text are disguised as one."""
        together: dict[tuple[str, object], list[_Piece]] = defaultdict(list)
        for piece in pieces:
            together[piece.kind, piece.channel].append(piece)
        for (kind, channel), parts in together.items():
            whole = channel is not None and not _repeats([part.value for part in parts])
            for group in [parts] if whole else [[part] for part in parts]:
                new = self._new(kind, "".join(part.value for part in group))
                at = 0
                for part in group:
                    yield part, new[at : at + len(part.units)]
                    at += len(part.units)

    def _new(self, kind: str, text: str) -> str:
        if kind == "plain" and self._is_plain(text):
            return text
        disguise = self.disguise
        become: Mapping[str, Callable[[], str]] = {
            "plain": lambda: disguise.error(text, self._known()),
            "error": lambda: disguise.error(text, self._known()),
            "id": lambda: disguise.id(text),
            "name": lambda: disguise.name(text, self.names),
            "json": lambda: disguise.json(text, self.keys),
            "number": lambda: disguise.number(text),
            "text": lambda: disguise.text(text),
        }
        return become[kind]()

    def _known(self) -> set[str]:
        """The words that an error may say because they are the program's own."""
        return {*self.names, *self.keys, *(word for model in self.models for word in _WORD.findall(model))}

    def _is_plain(self, text: str) -> bool:
        return _PLAIN_VALUE.fullmatch(text) is not None and not self.disguise.is_secret(text)

    # ------------------------------------------------------------ what stands where

    def _pieces(self, text: str, line: Line) -> Iterator[_Piece]:
        said = "".join(text[at] for at in line.places)
        if line.field != "data":
            kind = {"event": "plain", "id": "id", "retry": "plain"}.get(line.field, "error")
            yield _Piece(kind, None, line.places, [(each, each) for each in said])
            return
        if said.strip() == "[DONE]":
            return
        if not said.lstrip("\ufeff \t\r\n").startswith(("{", "[", '"')):
            yield _Piece("error", None, line.places, [(each, each) for each in said])
            return
        for found in found_in(said):
            kind = self._kind(found, said[found.start : found.end])
            if kind:
                pairs = units(said[found.start : found.end])
                channel = (found.kind, found.channel) if kind in ("text", "json", "name") else None
                yield _Piece(kind, channel, line.places[found.start : found.end], pairs)

    def _kind(self, found: Found, raw: str) -> str:
        """What is to become of it; nothing where it stays."""
        path = found.path
        free = not FREE.isdisjoint(path[:-1])
        if found.kind == "word":
            return "" if raw in _JSON_WORDS else "error"
        if found.kind == "number":
            return "number" if free else ""
        if found.kind == "key":
            return "" if raw in self.keys or (not free and _PLAIN_KEY.fullmatch(raw)) else "text"
        return "text" if free else _kind_of_string(path, found)


def _kind_of_string(path: tuple[str, ...], found: Found) -> str:
    key = path[-1] if path else ""
    in_failure = not FAILURES.isdisjoint(path[:-1])
    if in_failure and not ECHOES.isdisjoint(path):
        return "text"
    if key in PLAIN:
        return "plain"
    if key in IDS:
        return "id"
    if in_failure or key in SENTENCES:
        return "error"
    if key in ARGUMENTS or (key == "delta" and "arguments" in _type(found)):
        return "json"
    return "name" if key == "name" else "text"


def _type(found: Found) -> str:
    """The type of the event that it stands in."""
    return found.boxes[0].marks.get("type", "") if found.boxes else ""


def _repeats(values: Sequence[str]) -> bool:
    """Whether each piece holds the ones before it: a server that tells all of it again and again."""
    return len(values) > 1 and all(one and two.startswith(one) for one, two in pairwise(values))
