"""The checks of one decision, asked in the walks that begin anywhere: they agree with what a world sees for itself."""

from __future__ import annotations

from random import Random

import pytest

from fsm_loop.core.machine import State
from fsm_loop.prove.canon import Node, following
from fsm_loop.prove.invariants import CHECKED, CHECKS, Edge, broken
from fsm_loop.prove.places import ANSWERS, NOTHING, THE_REST
from tests.core.test_walks import SEED, walk
from tests.core.world import World


def waits_of(world):
    """The answers that may come, as the world has it."""
    if world.waits is None:
        return NOTHING
    return THE_REST if world.began else ANSWERS[type(world.waits)]


@pytest.fixture
def asked(monkeypatch):
    """Every decision of every world is asked for each invariant; how many were is counted."""
    feed, nodes, count = World.feed, {}, [0]

    def watched(world, kind, **facts):
        before = nodes.get(id(world))
        if before is None or before.turn is not world.turn:  # a turn that begins anywhere
            before = Node(world.turn, waits_of(world))
        decision = feed(world, kind, **facts)
        after = before if decision.late else following(before, decision)
        assert {} == broken(Edge(before, decision, after))
        nodes[id(world)] = after
        count[0] += 1
        return decision

    monkeypatch.setattr(World, "feed", watched)
    return count


def test_the_checks_hold_wherever_a_turn_begins(asked):
    """In turns that begin anywhere and go on by chance, what the world finds whole the checks find whole."""
    dice = Random(SEED)
    for number in range(400):
        walk(dice, tuple(State)[number % len(State)])

    assert asked[0] > 2500


def test_each_invariant_is_checked_somewhere():
    """The table names the fourteen invariants and the verifier's question; all but the replay are asked here."""
    assert (14, "legal") == (len(CHECKED) - 1, [*CHECKED][-1])
    assert {*CHECKED} - {"replay"} == {*CHECKS}
