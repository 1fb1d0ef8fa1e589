"""A trail told again: its events are folded through `step`, and must lead to the same records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

from attrs import define, field, frozen

from fsm_loop.audit.canonical import canonical
from fsm_loop.audit.events import config_of, event_of
from fsm_loop.audit.facts import Telling
from fsm_loop.audit.scribe import end_of, page_facts, record_of
from fsm_loop.config import LoopConfig
from fsm_loop.core.machine import PAGE
from fsm_loop.core.rows import Page
from fsm_loop.core.step import Turn, begin_turn, step
from fsm_loop.errors import UnexpectedEvent

APART = ("turn", "wall", "previous", "hash", "signature")  # members that say nothing of what was decided


@frozen
class Divergence:
    """Where a trail and its replay part: the decision (None for the end), and what differs."""

    seq: int | None
    sentence: str


@frozen
class Replayed:
    """What came of a turn's replay.

    `cannot` says why it could not be told again, empty where it could. `divergence` is the first, None where there is
    none. `changed` names the rows that the trail's page had otherwise or did not have.
    """

    turn_id: str
    decisions: int
    over: bool
    cannot: str = ""
    divergence: Divergence | None = None
    changed: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Whether the same events led to the same records."""
        return not self.cannot and self.divergence is None


def replay(records: Iterable[Mapping[str, Any]], page: Page = PAGE) -> list[Replayed]:
    """Each turn of the records told again, in the order in which they began."""
    turns: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        turns.setdefault(record["turn"], []).append(record)
    return [_replayed(turn_id, told, page) for turn_id, told in turns.items()]


def changed(opening: Mapping[str, Any], page: Page = PAGE) -> tuple[str, ...]:
    """What the page that decided had otherwise: a sentence for each row."""
    then, now = opening["page"], page_facts(page)
    if then["hash"] == now["hash"]:
        return ()
    gone = [f"{name} is gone" for name in then["rows"] if name not in now["rows"]]
    other = [f"{name} was otherwise" for name, cells in now["rows"].items() if then["rows"].get(name, cells) != cells]
    new = [f"{name} is new" for name in now["rows"] if name not in then["rows"]]
    return (*gone, *other, *new) or ("the order of the rows, or a counter, was otherwise",)


def _replayed(turn_id: str, told: Sequence[Mapping[str, Any]], page: Page) -> Replayed:
    opening, rest = told[0], told[1:]
    decided = [each for each in rest if each["is"] == "decision"]
    over = bool(rest) and rest[-1]["is"] == "end"
    if opening["is"] != "opening":
        return Replayed(turn_id, len(decided), over, "its opening is missing")
    differences = changed(opening, page)
    if opening["content"] != "full":
        why = 'it holds no text (content="digests"), and what was decided depends on it'
        return Replayed(turn_id, len(decided), over, why, changed=differences)
    try:
        config = config_of(opening["config"])
    except Exception as error:  # noqa: BLE001  # it may hold anything
        return Replayed(turn_id, len(decided), over, f"its config cannot be read: {error}", changed=differences)
    again = Again.of(config, tuple(opening["providers"]), page)
    first = next((each for record in rest for each in again.differences(record)), None)
    return Replayed(turn_id, len(decided), over, divergence=first, changed=differences)


@define
class Again:
    """A turn as it is told again, record by record."""

    turn: Turn
    page: Page
    seen: int = 0
    telling: Telling = field(factory=lambda: Telling(full=True))

    @classmethod
    def of(cls, config: LoopConfig, providers: tuple[str, ...], page: Page) -> Self:
        """A turn that has not begun."""
        return cls(begin_turn(config, providers, page), page)

    def differences(self, record: Mapping[str, Any]) -> Iterator[Divergence]:
        """What the next record of the trail has otherwise; one that is told again takes the turn on."""
        if record["is"] == "decision":
            yield from self._decided(record)
        elif record["is"] == "end":
            yield from self._ended(record)
        else:
            yield Divergence(None, "a second opening stands in it")

    def _decided(self, record: Mapping[str, Any]) -> Iterator[Divergence]:
        seq = record["seq"]
        try:
            decision = step(self.turn, event_of(record, self.page), self.page)
        except UnexpectedEvent as error:
            yield Divergence(seq, str(error))
        except Exception as error:  # noqa: BLE001  # a trail may say anything, and the page was made for events that happen
            yield Divergence(seq, f"its event cannot be told again: {type(error).__name__}: {error}")
        else:
            self.turn = decision.turn
            yield from _compared(seq, record, record_of(self.seen, decision, self.telling))
            self.seen += 1

    def _ended(self, record: Mapping[str, Any]) -> Iterator[Divergence]:
        if self.turn.record.end is None:
            yield Divergence(None, f"the trail has its end, and the replay stands in {self.turn.state.name.lower()}")
        else:
            yield from _compared(None, record, end_of(self.turn, self.seen, self.telling))


def _compared(seq: int | None, told: Mapping[str, Any], again: Mapping[str, Any]) -> Iterator[Divergence]:
    names = sorted({*told, *again}.difference(APART))
    if canonical([told.get(name) for name in names]) == canonical([again.get(name) for name in names]):
        return
    for name in names:
        then, now = canonical(told.get(name)), canonical(again.get(name))
        if then != now:
            yield Divergence(seq, f"{name} was {_short(then)}, and is {_short(now)} when told again")


def _short(text: bytes, most: int = 200) -> str:
    words = text.decode()
    return words if len(words) <= most else f"{words[:most]}..."
