"""The local rate limiter: what it grants, what it refuses, and what it says to whoever is refused."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fsm_loop.errors import ConfigError
from fsm_loop.limiter import SlidingWindow

RATES = st.integers(1, 5)
MARGINS = st.sampled_from([0.0, 0.1, 0.5, 7.0])
WINDOWS = st.sampled_from([0.3, 1.0, 60.0])
BEGINNINGS = st.floats(-1e6, 1e9)
# A clock that stands, one that ticks, one that comes to the very end of a window, one that slept.
GAPS = st.sampled_from([0.0, 0.0, 0.1, 0.3, 59.9, 60.0, 60.5, 1e9]) | st.floats(0, 90)


def ask(limiter: SlidingWindow, at: float, provider: str = "model") -> float:
    """What the limiter answers, without an event loop: one that waited for anything would fail here."""
    asking = limiter.reserve(provider, at)
    with pytest.raises(StopIteration) as answered:
        asking.send(None)
    return answered.value.value


def moments(beginning: float, gaps: list[float]) -> list[float]:
    """What a clock shows that starts at *beginning*."""
    shown = [beginning]
    for gap in gaps:
        shown.append(shown[-1] + gap)
    return shown


def test_slots_are_granted_up_to_the_rate():
    """As many requests go out at once as the rate says, and the next one waits."""
    limiter = SlidingWindow(3)

    assert [ask(limiter, 10.0) for _ in range(4)] == [0.0, 0.0, 0.0, 60.5]


@pytest.mark.parametrize(
    ("margin_s", "window_s", "at", "expected"),
    [
        (0.5, 60.0, 10.0, 50.5),  # the oldest slot is 10 s old
        (0.5, 60.0, 0.0, 60.5),
        (0.0, 60.0, 59.0, 1.0),
        (2.0, 60.0, 59.0, 3.0),
        (0.5, 1.0, 0.25, 1.25),
        (0.5, 60.0, 59.999, 60.5 - 59.999),
    ],
)
def test_a_wait_is_what_is_left_of_the_oldest_slot_and_the_margin(margin_s, window_s, at, expected):
    """Whoever is refused is told: until the oldest slot has left the window, and the margin."""
    limiter = SlidingWindow(1, margin_s, window_s)
    ask(limiter, 0.0)

    assert ask(limiter, at) == pytest.approx(expected)


def test_the_oldest_slot_decides():
    """The wait is reckoned from the oldest of several slots, not from the latest."""
    limiter = SlidingWindow(2)
    for at in (0.0, 20.0):
        ask(limiter, at)

    assert ask(limiter, 30.0) == 30.5
    assert ask(limiter, 60.5) == 0.0
    assert ask(limiter, 61.0) == 19.5


@pytest.mark.parametrize(("at", "granted"), [(59.999, False), (60.0, True), (60.001, True)])
def test_a_slot_is_free_when_its_window_has_passed(at, granted):
    """A slot counts for less than one window: at its very end it is free."""
    limiter = SlidingWindow(1)
    ask(limiter, 0.0)

    assert (ask(limiter, at) == 0.0) is granted


def test_a_refusal_reserves_nothing():
    """However often one is refused, the wait does not grow and the slot is had in the end."""
    limiter = SlidingWindow(1)
    ask(limiter, 0.0)

    assert [ask(limiter, 10.0) for _ in range(5)] == [50.5] * 5
    assert ask(limiter, 60.5) == 0.0


def test_a_slot_is_had_by_the_first_who_asks_again():
    """Of two who were told to wait, the second to come back is refused."""
    limiter = SlidingWindow(1)
    ask(limiter, 0.0)

    assert ask(limiter, 1.0) == ask(limiter, 1.0) == 59.5
    assert ask(limiter, 60.5) == 0.0
    assert ask(limiter, 60.5) == 60.5


def test_each_provider_has_its_own_slots():
    """What one provider was asked takes nothing from another."""
    limiter = SlidingWindow(1)

    assert ask(limiter, 0.0, "primary") == 0.0
    assert ask(limiter, 0.0, "fallback") == 0.0
    assert ask(limiter, 0.0, "primary") == 60.5


@pytest.mark.parametrize("at", [math.nan, math.inf, -math.inf])
def test_a_moment_is_a_finite_number(at):
    """A time that is none is refused, and reserves nothing."""
    limiter = SlidingWindow(1)
    with pytest.raises(ValueError, match=rf"^a slot is reserved at a moment, not at {at}$"):
        ask(limiter, at)

    assert ask(limiter, 0.0) == 0.0


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ((0,), "requests_per_minute: 0 is too small; allowed: a whole number, 1 or more (requests a minute)"),
        (
            (1.5,),
            "requests_per_minute: 1.5 is not a whole number; allowed: a whole number, 1 or more (requests a minute)",
        ),
        (
            (True,),
            "requests_per_minute: True is not a whole number; allowed: a whole number, 1 or more (requests a minute)",
        ),
        ((1, -0.1), "margin_s: -0.1 is too small; allowed: a finite number, 0 or more (seconds)"),
        ((1, math.nan), "margin_s: nan is not finite; allowed: a finite number, 0 or more (seconds)"),
        ((1, 0.0, 0.0), "window_s: 0.0 is too small; allowed: a finite number, more than 0 (seconds)"),
        ((1, 0.0, math.inf), "window_s: inf is not finite; allowed: a finite number, more than 0 (seconds)"),
    ],
)
def test_a_limit_that_is_none_is_refused(given_, message):
    """A rate, a margin or a window that cannot be kept is refused with what is allowed."""
    with pytest.raises(ConfigError) as refused:
        SlidingWindow(*given_)

    assert str(refused.value) == message


@pytest.mark.parametrize("given_", [(1, 0, 1), (1, 0.0, 5e-324), (10**9, 1e9, 1e9)])
def test_the_least_and_the_most_are_allowed(given_):
    """The smallest limits, and very large ones, are kept."""
    assert ask(SlidingWindow(*given_), 0.0) == 0.0


@given(RATES, MARGINS, WINDOWS, BEGINNINGS, st.lists(GAPS, max_size=40))
def test_no_window_holds_more_than_the_rate(rate, margin_s, window_s, beginning, gaps):
    """Whatever the clock does, no stretch of one window sees more requests than the rate."""
    limiter = SlidingWindow(rate, margin_s, window_s)
    out = [at for at in moments(beginning, gaps) if ask(limiter, at) == 0.0]

    assert all(later - first >= window_s for first, later in zip(out, out[rate:], strict=False))


@given(RATES, MARGINS, WINDOWS, BEGINNINGS, st.lists(GAPS, max_size=40))
def test_nothing_is_refused_without_need(rate, margin_s, window_s, beginning, gaps):
    """A request is granted exactly when fewer than the rate went out in the window that ends with it."""
    limiter = SlidingWindow(rate, margin_s, window_s)
    out: list[float] = []
    for at in moments(beginning, gaps):
        free = sum(at - other < window_s for other in out) < rate

        assert (ask(limiter, at) == 0.0) is free

        out.extend([at] if free else [])


@given(RATES, MARGINS, WINDOWS, BEGINNINGS, st.lists(GAPS, max_size=20))
@example(1, 0.0, 0.3, -0.3, [0.0])
@example(1, 0.0, 0.3, 0.1 + 0.2, [0.1])
@example(1, 0.0, 60.0, 1e17, [0.0])
def test_whoever_waits_as_told_gets_the_slot(rate, margin_s, window_s, beginning, gaps):
    """After exactly the wait that was told, and with nobody else asking, the slot is granted."""
    for last in range(len(gaps) + 1):
        limiter = SlidingWindow(rate, margin_s, window_s)
        shown = moments(beginning, gaps[:last])
        wait_s = [ask(limiter, at) for at in shown][-1]

        assert wait_s == 0.0 or ask(limiter, shown[-1] + wait_s) == 0.0


@given(st.floats(-1e300, 1e300), st.sampled_from([0.0, 0.5]))
@example(-60.3, 0.0)
@example(math.nextafter(-60.0, -math.inf), 0.0)
@example(1e300, 0.5)
def test_rounding_never_costs_a_second_refusal(at, margin_s):
    """However large or small the clock's numbers are, the wait that was told is long enough."""
    limiter = SlidingWindow(1, margin_s)
    ask(limiter, at)
    wait_s = ask(limiter, at)

    assert 0 < wait_s < math.inf
    assert ask(limiter, at + wait_s) == 0.0


