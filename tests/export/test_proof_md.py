"""The proof in short, as the README holds it."""

from __future__ import annotations

from fsm_loop.core.machine import PAGE
from fsm_loop.export.proof_md import proof
from fsm_loop.prove import bounds
from tests.export.own_page import OWN_PAGE
from tests.prove.broken import FREE, with_lines


def test_it_holds_the_certificate_and_the_bounds():
    """The counters that pay for the loops stand above those that they refill, and each number is that of `bounds`."""
    told = proof(PAGE)

    assert told.index("`iterations`") < told.index("`continuations`") < told.index("`fallbacks`")
    assert f"| model calls | {bounds()['llm_calls'].value:,.0f} |" in told
    assert f"| the longest turn | {bounds()['lasted_s'].value:,.0f} s | 8 d 20 h 20 min |" in told
    assert "| after an interrupt | 0 s |" in told


def test_another_page_has_its_own():
    """The block of another page speaks of its counters, and claims no more than is known of it."""
    told = proof(OWN_PAGE)

    assert "| 1 | `thoughts` |" in told
    assert "| model calls | 161 | at most: by counting rows |" in told


def test_a_page_that_fails_has_no_worst_case():
    """Where a loop is not counted, it says so, and gives no number."""
    told = proof(with_lines(lambda each: each.spends is not None, **FREE))

    assert "NOT COUNTED" in told
    assert "model calls" not in told
