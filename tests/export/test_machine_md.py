"""The written specification holds every state, row, counter and delay."""

from __future__ import annotations

import pytest

from fsm_loop import PAGE, LoopConfig
from fsm_loop.export.machine_md import counters, specification
from fsm_loop.export.model import outline
from tests.export.own_page import OWN_PAGE

PAGES = pytest.mark.parametrize("page", [PAGE, OWN_PAGE], ids=["ours", "own"])


def section(text, title):
    """What stands under a heading, down to the next heading of any kind."""
    lines = iter(text.splitlines())
    for line in lines:
        if line.lstrip("#") == f" {title}" and line.startswith("#"):
            break
    else:
        pytest.fail(f"there is no heading {title!r}")
    found = []
    for line in lines:
        if line.startswith("#"):
            break
        found.append(line)
    return found


def table(text, title):
    """The cells of the table under a heading, without its head."""
    lines = [line for line in section(text, title) if line.startswith("|")]
    cells = [[cell.strip() for cell in line.replace("\\|", "/").strip("|").split("|")] for line in lines]
    assert {len(cells[0])} == {len(line) for line in cells}
    return cells[2:]


def in_groups(rows):
    """The rows of one state as the specification orders them: by event, in the order in which events appear."""
    events = dict.fromkeys(row.event for row in rows)
    return [row for event in events for row in rows if row.event == event]


@PAGES
def test_every_row_is_in_the_table_of_its_state(page):
    """Under each state stand its rows, those for one event together, in the order of the page."""
    words = outline(page)
    text = specification(words)
    for state in words.states:
        rows = in_groups(words.rows_of(state.name))
        found = table(text, state.name)

        assert [f"`{row.name}`" for row in rows] == [cells[-1] for cells in found]
        assert [row.sentence for row in rows] == [cells[3] for cells in found]
        assert [row.spends or "" for row in rows] == [cells[4] for cells in found]
        assert [", ".join(row.refills) for row in rows] == [cells[5] for cells in found]


@PAGES
def test_every_row_says_where_it_leads(page):
    """A row names the state that it leads to, or says that the turn stays where it is."""
    words = outline(page)
    text = specification(words)
    targets = {cells[-1].strip("`"): cells[2] for state in words.states for cells in table(text, state.name)}

    assert {row.name: row.target if row.moves else "(stays)" for row in words.rows} == targets


@PAGES
def test_every_row_says_when_it_fires(page):
    """A row holds its guards in words; the last of several, which has none, says `otherwise`."""
    words = outline(page)
    text = specification(words)
    for state in words.states:
        rows = in_groups(words.rows_of(state.name))
        alone = [event for event in {row.event for row in rows} if sum(row.event == event for row in rows) == 1]
        for row, cells in zip(rows, table(text, state.name), strict=True):
            expected = "; ".join(guard.sentence for guard in row.guards) or ("" if row.event in alone else "otherwise")

            assert expected == cells[1]


@PAGES
def test_an_event_is_said_once_for_its_rows(page):
    """The first row of each state and event names the event, the rows behind it leave the cell empty."""
    words = outline(page)
    text = specification(words)
    for state in words.states:
        said = [cells[0] for cells in table(text, state.name) if cells[0]]

        assert [f"`{event}`" for event in dict.fromkeys(row.event for row in words.rows_of(state.name))] == said


@PAGES
def test_every_state_event_and_counter_is_there(page):
    """States, events and counters have a table each, in the order of the page."""
    words = outline(page)
    text = specification(words)

    assert [f"`{each.name}`" for each in words.states] == [cells[0] for cells in table(text, "States")]
    assert [f"`{each.name}`" for each in words.events] == [cells[0] for cells in table(text, "Events")]
    assert [[str(each.rank), f"`{each.name}`"] for each in words.counters] == [
        cells[:2] for cells in table(text, "Counters")
    ]


def test_a_counter_says_what_spends_and_refills_it():
    """The table of counters names the events and states that spend one, and the occasions that refill it."""
    found = {cells[1]: cells[2:] for cells in table(specification(outline()), "Counters")}
    spent_by = "; ".join(
        (
            "slot_refused in calling",
            *(f"{event} in calling, streaming" for event in ("model_replied", "stream_dropped")),
            *(f"{event} in calling, streaming" for event in ("stream_stalled", "model_failed")),
            "request_repaired in repairing",
            "provider_failed in fallback",
        )
    )

    assert [
        "hops to the next provider",
        "length of the fallback chain",
        "",
        "",
        spent_by,
        "a recovery cycle",
    ] == found["`fallbacks`"]
    assert ["nothing: it follows what events report", "never"] == found["`tokens`"][-2:]


def test_every_setting_is_there():
    """Whatever can be set is a counter's cap or stands in the last table, with its unit, default and variable."""
    text = specification(outline())
    found = [cells[0] for cells in table(text, "Delays, timers and sizes")] + [
        cells[4] for cells in table(text, "Counters")
    ]

    assert {f"`{each.name}`" for each in LoopConfig.describe()} == set(found) - {""}
    assert ["`stale_after_s`", "90", "seconds", "`FSM_LOOP_STALE_AFTER_S`"] in [
        cells[:4] for cells in table(text, "Delays, timers and sizes")
    ]


def test_a_bar_does_not_break_a_table():
    """A sentence with a bar in it stays one cell."""
    states = dict(cells[:2] for cells in table(specification(outline(OWN_PAGE)), "States"))

    assert "a person to allow the turn / or not" == states["`asked`"]


@PAGES
def test_the_short_table_has_every_counter(page):
    """The README's table names each counter in the order of ranks, with its cap."""
    words = outline(page)
    lines = counters(words).splitlines()[2:]

    assert [f"| `{each.name}` | {each.cap} | {each.counts} |" for each in words.counters] == [
        " | ".join(line.split(" | ")[:3]) + " |" for line in lines
    ]
