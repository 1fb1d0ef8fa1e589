"""The rank that z3 chooses and proves: it agrees with the certificate, and names what fails."""

from __future__ import annotations

import json
import sys

import pytest

from fsm_loop.core import counters as c
from fsm_loop.core.machine import PAGE
from fsm_loop.errors import MissingExtra
from fsm_loop.prove import certificate
from fsm_loop.prove.rank import has_z3, ranked
from tests.export.own_page import OWN_PAGE
from tests.prove.broken import PLANTED

needs_z3 = pytest.mark.skipif(not has_z3(), reason="z3 is not installed: pip install 'fsm-loop[prove]'")
WITHOUT = pytest.mark.parametrize("without", [(), (c.requests,)], ids=["", "without requests"])


@needs_z3
@WITHOUT
@pytest.mark.parametrize("page", [PAGE, OWN_PAGE], ids=["ours", "a user's"])
def test_a_whole_page_has_a_rank(page, without):
    """Every row lowers it, whatever the counters and the caps are, with the cap on requests and without it."""
    found = ranked(page, without=without)

    assert found.holds
    assert () == found.conflict
    assert found.rows > 100
    assert set(found.order) == {each for each in page.counters if not each.measured} - set(without)
    assert "z3 agrees" in str(found)


@needs_z3
@WITHOUT
@pytest.mark.parametrize("planted", PLANTED)
def test_it_agrees_with_the_certificate(planted, without):
    """On each page with a fault planted in it, z3 and the certificate find the same."""
    page = PLANTED[planted][0]()

    assert certificate(page, without=without).terminates == ranked(page, without=without).holds


@needs_z3
def test_a_failing_row_is_named():
    """The row, the values under which it does not lower the rank, and the rows that it stands in the way of."""
    found = ranked(PLANTED["a retry refills the retries"][0]())
    plain = json.loads(json.dumps(found.plain()))
    row = next(each for each in found.failing if "api_retries" in each.row)

    assert not plain["holds"]
    assert any("api_retries_left" in each for each in found.conflict)
    assert row.values["api_retries"] < row.values["api_retries's cap"]
    assert "does not lower the rank, as with api_retries = " in str(found)


@needs_z3
def test_a_counter_that_passes_its_cap_is_named():
    """A row that spends without asking can be at the cap already."""
    found = ranked(PLANTED["a retry is spent and not asked for"][0]())
    row = next(each for each in found.failing if "past its cap" in each.why)

    assert row.values["api_retries"] == row.values["api_retries's cap"]


def test_without_z3_the_extra_is_named(monkeypatch):
    """Whoever has no z3 is told how to have it."""
    monkeypatch.setitem(sys.modules, "z3", None)
    with pytest.raises(MissingExtra, match=r"pip install 'fsm-loop\[prove\]'"):
        ranked()
