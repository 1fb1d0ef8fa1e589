"""A trail told again: the same events lead to the same records, and whatever was changed is where the two part."""

from __future__ import annotations

import json

import pytest
from attrs import evolve, fields
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm_loop import LoopConfig
from fsm_loop.audit.canonical import canonical
from fsm_loop.audit.events import config_of, event_of
from fsm_loop.audit.facts import Telling
from fsm_loop.audit.replay import changed, replay
from fsm_loop.audit.scribe import page_facts
from fsm_loop.core import events as all_events
from fsm_loop.core.events import Event, name_of
from fsm_loop.core.faults import FaultKind
from fsm_loop.core.machine import PAGE
from fsm_loop.core.messages import AssistantMessage, Reply
from fsm_loop.core.rows import Page
from fsm_loop.loop import Loop
from fsm_loop.testing.clock import VirtualClock
from fsm_loop.testing.fakes import ScriptedModel, SeededChance, calls, fails, says
from tests.retold import Kept


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def trail():
    """The records of a turn with a failed call, a wait and a tool round."""
    clock, kept = VirtualClock(), Kept()
    model = ScriptedModel([fails(FaultKind.OVERLOADED), calls(("add", {"a": 1, "b": 2})), says("three")], clock=clock)
    loop = Loop(model=model, tools=[add], watchers=[kept], clock=clock, chance=SeededChance(1))
    clock.run(lambda: loop.run("1 + 2?"))
    return [json.loads(line) for line in kept.lines]


def test_a_trail_is_told_again():
    """All decisions and the end are as they were."""
    (again,) = replay(trail())

    assert (11, True, True, "", None, ()) == (
        again.decisions,
        again.over,
        again.same,
        again.cannot,
        again.divergence,
        again.changed,
    )


def test_a_trail_that_was_cut_is_told_as_far_as_it_goes():
    """A turn whose writer was killed has no end, and is the same up to there."""
    (again,) = replay(trail()[:6])

    assert (5, False, True) == (again.decisions, again.over, again.same)


def set_in(record, path, value):
    """Put the value where the path leads."""
    *way, last = path
    for each in way:
        record = record[each]
    record[last] = value


CHANGED = {
    "chance of a wait": (3, ("facts", "chance"), 0.1, "effects was"),
    "row": (1, ("row",), "calling.slot_granted", "row was"),
    "state": (4, ("state",), "grace", "state was"),
    "answer": (2, ("guards", 0, 1), False, "guards was"),
    "counter": (2, ("moved", 0, "after"), 7, "moved was"),
    "effect": (2, ("effects", 0, "tools"), False, "effects was"),
    "reply": (7, ("facts", "reply", "finish"), "refused", "after was"),
    "another event": (2, ("trigger",), "timer_fired", "timer_fired came in state calling, which awaits"),
    "no event": (2, ("trigger",), "sunrise", "cannot be told again: KeyError: 'sunrise'"),
    "a fact too many": (2, ("facts", "colour"), "red", "cannot be told again: ValueError: SlotGranted has no colour"),
    "a fact of another type": (7, ("facts", "reply", "text"), 5, "cannot be told again: TypeError: 5 stands where str"),
    "seq": (2, ("seq",), 9, "seq was 9, and is 1"),
    "late": (2, ("facts", "attempt"), 99, "after was|effects was"),
    "outcome": (-1, ("outcome",), "partial", 'outcome was "partial", and is "completed" when told again'),
    "a counter of the end": (-1, ("counters", "requests"), 2, "counters was"),
    "decisions": (-1, ("decisions",), 12, "decisions was 12, and is 11"),
}


@pytest.mark.parametrize(("at", "path", "value", "sentence"), CHANGED.values(), ids=CHANGED)
def test_what_was_changed_is_found(at, path, value, sentence):
    """The first record that the replay has otherwise is named, and what it has otherwise."""
    records = trail()
    set_in(records[at], path, value)
    (again,) = replay(records)

    assert not again.same
    assert records[at].get("seq") == again.divergence.seq
    assert any(words in again.divergence.sentence for words in sentence.split("|"))


def without(records, at):
    """The records without one of them."""
    return [each for place, each in enumerate(records) if place != at]


