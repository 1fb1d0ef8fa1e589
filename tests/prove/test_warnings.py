"""What is said of a config before a turn runs under it."""

from __future__ import annotations

import pytest

from fsm_loop.config import LoopConfig
from fsm_loop.prove import warnings_of
from fsm_loop.prove.warnings import lasts
from fsm_loop.prove.worst import walked_in_silence

QUIET = {"first_token_timeout_s": 20.0, "recoveries": 1, "recovery_plan_s": (15.0,)}
# fmt: off
SAID = {
    "read_timeout above stale_after": (
        {"read_timeout_s": 91.0}, 0,
        "read_timeout_s (91 s) is above stale_after_s (90 s): a request that does not stream is waited for longer than a stream that has fallen silent"),
    "a timer above the deadline": (
        {"call_deadline_s": 20.0}, 0, "first_token_timeout_s (20 s) never comes into play: call_deadline_s (20 s) ends the attempt first"),
    "the first token takes the turn": (
        {"turn_seconds": 10.0, "recoveries": 0}, 0,
        "first_token_timeout_s (20 s) is above turn_seconds (10 s): one silent provider takes the whole turn, and no other is tried"),
    "max_wait above the turn": (
        {"turn_seconds": 300.0}, 0, "max_wait_s (600 s) is above turn_seconds (300 s): one Retry-After can take the whole turn"),
    "the plan above the turn": (
        {"turn_seconds": 900.0, "recoveries": 3, "recovery_plan_s": (400.0,  400.0, 400.0)}, 0,
        "the waits of recovery_plan_s (1200 s together) are above turn_seconds (900 s): the last of them can never be waited for"),
    "the plan is longer than the cycles": (
        {"recovery_plan_s": (15.0, 30.0)}, 0, "recovery_plan_s holds 2 waits, and recoveries allows 1: the last ones are never used"),
    "recoveries are not reached": (
        {"max_requests": 7, "max_iterations": 7}, 1,
        "recoveries can never be reached by calls that fail, because retries and fallbacks come first: the turn is over after 8 calls"),
    "iterations are not reached": (
        {"max_requests": 39}, 0, "max_iterations (40) can never be reached: each tool round takes a request, and max_requests is 39"),
    "nothing may be spent": (
        {"cost": 0.0}, 0, "cost is 0, so that nothing may be spent: only the grace call is made"),
    "no last word": (
        {"grace_calls": 0}, 0, "grace_calls is 0: a turn whose budget is spent ends without a last answer"),
    "a dead provider": (
        {"first_token_timeout_s": 300.0}, 0,
        "a provider that takes requests and says nothing is given up after 20 min 44 s: 4 attempts of up to 300 s, and the backoff between"),
    "all are dead": (
        {"first_token_timeout_s": 300.0}, 1, "where every provider does so to the end, the turn is over after 1 h 23 min 10 s"),
}
# fmt: on


@pytest.mark.parametrize(("settings", "chain", "sentence"), SAID.values(), ids=SAID)
def test_what_is_said(settings, chain, sentence):
    """Each thing to look at has its sentence, with the numbers in it."""
    assert sentence in warnings_of(LoopConfig(**QUIET | settings), chain)


def test_nothing_is_said_of_what_is_well():
    """A config whose numbers agree, and whose waits are short, is passed over."""
    assert () == warnings_of(LoopConfig(**QUIET))


def test_a_dead_provider_is_walked():
    """What is said of silence is walked through `step`: each attempt, each backoff, and the one that gave up."""
    silent = walked_in_silence(LoopConfig(), 1)
    backoffs_s = 1.25 * (5 + 10 + 20)

    assert (4, 4 * 300 + backoffs_s) == (silent.attempts, silent.noticed_s)
    assert (48, True) == (silent.calls, silent.recovered)
    assert 12 * (4 * 300 + backoffs_s) + 15 + 30 + 3 * 60 == silent.ended_s


def test_the_turn_s_own_seconds_end_the_silence():
    """A call takes no longer than the turn has left; the last word then has the time to read that it always has."""
    silent = walked_in_silence(LoopConfig(turn_seconds=100.0), 1)

    assert (2, 160.0) == (silent.calls, silent.ended_s)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (0.4, "0 s"), (59.6, "1 min"), (61, "1 min 1 s"), (3600, "1 h"), (7325, "2 h 2 min 5 s")],
)
def test_times_are_written_for_people(seconds, words):
    """A time has hours, minutes and seconds, and none that is nothing."""
    assert words == lasts(seconds)
