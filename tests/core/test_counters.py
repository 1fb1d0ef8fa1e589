"""What is counted: one entry is the whole of a counter."""

from __future__ import annotations

import attrs
import pytest

from fsm_loop.config import LoopConfig
from fsm_loop.core import counters as c
from fsm_loop.core.counters import COUNTERS, Counter, Occasion, refilled

# fmt: off
TOLD = {  # the caps that a turn has when nobody says otherwise, and what refills them
    "requests": (160, ""), "iterations": (40, ""), "grace_calls": (1, ""),
    "tokens": (None, ""), "cost": (None, ""), "turn_seconds": (None, ""),
    "sanitizations": (2, ""), "credential_refreshes": (2, ""), "output_limit_repairs": (2, ""), "history_repairs": (2, ""),
    "media_repairs": (1, ""), "parameter_repairs": (2, ""), "stream_switches": (2, ""),
    "continuations": (3, "a tool round"), "boosts": (3, "a tool round"), "empty_replies": (2, "a tool round"),
    "bad_tool_rounds": (3, "a tool round"), "compactions": (3, "a tool round"), "recoveries": (5, "a tool round"),
    "fallbacks": (2, "a recovery cycle"), "rebuilds": (3, "a reply"),
    "api_retries": (3, "a tool round, a provider switch, a recovery cycle, a cut reply that goes on"),
    "stream_retries": (2, "a tool round, a provider switch, a recovery cycle, a cut reply that goes on"),
    "slot_waits": (1, "the request going out"),
}
# fmt: on


def test_the_counters_are_the_table():
    """Each counter has the cap and the refills that the documents promise, in the order of the ranks."""
    told = {each.name: (each.limit(LoopConfig(), 2), ", ".join(each.refilled_by)) for each in COUNTERS}

    assert TOLD == told
    assert list(TOLD) == [each.name for each in COUNTERS]


@pytest.mark.parametrize("counter", COUNTERS, ids=lambda counter: counter.name)
def test_an_entry_is_whole(counter):
    """A counter is found by its name, says what it counts, and its cap is a field of the configuration or the chain."""
    assert counter is getattr(c, counter.name)
    assert counter.counts
    assert counter.cap is None or counter.cap in attrs.fields_dict(LoopConfig)


@pytest.mark.parametrize("chain", [0, 1, 7])
def test_the_cap_of_hops_is_the_length_of_the_chain(chain):
    """There are as many hops as providers behind the first."""
    assert chain == c.fallbacks.limit(LoopConfig(), chain)


def test_a_cap_may_be_a_number():
    """A counter of a user's own page needs no field of ours."""
    assert 7 == Counter("own", "things", 7).limit(LoopConfig(), 0)


def test_only_the_host_spends_what_is_the_hosts():
    """One counter is by the host, and three are measured."""
    assert [c.rebuilds] == [each for each in COUNTERS if each.by_host]
    assert [c.tokens, c.cost, c.turn_seconds] == [each for each in COUNTERS if each.measured]


@pytest.mark.parametrize(
    ("occasions", "expected"),
    [
        ((), ()),
        ((Occasion.WORD,), ()),
        ((Occasion.REQUEST_OUT,), (c.slot_waits,)),
        ((Occasion.PROVIDER_SWITCH, Occasion.REPLY), (c.rebuilds, c.api_retries, c.stream_retries)),
    ],
)
def test_occasions_refill(occasions, expected):
    """What occasions refill is told once each, in the order of the ranks."""
    assert expected == refilled(COUNTERS, occasions)
