"""Any state, record and event: what Hypothesis makes turns of. A record may be one that no turn would come by."""

from __future__ import annotations

from hypothesis import strategies as st

from fsm_loop.config import LoopConfig
from fsm_loop.core import events as e
from fsm_loop.core.counters import COUNTERS
from fsm_loop.core.faults import Fault, FaultKind
from fsm_loop.core.machine import PAGE, State
from fsm_loop.core.messages import (
    AssistantMessage,
    Finish,
    Reply,
    ToolCall,
    ToolMessage,
    ToolStatus,
    Usage,
    UserMessage,
)
from fsm_loop.core.record import Record, Shape, Spent
from fsm_loop.core.step import Turn

MAYBE = st.booleans()
TEXTS = st.sampled_from(["", " \n", "It is", "again and again " * 20, "\ud800"])
SMALL = st.integers(0, 3)
ATTEMPT = 7

calls = st.builds(
    ToolCall,
    st.sampled_from(["c1", "c2", "c3"]),
    st.sampled_from(["add", ""]),
    st.sampled_from(["{}", '{"a": ', "]"]),
    st.sampled_from(["", "there is no such tool"]),
)
usages = st.builds(Usage, SMALL, SMALL, cost=st.sampled_from([0.0, 0.5]))
replies = st.builds(
    Reply,
    TEXTS,
    st.lists(calls, max_size=2).map(tuple),
    TEXTS,
    st.none() | st.sampled_from(Finish),
    usages,
    st.sampled_from([(), ("sealed",)]),
)
faults = st.builds(
    Fault,
    st.sampled_from(FaultKind),
    retry_after_s=st.sampled_from([None, 0.0, 2.5, 601.0]),
    should_retry=st.none() | MAYBE,
)
messages = st.lists(st.builds(UserMessage, TEXTS), max_size=2).map(tuple)
shapes = st.builds(Shape, st.none() | st.just(8192), MAYBE, st.sampled_from([(), ((0, 4096),)]))
CAPS = tuple(each.cap for each in COUNTERS if each.cap and not each.measured)


def _capped(cap: int, **more) -> LoopConfig:
    """Every counter with this cap; a turn has at most one grace call."""
    return LoopConfig(**{**dict.fromkeys(CAPS, cap), "grace_calls": min(cap, 1), **more})


configs = st.sampled_from(
    [
        _capped(0),
        _capped(1),
        _capped(2),
        _capped(2, tokens=2, cost=1.0),
        _capped(2, turn_seconds=10.0),
        _capped(1, max_output_tokens=8192),
    ]
)
COUNTS = st.lists(SMALL, min_size=len(COUNTERS), max_size=len(COUNTERS)).map(
    lambda counts: {each.name: count for each, count in zip(COUNTERS, counts, strict=True) if count}
)


@st.composite
def records(draw) -> Record:
    """A record whose counts are around their caps, with a tool round or without one."""
    made = draw(st.lists(calls, max_size=3).map(tuple))
    results = tuple(
        draw(st.sampled_from([None, ToolMessage(each.id, "3"), ToolMessage(each.id, "no", ToolStatus.ERROR)]))
        for each in made
    )
    return Record(
        config=draw(configs),
        providers=("model",) * draw(st.integers(1, 3)),
        counts=draw(COUNTS),
        prompt=draw(messages),
        said=draw(messages),
        attempt=ATTEMPT,
        lead=draw(TEXTS),
        pieces=draw(st.lists(TEXTS, max_size=2).map(tuple)),
        nudge=draw(TEXTS),
        cut=draw(st.none() | replies),
        asked=AssistantMessage("", made) if made else None,
        calls=made,
        results=results,
        steers=draw(st.lists(TEXTS, max_size=2).map(tuple)),
        shape=draw(shapes),
        fault=draw(st.none() | faults),
        spent=draw(st.none() | st.just(Spent("requests", 9, 9))),
        started_at=draw(st.none() | st.just(0.0)),
    )


def _port(kind: type[e.PortEvent], **facts) -> st.SearchStrategy[e.Event]:
    return st.builds(
        kind,
        attempt=st.just(ATTEMPT),
        at=st.sampled_from([0.0, 5.0, 11.0]),
        chance=st.sampled_from([0.0, 0.5, 0.99]),
        **facts,
    )


FAILURES = (e.ModelFailed, e.StreamDropped, e.StreamStalled, e.SlotRefused, e.ProviderFailed)
PLAIN = (e.SlotGranted, e.StreamStarted, e.CutJudged, e.TimerFired, e.ProviderReady)
EVENTS = {
    **{kind: _port(kind, fault=faults, partial=replies) for kind in FAILURES},
    **{kind: _port(kind) for kind in PLAIN},
    e.ModelReplied: _port(e.ModelReplied, reply=replies),
    e.ToolReturned: _port(e.ToolReturned, call_id=st.sampled_from(["c1", "c2", "c9"]), text=TEXTS, stop=TEXTS),
    e.RequestRepaired: _port(
        e.RequestRepaired,
        changed=MAYBE,
        prompt=st.none() | messages,
        said=st.none() | messages,
        limit=st.none() | st.just(1000),
        parameter=st.sampled_from(["", "seed"]),
    ),
    e.TurnStarted: st.builds(e.TurnStarted, messages=messages, at=st.just(1.0)),
    e.InterruptAsked: st.builds(e.InterruptAsked, partial=replies, unstoppable=st.sampled_from([[], ["c1"]])),
    e.SteerGiven: st.builds(e.SteerGiven, text=TEXTS, now=MAYBE, partial=replies),
    e.RebuildAsked: st.builds(e.RebuildAsked, messages=messages, partial=replies),
}
port_events = st.one_of(*(strategy for kind, strategy in EVENTS.items() if issubclass(kind, e.PortEvent)))
turns = st.builds(Turn, st.sampled_from(State), records())


@st.composite
def moments(draw) -> tuple[Turn, e.Event]:
    """A turn and an event: mostly one that its state awaits, each state and event as often as every other."""
    awaited = draw(st.integers(0, 9)) < 9
    state, kind = (
        draw(st.sampled_from(list(PAGE.groups())))
        if awaited
        else (draw(st.sampled_from(State)), draw(st.sampled_from(list(EVENTS))))
    )
    return Turn(state, draw(records())), draw(EVENTS[kind])
