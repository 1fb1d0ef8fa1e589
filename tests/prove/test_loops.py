"""The certificate: how the loops of a page come apart, and what is said of those that do not."""

from __future__ import annotations

import json

import pytest

from fsm_loop.core import actions as do
from fsm_loop.core import counters as c
from fsm_loop.core import guards as g
from fsm_loop.core.counters import COUNTERS, Counter, Occasion
from fsm_loop.core.events import TimerFired, TurnStarted
from fsm_loop.core.guards import left
from fsm_loop.core.machine import PAGE, State
from fsm_loop.core.rows import line, problems
from fsm_loop.prove import certificate
from fsm_loop.prove.loops import PENDING, WORD
from tests.export.own_page import OWN_PAGE, THOUGHTS
from tests.prove.broken import PLANTED, spends, unchecked, with_lines


@pytest.mark.parametrize("without", [(), (c.requests,)], ids=["", "without requests"])
def test_our_page_terminates(without):
    """Every loop of the page that runs is counted, with the cap on requests and without it."""
    certified = certificate(without=without)

    assert certified.terminates
    assert "Every loop is counted" in str(certified).splitlines()[0]
    assert COUNTERS == certified.ranks


def test_our_page_needs_more_than_requests():
    """The certificate is no formality: without the counters of what is asked again, it fails."""
    certified = certificate(without=[c.requests, c.api_retries])

    assert not certified.terminates
    assert "without requests, api_retries" in str(certified)


def test_a_user_s_own_page_is_proved_as_well():
    """A page with a state and a counter of its own comes apart too, and its counter is named."""
    certified = certificate(OWN_PAGE)

    assert certified.terminates
    assert any((THOUGHTS,) == part.spends for part in certified.parts)


def test_each_part_is_smaller_than_the_one_it_is_in():
    """What remains of a part has fewer rows, and the rows that paid are not among them."""
    outer = {}
    for part in certificate(without=[c.requests]).parts:
        outer[part.depth] = part
        if part.depth:
            around = outer[part.depth - 1]

            assert set(part.rows) < set(around.rows)
            assert not set(part.rows) & set(around.pays)


def test_no_row_of_a_part_refills_what_the_part_spends():
    """The claim of each line of the certificate is true of the rows that it names."""
    rows = {row.name: row for row in PAGE.rows}
    for part in certificate(without=[c.requests]).parts:
        refilled = {counter for name in part.rows for counter in PAGE.refills(rows[name])}

        assert not refilled & set(part.spends)
        assert all(rows[name].spends in rows[name].asks for name in part.pays if part.spends)


def test_what_is_exempt_is_named_with_its_reason():
    """Tools that are waited for, and words of the user, spend nothing, and the certificate says why not."""
    exempt = {each.why: set(each.rows) for each in certificate().exempt}

    assert {"tool_exec.tool_returned"} == exempt[PENDING]
    assert {"calling.model_replied.steer_waiting", "streaming.steer_given.is_now"} <= exempt[WORD]
    assert {PENDING, WORD} == set(exempt)


@pytest.mark.parametrize(("make", "rules", "loops", "nested"), PLANTED.values(), ids=PLANTED)
def test_who_finds_what_is_broken(make, rules, loops, nested):
    """The table of planted faults says truly which the page's rules find, and which the loops."""
    page = make()

    assert (rules, loops, nested) == (
        bool(list(problems(page))),
        not certificate(page).terminates,
        not certificate(page, without=[c.requests]).terminates,
    )


@pytest.mark.parametrize(
    "make", [each[0] for each in PLANTED.values() if each[3]], ids=[n for n in PLANTED if PLANTED[n][3]]
)
def test_a_loop_that_is_not_counted_can_be_gone_round(make):
    """Each row of the loop that is shown begins where the one before it ends, and all it spends is refilled in it."""
    page = make()
    for loop in certificate(page, without=[c.requests]).loops:
        refilled = {counter for edge in loop for counter in page.refills(edge.row)}

        assert [edge.there for edge in loop] == [edge.here for edge in (*loop[1:], loop[0])]
        assert {
            edge.row.spends for edge in loop if edge.row.spends in edge.row.asks and edge.row.spends.cap != "tokens"
        } <= refilled | {c.requests}


def test_the_loop_is_told_row_by_row():
    """A page that fails says in which rows one may go round for ever."""
    text = str(certificate(with_lines(spends(c.slot_waits), spends=None)))

    assert "A turn may go on for ever: 2 of its loops are not counted." in text
    assert "NOT COUNTED" in text
    assert "calling.slot_refused.waits_soon+slot_waits_left -> backoff\n" in text.replace("grace.", "calling.")
    assert "backoff.timer_fired -> calling" in text


def test_rounds_are_tied_together_where_none_is_for_nothing_alone():
    """Where two counters refill each other, the way round goes through both."""
    ebb = Counter("ebb", "ebbs", 1, (Occasion.REPLY,))
    flow = Counter("flow", "flows", 1, (Occasion.TOOL_ROUND,))
    calm, done = State.BACKOFF, State.DONE
    lines = [
        line(State.READY, TurnStarted, [], calm, do.wait_for_slot),
        line(calm, TimerFired, [g.steer_waiting, left(ebb)], calm, do.wait_for_slot, ebb, (Occasion.TOOL_ROUND,)),
        line(calm, TimerFired, [left(flow)], calm, do.wait_for_slot, flow, (Occasion.REPLY,)),
        line(calm, TimerFired, [], done, do.keep),
    ]
    (loop,) = certificate(unchecked(lines, (ebb, flow))).loops

    assert ["backoff.timer_fired.steer_waiting+ebb_left", "backoff.timer_fired.flow_left"] == [
        edge.row.name for edge in loop
    ]


def test_the_certificate_is_data_too():
    """The certificate can be written as JSON, with the parts in their order."""
    plain = json.loads(json.dumps(certificate().plain()))

    assert plain["terminates"]
    assert "requests" == plain["parts"][0]["spends"][0]
    assert [0, 1, 2, 3] == [part["depth"] for part in plain["parts"][:4]]
    assert [] == plain["loops"]
