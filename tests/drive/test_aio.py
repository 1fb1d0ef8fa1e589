"""The asynchronous driver: one turn from its first event to its result, on virtual time."""

from __future__ import annotations

import itertools
from contextlib import aclosing, asynccontextmanager, suppress

import anyio
import pytest

from fsm_loop.config import LoopConfig
from fsm_loop.core.events import TurnStarted
from fsm_loop.core.faults import Fault, FaultKind
from fsm_loop.core.messages import Finish, Usage, UserMessage
from fsm_loop.drive.aio import Driver, Ports
from fsm_loop.drive.edge import typed
from fsm_loop.drive.notes import BACKLOG, Finished
from fsm_loop.errors import ModelError, UnexpectedEvent
from fsm_loop.limiter import SlidingWindow
from fsm_loop.loop import Loop
from fsm_loop.ports import CallDelta, Meta, ReasoningDelta, Stopped, TextDelta
from fsm_loop.testing.clock import VirtualClock
from fsm_loop.testing.fakes import Fail, Hang, Pause, Raise, Recorder, ScriptedModel, SeededChance, calls, fails, says
from fsm_loop.tools.functions import FunctionTools
from tests.drive.turns import drive, follow, on_each_backend, said_by, screen_of

DROP = Fail(Fault(FaultKind.DROPPED, "reset"))


async def look() -> str:
    """Look."""
    return "seen"


def dripping(delta, every_s):
    """The same delta for ever, every so many seconds."""
    return itertools.chain.from_iterable(itertools.repeat((delta, Pause(every_s))))


def row_at(driven, part):
    """When the first row with this in its name fired, and which state it led to."""
    entry = next(each for each in driven.result.trail if part in each.row)
    return entry.at, entry.after


# ---------------------------------------------------------------- the watchdog

NOISE = [TextDelta(""), ReasoningDelta(""), CallDelta(0), Meta(), Meta(usage=Usage(1, 1))]


@on_each_backend
@pytest.mark.parametrize("stale_after_s", [5.0, 90.0, 200.0])
def test_the_watchdog_fires_on_silence(backend, stale_after_s):
    """A stream has stalled exactly `stale_after_s` after its last progress, whether or not a chunk ever comes again."""
    script = [(ReasoningDelta("hm"), Pause(3.0), ReasoningDelta("so"), Hang()), says("ok")]
    driven = drive(script, backend=backend, stale_after_s=stale_after_s)

    assert (3.0 + stale_after_s, "backoff") == row_at(driven, "stream_stalled")


@on_each_backend
@pytest.mark.parametrize("noise", NOISE)
def test_what_says_nothing_does_not_feed_the_watchdog(backend, noise):
    """Keep-alives, empty deltas and usage are no progress."""
    script = iter([itertools.chain((ReasoningDelta("hm"),), dripping(noise, 7.0)), says("ok")])
    driven = drive(lambda _: next(script), backend=backend)

    assert (90.0, "backoff") == row_at(driven, "stream_stalled")


@on_each_backend
@pytest.mark.parametrize("progress", [TextDelta("x"), ReasoningDelta("x"), CallDelta(0, arguments=" ")])
def test_what_says_something_feeds_the_watchdog(backend, progress):
    """Text, reasoning and pieces of calls are progress: a stream that says something every 80 s is healthy."""
    steps = [step for _ in range(10) for step in (progress, Pause(80.0))]
    driven = drive([[*steps, *says("ok")]], backend=backend)

    assert not any("stream_stalled" in row for _, row, _ in driven.result.path)


@on_each_backend
def test_a_first_token_may_take_long(backend):
    """A long prefill is healthy; one of more than `first_token_timeout_s` is not."""
    driven = drive([(Pause(299.0), *says("ok"))], backend=backend)
    late = drive([(Pause(301.0), *says("never")), says("ok")], backend=backend)

    assert ("completed", 299.0) == (driven.result.outcome, driven.clock.now())
    assert (300.0, "backoff") == row_at(late, "stream_stalled")
    assert "ok" == late.result.text


