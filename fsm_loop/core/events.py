"""What happened. Every event is stamped with the time and with one number of chance, for nothing here has either.

A `PortEvent` answers an attempt and carries its id: one whose attempt is no longer current is late, and changes
nothing. The others are words of the user or the host.
"""

from __future__ import annotations

import re

from attrs import field, frozen

from fsm_loop.core.faults import Fault
from fsm_loop.core.messages import NO_REPLY, Message, Reply, ToolStatus


@frozen(kw_only=True)
class Event:
    """Something that happened: `at` in monotonic seconds, `chance` in [0, 1)."""

    at: float = 0.0
    chance: float = 0.5


@frozen(kw_only=True)
class PortEvent(Event):
    """What came of an effect: the answer to attempt number `attempt`."""

    attempt: int


@frozen(kw_only=True)
class CallFailed(PortEvent):
    """A call came to nothing, or to a part: what is common to the three ways."""

    fault: Fault
    partial: Reply = NO_REPLY


# ---------------------------------------------------------------- words of the user and the host


@frozen(kw_only=True)
class TurnStarted(Event):
    """The user has spoken: the messages so far, the user's last."""

    messages: tuple[Message, ...]


@frozen(kw_only=True)
class InterruptAsked(Event):
    """Someone asks to stop; `partial` is what was shown of the reply in flight, `unstoppable` are running calls.

    With a `fault` the turn is not stopped for anybody's wish: it cannot go on, and has failed.
    """

    issuer: str = "user"
    reason: str = ""
    fault: Fault | None = None
    partial: Reply = NO_REPLY
    unstoppable: frozenset[str] = field(default=frozenset(), converter=frozenset)


@frozen(kw_only=True)
class SteerGiven(Event):
    """A message during the turn; with `now`, the call in flight is abandoned for it."""

    text: str
    now: bool = False
    partial: Reply = NO_REPLY


@frozen(kw_only=True)
class RebuildAsked(Event):
    """The host has new messages to stand before this turn's own: the request is to be built again."""

    messages: tuple[Message, ...]
    partial: Reply = NO_REPLY


# ---------------------------------------------------------------- answers of the ports


@frozen(kw_only=True)
class SlotGranted(PortEvent):
    """The limiter lets the request go out."""


@frozen(kw_only=True)
class SlotRefused(CallFailed):
    """The limiter wants the request to wait, for its fault's `retry_after_s`: it was not sent."""


@frozen(kw_only=True)
class StreamStarted(PortEvent):
    """The model's first sign of life."""


@frozen(kw_only=True)
class ModelReplied(PortEvent):
    """The reply is in, as far as it goes."""

    reply: Reply


@frozen(kw_only=True)
class ModelFailed(CallFailed):
    """The call failed."""


@frozen(kw_only=True)
class StreamDropped(CallFailed):
    """The stream broke off: a transport error, or an end without terminal evidence."""


@frozen(kw_only=True)
class StreamStalled(CallFailed):
    """The watchdog saw no progress for too long, or the call passed its deadline."""


@frozen(kw_only=True)
class CutJudged(PortEvent):
    """The cut reply is to be decided on."""


@frozen(kw_only=True)
class ToolReturned(PortEvent):
    """One tool call has its result; `stop` says why the turn must not go on, empty when it may.

    `unstoppable` are other calls that still run then, and that nobody can stop.
    """

    call_id: str
    text: str
    status: ToolStatus = ToolStatus.OK
    stop: str = ""
    unstoppable: frozenset[str] = field(default=frozenset(), converter=frozenset)


@frozen(kw_only=True)
class TimerFired(PortEvent):
    """The time to wait has passed."""


@frozen(kw_only=True)
class RequestRepaired(PortEvent):
    """The repair is over; one that did not change the request has failed.

    `prompt` and `said` replace what was there, None where they stay; `limit` is a lower output limit.
    """

    changed: bool
    prompt: tuple[Message, ...] | None = None
    said: tuple[Message, ...] | None = None
    limit: int | None = None
    parameter: str = ""


@frozen(kw_only=True)
class ProviderReady(PortEvent):
    """The next provider can be asked."""


@frozen(kw_only=True)
class ProviderFailed(CallFailed):
    """The next provider could not be made ready."""


_WORD = re.compile(r"(?<!^)(?=[A-Z])")


def name_of(event: type[Event]) -> str:
    """The event's name as rows, trails and diagrams write it: `model_replied`."""
    return _WORD.sub("_", event.__name__).lower()
