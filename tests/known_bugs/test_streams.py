"""Faults of other loops that came of reading a stream carelessly, by the row of the list in which they stand."""

from __future__ import annotations

import contextlib
import itertools
import json
from contextlib import asynccontextmanager

import anyio
import pytest

from fsm_loop.config import LoopConfig
from fsm_loop.core.events import ModelReplied, SlotGranted, StreamStarted
from fsm_loop.core.faults import Fault, FaultKind
from fsm_loop.core.messages import Finish, Reply
from fsm_loop.drive.aio import Driver, Ports
from fsm_loop.drive.edge import typed
from fsm_loop.drive.notes import Reconnecting
from fsm_loop.loop import Loop
from fsm_loop.ports import CallDelta, Meta, ReasoningDelta, Stopped, TextDelta
from fsm_loop.testing.clock import VirtualClock
from fsm_loop.testing.fakes import Fail, Hang, Pause, ScriptedModel, SeededChance, calls, fails, says, thinks
from fsm_loop.tools.functions import FunctionTools
from tests.drive.turns import assert_paired, drive, follow, on_each_backend, said_by

DROP = Fail(Fault(FaultKind.DROPPED, "reset"))
ARGUMENTS = '{"where": {"x": [1, -2.5e3, true, null]}, "what": "say \\"hi\\" \\u00e9\\n"}'


class Acts:
    """A tool that remembers with what it was run."""

    def __init__(self) -> None:
        self.ran = []

    @property
    def tools(self):
        async def act(where: dict | None = None, what: str = "") -> str:
            """Act."""
            self.ran.append((where, what))
            return "acted"

        return [act]


# ---------------------------------------------------------------- reasoning


def test_row_08_reasoning_that_eats_the_output_limit_is_asked_for_again_once_and_changed():
    """A reply that is all reasoning and is cut is followed by one request with less of it; a second one ends the turn."""
    driven = drive(lambda _: thinks("hm", finish=Finish.LENGTH), max_output_tokens=1000)

    assert [False, True] == [request.less_reasoning for request in driven.requests]
    assert [1000, 2000] == [request.output_limit for request in driven.requests]
    assert ("failed", FaultKind.CUT, "") == (driven.result.outcome, driven.result.fault.kind, driven.result.text)


def test_row_08_less_reasoning_can_save_the_turn():
    """When the changed request is answered, the answer is the answer, and the next round reasons as before."""
    acts = Acts()
    script = [thinks("hm", finish=Finish.LENGTH), calls(("act", {})), says("four")]
    driven = drive(script, tools=acts.tools)

    assert ("completed", "four") == (driven.result.outcome, driven.result.text)
    assert [False, True, False] == [request.less_reasoning for request in driven.requests]


@on_each_backend
def test_row_22_reasoning_without_end_is_bounded(backend):
    """A model that reasons for ever makes progress, and is ended all the same: each attempt after its deadline."""

    def script(request):
        return itertools.chain.from_iterable(itertools.repeat((ReasoningDelta("and so on "), Pause(30.0))))

    driven = drive(script, call_deadline_s=600, recoveries=0, backend=backend)

    assert ("failed", FaultKind.TIMEOUT, 4) == (driven.result.outcome, driven.result.fault.kind, driven.calls)


@on_each_backend
@pytest.mark.parametrize("noise", [TextDelta(""), ReasoningDelta(""), CallDelta(0), Meta()])
def test_row_22_what_says_nothing_is_no_progress(backend, noise):
    """Chunks that say nothing keep no stream alive: it has stalled 90 s after it last said something."""

    def script(request):
        if len(model.requests) > 1:
            return says("here")
        return itertools.chain(
            [ReasoningDelta("hm")], itertools.chain.from_iterable(itertools.repeat((noise, Pause(15.0))))
        )

    model = ScriptedModel(script)
    driven = drive(model, backend=backend)
    stalled = next(each for each in driven.result.trail if "stream_stalled" in each.row)

    assert (90.0, "completed") == (stalled.at, driven.result.outcome)


# ---------------------------------------------------------------- no terminal evidence


def test_row_10_a_text_without_terminal_evidence_is_not_complete():
    """A stream that ends without saying so is cut: the model is asked to go on, and the pieces are one answer."""
    driven = drive([says("The answer", finish=None), says(" is four.")])

    assert ["ready", "calling", "streaming", "truncated", "calling", "streaming", "done"] == driven.states
    assert ("completed", "The answer is four.") == (driven.result.outcome, driven.result.text)
    assert ["The answer is four."] == said_by(driven.result, "assistant")


def test_row_10_a_text_that_never_gets_its_end_is_partial():
    """Where no end ever comes, the outcome says so."""
    driven = drive([says("The answer", finish=None)], continuations=0)

    assert ("partial", "The answer") == (driven.result.outcome, driven.result.text)


def test_row_11_a_drop_after_text_is_cut_and_goes_on():
    """A connection lost in the middle of the text leads to `truncated`, never to `done` while budget is left."""
    driven = drive([(TextDelta("half "), DROP), says("whole")])

    assert ["truncated", "calling", "streaming", "done"] == driven.states[-4:]
    assert ("completed", "half whole", "half whole") == (driven.result.outcome, driven.result.text, driven.screen)


