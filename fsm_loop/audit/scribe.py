"""The scribe: writes the records of one turn, each sealed with a hash over itself and over the record before it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import attrs
import msgspec

from fsm_loop.audit.canonical import canonical, sha256
from fsm_loop.audit.facts import Redact, Telling, number, plain
from fsm_loop.audit.records import FORMAT, START
from fsm_loop.core.events import name_of
from fsm_loop.core.rows import Guard, Page, Row, name_of_guard
from fsm_loop.core.step import Decision, Turn

_BLANK = "#" * len(START)
_MEMBER = f'"hash":"{_BLANK}",'.encode()
Sign = Callable[[str], str]
"""Signs the last hash of a turn."""
ROW_DIGITS = 8  # of a row's hash that are kept


class Scribe:
    """The records of one turn, as lines of canonical JSON."""

    def __init__(
        self,
        turn_id: str,
        wall: Callable[[], float],
        *,
        full: bool = False,
        redact: Redact | None = None,
        sign: Sign | None = None,
    ) -> None:
        self.turn_id = turn_id
        self.head = START
        self._wall = wall
        self._telling = Telling(full, redact)
        self._sign = sign
        self._decisions = 0
        self.is_new = True

    def opening(self, turn: Turn, page: Page) -> bytes:
        """The line that stands before the decisions of the turn."""
        record = {
            "is": "opening",
            "format": FORMAT,
            "package": _version(),
            "page": page_facts(page),
            "config": plain(attrs.asdict(turn.record.config, recurse=False)),
            "providers": list(turn.record.providers),
            "content": "full" if self._telling.full else "digests",
        }
        return self._sealed(record)

    def decision(self, seq: int, decision: Decision) -> bytes:
        """The line of one decision."""
        self._decisions += 1
        return self._sealed(record_of(seq, decision, self._telling))

    def end(self, turn: Turn) -> bytes:
        """The line that stands behind the last decision of the turn, which is over."""
        return self._sealed(end_of(turn, self._decisions, self._telling), self._sign)

    def _sealed(self, record: dict[str, Any], sign: Sign | None = None) -> bytes:
        self.is_new = record["is"] == "opening"
        record |= {"turn": self.turn_id, "wall": number(round(self._wall(), 6)), "previous": self.head, "hash": _BLANK}
        # The hash is put where its blank stands, instead of writing all of it twice. Nothing that stands behind it
        # in the order of names holds what others say, so the last blank is ours.
        before, _, after = canonical(record).rpartition(_MEMBER)
        self.head = sha256(before + after)
        line = b'%b"hash":"%b",%b' % (before, self.head.encode(), after)
        return (line if sign is None else _signed(line, sign(self.head))) + b"\n"


def _signed(line: bytes, signature: str) -> bytes:
    return canonical({**msgspec.json.decode(line), "signature": signature})


def record_of(seq: int, decision: Decision, telling: Telling) -> dict[str, Any]:
    """The decision as a trail keeps it: what came, what was asked, what it led to."""
    event = decision.event
    return {
        "is": "decision",
        "seq": seq,
        "at": number(event.at),
        "state": decision.before.name.lower(),
        "trigger": name_of(type(event)),
        "facts": telling.facts(event),
        "guards": _guards(decision.answers),
        "row": decision.name,
        "moved": [
            {
                "counter": each.counter,
                "before": number(each.before),
                "after": number(each.after),
                "cap": None if each.cap is None else number(each.cap),
            }
            for each in decision.moved
        ],
        "effects": [telling.asked(effect) for effect in decision.effects],
        "after": decision.turn.state.name.lower(),
    }


def end_of(turn: Turn, decisions: int, telling: Telling) -> dict[str, Any]:
    """The end of the turn as a trail keeps it; the turn must be over."""
    record, end = turn.record, turn.record.end
    assert end is not None, "the turn has not ended"
    return {
        "is": "end",
        "decisions": decisions,
        "outcome": end.outcome,
        "text": telling.field("text", end.text),
        "exhausted": None if end.exhausted is None else telling.record(end.exhausted),
        "fault": None if end.fault is None else telling.record(end.fault),
        "issuer": telling.field("issuer", end.issuer),
        "reason": telling.field("reason", end.reason),
        "usage": telling.record(record.usage),
        "llm_calls": record.sent,
        "counters": {name: plain(count) for name, count in record.counts.items() if count},
        "pending_steers": len(record.steers),
    }


@lru_cache(maxsize=4096)
def _guards(answers: tuple[tuple[Guard, bool], ...]) -> msgspec.Raw:
    """The guards that were asked, as JSON: the same ones are asked again and again."""
    return msgspec.Raw(canonical([(name_of_guard(guard), answer) for guard, answer in answers]))


@cache
def page_facts(page: Page) -> dict[str, Any]:
    """The page that decides: a hash over all of it, and for each row the start of a hash over its cells."""
    cells = {row.name: _cells(row) for row in page.rows}
    counters = [plain(attrs.asdict(counter)) for counter in page.counters]
    whole = {"rows": [[name, *cells[name]] for name in cells], "counters": counters}
    return {
        "version": page.version,
        "hash": sha256(canonical(whole)),
        "rows": {name: sha256(canonical(each))[:ROW_DIGITS] for name, each in cells.items()},
    }


def _cells(row: Row) -> list[Any]:
    asked = [name_of_guard(guard) for guard in row.when]
    spends = row.spends.name if row.spends else None
    brings = [each.value for each in row.brings]
    return [row.source.name, row.trigger, asked, row.to.name, getattr(row.do, "__name__", ""), spends, brings]


@cache
def _version() -> str:
    from importlib.metadata import version  # a tenth of what the door may cost

    return version("fsm-loop")
