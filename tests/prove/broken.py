"""Pages that are broken on purpose: ours, with one thing changed, as no rule would let it be made."""

from __future__ import annotations

from attrs import evolve

from fsm_loop.core import actions as do
from fsm_loop.core import counters as c
from fsm_loop.core import guards as g
from fsm_loop.core.counters import COUNTERS, Occasion
from fsm_loop.core.events import (
    InterruptAsked,
    ProviderFailed,
    ProviderReady,
    SlotGranted,
    SlotRefused,
    StreamDropped,
)
from fsm_loop.core.guards import left
from fsm_loop.core.machine import PAGE, TABLE, State
from fsm_loop.core.rows import Page


def unchecked(lines, counters=COUNTERS, page=PAGE):
    """The page with other lines, as no rule lets it be made."""
    made = Page.__new__(Page)
    facts = {
        "states": page.states,
        "start": page.start,
        "done": page.done,
        "lines": tuple(lines),
        "counters": counters,
        "version": "broken",
        "rows": tuple(row for each in lines for row in each.rows()),
    }
    for name, value in facts.items():
        object.__setattr__(made, name, value)
    return made


def with_lines(which, **changes):
    """Our page, with these changes to each line of which *which* holds; there must be one."""
    assert any(map(which, TABLE))
    return unchecked([evolve(each, **changes) if which(each) else each for each in TABLE])


def without_lines(which):
    """Our page, without each line of which *which* holds; there must be one."""
    assert any(map(which, TABLE))
    return unchecked([each for each in TABLE if not which(each)])


def with_counter(counter, **changes):
    """Our page, with this counter changed wherever it stands."""
    other = evolve(counter, **changes)

    def swapped(each):
        when = tuple(
            g.Left(guard.__name__, tuple(other if one is counter else one for one in guard.counters))
            if isinstance(guard, g.Left)
            else guard
            for guard in each.when
        )
        return evolve(each, when=when, spends=other if each.spends is counter else each.spends)

    return unchecked([swapped(each) for each in TABLE], tuple(other if one is counter else one for one in COUNTERS))


def spends(counter, on=None):
    """Whether a line spends this counter, on this event if one is given."""
    return lambda each: each.spends is counter and on in (None, each.on)


def at(state, on, *when):
    """Whether a line begins in this state, on this event, and asks at least these guards."""
    return lambda each: state in each.sources and each.on is on and set(when) <= set(each.when)


FREE = {"spends": None}
# fmt: off
# What is broken; then who finds it: the page's own rules, the loops, the loops without the cap on requests.
PLANTED = {
    "a retry refills the retries": (
        lambda: with_lines(spends(c.api_retries), brings=(Occasion.CUT_REPLY,)),                           True,  True,  True),
    "a hop arms the chain again": (
        lambda: with_lines(spends(c.fallbacks), brings=(Occasion.RECOVERY_CYCLE,)),                        True,  True,  True),
    "a tool round refills the iterations": (
        lambda: with_counter(c.iterations, refilled_by=(Occasion.TOOL_ROUND,)),                            True,  False, True),
    "a wait for a slot is not spent": (
        lambda: with_lines(spends(c.slot_waits), **FREE),                                                  True,  True,  True),
    "a reconnect is not spent": (
        lambda: with_lines(at(State.CALLING, StreamDropped, g.tool_in_flight), **FREE),                    False, False, True),
    "a retry is spent and not asked for": (
        lambda: with_lines(at(State.CALLING, SlotRefused, g.may_retry), when=(g.may_retry,)),              True,  True,  True),
    "a refresh of the credential is not spent": (
        lambda: with_lines(spends(c.credential_refreshes), **FREE),                                        True,  False, True),
    "the last word is asked for again": (
        lambda: with_lines(at(State.GRACE, StreamDropped), to=State.GRACE, do=do.reconnect),               False, True,  True),
    "a provider that is not ready is asked for again": (
        lambda: with_lines(lambda each: each.on is ProviderFailed and each.spends is c.fallbacks, when=(g.falls_back,), **FREE), True, True, True),
    "a steer is answered that nobody gave": (
        lambda: with_lines(lambda each: g.steer_waiting in each.when, when=(g.has_text,)),                 False, False, True),
    "a cap that may be none": (
        lambda: with_counter(c.slot_waits, cap="tokens"),                                                  False, True,  True),
    "two spends of one counter, one of them refilled": (
        lambda: with_lines(spends(c.rebuilds), spends=c.slot_waits, when=(left(c.slot_waits),)),           True,  False, True),
    "an interrupt is not heard while a timer runs": (
        lambda: without_lines(lambda each: each.on is InterruptAsked and State.BACKOFF in each.sources),   True,  False, False),
    "there is no otherwise": (
        lambda: without_lines(lambda each: each.on is ProviderFailed and not each.when),                   True,  False, False),
    "a round of tools is not held back by its budget": (
        lambda: with_lines(lambda each: each.do is do.answer_tools, when=(g.all_back, left(c.iterations))), False, False, False),
    "a provider that is ready is not asked": (
        lambda: with_lines(lambda each: each.on is ProviderReady, to=State.FALLBACK),                      False, False, False),
    "a request goes out without its counter": (
        lambda: with_lines(spends(c.requests, SlotGranted), **FREE),                                       True,  False, False),
}
# fmt: on
