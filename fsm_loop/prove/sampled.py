"""Turns that are drawn by lot and walked through the real `step`: what the exact odds must agree with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt

from attrs import Factory, define

from fsm_loop.config import LoopConfig
from fsm_loop.core.events import TurnStarted
from fsm_loop.core.machine import PAGE
from fsm_loop.core.messages import UserMessage
from fsm_loop.core.rows import Page
from fsm_loop.core.step import begin_turn, step
from fsm_loop.prove.chances import Profile
from fsm_loop.prove.odds import Ending, cost_of, ending_of
from fsm_loop.prove.outside import Outside

FIGURES = ("calls", "tokens", "waited_s", "lasted_s")


@define
class Sample:
    """What so many turns came to: how often each end, and the sums of the figures and of their squares."""

    turns: int = 0
    ends: dict[Ending, int] = Factory(dict)
    sums: list[float] = Factory(lambda: [0.0] * len(FIGURES))
    squares: list[float] = Factory(lambda: [0.0] * len(FIGURES))

    def add(self, ending: Ending, figures: Sequence[float]) -> None:
        """One turn more."""
        self.turns += 1
        self.ends[ending] = self.ends.get(ending, 0) + 1
        for place, figure in enumerate(figures):
            self.sums[place] += figure
            self.squares[place] += figure * figure

    def mean(self, figure: str) -> tuple[float, float]:
        """The mean of a figure, and its standard error."""
        place = FIGURES.index(figure)
        mean = self.sums[place] / self.turns
        spread = max(0.0, self.squares[place] / self.turns - mean * mean)
        return mean, sqrt(spread / self.turns)


def sampled(
    profile: Profile, draw: Callable[[], float], turns: int, config: LoopConfig, chain: int = 0, page: Page = PAGE
) -> Sample:
    """So many turns; *draw* gives a number in [0, 1) each time, for what happens and for the jitter."""
    outside, sample = Outside(profile, config), Sample()
    names = tuple(map(str, range(chain + 1)))
    start = TurnStarted(messages=(UserMessage("What is it?"),))
    for _ in range(turns):
        decision = step(begin_turn(config, names, page), start, page)
        at, figures = 0.0, [0.0] * len(FIGURES)
        while decision.turn.state is not page.done:
            asked, here = decision.effects, decision.turn
            name = _chosen(outside.answers(asked, here), draw)
            took_s = outside.took_s(name, asked)
            events = outside.events(name, asked, here, at, draw())
            for event in events:
                decision = step(decision.turn, event, page)
            cost = cost_of(asked, events[-1], took_s)
            at += took_s
            for place, figure in enumerate(FIGURES):
                figures[place] += getattr(cost, figure)
        sample.add(ending_of(decision.turn.record), figures)
    return sample


def _chosen(answers: Sequence[tuple[str, float]], draw: Callable[[], float]) -> str:
    if len(answers) == 1:
        return answers[0][0]
    at, upto = draw(), 0.0
    for name, chance in answers:
        upto += chance
        if at < upto:
            return name
    return answers[-1][0]