@on_each_backend
def test_a_slow_connection_is_a_slow_first_token(backend):
    """A connection that does not stand in time is given up as a call that says nothing."""
    driven = drive(
        ScriptedModel([says("never")], opens_after_s=1000.0), backend=backend, api_max_retries=0, recoveries=0
    )

    assert ("failed", FaultKind.STALLED, 300.0) == (driven.result.outcome, driven.result.fault.kind, driven.clock.now())


@on_each_backend
@pytest.mark.parametrize("drip", [TextDelta("word "), ReasoningDelta("hm ")])
def test_a_slow_drip_ends_at_the_deadline(backend, drip):
    """A call that always makes a little progress ends after `call_deadline_s`, with the fault by that name."""
    script = iter([dripping(drip, 60.0)])
    driven = drive(
        lambda _: next(script), backend=backend, call_deadline_s=600, api_max_retries=0, recoveries=0, continuations=0
    )
    at, _ = row_at(driven, "stream_stalled")
    stalled = next(each.event for each in driven.result.trail if "stream_stalled" in each.row)

    assert (600.0, FaultKind.TIMEOUT) == (at, stalled.fault.kind)


@on_each_backend
def test_a_call_that_does_not_stream_has_a_read_timeout(backend):
    """Once streaming is off, silence of `read_timeout_s` is a failed call; there is no first token to wait for."""
    script = [fails(FaultKind.STREAMING_UNSUPPORTED), (Pause(61.0), *says("never")), (Pause(59.0), *says("ok"))]
    driven = drive(script, backend=backend)
    failed = [each for each in driven.result.trail if "model_failed" in each.row]

    assert [True, False, False] == [request.stream for request in driven.requests]
    assert [0.0, 60.0] == [each.at for each in failed]
    assert (FaultKind.STALLED, "ok") == (failed[1].event.fault.kind, driven.result.text)


@on_each_backend
def test_a_turn_with_seconds_of_its_own_bounds_its_calls(backend):
    """What is left of `turn_seconds` is the deadline of a call; the last word has read_timeout_s more."""
    driven = drive(lambda request: (Hang(),), backend=backend, turn_seconds=50.0, read_timeout_s=20.0)

    assert ("exhausted", "turn_seconds") == (driven.result.outcome, driven.result.exhausted.counter)
    assert [50.0, 20.0] == [request.time_left_s for request in driven.requests]
    assert 70.0 == driven.clock.now()


@on_each_backend
def test_a_turn_whose_seconds_are_spent_still_has_its_last_word(backend):
    """A call that outlasts the turn's seconds is ended, and the last word is heard."""
    driven = drive([(Hang(),), says("So far so good.")], backend=backend, turn_seconds=50.0)

    assert ("exhausted", "So far so good.") == (driven.result.outcome, driven.result.text)


@on_each_backend
@pytest.mark.parametrize("silence", ["in a stream", "before a stream", "in a backoff", "in a tool"])
def test_a_machine_that_slept_fires_each_timer_once(backend, silence):
    """A clock that jumps by hours makes one event of whatever is overdue, and the turn goes on."""
    clock = VirtualClock()

    async def rests() -> str:
        """Rest."""
        await clock.sleep(200)
        return "rested"

    script = {
        "in a stream": [(ReasoningDelta("hm"), Hang()), says("ok")],
        "before a stream": [(Hang(),), says("ok")],
        "in a backoff": [fails(FaultKind.RATE_LIMITED, retry_after_s=100.0), says("ok")],
        "in a tool": [calls(("rests", {})), says("ok")],
    }[silence]
    driven = drive(
        script, tools=[rests], clock=clock, backend=backend, meanwhile=[(10.0, lambda turn: clock.jump(30_000.0))]
    )

    assert ("completed", "ok", 2) == (driven.result.outcome, driven.result.text, driven.calls)
    assert 1 >= sum("stalled" in row for _, row, _ in driven.result.path)
    assert 1 >= sum(row == "backoff.timer_fired" for _, row, _ in driven.result.path)
    assert 30_100.0 >= driven.clock.now()


# ---------------------------------------------------------------- after terminal evidence

