"""The classes of turns that are alike but for what rows have counted, and every decision that `step` makes in them.

A class is what `canon.key_of` says of a turn, with the counts of `KEPT`, which change what a turn does next. Of any
other counter a guard can ask only whether one is left, so each event is given to the real `step` once for each way in
which the counters that are asked can answer: none spent, or spent up to its cap. What a decision asked is kept with
it, so that `counts` can lead the very numbers through it. So every decision that any turn of this config can come to
is made here, and every invariant is asked of it; and some that no turn comes to, for no numbers lead there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

from attrs import Factory, define, field, frozen

from fsm_loop.config import LoopConfig
from fsm_loop.core import counters as c
from fsm_loop.core.counters import Counter
from fsm_loop.core.events import Event, InterruptAsked
from fsm_loop.core.guards import Left
from fsm_loop.core.record import Record
from fsm_loop.core.rows import Page, Row
from fsm_loop.core.step import Decision, Turn, step
from fsm_loop.errors import UnexpectedEvent
from fsm_loop.prove.canon import Key, Node, following, key_of, mattering, plain
from fsm_loop.prove.invariants import Edge, broken
from fsm_loop.prove.moves import Move, beginning, late, moves
from fsm_loop.prove.places import is_a_word

KEPT = (c.grace_calls, c.fallbacks)  # whether grace is still to come, and who is asked, is more than one left or none
STUCK = -1  # the class of a turn to which something came that its state does not await


@frozen
class Way:
    """One decision of a class: what came, what the counters answered, what fired, what it counted, where it leads.

    `asked` holds each counter that was asked, and whether one was left. `moves_on` is False for what changes nothing,
    and for words of the user, of which there may be any number.
    """

    label: str
    row: Row | None
    asked: tuple[tuple[str, bool], ...]
    there: int
    spends: str = ""
    refills: tuple[str, ...] = ()
    sends: bool = False
    moves_on: bool = False
    broken: Mapping[str, str] = field(factory=dict, eq=False)


@define(slots=False)
class Classes:
    """All classes of a config, the first one first, and the ways from each."""

    config: LoopConfig
    chain: int
    page: Page
    nodes: list[Node] = Factory(list)
    ways: list[tuple[Way, ...]] = Factory(list)
    decisions: int = 0

    @cached_property
    def free(self) -> tuple[Counter, ...]:
        """The counters whose numbers no class holds, by rank; one without a cap holds nothing back, and is left out."""
        counted = (each for each in self.page.counters if not each.measured and each not in KEPT)
        return tuple(each for each in counted if each.limit(self.config, self.chain) is not None)

    @cached_property
    def caps(self) -> Mapping[Counter, float]:
        """The cap of each of them."""
        return {each: each.limit(self.config, self.chain) or 0 for each in self.free}

    @cached_property
    def refills(self) -> Mapping[str, tuple[str, ...]]:
        """What each row refills."""
        return {row.name: tuple(each.name for each in self.page.refills(row)) for row in self.page.rows}

    @property
    def rows(self) -> frozenset[str]:
        """The rows that fired."""
        return frozenset(way.row.name for ways in self.ways for way in ways if way.row)


def classes(config: LoopConfig, chain: int, page: Page, told: Callable[[int, int], None] | None = None) -> Classes:
    """Every class that can be reached, by the real `step`; *told* hears how many are done, and how many are known."""
    at = beginning(config, chain, page)
    made = Classes(config, chain, page, [Node(at.turn, at.waits)])
    known: dict[tuple[Key, Any], int] = {}
    known[_key(made.nodes[0], page)] = 0
    for node in made.nodes:  # which grows as it is gone through
        made.ways.append(tuple(_ways(made, node, known)))
        if told and len(made.ways) % 100 == 0:
            told(len(made.ways), len(made.nodes))
    return made


def _key(node: Node, page: Page) -> tuple[Key, tuple[float, ...]]:
    matters = mattering(page)[node.state]
    return key_of(node, page), tuple(node.record.count(each) for each in KEPT if each in matters)


def _ways(made: Classes, node: Node, known: dict[tuple[Key, Any], int]) -> Iterator[Way]:
    base = {each.name: count for each in KEPT if (count := node.record.count(each))}
    node = plain(node, base)
    for move in moves(node.moment, made.config):
        for answered in _answered(made, node, move):
            yield _way(made, answered, move, known)
    for label, event in late(node.moment):
        decision = step(node.turn, event, made.page)
        made.decisions += 1
        if wrong := broken(Edge(node, decision, node, made.page)):
            yield Way(label, decision.row, (), STUCK, broken=wrong)


@frozen
class _Answered:
    """What one event led to for one answer of the counters: a decision, or why there is none."""

    before: Node
    decision: Decision | None
    asked: tuple[tuple[str, bool], ...] = ()
    why: str = ""


def _answered(made: Classes, node: Node, move: Move) -> Iterator[_Answered]:
    """One decision for each way in which the counters that are asked can answer."""
    tries: list[tuple[tuple[Counter, ...], frozenset[Counter]]] = [((), frozenset())]
    while tries:
        spent, left = tries.pop()
        before = _with(made, node, spent)
        made.decisions += 1
        try:
            decision = step(before.turn, move[1], made.page)
        except (UnexpectedEvent, AssertionError) as error:
            yield _Answered(before, None, tuple((each.name, False) for each in spent), str(error))
            continue
        asked = _asked(decision, before.record)
        more = [each for each, yes in asked.items() if yes and made.caps.get(each) and each not in left]
        tries += [((*spent, each), left.union(more[:number])) for number, each in enumerate(more)]
        yield _Answered(before, decision, tuple((each.name, yes) for each, yes in asked.items() if each in made.caps))


def _with(made: Classes, node: Node, spent: tuple[Counter, ...]) -> Node:
    """The node with these counters spent."""
    if not spent:
        return node
    counts = {**node.record.counts, **{each.name: made.caps[each] for each in spent}}
    return Node(Turn(node.state, node.record.but(counts=counts)), node.waits, node.past)


def _asked(decision: Decision, record: Record) -> dict[Counter, bool]:
    """Each counter that a guard asked for, and the one that the row spends, with whether one was left."""
    said: dict[Counter, bool] = {}
    for guard, _ in decision.answers:
        if isinstance(guard, Left):
            for counter in guard.counters:
                said[counter] = record.has_left(counter)
                if not said[counter]:
                    break
    if decision.row and decision.row.spends:
        said.setdefault(decision.row.spends, record.has_left(decision.row.spends))
    return said


def _way(made: Classes, answered: _Answered, move: Move, known: dict[tuple[Key, Any], int]) -> Way:
    label, event = move
    decision, before = answered.decision, answered.before
    if decision is None:
        return Way(label, None, answered.asked, STUCK, broken={_name_of(event): answered.why})
    after = following(before, decision)
    edge = Edge(before, decision, after, made.page)
    key = _key(after, made.page)
    if key not in known:
        known[key] = len(made.nodes)
        made.nodes.append(after)
    row = decision.row
    changes = row is not None and (decision.turn != before.turn or bool(decision.effects))
    return Way(
        label=label,
        row=row,
        asked=answered.asked,
        there=known[key],
        spends=row.spends.name if row and row.spends else "",
        refills=made.refills[row.name] if row else (),
        sends=bool(edge.sent),
        moves_on=bool(changes and row and not is_a_word(row)),
        broken=broken(edge),
    )


def _name_of(event: Event) -> str:
    return "interrupt_wins" if isinstance(event, InterruptAsked) else "terminates"
