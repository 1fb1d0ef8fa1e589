"""The embedded server in a process of its own, and whole turns on a real model, for the tests that ask one."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager

import anyio

from fsm_loop import Loop, LoopConfig, TextDelta, Withdrawn

LIMIT_S = 120.0  # for a machine that is busy with other tests; the turns take a few seconds


@contextmanager
def server_process():
    """The embedded server in a process of its own, to be killed: the process and its base URL."""
    command = [sys.executable, "-m", "fsm_loop.providers.local", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def follow(model, prompt, react=lambda turn, shown: None, *, tools=(), fallbacks=(), **limits):
    """One turn, with what its consumer has on the screen in the end; *react* is told of each stretch of text."""

    async def turn_of():
        shown = ""
        async with model:
            loop = Loop(model=model, fallbacks=fallbacks, tools=tools, config=LoopConfig(**limits))
            with anyio.fail_after(LIMIT_S):
                async with loop.stream(prompt) as turn:
                    async for note in turn:
                        if isinstance(note, TextDelta):
                            shown += note.text
                            react(turn, shown)
                        elif isinstance(note, Withdrawn):
                            shown = shown.removesuffix(note.text)
        for each in fallbacks:
            await each.aclose()
        return turn.result, shown

    return anyio.run(turn_of)
