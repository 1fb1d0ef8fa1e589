"""The asynchronous driver: one turn, on asyncio or trio, through anyio.

`feed` is synchronous: an event is decided on at once, whoever brings it, so an interrupt never waits its turn. What is
to be done goes on a list; the turn's own task takes it from there and waits, inside one cancel scope that `Abandon`
cancels. A second task, the watch, sleeps until something is overdue; a chunk costs it nothing but a stored time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import anyio
from attrs import frozen

from fsm_loop.config import LoopConfig
from fsm_loop.core.effects import (
    Abandon,
    CallModel,
    Effect,
    JudgeCut,
    Repair,
    ReserveSlot,
    RunTool,
    Say,
    SetTimer,
    SwitchProvider,
)
from fsm_loop.core.events import (
    CutJudged,
    Event,
    InterruptAsked,
    ProviderFailed,
    ProviderReady,
    RebuildAsked,
    RequestRepaired,
    SlotGranted,
    SlotRefused,
    SteerGiven,
    TimerFired,
    TurnStarted,
)
from fsm_loop.core.faults import Fault, FaultKind, RepairKind
from fsm_loop.core.machine import PAGE
from fsm_loop.core.messages import Message
from fsm_loop.core.rows import Page
from fsm_loop.core.step import Decision, begin_turn, step
from fsm_loop.drive import repairs
from fsm_loop.drive.audience import Audience
from fsm_loop.drive.calls import Means, ModelCalls
from fsm_loop.drive.edge import plain
from fsm_loop.drive.notes import Finished, Outbox, StateChanged
from fsm_loop.drive.result import Entry, TurnResult, entry_of
from fsm_loop.drive.rounds import ToolRounds
from fsm_loop.drive.watch import Watch, told
from fsm_loop.errors import ModelError
from fsm_loop.ports import (
    Chance,
    Clock,
    Compactor,
    Limiter,
    Model,
    Readies,
    Tools,
    Watcher,
)

T = TypeVar("T")


@frozen(kw_only=True)
class Ports:
    """What a turn is driven through: the models in the order of the chain, and the rest of the outside."""

    models: tuple[Model, ...]
    tools: Tools
    clock: Clock
    chance: Chance
    limiter: Limiter | None = None
    compactor: Compactor | None = None
    watchers: tuple[Watcher, ...] = ()


class Driver:
    """One turn, from its first event to its result."""

    def __init__(
        self, ports: Ports, config: LoopConfig, turn_id: str, *, page: Page = PAGE, outbox: Outbox | None = None
    ) -> None:
        self.ports = ports
        self.config = config
        self.turn_id = turn_id
        self.page = page
        self.turn = begin_turn(config, tuple(model.name for model in ports.models), page)
        self.trail: list[Entry] = []
        self.waited_s = 0.0
        self._outbox = outbox
        self._audience = Audience(ports.watchers, turn_id, self._stop_for)
        self._heard: deque[tuple[type[Event], dict[str, Any]]] = deque()
        self._deciding = False
        self._todo: list[Effect] = []
        self._scope: anyio.CancelScope | None = None
        self._watch = Watch(ports.clock, _shortest_patience_s(config))
        means = Means(
            tools=ports.tools,
            clock=ports.clock,
            config=config,
            watch=self._watch,
            feed=self.feed,
            outbox=outbox,
            around=self._audience.around,
        )
        self._calls = ModelCalls(ports.models, means)
        self._rounds = ToolRounds(means)

    # ------------------------------------------------------------ words of the user and the host

    @property
    def over(self) -> bool:
        """Whether the turn has ended."""
        return self.turn.state is self.page.done

    def interrupt(self, issuer: str, reason: str = "") -> None:
        """Stop, now: nothing more is begun, and what was said and done is kept."""
        partial, unstoppable = self._calls.partial, self._rounds.unstoppable
        self.feed(InterruptAsked, issuer=issuer, reason=reason, partial=partial, unstoppable=unstoppable)

    def _stop_for(self, fault: Fault) -> None:
        """Stop, because the turn cannot go on; one that is over stays as it ended."""
        if self.over:
            return
        unstoppable = self._rounds.unstoppable
        self.feed(InterruptAsked, issuer="trail", fault=fault, partial=self._calls.partial, unstoppable=unstoppable)

    def steer(self, text: str, *, now: bool = False) -> None:
        """A message during the turn."""
        self.feed(SteerGiven, text=text, now=now, partial=self._calls.partial)

    def rebuild(self, messages: Sequence[Message]) -> None:
        """New messages are to stand before this turn's own."""
        self._calls.know(messages)
        self.feed(RebuildAsked, messages=tuple(messages), partial=self._calls.partial)

    # ------------------------------------------------------------ the turn

    async def run(self, messages: Sequence[Message]) -> TurnResult:
        """Drive the turn to its end. What a port raises is an event; only a fault of this package raises here."""
        try:
            await self._driven(messages)
        except BaseException as error:
            self._end_for(error)
            raise
        finally:
            self._audience.closed(self.turn)
        return self.result()

    async def _driven(self, messages: Sequence[Message]) -> None:
        failure: BaseException | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(self._watch.run)
            try:
                self.begin(messages)
                await self._work()
            except anyio.get_cancelled_exc_class():
                raise
            except BaseException as error:  # noqa: BLE001  # carried out of the group, so that it stays one exception
                failure = error
            group.cancel_scope.cancel()
        if failure is not None:
            raise failure

    def begin(self, messages: Sequence[Message]) -> None:
        """The turn has its messages; one that has begun, or is over, stays as it is."""
        if self.turn.state is self.page.start:
            self._calls.know(messages)
            self.feed(TurnStarted, messages=tuple(messages))

    def _end_for(self, error: BaseException) -> None:
        """The turn is over, because of what was raised through it."""
        if self.over:
            return
        if isinstance(error, anyio.get_cancelled_exc_class()):
            self.interrupt("cancelled")
        elif isinstance(error, Exception):
            self.interrupt("driver", repr(error))
        else:
            self.interrupt(type(error).__name__)

    def feed(self, kind: type[Event], **facts: Any) -> None:
        """Decide on one event; one that a watcher brings waits until the decision before it has been told to all."""
        self._heard.append((kind, facts))
        if self._deciding:
            return
        self._deciding = True
        try:
            while self._heard:
                kind, facts = self._heard.popleft()
                self._decide(kind, facts)
        finally:
            self._deciding = False

    def _decide(self, kind: type[Event], facts: dict[str, Any]) -> None:
        """Decide, tell whoever watches, and put what is to be done on the list."""
        event = kind(at=self.ports.clock.now(), chance=self.ports.chance.draw(), **facts)
        if not self.trail:
            self._audience.opened(self.turn, self.page)
        decision = step(self.turn, event, self.page)
        self.turn = decision.turn
        self._record(decision)
        for effect in decision.effects:
            self._take(effect)
        if self.over and self._outbox is not None and decision.before is not self.page.done:
            self._outbox.put(Finished(self.result()))
            self._outbox.close()

    def _record(self, decision: Decision) -> None:
        seq = len(self.trail)
        self.trail.append(entry_of(seq, decision))
        self._audience.saw(seq, decision)
        if self._outbox is not None and not decision.late and decision.before is not self.page.done:
            waits = [effect.delay_s for effect in decision.effects if isinstance(effect, SetTimer)]
            before, after = decision.before.name.lower(), decision.turn.state.name.lower()
            self._outbox.put(StateChanged(before, decision.name, after, decision.moved, sum(waits)))

    def _take(self, effect: Effect) -> None:
        match effect:
            case Say(note):
                if self._outbox is not None:
                    self._outbox.put(note)
            case Abandon():
                self._let_go()
            case CallModel() | JudgeCut() | Repair() | ReserveSlot() | RunTool() | SetTimer() | SwitchProvider():
                self._todo.append(effect)

    def _let_go(self) -> None:
        self._todo.clear()
        self._calls.let_go()
        self._rounds.let_go()
        if self._scope is not None:
            self._scope.cancel()

    async def _work(self) -> None:
        while self._todo:
            effects, self._todo = self._todo, []
            if self._answered_at_once(effects[0]):
                continue
            with anyio.CancelScope() as self._scope:
                await self._perform(effects)
            self._scope = None

    def _answered_at_once(self, effect: Effect) -> bool:
        """Answer what nobody outside has to be asked for; whether the effect was such a one."""
        match effect:
            case JudgeCut(attempt):
                self.feed(CutJudged, attempt=attempt)
            case ReserveSlot(attempt) if self.ports.limiter is None:
                self.feed(SlotGranted, attempt=attempt)
            case _:
                return False
        return True

    async def _perform(self, effects: list[Effect]) -> None:
        match effects[0]:
            case ReserveSlot() as effect:
                await self._reserve(effect)
            case CallModel() as effect:
                await self._calls.perform(effect)
            case RunTool():
                await self._rounds.perform([effect for effect in effects if isinstance(effect, RunTool)])
            case SetTimer() as effect:
                await self._wait(effect)
            case Repair() as effect:
                await self._repair(effect)
            case SwitchProvider() as effect:
                await self._switch(effect)

    def result(self) -> TurnResult:
        """The end of the turn; the turn must be over."""
        record = self.turn.record
        end = record.end
        if end is None:
            msg = "the turn has not ended"
            raise RuntimeError(msg)
        return TurnResult(
            turn_id=self.turn_id,
            outcome=end.outcome,
            text=end.text,
            messages=plain(record.prompt + record.said),
            exhausted=end.exhausted,
            fault=end.fault,
            last_state=next((each.before for each in reversed(self.trail) if each.before != "done"), "ready"),
            usage=record.usage,
            llm_calls=record.sent,
            counters={each.name: record.count(each) for each in self.page.counters},
            pending_steer=record.steers,
            issuer=end.issuer,
            reason=end.reason,
            waited_s=self.waited_s,
            trail=tuple(self.trail),
            trail_faults=tuple(self._audience.faults),
        )

    # ------------------------------------------------------------ waits, slots, providers, repairs

    async def _reserve(self, effect: ReserveSlot) -> None:
        limiter, wait_s = self.ports.limiter, 0.0
        if limiter is not None:
            try:
                asked = partial(limiter.reserve, self._name(effect.provider), self.ports.clock.now())
                wait_s = await self._within(self.config.read_timeout_s, asked)
            except Exception as error:  # noqa: BLE001  # whatever a port raises is an event
                fault = Fault(FaultKind.NO_SLOT, told(error), should_retry=False)
                self.feed(SlotRefused, attempt=effect.attempt, fault=fault)
                return
        if wait_s > 0:
            fault = Fault(FaultKind.NO_SLOT, f"free in {wait_s:g} s", retry_after_s=wait_s)
            self.feed(SlotRefused, attempt=effect.attempt, fault=fault)
        else:
            self.feed(SlotGranted, attempt=effect.attempt)

    async def _wait(self, effect: SetTimer) -> None:
        since = self.ports.clock.now()
        try:
            await self.ports.clock.sleep_until(since + effect.delay_s)
        finally:
            self.waited_s += self.ports.clock.now() - since
        self.feed(TimerFired, attempt=effect.attempt)

    async def _switch(self, effect: SwitchProvider) -> None:
        model = self.ports.models[effect.provider]
        fault = await self._guarded(model.ready) if isinstance(model, Readies) else None
        if fault is None:
            self.feed(ProviderReady, attempt=effect.attempt)
        else:
            self.feed(ProviderFailed, attempt=effect.attempt, fault=fault)

    async def _within(self, limit_s: float, port: Callable[[], Awaitable[T]]) -> T:
        """What the port gives; raises TimeoutError where it gives nothing in time, so that no port holds a turn."""
        due = self.ports.clock.now() + limit_s
        watched = self._watch.begin(lambda: due)
        try:
            with watched.scope:
                return await port()
        finally:
            self._watch.end(watched)
        raise TimeoutError(f"no answer after {limit_s:g} s")

    async def _guarded(self, port: Callable[[], Awaitable[None]]) -> Fault | None:
        try:
            await self._within(self.config.first_token_timeout_s, port)
        except ModelError as error:
            return error.fault
        except Exception as error:  # noqa: BLE001  # whatever a port raises is an event
            return Fault(FaultKind.NOT_READY, told(error))
        return None

    async def _repair(self, effect: Repair) -> None:
        try:
            facts = await self._repaired(effect)
        except Exception:  # noqa: BLE001  # a repair that fails has changed nothing
            facts = repairs.NO_CHANGE
        if not facts["changed"]:
            facts = repairs.NO_CHANGE
        self.feed(RequestRepaired, attempt=effect.attempt, **facts)

    async def _repaired(self, effect: Repair) -> repairs.Facts:
        match effect.kind:
            case RepairKind.COMPACT:
                return await self._within(
                    self.config.call_deadline_s, partial(repairs.compact, effect, self.ports.compactor)
                )
            case RepairKind.REFRESH_CREDENTIAL:
                model = self.ports.models[effect.request.provider]
                return await self._within(self.config.read_timeout_s, partial(repairs.refresh_credential, model))
            case kind:
                return repairs.PLAIN[kind](effect)

    def _name(self, provider: int) -> str:
        return self.ports.models[provider].name


def _shortest_patience_s(config: LoopConfig) -> float:
    return min(config.linger_s, config.stale_after_s, config.first_token_timeout_s, config.read_timeout_s)
