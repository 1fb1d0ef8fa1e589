"""Whether a decision is legal: what the page makes is, and each thing that is put wrong in it is told."""

from __future__ import annotations

import json

import pytest
from attrs import evolve

from fsm_loop.audit.canonical import canonical
from fsm_loop.audit.facts import Telling
from fsm_loop.audit.scribe import record_of
from fsm_loop.config import LoopConfig
from fsm_loop.core.events import InterruptAsked
from fsm_loop.core.machine import State
from fsm_loop.core.step import Moved, step
from fsm_loop.prove.conform import Claim, Follower, illegal
from fsm_loop.prove.moves import late
from fsm_loop.prove.walk import Walk
from fsm_loop.prove.worst import most_calls
from tests.prove.test_moves import walks

CONFIG = LoopConfig(max_requests=6, tokens=1000)


def claims(config=CONFIG, chain=1):
    """The decisions of a long turn, as they say of themselves."""
    walk = most_calls(config, chain)
    again, told = Walk(config, chain), []
    told.append(again.last)
    for event in walk.events[1:]:
        again.feed(event)
        told.append(again.last)
    return told


def test_every_decision_of_step_is_legal():
    """Whatever may come in turns that go on by chance, what step makes of it is legal, late answers among it."""
    for at, offered in walks(CONFIG, 1, 8):
        for _, event in (*offered, *late(at)):
            assert () == illegal(step(at.turn, event), at.turn)


@pytest.mark.parametrize("known", [{}, {"config": CONFIG, "chain": 1}], ids=["by the page alone", "with its caps"])
def test_a_whole_turn_is_legal_as_a_trail_tells_it(known):
    """The lines that a trail keeps of a turn, through JSON and back, are legal one after the other, and come to an end."""
    follower = Follower(**known)
    for number, decision in enumerate(claims()):
        line = json.loads(canonical(record_of(number, decision, Telling())))

        assert () == follower.see(Claim.read(line))
    assert () == follower.rest()


def test_a_turn_without_its_end_is_told():
    """A trail that stops in the middle says where the turn stands."""
    follower = Follower()
    follower.see(Claim.of(claims()[0]))

    assert ("the turn is not over: it stands in calling",) == follower.rest()


GRANTED = "calling.slot_granted.budget_left"
# What is put wrong in the second decision of a turn (its first request goes out), and what is said of it.
WRONG = {
    "another state": ({"state": "streaming"}, "it begins in streaming, and the turn stands in calling"),
    "a row that is not there": ({"row": "calling.slot_granted.never"}, "no row 'calling.slot_granted.never' stands"),
    "another row": ({"row": "calling.slot_granted"}, "stands above calling.slot_granted, and nothing kept it back"),
    "another way": ({"after": "grace"}, f"row {GRANTED} leads to calling, and not to grace"),
    "a guard that is not told": ({"answers": ()}, "guard budget_left of row"),
    "a guard too many": (
        {"answers": (("budget_left", True), ("is_now", True))},
        "guard is_now is told, and was never asked",
    ),
    "a lie": ({"answers": (("budget_left", False),)}, "guard budget_left is told to answer no, and answers yes"),
    "nothing counted": ({"moved": ()}, "requests should go to 1, and does not move"),
    "counted twice": ({"moved": (Moved("requests", 0, 2, 6),)}, "requests goes to 2, and row"),
    "counted from elsewhere": ({"moved": (Moved("requests", 3, 1, 6),)}, "requests moves from 3, and stood at 0"),
    "a counter of others": ({"moved": (Moved("requests", 0, 1, 6), Moved("boosts", 0, 1, 3))}, "does not move it"),
    "no counter": ({"moved": (Moved("requests", 0, 1, 6), Moved("luck", 0, 1, 3))}, "luck is no counter of the page"),
    "another cap": ({"moved": (Moved("requests", 0, 1, 99),)}, "requests has a cap of 6, and is told to have 99"),
    "an effect of others": ({"effects": ("RunTool",)}, f"row {GRANTED} never asks for RunTool"),
    "an end": (
        {"effects": ("CallModel", "Finish")},
        f"row {GRANTED} does not end the turn, and Finish is told 1 times",
    ),
    "late, and yet it moves": ({"row": "late"}, "a late answer changed something"),
}


@pytest.mark.parametrize(("changes", "says"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_told(changes, says):
    """One thing that is wrong with a decision is told in a sentence."""
    first, second = claims()[:2]
    follower = Follower(config=CONFIG, chain=1)
    follower.see(Claim.of(first))

    reasons = follower.see(evolve(Claim.of(second), **changes))

    assert any(says in reason for reason in reasons), reasons


def test_nothing_is_asked_for_after_the_end():
    """A second end is told, and so is any effect after the first."""
    follower = Follower(config=CONFIG, chain=1)
    told = [Claim.of(each) for each in claims()]
    for claim in told:
        follower.see(claim)
    again = Claim("done", "steer_given", "done.steer_given", "done", effects=("Finish",))

    assert any("came after its end" in reason for reason in follower.see(again))


def test_a_live_decision_is_asked_again():
    """A decision of another turn, with other numbers or guards that answer otherwise, is not legal here."""
    walk = Walk(CONFIG, 0)
    decision = step(walk.turn, InterruptAsked())
    elsewhere = evolve(walk.turn, state=State.TOOL_EXEC)

    assert () == illegal(decision, walk.turn)
    assert illegal(decision, elsewhere)
    assert illegal(
        evolve(decision, turn=evolve(decision.turn, record=decision.turn.record.but(counts={"boosts": 1}))), walk.turn
    )
