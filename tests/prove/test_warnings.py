"""What is said of a config before a turn runs under it."""

from __future__ import annotations

import pytest

from fsm_loop.config import LoopConfig
from fsm_loop.prove import warnings_of
from fsm_loop.prove.warnings import lasts
from fsm_loop.prove.worst import walked_in_silence

QUIET = {"first_token_timeout_s": 31.0, "call_deadline_s": 600.0, "recoveries": 1, "recovery_plan_s": (15.0,)}
# fmt: off
SAID = {
    "read_timeout above stale_after": (
        {"read_timeout_s": 91.0}, 0,
        "read_timeout_s (91 s) is above stale_after_s (90 s): a request that does not stream is waited for longer than a stream that has fallen silent"),
    "a timer above the deadline": (
        {"call_deadline_s": 31.0}, 0, "first_token_timeout_s (31 s) never comes into play: call_deadline_s (31 s) ends the attempt first"),
    "connecting takes as long as the first token": (
        {"connect_timeout_s": 31.0}, 0, "connect_timeout_s (31 s) never comes into play: first_token_timeout_s (31 s) ends the attempt first"),
    "the first token takes the turn": (
        {"turn_seconds": 10.0, "recoveries": 0}, 0,
        "first_token_timeout_s (31 s) is above turn_seconds (10 s): one silent provider takes the whole turn, and no other is tried"),
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
    "tools have no timeout": (
        {"tool_timeout_s": None}, 0, "tool_timeout_s is none: a tool that never returns holds the turn until somebody interrupts it"),
    "a tool outlasts the turn": (
        {"turn_seconds": 200.0}, 0, "tool_timeout_s (300 s) is above turn_seconds (200 s): a tool that has begun is not stopped by the turn's own seconds"),
    "nothing stands behind a failure": (
        {"api_max_retries": 0, "recoveries": 0}, 0, "api_max_retries and recoveries are 0 and there is no fallback: the first call that fails ends the turn"),
    "retries are not used up": (
        {"max_requests": 3, "max_iterations": 3}, 0, "api_max_retries (3) can never be used up by requests that fail: max_requests is 3"),
    "waits are shorter than the backoff": (
        {"max_wait_s": 4.0}, 0,
        "max_wait_s (4 s) is below base_delay_s (5 s): a provider that asks for no more than the first backoff is not waited for, and so not retried"),
    "no backoff": (
        {"base_delay_s": 0.0}, 0, "base_delay_s is 0: a failed call is retried at once, and again, while the provider is still down"),
    "no jitter": ({"jitter": 0.0}, 0, "jitter is 0: callers who fail together come back together"),
    "a slot is too far away": (
        {"requests_per_minute": 3, "max_wait_s": 60.0}, 0,
        "a slot of requests_per_minute may be 60.5 s away, and max_wait_s is 60 s: such a slot is not waited for, and no retry is made"),
    "a slot is not waited for": (
        {"requests_per_minute": 3, "slot_waits": 0}, 0,
        "slot_waits is 0: where requests_per_minute leaves no slot, the wait for one is one of api_max_retries"),
    "boosts do not grow": (
        {"boosts": 3, "max_output_tokens": 20_000}, 0,
        "boosts (3) cannot all be used: from max_output_tokens (20000) to output_ceiling_tokens (32768) a limit doubles once, and less reasoning is asked for once"),
    "boosts do not grow from the limit that is taken": (
        {"boosts": 5}, 0,
        "boosts (5) cannot all be used: from the first limit that is taken (4096) to output_ceiling_tokens (32768) a limit doubles 3 times, and less reasoning is asked for once"),
    "a cut reply is the end": (
        {"continuations": 0, "boosts": 0}, 0, "continuations and boosts are 0: the first reply that is cut ends the turn"),
    "requests are not reached": (
        {"max_requests": 5000}, 0, "max_requests (5,000) can never be reached: the other caps allow 2,977 requests"),
    "no tools": (
        {"max_iterations": 0}, 0, "max_iterations is 0: no tool is ever run; a reply that asks for one leads to the last word"),
    "a provider that trickles": (
        {"call_deadline_s": 1800.0}, 0,
        "a provider that trickles without an end is given up after 2 h 44 s: 4 attempts of up to call_deadline_s (1800 s)"),
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
    assert sentence not in warnings_of(LoopConfig(**QUIET), chain)


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
    [
        (0, "0 s"),
        (0.4, "0 s"),
        (59.6, "1 min"),
        (61, "1 min 1 s"),
        (3600, "1 h"),
        (7325, "2 h 2 min 5 s"),
        (90_000, "1 d 1 h"),
    ],
)
def test_times_are_written_for_people(seconds, words):
    """A time has hours, minutes and seconds, and none that is nothing."""
    assert words == lasts(seconds)