AFTER = {
    "a hang": (Hang(),),
    "a drop": (DROP,),
    "an error": (Fail(Fault(FaultKind.SERVER_ERROR, "oops")),),
    "a bug": (Raise(ZeroDivisionError("a bug")),),
    "usage": (Pause(1.0), Meta(usage=Usage(3, 4))),
    "nothing": (),
}


@on_each_backend
@pytest.mark.parametrize("name", AFTER)
def test_what_comes_after_terminal_evidence_changes_nothing(backend, name):
    """A drop, an error or a hang after the end of the reply leaves the reply as it ended; a hang costs at most 10 s."""
    driven = drive([(*says("four"), *AFTER[name])], backend=backend)

    assert ("completed", "four", 1) == (driven.result.outcome, driven.result.text, driven.calls)
    assert driven.clock.now() == {"a hang": 10.0, "usage": 1.0}.get(name, 0.0)
    assert 0 == driven.models[0].open_calls


@on_each_backend
@pytest.mark.parametrize("began_at", [0.0, 3.0, 12.0, 77.0])
def test_the_linger_is_exact(backend, began_at):
    """A connection that stays open after the end is closed `linger_s` after it, whenever that was."""
    driven = drive([(Pause(began_at), *says("four"), Hang())], backend=backend)

    assert began_at + 10.0 == driven.clock.now()


def test_usage_after_the_end_is_counted():
    """Usage that comes in the last chunk, after the finish reason, is the turn's."""
    driven = drive([(*says("four"), Meta(usage=Usage(30, 4)))])

    assert Usage(30, 4) == driven.result.usage


@on_each_backend
def test_calls_are_run_though_the_connection_hangs_after_them(backend):
    """A complete set of calls with terminal evidence is run, whatever the connection does after it."""
    driven = drive([(*calls(("look", {}), finish=Finish.STOP), DROP), says("ok")], tools=[look], backend=backend)

    assert ["seen"] == said_by(driven.result, "tool")


# ---------------------------------------------------------------- a consumer that is behind


@on_each_backend
def test_a_slow_consumer_is_no_stall(backend):
    """Who reads slowly holds the stream up, and that is not the model's silence; nothing is lost."""
    clock = VirtualClock()
    count = 3000
    model = ScriptedModel([says(*(f"{number} " for number in range(count)))], clock=clock)
    loop = Loop(model=model, clock=clock, config=LoopConfig(stale_after_s=5.0))

    async def main():
        texts, longest = [], 0
        async with loop.stream("hi") as turn:
            async for note in turn:
                longest = max(longest, len(turn._outbox._notes))
                if isinstance(note, TextDelta):
                    texts.append(note.text)
                    if len(texts) % 100 == 0:
                        await clock.sleep(60)
        return texts, longest, turn.result

    texts, longest, result = clock.run(main, backend)

    assert [f"{number} " for number in range(count)] == texts
    assert ("completed", 1) == (result.outcome, result.llm_calls)
    assert longest <= 1100


@on_each_backend
@pytest.mark.parametrize("behind_s", [300.0, 301.0, 302.0, 303.0, 304.0])
def test_a_model_that_was_held_up_has_all_its_patience_again(backend, behind_s):
    """When a consumer has caught up, the silence of the model begins to count from then."""
    clock = VirtualClock()
    at_once = [TextDelta("x")] * (BACKLOG - 20)
    drip = [step for _ in range(60) for step in (TextDelta("x"), Pause(4.0))]
    model = ScriptedModel([(*at_once, *drip, *says("ok"))], clock=clock)
    loop = Loop(model=model, clock=clock, config=LoopConfig(stale_after_s=5.0))

    async def main():
        async with loop.stream("hi") as turn:
            await clock.sleep(behind_s)  # the backlog is full long before
            async for _ in turn:
                pass
        return turn.result

    result = clock.run(main, backend)

    assert ("completed", 1) == (result.outcome, result.llm_calls)
    assert 400 < clock.now()


