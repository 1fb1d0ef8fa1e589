"""A turn that is walked event by event through the real `step`, with a tally of what it came to.

Who walks chooses the events; whether they may come, and where they lead, is the page's to say.
"""

from __future__ import annotations

from math import inf
from typing import Any

from attrs import Factory, define, field

from fsm_loop.config import LoopConfig
from fsm_loop.core import counters
from fsm_loop.core.counters import Counter
from fsm_loop.core.effects import CallModel, Effect, RunTool, SetTimer, SwitchProvider
from fsm_loop.core.events import Event, PortEvent, SlotRefused, ToolReturned, TurnStarted
from fsm_loop.core.faults import Fault, FaultKind, RepairKind
from fsm_loop.core.machine import PAGE, State
from fsm_loop.core.messages import Finish, Reply, ToolCall, UserMessage
from fsm_loop.core.step import Decision, Turn, begin_turn, step

QUESTION = UserMessage("What is it?")
CALL = ToolCall("call", "look", "{}")
BAD_CALL = ToolCall("call", "fly", "{}", problem="there is no tool fly")
HALF_CALL = ToolCall("call", "look", '{"')
FAULT_OF = {kind.repair: kind for kind in FaultKind if kind.repair}


@define
class Walk:
    """A turn on its way: the events so far, and what they came to.

    `calls` counts the requests of each provider, the grace call among them; `waited_s` adds up the timers, each of
    which runs its whole time; `tokens` adds up the output limits of the requests that have one. Where the walk goes
    `slowly`, each call lasts until its deadline, and each round of tools until its tools are timed out.
    """

    config: LoopConfig
    chain: int = 0
    slowly: bool = False
    turn: Turn = field(init=False)
    last: Decision | None = field(init=False, default=None)
    events: list[Event] = Factory(list)
    calls: list[int] = field(init=False)
    waited_s: float = 0.0
    tool_rounds: int = 0
    tokens: int = 0
    at: float = 0.0

    def __attrs_post_init__(self) -> None:
        """The user has spoken."""
        self.turn = begin_turn(self.config, tuple(f"provider {place}" for place in range(self.chain + 1)))
        self.calls = [0] * (self.chain + 1)
        self.feed(TurnStarted(messages=(QUESTION,), at=self.at))

    @property
    def over(self) -> bool:
        """Whether the turn has ended."""
        return self.turn.state is PAGE.done

    @property
    def outcome(self) -> str:
        """How the turn has ended; empty while it has not."""
        return self.turn.record.end.outcome if self.turn.record.end else ""

    @property
    def provider(self) -> int:
        """The place in the chain of the provider that is asked."""
        return self.turn.record.provider

    @property
    def next_provider(self) -> int | None:
        """The provider that is to be made ready."""
        return next((each.provider for each in self.asked if isinstance(each, SwitchProvider)), None)

    @property
    def asked(self) -> tuple[Effect, ...]:
        """What the last row asks for."""
        return self.last.effects if self.last else ()

    @property
    def is_out(self) -> bool:
        """Whether the request is out, and its reply is waited for."""
        return any(isinstance(each, CallModel) for each in self.asked)

    @property
    def time_left_s(self) -> float:
        """The seconds that the call which is out may take; endless where the turn's own are not limited."""
        left = (each.request.time_left_s for each in self.asked if isinstance(each, CallModel))
        return next((seconds for seconds in left if seconds is not None), inf)

    @property
    def time_is_up(self) -> bool:
        """Whether the turn's own seconds are over."""
        own_s = self.config.turn_seconds
        return own_s is not None and self.at >= own_s

    @property
    def waits_for_timer(self) -> bool:
        """Whether a timer runs."""
        return any(isinstance(each, SetTimer) for each in self.asked)

    def left(self, counter: Counter) -> bool:
        """Whether one more of this counter is allowed."""
        return self.turn.record.has_left(counter)

    @property
    def may_send(self) -> bool:
        """Whether the budget lets one more request out."""
        return all(map(self.left, (counters.requests, counters.tokens, counters.cost, counters.turn_seconds)))

    def spent(self, counter: Counter) -> int:
        """How often the counter has been spent since it was last refilled."""
        return int(self.turn.record.count(counter))

    def answer(self, kind: type[PortEvent], **facts: Any) -> None:
        """The answer to what is waited for now."""
        self.feed(kind(attempt=self.turn.record.attempt, at=self.at, **facts))

    def feed(self, event: Event) -> None:
        """One event, and what it led to."""
        before = self.turn.state
        self.events.append(event)
        self.last = step(self.turn, event)
        self.turn = self.last.turn
        self.tool_rounds += self.turn.state is State.TOOL_EXEC and before is not State.TOOL_EXEC
        if self.slowly and any(isinstance(each, RunTool) for each in self.last.effects):
            self.at += self.config.tool_timeout_s or 0.0
        for effect in self.last.effects:
            if isinstance(effect, CallModel):
                self.calls[effect.request.provider] += 1
                self.tokens += effect.request.output_limit or 0
                self.at += min(self.config.call_deadline_s, self.time_left_s) if self.slowly else 0.0
            elif isinstance(effect, SetTimer):
                self.waited_s += effect.delay_s
                self.at += effect.delay_s

    def return_tool(self, stop: str = "") -> None:
        """The one tool of the round has its result; *stop* says why the turn must not go on, if it must not."""
        self.answer(ToolReturned, call_id=CALL.id, text="seen", stop=stop)

    def refuse_slot(self, after_s: float | None, chance: float = 0.0) -> None:
        """The limiter wants the request to wait."""
        self.answer(SlotRefused, fault=Fault(FaultKind.NO_SLOT, retry_after_s=after_s), chance=chance)


def replayed(walk: Walk) -> Walk:
    """The same events, walked again."""
    again = Walk(walk.config, walk.chain, slowly=walk.slowly)
    for event in walk.events[1:]:
        again.feed(event)
    return again


# ---------------------------------------------------------------- what a model may say, and how a call may fail

TOOLS = Reply(tool_calls=(CALL,), finish=Finish.TOOL_CALLS)
BAD_TOOLS = Reply(tool_calls=(BAD_CALL,), finish=Finish.TOOL_CALLS)
PAUSED = Reply(text="Wait.", finish=Finish.PAUSED)
EMPTY = Reply(finish=Finish.STOP)
ANSWER = Reply(text="It is a door.", finish=Finish.STOP)
CUT_CALL = Reply(tool_calls=(HALF_CALL,), finish=Finish.LENGTH)
ONLY_REASONED = Reply(reasoning="Hm.", finish=Finish.LENGTH)
LOOPING = Reply(text="round and " * 40, finish=Finish.LENGTH)  # cut, and no progress is made in it
REFUSED = Reply(text="No.", finish=Finish.REFUSED)
OVERLOADED = Fault(FaultKind.OVERLOADED)
DROPPED = Fault(FaultKind.DROPPED)
STALLED = Fault(FaultKind.STALLED)
BROKEN = Fault(FaultKind.INTERNAL)  # nothing helps against it


def cut_text(number: int) -> Reply:
    """Text that was cut, and that says something new."""
    return Reply(text=f"Piece {number}.", finish=Finish.LENGTH)


def fault_for(repair: RepairKind) -> Fault:
    """A fault that this repair mends."""
    return Fault(FAULT_OF[repair])
