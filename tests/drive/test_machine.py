"""The asynchronous driver under anything that can happen, at any moment: what must hold, seen from outside.

Hypothesis writes the script of a turn: what the models say, how tools behave, what users and hosts do at which second,
how small the caps are. The turn is driven on virtual time, on asyncio and on trio; then everything that it left
behind is looked at. The seed is said: examples are derandomised (see tests/conftest.py), so a red run is red again.
"""

from __future__ import annotations

import asyncio
import itertools

import anyio
import pytest
from attrs import define, field
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fsm_loop.config import LoopConfig
from fsm_loop.core.faults import Fault, FaultKind
from fsm_loop.core.machine import PAGE
from fsm_loop.core.messages import Finish, ToolStatus, UserMessage
from fsm_loop.core.step import begin_turn, step
from fsm_loop.drive.notes import Finished, ToolFinished, ToolStarted
from fsm_loop.limiter import SlidingWindow
from fsm_loop.loop import Loop
from fsm_loop.ports import CallDelta, Meta, ReasoningDelta, Stopped, TextDelta
from fsm_loop.testing.clock import VirtualClock
from fsm_loop.testing.fakes import Fail, Hang, Pause, Raise, Recorder, ScriptedModel, SeededChance, says
from tests.drive.turns import BACKENDS, assert_paired, screen_of

OUTCOMES = {"completed", "partial", "refused", "exhausted", "interrupted", "failed"}
PATIENCE_S = 20  # of real time, for a turn that hangs
COUNTED = (
    "max_iterations", "api_max_retries", "stream_retries", "continuations", "boosts", "empty_replies", "bad_tool_rounds",
    "sanitizations", "compactions", "recoveries", "rebuilds", "slot_waits", "output_limit_repairs", "stream_switches",
)  # fmt: skip

# ---------------------------------------------------------------- what can happen

words = st.sampled_from(["one ", "two ", "three ", "four ", "  ", "\ud800", "so be it. " * 9])
pauses = st.sampled_from([0.0, 0.5, 4.0, 40.0, 89.0, 91.0, 310.0]).map(Pause)
chatter = st.one_of(
    words.map(TextDelta),
    words.map(ReasoningDelta),
    pauses,
    st.sampled_from([TextDelta(""), ReasoningDelta(""), Meta()]),
)
endings = st.one_of(
    st.sampled_from([*Finish]).map(lambda finish: (Stopped(finish),)),
    st.sampled_from([*FaultKind]).map(lambda kind: (Fail(Fault(kind, "told")),)),
    st.sampled_from([(), (Hang(),), (Raise(ZeroDivisionError("a bug")),), (Stopped(Finish.STOP), Hang())]),
    st.just((Stopped(Finish.STOP), Fail(Fault(FaultKind.DROPPED, "after the end")))),
    st.floats(0, 900).map(lambda wait: (Fail(Fault(FaultKind.RATE_LIMITED, "busy", retry_after_s=wait)),)),
)
texts = st.tuples(st.lists(chatter, max_size=4), endings).map(lambda parts: (*parts[0], *parts[1]))
names = st.sampled_from(["quick", "slow", "stuck", "failing", "cancelling", "no_such_tool"])
arguments = st.sampled_from(['{"n": 1}', '{"n": 2}', "", "{", '{"n": ', '{"n": 1}}', "[]", '{"n": "\ud800"}'])
call = st.tuples(names, arguments, st.sampled_from(["", "same", "a"]))
wishes = st.lists(call, min_size=1, max_size=3).map(
    lambda calls: tuple(CallDelta(slot, id_, name, text) for slot, (name, text, id_) in enumerate(calls))
)
rounds = st.tuples(st.lists(chatter, max_size=2), wishes, endings | st.just((Stopped(Finish.TOOL_CALLS),))).map(
    lambda parts: (*parts[0], *parts[1], *parts[2])
)
good_rounds = st.tuples(wishes, st.just((Stopped(Finish.TOOL_CALLS),))).map(lambda parts: (*parts[0], *parts[1]))
scripts = st.lists(st.one_of(texts, rounds, good_rounds, good_rounds), max_size=8)
moments = st.sampled_from([0.0, 0.1, 0.5, 4.0, 5.0, 20.0, 60.0, 89.9, 90.0, 95.0, 300.0, 301.0, 400.0]) | st.floats(
    0, 600
)
wishes_of_people = st.sampled_from(["interrupt", "steer", "steer now", "steer now", "rebuild", "jump"])
happenings = st.lists(st.tuples(moments, wishes_of_people), max_size=5)
caps = st.fixed_dictionaries(
    {
        **{name: st.integers(0, 2) for name in COUNTED},
        "grace_calls": st.integers(0, 1),
        "max_requests": st.integers(1, 20),
        "tool_workers": st.integers(1, 3),
        "turn_seconds": st.sampled_from([None, None, 50.0, 500.0]),
    }
)
worlds = st.fixed_dictionaries(
    {
        "fallbacks": st.integers(0, 2),
        "limited": st.booleans(),
        "opens_after_s": st.sampled_from([0.0, 0.0, 3.0]),
        "compacts": st.booleans(),
        "seed": st.integers(0, 3),
    }
)


