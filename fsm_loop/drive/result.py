"""How a turn ended, for whoever asked for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from fsm_loop.core.events import Event
from fsm_loop.core.faults import Fault
from fsm_loop.core.messages import Usage
from fsm_loop.core.record import Spent
from fsm_loop.core.step import Decision, Moved
from fsm_loop.errors import TurnFailed


@frozen
class Entry:
    """One decision as the trail keeps it: what happened, which row fired, what moved, where it led."""

    seq: int
    at: float
    before: str
    event: Event
    row: str
    answers: tuple[tuple[str, bool], ...]
    moved: tuple[Moved, ...]
    effects: tuple[str, ...]
    after: str


@frozen
class TurnResult:
    """The end of a turn: how, why, and all that is worth keeping of it.

    `outcome` is one of completed, partial, refused, exhausted, interrupted, failed. `messages` are OpenAI-shaped and
    always valid to send on. `exhausted` names the counter that was spent, if one ended it. `pending_steer` holds
    what the user said and no request has held.
    """

    turn_id: str
    outcome: str
    text: str
    messages: list[dict[str, Any]] = field(repr=False)
    exhausted: Spent | None
    fault: Fault | None
    last_state: str
    usage: Usage
    llm_calls: int
    counters: Mapping[str, float]
    pending_steer: tuple[str, ...] = ()
    issuer: str = ""
    reason: str = ""
    waited_s: float = 0.0
    trail: tuple[Entry, ...] = field(default=(), repr=False)
    trail_faults: tuple[str, ...] = ()

    @property
    def output(self) -> str:
        """The text, under the name that other libraries give it."""
        return self.text

    @property
    def path(self) -> list[tuple[str, str, str]]:
        """The way through the states: state, row, state."""
        return [(each.before, each.row, each.after) for each in self.trail]

    @property
    def why(self) -> str:
        """One sentence on how the turn ended."""
        words = [f"The turn ended as {self.outcome} in state {self.last_state}"]
        if self.issuer:
            words.append(f"asked by {self.issuer}" + (f" ({self.reason})" if self.reason else ""))
        if self.exhausted is not None:
            spent = self.exhausted
            words.append(_told(spent))
        if self.fault is not None:
            words.append(self.fault.sentence)
        return "; ".join(words) + "."

    def raise_for_outcome(self) -> TurnResult:
        """This result where the turn completed; raises TurnFailed, which holds it, where it did not."""
        if self.outcome != "completed":
            raise TurnFailed(self)
        return self


def _told(spent: Spent) -> str:
    if spent.cap == 0:
        return f"{spent.counter} is set to 0"
    return f"{spent.counter} was spent ({spent.value:g} of {spent.cap:g})"


def entry_of(seq: int, decision: Decision) -> Entry:
    """The decision as the trail keeps it."""
    return Entry(
        seq=seq,
        at=decision.event.at,
        before=decision.before.name.lower(),
        event=decision.event,
        row=decision.name,
        answers=tuple((str(getattr(guard, "__name__", guard)), answer) for guard, answer in decision.answers),
        moved=decision.moved,
        effects=tuple(type(effect).__name__ for effect in decision.effects),
        after=decision.turn.state.name.lower(),
    )
