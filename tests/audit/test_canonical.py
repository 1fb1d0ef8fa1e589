"""One text for one value: as RFC 8785 has it, whichever way is taken."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm_loop.audit.canonical import canonical, sha256, strictly
from fsm_loop.audit.facts import plain

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=1000, derandomize=True)
@given(VALUES)
def test_what_is_written_quickly_is_what_the_standard_has(value):
    """Whatever `plain` lets pass is written as the reference implementation writes it, and read back as it was."""
    told = plain(value)

    assert strictly(told) == canonical(told)
    assert told == json.loads(canonical(told))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"b": 1, "a": [True, None, 0.5]}, b'{"a":[true,null,0.5],"b":1}'),
        ({"\U00010000": 1, "\ue000": 2}, '{"\U00010000":1,"\ue000":2}'.encode()),
        ('\x00\x1f\x7f\u2028\u00e9/\b\f\n\r\t"\\', '"\\u0000\\u001f\x7f\u2028\u00e9/\\b\\f\\n\\r\\t\\"\\\\"'.encode()),
        ([9e-6, 1e-6, 1.5e-7, 5e-324, 2**53 - 1, 0.1], b"[0.000009,0.000001,1.5e-7,5e-324,9007199254740991,0.1]"),
        ({"a\ud800": ["\udfff", ("x",)]}, '{"a\ufffd":["\ufffd",["x"]]}'.encode()),
    ],
)
def test_a_value_has_one_text(value, expected):
    """Names are sorted as UTF-16 sorts them, only what must be is escaped, and a lone surrogate is replaced."""
    assert expected == canonical(value)


def test_a_hash_is_what_anyone_computes():
    """The hash is SHA-256, in hexadecimal."""
    assert "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" == sha256(b"abc")
