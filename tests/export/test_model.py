"""The outline says all that the page says, in the same order, and nothing else."""

from __future__ import annotations

import pytest

from fsm_loop import PAGE, LoopConfig, State
from fsm_loop.core.events import InterruptAsked, PortEvent, TimerFired, TurnStarted
from fsm_loop.core.rows import Page, line
from fsm_loop.export.model import Counter, outline
from tests.export.own_page import OWN_PAGE


def ending(record, event):
    """An action that does nothing."""
    return record, ()


PAGES = pytest.mark.parametrize("page", [PAGE, OWN_PAGE], ids=["ours", "own"])
OURS = outline()
OWN = outline(OWN_PAGE)
CALLS = ("a tool round", "a provider switch", "a recovery cycle", "a cut reply that goes on")
# Every state that goes on awaits all of these; the timer is no word of anybody's.
SMALL_PAGE = Page(
    states=(State.READY, State.DONE),
    start=State.READY,
    done=State.DONE,
    lines=tuple(line(State.READY, on, [], State.DONE, ending) for on in (InterruptAsked, TimerFired, TurnStarted)),
    counters=(),
)


def counter(name, words=OURS):
    """The counter of this name."""
    return next(each for each in words.counters if each.name == name)


@PAGES
def test_the_states_are_those_of_the_page(page):
    """Every state is there, in the order of the page, with its sentence; one begins and one ends."""
    states = outline(page).states

    assert [(each.name.lower(), each.value) for each in page.states] == [(each.name, each.sentence) for each in states]
    assert [page.start.name.lower()] == [each.name for each in states if each.start]
    assert [page.done.name.lower()] == [each.name for each in states if each.done]


@PAGES
def test_the_rows_are_those_of_the_page(page):
    """Every row is there, in the order of the page, with all of its cells."""
    rows = outline(page).rows

    assert [each.name for each in page.rows] == [each.name for each in rows]
    assert [each.trigger for each in page.rows] == [each.event for each in rows]
    assert [each.source.name.lower() for each in page.rows] == [each.source for each in rows]
    assert [each.to.name.lower() for each in page.rows] == [each.target for each in rows]
    assert [each.do.__name__ for each in page.rows] == [each.action for each in rows]
    assert [each.spends and each.spends.name for each in page.rows] == [each.spends for each in rows]
    assert [[one.__name__ for one in each.when] for each in page.rows] == [
        [one.name for one in each.guards] for each in rows
    ]
    assert [[one.name for one in page.refills(each)] for each in page.rows] == [list(each.refills) for each in rows]


@PAGES
def test_a_row_knows_its_line(page):
    """The rows of a line carry its place on the page."""
    expected = [place for place, each in enumerate(page.lines) for _ in each.rows()]

    assert expected == [each.line for each in outline(page).rows]


@PAGES
def test_the_events_are_those_of_the_page(page):
    """Every event that a line waits for is there once, in the order of the page."""
    expected = list(dict.fromkeys(each.trigger for each in page.rows))

    assert expected == [each.name for each in outline(page).events]


@PAGES
def test_the_counters_are_those_of_the_page(page):
    """Every counter is there in the order of ranks, with the rows that spend and refill it."""
    counters = outline(page).counters

    assert [(rank, each.name) for rank, each in enumerate(page.counters, 1)] == [
        (each.rank, each.name) for each in counters
    ]
    assert [[row.name for row in page.rows if row.spends is each] for each in page.counters] == [
        list(each.spent_by) for each in counters
    ]
    assert [[row.name for row in page.rows if each in page.refills(row)] for each in page.counters] == [
        list(each.refilled_by) for each in counters
    ]


@pytest.mark.parametrize(
    ("name", "cap", "setting", "env", "refilled_on"),
    [
        ("requests", "160", "max_requests", ("FSM_LOOP_MAX_REQUESTS",), ()),
        ("cost", "no limit", "cost", ("FSM_LOOP_COST",), ()),
        ("fallbacks", "length of the fallback chain", "", (), ("a recovery cycle",)),
        ("stream_retries", "2", "stream_retries", ("FSM_LOOP_STREAM_RETRIES", "HERMES_STREAM_RETRIES"), CALLS),
        ("slot_waits", "1", "slot_waits", ("FSM_LOOP_SLOT_WAITS",), ("the request going out",)),
    ],
)
def test_a_counter_says_where_its_cap_is_set(name, cap, setting, env, refilled_on):
    """A counter carries its default cap, the setting and the variables that change it, and what refills it."""
    got = counter(name)

    assert (cap, setting, env, refilled_on) == (got.cap, got.setting, got.env, got.refilled_on)


def test_an_own_counter_has_the_cap_that_it_was_given():
    """A counter of a user's page whose cap is a number has that cap, and no setting."""
    name = "asked.timer_fired.not_yet_allowed+thoughts_left"
    words = "times that a person thinks again"
    expected = Counter(
        len(OWN.counters), "thoughts", words, "7", "", (), (name,), (), (), measured=False, by_host=False
    )

    assert expected == counter("thoughts", OWN)


def test_sentences_are_those_of_the_things_themselves():
    """Guards, actions and events are told by the first line of their docstrings."""
    row = OURS.row("truncated.cut_judged.call_was_cut+room_to_grow+boosts_left")

    assert [
        "a tool call is in the cut reply",
        "the output limit can still be raised, and it is what the reply ran into",
        "boosts is under its cap",
    ] == [guard.sentence for guard in row.guards]
    assert (
        "The same request is asked again with more room; what was shown of the cut reply is withdrawn." == row.sentence
    )
    assert "The time to wait has passed." == next(each.sentence for each in OURS.events if each.name == "timer_fired")


def test_what_has_no_docstring_is_told_by_its_name():
    """A guard without a docstring is read aloud from its name."""
    row = OWN.row("asked.timer_fired.not_yet_allowed+thoughts_left")

    assert "not yet allowed" == row.guards[0].sentence


@PAGES
def test_words_that_are_heard_everywhere(page):
    """The interrupt, the steer and the rebuild are awaited in every state that goes on."""
    assert ("interrupt_asked", "steer_given", "rebuild_asked") == outline(page).anywhere


def test_an_answer_of_a_port_is_no_word():
    """What a port answers is no word of the user's or the host's, not even where every state awaits it."""
    words = [row.trigger for row in SMALL_PAGE.rows if not issubclass(row.on, PortEvent)]

    assert ["interrupt_asked", "turn_started"] == words
    assert words == [event.name for event in outline(SMALL_PAGE).events if event.word]
    assert tuple(words) == outline(SMALL_PAGE).anywhere


def test_the_settings_are_what_is_not_a_cap():
    """Each field of the configuration is a counter's cap or one of the settings, and never both."""
    caps = [each.setting for each in OURS.counters if each.setting]
    settings = [each.name for each in OURS.settings]

    assert sorted(each.name for each in LoopConfig.describe()) == sorted([*caps, *settings])


def test_events_of_a_kind_say_so():
    """An event that is one way among several of the same thing carries the name of that thing."""
    kinds = {each.name: each.kind for each in OURS.events}

    assert {"stream_dropped", "stream_stalled", "model_failed", "slot_refused", "provider_failed"} == {
        name for name, kind in kinds.items() if kind == "call_failed"
    }
    assert {"", "call_failed"} == set(kinds.values())
