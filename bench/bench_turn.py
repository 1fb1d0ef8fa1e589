"""What a turn costs beside its model and its tools: CPU per tool round, per chunk, per decision, and to import.

Run by `make bench`. The timer is CPU time of this process, so that neighbours count less; compare within one run.
Every cost has its floor beside it: the same work by a loop written by hand, or by nothing at all.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time

import anyio
import pytest

from fsm_loop import Loop, LoopConfig, begin_turn, step
from fsm_loop.core.events import ModelReplied, SlotGranted, StreamStarted, ToolReturned, TurnStarted
from fsm_loop.core.messages import Finish, Reply, ToolCall, UserMessage
from fsm_loop.ports import Stopped, TextDelta
from fsm_loop.testing.fakes import Recorder, ScriptedModel, calls, says

pytestmark = pytest.mark.benchmark(timer=time.process_time, disable_gc=False, warmup=False)

CHUNKS = 20_000
WISH = calls(("add", {"a": 1, "b": 2}))
ANSWER = says("3")
STREAM = (*[TextDelta("abcd")] * CHUNKS, Stopped(Finish.STOP))
ROUNDS: dict[int, float] = {}


async def add(a: int, b: int) -> int:
    """The sum of two numbers."""
    return a + b


async def turn_of(rounds: int) -> None:
    """One turn with so many tool rounds, an in-memory model, and a watcher that sees each decision."""
    left = iter([WISH] * rounds)
    config = LoopConfig(max_requests=rounds + 1, max_iterations=rounds + 1)
    model = ScriptedModel(lambda _: next(left, ANSWER))
    result = await Loop(model=model, tools=[add], config=config, watchers=[Recorder()]).run("1 + 2?")
    assert result.outcome == "completed"
    assert result.llm_calls == rounds + 1


@pytest.mark.parametrize("rounds", [10, 200, 1000])
def test_tool_round(benchmark, rounds):
    """CPU per tool round, at three lengths of the turn: the cost of a round must not grow with its number."""
    with asyncio.Runner() as runner:  # one event loop for all, so that its start is not in the figure
        benchmark.pedantic(lambda: runner.run(turn_of(rounds)), rounds=9, iterations=1, warmup_rounds=2)
    ROUNDS[rounds] = benchmark.stats.stats.min / rounds
    benchmark.extra_info["us_per_round"] = round(ROUNDS[rounds] * 1e6, 1)
    ratio = ROUNDS[rounds] / ROUNDS[min(ROUNDS)]
    benchmark.extra_info["times_the_shortest"] = round(ratio, 2)
    print(f"\n{rounds} rounds: {ROUNDS[rounds] * 1e6:.0f} us a round, {ratio:.2f} times the shortest turn's")


def test_decision(benchmark):
    """CPU per decision of the core alone: a tool round is four."""

    def fold() -> None:
        turn = step(
            begin_turn(LoopConfig(max_requests=1000, max_iterations=1000), ("m",)),
            TurnStarted(messages=(UserMessage("?"),)),
        ).turn
        for place in range(250):
            attempt, call = turn.record.attempt, ToolCall(f"c{place}", "add", '{"a": 1, "b": 2}')
            reply = Reply(tool_calls=(call,), finish=Finish.TOOL_CALLS)
            for event in (
                SlotGranted(attempt=attempt),
                StreamStarted(attempt=attempt),
                ModelReplied(attempt=attempt, reply=reply),
                ToolReturned(attempt=attempt, call_id=call.id, text="3"),
            ):
                turn = step(turn, event).turn

    benchmark.pedantic(fold, rounds=9, iterations=1, warmup_rounds=1)
    print(f"\n{benchmark.stats.stats.min / 1000 * 1e6:.1f} us a decision")


async def bare() -> None:
    """The floor: the same chunks, read by nobody."""
    async with ScriptedModel([STREAM]).ask(None, (), LoopConfig()) as deltas:
        async for _ in deltas:
            pass


async def whole() -> None:
    """The chunks through a turn that nobody follows."""
    await Loop(model=ScriptedModel([STREAM])).run("?")


async def followed() -> None:
    """The chunks through a turn that is followed chunk by chunk."""
    async with Loop(model=ScriptedModel([STREAM])).stream("?") as turn:
        async for _ in turn:
            pass


@pytest.mark.parametrize("reading", [bare, whole, followed], ids=lambda reading: reading.__name__)
def test_chunk(benchmark, reading):
    """CPU per streamed chunk: read by nobody, by a turn, by a turn that is followed."""
    benchmark.pedantic(anyio.run, args=(reading,), rounds=9, iterations=1, warmup_rounds=1)
    print(f"\n{reading.__name__}: {benchmark.stats.stats.min / CHUNKS * 1e6:.2f} us a chunk")


def _import_s(module: str) -> float:
    """Seconds of CPU that a fresh interpreter takes to import *module*, the interpreter's own start taken off."""
    program = f"import time; t = time.process_time(); import {module}; print(time.process_time() - t)"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return float(said.stdout)


def test_import(benchmark):
    """CPU of `import fsm_loop`, beside that of its two engines: transitions and attrs."""
    ours = [_import_s("fsm_loop") for _ in range(9)]
    floor = [_import_s("transitions, attrs, anyio, structlog") for _ in range(9)]
    benchmark.pedantic(lambda: None, rounds=1)
    facts = {
        "ours_ms": min(ours) * 1e3,
        "its_libraries_ms": min(floor) * 1e3,
        "median_ms": statistics.median(ours) * 1e3,
    }
    print(f"\nimport: {json.dumps({name: round(value, 1) for name, value in facts.items()})}")
