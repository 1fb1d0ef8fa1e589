"""The asynchronous driver as a state machine: a turn is led by hand, one happening at a time, on asyncio and on trio.

The event loop runs in a thread of its own; each rule does one thing in it and waits until nothing can go on by itself.
Examples are the same each time (the profile `short` derandomizes).
"""

from __future__ import annotations

from collections import deque
from contextlib import asynccontextmanager

import anyio
import anyio.from_thread
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fsm_loop.config import LoopConfig
from fsm_loop.core.faults import Fault, FaultKind
from fsm_loop.core.messages import Finish, ToolStatus, UserMessage
from fsm_loop.core.step import begin_turn, step
from fsm_loop.drive.aio import Driver, Ports
from fsm_loop.drive.notes import Outbox
from fsm_loop.errors import ModelError
from fsm_loop.ports import CallDelta, Stopped, TextDelta, ToolOutcome, ToolSpec
from fsm_loop.testing.clock import VirtualClock, all_others_blocked
from fsm_loop.testing.fakes import SeededChance
from tests.drive.turns import assert_paired, said_by, screen_of

LIMITS = LoopConfig(
    max_requests=8,
    max_iterations=2,
    api_max_retries=1,
    stream_retries=1,
    continuations=1,
    boosts=1,
    empty_replies=1,
    bad_tool_rounds=1,
    recoveries=1,
    rebuilds=1,
    tool_timeout_s=50.0,
)
END = object()
FAULTS = (FaultKind.OVERLOADED, FaultKind.DROPPED, FaultKind.MALFORMED, FaultKind.REFUSED, FaultKind.BAD_REQUEST)


class Hand:
    """Something that waits until it is given the next thing."""

    def __init__(self):
        self.given = deque()
        self.arrived = anyio.Event()

    def give(self, *things):
        self.given.extend(things)
        self.arrived.set()

    async def take(self):
        while not self.given:
            self.arrived = anyio.Event()
            await self.arrived.wait()
        return self.given.popleft()


class ModelByHand:
    """A model whose every delta is given by hand."""

    def __init__(self, name):
        self.name = name
        self.requests = []
        self.hand = None

    @asynccontextmanager
    async def ask(self, request, tools, config):
        self.requests.append(request)
        self.hand = Hand()
        try:
            yield self.deltas(self.hand)
        finally:
            self.hand = None

    async def deltas(self, hand):
        while (thing := await hand.take()) is not END:
            if isinstance(thing, Fault):
                raise ModelError(thing)
            yield thing


class ToolsByHand:
    """One tool, whose every result is given by hand."""

    def __init__(self):
        self.begun = 0
        self.hands = []

    def specs(self):
        return (ToolSpec("act"),)

    def problem(self, call):
        return "" if call.name == "act" else "there is no such tool"

    def in_thread(self, name):
        return False

    async def run(self, call):
        self.begun += 1
        hand = Hand()
        self.hands.append(hand)
        try:
            return await hand.take()
        finally:
            self.hands.remove(hand)


