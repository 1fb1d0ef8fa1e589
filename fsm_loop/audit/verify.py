"""Whether a trail is what its writer wrote, and whether what it tells can have happened.

Of each turn, record by record: the bytes are the one text of their value, the hash is that of the content, the record
follows the one before it; its shape; and that the page, from where the turn stands and with what is counted, can come
to this decision. Guards that ask for no more than the record holds are asked again; a trail that keeps all content is
told again whole. What a chain of hashes cannot show (a tail that was cut off, a trail that was written anew from its
start) is shown by the last hash, kept elsewhere, or by a signature over it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cache

import msgspec
from attrs import define, field, frozen

from fsm_loop.audit.canonical import canonical, sha256, strictly
from fsm_loop.audit.events import config_of, event_of
from fsm_loop.audit.reading import Line
from fsm_loop.audit.records import FORMAT, START, Decided, Ended, Opening, TrailRecord
from fsm_loop.audit.replay import Again, changed
from fsm_loop.audit.scribe import page_facts
from fsm_loop.core import guards
from fsm_loop.core.events import Event
from fsm_loop.core.machine import PAGE
from fsm_loop.core.record import Record, begin
from fsm_loop.core.rows import Guard, Page, name_of_guard
from fsm_loop.core.step import Moved
from fsm_loop.prove.conform import Claim, Follower

CheckSignature = Callable[[str, str], bool]
"""Whether this is the signature of this hash."""

# The guards that ask for nothing that a trail leaves out: of an event no text, of the record only its config.
FROM_FACTS = frozenset({
    guards.was_refused, guards.is_paused, guards.has_valid_call, guards.wants_tools, guards.tool_in_flight,
    guards.may_retry, guards.waits_soon, guards.falls_back, guards.is_outage, guards.is_malformed, guards.misspoke,
    guards.is_refusal, guards.has_changed, guards.must_stop, guards.is_now,
})  # fmt: skip


@frozen
class Problem:
    """What is wrong, and where: the place in the files, the turn and the decision (None for no decision's record)."""

    place: str
    turn_id: str
    seq: int | None
    sentence: str


@frozen
class TurnVerdict:
    """What was found of one turn; `checked` counts its records up to the first that is wrong.

    `head` is the hash of the last of them. `signed` is None where no key was given. `conforms` is None where the
    decisions were made by another page, whose differences are `changed`.
    """

    turn_id: str
    checked: int
    decisions: int
    over: bool
    outcome: str
    head: str
    signed: bool | None
    conforms: bool | None
    changed: tuple[str, ...]
    problem: Problem | None


@frozen
class Verdict:
    """What was found of a trail: its turns in the order in which they began, and all that is wrong.

    `problems` holds the first of each turn, and lines that are no records, in the order of the lines; `torn` the places
    of lines that break off.
    """

    turns: tuple[TurnVerdict, ...]
    problems: tuple[Problem, ...]
    torn: tuple[str, ...]

    @property
    def verified(self) -> bool:
        """Whether nothing is wrong, as far as it was checked."""
        return not self.problems


def verify(
    lines: Iterable[Line],
    page: Page = PAGE,
    *,
    heads: Iterable[str] = (),
    signature: CheckSignature | None = None,
    whole: bool = False,
) -> Verdict:
    """Check the lines of a trail, which may hold many turns, one among the other.

    Each of `heads` must be the last hash of one of the turns. With `signature` every turn must have its end, and that
    a good one. With `whole` every turn must have its end.
    """
    turns: dict[str, _Turn] = {}
    problems: list[Problem] = []
    torn: list[str] = []
    for line in lines:
        record = _record_in(line)
        if record is not None:
            turn_id = record.turn if not isinstance(record, str) else str((line.record or {})["turn"])
            turn = turns.get(turn_id) or turns.setdefault(turn_id, _Turn(turn_id, page, signature))
            problems += turn.see(line, record)
        elif line.torn:
            torn.append(line.place)
        else:
            problems.append(Problem(line.place, "", None, line.problem))
    for each in turns.values():
        problems += each.rest(whole=whole or signature is not None)
    known = {each.head for each in turns.values()}
    missing = [head for head in heads if head not in known]
    words = "no turn ends in this hash: its tail was cut off, it was written anew, or it is not in this trail"
    problems += [Problem(f"head {head}", "", None, words) for head in missing]
    return Verdict(tuple(each.verdict() for each in turns.values()), tuple(problems), tuple(torn))


def _record_in(line: Line) -> TrailRecord | str | None:
    """The record of the line, or what is wrong with its shape; None where the line is none."""
    try:
        return _decode(line.raw)
    except (msgspec.DecodeError, RecursionError) as error:
        return None if line.record is None else f"its shape is wrong: {error}"


_decode = msgspec.json.Decoder(TrailRecord).decode


@define
class _Turn:
    """One turn, as far as it was read."""

    turn_id: str
    page: Page
    signature: CheckSignature | None
    head: str = START
    checked: int = 0
    decisions: int = 0
    outcome: str = ""
    over: bool = False
    signed: bool = False
    changed: tuple[str, ...] = ()
    problem: Problem | None = None
    last_place: str = ""
    _calls: int = 0
    _finished: str = ""
    _missed: set[str] = field(factory=set)
    _at: float | None = None
    _follower: Follower | None = None
    _facts: _Facts | None = None
    _again: Again | None = None

    def see(self, line: Line, record: TrailRecord | str) -> Iterator[Problem]:
        """What is wrong with the next record of the turn; once one is, nothing that follows it is worth a look."""
        if self.problem is not None:
            return
        self.last_place = line.place
        if isinstance(record, str):
            yield self._wrong(None, record)
            return
        sentence = next(self._reasons(line, record), None)
        if sentence is not None:
            yield self._wrong(record.seq if isinstance(record, Decided) else None, sentence)
            return
        self.head = record.hash
        self.checked += 1

    def rest(self, *, whole: bool) -> Iterator[Problem]:
        """What is wrong once nothing more comes of the turn."""
        if self.problem is None and whole and not self.over:
            yield self._wrong(None, "the turn has no end: killed, still running, or cut")

    def verdict(self) -> TurnVerdict:
        """What was found."""
        return TurnVerdict(
            turn_id=self.turn_id,
            checked=self.checked,
            decisions=self.decisions,
            over=self.over,
            outcome=self.outcome,
            head=self.head,
            signed=None if self.signature is None else self.signed,
            conforms=None if self._follower is None else self.problem is None,
            changed=self.changed,
            problem=self.problem,
        )

    def _wrong(self, seq: int | None, sentence: str) -> Problem:
        self.problem = Problem(self.last_place, self.turn_id, seq, sentence)
        return self.problem

    # ------------------------------------------------------------ the reasons

    def _reasons(self, line: Line, record: TrailRecord) -> Iterator[str]:
        if not _is_canonical(record, line.raw):
            yield "its bytes are not the canonical text of its value (RFC 8785)"
        if _hash_of(line.raw, record) != record.hash:
            yield "its hash is not that of its content: it was edited"
        if record.previous != self.head:
            yield "it does not follow the record before it: one was edited, dropped, added or moved"
        if self.over:
            yield "the turn had its end already"
        if (self.checked == 0) != isinstance(record, Opening):
            yield "the turn's opening is missing" if self.checked == 0 else "a second opening stands in the turn"
        match record:
            case Opening():
                yield from self._opened(record)
            case Decided():
                yield from self._decided(line, record)
            case Ended():
                yield from self._ended(line, record)

    def _opened(self, record: Opening) -> Iterator[str]:
        if record.format != FORMAT:
            yield f"it is of format {record.format}, and only {FORMAT} is known here"
        try:
            config = config_of(record.config)
        except Exception as error:  # noqa: BLE001  # it may hold anything
            yield f"its config cannot be read: {error}"
            return
        if record.page.hash != page_facts(self.page)["hash"]:
            self.changed = changed(msgspec.to_builtins(record), self.page)
            return
        start = begin(config, tuple(record.providers))
        self._facts = _Facts(self.page, start)
        self._follower = Follower(self.page, config, start.chain, asked=self._facts.asked)
        if record.content == "full":
            self._again = Again.of(config, tuple(record.providers), self.page)

    def _decided(self, line: Line, record: Decided) -> Iterator[str]:
        if record.seq != self.decisions:
            yield f"it is decision {record.seq}, and should be {self.decisions}"
        if self._at is not None and record.at < self._at:
            yield f"it came at {record.at:g} s, before the decision ahead of it, at {self._at:g} s"
        if self._follower is not None and self._facts is not None:
            self._facts.record = record
            yield from self._follower.see(_claim(record))
        if self._again is not None and line.record is not None:
            yield from (f"told again, {each.sentence}" for each in self._again.differences(line.record))
        self._at = record.at
        self.decisions += 1
        self._calls += sum(each.get("effect") == "CallModel" for each in record.effects)
        for each in record.effects:
            if each.get("effect") == "Finish":
                self._finished = str(each.get("outcome", ""))
        for guard, answer in record.guards:
            if not answer:
                self._missed |= _lefts(self.page).get(guard, frozenset())

    def _ended(self, line: Line, record: Ended) -> Iterator[str]:
        if record.decisions != self.decisions:
            yield f"it tells of {record.decisions} decisions, and there are {self.decisions}"
        if record.outcome != self._finished:
            yield f"it ends as {record.outcome}, and the decisions as {self._finished or 'not ended'}"
        if record.llm_calls != self._calls:
            yield f"it tells of {record.llm_calls} calls, and there are {self._calls}"
        if self._follower is not None:
            yield from _counted(record, self._follower, self._missed)
        if self._again is not None and line.record is not None:
            yield from (f"told again, {each.sentence}" for each in self._again.differences(line.record))
        if self.signature is not None:
            if not isinstance(record.signature, str):
                yield "it is not signed"
            elif not self.signature(record.hash, record.signature):
                yield "its signature is not that of the key given"
            self.signed = True
        self.over, self.outcome = True, record.outcome


def _counted(record: Ended, follower: Follower, missed: AbstractSet[str]) -> Iterator[str]:
    """What the end has otherwise: the counters, and the one that ended the turn, which is one that a guard missed."""
    counts = {name: count for name, count in follower.counts.items() if count}
    if record.counters != counts:
        yield f"it tells of the counters {_listed(record.counters)}, and they stand at {_listed(counts)}"
    spent = record.exhausted
    if spent is None:
        if record.outcome == "exhausted":
            yield "it ends as exhausted, and names no counter"
        return
    counter = next((each for each in follower.page.counters if each.name == spent.counter), None)
    if counter is None:
        yield f"it was ended by {spent.counter}, which is no counter of the page"
    elif spent.counter not in missed:
        yield f"it was ended by {spent.counter}, and no guard that asks for it said no"
    elif follower.config is not None:
        cap, count = counter.limit(follower.config, follower.chain) or 0, follower.counts.get(spent.counter, 0)
        fits = cap <= spent.value <= count and (spent.value == count or counter.measured)
        if spent.cap != cap or not fits:
            yield f"{spent.counter} is told to have ended it at {spent.value:g} of {spent.cap:g}, and is otherwise"


@cache
def _lefts(page: Page) -> Mapping[str, frozenset[str]]:
    """The guards that ask for counters, each with the names of those."""
    asked = {name_of_guard(guard): guard for row in page.rows for guard in row.when}
    lefts = {name: guard for name, guard in asked.items() if isinstance(guard, guards.Left)}
    return {name: frozenset(each.name for each in guard.counters) for name, guard in lefts.items()}


def _listed(counts: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {count:g}" for name, count in sorted(counts.items())) or "none"


@define
class _Facts:
    """Answers what is asked of a decision, as far as its record holds enough for it."""

    page: Page
    start: Record
    _record: Decided | None = None
    _event: Event | None = None

    @property
    def record(self) -> Decided | None:
        """The decision that is asked about."""
        return self._record

    @record.setter
    def record(self, record: Decided) -> None:
        self._record, self._event = record, None

    def asked(self, name: str) -> bool | None:
        """What the guard answers; None where the record does not hold enough."""
        guard = _answerable(self.page).get(name)
        if guard is None or self._record is None:
            return None
        try:
            if self._event is None:
                told = {"trigger": self._record.trigger, "facts": self._record.facts, "at": self._record.at}
                self._event = event_of(told, self.page)
            return guard(self.start, self._event)
        except Exception:  # noqa: BLE001  # facts hold whatever someone wrote, or a hook put there
            return None


@cache
def _answerable(page: Page) -> Mapping[str, Guard]:
    asked = {name_of_guard(guard): guard for row in page.rows for guard in row.when}
    return {name: each for name, each in asked.items() if isinstance(each, guards.Needs) or each in FROM_FACTS}


def _is_canonical(record: TrailRecord, raw: bytes) -> bool:
    """Whether the bytes are the one text of the value; where that has none (numbers from 2**53 on), they are not."""
    try:
        text = canonical(record)
        may_differ = any(each in raw for each in _WHOLE)
        return text == raw and (not may_differ or strictly(msgspec.json.decode(raw)) == raw)
    except (ValueError, RecursionError):
        return False


_WHOLE = (b".0,", b".0}", b".0]")  # a whole number with a point, which the quick way leaves as it is; or a text


def _hash_of(raw: bytes, record: TrailRecord) -> str:
    """The hash of the record without the members that stand for it; each is the last of its name in the text."""
    text = _without(raw, f'"hash":"{record.hash}",')
    if isinstance(record, Ended) and isinstance(record.signature, str):
        text = _without(text, f'"signature":"{record.signature}",')
    return sha256(text)


def _without(text: bytes, member: str) -> bytes:
    before, _, after = text.rpartition(member.encode())
    return before + after


def _claim(record: Decided) -> Claim:
    return Claim(
        state=record.state,
        trigger=record.trigger,
        row=record.row,
        after=record.after,
        answers=tuple(record.guards),
        moved=tuple(Moved(each.counter, each.before, each.after, each.cap) for each in record.moved),
        effects=tuple(str(each.get("effect")) for each in record.effects),
    )
