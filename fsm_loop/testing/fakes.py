"""Fakes that pass for the real thing: a model that follows a script, chance with a seed, tools that are told."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
from attrs import define, field, frozen

from fsm_loop.config import LoopConfig
from fsm_loop.core.effects import Request
from fsm_loop.core.faults import Fault, FaultKind
from fsm_loop.core.messages import Finish, Usage
from fsm_loop.core.step import Decision
from fsm_loop.errors import ModelError
from fsm_loop.ports import CallDelta, Clock, Delta, Meta, ReasoningDelta, Stopped, TextDelta, ToolSpec


@frozen
class Pause:
    """Nothing for so many seconds of the turn's clock."""

    seconds: float


@frozen
class Hang:
    """Nothing, for ever."""


@frozen
class Fail:
    """The call fails here."""

    fault: Fault


@frozen
class Raise:
    """The adapter itself breaks here: it raises something that is no ModelError."""

    error: Exception


Step = Delta | Pause | Hang | Fail | Raise
Steps = Sequence[Step]


def says(*texts: str, finish: Finish | None = Finish.STOP, usage: Usage | None = None) -> Steps:
    """A reply of text, delta by delta; *finish* None ends it without terminal evidence."""
    return (*map(TextDelta, texts), *_ending(finish, usage))


def thinks(*texts: str, finish: Finish | None = Finish.STOP) -> Steps:
    """A reply of reasoning alone."""
    return (*map(ReasoningDelta, texts), *_ending(finish, None))


def calls(
    *wishes: tuple[str, dict[str, Any] | str], text: str = "", finish: Finish | None = Finish.TOOL_CALLS
) -> Steps:
    """A reply that asks for tools: each wish a name and its arguments, a mapping or the raw text of them."""
    words = (TextDelta(text),) if text else ()
    deltas = tuple(
        CallDelta(slot, "", name, arguments if isinstance(arguments, str) else json.dumps(arguments))
        for slot, (name, arguments) in enumerate(wishes)
    )
    return (*words, *deltas, *_ending(finish, None))


def fails(kind: FaultKind, message: str = "", **facts: Any) -> Steps:
    """A call that fails at once."""
    return (Fail(Fault(kind, message, **facts)),)


def _ending(finish: Finish | None, usage: Usage | None) -> Steps:
    told: tuple[Delta, ...] = () if finish is None else (Stopped(finish),)
    return told if usage is None else (*told, Meta(usage=usage))


@define(eq=False)
class ScriptedModel:
    """A model that follows a script: a list of replies in order, or a function of the request.

    `requests` holds every request that was made of it; one more than the script has fails as a bad request.
    `opens_after_s` is how long a connection takes. `open_calls` is the number of calls that have not been closed.
    """

    script: Iterable[Steps] | Callable[[Request], Steps]
    name: str = "scripted"
    clock: Clock | None = None
    opens_after_s: float = 0.0
    requests: list[Request] = field(factory=list, init=False)
    open_calls: int = field(default=0, init=False)
    _left: Iterator[Steps] | None = field(default=None, init=False)

    @asynccontextmanager
    async def ask(
        self, request: Request, tools: Sequence[ToolSpec], config: LoopConfig
    ) -> AsyncIterator[AsyncIterator[Delta]]:
        """One request, answered by the next of the script."""
        self.requests.append(request)
        steps = self._next(request)
        self.open_calls += 1
        deltas = self._play(steps)
        try:
            if self.opens_after_s:
                await self._pause(self.opens_after_s)
            yield deltas
        finally:
            self.open_calls -= 1
            await deltas.aclose()

    def _next(self, request: Request) -> Steps:
        if callable(self.script):
            return self.script(request)
        if self._left is None:
            self._left = iter(self.script)
        ended = fails(FaultKind.BAD_REQUEST, f"the script of {self.name} has no reply number {len(self.requests)}")
        return next(self._left, ended)

    async def _pause(self, seconds: float) -> None:
        if self.clock is None:
            await anyio.sleep(seconds)
        else:
            await self.clock.sleep_until(self.clock.now() + seconds)

    async def _play(self, steps: Steps) -> AsyncGenerator[Delta, None]:
        for each in steps:
            match each:
                case Pause(seconds):
                    await self._pause(seconds)
                case Hang():
                    await anyio.sleep_forever()
                case Fail(fault):
                    raise ModelError(fault)
                case Raise(error):
                    raise error
                case delta:
                    yield delta


class SeededChance:
    """Luck that can be had again: the same seed, the same draws."""

    def __init__(self, seed: int = 0) -> None:
        self.draw = random.Random(seed).random  # noqa: S311  # luck that can be had again is the point


@define(eq=False)
class Recorder:
    """A watcher that keeps every decision that it saw."""

    decisions: list[Decision] = field(factory=list)

    def saw(self, turn_id: str, seq: int, decision: Decision) -> None:
        """One decision was made."""
        self.decisions.append(decision)

    @property
    def rows(self) -> list[str]:
        """The names of the rows that fired, in order."""
        return [decision.name for decision in self.decisions]
