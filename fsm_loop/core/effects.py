"""What to do: the imperatives that a driver carries out through the ports, each answered by an event."""

from __future__ import annotations

from attrs import frozen

from fsm_loop.core.faults import Fault, RepairKind
from fsm_loop.core.messages import Message, ToolCall


@frozen
class Request:
    """One request, ready to go out, but for the words of a provider's own protocol.

    `provider` is a place in the chain (0 is the primary); `tools` says whether tools are offered; `output_limit`
    is in tokens, None for the provider's own; `less_reasoning` asks for as little reasoning as there can be;
    `without` names parameters that this provider does not know; `time_left_s` bounds the call where the turn's
    own seconds are limited.
    """

    provider: int
    messages: tuple[Message, ...]
    tools: bool = True
    output_limit: int | None = None
    less_reasoning: bool = False
    stream: bool = True
    without: frozenset[str] = frozenset()
    time_left_s: float | None = None


@frozen
class Effect:
    """Something to do outside."""


@frozen
class ReserveSlot(Effect):
    """Ask the limiter for leave to send: answered by SlotGranted or SlotRefused."""

    attempt: int
    provider: int


@frozen
class CallModel(Effect):
    """Send the request: answered by StreamStarted, then ModelReplied, ModelFailed, StreamDropped or StreamStalled."""

    attempt: int
    request: Request


@frozen
class JudgeCut(Effect):
    """Decide on the cut reply: answered by CutJudged, at once."""

    attempt: int


@frozen
class RunTool(Effect):
    """Run one tool: answered by ToolReturned."""

    attempt: int
    call: ToolCall


@frozen
class SetTimer(Effect):
    """Wait: answered by TimerFired after `delay_s` seconds; `reason` is for whoever watches."""

    attempt: int
    delay_s: float
    reason: str


@frozen
class Repair(Effect):
    """Change the request so that it can succeed: answered by RequestRepaired."""

    attempt: int
    kind: RepairKind
    fault: Fault
    request: Request
    prompt: tuple[Message, ...]
    said: tuple[Message, ...]


@frozen
class SwitchProvider(Effect):
    """Make another provider ready: answered by ProviderReady or ProviderFailed."""

    attempt: int
    provider: int


@frozen
class Abandon(Effect):
    """Let go of whatever is in flight for this attempt; nothing that still comes of it counts."""

    attempt: int


@frozen
class Withdrawn:
    """What was shown is taken back; it is told again."""

    text: str


@frozen
class Reconnecting:
    """The stream broke off with a tool call in flight; it is asked for again."""

    reason: str


@frozen
class Say(Effect):
    """Tell whoever follows the turn."""

    note: Withdrawn | Reconnecting


@frozen
class Finish(Effect):
    """The turn is over; the record holds its end."""

    outcome: str