def test_row_12_a_tool_call_that_is_lost_in_mid_stream_is_told():
    """A drop with a tool call in flight: whoever follows is told, and the request is made again."""
    dropped = (TextDelta("Let me act."), CallDelta(0, "c1", "act"), DROP)
    acts = Acts()
    driven = drive([dropped, calls(("act", {}), text="Let me act."), says("done")], tools=acts.tools)

    assert 1 == sum(isinstance(note, Reconnecting) for note in driven.notes)
    assert ("completed", 1, 1) == (driven.result.outcome, len(acts.ran), driven.result.counters["stream_retries"] + 1)
    assert "Let me act.done" == driven.screen


def test_row_12_a_tool_call_that_a_drop_has_lost_for_good_is_told_to_the_model():
    """When no reconnect is left, the text is kept and the model learns that its call was not run."""
    dropped = (TextDelta("Let me act."), CallDelta(0, "c1", "act"), DROP)
    driven = drive([dropped, says(" I could not.")], tools=Acts().tools, stream_retries=0)

    assert "act was not run" in driven.requests[1].messages[-1].text
    assert ("completed", "Let me act. I could not.") == (driven.result.outcome, driven.result.text)


def test_row_12_a_tool_call_that_is_lost_for_good_is_told_to_the_model():
    """A stall with a call in flight, and no reconnect left: the text is kept, and the model learns that nothing was run."""
    stalled = (TextDelta("Let me act."), CallDelta(0, "c1", "act"), Hang())
    driven = drive([stalled, says(" I could not.")], tools=Acts().tools, stream_retries=0)

    assert "act was not run" in driven.requests[1].messages[-1].text
    assert ("completed", "Let me act. I could not.") == (driven.result.outcome, driven.result.text)


def test_row_12_a_tool_call_that_is_lost_at_the_end_is_no_completion():
    """Drops with a call in flight, for ever: the turn is partial, says its text once, and names the fault."""
    dropped = (TextDelta("Let me act."), CallDelta(0, "c1", "act"), DROP)
    acts = Acts()
    driven = drive(lambda _: dropped, tools=acts.tools, stream_retries=1, api_max_retries=0)

    assert ("partial", "Let me act.", []) == (driven.result.outcome, driven.result.text, acts.ran)
    assert (FaultKind.DROPPED, "truncated") == (driven.result.fault.kind, driven.result.last_state)
    assert driven.screen == driven.result.text


@pytest.mark.parametrize("end", [None, Finish.LENGTH, Finish.STOP, Finish.TOOL_CALLS])
def test_row_13_no_prefix_of_arguments_is_run(end):
    """Arguments that stop anywhere before their end are never run, whatever finish reason comes with them."""
    for length in range(1, len(ARGUMENTS)):
        acts = Acts()
        driven = drive(lambda _, n=length: calls(("act", ARGUMENTS[:n]), finish=end), tools=acts.tools, recoveries=0)

        assert [] == acts.ran, ARGUMENTS[:length]
        assert "completed" != driven.result.outcome
        assert (end is not None) <= ("truncated" in driven.states)
        assert_paired(driven.result)


def test_row_13_whole_arguments_are_run_as_they_are():
    """The same arguments, whole, are run once."""
    acts = Acts()
    drive([calls(("act", ARGUMENTS)), says("done")], tools=acts.tools)
    arguments = json.loads(ARGUMENTS)

    assert [(arguments["where"], arguments["what"])] == acts.ran


@pytest.mark.parametrize("end", [None, Finish.LENGTH])
def test_row_14_a_whole_call_without_terminal_evidence_is_not_run(end):
    """A call that looks whole is not run before the provider has said that the reply has ended."""
    acts = Acts()
    driven = drive(lambda _: calls(("act", {}), finish=end), tools=acts.tools, recoveries=0)

    assert [] == acts.ran
    assert driven.result.outcome in {"failed", "partial"}


@pytest.mark.parametrize("kind", [FaultKind.DROPPED, FaultKind.INCOMPLETE])
def test_row_15_empty_drops_are_counted_and_end(kind):
    """A stream that drops before it said anything is asked for again as often as counted; the end names the fault."""
    driven = drive(lambda _: fails(kind), recoveries=0)

    assert (6, "failed", kind) == (driven.calls, driven.result.outcome, driven.result.fault.kind)
    assert "api_retries" == driven.result.exhausted.counter


def test_row_15_empty_replies_are_counted_and_the_model_is_told():
    """A model that replies with nothing is nudged twice, each time in words; then the turn ends."""
    driven = drive(lambda _: says(""))

    assert (3, "failed", FaultKind.EMPTY) == (driven.calls, driven.result.outcome, driven.result.fault.kind)
    nudged = [request.messages[-1].text.endswith("Please answer, or ask for a tool.") for request in driven.requests]
    assert [False, True, True] == nudged
    assert ["hi"] == said_by(driven.result, "user")


# ---------------------------------------------------------------- one writer