@on_each_backend
def test_a_consumer_that_never_reads_holds_no_turn_for_ever(backend):
    """A consumer that takes nothing holds the turn up until the call's deadline, not longer; then the turn ends."""
    clock = VirtualClock()
    model = ScriptedModel(lambda _: says(*["x "] * 5000), clock=clock)
    loop = Loop(model=model, clock=clock, config=LoopConfig(continuations=1))

    async def main():
        async with loop.stream("hi") as turn:
            while turn.state != "done":
                await clock.sleep(100)
        return turn.result

    result = clock.run(main, backend)

    assert "partial" == result.outcome
    assert clock.now() <= 2 * 1800 + 100


def test_without_a_consumer_nothing_is_held_up():
    """`run` has no consumer to wait for."""
    clock = VirtualClock()
    loop = Loop(model=ScriptedModel([says(*["x"] * 5000)], clock=clock), clock=clock)

    assert 5000 == len(clock.run(lambda: loop.run("hi")).text)


# ---------------------------------------------------------------- ports that raise, or never answer


class Raises:
    """A port of any kind that raises."""

    def __init__(self, error=None) -> None:
        self.error = error or ZeroDivisionError("a bug")

    def saw(self, turn_id, seq, decision):
        raise self.error

    async def reserve(self, provider, at):
        raise self.error

    async def compact(self, messages, fault):
        raise self.error


class Never:
    """A port of any kind that never answers."""

    async def reserve(self, provider, at):
        await anyio.sleep_forever()

    async def compact(self, messages, fault):
        await anyio.sleep_forever()


def test_a_watcher_that_raises_is_left_out():
    """It changes nothing of the turn, is asked no more, and stands in the result's faults; the others see everything."""
    recorder = Recorder()
    driven = drive([says("four")], ports={"watchers": [Raises(), recorder]})

    assert ("completed", ("Raises: ZeroDivisionError: a bug",)) == (driven.result.outcome, driven.result.trail_faults)
    assert recorder.rows == driven.recorder.rows == [entry.row for entry in driven.result.trail]


@on_each_backend
def test_a_limiter_that_raises_sends_nothing(backend):
    """Who cannot be asked for leave has given none: the turn falls back, or ends, and says why."""
    driven = drive([says("never")], ports={"limiter": Raises()}, backend=backend)

    assert ("failed", FaultKind.NO_SLOT, 0) == (driven.result.outcome, driven.result.fault.kind, driven.calls)
    assert "ZeroDivisionError: a bug" == driven.result.fault.message


@on_each_backend
def test_a_limiter_that_never_answers_is_given_up(backend):
    """No port holds a turn for ever: a limiter is asked twice, each time for `read_timeout_s`."""
    driven = drive([says("never")], ports={"limiter": Never()}, backend=backend)

    assert ("failed", FaultKind.NO_SLOT, 120.0) == (driven.result.outcome, driven.result.fault.kind, driven.clock.now())


@on_each_backend
@pytest.mark.parametrize(
    ("compactor", "at"), [(Raises(), 0.0), (Raises(ModelError(Fault(FaultKind.TIMEOUT))), 0.0), (Never(), 1800.0)]
)
def test_a_compactor_that_fails_has_changed_nothing(backend, compactor, at):
    """One that raises or never ends has failed, and the fault that asked for it stands."""
    driven = drive([fails(FaultKind.CONTEXT_TOO_LONG)], ports={"compactor": compactor}, backend=backend)

    assert ("failed", FaultKind.CONTEXT_TOO_LONG, at) == (
        driven.result.outcome, driven.result.fault.kind, driven.clock.now(),
    )  # fmt: skip


class Fallback(ScriptedModel):
    """A fallback that must be made ready, and how."""

    how = None

    async def ready(self):
        await self.how()


async def is_ready():
    """Ready."""


async def raises_a_fault():
    """Fail as an adapter does."""
    raise ModelError(Fault(FaultKind.CONNECT_FAILED, "no route"))


async def raises_a_bug():
    """Fail as nobody meant to."""
    raise ZeroDivisionError("a bug")