class TurnByHand(RuleBasedStateMachine):
    """One turn of the driver, and all that can happen to it."""

    backend = "asyncio"

    def __init__(self):
        super().__init__()
        self.models = (ModelByHand("first"), ModelByHand("second"))
        self.tools = ToolsByHand()
        self.clock = VirtualClock()
        self.steers, self.asked_when_interrupted, self.spoken = [], None, 0
        self.entered = anyio.from_thread.start_blocking_portal(self.backend)
        self.portal = self.entered.__enter__()
        self.running = None
        self.portal.call(self.begin)
        self.running = self.portal.start_task_soon(self.driver.run, [UserMessage("hi")])
        self.portal.call(all_others_blocked)

    async def begin(self):
        self.outbox = Outbox()
        ports = Ports(models=self.models, tools=self.tools, clock=self.clock, chance=SeededChance(1))
        self.driver = Driver(ports, LIMITS, "by hand", outbox=self.outbox)

    def does(self, what, *facts, **more):
        """One happening, and whatever follows from it by itself."""

        async def happens():
            what(*facts, **more)
            await all_others_blocked()

        self.portal.call(happens)

    @property
    def hand(self):
        return next((model.hand for model in self.models if model.hand is not None), None)

    @property
    def asked(self):
        return sum(len(model.requests) for model in self.models)

    # ------------------------------------------------------------ what the model does

    @precondition(lambda self: self.hand is not None)
    @rule()
    def it_says_something(self):
        """Each stretch is another one."""
        self.spoken += 1
        self.does(self.hand.give, TextDelta(f"word {self.spoken}. "))

    @precondition(lambda self: self.hand is not None)
    @rule(name=st.sampled_from(["act", "unknown"]), arguments=st.sampled_from(["{}", '{"a": ']))
    def it_begins_a_call(self, name, arguments):
        self.does(self.hand.give, CallDelta(0, "", name, arguments))

    @precondition(lambda self: self.hand is not None)
    @rule(finish=st.sampled_from(Finish))
    def it_ends(self, finish):
        self.does(self.hand.give, Stopped(finish), END)

    @precondition(lambda self: self.hand is not None)
    @rule(calls=st.integers(1, 2))
    def it_asks_for_tools(self, calls):
        """A whole reply at once, so that tools are often run."""
        wishes = [CallDelta(slot, "", "act", "{}") for slot in range(calls)]
        self.does(self.hand.give, *wishes, Stopped(Finish.TOOL_CALLS), END)

    @precondition(lambda self: self.hand is not None)
    @rule()
    def it_ends_without_saying_so(self):
        self.does(self.hand.give, END)

    @precondition(lambda self: self.hand is not None)
    @rule(kind=st.sampled_from(FAULTS))
    def it_fails(self, kind):
        self.does(self.hand.give, Fault(kind))

    # ------------------------------------------------------------ what tools and time do

    @precondition(lambda self: self.tools.hands)
    @rule(status=st.sampled_from([ToolStatus.OK, ToolStatus.ERROR]))
    def a_tool_returns(self, status):
        self.does(self.tools.hands[0].give, ToolOutcome("done", status))

    @rule(seconds=st.sampled_from([1.0, 60.0, 400.0, 4000.0]))
    def time_passes(self, seconds):
        self.does(self.clock.jump, seconds)

    # ------------------------------------------------------------ what people do

    @precondition(lambda self: not self.driver.over)
    @rule(now=st.booleans())
    def somebody_steers(self, now):
        self.steers.append(f"steer number {len(self.steers)}.")
        self.does(self.driver.steer, self.steers[-1], now=now)

    @precondition(lambda self: not self.driver.over)
    @rule()
    def the_host_rebuilds(self):
        self.does(self.driver.rebuild, [UserMessage("hi again")])

    @precondition(lambda self: not self.driver.over)
    @rule(really=st.sampled_from([False, False, True]))
    def somebody_interrupts(self, really):
        """Not each time: most turns are to get somewhere first."""
        if not really:
            return
        self.asked_when_interrupted = (self.asked, self.tools.begun)
        self.does(self.driver.interrupt, "somebody")

    # ------------------------------------------------------------ what must hold

    @invariant()
    def no_counter_is_above_its_cap(self):
        record = self.driver.turn.record
        for counter in self.driver.page.counters:
            cap = record.cap(counter)
            assert cap is None or record.count(counter) <= cap

    @invariant()
    def one_call_at_a_time(self):
        """No two models are asked at once, and a turn that is over asks nobody."""
        assert sum(model.hand is not None for model in self.models) <= (not self.driver.over)
        assert self.asked <= LIMITS.max_requests + 1

    @invariant()
    def an_interrupt_wins(self):
        """Nothing is begun after it, and nothing is left running."""
        if self.asked_when_interrupted is not None:
            assert self.driver.over
            assert self.asked_when_interrupted == (self.asked, self.tools.begun)

    @invariant()
    def an_end_is_whole(self):
        """It has a name, pairs, nothing running, each steer once, its text on the screen, and a journal that replays."""
        if not self.driver.over:
            return
        result = self.running.result(timeout=10)
        assert result.outcome in ("completed", "partial", "refused", "exhausted", "interrupted", "failed")
        assert (result.exhausted is not None) or result.outcome != "exhausted"
        assert [] == self.tools.hands
        assert self.tools.begun <= len(said_by(result, "tool"))
        assert_paired(result)
        for text in self.steers:
            held = any(text in each.text for each in self.driver.turn.record.said if isinstance(each, UserMessage))
            assert held != (text in result.pending_steer)
        spoken = "".join(
            text or "" for text in said_by(result, "assistant") if not (text or "").startswith("[No answer")
        )
        assert "".join(spoken.split()) == "".join(self.screen().split())
        turn = begin_turn(LIMITS, ("first", "second"))
        for entry in result.trail:
            decision = step(turn, entry.event)
            assert entry.row == decision.name
            turn = decision.turn
        assert self.driver.turn == turn

    def screen(self):
        """What a consumer sees who reads all the notes."""
        return screen_of(tuple(self.outbox._notes))  # nobody takes them: the turn is led by hand

    def teardown(self):
        self.does(self.driver.interrupt, "the end of the test")
        self.running.result(timeout=10)
        self.entered.__exit__(None, None, None)


class TurnByHandOnTrio(TurnByHand):
    """The same on the other event loop."""

    backend = "trio"


SHORT = settings(max_examples=200, stateful_step_count=25, derandomize=True, deadline=None)
TestOnAsyncio = TurnByHand.TestCase
TestOnAsyncio.settings = SHORT
TestOnTrio = TurnByHandOnTrio.TestCase
TestOnTrio.settings = SHORT
