"""The classes of turns with numbers put in: which numbers can come together, and what is reached with them.

Only rows count, and a guard asks of a number only whether one is left. So of two turns of one class whose counters
answer alike, each does what the other does, and each number follows from the row that fired: its refills, then its
spend. The real `step` has made every such decision once (see `classes`); here the numbers go along. That they come out
as `step` has them is tested by walking a small config both ways.

A part follows some of the counters, and lets the others answer as they like. Each turn of the config is one of each
part too, if one forgets the other numbers: for its counters it is the same turn, and the others' true answers are among
those that are tried. What holds in one part therefore holds in every turn. A part may show what no turn comes to, so
what it finds broken is told with the counters that it followed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from attrs import Factory, define, field, frozen

from fsm_loop.core.counters import Counter
from fsm_loop.prove.canon import mattering
from fsm_loop.prove.classes import STUCK, Classes, Way

At = tuple[int, tuple[int, ...]]  # a class, and the number of each counter that is followed


@frozen
class _Step:
    """A way as numbers see it: which must be under their caps and which at them, what is spent, what is refilled."""

    way: Way
    asked: tuple[tuple[int, bool], ...]
    spends: int | None
    zeroed: tuple[int, ...]
    there: int


@define
class Walked:
    """What was reached, with the numbers of some counters followed."""

    classes: Classes
    counters: tuple[Counter, ...]
    came: dict[At, tuple[At, Way] | None] = Factory(dict)
    edges: int = 0
    rows: set[str] = Factory(set)
    broken: dict[str, tuple[At, Way]] = Factory(dict)
    steps: list[tuple[_Step, ...]] = field(init=False)
    caps: tuple[int, ...] = field(init=False)

    def __attrs_post_init__(self) -> None:
        """The ways of each class, as the numbers that are followed see them."""
        made = self.classes
        self.caps = tuple(int(each.limit(made.config, made.chain) or 0) for each in self.counters)
        place = {each.name: number for number, each in enumerate(self.counters)}
        self.steps = [tuple(_steps(made, ways, place, self.counters)) for ways in made.ways]

    @property
    def first(self) -> At:
        """Where every turn begins."""
        return 0, (0,) * len(self.counters)

    def onward(self, at: At) -> Iterator[tuple[Way, At]]:
        """What may fire here, and where it leads; a way to nowhere leads back."""
        here, counts = at
        for step in self.steps[here]:
            if all((counts[place] < self.caps[place]) == left for place, left in step.asked):
                fresh = list(counts)
                for place in step.zeroed:
                    fresh[place] = 0
                if step.spends is not None:
                    fresh[step.spends] = min(fresh[step.spends], self.caps[step.spends]) + 1  # no further past a cap
                yield step.way, at if step.there == STUCK else (step.there, tuple(fresh))

    def trail(self, at: At) -> list[Way]:
        """A shortest way to this turn."""
        ways: list[Way] = []
        while come := self.came[at]:
            at, way = come
            ways.append(way)
        return ways[::-1]


def _steps(made: Classes, ways: Sequence[Way], place: dict[str, int], counters: tuple[Counter, ...]) -> Iterator[_Step]:
    """Ways that numbers cannot tell apart are one, but each that breaks an invariant stands for itself."""
    told = set()
    for way in ways:
        asked = tuple((place[name], left) for name, left in way.asked if name in place)
        spends = place.get(way.spends)
        matters = mattering(made.page)[made.nodes[way.there].state] if way.there != STUCK else frozenset(counters)
        gone = {number for number, each in enumerate(counters) if each not in matters}
        zeroed = tuple(sorted(gone | {place[name] for name in way.refills if name in place}))
        spends = None if spends in gone else spends
        name = way.row.name if way.row else ""
        alike = (asked, spends, zeroed, way.there, name, way.sends, way.moves_on, tuple(way.broken))
        if way.row is None and not way.broken:
            continue  # late, and so it should be
        if alike not in told:
            told.add(alike)
            yield _Step(way, asked, spends, zeroed, way.there)


def walked(made: Classes, counters: Sequence[Counter], told: Callable[[int, int], None] | None = None) -> Walked:
    """All that can be reached with these counters followed, breadth first; *told* hears how many are done and known."""
    walk = Walked(made, tuple(counters))
    walk.came[walk.first] = None
    frontier = [walk.first]
    while frontier:
        following: list[At] = []
        for at in frontier:
            for way, there in walk.onward(at):
                walk.edges += 1
                if way.row:
                    walk.rows.add(way.row.name)
                for name in way.broken:
                    walk.broken.setdefault(name, (at, way))
                if there not in walk.came:
                    walk.came[there] = (at, way)
                    following.append(there)
        frontier = following
        if told:
            told(len(walk.came) - len(frontier), len(walk.came))
    return walk


def longest(walk: Walked) -> tuple[int, tuple[At, list[Way]] | None]:
    """The most requests of a turn to which nobody says a word more; and a way round without end, with where it begins.

    Only where every counter is followed do the numbers say so.
    """
    most: dict[At, int] = {}
    for start in walk.came:
        if start not in most and (loop := _deepen(walk, start, most)):
            return 0, loop
    begun = next((there for way, there in walk.onward(walk.first) if way.label == "turn_started"), walk.first)
    return most[begun], None


def _deepen(walk: Walked, start: At, most: dict[At, int]) -> tuple[At, list[Way]] | None:
    """Put down the most requests from here on, and from all that follows; a way round without end is given back."""
    path: list[tuple[At, Way | None, Iterator[tuple[Way, At]]]] = [(start, None, _alone(walk, start))]
    best = {start: 0}  # of each turn of the path, so far
    while path:
        at, came, ways = path[-1]
        for way, there in ways:
            if there in best:
                behind = [each[0] for each in path].index(there)
                return there, [*(each[1] for each in path[behind + 1 :] if each[1]), way]
            if there not in most:
                path.append((there, way, _alone(walk, there)))
                best[there] = 0
                break
            best[at] = max(best[at], most[there] + way.sends)
        else:
            path.pop()
            most[at] = best.pop(at)
            if path and came:
                best[path[-1][0]] = max(best[path[-1][0]], most[at] + came.sends)
    return None


def _alone(walk: Walked, at: At) -> Iterator[tuple[Way, At]]:
    """What comes without a word of the user; the host's rebuilds are counted, and are among it."""
    return ((way, there) for way, there in walk.onward(at) if way.moves_on)
