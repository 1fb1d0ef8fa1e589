"""The model's side of a turn: one call is read, watched, and reported as one event."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import anyio.lowlevel
from attrs import evolve, frozen

from fsm_loop.config import LoopConfig
from fsm_loop.core.effects import CallModel, Request, RunTool
from fsm_loop.core.events import Event, ModelFailed, ModelReplied, StreamDropped, StreamStalled, StreamStarted
from fsm_loop.core.faults import Fault, FaultKind
from fsm_loop.core.messages import NO_REPLY, AssistantMessage, Message, Reply, ToolCall
from fsm_loop.drive.judged import fault_of_reply, written_call
from fsm_loop.drive.notes import Outbox
from fsm_loop.drive.reading import Reading, with_unique_ids
from fsm_loop.drive.watch import Watch, Watched, told
from fsm_loop.errors import ModelError
from fsm_loop.ports import Clock, Model, ReasoningDelta, Streams, TextDelta, Tools

Feed = Callable[..., Any]


@frozen(kw_only=True)
class Means:
    """What both sides of a turn, the model's and the tools', work with."""

    tools: Tools
    clock: Clock
    config: LoopConfig
    watch: Watch
    feed: Feed
    outbox: Outbox | None
    around: Callable[[CallModel | RunTool], AbstractContextManager[None]]


class ModelCalls:
    """Carries out CallModel. One call is in flight at a time; `partial` is what it has shown so far."""

    def __init__(self, models: Sequence[Model], means: Means) -> None:
        self._models = models
        self._means = means
        self._specs = tuple(means.tools.specs())
        self._streamless = {
            place for place, model in enumerate(models) if isinstance(model, Streams) and not model.streams
        }
        self._names = {spec.name for spec in self._specs}
        self._reading: Reading | None = None
        self._used_ids: set[str] = set()

    @property
    def partial(self) -> Reply:
        """What the call in flight has brought so far."""
        return NO_REPLY if self._reading is None else self._reading.reply()

    def know(self, messages: Sequence[Message]) -> None:
        """The ids of calls in these messages are taken: no call of this turn will have one of them."""
        for message in messages:
            if isinstance(message, AssistantMessage):
                self._used_ids.update(call.id for call in message.tool_calls)

    def let_go(self) -> None:
        """The call in flight is abandoned: nothing that still comes of it counts."""
        if self._reading is not None:
            self._reading.over = True
            self._reading = None

    async def perform(self, effect: CallModel) -> None:
        """Make the call, and report what came of it; nothing where it was abandoned meanwhile."""
        await anyio.lowlevel.checkpoint()  # a model that never waits must not keep others from speaking
        with self._means.around(effect):
            await self._perform(effect)

    async def _perform(self, effect: CallModel) -> None:
        request = self._as_asked(effect.request)
        reading = Reading(effect.attempt, request, self._means.config, self._means.clock.now)
        self._reading = reading
        watched = self._means.watch.begin(reading.due, reading.expire)
        try:
            fault = await self._fault_of(request, reading, watched)
        finally:
            self._means.watch.end(watched)
        if not reading.over:
            self._reading = None
            self._report(reading, request, fault)

    def _as_asked(self, request: Request) -> Request:
        """The request as this model is asked: one that does not stream is never asked to."""
        return evolve(request, stream=False) if request.provider in self._streamless else request

    async def _fault_of(self, request: Request, reading: Reading, watched: Watched) -> Fault | None:
        """Read the reply to its end; what went wrong on the way, if anything did."""
        try:
            with watched.scope:
                await self._read(request, reading)
        except ModelError as error:
            return reading.fault or error.fault  # what the watchdog ended may fail once more while it is closed
        except Exception as error:  # noqa: BLE001  # whatever a port raises is an event
            return reading.fault or Fault(FaultKind.INTERNAL, told(error))
        return reading.fault

    async def _read(self, request: Request, reading: Reading) -> None:
        outbox, now = self._means.outbox, self._means.clock.now
        async with self._models[request.provider].ask(request, self._specs, self._means.config) as deltas:
            async for delta in deltas:
                if reading.over:
                    return
                if not reading.take(delta):
                    continue
                reading.progress_at = now()
                if not reading.began:
                    reading.began = True
                    self._means.feed(StreamStarted, attempt=reading.attempt)
                    if self._reading is not reading:
                        return  # somebody who watches has ended it
                if outbox is not None and isinstance(delta, (TextDelta, ReasoningDelta)):
                    outbox.put(delta)
                    if outbox.full:
                        await self._hold(reading, outbox)

    async def _hold(self, reading: Reading, outbox: Outbox) -> None:
        """The consumer is behind: its slowness is not the model's silence."""
        reading.held = True
        await outbox.drained()
        reading.held = False
        reading.progress_at = self._means.clock.now()

    def _report(self, reading: Reading, request: Request, fault: Fault | None) -> None:
        """Say what came of the call: once there is terminal evidence, what went wrong after it changes nothing."""
        attempt, reply = reading.attempt, reading.reply()
        if reading.finish is not None:
            unreal = fault_of_reply(reply)
            if unreal is None:
                self._means.feed(ModelReplied, attempt=attempt, reply=self._checked(reply, attempt))
            else:
                self._means.feed(ModelFailed, attempt=attempt, fault=unreal, partial=reply)
            return
        fault = fault or Fault(FaultKind.INCOMPLETE, "the stream ended early")
        kind = _kind_of(reading, request, fault)
        self._means.feed(kind, attempt=attempt, fault=fault, partial=reply)

    def _checked(self, reply: Reply, attempt: int) -> Reply:
        """The reply with ids that are unique in this turn, each call told apart as one that can run or cannot."""
        written = written_call(reply, self._names)
        if written is not None:
            reply = evolve(reply, tool_calls=(evolve(written, id=f"call_{attempt}_0"),))
        if not reply.tool_calls:
            return reply
        unique = with_unique_ids(reply.tool_calls, self._used_ids, attempt)
        checked = tuple(map(self._checked_call, unique))
        return reply if checked == reply.tool_calls else evolve(reply, tool_calls=checked)

    def _checked_call(self, call: ToolCall) -> ToolCall:
        try:
            problem = call.problem or self._means.tools.problem(call)
        except Exception as error:  # noqa: BLE001  # whatever a port raises is told to the model
            problem = f"the call could not be checked: {told(error)}"
        return evolve(call, problem=problem) if problem else call


def _kind_of(reading: Reading, request: Request, fault: Fault) -> type[Event]:
    """Whether the call failed, or its stream broke off or fell silent; what is not a stream can only fail."""
    if not request.stream:
        return ModelFailed
    if reading.fault is fault:
        return StreamStalled
    if fault.kind is FaultKind.MALFORMED:
        return ModelFailed  # what cannot be read is not gone on from, however far it came
    broke_off = fault.kind in (FaultKind.DROPPED, FaultKind.INCOMPLETE) or (reading.began and fault.retryable)
    return StreamDropped if broke_off else ModelFailed
