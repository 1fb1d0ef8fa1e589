"""The end of a turn, for whoever asked for it."""

from __future__ import annotations

import pytest

from fsm_loop.core.faults import FaultKind
from fsm_loop.core.messages import Finish
from fsm_loop.errors import TurnFailed
from fsm_loop.testing.fakes import Hang, fails, says
from tests.drive.turns import drive

ENDS = {
    "completed": ([says("four")], {}, "The turn ended as completed in state streaming."),
    "partial": (
        [says("fo", finish=Finish.LENGTH)], {"continuations": 0},
        "The turn ended as partial in state truncated; continuations is set to 0.",
    ),
    "refused": (
        [says("no", finish=Finish.REFUSED)], {},
        "The turn ended as refused in state streaming; the provider refuses this content: the reply ended as refused.",
    ),
    "failed": (
        [fails(FaultKind.QUOTA_SPENT, "no credit")], {},
        "The turn ended as failed in state calling; the account's quota or credit is spent: no credit.",
    ),
    "exhausted": ([says("four")], {"max_requests": 0}, "The turn ended as exhausted in state grace; requests is set to 0."),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDS)
def test_the_end_is_told_in_a_sentence(name):
    """`why` names the outcome, the last state, the counter that was spent and the fault."""
    script, settings, sentence = ENDS[name]
    result = drive(script, **settings).result

    assert name == result.outcome
    assert sentence.startswith("The turn ended as " + name)
    assert result.why.startswith(f"The turn ended as {name} in state {result.last_state}")
    for part in sentence.rstrip(".").split("; "):
        assert part in result.why


def test_an_interrupt_is_told_with_its_issuer():
    """Who asked, and why."""
    result = drive([(Hang(),)], meanwhile=[(1.0, lambda turn: turn.interrupt("operator", "deploying"))]).result

    assert "The turn ended as interrupted in state calling; asked by operator (deploying)." == result.why


@pytest.mark.parametrize("name", ENDS)
def test_only_a_completed_turn_does_not_raise(name):
    """`raise_for_outcome` gives the result back, or raises an error that says why and holds it."""
    script, settings, _ = ENDS[name]
    result = drive(script, **settings).result

    if name == "completed":
        assert result is result.raise_for_outcome()
        return
    with pytest.raises(TurnFailed) as caught:
        result.raise_for_outcome()
    assert (result, result.why) == (caught.value.result, str(caught.value))


def test_the_path_is_the_trail_in_three_words_each():
    """State, row, state; each begins where the one before it led."""
    result = drive([says("fo", finish=Finish.LENGTH), says("ur")]).result

    assert [(each.before, each.row, each.after) for each in result.trail] == result.path
    assert [after for _, _, after in result.path[:-1]] == [before for before, _, _ in result.path[1:]]
    assert ("ready", "done") == (result.path[0][0], result.path[-1][2])


def test_the_text_has_two_names():
    """Other libraries call it output."""
    assert "four" == drive([says("four")]).result.output
