"""Which caps and delays reach a goal under a profile: a search that tries one change after another, within a limit.

It begins with the config as it is. Of what was tried, it takes the one nearest to the goal (once the goal is reached,
the one that waits least), and tries the next values of each setting that the profile can feel, one at a time. What is
found is the best of what was tried, and not proved to be the best there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from attrs import Factory, define, evolve, frozen

from fsm_loop.config import LoopConfig
from fsm_loop.errors import ConfigError
from fsm_loop.prove.bounds import most_waited_s
from fsm_loop.prove.chances import Profile
from fsm_loop.prove.goals import Goal
from fsm_loop.prove.odds import Odds, odds

MOST_TRIED = 60  # configs
FAINT = 1e-9  # turns less likely than this are left out while it searches
# The settings that are tried, and their values; that of the config is tried as well.
VALUES: Mapping[str, tuple[float, ...]] = {
    "api_max_retries": (0, 1, 2, 3, 4, 5, 6, 8, 10),
    "stream_retries": (0, 1, 2, 3, 4, 6),
    "recoveries": (0, 1, 2, 3, 5, 7),
    "continuations": (0, 1, 2, 3, 5, 8),
    "boosts": (0, 1, 2, 3, 5),
    "empty_replies": (0, 1, 2, 3, 4),
    "bad_tool_rounds": (0, 1, 2, 3, 5),
    "compactions": (0, 1, 2, 3, 5),
    "max_iterations": (10, 20, 40, 60, 80),
    "base_delay_s": (1.0, 2.0, 5.0, 10.0),
    "first_token_timeout_s": (30.0, 60.0, 120.0, 300.0),
}
# What must be able to come for a setting to matter.
_RETRIED = ("rate_limited", "overloaded", "server_error", "connect_failed", "stall_before_text", "stall_after_text")
_OWN_DELAY = (*_RETRIED[1:], "malformed")
_DROPS = ("drop_before_text", "drop_after_text", "drop_in_call")
FELT_BY: Mapping[str, tuple[str, ...]] = {
    "api_max_retries": (*_RETRIED, "malformed", *_DROPS),
    "stream_retries": (*_DROPS, "stall_after_text"),
    "recoveries": (*_OWN_DELAY, *_DROPS),
    "continuations": ("cut_text", "window_full", "drop_after_text", "drop_in_call", "stall_after_text"),
    "boosts": ("cut_call", "only_reasoned"),
    "empty_replies": ("empty",),
    "bad_tool_rounds": ("bad_tool_calls", "misspoke"),
    "compactions": ("too_long",),
    "max_iterations": ("tool_round", "paused"),
    "base_delay_s": _OWN_DELAY,
    "first_token_timeout_s": ("stall_before_text",),
}


@frozen
class Tried:
    """A config that was tried: what is changed in it, its odds, and the longest that a turn can wait under it."""

    changes: Mapping[str, Any]
    figure: float
    short_by: float
    found: Odds
    worst_wait_s: float

    @property
    def reaches(self) -> bool:
        """Whether the goal is reached."""
        return self.short_by <= 0

    def plain(self) -> dict[str, Any]:
        """The config that was tried, as data."""
        return {
            "changes": dict(self.changes),
            "goal": self.figure,
            "reaches": self.reaches,
            "calls": self.found.calls,
            "waited_s": self.found.waited_s,
            "worst_wait_s": self.worst_wait_s,
        }


@frozen
class Tuned:
    """What the search found; `front` are the configs worth choosing from, for nothing that was tried beats them.

    `best` reaches the goal with the shortest mean wait and then the fewest calls; where none reaches it, it is the
    nearest. `start` is the config as it was.
    """

    goal: Goal
    profile: Profile
    max_wait_s: float | None
    start: Tried
    best: Tried
    front: tuple[Tried, ...]
    tried: tuple[Tried, ...]

    @property
    def reached(self) -> bool:
        """Whether a config reaches the goal, and keeps to the longest mean wait."""
        return self.fits(self.best)

    def fits(self, each: Tried) -> bool:
        """Whether this config reaches the goal, and keeps to the longest mean wait."""
        return each.reaches and _short_enough(each, self.max_wait_s)

    def plain(self) -> dict[str, Any]:
        """The trade-off, as data."""
        return {
            "profile": self.profile.name,
            "goal": self.goal.text,
            "max_wait_s": self.max_wait_s,
            "reached": self.reached,
            "best": self.best.plain(),
            "start": self.start.plain(),
            "front": [each.plain() for each in self.front],
            "tried": len(self.tried),
        }


def tune(  # a search has these parts
    profile: Profile,
    goal: Goal,
    config: LoopConfig | None = None,
    *,
    chain: int = 0,
    max_wait_s: float | None = None,
    most_tried: int = MOST_TRIED,
    progress: Callable[[int, int], None] = lambda tried, most: None,  # noqa: ARG005
) -> Tuned:
    """Search for a config that reaches the goal, with a mean wait of at most *max_wait_s* seconds.

    *progress* is told how many configs were tried, and of how many at most.
    """
    search = _Search(profile, goal, config or LoopConfig(), chain, max_wait_s)
    search.run(most_tried, progress)
    return search.tuned()


@define
class _Search:
    profile: Profile
    goal: Goal
    config: LoopConfig
    chain: int
    max_wait_s: float | None
    tried: dict[tuple[float, ...], Tried] = Factory(dict)

    def run(self, most: int, progress: Callable[[int, int], None]) -> None:
        """Try configs until the limit is met, or no further change is left."""
        waiting = [{name: getattr(self.config, name) for name in self._names()}]
        spread: set[tuple[float, ...]] = set()
        while waiting and len(self.tried) < most:
            for settings in waiting[: most - len(self.tried)]:
                self._try(settings)
                progress(len(self.tried), most)
            waiting = []
            for settings, key in self._nearest():
                if key not in spread:
                    spread.add(key)
                    waiting = [each for each in self._beside(settings) if tuple(each.values()) not in self.tried]
                    if waiting:
                        break

    def tuned(self) -> Tuned:
        every = tuple(self.tried.values())
        best = min(every, key=self._order)
        return Tuned(self.goal, self.profile, self.max_wait_s, every[0], best, _front(every), every)

    def _order(self, each: Tried) -> tuple[Any, ...]:
        """What comes first: the goal reached within the wait, else what is short by least; then a short wait."""
        fits = _short_enough(each, self.max_wait_s)
        rest = (round(each.found.waited_s, 3), round(each.found.calls, 6), len(each.changes))
        return (not (each.reaches and fits), not fits, max(0.0, each.short_by), *rest)

    def _nearest(self) -> list[tuple[dict[str, float], tuple[float, ...]]]:
        """What was tried, the nearest to the goal first."""
        ranked = sorted(self.tried.items(), key=lambda each: self._order(each[1]))
        return [(dict(zip(self._names(), key, strict=True)), key) for key, _ in ranked]

    def _names(self) -> list[str]:
        can = {name for chances in self.profile.of_each[: 1 + bool(self.chain)] for name, _ in chances}
        return [name for name in VALUES if can & set(FELT_BY[name])]

    def _beside(self, settings: Mapping[str, float]) -> Iterator[dict[str, float]]:
        """The same settings, each in turn at the values next to its own."""
        for name, value in settings.items():
            values = sorted({*VALUES[name], getattr(self.config, name), value})
            at = values.index(value)
            for other in (*values[at + 1 : at + 2], *values[max(0, at - 1) : at]):
                yield {**settings, name: other}

    def _try(self, settings: Mapping[str, float]) -> None:
        changes: dict[str, Any] = {
            name: value for name, value in settings.items() if value != getattr(self.config, name)
        }
        try:
            config = evolve(self.config, **changes)
        except ConfigError:
            return  # a value that does not go with the others
        found = odds(self.profile, config, self.chain, negligible=FAINT)
        worst_s = most_waited_s(config, self.chain)
        tried = Tried(changes, self.goal.of(found), self.goal.short_by(found), found, worst_s)
        self.tried[tuple(settings.values())] = tried


def _short_enough(each: Tried, max_wait_s: float | None) -> bool:
    return max_wait_s is None or each.found.waited_s <= max_wait_s


def _front(tried: tuple[Tried, ...]) -> tuple[Tried, ...]:
    """What nothing else that was tried beats in the goal, the mean wait and the calls; the shortest waits first."""
    ordered = sorted(tried, key=lambda each: (*_figures(each), len(each.changes)))
    kept: list[Tried] = []
    for each in ordered:
        if not any(all(a <= b for a, b in zip(_figures(other), _figures(each), strict=True)) for other in kept):
            kept.append(each)
    return tuple(kept)


def _figures(each: Tried) -> tuple[float, ...]:
    return round(each.found.waited_s, 1), round(each.short_by, 5), round(each.found.calls, 2)