@define
class Tools:
    """Tools that do what tools do: return, take long, never return, fail, cancel themselves; each run is kept."""

    clock: VirtualClock
    begun: list[str] = field(factory=list)
    running: int = 0

    @property
    def functions(self):
        async def quick(n: int = 0) -> str:
            return await self._run("quick", 0.0)

        async def slow(n: int = 0) -> str:
            return await self._run("slow", 45.0)

        async def stuck(n: int = 0) -> str:
            return await self._run("stuck", float("inf"))

        async def failing(n: int = 0) -> str:
            await self._run("failing", 1.0)
            raise KeyError("gone")

        async def cancelling(n: int = 0) -> str:
            await self._run("cancelling", 0.0)
            raise asyncio.CancelledError if self.on_asyncio else SystemExit(3)

        return [quick, slow, stuck, failing, cancelling]

    on_asyncio: bool = True

    async def _run(self, name: str, seconds: float) -> str:
        self.begun.append(name)
        self.running += 1
        try:
            await self.clock.sleep_until(self.clock.now() + seconds)
        finally:
            self.running -= 1
        return f"{name} is done"


class Shortens:
    """A compactor that leaves out the first character of the first message, while there is one."""

    async def compact(self, messages, fault):
        return (UserMessage(messages[0].text[1:]), *messages[1:])


@define
class World:
    """One turn in its world."""

    clock: VirtualClock
    tools: Tools
    models: list[ScriptedModel]
    loop: Loop
    recorder: Recorder
    notes: list = field(factory=list)
    steers: list[str] = field(factory=list)
    at_interrupt: tuple | None = None
    abandoned: int = 0  # wishes that may have come between a request's count and its going out
    turn: object = None

    @property
    def begun(self):
        """How much has begun outside: calls and tools."""
        return sum(len(model.requests) for model in self.models), len(self.tools.begun)

    def happen(self, what: str) -> None:
        """One wish of a person, or of nature."""
        turn = self.turn
        if what == "jump":
            self.clock.jump(7200.0)
            return
        if turn.state == "done":
            turn.interrupt("late")
            return
        self.abandoned += what in {"interrupt", "steer now", "rebuild"}
        if what == "interrupt":
            turn.interrupt("user")
            self.at_interrupt = self.begun
            assert "done" == turn.state
        elif what == "rebuild":
            turn.rebuild("rebuilt \ud800")
        else:
            self.steers.append(f"steer number {len(self.steers)}")
            turn.steer(self.steers[-1], now=what == "steer now")

    async def live(self, meanwhile) -> None:
        """The turn, from beginning to end, and what happens meanwhile."""

        async def happens(at_s, what):
            await self.clock.sleep_until(at_s)
            self.happen(what)

        with anyio.fail_after(PATIENCE_S):
            async with anyio.create_task_group() as group, self.loop.stream("hello \ud800") as self.turn:
                for at_s, what in meanwhile:
                    if at_s == 0:
                        self.happen(what)
                    else:
                        group.start_soon(happens, at_s, what)
                async for note in self.turn:
                    self.notes.append(note)
                group.cancel_scope.cancel()


def world_of(script, limits, world, on_asyncio) -> World:
    """The world that these choices make."""
    clock = VirtualClock()
    tools = Tools(clock, on_asyncio=on_asyncio)
    number = itertools.count()

    def reply(request):
        here = next(number)
        return script[here] if here < len(script) else says(f"the end {here}")

    opens = world["opens_after_s"]
    models = [
        ScriptedModel(reply, name=f"model-{place}", clock=clock, opens_after_s=opens)
        for place in range(world["fallbacks"] + 1)
    ]
    recorder = Recorder()
    loop = Loop(
        model=models[0], fallbacks=models[1:], tools=tools.functions, config=LoopConfig(**limits), clock=clock,
        chance=SeededChance(world["seed"]), watchers=[recorder], limiter=SlidingWindow(3) if world["limited"] else None,
        compactor=Shortens() if world["compacts"] else None,
    )  # fmt: skip
    return World(clock, tools, models, loop, recorder)


