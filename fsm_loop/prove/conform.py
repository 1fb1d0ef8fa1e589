"""Whether a decision is one that the page can make: asked of a trail's lines, and of decisions as they are made.

A `Claim` says of a decision what both know: names, answers, numbers. What only the turn itself knows (what the guards
about words and faults answer) is asked again where the turn is at hand; from a trail it is taken as it is told, and
must still fit the page: the rows above the one that fired were each kept back by the guard that said no.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Self

from attrs import define, field, frozen

from fsm_loop.config import LoopConfig
from fsm_loop.core.counters import Counter
from fsm_loop.core.effects import Abandon, Effect, Finish, Say
from fsm_loop.core.events import PortEvent, name_of
from fsm_loop.core.guards import Left
from fsm_loop.core.machine import PAGE
from fsm_loop.core.rows import Guard, Page, Row, name_of_guard
from fsm_loop.core.step import Decision, Moved, Turn
from fsm_loop.prove.places import ANSWERS, asks

LATE = "late"
Asked = Callable[[str], bool | None]


@frozen
class Claim:
    """What is said of one decision: names of state, event, row, guards and effects, and the counters that moved."""

    state: str
    trigger: str
    row: str
    after: str
    answers: tuple[tuple[str, bool], ...] = ()
    moved: tuple[Moved, ...] = ()
    effects: tuple[str, ...] = ()

    @classmethod
    def of(cls, decision: Decision) -> Self:
        """What a decision says of itself."""
        return cls(
            state=decision.before.name.lower(),
            trigger=name_of(type(decision.event)),
            row=decision.name,
            after=decision.turn.state.name.lower(),
            answers=tuple((name_of_guard(guard), answer) for guard, answer in decision.answers),
            moved=decision.moved,
            effects=tuple(type(effect).__name__ for effect in decision.effects),
        )

    @classmethod
    def read(cls, line: Mapping[str, Any]) -> Self:
        """What a line of a trail says; raises KeyError, TypeError or ValueError where it is no such line."""
        return cls(
            state=line["state"],
            trigger=line["trigger"],
            row=line["row"],
            after=line["after"],
            answers=tuple((guard, answer) for guard, answer in line["guards"]),
            moved=tuple(Moved(each["counter"], each["before"], each["after"], each["cap"]) for each in line["moved"]),
            effects=tuple(each["effect"] for each in line["effects"]),
        )


def illegal(decision: Decision, before: Turn, page: Page = PAGE) -> tuple[str, ...]:
    """Why *before* cannot come to this decision, a sentence each; every guard is asked again. Empty where it can."""
    claim, record = Claim.of(decision), before.record
    known = record.after(decision.event) if decision.row else record
    guards = _guards(page)

    def asked(name: str) -> bool | None:
        return guards[name](known, decision.event) if name in guards else None

    here, over = before.state.name.lower(), record.end is not None
    told = Follower(page, record.config, record.chain, here, dict(record.counts), over, asked)
    reasons = told.see(claim)
    after = {name: count for name, count in decision.turn.record.counts.items() if count}
    if not reasons and after != {name: count for name, count in told.counts.items() if count}:
        return (f"the counters are {after} after it, and should be {told.counts}",)
    return reasons


@define
class Follower:
    """The lines of one turn, one by one: where it stands by them, what is counted, whether it is over.

    With the turn's `config` and `chain` the caps are known, and what was asked of counters is asked again.
    """

    page: Page = PAGE
    config: LoopConfig | None = None
    chain: int = 0
    state: str = field(default="")
    counts: dict[str, float] = field(factory=dict)
    ended: bool = False
    asked: Asked | None = None

    def __attrs_post_init__(self) -> None:
        """A turn begins where the page does."""
        self.state = self.state or self.page.start.name.lower()

    def see(self, claim: Claim) -> tuple[str, ...]:
        """Why this decision cannot come next, a sentence each; then it is taken as made."""
        reasons = tuple(self._reasons(claim))
        self.state = claim.after
        self.counts |= {each.counter: each.after for each in claim.moved}
        self.ended = self.ended or Finish.__name__ in claim.effects
        return reasons

    def rest(self) -> tuple[str, ...]:
        """What is missing once the last line was seen."""
        return () if self.ended else (f"the turn is not over: it stands in {self.state}",)

    # ------------------------------------------------------------ the reasons

    def _reasons(self, claim: Claim) -> Iterator[str]:
        if claim.state != self.state:
            yield f"it begins in {claim.state}, and the turn stands in {self.state}"
        if claim.row == LATE:
            yield from _late(claim, self.page)
            return
        group = _groups(self.page).get((claim.state, claim.trigger), ())
        row = next((each for each in group if each.name == claim.row), None)
        if row is None:
            yield f"no row {claim.row!r} stands on the page for {claim.trigger} in {claim.state}"
            return
        if row.to.name.lower() != claim.after:
            yield f"row {row.name} leads to {row.to.name.lower()}, and not to {claim.after}"
        yield from self._answers(claim, group, row)
        yield from self._numbers(claim, row)
        yield from self._effects(claim, row)

    def _answers(self, claim: Claim, group: tuple[Row, ...], fired: Row) -> Iterator[str]:
        """The guards of the rows from the top are asked, each row up to its first no."""
        told = list(claim.answers)
        for row in group[: group.index(fired) + 1]:
            for guard in row.when:
                name = name_of_guard(guard)
                if not told or told[0][0] != name:
                    yield f"guard {name} of row {row.name} is asked next, and is not told"
                    return
                answer = told.pop(0)[1]
                yield from self._asked_again(claim, guard, answer)
                if not answer:
                    break
            else:
                if row is not fired:
                    yield f"row {row.name} stands above {fired.name}, and nothing kept it back"
                continue
            if row is fired:
                yield f"row {fired.name} fired, and one of its guards said no"
        if told:
            yield f"guard {told[0][0]} is told, and was never asked"

    def _asked_again(self, claim: Claim, guard: Any, answer: bool) -> Iterator[str]:  # noqa: FBT001  # what it said
        true = self.asked(name_of_guard(guard)) if self.asked else None
        if true is None and isinstance(guard, Left) and self.config is not None:
            true = all(self._has_left(claim, counter) for counter in guard.counters)
        if true is not None and true != answer:
            yield f"guard {name_of_guard(guard)} is told to answer {_word(answer)}, and answers {_word(true)}"

    def _has_left(self, claim: Claim, counter: Counter) -> bool:
        assert self.config is not None
        cap = counter.limit(self.config, self.chain)
        now = self.counts.get(counter.name, 0)
        if counter.measured:  # it moves before anything is asked
            now = next((each.after for each in claim.moved if each.counter == counter.name), now)
        return cap is None or now < cap

    def _numbers(self, claim: Claim, row: Row) -> Iterator[str]:
        """The row's refills come first, then its spend; a measured counter follows what events report."""
        should = {each.name: 0.0 for each in self.page.refills(row)}
        if row.spends:
            should[row.spends.name] = should.get(row.spends.name, self.counts.get(row.spends.name, 0)) + 1
        should = {name: count for name, count in should.items() if count != self.counts.get(name, 0)}
        for name in sorted(should.keys() - {each.counter for each in claim.moved}):
            yield f"{name} should go to {should[name]:g}, and does not move"
        by_name = {each.name: each for each in self.page.counters}
        for each in claim.moved:
            if each.counter not in by_name:
                yield f"{each.counter} is no counter of the page"
                continue
            counter = by_name[each.counter]
            if each.before != self.counts.get(each.counter, 0):
                yield f"{each.counter} moves from {each.before:g}, and stood at {self.counts.get(each.counter, 0):g}"
            yield from _measured(each) if counter.measured else _counted(each, row, should.get(each.counter))
            yield from self._capped(each, counter)

    def _capped(self, each: Moved, counter: Counter) -> Iterator[str]:
        cap = counter.limit(self.config, self.chain) if self.config else each.cap
        if cap != each.cap:
            yield f"{each.counter} has a cap of {cap}, and is told to have {each.cap}"
        if cap is not None and not counter.measured and each.after > max(0, cap):
            yield f"{each.counter} goes to {each.after:g}, above its cap of {cap:g}"

    def _effects(self, claim: Claim, row: Row) -> Iterator[str]:
        ends = row.to is self.page.done and row.source is not self.page.done
        ended = claim.effects.count(Finish.__name__)
        if self.ended and claim.effects:
            yield f"the turn was over, and {', '.join(claim.effects)} came after its end"
        if ended != ends:
            yield f"row {row.name} {'ends' if ends else 'does not end'} the turn, and Finish is told {ended} times"
        allowed = _allowed(row)
        for name in dict.fromkeys(claim.effects):
            if allowed is not None and name not in allowed:
                yield f"row {row.name} never asks for {name}"


