"""A case: what the wire does, and what a right loop does about it. `specs/cases.md` says how one is written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from fsm_loop.errors import FsmLoopError

PROTOCOLS = ("openai-chat", "anthropic", "openai-responses")
Parts = Mapping[str, Any]

MOST_TOLD = 5  # things that are wrong with a case
LONGEST_TOLD = 200  # characters of one of them


@frozen
class Received:
    """A request that reached the server, `at` virtual seconds after its start."""

    number: int
    at: float
    path: str
    headers: Mapping[str, str]
    body: Any


class CaseError(FsmLoopError):
    """A case cannot be read: the file, or what is wrong with it."""


@frozen
class Case:
    """One case, or one variant of it; *switches* are the variants that the server chooses by what it is asked."""

    id: str
    title: str
    kind: str
    protocol: str
    stream: bool
    setup: Parts
    exchange: tuple[Parts, ...]
    expect: Parts
    repeats_last: bool = False
    switches: tuple[Parts, ...] = ()
    variants: tuple[Parts, ...] = field(default=(), repr=False)
    variant: str = ""

    @property
    def name(self) -> str:
        """The case's id, with the variant's name where it is one."""
        return f"{self.id}[{self.variant}]" if self.variant else self.id

    def runs(self) -> Iterator[Case]:
        """The case itself, then each of its variants: another response, and expectations changed field by field."""
        yield self
        for each in self.variants:
            exchange = list(self.exchange)
            exchange[each["at"]] = each["response"]
            expect = {**self.expect, **each.get("expect", {})}
            yield evolve(self, exchange=tuple(exchange), expect=expect, switches=(), variant=each["name"])


def case_of(value: Any, source: str = "case") -> Case:
    """The case that this JSON value is; raises CaseError where it is none, with each place that the schema refuses.

    The whole schema is asked where the package jsonschema is installed (extra `testing`); where it is not, only whether
    each field is one that a case has.
    """
    if wrong := [*_refused(value)]:
        more = f", and {len(wrong) - MOST_TOLD} more" if len(wrong) > MOST_TOLD else ""
        raise CaseError(f"{source}: is no case: {'; '.join(wrong[:MOST_TOLD])}{more}")
    try:
        return _case_of(value)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        raise CaseError(f"{source}: is no case: {type(error).__name__}: {error}") from error


def schema() -> str:
    """The JSON Schema (2020-12) of a case, as text."""
    return resources.files("fsm_loop.testing.wire").joinpath("case.schema.json").read_text(encoding="utf-8")


def _refused(value: Any) -> Iterator[str]:
    """What the schema refuses, each with its place in the case."""
    validator = _validator()
    if validator is None:
        known = json.loads(schema())
        yield from _unknown(value, known, known["$defs"], "$")
        return
    for error in sorted(validator.iter_errors(value), key=lambda each: each.json_path):
        yield f"{error.json_path}: {error.message[:LONGEST_TOLD]}"


@cache
def _validator() -> Any:
    try:
        import jsonschema
    except ImportError:
        return None
    kind = jsonschema.Draft202012Validator
    return kind(json.loads(schema()), format_checker=kind.FORMAT_CHECKER)


def _unknown(value: Any, known: Parts, parts: Parts, place: str) -> Iterator[str]:
    """The fields of a value that its schema does not have."""
    while "$ref" in known:
        known = parts[known["$ref"].rpartition("/")[2]]
    for each in known.get("allOf", ()):
        yield from _unknown(value, each, parts, place)
    if isinstance(value, list) and "items" in known:
        for at, each in enumerate(value):
            yield from _unknown(each, known["items"], parts, f"{place}[{at}]")
    if isinstance(value, dict) and "properties" in known:
        names = known["properties"]
        for name, each in value.items():
            if name in names:
                yield from _unknown(each, names[name], parts, f"{place}.{name}")
            elif known.get("additionalProperties") is False:
                yield f"{place}: a case has no field {name!r} there"


def _case_of(value: Parts) -> Case:
    if value["schema_version"] != 1:
        raise ValueError(f"schema_version is {value['schema_version']!r}; it must be 1")
    if value["protocol"] not in PROTOCOLS:
        raise ValueError(f"protocol is {value['protocol']!r}; it must be one of {', '.join(PROTOCOLS)}")
    variants = value.get("variants", [])
    for each in variants:
        value["exchange"][each["at"]]
    for needed in ("models", "messages", "tools", "actions", "config"):
        value["setup"][needed]
    for needed in ("events", "outcome", "max_llm_calls", "visible_text", "tool_calls"):
        value["expect"][needed]
    return Case(
        id=value["id"],
        title=value["title"],
        kind=value["kind"],
        protocol=value["protocol"],
        stream=value["stream"],
        setup=value["setup"],
        exchange=tuple(value["exchange"]),
        expect=value["expect"],
        repeats_last=value.get("exchange_overflow") == "repeat_last",
        switches=tuple(each for each in variants if "if" in each),
        variants=tuple(each for each in variants if "if" not in each),
    )


def case_from(path: Path) -> Case:
    """The case in this file; raises CaseError."""
    try:
        return case_of(json.loads(path.read_text(encoding="utf-8")), str(path))
    except OSError as error:
        raise CaseError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise CaseError(f"{path}: is not JSON: {error}") from error


def cases_in(folder: Path) -> Sequence[Case]:
    """Every case of the folder, in the order of their names; raises CaseError where there is none."""
    paths = sorted(folder.glob("*.json")) if folder.is_dir() else []
    if not paths:
        raise CaseError(f"{folder}: there is no case here; a case is a file ID.json")
    return [case_from(path) for path in paths]
