"""One model call while it is read: what has come so far, when it last made progress, and when it is overdue."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from attrs import evolve

from fsm_loop.config import LoopConfig
from fsm_loop.core.effects import Request
from fsm_loop.core.faults import Fault, FaultKind
from fsm_loop.core.messages import NO_USAGE, Finish, Reply, ToolCall, Usage
from fsm_loop.ports import CallDelta, Delta, Meta, ReasoningDelta, Stopped, TextDelta


class _Slot:
    """A tool call while its pieces come in."""

    __slots__ = ("arguments", "id", "name")

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []


class Reading:
    """A call in flight. The hot loop appends to `texts` and stores `progress_at`; all else is done once a call."""

    def __init__(self, attempt: int, request: Request, config: LoopConfig, now: Callable[[], float]) -> None:
        started_at = now()
        self.attempt = attempt
        self.texts: list[str] = []
        self.reasonings: list[str] = []
        self.slots: dict[int, _Slot] = {}
        self.finish: Finish | None = None
        self.usage: Usage = NO_USAGE
        self.meta = Meta()
        self.started_at = started_at
        self.progress_at = started_at
        self.began = False
        self.held = False  # the consumer is behind: silence is not the model's
        self.over = False  # abandoned: nothing that still comes counts
        self.fault: Fault | None = None  # why the watchdog ended it
        self._now = now
        self._config = config
        self._streams = request.stream
        limit_s = request.time_left_s
        self._deadline_s = config.call_deadline_s if limit_s is None else min(config.call_deadline_s, limit_s)

    def take(self, delta: Delta) -> bool:
        """Take the delta in; whether it is progress, which is to say whether the model said anything."""
        if isinstance(delta, TextDelta):
            self.texts.append(delta.text)
            return bool(delta.text)
        if isinstance(delta, CallDelta):
            return self._take_call(delta)
        if isinstance(delta, ReasoningDelta):
            self.reasonings.append(delta.text)
            return bool(delta.text)
        if isinstance(delta, Stopped):
            self.finish = delta.finish
            self.progress_at = self._now()
            return False
        self._take_meta(delta)
        return False

    def _take_call(self, delta: CallDelta) -> bool:
        slot = self.slots.get(delta.slot)
        if slot is None:
            slot = self.slots[delta.slot] = _Slot()
        slot.id = delta.id or slot.id
        slot.name = delta.name or slot.name
        if delta.arguments:
            slot.arguments.append(delta.arguments)
        return bool(delta.id or delta.name or delta.arguments)

    def _take_meta(self, meta: Meta) -> None:
        """Later words replace earlier ones, replay items add up."""
        if meta.usage is not None:
            self.usage = meta.usage
        self.meta = Meta(
            replay=(*self.meta.replay, *meta.replay),
            model=meta.model or self.meta.model,
            request_id=meta.request_id or self.meta.request_id,
        )

    def reply(self) -> Reply:
        """What has come so far, as a reply."""
        return Reply(
            text="".join(self.texts),
            tool_calls=tuple(self._call(number, slot) for number, slot in enumerate(self.slots.values())),
            reasoning="".join(self.reasonings),
            finish=self.finish,
            usage=self.usage,
            replay=self.meta.replay,
            model=self.meta.model,
            request_id=self.meta.request_id,
        )

    def _call(self, number: int, slot: _Slot) -> ToolCall:
        return ToolCall(slot.id or f"call_{self.attempt}_{number}", slot.name, "".join(slot.arguments))

    def due(self) -> float:
        """When this call is overdue if nothing more comes of it, on the clock of the turn."""
        if self.over:
            return math.inf
        config, deadline = self._config, self.started_at + self._deadline_s
        if self.held:
            return deadline
        if self.finish is not None:
            return min(self.progress_at + config.linger_s, deadline)
        return min(self.progress_at + self._patience_s(), deadline)

    def _patience_s(self) -> float:
        config = self._config
        if not self._streams:
            return config.read_timeout_s
        return config.stale_after_s if self.began else config.first_token_timeout_s

    def expire(self, now: float) -> None:
        """The watchdog ends the call: it is silent, or it has lasted too long."""
        if now >= self.started_at + self._deadline_s:
            self.fault = Fault(FaultKind.TIMEOUT, f"no end after {self._deadline_s:g} s")
        elif not self._streams:
            self.fault = Fault(FaultKind.STALLED, f"no reply after {self._config.read_timeout_s:g} s")
        elif self.began:
            self.fault = Fault(FaultKind.STALLED, f"no progress for {self._config.stale_after_s:g} s")
        else:
            self.fault = Fault(FaultKind.STALLED, f"no first token after {self._config.first_token_timeout_s:g} s")


def with_unique_ids(calls: Iterable[ToolCall], used: set[str], attempt: int) -> tuple[ToolCall, ...]:
    """The calls with each id used for the first time in this turn; *used* learns them."""
    unique = []
    for number, call in enumerate(calls):
        fresh = call
        while fresh.id in used:
            fresh = evolve(call, id=f"{fresh.id}_{attempt}_{number}")
        used.add(fresh.id)
        unique.append(fresh)
    return tuple(unique)
