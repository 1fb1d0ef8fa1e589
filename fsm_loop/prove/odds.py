"""How likely each end of a turn is, exactly, where the chances of each thing that comes of a call are known.

The probability of a turn flows forward, one request at a time, over the graph of the real `step`; turns that have one
future are one. Between two tool rounds nearly all that is counted is refilled, so of the counters only those that are
not 0 tell turns apart; and `requests` and `iterations`, which are many and never refilled, are kept beside the rest:
what comes of a request depends on whether any is left, and not on how many. So each step is decided once, and is
gone again with other numbers beside it. As every loop is counted, the flow ends.

A backoff is taken at the middle of its jitter, which is its mean. Its length changes nothing but the seconds, unless
the turn's own are limited (`turn_seconds`): then the odds are those of a turn whose waits are all at their mean.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from enum import Enum
from math import floor, log10
from typing import Any

from attrs import Factory, define, frozen

from fsm_loop.config import LoopConfig
from fsm_loop.core import counters as c
from fsm_loop.core.effects import CallModel, Effect, ReserveSlot, SetTimer
from fsm_loop.core.events import ModelReplied, PortEvent, TurnStarted
from fsm_loop.core.machine import PAGE
from fsm_loop.core.messages import UserMessage
from fsm_loop.core.record import Record
from fsm_loop.core.rows import Page
from fsm_loop.core.step import Turn, begin_turn, step
from fsm_loop.errors import FsmLoopError
from fsm_loop.prove.chances import Profile, profile_of
from fsm_loop.prove.outside import Outside

NEGLIGIBLE = 1e-15  # a turn less likely than this is not followed; all of them together are `unaccounted`
MOST_TURNS = 400_000  # different turns that may be under way at once
LEAST = 1e-9  # what is less likely than this is told as next to never
MEAN = 0.5  # the middle of the jitter
BESIDE = (c.requests.name, c.iterations.name)
SOON = 2  # between two requests each of these two is spent once at most, and asked for once more

Ending = tuple[str, str]  # the outcome, and the counter that was spent; empty where none was
Key = tuple[Hashable, ...]


@frozen
class Odds:
    """How likely each end is, and what a turn comes to on the average.

    `ends` holds the probability of each outcome with the counter that ended it, empty where none did. `calls`,
    `tokens`, `waited_s` (timers alone) and `lasted_s` (calls and tools too) are means. `unaccounted` is the
    probability of all turns that were too unlikely to be followed: no figure is off by more.
    """

    profile: Profile
    ends: dict[Ending, float]
    calls: float
    tokens: float
    waited_s: float
    lasted_s: float
    unaccounted: float = 0.0
    turns: int = 0

    @property
    def outcomes(self) -> dict[str, float]:
        """The probability of each outcome, the likeliest first."""
        return _summed((outcome, chance) for (outcome, _), chance in self.ends.items())

    @property
    def exhausted(self) -> dict[str, float]:
        """The probability of each counter to be the one that ended the turn, the likeliest first."""
        return _summed((counter, chance) for (_, counter), chance in self.ends.items() if counter)

    def plain(self) -> dict[str, Any]:
        """The odds as data."""
        return {
            "profile": self.profile.name,
            "outcomes": self.outcomes,
            "exhausted": self.exhausted,
            "ends": [
                {"outcome": outcome, "exhausted": counter or None, "p": chance}
                for (outcome, counter), chance in _sorted(self.ends).items()
            ],
            "calls": self.calls,
            "tokens": self.tokens,
            "waited_s": self.waited_s,
            "lasted_s": self.lasted_s,
            "unaccounted": self.unaccounted,
        }

    def __str__(self) -> str:
        """The odds, to be read."""
        return "\n".join(_told(self))


def odds(
    profile: Profile | str,
    config: LoopConfig | None = None,
    chain: int = 0,
    page: Page = PAGE,
    negligible: float = NEGLIGIBLE,
) -> Odds:
    """The odds of a turn under this profile, by its name, by its file or as it is; *chain* is the number of fallbacks.

    Raises ConfigError where the profile is not valid, and FsmLoopError where there are too many turns to follow.
    """
    chosen = profile_of(profile) if isinstance(profile, str) else profile
    return _Flow(Outside(chosen, config or LoopConfig()), page, chain, negligible).odds()


# ---------------------------------------------------------------- the flow


@frozen
class _Cost:
    """What a step takes: on one way, or on the average of all."""

    calls: float = 0.0
    tokens: float = 0.0
    waited_s: float = 0.0
    lasted_s: float = 0.0

    def plus(self, other: _Cost, times: float = 1.0) -> _Cost:
        return _Cost(
            self.calls + times * other.calls,
            self.tokens + times * other.tokens,
            self.waited_s + times * other.waited_s,
            self.lasted_s + times * other.lasted_s,
        )


Way = tuple[float, int]
Beside = tuple[int, int]


@frozen
class _Step:
    """All that comes of one request: where it leads and how likely that is, how it ends, and the mean cost.

    `ways` leads, for so many requests and iterations that were spent, to turns by their numbers.
    """

    ways: tuple[tuple[Beside, tuple[Way, ...]], ...]
    ends: tuple[tuple[float, Ending], ...]
    cost: _Cost


@define
class _Flow:
    """The probability of a turn, on its way from request to request."""

    outside: Outside
    page: Page
    chain: int
    negligible: float
    numbers: dict[Key, int] = Factory(dict)
    turns: list[tuple[Turn, tuple[Effect, ...]]] = Factory(list)
    steps: dict[Beside, dict[int, _Step]] = Factory(dict)
    ends: dict[Ending, float] = Factory(dict)
    cost: _Cost = Factory(_Cost)
    lost: float = 0.0
    followed: int = 0

    def odds(self) -> Odds:
        """Follow it until every turn has ended."""
        begun = begin_turn(self.outside.config, tuple(map(str, range(self.chain + 1))), self.page)
        first = step(begun, TurnStarted(messages=(UserMessage("What is it?"),)), self.page)
        flow: dict[Beside, dict[int, float]] = {(0, 0): {self._number(first.turn, first.effects): 1.0}}
        while flow:
            under_way = sum(map(len, flow.values()))
            self.followed += under_way
            if under_way > MOST_TURNS:
                raise FsmLoopError(_too_many(self.outside.config))
            onward: dict[Beside, dict[int, float]] = {}
            for beside, masses in flow.items():
                self._moved(beside, masses, onward)
            flow = onward
        cost = self.cost
        return Odds(
            self.outside.profile,
            self.ends,
            cost.calls,
            cost.tokens,
            cost.waited_s,
            cost.lasted_s,
            self.lost,
            self.followed,
        )

    def _moved(self, beside: Beside, masses: dict[int, float], onward: dict[Beside, dict[int, float]]) -> None:
        """One request more for each turn that has spent so much of the two counters beside."""
        steps = self.steps.setdefault(self._left(beside), {})
        ends, calls, tokens, waited_s, lasted_s = self.ends, 0.0, 0.0, 0.0, 0.0
        for number, mass in masses.items():
            if mass < self.negligible:
                self.lost += mass
                continue
            taken = steps.get(number)
            if taken is None:
                taken = steps[number] = self._decided(number, beside)
            for (sent, rounds), ways in taken.ways:
                there = onward.setdefault((beside[0] + sent, beside[1] + rounds), {})
                for chance, after in ways:
                    there[after] = there.get(after, 0.0) + mass * chance
            for chance, ending in taken.ends:
                ends[ending] = ends.get(ending, 0.0) + mass * chance
            cost = taken.cost
            calls += mass * cost.calls
            tokens += mass * cost.tokens
            waited_s += mass * cost.waited_s
            lasted_s += mass * cost.lasted_s
        self.cost = self.cost.plus(_Cost(calls, tokens, waited_s, lasted_s))

    def _left(self, beside: Beside) -> Beside:
        """What is left of the two, as far as it matters for one request."""
        config = self.outside.config
        left = config.max_requests - beside[0], config.max_iterations - beside[1]
        return (min(left[0], SOON), min(left[1], SOON)) if self.page is PAGE else left

    def _number(self, turn: Turn, effects: tuple[Effect, ...]) -> int:
        """The number of this turn among those that have another future."""
        key = key_of(turn)
        number = self.numbers.setdefault(key, len(self.turns))
        if number == len(self.turns):
            self.turns.append((turn, effects))
        return number

    def _decided(self, number: int, beside: Beside) -> _Step:
        """All that comes of the next request of this turn, each way walked through the real `step`."""
        turn, effects = self.turns[number]
        record = turn.record
        turn = Turn(turn.state, record.but(counts={**record.counts, **dict(zip(BESIDE, beside, strict=True))}))
        ways: dict[Beside, dict[int, float]] = {}
        ends: dict[Ending, float] = {}
        mean = _Cost()
        for chance, after, asked, cost in _onward(self.outside, self.page, turn, effects):
            mean = mean.plus(cost, chance)
            if after.state is self.page.done:
                ending = ending_of(after.record)
                ends[ending] = ends.get(ending, 0.0) + chance
                continue
            sent, rounds = (int(after.record.counts.get(name, 0)) for name in BESIDE)
            to = ways.setdefault((sent - beside[0], rounds - beside[1]), {})
            there = self._number(after, asked)
            to[there] = to.get(there, 0.0) + chance
        return _Step(
            tuple((spent, tuple((chance, there) for there, chance in to.items())) for spent, to in ways.items()),
            tuple((chance, ending) for ending, chance in ends.items()),
            mean,
        )


def _onward(
    outside: Outside, page: Page, turn: Turn, effects: tuple[Effect, ...]
) -> Iterator[tuple[float, Turn, tuple[Effect, ...], _Cost]]:
    """Every way from a request to the next one, or to the end: how likely it is, and what it takes."""
    start_s = turn.record.count(c.turn_seconds)
    waiting = [(1.0, turn, effects, _Cost(), False)]
    while waiting:
        chance, here, asked, cost, sent = waiting.pop()
        for name, share in outside.answers(asked, here):
            events = outside.events(name, asked, here, start_s + cost.lasted_s, MEAN)
            there, wishes = here, asked
            for event in events:
                decision = step(there, event, page)
                there, wishes = decision.turn, decision.effects
            taken = cost.plus(cost_of(asked, events[-1], outside.took_s(name, asked)))
            out = sent or any(isinstance(each, CallModel) for each in asked)
            if there.state is page.done or (out and is_at_the_door(wishes)):
                yield chance * share, there, wishes, taken
            else:
                waiting.append((chance * share, there, wishes, taken, out))


def is_at_the_door(effects: tuple[Effect, ...]) -> bool:
    """Whether a request waits for its slot."""
    return any(isinstance(each, ReserveSlot) for each in effects)


def cost_of(asked: tuple[Effect, ...], answer: PortEvent, took_s: float) -> _Cost:
    """What it took to be answered."""
    return _Cost(
        calls=sum(isinstance(each, CallModel) for each in asked),
        tokens=answer.reply.usage.total_tokens if isinstance(answer, ModelReplied) else 0,
        waited_s=sum(each.delay_s for each in asked if isinstance(each, SetTimer)),
        lasted_s=took_s,
    )


def ending_of(record: Record) -> Ending:
    """The outcome, and the counter that was spent."""
    assert record.end is not None  # the turn is over
    return record.end.outcome, record.end.exhausted.counter if record.end.exhausted else ""


def key_of(turn: Turn) -> Key:
    """What the future of a turn depends on that is about to ask, but for the two counters beside.

    Measured counters matter where they have a cap. Texts matter by being there: no cut text says again what another
    said. The fault of the last call is read before the next request alone.
    """
    record = turn.record
    measured = {each.name for each in (c.tokens, c.cost, c.turn_seconds) if record.cap(each) is None}
    state: Enum = turn.state
    return (
        state,
        frozenset((name, n) for name, n in record.counts.items() if n and name not in BESIDE and name not in measured),
        record.provider,
        bool(record.lead.strip()),
        bool(record.pieces),
        record.shape,
        record.spent.counter if record.spent else "",
    )


def _too_many(config: LoopConfig) -> str:
    measured = [name for name in ("tokens", "cost", "turn_seconds") if getattr(config, name) is not None]
    why = f"; leave out {' and '.join(measured)}, which tell all turns apart" if measured else ""
    return f"odds: more than {MOST_TURNS:,} different turns are under way at once{why}, or lower the caps"


# ---------------------------------------------------------------- to be read


def _summed(pairs: Iterator[tuple[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for name, chance in pairs:
        total[name] = total.get(name, 0.0) + chance
    return dict(sorted(total.items(), key=lambda each: -each[1]))


def _sorted(ends: dict[Ending, float]) -> dict[Ending, float]:
    return dict(sorted(ends.items(), key=lambda each: -each[1]))


def share(chance: float) -> str:
    """A probability as people read it: a percentage with enough nines, or one in so many."""
    if chance >= 0.99:  # noqa: PLR2004  # what matters is how far it is from all
        rest = 100 * (1 - chance)
        digits = 2 if rest >= 1 else min(10, 2 - floor(log10(rest))) if rest > 1e-9 else 0  # noqa: PLR2004
        return f"{100 - rest:.{digits}f} %"
    if chance >= 1e-4:  # noqa: PLR2004  # below, a percentage has too many zeros
        return f"{100 * chance:.3g} %"
    return f"1 in {float(f'{1 / chance:.3g}'):,.0f}" if chance > LEAST else "next to never" if chance else "never"


def _told(found: Odds) -> Iterator[str]:
    yield f"Under the profile {found.profile.name}, a turn ends as:"
    for outcome, chance in found.outcomes.items():
        yield f"  {outcome:12} {share(chance):>16}"
        parts = {counter: part for (other, counter), part in _sorted(found.ends).items() if other == outcome}
        if outcome == "completed" or chance <= LEAST:
            continue
        for counter, part in parts.items():
            if part > LEAST:
                yield f"      {share(part):>23}  {f'{counter} was spent' if counter else 'and no counter was spent'}"
    yield "On the average it takes:"
    yield f"  {found.calls:12,.2f}  model calls"
    yield f"  {found.tokens:12,.0f}  tokens read and written"
    yield f"  {found.waited_s:12,.1f}  s of waiting: backoff with jitter at its mean, Retry-After, recovery"
    yield f"  {found.lasted_s:12,.1f}  s in all, with calls and tools as long as the profile says"
    if found.unaccounted:
        yield f"Turns too unlikely to be followed come to a probability of {found.unaccounted:.1g} in all."