def examples(count):
    """So many turns, or as many as the profile asks for; what is slow here is Hypothesis making them up."""
    return settings(
        max_examples=max(count, settings().max_examples),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


@pytest.mark.parametrize("backend", BACKENDS)
@examples(1200)
@given(script=scripts, meanwhile=happenings, limits=caps, world=worlds)
def test_whatever_happens_what_must_hold_holds(backend, script, meanwhile, limits, world):
    """A turn under any script, any wishes at any moment and any caps ends, and leaves everything as it should be."""
    made = world_of(script, limits, world, backend == "asyncio")
    made.clock.run(lambda: made.live(meanwhile), backend)
    result = made.turn.result

    _terminates(made, result)
    _one_grace(made, result)
    _interrupt_wins(made, result)
    _tools_whole(made)
    assert_paired(result)
    _shown_once(made, result)
    _steer_kept(made, result)
    _named_end(made, result)
    _bounded(made)
    _replay(made, result)


def _terminates(made, result):
    assert "done" == made.turn.state
    assert result.llm_calls <= made.loop.config.max_requests + 1
    assert 0 <= result.llm_calls - sum(len(model.requests) for model in made.models) <= made.abandoned
    assert [0] * len(made.models) == [model.open_calls for model in made.models]
    assert 0 == made.tools.running


def _one_grace(made, result):
    entered = sum(after == "grace" != before for before, _, after in result.path)
    last_words = [request for model in made.models for request in model.requests if not request.tools]

    assert entered <= made.loop.config.grace_calls
    assert len(last_words) <= entered
    if result.outcome == "exhausted" and made.loop.config.grace_calls:
        assert 1 == entered
    if entered:
        assert result.outcome in {"exhausted", "interrupted"}


def _interrupt_wins(made, result):
    if made.at_interrupt is not None:
        assert made.at_interrupt == made.begun
        assert ("interrupted", "user") == (result.outcome, result.issuer)
    else:
        assert "interrupted" != result.outcome


def _tools_whole(made):
    started = [note.call.id for note in made.notes if isinstance(note, ToolStarted)]
    finished = [note.call.id for note in made.notes if isinstance(note, ToolFinished)]

    assert len(set(started)) == len(started)
    assert set(finished) <= set(started)
    assert len(set(finished)) == len(finished)
    assert len(started) == len(made.tools.begun)


def _shown_once(made, result):
    kept = [message["content"] for message in result.messages if message["role"] == "assistant" and message["content"]]
    screen = screen_of(made.notes)

    assert isinstance(made.notes[-1], Finished)
    assert 1 == sum(isinstance(note, Finished) for note in made.notes)
    assert _plain(screen) == _plain("".join(text for text in kept if not text.startswith("[No answer")))
    assert _plain(result.text) in _plain(screen)


def _plain(text):
    """The text without what a repair may change in the record and not on the screen; blanks alone are no words."""
    return "".join(text.replace("\ud800", "").replace("\ufffd", "").split())


def _steer_kept(made, result):
    told = [message["content"] for message in result.messages if message["role"] == "user"]
    asked = [
        m.text
        for model in made.models
        for request in model.requests
        for m in request.messages
        if isinstance(m, UserMessage)
    ]

    for steer in made.steers:  # a repair may have made one message of two of the user's
        assert 1 == sum(text.count(steer) for text in told) + result.pending_steer.count(steer)
        assert (steer in result.pending_steer) <= (not any(steer in text for text in asked))


def _named_end(made, result):
    last = (
        result.trail[-1]
        if result.trail[-1].before != "done"
        else next(e for e in reversed(result.trail) if e.before != "done")
    )

    assert result.outcome in OUTCOMES
    assert last.before == result.last_state
    if result.outcome == "completed":
        assert last.row in {"streaming.model_replied", "calling.model_replied"}
        assert last.event.reply.finish in {Finish.STOP, Finish.TOOL_CALLS}
    if result.outcome == "failed":
        assert result.fault is not None
    if result.outcome == "exhausted":
        assert result.exhausted is not None
        assert result.exhausted.value >= result.exhausted.cap


def _bounded(made):
    measured = {counter.name for counter in PAGE.counters if counter.measured}
    moved = [each for decision in made.recorder.decisions for each in decision.moved]

    assert [] == [
        each for each in moved if each.counter not in measured and each.cap is not None and each.after > each.cap
    ]


def _replay(made, result):
    turn = begin_turn(made.loop.config, tuple(model.name for model in made.models))
    for decision in made.recorder.decisions:
        again = step(turn, decision.event)
        turn = again.turn

        assert (decision.name, decision.effects, decision.turn) == (again.name, again.effects, again.turn)
    assert [entry.row for entry in result.trail] == made.recorder.rows


def test_the_turns_of_this_file_go_everywhere():
    """The worlds above reach every state and every outcome: what they check is not an empty street."""
    reached, outcomes, statuses = set(), set(), set()

    @examples(400)
    @given(script=scripts, meanwhile=happenings, limits=caps, world=worlds)
    def look(script, meanwhile, limits, world):
        made = world_of(script, limits, world, on_asyncio=True)
        made.clock.run(lambda: made.live(meanwhile))
        reached.update(after for _, _, after in made.turn.result.path)
        outcomes.add(made.turn.result.outcome)
        statuses.update(note.status for note in made.notes if isinstance(note, ToolFinished))

    look()

    assert {state.name.lower() for state in PAGE.states} - {"ready"} == reached
    assert OUTCOMES == outcomes
    assert {ToolStatus.OK, ToolStatus.ERROR} <= statuses
