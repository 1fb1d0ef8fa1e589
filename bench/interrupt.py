"""How long an interrupt takes: wall time from the word to the return of the turn, at each kind of wait.

    python bench/interrupt.py [repetitions]

Prints the median and the worst of each kind, in milliseconds, on asyncio and on trio.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel

from fsm_loop import FaultKind, Loop, LoopConfig, StateChanged, TextDelta
from fsm_loop.testing.fakes import Hang, ScriptedModel, calls, fails

RELEASE = threading.Event()


async def waits() -> str:
    """Wait for ever."""
    await anyio.sleep_forever()
    return "never"


def blocks() -> str:
    """Block a thread until the end of the benchmark."""
    RELEASE.wait()
    return "late"


OVERLOADED = fails(FaultKind.OVERLOADED)
# The kind of wait: the state that it is in, the script that leads there, and what else the loop needs.
KINDS: dict[str, tuple[str, Callable[[Any], Any], dict[str, Any]]] = {
    "a slow call": ("calling", lambda _: (Hang(),), {}),
    "a silent stream": ("streaming", lambda _: (TextDelta("half"), Hang()), {}),
    "a backoff of 120 s": ("backoff", lambda _: OVERLOADED, {"base_delay_s": 120.0}),
    "a recovery": ("recovering", lambda _: OVERLOADED, {"api_max_retries": 0}),
    "an asynchronous tool": ("tool_exec", lambda _: calls(("waits", {})), {}),
    "eight asynchronous tools": ("tool_exec", lambda _: calls(*[("waits", {})] * 8), {}),
    "a tool in a thread": ("tool_exec", lambda _: calls(("blocks", {})), {}),
    "the last word": ("grace", lambda _: (Hang(),), {"max_requests": 0}),
}


async def once(kind: str) -> float:
    """Seconds from the interrupt to the end of one turn."""
    state, script, settings = KINDS[kind]
    loop = Loop(model=ScriptedModel(script), tools=[waits, blocks], config=LoopConfig(**settings))
    async with loop.stream("hi") as turn:
        async for note in turn:
            if isinstance(note, StateChanged) and note.after == state:
                break
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        since = time.perf_counter()
        turn.interrupt()
    return time.perf_counter() - since


async def many(kind: str, repetitions: int) -> list[float]:
    """That many measurements, one after another."""
    return [await once(kind) for _ in range(repetitions)]


def main() -> None:
    """Measure each kind of wait on both backends."""
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 30  # a thread that is let go keeps its place: 40 at most
    print(f"{'interrupted in':28} {'backend':8} {'median ms':>10} {'worst ms':>10}")
    for kind in KINDS:
        for backend in ("asyncio", "trio"):
            taken = anyio.run(many, kind, min(repetitions, 30) if "thread" in kind else repetitions, backend=backend)
            print(f"{kind:28} {backend:8} {1000 * statistics.median(taken):10.3f} {1000 * max(taken):10.3f}")
    RELEASE.set()


if __name__ == "__main__":
    main()
