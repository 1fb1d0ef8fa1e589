"""Turns that are drawn by lot: what happens in them as often as a profile has it, in the simulation driver.

The exact odds of a profile must agree with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from math import sqrt

from attrs import Factory, define, fields

from fsm_loop.config import LoopConfig
from fsm_loop.core.effects import Effect
from fsm_loop.core.events import Event
from fsm_loop.core.machine import PAGE
from fsm_loop.core.messages import UserMessage
from fsm_loop.core.rows import Page
from fsm_loop.core.step import Turn
from fsm_loop.drive.sim import Heard, Simulated, Word, simulate
from fsm_loop.prove.chances import Profile
from fsm_loop.prove.odds import Ending, ending_of
from fsm_loop.prove.outside import ANSWERABLE, Outside

FIGURES = ("calls", "tokens", "waited_s", "lasted_s")
PROMPT = (UserMessage("What is it?"),)


@define
class Sample:
    """What so many turns came to: how often each end, and the sums of the figures and of their squares."""

    turns: int = 0
    ends: dict[Ending, int] = Factory(dict)
    sums: list[float] = Factory(lambda: [0.0] * len(FIGURES))
    squares: list[float] = Factory(lambda: [0.0] * len(FIGURES))

    def add(self, ended: Simulated) -> None:
        """One turn more."""
        record = ended.turn.record
        ending = ending_of(record)
        self.turns += 1
        self.ends[ending] = self.ends.get(ending, 0) + 1
        figures = (record.sent, record.usage.total_tokens, ended.waited_s, ended.lasted_s)
        for place, figure in enumerate(figures):
            self.sums[place] += figure
            self.squares[place] += figure * figure

    def mean(self, figure: str) -> tuple[float, float]:
        """The mean of a figure, and its standard error."""
        place = FIGURES.index(figure)
        mean = self.sums[place] / self.turns
        spread = max(0.0, self.squares[place] / self.turns - mean * mean)
        return mean, sqrt(spread / self.turns)


def drawn(
    profile: Profile, draw: Callable[[], float], turns: int, config: LoopConfig, chain: int = 0, page: Page = PAGE
) -> Sample:
    """So many turns; *draw* gives a number in [0, 1) each time, for what happens and for the jitter."""
    sample = Sample()
    for _ in range(turns):
        sample.add(draw_one(profile, draw, config, chain, page))
    return sample


def draw_one(
    profile: Profile,
    draw: Callable[[], float],
    config: LoopConfig,
    chain: int = 0,
    page: Page = PAGE,
    words: Iterable[Word] = (),
) -> Simulated:
    """One turn, with these words said in it."""
    outside = Outside(profile, config)
    names = tuple(map(str, range(chain + 1)))

    def world(effect: Effect, turn: Turn) -> Sequence[Heard] | None:
        if not isinstance(effect, ANSWERABLE):
            return None
        name = _chosen(outside.answers((effect,), turn), draw)
        heard, before_s = [], 0.0
        for event in outside.events(name, (effect,), turn, 0.0, 0.5):
            facts = {each: getattr(event, each) for each in _own(type(event))}  # type: ignore[arg-type]  # a class can be hashed
            heard.append(Heard(type(event), facts, event.at - before_s))
            before_s = event.at
        return heard

    return simulate(world, PROMPT, config=config, providers=names, words=words, chance=draw, page=page)


@cache
def _own(kind: type[Event]) -> tuple[str, ...]:
    """The fields of the event that the driver does not fill in."""
    return tuple(each.name for each in fields(kind) if each.name not in ("at", "chance", "attempt"))


def _chosen(answers: Sequence[tuple[str, float]], draw: Callable[[], float]) -> str:
    if len(answers) == 1:
        return answers[0][0]
    at, upto = draw(), 0.0
    for name, chance in answers:
        upto += chance
        if at < upto:
            return name
    return answers[-1][0]
