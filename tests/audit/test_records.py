"""The shape of a record: the schema that is kept says what is written, and nothing else."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator

from fsm_loop.audit.records import artefacts, schema
from fsm_loop.audit.scribe import page_facts
from fsm_loop.core.machine import PAGE
from tests.audit.test_verify import EXHAUSTED, TRAILS, put
from tests.house.source import ROOT

CHECK = Draft202012Validator(schema())


def test_the_schema_is_kept():
    """The file in specs is, letter by letter, what the classes say, and a schema by its own standard."""
    ((path, text),) = artefacts().items()

    assert text == (ROOT / path).read_text()
    assert schema() == json.loads(text)
    Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize("records", [*TRAILS.values(), EXHAUSTED], ids=[*TRAILS, "exhausted"])
def test_every_record_has_the_shape(records):
    """Opening, decisions and end are valid, with digests and with all content, signed or not."""
    assert [] == [error.message for each in records for error in CHECK.iter_errors(each)]


@pytest.mark.parametrize(
    ("at", "path", "value"),
    [
        (0, ("format",), "1"),
        (1, ("seq",), -1),
        (2, ("hash",), "0" * 63),
        (2, ("moved", 0, "cap"), "many"),
        (2, ("guards", 0, 1), "yes"),
        (2, ("colour",), "red"),
        (2, ("is",), "guess"),
        (-1, ("exhausted",), {}),
        (-1, ("signature",), "0" * 127),
    ],
)
def test_what_has_another_shape_is_not_valid(at, path, value):
    """A wrong type, a value out of range and a member that is not known are refused."""
    records = put(TRAILS["digests"], at, path, value)

    assert not CHECK.is_valid(records[at])


# A page with other rows or counters is another version: give it the next one, and its hash.
VERSIONS = {"1": "3672dcf5ea397633f0f6128b61a74d01e372cebbe3f6c28bf37311ce0d0ada7a"}


def test_the_version_of_the_page_is_that_of_its_rows():
    """A row or a counter that changes is another version of the page, and trails say which one decided."""
    facts = page_facts(PAGE)

    assert VERSIONS[PAGE.version] == facts["hash"]
    assert (PAGE.version, facts["hash"]) == (EXHAUSTED[0]["page"]["version"], EXHAUSTED[0]["page"]["hash"])
