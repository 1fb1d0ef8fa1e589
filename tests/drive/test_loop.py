"""The loop that a service builds once: what it is made of, and the turns that it is asked for."""

from __future__ import annotations

import asyncio

import anyio
import pytest
from attrs import define

from fsm_loop.config import LoopConfig
from fsm_loop.core.faults import FaultKind
from fsm_loop.core.messages import SystemMessage
from fsm_loop.errors import FsmLoopError, MessageError, ToolError, TurnFailed
from fsm_loop.limiter import SlidingWindow
from fsm_loop.loop import Loop
from fsm_loop.ports import ToolOutcome, ToolSpec
from fsm_loop.testing.clock import VirtualClock
from fsm_loop.testing.fakes import Pause, ScriptedModel, calls, fails, says
from tests.drive.turns import on_each_backend, said_by


def double(number: int) -> int:
    """Double a number."""
    return 2 * number


def test_a_program_without_an_event_loop_runs_a_turn():
    """`run_sync` is a whole turn; functions are tools."""
    loop = Loop(model=ScriptedModel([calls(("double", {"number": 21})), says("It is 42.")]), tools=[double])
    result = loop.run_sync("what is 21 doubled?")

    assert ("completed", "It is 42.", ["42"]) == (result.outcome, result.text, said_by(result, "tool"))
    assert result is result.raise_for_outcome()


@on_each_backend
def test_run_sync_inside_an_event_loop_says_what_to_do(backend):
    """It names the library and the way that works there."""
    loop = Loop(model=ScriptedModel([says("never")]))

    async def main():
        loop.run_sync("hi")

    with pytest.raises(FsmLoopError, match=rf"inside {backend}; await loop.run"):
        anyio.run(main, backend=backend)


def test_run_sync_works_in_a_thread_of_an_event_loop():
    """A thread has no event loop of its own, whatever runs beside it."""
    loop = Loop(model=ScriptedModel([says("ok")]))

    async def main():
        return await asyncio.to_thread(loop.run_sync, "hi")

    assert "ok" == asyncio.run(main()).text


@on_each_backend
def test_one_loop_has_many_turns_at_once(backend):
    """Turns of one loop share nothing but its ports: each has its own words, its own tools' results and its own end."""
    clock = VirtualClock()

    def script(request):
        number = int(request.messages[0].text)
        if len(request.messages) == 1:
            return (Pause(number % 7), *calls(("rest", {"number": number})))
        return (Pause(number % 5), *says(f"{number}: ", request.messages[-1].text))

    async def rest(number: int) -> str:
        """Rest a little."""
        await clock.sleep(number % 3)
        return f"rested {number}"

    loop = Loop(model=ScriptedModel(script, clock=clock), tools=[rest], clock=clock)

    async def main():
        results = {}

        async def turn(number):
            results[number] = await loop.run(str(number))

        async with anyio.create_task_group() as group:
            for number in range(60):
                group.start_soon(turn, number)
        return results

    results = clock.run(main, backend)

    assert {number: f"{number}: rested {number}" for number in range(60)} == {n: r.text for n, r in results.items()}
    assert 60 == len({result.turn_id for result in results.values()})
    assert {(2, 1)} == {(result.llm_calls, result.counters["iterations"]) for result in results.values()}


def test_an_interrupt_of_one_turn_leaves_the_others_alone():
    """Turns of one loop end each by themselves."""
    clock = VirtualClock()
    loop = Loop(model=ScriptedModel(lambda _: (Pause(10.0), *says("ok")), clock=clock), clock=clock)

    async def main():
        async with loop.stream("a") as one, loop.stream("b") as other:
            await clock.sleep(1)
            one.interrupt()
            async for _ in other:
                pass
        return one.result.outcome, other.result.outcome

    assert ("interrupted", "completed") == clock.run(main)


def test_the_system_message_stands_first():
    """What the service tells the model stands before the prompt, in each turn."""
    model = ScriptedModel([says("ok")])
    result = Loop(model=model, system="Be brief.").run_sync([{"role": "user", "content": "hi"}])

    assert SystemMessage("Be brief.") == model.requests[0].messages[0]
    assert ["system", "user", "assistant"] == [message["role"] for message in result.messages]


