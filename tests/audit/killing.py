"""Kills a process, so many times, at random moments while it writes trails; prints what was left, a line each.

    python killing.py FOLDER SEED TIMES SINK

SINK is one of those of `sinks`. A process of its own: what is forked here has no threads.
"""

from __future__ import annotations

import json
import os
import random
import signal
import struct
import sys
from pathlib import Path

from fsm_loop.audit.jsonl import JsonLines
from fsm_loop.audit.reading import read
from fsm_loop.audit.verify import verify
from fsm_loop.core.faults import FaultKind
from fsm_loop.loop import Loop
from fsm_loop.testing.clock import VirtualClock
from fsm_loop.testing.fakes import ScriptedModel, SeededChance, calls, fails, says

MOST_ACKNOWLEDGED = 60  # decisions, before a process is killed


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Acknowledges:
    """Tells the parent of each decision, once those who watch before it have kept it."""

    def __init__(self, pipe):
        self.pipe = pipe

    def saw(self, turn_id, seq, decision):
        os.write(self.pipe, bytes.fromhex(turn_id) + struct.pack(">I", seq))


SIZE = 20  # bytes of an acknowledgement


def sinks(kind, path):
    """What the process writes to."""
    match kind:
        case "jsonl":
            return JsonLines(path)
        case "jsonl-fsync":
            return JsonLines(path, fsync="each")
        case _:
            from fsm_loop.audit.sqlite import SqliteTrails

            return SqliteTrails(path, fsync="each" if kind.endswith("fsync") else "never")


def write(kind, path, pipe):
    """Turns, for ever, each decision acknowledged once it is kept."""
    clock = VirtualClock()
    script = [fails(FaultKind.OVERLOADED), calls(("add", {"a": 1, "b": 2})), says("three")]
    with sinks(kind, path) as sink:
        while True:
            model = ScriptedModel(script, clock=clock)
            watchers = [sink, Acknowledges(pipe)]
            loop = Loop(model=model, tools=[add], watchers=watchers, clock=clock, chance=SeededChance(1))
            clock.run(lambda loop=loop: loop.run("1 + 2?"))


def killed(kind, path, moment):
    """Start a process, let it acknowledge so many decisions, and kill it: all that it acknowledged."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            write(kind, path, writer)
        finally:
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        told = pipe.read(SIZE * moment)
        os.kill(child, signal.SIGKILL)
        told += pipe.read()
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL, status
    acknowledged = [told[at : at + SIZE] for at in range(0, len(told) - SIZE + 1, SIZE)]
    return [(each[:16].hex(), struct.unpack(">I", each[16:])[0]) for each in acknowledged]


def left(kind, path, moment):
    """What stands in the file after the process was killed."""
    acknowledged = killed(kind, path, moment)
    lines = list(read(path))
    verdict = verify(iter(lines))
    kept = {(line.record["turn"], line.record["seq"]) for line in lines if line.record and "seq" in line.record}
    return {
        "acknowledged": len(acknowledged),
        "missing": len(set(acknowledged) - kept),
        "verified": verdict.verified,
        "problems": [each.sentence for each in verdict.problems],
        "torn": len(verdict.torn),
        "turns": len(verdict.turns),
        "unfinished": sum(not each.over for each in verdict.turns),
    }


def main():
    """See above."""
    folder, seed, times, kind = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    chance = random.Random(seed)
    for number in range(times):
        found = left(kind, folder / f"{number}.trail", chance.randint(1, MOST_ACKNOWLEDGED))
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
