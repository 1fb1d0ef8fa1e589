"""Ids of tool calls in the form that a provider demands."""

from __future__ import annotations

import re

import pytest

from fsm_loop.errors import ConfigError
from fsm_loop.providers.call_ids import check_pattern, fitted_id

PATTERNS = ["^[a-zA-Z0-9]{9}$", "^[a-zA-Z0-9_-]{1,64}$", "^call_[A-Za-z0-9]{24}$", "^toolu_", r"^fc_\w+$", "^.{40}$"]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("call_id", ["", "call_Zq3xW8nT5vBk2LmP0aRsYc7d", "a b", "\ud800", "x" * 200])
def test_an_id_is_made_to_fit(pattern, call_id):
    """Whatever the id was, the one that is sent is of the form that was asked for, and always the same."""
    fitted = fitted_id(call_id, pattern)

    assert re.search(pattern, fitted)
    assert fitted == fitted_id(call_id, pattern)


def test_an_id_that_fits_stays():
    """What the provider takes is not changed, and without a pattern nothing is."""
    assert "abcdefghi" == fitted_id("abcdefghi", PATTERNS[0])
    assert "any thing" == fitted_id("any thing", "")


def test_different_ids_stay_different():
    """A thousand ids are a thousand ids in the other form too."""
    assert 1000 == len({fitted_id(f"call_{number}", PATTERNS[0]) for number in range(1000)})


@pytest.mark.parametrize("pattern", ["(", "^[.]{3}$"])
def test_a_pattern_that_no_id_can_have_is_refused(pattern):
    """It is told where it is given, not when the first call is sent."""
    with pytest.raises(ConfigError, match="call_id_pattern"):
        check_pattern(pattern)