@on_each_backend
@pytest.mark.parametrize(
    ("how", "outcome", "kind"),
    [
        (is_ready, "completed", None),
        (raises_a_fault, "failed", FaultKind.CONNECT_FAILED),
        (raises_a_bug, "failed", FaultKind.NOT_READY),
        (anyio.sleep_forever, "failed", FaultKind.NOT_READY),
    ],
)
def test_a_fallback_is_made_ready_or_passed_over(backend, how, outcome, kind):
    """A provider that cannot be made ready, or not in time, is not asked; the fault says so."""
    fallback = Fallback([says("ok")])
    fallback.how = how
    driven = drive([fails(FaultKind.QUOTA_SPENT)], fallbacks=[fallback], backend=backend, recoveries=0)

    assert (outcome, kind) == (driven.result.outcome, driven.result.fault and driven.result.fault.kind)
    assert (kind is None) == bool(fallback.requests)


class Refreshes(ScriptedModel):
    """A model with a credential."""

    how = None

    async def refresh(self):
        return await self.how()


async def yes():
    """Take another credential."""
    return True


async def no():
    """There is no other credential."""
    return False


@on_each_backend
@pytest.mark.parametrize(("how", "asked"), [(yes, 2), (no, 1), (raises_a_bug, 1), (anyio.sleep_forever, 1)])
def test_a_credential_is_refreshed_or_not(backend, how, asked):
    """A fresh credential is tried once more; none, or one that cannot be had, ends the turn with the fault."""
    model = Refreshes([fails(FaultKind.CREDENTIAL_EXPIRED), says("ok")])
    model.how = how
    driven = drive(model, backend=backend)

    assert asked == len(model.requests)
    assert ("completed" if asked == 2 else "failed") == driven.result.outcome


class Adapter:
    """A model whose connection does as it is told when it is made, and when it is closed."""

    name = "adapter"

    def __init__(self, steps, on_open=None, on_close=None, forgives=False) -> None:
        self.script = iter(steps)
        self.on_open, self.on_close, self.forgives = on_open, on_close, forgives

    @asynccontextmanager
    async def ask(self, request, tools, config):
        if self.on_open:
            raise self.on_open
        try:
            async with aclosing(self._play(next(self.script))) as deltas:
                yield deltas
        finally:
            if self.on_close:
                raise self.on_close

    async def _play(self, steps):
        for step in steps:
            if isinstance(step, Hang):
                await anyio.sleep_forever()
            yield step


def turn_of(model, backend="asyncio", meanwhile=(), **settings):
    """The result of a turn of any model, and what it was told."""
    clock = VirtualClock()
    loop = Loop(model=model, clock=clock, chance=SeededChance(), config=LoopConfig(**settings))
    notes, result = clock.run(lambda: follow(loop, "hi", clock, meanwhile), backend)
    return result, notes


@on_each_backend
@pytest.mark.parametrize(
    ("error", "kind"),
    [(ModelError(Fault(FaultKind.ACCESS_DENIED, "no")), FaultKind.ACCESS_DENIED), (OSError("bug"), FaultKind.INTERNAL)],
)
def test_an_adapter_that_raises_when_it_opens_has_failed(backend, error, kind):
    """A model's fault is its own; anything else that an adapter raises is a fault of this side."""
    result, _ = turn_of(Adapter([], on_open=error), backend)

    assert ("failed", kind) == (result.outcome, result.fault.kind)


@on_each_backend
@pytest.mark.parametrize("error", [OSError("closed already"), ModelError(Fault(FaultKind.ACCESS_DENIED, "closed"))])
def test_an_adapter_that_raises_when_it_is_closed_has_stalled_all_the_same(backend, error):
    """What the watchdog ended is called stalled, though its connection cannot even be closed in peace."""
    model = Adapter([(ReasoningDelta("hm"), Hang())] * 9, on_close=error)
    result, _ = turn_of(model, backend, api_max_retries=0, recoveries=0)

    assert ("failed", FaultKind.STALLED) == (result.outcome, result.fault.kind)


