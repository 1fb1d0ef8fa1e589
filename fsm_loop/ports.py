"""What the outside must provide, one small Protocol each.

Whoever provides one is an adapter. Anything that goes wrong in an adapter comes back to the turn as an event: a model
raises ModelError with a fault in our words, a tool's exception becomes its error result. An adapter makes no retries
of its own, lets itself be cancelled at any moment, and emits nothing after that.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

from attrs import field, frozen

from fsm_loop.config import LoopConfig
from fsm_loop.core.effects import CallModel, Request, RunTool
from fsm_loop.core.faults import Fault
from fsm_loop.core.messages import Finish, Message, ToolCall, ToolStatus, Usage
from fsm_loop.core.rows import Page
from fsm_loop.core.step import Decision, Turn


@frozen
class TextDelta:
    """A stretch of text that the model says."""

    text: str


@frozen
class ReasoningDelta:
    """A stretch of what the model thinks."""

    text: str


@frozen
class CallDelta:
    """A piece of a tool call: `slot` tells the calls of one reply apart; `arguments` are added up, the rest is set."""

    slot: int
    id: str = ""
    name: str = ""
    arguments: str = ""


@frozen
class Stopped:
    """Terminal evidence: the provider says that the reply has ended, and how."""

    finish: Finish


@frozen
class Meta:
    """What else is known of the reply: usage so far, the provider's own items, its ids."""

    usage: Usage | None = None
    replay: tuple[Any, ...] = ()
    model: str = ""
    request_id: str = ""


Delta = TextDelta | ReasoningDelta | CallDelta | Stopped | Meta


@frozen
class ToolSpec:
    """A tool as it is offered to a model; `parameters` is its JSON Schema."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = field(factory=lambda: {"type": "object", "properties": {}})


@frozen
class ToolOutcome:
    """What a tool call came to; `stop` says why the turn must not go on, empty when it may."""

    text: str
    status: ToolStatus = ToolStatus.OK
    stop: str = ""


@runtime_checkable
class Model(Protocol):
    """One model behind one endpoint."""

    @property
    def name(self) -> str:
        """What it is called in trails and results."""
        ...

    def ask(
        self, request: Request, tools: Sequence[ToolSpec], config: LoopConfig
    ) -> AbstractAsyncContextManager[AsyncIterator[Delta]]:
        """One request on the wire; leaving the context closes it. Raises ModelError, before or between deltas."""
        ...


@runtime_checkable
class Streams(Protocol):
    """A model that says whether it is to be asked for a stream; one that does not say so is."""

    @property
    def streams(self) -> bool:
        """Whether its replies are streamed; if not, each comes in one body."""
        ...


@runtime_checkable
class Refreshes(Protocol):
    """A model whose credential can be refreshed."""

    async def refresh(self) -> bool:
        """Take a fresh credential; whether there was another one to take."""
        ...


@runtime_checkable
class Readies(Protocol):
    """A model that must be made ready before it is asked."""

    async def ready(self) -> None:
        """Make it ready; raises ModelError where it cannot be."""
        ...


@runtime_checkable
class Closes(Protocol):
    """A model that holds connections."""

    async def aclose(self) -> None:
        """Close them; a model that is asked again opens new ones."""
        ...


class Tools(Protocol):
    """What a model may ask for."""

    def specs(self) -> Sequence[ToolSpec]:
        """The tools on offer, in a stable order."""
        ...

    def problem(self, call: ToolCall) -> str:
        """Why this call cannot be run, for the model to read; empty when it can."""
        ...

    def in_thread(self, name: str) -> bool:
        """Whether the tool runs in a thread, so that it cannot be stopped."""
        ...

    async def run(self, call: ToolCall) -> ToolOutcome:
        """Run it. What it raises becomes an error result."""
        ...


class Clock(Protocol):
    """The time: monotonic seconds, from any beginning."""

    def now(self) -> float:
        """The time now."""
        ...

    async def sleep_until(self, moment: float) -> None:
        """Wait until *moment*; for ever where it is infinite."""
        ...


class Chance(Protocol):
    """Chance, so that a turn can be told again with the same luck."""

    def draw(self) -> float:
        """A number in [0, 1)."""
        ...


class Limiter(Protocol):
    """Leave to send, given or refused on this side of the wire."""

    async def reserve(self, provider: str, at: float) -> float:
        """Seconds to wait; 0 means that the slot is reserved and the request may go out now."""
        ...


class Compactor(Protocol):
    """Makes a request shorter."""

    async def compact(self, messages: Sequence[Message], fault: Fault) -> Sequence[Message]:
        """The messages, made shorter; the same ones where that cannot be."""
        ...


class Watcher(Protocol):
    """Sees each decision of a turn, in order."""

    def saw(self, turn_id: str, seq: int, decision: Decision) -> None:
        """One decision was made. What this raises never changes the turn, unless it is TrailFailed: that ends it."""
        ...


@runtime_checkable
class Follows(Protocol):
    """A watcher that is also told where a turn begins and where it is left."""

    def opened(self, turn_id: str, turn: Turn, page: Page) -> None:
        """A turn is about to begin: its record holds the config and the names of the providers."""
        ...

    def closed(self, turn_id: str, turn: Turn) -> None:
        """Nothing more will come of the turn; its record holds the end."""
        ...


@runtime_checkable
class Surrounds(Watcher, Protocol):
    """A watcher that stands around each request and each tool call, in the task that carries it out."""

    def around(self, turn_id: str, effect: CallModel | RunTool) -> AbstractContextManager[None]:
        """Entered before the effect is carried out, and left when that is over, with whatever came of it told.

        What it sets in context variables holds for the request, or the tool. It is never told of an exception, and
        what it raises never changes the turn.
        """
        ...


request_headers: ContextVar[Mapping[str, str]] = ContextVar("fsm_loop_request_headers", default=MappingProxyType({}))
"""Headers that every HTTP request made from here carries besides its own, such as `traceparent`."""
