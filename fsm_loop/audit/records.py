"""The three kinds of record that a trail is made of, and their shape: an opening, decisions, an end.

`specs/trail.schema.json` is generated from here, and a record that is read is checked against these same classes.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

FORMAT = 1  # what the shape is called; a trail of another shape says so in its opening
START = "0" * 64  # stands where the hash of a record before the first one would

Number = int | float
Hash = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$", description="SHA-256, in hexadecimal")]
Seconds = Annotated[Number, Meta(description="seconds of the turn's own clock, from any beginning")]
Unix = Annotated[Number, Meta(description="seconds since 1970-01-01 UTC, by the watcher's clock")]
Name = Annotated[str, Meta(min_length=1)]
Whole = Annotated[int, Meta(ge=0)]


class Moved(Struct, forbid_unknown_fields=True):
    """A counter that moved: its value before and after, and its cap (null where there is none)."""

    counter: Name
    before: Number
    after: Number
    cap: Number | None


class Spent(Struct, forbid_unknown_fields=True):
    """The counter that ended the turn: its value and its cap."""

    counter: Name
    value: Number
    cap: Number


class PageFacts(Struct, forbid_unknown_fields=True):
    """The page that decided: what its maker calls it, one hash over all of it, and the start of one for each row."""

    version: str
    hash: Hash
    rows: dict[str, str]


class Opening(Struct, forbid_unknown_fields=True, tag_field="is", tag="opening"):
    """The first record of a turn: all that its decisions depend on, but for the events."""

    turn: Name
    wall: Unix
    format: Whole
    package: str
    page: PageFacts
    config: dict[str, Any]
    providers: Annotated[list[str], Meta(min_length=1)]
    content: Literal["digests", "full"]
    previous: Hash
    hash: Hash


class Decided(Struct, forbid_unknown_fields=True, tag_field="is", tag="decision"):
    """One decision: what came, which guards were asked, which row fired, what moved, what is to be done."""

    turn: Name
    seq: Whole
    at: Seconds
    wall: Unix
    state: Name
    trigger: Name
    facts: dict[str, Any]
    guards: list[tuple[Name, bool]]
    row: Name
    moved: list[Moved]
    effects: list[dict[str, Any]]
    after: Name
    previous: Hash
    hash: Hash


class Ended(Struct, forbid_unknown_fields=True, tag_field="is", tag="end"):
    """The last record of a turn: its result. `signature` is over `hash`, where the trail is signed."""

    turn: Name
    wall: Unix
    decisions: Whole
    outcome: Name
    text: Any
    exhausted: Spent | None
    fault: dict[str, Any] | None
    issuer: Any
    reason: Any
    usage: dict[str, Number]
    llm_calls: Whole
    counters: dict[str, Number]
    pending_steers: Whole
    previous: Hash
    hash: Hash
    signature: (
        Annotated[str, Meta(pattern=r"^[0-9a-f]{128}$", description="Ed25519, in hexadecimal")] | msgspec.UnsetType
    ) = field(default=msgspec.UNSET)


TrailRecord = Opening | Decided | Ended
UNHASHED = ("hash", "signature")  # the members that a record's hash leaves out


def schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a record."""
    made = msgspec.json.schema(TrailRecord)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A record of a turn's trail", **made}


def artefacts() -> dict[str, str]:
    """The schema as it is kept beside the code, by its path."""
    return {"specs/trail.schema.json": json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"}