def test_a_wait_is_lengthened_by_what_its_own_size_allows():
    """Near a clock's zero a step of the clock is too small to lengthen a wait, and still the wait is long enough."""
    limiter, at = SlidingWindow(1, 0.0, 0.3), -0.14471262003119378
    ask(limiter, -0.1449262587525725)
    wait_s = ask(limiter, at)

    assert wait_s == math.nextafter(0.29978636127862124, 1)
    assert ask(limiter, at + wait_s) == 0.0


@given(RATES, st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=40))
def test_a_wait_is_bounded_though_the_clock_jumps(rate, shown):
    """Even with a clock that leaps to and fro, nobody is told to wait for more than two windows and the margin."""
    limiter = SlidingWindow(rate)

    assert max(ask(limiter, at) for at in shown) <= 2 * 60.0 + 0.5 + 1e-6


def test_another_clock_takes_nothing_back():
    """When a clock begins anew, what was reserved counts as reserved at that moment."""
    limiter = SlidingWindow(2)
    for _ in range(2):
        ask(limiter, 1e6)

    assert ask(limiter, 5.0) == 60.5
    assert ask(limiter, 65.0) == 0.0


@pytest.mark.parametrize(("back_s", "expected"), [(1.0, 61.5), (59.0, 119.5), (60.0, 120.5), (60.001, 60.5)])
def test_a_moment_a_little_before_the_last_one_is_of_the_same_clock(back_s, expected):
    """Within one window back nothing that was reserved is forgotten; further back it is another clock."""
    limiter = SlidingWindow(1)
    ask(limiter, 1000.0)

    assert ask(limiter, 1000.0 - back_s) == pytest.approx(expected)


