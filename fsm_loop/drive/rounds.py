"""The tools' side of a turn: a round of calls is run, each with one outcome whatever its tool does."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import anyio

from fsm_loop.core.effects import RunTool
from fsm_loop.core.events import ToolReturned
from fsm_loop.core.messages import ToolCall, ToolStatus
from fsm_loop.drive.calls import Means
from fsm_loop.drive.notes import ToolFinished, ToolStarted
from fsm_loop.drive.watch import is_cancelled, told
from fsm_loop.ports import ToolOutcome


class ToolRounds:
    """Carries out RunTool, at most `tool_workers` at once."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._running: dict[str, ToolCall] = {}
        self._waiting: deque[RunTool] = deque()

    @property
    def unstoppable(self) -> frozenset[str]:
        """The calls that run in a thread now, so that nobody can know what comes of them when they are let go."""
        return frozenset(id_ for id_, call in self._running.items() if self._in_thread(call))

    def _in_thread(self, call: ToolCall) -> bool:
        """Whether nobody can stop the call; what cannot be asked is taken for one that cannot be stopped."""
        try:
            return self._means.tools.in_thread(call.name)
        except Exception:  # noqa: BLE001  # an interrupt must go through, whatever a port raises
            return True

    def let_go(self) -> None:
        """The round is abandoned: nothing that still comes of it counts."""
        self._running.clear()
        self._waiting.clear()

    async def perform(self, effects: Sequence[RunTool]) -> None:
        """Run the calls, begun in the order in which they were asked for; each result is reported as it comes."""
        self._waiting.extend(effects)
        workers = min(self._means.config.tool_workers, len(effects))
        if workers == 1:
            await self._run_waiting()
            return
        async with anyio.create_task_group() as group:
            for _ in range(workers):
                group.start_soon(self._run_waiting)

    async def _run_waiting(self) -> None:
        while self._waiting:
            effect = self._waiting.popleft()
            with self._means.around(effect):
                await self._run(effect)

    async def _run(self, effect: RunTool) -> None:
        call = effect.call
        if self._means.outbox is not None:
            self._means.outbox.put(ToolStarted(call))
        self._running[call.id] = call
        outcome = await self._outcome(call)
        if self._running.pop(call.id, None) is None:
            return  # let go meanwhile
        if self._means.outbox is not None:
            self._means.outbox.put(ToolFinished(call, outcome.text, outcome.status))
        self._means.feed(
            ToolReturned,
            attempt=effect.attempt,
            call_id=call.id,
            text=outcome.text,
            status=outcome.status,
            stop=outcome.stop,
            unstoppable=self.unstoppable if outcome.stop else (),
        )

    async def _outcome(self, call: ToolCall) -> ToolOutcome:
        """The tool's outcome, whatever it does: return, raise, take too long, cancel itself."""
        timeout_s = self._means.config.tool_timeout_s
        if timeout_s is None:
            return await self._ran(call)
        due = self._means.clock.now() + timeout_s
        watched = self._means.watch.begin(lambda: due)
        try:
            with watched.scope:
                return await self._ran(call)
        finally:
            self._means.watch.end(watched)
        status = ToolStatus.UNKNOWN if self._in_thread(call) else ToolStatus.ERROR
        return ToolOutcome(f"timed out: no result after {timeout_s:g} s", status)

    async def _ran(self, call: ToolCall) -> ToolOutcome:
        try:
            outcome: object = await self._means.tools.run(call)
        except (Exception, SystemExit) as error:  # noqa: BLE001  # the model is told, and may do something about it
            return ToolOutcome(f"the tool failed: {told(error)}", ToolStatus.ERROR)
        except anyio.get_cancelled_exc_class():
            if is_cancelled():
                raise
            return ToolOutcome("the tool failed: it cancelled itself", ToolStatus.ERROR)
        if isinstance(outcome, ToolOutcome):
            return outcome
        returned = type(outcome).__name__
        return ToolOutcome(f"the tool failed: its adapter returned {returned}, not an outcome", ToolStatus.ERROR)
