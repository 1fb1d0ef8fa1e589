"""From an interrupt to the end nothing is waited for: read off the page, and tried on turns that are walked."""

from __future__ import annotations

from attrs import frozen

from fsm_loop.core.effects import Abandon, Finish
from fsm_loop.core.events import InterruptAsked
from fsm_loop.core.machine import PAGE
from fsm_loop.core.rows import Page, Row
from fsm_loop.core.step import Decision, begin_turn, step
from fsm_loop.prove.places import asks
from fsm_loop.prove.walk import Walk


@frozen
class Stopping:
    """How many states an interrupt ends at once, and a sentence for each that it does not; `tried` on so many turns."""

    states: int
    breaks: tuple[str, ...] = ()
    tried: int = 0

    @property
    def at_once(self) -> bool:
        """Whether an interrupt ends the turn in every state, with nothing to wait for."""
        return not self.breaks

    def __str__(self) -> str:
        """The theorem, to be read."""
        if self.breaks:
            return "\n  ".join(["An interrupt does not always end the turn at once:", *self.breaks])
        tried = f" (tried in {self.tried:,} places of a turn, through `step`)" if self.tried else ""
        return (
            f"An interrupt ends the turn at once: in each of the {self.states} live states its row leads to the end, "
            f"asks nothing, and begins nothing: 0 waits{tried}."
        )


def stopping(page: Page = PAGE, walk: Walk | None = None) -> Stopping:
    """What an interrupt does in every live state of the page, and at every event of a turn that was walked."""
    live = [state for state in page.states if state is not page.done]
    rows = {state: page.groups().get((state, InterruptAsked), []) for state in live}
    breaks = [f"{state.name.lower()}: {why}" for state, group in rows.items() if (why := _why_not(page, group))]
    tried = _tried(walk) if walk else []
    breaks += [f"{one.before.name.lower()}: it did {_done(one)}" for one in tried if not _stops(page, one)]
    return Stopping(len(live), tuple(dict.fromkeys(breaks)), len(tried))


def _why_not(page: Page, group: list[Row]) -> str:
    if not group:
        return "no row hears it"
    if group[0].when:
        return "its first row has a guard"
    if group[0].to is not page.done:
        return f"it leads to {group[0].to.name.lower()}"
    asked = asks(group[0].do)
    if asked is None:
        return "what its row does cannot be read"
    return f"its row may ask for {', '.join(each.__name__ for each in asked)}" if asked else ""


def _tried(walk: Walk) -> list[Decision]:
    """The turn is gone through again, and interrupted in each of its places."""
    turn = begin_turn(walk.config, walk.turn.record.providers)
    tried = [step(turn, InterruptAsked())]
    for event in walk.events[:-1]:
        turn = step(turn, event).turn
        tried.append(step(turn, InterruptAsked()))
    return tried


def _stops(page: Page, decision: Decision) -> bool:
    kinds = [type(each) for each in decision.effects]
    return decision.turn.state is page.done and set(kinds) <= {Abandon, Finish} and kinds.count(Finish) == 1


def _done(decision: Decision) -> str:
    return ", ".join(type(each).__name__ for each in decision.effects) or "nothing"
