"""What is known of a turn, and how each event adds to it.

The record has no state in it: where the turn stands is the page's business, so neither a guard nor an action can
hide a test of it. Events add facts here; what a row makes of them is in `actions`.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from attrs import evolve, field, fields, frozen

from fsm_loop.config import LoopConfig
from fsm_loop.core import counters
from fsm_loop.core.counters import Counter, Counts
from fsm_loop.core.events import (
    CallFailed,
    Event,
    ModelReplied,
    PortEvent,
    SteerGiven,
    ToolReturned,
    TurnStarted,
)
from fsm_loop.core.faults import Fault
from fsm_loop.core.messages import NO_USAGE, AssistantMessage, Message, Reply, ToolCall, ToolMessage, Usage


@frozen
class Shape:
    """How requests of this turn depart from the plain one.

    `output_limit` and `less_reasoning` die with the episode that asked for them; the rest holds for the turn, each
    for the provider (by its place in the chain) that needed it.
    """

    output_limit: int | None = None
    less_reasoning: bool = False
    limits: tuple[tuple[int, int], ...] = ()
    unstreamed: frozenset[int] = frozenset()
    without: frozenset[tuple[int, str]] = frozenset()

    def after_episode(self) -> Shape:
        """The shape without what dies with the episode that asked for it."""
        if self.output_limit is None and not self.less_reasoning:
            return self
        return evolve(self, output_limit=None, less_reasoning=False)

    def limit_for(self, provider: int, config: LoopConfig) -> int | None:
        """The output limit to ask this provider for, in tokens; None leaves it to the provider."""
        wished = self.output_limit or config.max_output_tokens
        lowered = dict(self.limits).get(provider)
        if wished is None or lowered is None:
            return wished if lowered is None else lowered
        return min(wished, lowered)


@frozen
class Spent:
    """The counter that ended something: its name, its value, its cap."""

    counter: str
    value: float
    cap: float


@frozen
class End:
    """How the turn ended."""

    outcome: str
    text: str = ""
    exhausted: Spent | None = None
    fault: Fault | None = None
    issuer: str = ""
    reason: str = ""


PLAIN = Shape()


@frozen
class Record:
    """All that is known of a turn.

    `prompt` is what the turn was given, `said` what it added; `pieces` are shown stretches of the answer that is
    being continued, `lead` the text of paused replies before it; `nudge` is the one-time word that closes the next
    request. `calls` and `results` are the tool round in progress. `missed` names the counters that kept a row
    above the last one from firing.
    """

    config: LoopConfig
    providers: tuple[str, ...]
    counts: Counts = field(factory=dict)
    prompt: tuple[Message, ...] = ()
    said: tuple[Message, ...] = ()
    attempt: int = 0
    provider: int = 0
    sent: int = 0
    lead: str = ""
    pieces: tuple[str, ...] = ()
    nudge: str = ""
    cut: Reply | None = None
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolMessage | None, ...] = ()
    asked: AssistantMessage | None = None
    steers: tuple[str, ...] = ()
    shape: Shape = PLAIN
    fault: Fault | None = None
    missed: tuple[Counter, ...] = ()
    spent: Spent | None = None
    usage: Usage = NO_USAGE
    started_at: float | None = None
    end: End | None = None

    @property
    def chain(self) -> int:
        """The number of fallbacks behind the primary."""
        return len(self.providers) - 1

    def count(self, counter: Counter) -> float:
        """How often the counter has been spent since it was last refilled."""
        return self.counts.get(counter.name, 0)

    def cap(self, counter: Counter) -> float | None:
        """The counter's cap; None where there is none."""
        return counter.limit(self.config, self.chain)

    def has_left(self, counter: Counter) -> bool:
        """Whether one more is allowed."""
        limit = counter.limit(self.config, self.chain)
        return limit is None or self.counts.get(counter.name, 0) < limit

    @property
    def seconds_left(self) -> float | None:
        """What is left of the turn's own seconds; None where they are not limited."""
        if self.config.turn_seconds is None:
            return None
        return max(0.0, self.config.turn_seconds - self.count(counters.turn_seconds))

    @property
    def answer(self) -> str:
        """What has been shown of the answer that is being made."""
        return self.lead + "".join(self.pieces) + (self.cut.text if self.cut else "")

    def but(self, **changes: Any) -> Record:
        """This record with some of it changed."""
        facts = list(_facts_of(self))  # several times as fast as evolve, and hot
        for name, fact in changes.items():
            facts[_PLACES[name]] = fact
        return Record(*facts)

    def after(self, event: Event) -> Record:
        """The record once *event* is known."""
        changes = self._facts(event)
        counts = self._measured(event, changes)
        if counts is not None:
            changes["counts"] = counts
        return self.but(**changes) if changes else self

    def _facts(self, event: Event) -> dict[str, Any]:
        match event:
            case ModelReplied(reply=reply):
                return {"usage": self.usage + reply.usage, "fault": None}
            case ToolReturned():
                return {"results": self._with_result(event)}
            case CallFailed(fault=fault, partial=partial):
                kept = {"fault": fault}
                return kept if partial.usage == NO_USAGE else {**kept, "usage": self.usage + partial.usage}
            case SteerGiven(text=text):
                return {"steers": (*self.steers, text)}
            case TurnStarted(messages=messages, at=at):
                return {"prompt": messages, "started_at": at}
            case _:
                return {}

    def _with_result(self, event: ToolReturned) -> tuple[ToolMessage | None, ...]:
        """The results with this one in the place of its call; a second one for a call changes nothing."""
        return tuple(
            ToolMessage(call.id, event.text, event.status) if result is None and call.id == event.call_id else result
            for call, result in zip(self.calls, self.results, strict=True)
        )

    def _measured(self, event: Event, changes: dict[str, Any]) -> dict[str, float] | None:
        """The counts with the measured ones brought up to date; None where nothing is measured."""
        fresh: dict[str, float] = {}
        usage = changes.get("usage")
        if usage is not None:
            fresh = {"tokens": usage.total_tokens, "cost": usage.cost}
        if self.config.turn_seconds is not None and self.started_at is not None:
            fresh["turn_seconds"] = max(event.at - self.started_at, self.count(counters.turn_seconds))
        return {**self.counts, **fresh} if fresh else None


_FIELDS = tuple(each.name for each in fields(Record))
_PLACES = {name: place for place, name in enumerate(_FIELDS)}
_facts_of = attrgetter(*_FIELDS)


def is_late(record: Record, event: Event) -> bool:
    """Whether the event answers an attempt that is no longer the current one."""
    return isinstance(event, PortEvent) and event.attempt != record.attempt


def begin(config: LoopConfig, providers: tuple[str, ...]) -> Record:
    """The record of a turn that has not begun; *providers* are names, the primary first."""
    return Record(config=config, providers=providers)