@on_each_backend
def test_an_adapter_that_raises_when_it_is_let_go_changes_nothing(backend):
    """An abandoned call may fail as it likes: the turn goes on with the next one, or is over."""
    model = Adapter([(TextDelta("old"), Hang()), says("new")], on_close=OSError("closed already"))
    meanwhile = [(1.0, lambda turn: turn.steer("other", now=True))]
    result, _ = turn_of(model, backend, meanwhile)
    stopped, _ = turn_of(
        Adapter([(TextDelta("old"), Hang())], on_close=OSError("closed")),
        backend,
        [(1.0, lambda turn: turn.interrupt())],
    )

    assert ("completed", "new") == (result.outcome, result.text)
    assert ("interrupted", "old") == (stopped.outcome, stopped.text)


@on_each_backend
def test_a_reply_is_whole_though_closing_its_connection_fails(backend):
    """Terminal evidence is in: what goes wrong while the connection is closed changes nothing."""
    result, _ = turn_of(Adapter([says("four")], on_close=OSError("closed")), backend)

    assert ("completed", "four") == (result.outcome, result.text)


# ---------------------------------------------------------------- words, slots, waits


@on_each_backend
@pytest.mark.parametrize(
    ("at", "state"), [(1.0, "calling"), (4.0, "streaming"), (8.0, "tool_exec"), (13.0, "backoff"), (25.0, "recovering")]
)
def test_a_steer_now_is_heard_in_every_state(backend, at, state):
    """A steer that is not to wait abandons a call in flight; anything else goes on, and the next request has it."""
    clock, seen = VirtualClock(), []

    async def rests() -> str:
        """Rest."""
        await clock.sleep(5)
        return "rested"

    def steer(turn):
        seen.append(turn.state)
        turn.steer("mind", now=True)

    down = fails(FaultKind.OVERLOADED)
    script = [
        (Pause(3.0), ReasoningDelta("hm"), Pause(3.0), *calls(("rests", {}))),
        down,
        down,
        (TextDelta("ok"), *says("")),
        says("ok"),
    ]
    model = ScriptedModel(script, clock=clock)
    driven = drive(
        model, tools=[rests], clock=clock, backend=backend, api_max_retries=1, meanwhile=[(at, steer)], jitter=0.0
    )

    assert [state] == seen
    assert 1 == said_by(driven.result, "user").count("mind")
    first = next(number for number, request in enumerate(model.requests) if UserMessage("mind") in request.messages)
    assert {"calling": 1, "streaming": 1, "tool_exec": 1, "backoff": 2, "recovering": 3}[state] == first


@on_each_backend
def test_a_steer_that_can_wait_is_in_the_next_request(backend):
    """A steer leaves the call in flight alone; when its answer is in, the model is asked again with it."""
    driven = drive(
        [(TextDelta("fo"), Pause(5.0), *says("ur")), says("five")],
        backend=backend,
        meanwhile=[(1.0, lambda t: t.steer("one more"))],
    )

    assert ["four", "five"] == said_by(driven.result, "assistant")
    assert ["hi", "one more"] == said_by(driven.result, "user")
    assert ("completed", "five") == (driven.result.outcome, driven.result.text)


@on_each_backend
def test_a_rebuild_asks_again_with_new_messages(backend):
    """New messages stand before the turn's own words, and the call in flight is made again with them; its text is withdrawn."""
    driven = drive(
        [(TextDelta("old"), Hang()), says("new")], backend=backend, meanwhile=[(1.0, lambda t: t.rebuild("afresh"))]
    )

    assert ["afresh"] == [message.text for message in driven.requests[1].messages]
    assert ("completed", "new", "new") == (driven.result.outcome, driven.result.text, driven.screen)
    assert (1, 0) == (driven.result.counters["rebuilds"], driven.result.counters["api_retries"])


@on_each_backend
def test_a_slot_is_waited_for_and_no_attempt_is_counted(backend):
    """A limiter that says wait is waited for, with its margin; the request that was not sent is no attempt."""
    clock = VirtualClock()
    model = ScriptedModel(lambda _: says("ok"), clock=clock)
    loop = Loop(model=model, clock=clock, limiter=SlidingWindow(1, margin_s=0.5))

    async def main():
        return [await loop.run("hi") for _ in range(3)]

    results = clock.run(main, backend)

    assert [0.0, 60.5, 60.5] == [result.waited_s for result in results]
    assert [(1, 0)] * 3 == [(result.llm_calls, result.counters["api_retries"]) for result in results]


