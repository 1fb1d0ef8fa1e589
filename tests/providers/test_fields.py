"""Fields of a provider's JSON: what has the wrong type, or is absurd, says nothing, or is a fault."""

from __future__ import annotations

import pytest

from fsm_loop.core.faults import FaultKind
from fsm_loop.errors import ModelError
from fsm_loop.providers.fields import (
    MAX_DEPTH,
    amount,
    arguments_in,
    count,
    index,
    items,
    mapping,
    not_deep,
    text,
    too_many,
    word,
)

INFINITE, NO_NUMBER = float("inf"), float("nan")


def lists(depth):
    """So many lists in one another."""
    value = []
    for _ in range(depth - 1):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("read", "value", "expected"),
    [
        (mapping, {"a": 1}, {"a": 1}), (mapping, [1], {}), (mapping, None, {}),
        (items, [1], [1]), (items, "ab", []), (items, {"a": 1}, []),
        (word, "a", "a"), (word, 7, "7"), (word, True, ""), (word, 1.5, ""),
        (text, "a", "a"), (text, 7, ""),
        (count, 3, 3), (count, 3.9, 3), (count, -1, 0), (count, INFINITE, 0), (count, NO_NUMBER, 0), (count, "3", 0),
        (amount, 0.5, 0.5), (amount, 1e30, 0.0), (amount, None, 0.0),
        (index, 2, 2), (index, "2", 2), (index, "9" * 5000, None), (index, True, None), (index, "x", None),
        (arguments_in, "{", "{"), (arguments_in, {"a": [1]}, '{"a": [1]}'), (arguments_in, 7, ""), (arguments_in, None, ""),
    ],
)  # fmt: skip
def test_a_field_is_read_whatever_it_is(read, value, expected):
    """What can be made sense of is, and the rest is as if it were not there."""
    assert expected == read(value)


@pytest.mark.parametrize("read", [arguments_in, not_deep])
def test_what_has_no_bottom_is_a_fault(read):
    """Lists in lists in lists are no reply."""
    with pytest.raises(ModelError) as raised:
        read(lists(5000))

    assert FaultKind.MALFORMED is raised.value.fault.kind


def test_what_has_a_bottom_is_let_through():
    """As deep as the limit is deep enough."""
    assert lists(MAX_DEPTH) == not_deep(lists(MAX_DEPTH))
    with pytest.raises(ModelError):
        not_deep([lists(MAX_DEPTH)])


def test_too_many_says_of_what():
    """The fault names what there is too much of."""
    assert "the reply has more than 4096 calls" == too_many("calls").fault.message
