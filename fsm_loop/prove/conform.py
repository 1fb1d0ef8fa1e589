"""Whether a decision is one that the page can make: asked of a trail's lines, and of decisions as they are made.

A `Claim` says of a decision what both know: names, answers, numbers. What only the turn itself knows (what the guards
about words and faults answer) is asked again where the turn is at hand; from a trail it is taken as it is told, and
must still fit the page: the rows above the one that fired were each kept back by the guard that said no.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, lru_cache
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
        known = _known(self.page).get(claim.row)
        if known is None or (claim.state, claim.trigger) != known.at:
            yield f"no row {claim.row!r} stands on the page for {claim.trigger} in {claim.state}"
            return
        if known.leads_to != claim.after:
            yield f"row {claim.row} leads to {known.leads_to}, and not to {claim.after}"
        misfits, answered = _answers(self.page, claim.row, claim.answers)
        for name, guard, answer in answered:
            true = self._asked_again(claim, name, guard)
            if true is not None and true != answer:
                yield f"guard {name} is told to answer {_word(answer)}, and answers {_word(true)}"
        yield from misfits
        yield from self._numbers(claim, known)
        yield from self._effects(claim, known)

    def _asked_again(self, claim: Claim, name: str, guard: Guard) -> bool | None:
        """What the guard answers; None where that cannot be known from here."""
        true = self.asked(name) if self.asked else None
        if true is None and isinstance(guard, Left) and self.config is not None:
            true = all(self._has_left(claim, counter) for counter in guard.counters)
        return true

    def _has_left(self, claim: Claim, counter: Counter) -> bool:
        assert self.config is not None
        cap = counter.limit(self.config, self.chain)
        now = self.counts.get(counter.name, 0)
        if counter.measured:  # it moves before anything is asked
            now = next((each.after for each in claim.moved if each.counter == counter.name), now)
        return cap is None or now < cap

    def _numbers(self, claim: Claim, known: _Known) -> Iterator[str]:
        """The row's refills come first, then its spend; a measured counter follows what events report."""
        row = known.row
        if not claim.moved and row.spends is None and not known.refills:
            return
        should = dict.fromkeys(known.refills, 0.0)
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

    def _effects(self, claim: Claim, known: _Known) -> Iterator[str]:
        ended = claim.effects.count(Finish.__name__)
        if self.ended and claim.effects:
            yield f"the turn was over, and {', '.join(claim.effects)} came after its end"
        if ended != known.ends:
            words = "ends" if known.ends else "does not end"
            yield f"row {claim.row} {words} the turn, and Finish is told {ended} times"
        for name in dict.fromkeys(claim.effects):
            if known.allowed is not None and name not in known.allowed:
                yield f"row {claim.row} never asks for {name}"


@frozen(eq=False)
class _Known:
    """What is known of a row before any turn: the rows of its state and event, what it refills and may ask for."""

    row: Row
    group: tuple[Row, ...]
    at: tuple[str, str]
    leads_to: str
    refills: tuple[str, ...]
    allowed: frozenset[str] | None
    ends: bool


@cache
def _known(page: Page) -> Mapping[str, _Known]:
    """The rows of the page by their names."""
    return {
        row.name: _Known(
            row=row,
            group=tuple(group),
            at=(row.source.name.lower(), row.trigger),
            leads_to=row.to.name.lower(),
            refills=tuple(each.name for each in page.refills(row)),
            allowed=_allowed(row),
            ends=row.to is page.done and row.source is not page.done,
        )
        for group in page.groups().values()
        for row in group
    }


@lru_cache(maxsize=4096)
def _answers(
    page: Page, fired: str, told: tuple[tuple[str, bool], ...]
) -> tuple[tuple[str, ...], tuple[tuple[str, Guard, bool], ...]]:
    """Why these answers do not lead to the row that fired, and what each guard, by its name, is told to answer."""
    answered: list[tuple[str, Guard, bool]] = []
    known = _known(page)[fired]
    misfits = tuple(_misfits(known.group, known.row, told, answered))
    return misfits, tuple(answered)


def _misfits(
    group: tuple[Row, ...], fired: Row, told: tuple[tuple[str, bool], ...], answered: list[tuple[str, Guard, bool]]
) -> Iterator[str]:
    """The guards of the rows from the top are asked, each row up to its first no."""
    for row in group[: group.index(fired) + 1]:
        for guard in row.when:
            name, rest = name_of_guard(guard), told[len(answered) :]
            if not rest or rest[0][0] != name:
                yield f"guard {name} of row {row.name} is asked next, and is not told"
                return
            answered.append((name, guard, rest[0][1]))
            if not rest[0][1]:
                break
        else:
            if row is not fired:
                yield f"row {row.name} stands above {fired.name}, and nothing kept it back"
            continue
        if row is fired:
            yield f"row {fired.name} fired, and one of its guards said no"
    if len(told) > len(answered):
        yield f"guard {told[len(answered)][0]} is told, and was never asked"


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