def test_waits_are_added_up():
    """`waited_s` is the time that the turn spent in backoff and recovery."""
    driven = drive([fails(FaultKind.OVERLOADED), (Pause(7.0), *says("ok"))], jitter=0.0)

    assert (5.0, 12.0) == (driven.result.waited_s, driven.clock.now())


# ---------------------------------------------------------------- the driver by itself


def driver(script=()):
    """A driver that has not begun, of a scripted model."""
    clock = VirtualClock()
    ports = Ports(
        models=(ScriptedModel(script, clock=clock),), tools=FunctionTools(()), clock=clock, chance=SeededChance()
    )
    return Driver(ports, LoopConfig(), "turn-1"), clock


def test_a_driver_begins_once():
    """The messages of a turn are given once; later ones change nothing."""
    one, clock = driver([says("ok")])
    one.begin(typed("first"))
    result = clock.run(lambda: one.run(typed("second")))

    assert ["first"] == said_by(result, "user")


def test_a_driver_that_is_over_runs_nothing():
    """A turn that was interrupted before it ran has its result at once."""
    one, clock = driver([says("never")])
    one.interrupt("user")
    result = clock.run(lambda: one.run(typed("hi")))

    assert ("interrupted", 0, "ready") == (result.outcome, result.llm_calls, result.last_state)


def test_a_result_before_the_end_is_refused():
    """There is no result while the turn runs."""
    one, _ = driver()

    with pytest.raises(RuntimeError, match="has not ended"):
        one.result()


def test_what_the_page_does_not_list_is_the_drivers_fault():
    """An event that the state does not await raises, and names both."""
    one, _ = driver()
    one.begin(typed("hi"))

    with pytest.raises(UnexpectedEvent, match=r"turn_started.*calling"):
        one.feed(TurnStarted, messages=())


class BreaksOnce(SeededChance):
    """Luck that fails at one draw."""

    def __init__(self, at):
        super().__init__()
        self.at, self.draws, self.lucky = at, 0, self.draw
        self.draw = self.or_break

    def or_break(self):
        self.draws += 1
        if self.draws == self.at:
            raise ZeroDivisionError("a bug")
        return self.lucky()


@on_each_backend
@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("at", [2, 4, 5])
def test_a_fault_of_this_package_raises_and_is_recorded(backend, streamed, at):
    """When the driver itself fails, the turn ends as interrupted by the driver, and what failed comes out as itself."""
    recorder, clock = Recorder(), VirtualClock()
    model = ScriptedModel([calls(("look", {})), says("never")], clock=clock)
    loop = Loop(model=model, clock=clock, chance=BreaksOnce(at), watchers=[recorder], tools=[look])

    async def main():
        if not streamed:
            await loop.run("hi")
        async with loop.stream("hi") as turn:
            async for _ in turn:
                pass

    with pytest.raises(ZeroDivisionError, match="a bug"):
        clock.run(main, backend)

    last = recorder.decisions[-1]
    assert ("driver", "ZeroDivisionError('a bug')") == (last.event.issuer, last.event.reason)
    assert ("done", "interrupted") == (last.turn.state.name.lower(), last.turn.record.end.outcome)
    assert 0 == model.open_calls


def test_a_fault_of_this_package_inside_of_a_call_is_internal():
    """What fails while a stream is read cannot be told from the adapter's: it is a fault of this side, by name."""
    driven = drive([says("never")], ports={"chance": BreaksOnce(3)})

    assert ("failed", FaultKind.INTERNAL) == (driven.result.outcome, driven.result.fault.kind)


