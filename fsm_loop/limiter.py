"""Leave to send, counted on this side of the wire: so many requests in any minute, each provider by itself.

There is no clock here: whoever asks says what time it is.
"""

from __future__ import annotations

import math
from collections import deque

from fsm_loop.config import Allowed
from fsm_loop.errors import ConfigError

_ALLOWED = {
    "requests_per_minute": (Allowed(whole=True, low=1), "requests a minute"),
    "margin_s": (Allowed(), "seconds"),
    "window_s": (Allowed(above=True), "seconds"),
}


class SlidingWindow:
    """A limit on the requests of any window of time; a slot is taken by asking for it, unless it is refused.

    It holds for one process and one event loop. Whoever is refused has reserved nothing, so of two who were
    told to wait, the first to ask again gets the slot.
    """

    def __init__(self, requests_per_minute: int, margin_s: float = 0.5, window_s: float = 60.0) -> None:
        _refuse(requests_per_minute=requests_per_minute, margin_s=margin_s, window_s=window_s)
        self._slots_of: dict[str, deque[float]] = {}
        self._most = requests_per_minute
        self._margin_s = float(margin_s)
        self._window_s = float(window_s)

    async def reserve(self, provider: str, at: float) -> float:
        """Seconds to wait; 0 means that the slot is reserved and the request may go out now."""
        # Nothing is awaited between the look and the reservation, so no other task comes in between.
        if not math.isfinite(at):
            raise ValueError(f"a slot is reserved at a moment, not at {at}")
        slots = self._current(provider, at)
        if len(slots) < self._most:
            # A moment a little before the last one is taken for the last one: the slots stay in order.
            slots.append(max(at, slots[-1]) if slots else at)
            return 0.0
        return self._wait_s(slots[0], at)

    def _current(self, provider: str, at: float) -> deque[float]:
        """The slots of this provider, oldest first, less one that the window has passed over."""
        if provider not in self._slots_of:
            self._forget_idle(at)
        slots = self._slots_of.setdefault(provider, deque())
        if slots and slots[-1] - at > self._window_s:
            # No monotonic clock goes back so far: it is another. What was reserved counts as reserved now.
            slots = self._slots_of[provider] = deque([at] * len(slots))
        # One is enough: each that is granted takes one place, so the slots are never more than the rate.
        if slots and self._passed(slots[0], at):
            slots.popleft()
        return slots

    def _passed(self, slot: float, at: float) -> bool:
        """Whether the window has passed over this slot; the wait that is told is reckoned in the same way."""
        return at - slot >= self._window_s

    def _wait_s(self, oldest: float, at: float) -> float:
        wait_s = oldest + self._window_s - at + self._margin_s
        # Without a margin, rounding may end the wait a hair too early: a second refusal, for nothing.
        while not self._passed(oldest, at + wait_s):
            wait_s += max(math.ulp(wait_s), math.ulp(at + wait_s))
        return wait_s

    def _forget_idle(self, at: float) -> None:
        """Only providers whose slots may still count are kept, however many names have been heard."""
        kept = {name: slots for name, slots in self._slots_of.items() if not self._passed(slots[-1], at)}
        self._slots_of = kept


def _refuse(**given: float) -> None:
    for name, value in given.items():
        allowed, unit = _ALLOWED[name]
        why = allowed.refusal(value)
        if why:
            raise ConfigError(f"{name}: {value!r} {why}; allowed: {allowed.words(unit)}")
