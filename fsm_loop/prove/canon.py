"""When two turns have one future: what of a turn its future depends on, and a plain turn that stands for all alike.

The future of a turn is the rows that fire, the effects they ask for and what each invariant says, whatever the
outside sends. It depends on a record through guards, through what actions test before they choose, and through
what the invariants compare. Of these, nothing else is read than what `key_of` holds:

- counts: guards ask only whether one is under its cap, so a count matters, and nothing of how it came about; where
  no row that can still come asks for a counter, its count does not matter any more. Measured counters never fall, and
  what is reported here is nothing or all, so it matters only whether they are spent;
- times and attempt numbers: a port's event is compared with the current attempt for being the same; and no time is
  read but that which is measured;
- texts: guards ask whether there is any, and whether a cut text says again what a piece said or repeats itself. Fresh
  texts are never said before, so the pieces matter by being there, and a cut reply by the answers to these questions;
- the prompt and what has been said go into requests, and into texts of ends; no guard reads them. What is sent is
  compared with what was sent before, of which `Past` keeps whether anything has been added or counted since;
- steers: guards ask whether one waits;
- the fault is read while a request is being repaired, and then for whether another provider may do better; of the
  kinds of repair, one that may lower the output limit can come to something else than the others;
- the shape of requests is read when a cut reply is decided on: the limits and whether less reasoning was asked for;
- after the end, nothing is read but that it is the end.

That the list is complete is not taken on trust: tests take turns that have one key, and compare all that follows.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from enum import Enum
from functools import cache

from attrs import evolve, frozen

from fsm_loop.core import counters as c
from fsm_loop.core import guards as g
from fsm_loop.core.counters import Counter, Counts
from fsm_loop.core.effects import CallModel
from fsm_loop.core.events import CutJudged, RequestRepaired
from fsm_loop.core.faults import RepairKind
from fsm_loop.core.machine import State
from fsm_loop.core.messages import NO_USAGE, Usage
from fsm_loop.core.record import Record, Shape
from fsm_loop.core.rows import Page
from fsm_loop.core.step import Decision, Turn
from fsm_loop.prove import moves
from fsm_loop.prove.moves import QUESTION, Moment
from fsm_loop.prove.places import NOTHING, Waits

Key = tuple[Hashable, ...]
JUDGED = CutJudged(attempt=1)
MEASURED = (c.tokens, c.cost, c.turn_seconds)
REQUESTS = frozenset({c.requests.name, c.slot_waits.name})  # what is counted for a request's sake is no reason for one


@frozen
class Past:
    """What the invariants of a path must know of what came before.

    `changed` says that something was counted or said since the last request; `used` that a request went out for the
    current attempt; `graced` that grace was entered, and `last_word` that its request went out.
    """

    changed: bool = True
    used: bool = False
    graced: bool = False
    last_word: bool = False


@frozen
class Node:
    """A turn, what it waits for, and what must be known of what came before."""

    turn: Turn
    waits: Waits = NOTHING
    past: Past = Past()

    @property
    def state(self) -> Enum:
        """Where the turn stands."""
        return self.turn.state

    @property
    def record(self) -> Record:
        """What the turn knows."""
        return self.turn.record

    @property
    def moment(self) -> Moment:
        """The turn and what it waits for."""
        return Moment(self.turn, self.waits)


def following(before: Node, decision: Decision) -> Node:
    """Where the decision leads."""
    at = moves.after(before.moment, decision)
    old, new, past = before.record, at.turn.record, before.past
    sends = any(isinstance(effect, CallModel) for effect in decision.effects)
    in_grace = at.turn.state is State.GRACE
    counted = any(each.after > each.before and each.counter not in REQUESTS for each in decision.moved)
    fresh = Past(
        changed=not sends and (past.changed or counted or len(new.said) > len(old.said)),
        used=sends or (past.used and new.attempt == old.attempt),
        graced=past.graced or in_grace,
        last_word=past.last_word or (in_grace and sends),
    )
    return Node(at.turn, at.waits, fresh)


def key_of(node: Node, page: Page) -> Key:
    """What the future of the turn depends on, but for what rows count."""
    record = node.record
    if node.state is page.done:
        return (node.state,)
    return (
        node.state,
        node.waits,
        node.past,
        record.provider,
        bool(record.lead.strip()),
        bool(record.pieces),
        _cut_of(record),
        tuple((bool(call.problem), result is None) for call, result in zip(record.calls, record.results, strict=True)),
        bool(record.steers),
        record.shape.output_limit,
        record.shape.less_reasoning,
        record.shape.limits,
        _repair_of(node),
        record.spent is None,
        tuple(each.name for each in MEASURED if not record.has_left(each)),
    )


def _cut_of(record: Record) -> Key | None:
    """The answers to what is asked of a cut reply."""
    if record.cut is None:
        return None
    asked = (g.call_was_cut, g.text_was_cut, g.makes_progress, g.room_to_grow)
    return (*(guard(record, JUDGED) for guard in asked), g.says_again(record), bool(record.cut.text))


def _repair_of(node: Node) -> Key | None:
    fault = node.record.fault
    if fault is None or RequestRepaired not in node.waits:
        return None
    return (fault.falls_back, fault.repair is RepairKind.LOWER_OUTPUT_LIMIT)


def plain(node: Node, counts: Counts) -> Node:
    """The turn that stands for all with this node's key and these counts: with nothing in it that does not matter."""
    record = node.record
    piece = "piece "
    again = record.cut is not None and g.says_again(record)
    spent = {each.name: record.cap(each) or 0 for each in MEASURED if not record.has_left(each)}
    return evolve(
        node,
        turn=Turn(
            node.state,
            record.but(
                counts={**counts, **spent},
                prompt=(QUESTION,) if record.prompt else (),
                said=(),
                attempt=1,  # so that an event of attempt 0 is late
                sent=0,
                lead="lead " if record.lead.strip() else "",
                pieces=(piece,) if record.pieces else (),
                nudge="",
                cut=evolve(record.cut, text=piece) if again and record.cut else record.cut,
                steers=("waiting ",) if record.steers else (),
                shape=Shape(record.shape.output_limit, record.shape.less_reasoning, record.shape.limits),
                fault=record.fault if RequestRepaired in node.waits else None,
                missed=(),
                usage=_usage(spent),
                started_at=None if record.started_at is None else 0.0,
            ),
        ),
    )


def _usage(spent: Mapping[str, float]) -> Usage:
    if c.tokens.name in spent or c.cost.name in spent:
        return Usage(output_tokens=int(spent.get(c.tokens.name, 0)), cost=spent.get(c.cost.name, 0.0))
    return NO_USAGE


@cache
def mattering(page: Page) -> Mapping[Enum, frozenset[Counter]]:
    """For each state the counters that rows may still ask for once the turn is there."""
    onward: dict[Enum, set[Enum]] = {state: {state} for state in page.states}
    while True:
        wider = {here: there.union(*(_next(page, state) for state in there)) for here, there in onward.items()}
        if wider == onward:
            return {here: frozenset(_asked(page, there)) for here, there in onward.items()}
        onward = wider


def _next(page: Page, state: Enum) -> set[Enum]:
    return {row.to for row in page.rows if row.source is state}


def _asked(page: Page, states: set[Enum]) -> set[Counter]:
    rows = [row for row in page.rows if row.source in states]
    return {counter for row in rows for counter in (*row.asks, *([row.spends] if row.spends else []))}