def test_slots_stay_in_order():
    """A request granted a little before the last one counts for as long as that one."""
    limiter = SlidingWindow(2)
    assert [ask(limiter, at) for at in (10.0, 5.0)] == [0.0, 0.0]
    ask(limiter, 66.0, "another, so that the idle are forgotten")

    assert ask(limiter, 66.0) == 4.5
    assert ask(limiter, 70.0) == 0.0


@given(RATES, st.lists(st.tuples(GAPS, st.sampled_from("abc")), max_size=60))
def test_memory_is_bounded_by_the_rate(rate, asked):
    """Never more moments are kept for a provider than the rate."""
    limiter = SlidingWindow(rate)
    for at, (_, provider) in zip(moments(0.0, [gap for gap, _ in asked]), asked, strict=False):
        ask(limiter, at, provider)

        assert all(1 <= len(slots) <= rate for slots in limiter._slots_of.values())


def test_providers_that_are_no_longer_asked_are_forgotten():
    """However many names are heard, only those of the last window are kept."""
    limiter = SlidingWindow(1)
    for number in range(1000):
        ask(limiter, 30.0 * number, f"model {number}")

    assert len(limiter._slots_of) == 2


def test_a_provider_that_may_still_be_full_is_not_forgotten():
    """A new name frees no slot of an old one."""
    limiter = SlidingWindow(1)
    ask(limiter, 0.0, "old")
    ask(limiter, 59.0, "new")

    assert ask(limiter, 59.0, "old") == 1.5