@on_each_backend
@pytest.mark.parametrize("streamed", [True, False])
def test_a_turn_that_cannot_begin_raises(backend, streamed):
    """What fails before anything was decided comes out as itself."""
    clock = VirtualClock()
    loop = Loop(model=ScriptedModel([says("never")]), clock=clock, chance=BreaksOnce(1))

    async def main():
        if not streamed:
            await loop.run("hi")
        async with loop.stream("hi") as turn:
            pytest.fail(f"{turn} began")

    with pytest.raises(ZeroDivisionError):
        clock.run(main, backend)


@on_each_backend
def test_nothing_is_shown_after_a_watcher_has_ended_the_turn(backend):
    """A watcher that interrupts at the first sign of life keeps even the first text from being shown."""
    turns = []

    class Stops:
        def saw(self, turn_id, seq, decision):
            if decision.turn.state.name == "STREAMING":
                turns[0].interrupt("watcher")

    clock = VirtualClock()
    loop = Loop(model=ScriptedModel([says("text")], clock=clock), clock=clock, watchers=[Stops()])

    async def main():
        async with loop.stream("hi") as turn:
            turns.append(turn)
            notes = [note async for note in turn]
        return notes, turn.result

    notes, result = clock.run(main, backend)

    assert ("interrupted", "watcher") == (result.outcome, result.issuer)
    assert "" == screen_of(notes)
    assert isinstance(notes[-1], Finished)


class Stubborn(Adapter):
    """A model that takes no notice of being let go until it has said its words."""

    async def _play(self, steps):
        for step in steps:
            if isinstance(step, Hang):
                with suppress(anyio.get_cancelled_exc_class()):
                    await anyio.sleep_forever()
            else:
                yield step


@on_each_backend
def test_what_an_abandoned_call_still_says_is_not_heard(backend):
    """An adapter that speaks on after it was let go is not read any further."""
    model = Stubborn([(TextDelta("old "), Hang(), TextDelta("late "), Stopped(Finish.STOP)), says("new")])
    result, notes = turn_of(model, backend, [(1.0, lambda turn: turn.steer("other", now=True))])

    assert ("completed", "new", "old new") == (result.outcome, result.text, screen_of(notes))


def test_the_trail_tells_the_turn():
    """Each decision is an entry: number, time, states, row, what the guards said, what moved, what is to be done."""
    driven = drive([(Pause(2.0), *says("ok"))])
    first, last = driven.result.trail[0], driven.result.trail[-1]

    assert [*range(len(driven.result.trail))] == [entry.seq for entry in driven.result.trail]
    assert ("ready", "ready.turn_started", "calling", ("ReserveSlot",)) == (
        first.before,
        first.row,
        first.after,
        first.effects,
    )
    assert (2.0, "done", ("Finish",)) == (last.at, last.after, last.effects)
    assert ("was_refused", False) in last.answers
    sent = next(entry for entry in driven.result.trail if "CallModel" in entry.effects)
    assert [("requests", 0, 1, 160)] == [(m.counter, m.before, m.after, m.cap) for m in sent.moved]


def test_stopped_is_what_ends_a_reply():
    """Every finish of a reply comes to its own end."""
    outcomes = {
        finish: drive(lambda _, f=finish: (TextDelta("x"), Stopped(f)), max_iterations=1).result.outcome
        for finish in Finish
    }

    assert {
        Finish.STOP: "completed", Finish.LENGTH: "partial", Finish.TOOL_CALLS: "failed", Finish.REFUSED: "refused",
        Finish.PAUSED: "exhausted", Finish.WINDOW_FULL: "partial",
    } == outcomes  # fmt: skip


@on_each_backend
def test_a_model_that_never_waits_lets_others_speak(backend):
    """A turn in which nothing ever waits still hears an interrupt, before its next call."""
    model = ScriptedModel(lambda _: calls(("look", {})))
    loop = Loop(model=model, tools=[look], config=LoopConfig(max_iterations=100_000, max_requests=500))

    async def main():
        async with loop.stream("hi") as turn:
            for _ in range(10):
                await anyio.lowlevel.checkpoint()
            turn.interrupt()
        return turn.result

    result = anyio.run(main, backend=backend)

    assert ("interrupted", True) == (result.outcome, result.llm_calls < 50)
