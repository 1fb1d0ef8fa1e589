"""How these tests drive a turn: a script, a virtual clock, and what happens meanwhile, at which second."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import anyio
import pytest
from attrs import frozen

from fsm_loop.config import LoopConfig
from fsm_loop.core.effects import SetTimer, Withdrawn
from fsm_loop.drive.notes import Note
from fsm_loop.drive.result import TurnResult
from fsm_loop.loop import Loop, RunningTurn
from fsm_loop.ports import TextDelta
from fsm_loop.testing.clock import VirtualClock
from fsm_loop.testing.fakes import Recorder, ScriptedModel, SeededChance

PATIENCE_S = 30  # of real time: a turn that hangs fails its test, it does not hang it
BACKENDS = ("asyncio", "trio")
on_each_backend = pytest.mark.parametrize("backend", BACKENDS)

Happening = tuple[float, Callable[[RunningTurn], Any]]


@frozen
class Driven:
    """A turn that was driven, with everything that it was driven through."""

    result: TurnResult
    models: tuple[ScriptedModel, ...]
    clock: VirtualClock
    recorder: Recorder
    notes: tuple[Note, ...] = ()

    @property
    def requests(self):
        """What the first model was asked."""
        return self.models[0].requests

    @property
    def calls(self) -> int:
        """The requests that any model had."""
        return sum(len(model.requests) for model in self.models)

    @property
    def states(self) -> list[str]:
        """The states that the turn came to, in order, each once for as long as it stayed."""
        states = ["ready"]
        for _, _, after in self.result.path:
            if after != states[-1]:
                states.append(after)
        return states

    @property
    def waits(self) -> list[float]:
        """The waits that were begun, in seconds."""
        effects = (effect for decision in self.recorder.decisions for effect in decision.effects)
        return [effect.delay_s for effect in effects if isinstance(effect, SetTimer)]

    @property
    def screen(self) -> str:
        """What somebody who writes down every text, and takes back what is withdrawn, has before him."""
        return screen_of(self.notes)


def screen_of(notes: Iterable[Note]) -> str:
    """The text that stands on a screen once these notes have been followed."""
    screen = ""
    for note in notes:
        if isinstance(note, TextDelta):
            screen += note.text
        if isinstance(note, Withdrawn):
            assert screen.endswith(note.text), "what is withdrawn stands at the end of the screen"
            screen = screen.removesuffix(note.text)
    return screen


def scripted(script, clock=None, name="scripted") -> ScriptedModel:
    """A model of this script on this clock; a model stays what it is."""
    if isinstance(script, ScriptedModel):
        script.clock = script.clock or clock
        return script
    return ScriptedModel(script, name=name, clock=clock)


def drive(
    script,
    *,
    prompt: Any = "hi",
    fallbacks: Sequence[Any] = (),
    tools: Any = (),
    meanwhile: Sequence[Happening] = (),
    backend: str = "asyncio",
    clock: VirtualClock | None = None,
    seed: int = 0,
    ports: dict[str, Any] | None = None,
    **settings: Any,
) -> Driven:
    """One turn of a scripted model, followed to its end; *settings* are LoopConfig's, *ports* are Loop's."""
    clock = clock or VirtualClock()
    chain = [scripted(script, clock), *(scripted(each, clock, f"fallback-{n}") for n, each in enumerate(fallbacks, 1))]
    recorder = Recorder()
    given = dict(ports or {})
    loop = Loop(
        model=chain[0], fallbacks=chain[1:], tools=tools, config=LoopConfig(**settings), clock=clock,
        chance=given.pop("chance", None) or SeededChance(seed), watchers=[recorder, *given.pop("watchers", ())], **given,
    )  # fmt: skip

    async def main():
        with anyio.fail_after(PATIENCE_S):
            return await follow(loop, prompt, clock, meanwhile)

    notes, result = clock.run(main, backend)
    return Driven(result, tuple(chain), clock, recorder, tuple(notes))


async def follow(loop: Loop, prompt: Any, clock: VirtualClock, meanwhile: Sequence[Happening]):
    """The notes of a turn and its result, while things happen at their seconds."""
    notes: list[Note] = []

    async def happens(at_s: float, what: Callable[[RunningTurn], Any], turn: RunningTurn) -> None:
        await clock.sleep_until(at_s)
        what(turn)

    async with anyio.create_task_group() as group:
        async with loop.stream(prompt) as turn:
            for at_s, what in meanwhile:
                if at_s <= clock.now():
                    what(turn)
                else:
                    group.start_soon(happens, at_s, what, turn)
            async for note in turn:
                notes.append(note)  # noqa: PERF401  # the notes are wanted as they come
        group.cancel_scope.cancel()
    return notes, turn.result


def assert_paired(result: TurnResult) -> None:
    """Each tool call of the messages has exactly one result, right behind it and in order, and the tail is no tool's."""
    open_calls: list[str] = []
    for message in result.messages:  # as they are: reading them would mend them
        if message["role"] == "tool":
            assert open_calls[:1] == [message["tool_call_id"]]
            open_calls.pop(0)
            continue
        assert [] == open_calls
        open_calls = [call["id"] for call in message.get("tool_calls", ())]
    assert [] == open_calls
    assert "tool" != result.messages[-1]["role"]


def said_by(result: TurnResult, role: str) -> list[str]:
    """What this role says in the messages of the result."""
    return [message["content"] for message in result.messages if message["role"] == role]
