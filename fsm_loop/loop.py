"""The loop: what a service builds once, and asks for one turn after another."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self

import anyio
import sniffio

from fsm_loop.config import LoopConfig
from fsm_loop.core.machine import PAGE
from fsm_loop.core.messages import Message, SystemMessage
from fsm_loop.core.rows import Page
from fsm_loop.drive.aio import Driver, Ports
from fsm_loop.drive.clock import MonotonicClock, SystemChance
from fsm_loop.drive.edge import Prompt, typed
from fsm_loop.drive.notes import Note, Outbox
from fsm_loop.drive.result import TurnResult
from fsm_loop.errors import FsmLoopError, TurnEnded
from fsm_loop.limiter import SlidingWindow
from fsm_loop.ports import Chance, Clock, Closes, Compactor, Limiter, Model, Tools, Watcher
from fsm_loop.tools.functions import FunctionTools


class RunningTurn:
    """A turn while it runs: iterate over it for what happens; interrupt it, steer it, rebuild its request.

    All of it belongs to the event loop's own thread.
    """

    def __init__(self, driver: Driver, outbox: Outbox) -> None:
        self._driver = driver
        self._outbox = outbox

    def __aiter__(self) -> AsyncIterator[Note]:
        """What happens, from the first state to Finished."""
        return self

    async def __anext__(self) -> Note:
        """The next thing that happens."""
        note = await self._outbox.take()
        if note is None:
            raise StopAsyncIteration
        return note

    @property
    def turn_id(self) -> str:
        """The id under which trails and logs have this turn."""
        return self._driver.turn_id

    @property
    def state(self) -> str:
        """Where the turn stands."""
        return self._driver.turn.state.name.lower()

    @property
    def result(self) -> TurnResult:
        """The end of the turn; raises FsmLoopError while it runs."""
        if not self._driver.over:
            msg = "the turn is still running; its result comes with Finished"
            raise FsmLoopError(msg)
        return self._driver.result()

    def interrupt(self, issuer: str = "user", reason: str = "") -> None:
        """Stop the turn now; one that is over stays as it ended."""
        self._driver.interrupt(issuer, reason)

    def steer(self, text: str, *, now: bool = False) -> None:
        """Say something to the model during the turn: with the next request, or *now*, abandoning the one in flight.

        Raises TurnEnded when the turn is over: the text was not taken.
        """
        self._alive()
        self._driver.steer(text, now=now)

    def rebuild(self, messages: Prompt) -> None:
        """Put new messages before this turn's own, and ask again; raises TurnEnded when the turn is over."""
        self._alive()
        self._driver.rebuild(typed(messages))

    def _alive(self) -> None:
        if self._driver.over:
            msg = f"the turn {self.turn_id} is over ({self.result.outcome}); start another one with this text"
            raise TurnEnded(msg)


class Loop:
    """An agent loop: a model, what it falls back to, its tools and its limits.

    `tools` are plain functions with type hints, or an adapter of the Tools port. Raises ToolError for a function that
    cannot be a tool.
    """

    def __init__(  # noqa: PLR0913  # each is a port or a wish of the user's
        self,
        *,
        model: Model,
        fallbacks: Sequence[Model] = (),
        tools: Iterable[Callable[..., Any]] | Tools = (),
        config: LoopConfig | None = None,
        system: str | None = None,
        watchers: Iterable[Watcher] = (),
        limiter: Limiter | None = None,
        compactor: Compactor | None = None,
        clock: Clock | None = None,
        chance: Chance | None = None,
        page: Page = PAGE,
    ) -> None:
        self.config = config or LoopConfig()
        self._system = system
        self._page = page
        self._ports = Ports(
            models=(model, *fallbacks),
            tools=FunctionTools(tools) if isinstance(tools, Iterable) else tools,
            clock=clock or MonotonicClock(),
            chance=chance or SystemChance(),
            limiter=limiter or _limiter(self.config),
            compactor=compactor,
            watchers=tuple(watchers),
        )

    async def run(self, prompt: Prompt) -> TurnResult:
        """One turn, to its end. Raises MessageError for messages that no provider would take; no outcome raises."""
        messages = self._messages(prompt)
        return await self._driver(None).run(messages)

    def run_sync(self, prompt: Prompt) -> TurnResult:
        """One turn, for a program that has no event loop; raises FsmLoopError inside one."""
        try:
            library = sniffio.current_async_library()
        except sniffio.AsyncLibraryNotFoundError:
            return anyio.run(self._run_and_close, prompt)
        msg = f"run_sync was called inside {library}; await loop.run(...) there"
        raise FsmLoopError(msg)

    async def aclose(self) -> None:
        """Close the connections of the models; a loop that is asked again opens new ones."""
        for model in self._ports.models:
            if isinstance(model, Closes):
                await model.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _run_and_close(self, prompt: Prompt) -> TurnResult:
        async with self:
            return await self.run(prompt)

    @asynccontextmanager
    async def stream(self, prompt: Prompt) -> AsyncIterator[RunningTurn]:
        """One turn that is followed while it runs; whoever leaves before its end interrupts it."""
        messages, outbox = self._messages(prompt), Outbox()
        driver = self._driver(outbox)
        driver.begin(messages)
        left: list[BaseException] = []  # carried out of the group, so that each stays one exception
        async with anyio.create_task_group() as group:

            async def carry() -> None:
                try:
                    await driver.run(messages)
                except anyio.get_cancelled_exc_class():
                    raise
                except BaseException as error:  # noqa: BLE001  # see above
                    left.append(error)
                    group.cancel_scope.cancel()

            group.start_soon(carry)
            try:
                yield RunningTurn(driver, outbox)
            except anyio.get_cancelled_exc_class():
                raise
            except BaseException as error:  # noqa: BLE001  # see above
                left.append(error)
            finally:
                if not driver.over:
                    driver.interrupt("consumer", "left before the end")
        if left:
            raise left[0]

    def _driver(self, outbox: Outbox | None) -> Driver:
        return Driver(self._ports, self.config, uuid.uuid4().hex, page=self._page, outbox=outbox)

    def _messages(self, prompt: Prompt) -> tuple[Message, ...]:
        messages = typed(prompt)
        return messages if self._system is None else (SystemMessage(self._system), *messages)


def _limiter(config: LoopConfig) -> Limiter | None:
    if config.requests_per_minute is None:
        return None
    return SlidingWindow(config.requests_per_minute, margin_s=config.limiter_margin_s)