class Stubborn:
    """A model that is let go and speaks on: it takes no notice of being cancelled until it has said its words."""

    name = "stubborn"

    def __init__(self, then) -> None:
        self.then = then
        self.asked = 0

    @asynccontextmanager
    async def ask(self, request, tools, config):
        self.asked += 1
        async with contextlib.aclosing(self._first() if self.asked == 1 else self._then()) as deltas:
            yield deltas

    async def _first(self):
        yield TextDelta("old ")
        with contextlib.suppress(anyio.get_cancelled_exc_class()):
            await anyio.sleep_forever()
        yield TextDelta("late ")
        yield Stopped(Finish.STOP)

    async def _then(self):
        for each in self.then:
            yield each


@on_each_backend
def test_row_16_only_the_attempt_that_is_current_speaks(backend):
    """Whatever still comes of an attempt that was abandoned, nothing of it is shown, kept or decided on."""
    model = Stubborn(says("new"))
    clock = VirtualClock()
    driven = drive_model(model, clock, backend, meanwhile=[(1.0, lambda turn: turn.steer("other", now=True))])

    assert ("completed", "new") == (driven[0].outcome, driven[0].text)
    assert ["old ", "new"] == [note.text for note in driven[1] if isinstance(note, TextDelta)]


def drive_model(model, clock, backend, meanwhile=()):
    """A turn of a model of any kind: its result and its notes."""
    loop = Loop(model=model, clock=clock, chance=SeededChance())
    notes, result = clock.run(lambda: follow(loop, "hi", clock, meanwhile), backend)
    return result, notes


@pytest.mark.parametrize("order", [each for each in itertools.permutations(range(4)) if each.index(2) < each.index(3)])
def test_row_17_late_answers_hold_up_no_terminal_one(order):
    """In whatever order answers of the old and the new attempt come, the new one's end is the end, and the old change nothing."""
    driver = Driver(_ports(), LoopConfig(), "t")
    driver.begin(typed("hi"))
    driver.feed(SlotGranted, attempt=1)
    driver.steer("now", now=True)
    driver.feed(SlotGranted, attempt=2)
    facts = [
        lambda: driver.feed(StreamStarted, attempt=1),
        lambda: driver.feed(ModelReplied, attempt=1, reply=Reply("old", finish=Finish.STOP)),
        lambda: driver.feed(StreamStarted, attempt=2),
        lambda: driver.feed(ModelReplied, attempt=2, reply=Reply("new", finish=Finish.STOP)),
    ]
    for number in order:
        facts[number]()

    assert ("completed", "new") == (driver.result().outcome, driver.result().text)
    assert 2 == [entry.row for entry in driver.trail].count("late")


def _ports():
    return Ports(models=(ScriptedModel(()),), tools=FunctionTools(()), clock=VirtualClock(), chance=SeededChance())


# ---------------------------------------------------------------- time


@on_each_backend
@pytest.mark.parametrize("hours", [1, 7])
def test_row_23_a_machine_that_slept_fires_each_timer_once(backend, hours):
    """A clock that jumps by hours in mid-stream makes one stall of it, in a backoff one end of the wait; the turn goes on."""
    clock = VirtualClock()
    jump = lambda turn: clock.jump(hours * 3600.0)  # noqa: E731  # a happening
    script = [(ReasoningDelta("hm"), Hang()), says("awake")]
    driven = drive(script, clock=clock, meanwhile=[(10.0, jump), (10.0 + hours * 3600 + 1, jump)], backend=backend)
    rows = [row for _, row, _ in driven.result.path]

    assert 1 == sum("stream_stalled" in row for row in rows)
    assert 1 == rows.count("backoff.timer_fired")
    assert ("completed", 2) == (driven.result.outcome, driven.calls)


def test_row_21_stalls_that_recover_are_seen():
    """Stalls that were recovered from within the turn stand in its counters and in its trail, for whoever decides on more."""
    stall = (ReasoningDelta("hm"), Hang())
    driven = drive([stall, stall, says("here")])

    assert ("completed", 2) == (driven.result.outcome, driven.result.counters["api_retries"])
    assert 2 == sum("stream_stalled" in row for _, row, _ in driven.result.path)


def test_row_21_stalls_that_go_on_come_to_the_fallback():
    """The stalls of one reply are counted together, and when they are spent another provider is asked."""
    driven = drive(lambda _: (ReasoningDelta("hm"), Hang()), fallbacks=[[says("here")]])

    assert ("completed", [4, 1]) == (driven.result.outcome, [len(model.requests) for model in driven.models])


# ---------------------------------------------------------------- novelty


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(lambda n: "and so on and so forth", id="the same piece again"),
        pytest.param(lambda n: f"{n}: " + "again and " * 60, id="a piece that repeats itself"),
    ],
)
def test_row_54_a_repetition_is_not_continued(text):
    """A cut text that says nothing new is not asked on for: the turn ends as partial, with continuations left."""
    numbers = itertools.count()
    driven = drive(lambda _: says(text(next(numbers)), finish=Finish.LENGTH), continuations=10)

    assert 2 >= driven.calls
    assert "partial" == driven.result.outcome