def test_messages_are_given_and_returned_alike():
    """The messages of a result are a conversation that can be continued."""
    model = ScriptedModel([calls(("double", {"number": 2})), says("four"), says("eight")])
    loop = Loop(model=model, tools=[double])
    first = loop.run_sync("2?")
    second = loop.run_sync([*first.messages, {"role": "user", "content": "and that?"}])

    assert first.messages == second.messages[: len(first.messages)]
    assert "eight" == second.text


@pytest.mark.parametrize("prompt", [[], [{"role": "tool", "content": "y"}], [42]])
def test_messages_that_no_provider_would_take_raise(prompt):
    """They are refused before anything is asked."""
    model = ScriptedModel([says("never")])

    with pytest.raises(MessageError):
        Loop(model=model).run_sync(prompt)
    assert [] == model.requests


def test_what_cannot_be_a_tool_is_refused_when_the_loop_is_made():
    """A lambda has no name."""
    with pytest.raises(ToolError, match="a lambda"):
        Loop(model=ScriptedModel(()), tools=[lambda: 1])


def test_tools_may_be_an_adapter():
    """Whatever is no list of functions is taken for an adapter of the Tools port."""

    class Echo:
        def specs(self):
            return (ToolSpec("echo"),)

        def problem(self, call):
            return ""

        def in_thread(self, name):
            return False

        async def run(self, call):
            return ToolOutcome(call.arguments)

    result = Loop(model=ScriptedModel([calls(("echo", "{}")), says("ok")]), tools=Echo()).run_sync("hi")

    assert ["{}"] == said_by(result, "tool")


def test_an_outcome_raises_only_when_asked():
    """A failed turn is a result; `raise_for_outcome` makes an error of it, which holds the result."""
    result = Loop(model=ScriptedModel([fails(FaultKind.QUOTA_SPENT)])).run_sync("hi")

    with pytest.raises(TurnFailed, match="quota") as caught:
        result.raise_for_outcome()
    assert result is caught.value.result


@pytest.mark.parametrize(
    ("per_minute", "given", "kind"), [(None, None, None), (7, None, SlidingWindow), (7, "mine", str)]
)
def test_the_local_limit_makes_a_limiter(per_minute, given, kind):
    """`requests_per_minute` is a sliding window, unless a limiter is given; without both there is none."""
    loop = Loop(model=ScriptedModel(()), config=LoopConfig(requests_per_minute=per_minute), limiter=given)

    assert (type(None) if kind is None else kind) is type(loop._ports.limiter)


def test_fallbacks_are_asked_in_their_order():
    """The chain is the model, then the fallbacks."""
    chain = [ScriptedModel([fails(FaultKind.QUOTA_SPENT)], name=f"m{n}") for n in range(3)]
    result = Loop(model=chain[0], fallbacks=[*chain[1:], ScriptedModel([says("ok")], name="last")]).run_sync("hi")

    assert ("ok", 3) == (result.text, result.counters["fallbacks"])
    assert [1, 1, 1] == [len(model.requests) for model in chain]


@define(eq=False)
class Connected(ScriptedModel):
    """A scripted model that holds a connection."""

    closed: int = 0

    async def aclose(self):
        self.closed += 1


def test_run_sync_leaves_no_connection_open():
    """A turn of a program without an event loop closes what its models hold, for their loop ends with it."""
    first, second = Connected([says("hello")]), Connected([says("unused")])
    Loop(model=first, fallbacks=[second, ScriptedModel([])]).run_sync("?")

    assert (1, 1) == (first.closed, second.closed)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_loop_closes_its_models_when_it_is_left(backend):
    """A loop used as a context keeps connections between its turns, and closes them at its end."""
    model = Connected([says("one"), says("two")])

    async def turns():
        async with Loop(model=model) as loop:
            await loop.run("?")
            await loop.run("?")
            return model.closed

    assert (0, 1) == (anyio.run(turns, backend=backend), model.closed)
