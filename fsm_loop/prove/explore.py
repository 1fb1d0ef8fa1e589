"""Every turn of a config, explored: what can be reached, which rows fire, and whether each invariant holds everywhere.

First the real `step` makes every decision of every class of turns (`classes`), and every invariant is asked of each;
then the numbers of the counters are led through them (`counts`). A config that lets out few requests is explored
whole: each turn with all its numbers, so what is found broken there has a shortest trail, which is walked once more
through `step` before it is told. A larger one is explored in parts of counters that stand next to each other in
rank. Why a part may be trusted is said in `counts`; a test compares parts with the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

from attrs import evolve, field, frozen

from fsm_loop.config import LoopConfig
from fsm_loop.core.counters import Counter
from fsm_loop.core.guards import BASE_OUTPUT_TOKENS
from fsm_loop.core.machine import PAGE
from fsm_loop.core.rows import Page
from fsm_loop.core.step import Decision, step
from fsm_loop.errors import UnexpectedEvent
from fsm_loop.prove.canon import Node, following
from fsm_loop.prove.classes import Classes, Way, classes
from fsm_loop.prove.counts import At, Walked, longest, walked
from fsm_loop.prove.invariants import CHECKED, CHECKS, Edge, broken
from fsm_loop.prove.moves import beginning, late, moves

FEW = 3  # requests: with so few, a config is explored whole
SMALL = 2  # requests, and rounds of tools, of a small config
MOST = 1500  # combinations of numbers in one part
Told = Callable[[str, int, int], None]


@frozen
class Stop:
    """One decision of a trail, to be read."""

    state: str
    event: str
    row: str
    to: str

    def __str__(self) -> str:
        """What came where, and where it led."""
        return f"{self.state}: {self.event} -> {self.to}" + (f"  ({self.row})" if self.row else "")


@frozen
class Violation:
    """An invariant that does not hold, with a shortest trail of decisions to where it does not.

    `followed` names the counters whose numbers the trail has; it is empty where it has all, so that the trail is a
    turn's own, and `decisions` are what the real `step` makes of it.
    """

    invariant: str
    says: str
    trail: tuple[Stop, ...]
    followed: tuple[str, ...] = ()
    decisions: tuple[Decision, ...] = field(default=(), repr=False, eq=False)

    def __str__(self) -> str:
        """The trail, row by row."""
        part = f" (with the numbers of {', '.join(self.followed)}; others as they like)" if self.followed else ""
        rows = [f"{number:4}. {stop}" for number, stop in enumerate(self.trail, 1)]
        return "\n".join([f"{self.invariant} does not hold: {self.says}{part}", *rows])

    def plain(self) -> dict[str, Any]:
        """The violation as data."""
        return {
            "invariant": self.invariant,
            "says": self.says,
            "followed": list(self.followed),
            "trail": [{"state": s.state, "event": s.event, "row": s.row, "to": s.to} for s in self.trail],
        }


@frozen
class Part:
    """What was reached with the numbers of these counters."""

    counters: tuple[str, ...]
    states: int
    edges: int


@frozen
class Explored:
    """What became of it: the sizes, the rows that fired, and each invariant with what breaks it, or None.

    `decisions` were made by the real `step`, in `classes` classes; `states` and `edges` are those with numbers, of all
    parts together. `most_requests` of a turn is known where it was explored whole.
    """

    config: LoopConfig
    chain: int
    whole: bool
    classes: int
    decisions: int
    states: int
    edges: int
    rows_fired: frozenset[str]
    rows: int
    invariants: Mapping[str, Violation | None] = field(factory=dict)
    parts: tuple[Part, ...] = ()
    most_requests: int | None = None

    @property
    def holds(self) -> bool:
        """Whether every invariant that is checked holds."""
        return not any(self.invariants.values())

    def plain(self) -> dict[str, Any]:
        """What was explored as data."""
        return {
            "whole": self.whole,
            "classes": self.classes,
            "decisions": self.decisions,
            "states": self.states,
            "edges": self.edges,
            "rows_fired": len(self.rows_fired),
            "rows": self.rows,
            "invariants": {name: found is None for name, found in self.invariants.items()},
            "violations": [found.plain() for found in self.invariants.values() if found],
            "parts": [{"counters": list(p.counters), "states": p.states, "edges": p.edges} for p in self.parts],
            "most_requests": self.most_requests,
        }

    def __str__(self) -> str:
        """What was explored, to be read."""
        return "\n".join(_told(self))


def small(config: LoopConfig | None = None) -> LoopConfig:
    """The config with its caps lowered, so that it is explored whole in seconds.

    Of whatever may be done several times, one time is left; two of requests and of rounds of tools; and of output
    limits one that is larger. Lost are turns that need more: what is different the third time and was not the second.
    Which rows may follow each other, and what each does when a counter has one left and when it has none, is there.
    """
    config = config or LoopConfig()
    caps = {each.cap for each in PAGE.counters if isinstance(each.cap, str) and not each.measured}
    ones = {name: min(1, getattr(config, name)) for name in caps}
    roomy = 2 * (config.max_output_tokens or BASE_OUTPUT_TOKENS)
    changes = {
        **ones,
        "max_requests": min(SMALL, config.max_requests),
        "max_iterations": min(SMALL, config.max_iterations),  # with one, the first round of tools would be the last
        "output_ceiling_tokens": min(roomy, config.output_ceiling_tokens),
    }
    return evolve(config, **changes)


def explored(
    config: LoopConfig | None = None, chain: int = 0, page: Page = PAGE, *, told: Told | None = None
) -> Explored:
    """Every turn of this config, with this many providers behind the first.

    *told* hears what is being done, and how many turns are done and known so far.
    """
    config = config or LoopConfig()

    def hears(what: str) -> Callable[[int, int], None] | None:
        return (lambda done, known: told(what, done, known)) if told else None

    made = classes(config, chain, page, hears("classes"))
    whole = config.max_requests <= FEW
    found: dict[str, Violation | None] = dict.fromkeys(CHECKS)
    parts, rows, most = [], set(made.rows), None
    for counters in (made.free,) if whole else windows(made):
        names = tuple(each.name for each in counters)
        walk = walked(made, counters, hears(", ".join(names)))
        parts.append(Part(names, len(walk.came), walk.edges))
        rows &= walk.rows
        for name, (at, way) in walk.broken.items():
            found[name] = found[name] or _violation(walk, at, way, name, () if whole else names)
        if whole:
            most, way_round = longest(walk)
            if way_round:
                found["terminates"] = found["terminates"] or _endless(walk, *way_round)
    return Explored(
        config=config,
        chain=chain,
        whole=whole,
        classes=len(made.nodes),
        decisions=made.decisions,
        states=sum(part.states for part in parts),
        edges=sum(part.edges for part in parts),
        rows_fired=frozenset(rows),
        rows=len(page.rows),
        invariants=found,
        parts=tuple(parts),
        most_requests=most,
    )


def windows(made: Classes) -> Iterator[Sequence[Counter]]:
    """The counters in parts of neighbours by rank, each as long as MOST lets it be."""
    sizes = [int(made.caps[each]) + 1 for each in made.free]
    end = 0
    for start in range(len(sizes)):
        stop = start + 1
        while stop < len(sizes) and prod(sizes[start : stop + 1]) <= MOST:
            stop += 1
        if stop > end:
            end = stop
            yield made.free[start:stop]


# ---------------------------------------------------------------- trails


def _violation(walk: Walked, at: At, way: Way, name: str, followed: tuple[str, ...]) -> Violation:
    ways = [*walk.trail(at), way]
    made: tuple[Decision, ...] = ()
    if not followed:
        made, wrong = _walked_again(walk.classes, ways, name)
        assert name in wrong, f"{name} is broken in a class of turns, and holds in the turn itself: {wrong}"
    return Violation(name, way.broken[name], tuple(_stops(walk, ways)), followed, made)


def _endless(walk: Walked, at: At, ways: list[Way]) -> Violation:
    says = f"the last {len(ways)} of these decisions can follow each other for ever"
    whole = [*walk.trail(at), *ways]
    made, _ = _walked_again(walk.classes, whole, "terminates")
    return Violation("terminates", says, tuple(_stops(walk, whole)), (), made)


def _stops(walk: Walked, ways: list[Way]) -> Iterator[Stop]:
    here = walk.classes.page.start
    for way in ways:
        to = way.row.to if way.row else here
        yield Stop(here.name.lower(), way.label, way.row.name if way.row else "", to.name.lower() if way.row else "?")
        here = to


def _walked_again(made: Classes, ways: list[Way], name: str) -> tuple[tuple[Decision, ...], Mapping[str, str]]:
    """The trail through the real `step` once more, with all that a turn knows: its decisions, and what breaks."""
    decisions: list[Decision] = []
    at = beginning(made.config, made.chain, made.page)
    node = Node(at.turn, at.waits)
    wrong: Mapping[str, str] = {}
    for way in ways:
        event = dict((*moves(node.moment, made.config), *late(node.moment)))[way.label]
        try:
            decision = step(node.turn, event, made.page)
        except (UnexpectedEvent, AssertionError) as error:
            wrong = {name: str(error)}
            break
        decisions.append(decision)
        after = node if decision.late else following(node, decision)
        wrong = broken(Edge(node, decision, after, made.page))
        node = after
    return tuple(decisions), wrong


# ---------------------------------------------------------------- to be read


def _told(done: Explored) -> Iterator[str]:
    how = "whole" if done.whole else f"in {len(done.parts)} parts"
    yield (
        f"Explored {how}: {done.decisions:,} decisions of step in {done.classes:,} classes of turns; "
        f"with their numbers {done.states:,} states and {done.edges:,} edges; "
        f"{len(done.rows_fired)} of {done.rows} rows fired."
    )
    if done.most_requests is not None:
        yield f"No way round without end; at most {done.most_requests} requests without a word of the user."
    wide = max(map(len, CHECKED))
    for name, where in CHECKED.items():
        mark = "-" if name not in done.invariants else "BROKEN" if done.invariants[name] else "holds"
        yield f"  {name:{wide}}  {mark:6}  {where}"
    yield from (f"\n{found}" for found in done.invariants.values() if found)