STRANGE = {
    "a decision is missing": (lambda records: without(records, 4), 4, "seq was 4, and is 3|came in state"),
    "one stands twice": (lambda records: [*records[:3], *records[2:]], 1, "moved was"),
    "a second opening": (lambda records: [*records[:3], records[0], *records[3:]], None, "a second opening"),
    "an end too early": (lambda records: [*records[:3], records[-1]], None, "the replay stands in calling"),
}


@pytest.mark.parametrize(("made", "seq", "sentence"), STRANGE.values(), ids=STRANGE)
def test_an_order_that_was_changed_is_found(made, seq, sentence):
    """Records that are missing, or stand where they should not, lead elsewhere."""
    (again,) = replay(made(trail()))

    assert seq == again.divergence.seq
    assert any(words in again.divergence.sentence for words in sentence.split("|"))


def test_what_cannot_be_told_again_says_why():
    """A trail of digests, one without its opening and one whose config is none are named as such."""
    records = trail()
    digests = [{**records[0], "content": "digests"}, *records[1:]]
    config = [{**records[0], "config": {**records[0]["config"], "recoveries": -1}}, *records[1:]]
    sentences = [replay(each)[0].cannot for each in (digests, records[1:], config)]

    assert "it holds no text" in sentences[0]
    assert "its opening is missing" == sentences[1]
    assert sentences[2].startswith("its config cannot be read: ")
    assert "recoveries: -1 is too small" in sentences[2]


def test_turns_are_told_apart():
    """Records of several turns in any order are replayed turn by turn."""
    one, other = trail(), trail()
    mixed = [each for pair in zip(one, other, strict=True) for each in pair]

    assert [one[0]["turn"], other[0]["turn"]] == [each.turn_id for each in replay(mixed)]
    assert all(each.same for each in replay(mixed))


def test_another_page_is_told_row_by_row():
    """What a trail's page had otherwise is named: rows that are gone, were otherwise, or are new."""
    opening = trail()[0]
    rows = {**opening["page"]["rows"], "ready.sunrise": "00000000"}
    rows["ready.turn_started"] = "ffffffff"
    del rows["calling.stream_started"]
    opening["page"] = {"version": "0", "hash": "0" * 64, "rows": rows}

    assert (
        "ready.sunrise is gone",
        "ready.turn_started was otherwise",
        "calling.stream_started is new",
    ) == changed(opening)


def test_the_order_of_rows_is_part_of_a_page():
    """A page whose rows are the same in another order is another page."""
    kept = trail()[0]
    other = Page(PAGE.states, PAGE.start, PAGE.done, (*PAGE.lines[1:], PAGE.lines[0]), PAGE.counters)

    assert page_facts(other)["rows"] == page_facts(PAGE)["rows"]
    assert ("the order of the rows, or a counter, was otherwise",) == changed(kept, other)


EVENTS = [each for each in vars(all_events).values() if isinstance(each, type) and issubclass(each, Event)]
EVENTS = [each for each in EVENTS if any(row.on is each for row in PAGE.rows)]
ITEMS = st.lists(st.recursive(st.none() | st.text(max_size=3), st.lists, max_leaves=3)).map(tuple)
for each in (Reply, AssistantMessage):
    st.register_type_strategy(each, st.builds(each, replay=ITEMS))


@settings(max_examples=300, derandomize=True)
@given(st.sampled_from(EVENTS).flatmap(st.from_type))
def test_an_event_is_read_back_as_it_was(event):
    """Whatever an event carries, its facts in full make the same event."""
    told = Telling(full=True).facts(event)
    again = event_of({"trigger": name_of(type(event)), "at": 0, "facts": json.loads(canonical(told))}, PAGE)

    assert type(event) is type(again)
    assert told == Telling(full=True).facts(again)
    assert evolve(event, at=0) == again or "'nan'" in repr(told)  # which is not equal to itself


def test_a_config_is_read_back_as_it_was():
    """A config with no value as it is by default is the same after JSON."""
    given = {each.name: (1.5, 2.5) if isinstance(each.default, tuple) else 7 for each in fields(LoopConfig)}
    config = LoopConfig(**{**given, "jitter": 0.5, "base_delay_s": 0.25, "grace_calls": 0})

    assert config == config_of(json.loads(canonical(Telling().record(config))))
