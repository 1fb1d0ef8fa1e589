"""The events that may come: each is awaited where it is offered, and each guard is answered both ways by some."""

from __future__ import annotations

from random import Random

import pytest
from attrs import evolve

from fsm_loop.config import LoopConfig
from fsm_loop.core.events import PortEvent, TurnStarted
from fsm_loop.core.machine import PAGE, State
from fsm_loop.core.step import step
from fsm_loop.errors import UnexpectedEvent
from fsm_loop.prove.moves import after, beginning, late, moves

SEED = 20250729
CONFIG = LoopConfig(max_requests=6)


def walks(config, chain, number, steps=40):
    """So many turns that go on by chance, and each moment of them."""
    dice = Random(SEED)
    for _ in range(number):
        at = beginning(config, chain)
        for _ in range(steps):
            offered = list(moves(at, config))
            yield at, offered
            tried = [step(at.turn, event) for _, event in dice.choices(offered, k=4)]
            onward = [each for each in tried if each.turn.state is not State.DONE and not each.late]
            at = after(at, (onward or tried)[0])


def test_whatever_is_offered_is_awaited():
    """No event that is offered is refused, each has its own label, and only what says that it is late is late."""
    for at, offered in walks(CONFIG, 1, 60):
        labels = [label for label, _ in offered]

        assert len(set(labels)) == len(labels)
        for label, event in offered:
            assert label.endswith("late") == step(at.turn, event).late


def test_what_is_not_offered_is_refused():
    """A kind of event that the state of a turn does not list raises, whatever it carries."""
    turn = beginning(CONFIG).turn
    started = step(turn, TurnStarted(messages=())).turn

    with pytest.raises(UnexpectedEvent):
        step(started, TurnStarted(messages=()))


def test_late_answers_are_of_every_kind():
    """There is a late one of each event of a port, and it changes nothing."""
    at, _ = next(walks(CONFIG, 0, 1))
    kinds = {type(event) for _, event in late(at)}

    assert {row.on for row in PAGE.rows if issubclass(row.on, PortEvent)} == kinds
    assert all(step(at.turn, event).turn is at.turn for _, event in late(at))


def test_each_guard_is_answered_both_ways():
    """Each guard of the page that asks about words, faults or tools says yes to some event that is offered, and no to another."""
    said = {}
    for config in (CONFIG, evolve(CONFIG, max_requests=2)):
        for at, offered in walks(config, 1, 60):
            for _, event in offered:
                for guard, answer in step(at.turn, event).answers:
                    said.setdefault(guard.__name__, set()).add(answer)
    one_way = {name for name, answers in said.items() if len(answers) == 1 and not name.endswith("_left")}

    # Every fault that a repair is made for falls back.
    assert {"fault_falls_back"} >= one_way
    assert {guard.__name__ for row in PAGE.rows for guard in row.when} == said.keys()


def test_after_the_end_only_words_come():
    """A turn that is over is offered words, and what is late."""
    for at, offered in walks(CONFIG, 0, 20):
        if at.turn.state is State.DONE:
            assert not [label for label, event in offered if isinstance(event, PortEvent) and "late" not in label]
