"""The simulation driver: a whole turn through the real `step`, with no event loop, no waiting and no thread.

A world answers the effects; time goes as far as its answers say. What every world answers alike (the limiter grants,
a timer fires, a cut is judged, a repair is made) is answered here, unless the world has something else to say.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import define, field, frozen

from fsm_loop.config import LoopConfig
from fsm_loop.core.effects import Abandon, CallModel, Effect, JudgeCut, Repair, ReserveSlot, RunTool, SetTimer
from fsm_loop.core.effects import SwitchProvider as Switch
from fsm_loop.core.events import (
    CutJudged,
    Event,
    ModelReplied,
    ProviderReady,
    RequestRepaired,
    SlotGranted,
    StreamStarted,
    TimerFired,
    ToolReturned,
    TurnStarted,
)
from fsm_loop.core.machine import PAGE
from fsm_loop.core.messages import Message, Reply, ToolStatus
from fsm_loop.core.rows import Page
from fsm_loop.core.step import Decision, Turn, begin_turn, step
from fsm_loop.drive import repairs
from fsm_loop.errors import FsmLoopError

MOST_DECISIONS = 1_000_000  # of one turn; only a page that does not end comes so far


@frozen
class Heard:
    """Something that comes of an effect: an event, so many seconds after what came before it.

    `facts` are the event's own; its time, its chance and the attempt that it answers are added.
    """

    kind: type[Event]
    facts: Mapping[str, Any] = field(factory=dict)
    after_s: float = 0.0


World = Callable[[Effect, Turn], "Sequence[Heard] | None"]
"""What comes of an effect; None where it is what comes of it in every world."""


@frozen
class Word:
    """A word of the user or the host, said when so many decisions have been made."""

    after: int
    kind: type[Event]
    facts: Mapping[str, Any] = field(factory=dict)


@frozen
class Simulated:
    """A turn that was simulated: where it ended, all its decisions, seconds of waiting and seconds in all."""

    turn: Turn
    decisions: tuple[Decision, ...]
    waited_s: float
    lasted_s: float

    @property
    def outcome(self) -> str:
        """How it ended."""
        end = self.turn.record.end
        assert end is not None
        return end.outcome


def replies(reply: Reply, *, first_s: float = 0.0, rest_s: float = 0.0) -> tuple[Heard, ...]:
    """A model's reply: its first sign of life, where it gives one, and then the whole of it."""
    if not (reply.text or reply.reasoning or reply.tool_calls):
        return (Heard(ModelReplied, {"reply": reply}, first_s + rest_s),)
    return Heard(StreamStarted, after_s=first_s), Heard(ModelReplied, {"reply": reply}, rest_s)


def returns(call_id: str, text: str, status: ToolStatus = ToolStatus.OK, *, after_s: float = 0.0) -> tuple[Heard, ...]:
    """A tool's result."""
    return (Heard(ToolReturned, {"call_id": call_id, "text": text, "status": status}, after_s),)


def simulate(
    world: World,
    messages: Iterable[Message],
    *,
    config: LoopConfig | None = None,
    providers: Sequence[str] = ("model",),
    words: Iterable[Word] = (),
    chance: Callable[[], float] = lambda: 0.5,
    page: Page = PAGE,
) -> Simulated:
    """One turn, from its first event to its end; the same world, words and chance always give the same turn.

    Raises FsmLoopError where the world does not answer what only it can answer, or the turn does not end.
    """
    run = _Run(world, begin_turn(config or LoopConfig(), tuple(providers), page), page, chance)
    run.words.extend(sorted(words, key=lambda word: word.after))
    run.feed(TurnStarted, {"messages": tuple(messages)})
    while run.turn.state is not page.done:
        run.go_on()
    return Simulated(run.turn, tuple(run.decisions), run.waited_s, run.at)


@define
class _Run:
    """A turn while it is simulated."""

    world: World
    turn: Turn
    page: Page
    chance: Callable[[], float]
    at: float = 0.0
    waited_s: float = 0.0
    decisions: list[Decision] = field(factory=list)
    words: deque[Word] = field(factory=deque)
    todo: deque[Effect] = field(factory=deque)

    def go_on(self) -> None:
        """Answer the next effect."""
        if not self.todo:
            msg = f"nothing is left to do in {self.turn.state.name.lower()}, and the turn has not ended"
            raise FsmLoopError(msg)
        effect = self.todo.popleft()
        attempt = getattr(effect, "attempt", None)
        for each in self._heard(effect):
            if self.turn.record.attempt != attempt or self.turn.state is self.page.done:
                return  # it was let go
            self.at += each.after_s
            if isinstance(effect, SetTimer):
                self.waited_s += each.after_s
            self.feed(each.kind, {"attempt": attempt, **each.facts})

    def feed(self, kind: type[Event], facts: Mapping[str, Any]) -> None:
        """One event, and the words that are said when it has been decided on."""
        self._decide(kind, facts)
        while self.words and self.words[0].after <= len(self.decisions) and self.turn.state is not self.page.done:
            word = self.words.popleft()
            self._decide(word.kind, word.facts)

    def _decide(self, kind: type[Event], facts: Mapping[str, Any]) -> None:
        decision = step(self.turn, kind(at=self.at, chance=self.chance(), **facts), self.page)
        self.turn = decision.turn
        self.decisions.append(decision)
        if len(self.decisions) > MOST_DECISIONS:
            msg = f"the turn has made {MOST_DECISIONS} decisions, and has not ended"
            raise FsmLoopError(msg)
        for effect in decision.effects:
            if isinstance(effect, Abandon):
                self.todo.clear()
            elif hasattr(effect, "attempt"):
                self.todo.append(effect)

    def _heard(self, effect: Effect) -> Sequence[Heard]:
        heard = self.world(effect, self.turn)
        if heard is not None:
            return heard
        match effect:
            case ReserveSlot():
                return (Heard(SlotGranted),)
            case JudgeCut():
                return (Heard(CutJudged),)
            case SetTimer(delay_s=delay_s):
                return (Heard(TimerFired, after_s=delay_s),)
            case Switch():
                return (Heard(ProviderReady),)
            case Repair():
                return (Heard(RequestRepaired, _repaired(effect)),)
        asks = "what a model replies" if isinstance(effect, CallModel) else "what it comes to"
        asks = "what the tool returns" if isinstance(effect, RunTool) else asks
        msg = f"the world has no answer to {type(effect).__name__}: it must say {asks}"
        raise FsmLoopError(msg)


def _repaired(effect: Repair) -> Mapping[str, Any]:
    """What a repair comes to that needs nobody outside; one that does has changed nothing."""
    repair = repairs.PLAIN.get(effect.kind)
    facts = repairs.NO_CHANGE if repair is None else repair(effect)
    return facts if facts["changed"] else repairs.NO_CHANGE
