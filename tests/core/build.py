"""Short words for the records, events and effects that the tests of the core are made of.

Every record here is at attempt 7, and every port's event answers attempt 7, so an attempt of 8 is a new try.
"""

from __future__ import annotations

from typing import Any

from fsm_loop.config import LoopConfig
from fsm_loop.core import counters
from fsm_loop.core.counters import COUNTERS
from fsm_loop.core.effects import CallModel, Repair, Request, ReserveSlot, RunTool, Say, SetTimer, Withdrawn
from fsm_loop.core.events import (
    CutJudged,
    InterruptAsked,
    ModelFailed,
    ModelReplied,
    ProviderFailed,
    ProviderReady,
    RebuildAsked,
    RequestRepaired,
    SlotGranted,
    SlotRefused,
    SteerGiven,
    StreamDropped,
    StreamStalled,
    StreamStarted,
    TimerFired,
    ToolReturned,
)
from fsm_loop.core.faults import Fault, FaultKind
from fsm_loop.core.messages import (
    NO_REPLY,
    AssistantMessage,
    Finish,
    Reply,
    ToolCall,
    ToolMessage,
    ToolStatus,
    UserMessage,
)
from fsm_loop.core.record import Record

CONFIG = LoopConfig()
PROVIDERS = ("first", "second", "third")
QUESTION = UserMessage("What is it?")
HALF = Reply(text="It is")
ADD = ToolCall("c1", "add", '{"a": 1}')
SUB = ToolCall("c2", "sub", '{"b": 2}')
BAD = ToolCall("c3", "fly", "{}", problem="there is no tool fly")
CUT = ToolCall("c4", "add", '{"a": ')
HALF_CALL = Reply(tool_calls=(CUT,))
HALF_BOTH = Reply(text="It is", tool_calls=(CUT,))
BLANK = Reply(text=" \n")


def known(*, config: LoopConfig = CONFIG, counts: dict[str, float] | None = None, **facts: Any) -> Record:
    """A record in the middle of a turn."""
    facts = {"providers": PROVIDERS, "prompt": (QUESTION,), "attempt": 7, "sent": 3} | facts
    return Record(config=config, counts=counts or {}, **facts)


def spent(*names: str, config: LoopConfig = CONFIG, chain: int = 2) -> dict[str, float]:
    """Counts with these counters at their caps."""
    assert set(names) <= {each.name for each in COUNTERS}
    return {each.name: each.limit(config, chain) for each in COUNTERS if each.name in names}


def in_a_round(*results: ToolMessage | None, calls: tuple[ToolCall, ...] = (ADD, SUB), **facts: Any) -> Record:
    """A record in the middle of a tool round."""
    said = AssistantMessage("I count.", calls)
    return known(asked=said, calls=calls, results=results or (None,) * len(calls), **facts)


def result(call: ToolCall, text: str, status: ToolStatus = ToolStatus.OK) -> ToolMessage:
    """The result of a call."""
    return ToolMessage(call.id, text, status)


# ---------------------------------------------------------------- events


def granted(**facts: Any) -> SlotGranted:
    """The limiter lets the request go."""
    return SlotGranted(attempt=7, **facts)


def refused_slot(wait_s: float = 2.5) -> SlotRefused:
    """The limiter wants the request to wait."""
    return SlotRefused(attempt=7, fault=Fault(FaultKind.NO_SLOT, "wait", retry_after_s=wait_s))


def started() -> StreamStarted:
    """The first sign of life."""
    return StreamStarted(attempt=7)


def replied(text: str = "", *calls: ToolCall, finish: Finish | None = Finish.STOP, **facts: Any) -> ModelReplied:
    """A reply with terminal evidence."""
    return ModelReplied(attempt=7, reply=Reply(text, calls, finish=finish, **facts))


def fault(kind: FaultKind, **facts: Any) -> Fault:
    """A fault with a message."""
    return Fault(kind, kind.word, **facts)


def failed(kind: FaultKind, partial: Reply = NO_REPLY, **facts: Any) -> ModelFailed:
    """The call failed."""
    return ModelFailed(attempt=7, fault=fault(kind, **facts), partial=partial)


def dropped(partial: Reply = NO_REPLY, kind: FaultKind = FaultKind.DROPPED, **facts: Any) -> StreamDropped:
    """The stream broke off."""
    return StreamDropped(attempt=7, fault=fault(kind, **facts), partial=partial)


def stalled(partial: Reply = NO_REPLY, kind: FaultKind = FaultKind.STALLED, **facts: Any) -> StreamStalled:
    """The stream fell silent."""
    return StreamStalled(attempt=7, fault=fault(kind, **facts), partial=partial)


def judged() -> CutJudged:
    """The cut reply is to be decided on."""
    return CutJudged(attempt=7)


def returned(call: ToolCall, text: str = "3", **facts: Any) -> ToolReturned:
    """A tool has its result."""
    return ToolReturned(attempt=7, call_id=call.id, text=text, **facts)


def fired() -> TimerFired:
    """The wait is over."""
    return TimerFired(attempt=7)


def repaired(*, changed: bool = True, **facts: Any) -> RequestRepaired:
    """The repair is over."""
    return RequestRepaired(attempt=7, changed=changed, **facts)


def ready() -> ProviderReady:
    """The next provider can be asked."""
    return ProviderReady(attempt=7)


def not_ready(kind: FaultKind = FaultKind.NOT_READY, **facts: Any) -> ProviderFailed:
    """The next provider could not be made ready."""
    return ProviderFailed(attempt=7, fault=fault(kind, **facts))


def interrupt(partial: Reply = NO_REPLY, **facts: Any) -> InterruptAsked:
    """Someone asks to stop."""
    return InterruptAsked(issuer="supervisor", reason="enough", partial=partial, **facts)


def steer(text: str = "In French.", **facts: Any) -> SteerGiven:
    """A message during the turn."""
    return SteerGiven(text=text, **facts)


def rebuild(partial: Reply = NO_REPLY) -> RebuildAsked:
    """The host has new messages."""
    return RebuildAsked(messages=(UserMessage("What is it now?"),), partial=partial)


# ---------------------------------------------------------------- effects


def slot(attempt: int = 8, provider: int = 0) -> ReserveSlot:
    """Ask the limiter."""
    return ReserveSlot(attempt, provider)


def call(*messages: Any, attempt: int = 7, provider: int = 0, **facts: Any) -> CallModel:
    """Send a request."""
    return CallModel(attempt, Request(provider, (QUESTION, *messages), **facts))


def run(*calls: ToolCall) -> tuple[RunTool, ...]:
    """Run these tools."""
    return tuple(RunTool(7, each) for each in calls)


def timer(delay_s: float, reason: str = "backoff", attempt: int = 8) -> SetTimer:
    """Wait."""
    return SetTimer(attempt, delay_s, reason)


def repairing(trouble: Fault, *said: Any, **facts: Any) -> Repair:
    """Change the request."""
    assert trouble.repair is not None
    return Repair(8, trouble.repair, trouble, Request(0, (QUESTION, *said), **facts), (QUESTION,), said)


def withdrawn(text: str = "It is") -> Say:
    """What was shown is taken back."""
    return Say(Withdrawn(text))


def refilled(*names: str) -> dict[str, tuple[float, float]]:
    """These counters go from one to nothing."""
    return dict.fromkeys(names, (1, 0))


ONE_OF_EACH = {each.name: 1 for each in COUNTERS if not each.measured and each is not counters.grace_calls}
