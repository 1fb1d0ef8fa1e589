"""What a trail costs: CPU per decision where it is written and where it is verified, and bytes per tool round.

Run by `make bench`. The timer is CPU time of this process. Beside each figure stands its floor, from the same run:
for writing, one write(2) of a line as long; for verifying, the parsing of its JSON by the standard library.
"""

from __future__ import annotations

import asyncio
import json
import os
import time

import pytest

from fsm_loop import Loop, LoopConfig
from fsm_loop.audit.jsonl import JsonLines
from fsm_loop.audit.reading import read
from fsm_loop.audit.sqlite import SqliteTrails
from fsm_loop.audit.verify import verify
from fsm_loop.core.machine import PAGE
from fsm_loop.core.step import begin_turn
from fsm_loop.testing.fakes import Recorder, ScriptedModel, calls, says

pytestmark = pytest.mark.benchmark(timer=time.process_time, disable_gc=False, warmup=False)

ROUNDS = 200
TURNS = 125  # of so many tool rounds, so that about 100,000 decisions are verified
CONFIG = LoopConfig(max_requests=ROUNDS + 1, max_iterations=ROUNDS + 1)


async def add(a: int, b: int) -> int:
    """The sum of two numbers."""
    return a + b


async def turn(*watchers) -> None:
    """One turn of so many tool rounds."""
    left = iter([calls(("add", {"a": 1, "b": 2}))] * ROUNDS)
    model = ScriptedModel(lambda _: next(left, says("3")))
    result = await Loop(model=model, tools=[add], config=CONFIG, watchers=watchers).run("1 + 2?")
    assert (result.outcome, result.trail_faults) == ("completed", ())


def decisions():
    """The decisions of one turn."""
    recorder = Recorder()
    asyncio.run(turn(recorder))
    return recorder.decisions


SINKS = {
    "JSON Lines": lambda folder, **wishes: JsonLines(folder / "trail.jsonl", **wishes),
    "SQLite": lambda folder, **wishes: SqliteTrails(folder / "trail.sqlite", **wishes),
}


@pytest.mark.parametrize("content", ["digests", "full"])
@pytest.mark.parametrize("kind", SINKS)
def test_a_decision_is_written(benchmark, tmp_path, kind, content):
    """CPU per decision, without waiting for the disk (aim: 15 us for JSON Lines), and the write(2) that is in it."""
    made = decisions()
    with SINKS[kind](tmp_path, content=content) as sink:
        sink.opened("turn", begin_turn(CONFIG), PAGE)

        def write():
            for seq, decision in enumerate(made):
                sink.saw("turn", seq, decision)

        benchmark.pedantic(write, rounds=9, iterations=1, warmup_rounds=2)
    cost = benchmark.stats.stats.min / len(made) * 1e6
    floor = write_floor(tmp_path, len(made))
    benchmark.extra_info["us_per_decision"] = round(cost, 1)
    print(f"\n{kind}, {content}: {cost:.1f} us a decision; one write(2) of 700 bytes: {floor:.1f} us")


def write_floor(folder, times) -> float:
    """Microseconds of one write of a line, unbuffered."""
    line, best = b"x" * 700, 1e9
    with (folder / "floor").open("ab", buffering=0) as file:
        for _ in range(9):
            began = time.process_time()
            for _ in range(times):
                os.write(file.fileno(), line)
            best = min(best, time.process_time() - began)
    return best / times * 1e6


@pytest.mark.parametrize("content", ["digests", "full"])
def test_a_trail_is_verified(benchmark, tmp_path, content):
    """Seconds for about 100,000 decisions (aim: 5), and what json.loads takes for the same lines."""
    path = tmp_path / "trail.jsonl"
    with JsonLines(path, content=content) as sink, asyncio.Runner() as runner:
        for _ in range(TURNS):
            runner.run(turn(sink))
    lines = path.read_bytes().splitlines()
    verdict = benchmark.pedantic(lambda: verify(read(path)), rounds=1, iterations=1)
    assert verdict.verified
    count = sum(each.decisions for each in verdict.turns)
    began = time.process_time()
    for line in lines:
        json.loads(line)
    parsing = time.process_time() - began
    seconds = benchmark.stats.stats.min
    benchmark.extra_info["s_per_100k"] = round(seconds / count * 1e5, 2)
    print(
        f"\n{content}: {count} decisions verified in {seconds:.1f} s, {seconds / count * 1e5:.1f} s per 100,000, "
        f"{seconds / parsing:.1f} times json.loads; {len(path.read_bytes()) / TURNS / ROUNDS:.0f} bytes a tool round"
    )