def _measured(each: Moved) -> Iterator[str]:
    if each.after < each.before:
        yield f"{each.counter} is measured, and falls from {each.before:g} to {each.after:g}"


def _counted(each: Moved, row: Row, should: float | None) -> Iterator[str]:
    if should is None:
        yield f"{each.counter} goes to {each.after:g}, and row {row.name} does not move it"
    elif each.after != should:
        yield f"{each.counter} goes to {each.after:g}, and row {row.name} brings it to {should:g}"


def _late(claim: Claim, page: Page) -> Iterator[str]:
    ports = {row.trigger for row in page.rows if issubclass(row.on, PortEvent)}
    if claim.trigger not in ports:
        yield f"{claim.trigger} is said to be late, and only answers of ports can be"
    if claim.after != claim.state or claim.answers or claim.moved or claim.effects:
        yield "a late answer changed something"


@cache
def _guards(page: Page) -> Mapping[str, Guard]:
    return {name_of_guard(guard): guard for row in page.rows for guard in row.when}


@cache
def _groups(page: Page) -> Mapping[tuple[str, str], tuple[Row, ...]]:
    """The rows by the state and the event that they stand for, in the order of the page."""
    groups: dict[tuple[str, str], tuple[Row, ...]] = {}
    for row in page.rows:
        at = row.source.name.lower(), row.trigger
        groups[at] = (*groups.get(at, ()), row)
    return groups


@cache
def _allowed(row: Row) -> frozenset[str] | None:
    """The effects that the row may ask for; None where its action has no code to read."""
    asked: Iterable[type[Effect]] | None = asks(row.do)
    if asked is None:
        return None
    free = (Say, Abandon, Finish)
    assert not set(free) & set(ANSWERS)
    return frozenset(each.__name__ for each in (*asked, *free))


def _word(answer: bool) -> str:  # noqa: FBT001  # what it is called
    return "yes" if answer else "no"
