"""Many turns in figures: how they ended, what ended them, how long they took and where the time went."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import Factory, define, frozen

from fsm_loop.errors import TrailError

Told = Mapping[str, Any]
PERCENTILES = (50, 95, 99)
MOST_OPEN_TURNS = 100_000  # turns whose end has not been read yet; one more ends the count with an error


@frozen
class Spread:
    """How a measure is spread over the turns: how many there are, the percentiles, the largest."""

    count: int
    percentiles: tuple[float, ...]
    largest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The spread of these values."""
        ordered = sorted(values)
        if not ordered:
            return cls(0, (0.0,) * len(PERCENTILES), 0.0)
        return cls(len(ordered), tuple(_percentile(ordered, each) for each in PERCENTILES), ordered[-1])

    def plain(self) -> dict[str, float]:
        """As JSON has it."""
        return {
            "count": self.count,
            **{f"p{p}": v for p, v in zip(PERCENTILES, self.percentiles, strict=True)},
            "max": self.largest,
        }


def _percentile(ordered: Sequence[float], percent: int) -> float:
    """The smallest value that so many percent of them do not exceed."""
    return ordered[max(0, -(-percent * len(ordered) // 100) - 1)]


@define
class _Open:
    """A turn that has not ended yet."""

    began: float = 0.0
    last: float = 0.0
    state: str = ""
    waited_s: float = 0.0
    tool_calls: int = 0
    seen: bool = False


def _floats() -> array[float]:
    return array("d")


@define
class Stats:
    """What was counted. Values are kept as plain numbers: some forty bytes a turn and eight a decision."""

    turns: int = 0
    decisions: int = 0
    late: int = 0
    outcomes: Counter[str] = Factory(Counter)
    counters: Counter[str] = Factory(Counter)
    faults: Counter[str] = Factory(Counter)
    ended_by_fault: Counter[str] = Factory(Counter)
    spends: Counter[str] = Factory(Counter)
    duration_s: array[float] = Factory(_floats)
    waited_s: array[float] = Factory(_floats)
    calls: array[float] = Factory(_floats)
    tool_calls: array[float] = Factory(_floats)
    tokens: array[float] = Factory(_floats)
    in_state_s: dict[str, array[float]] = Factory(lambda: defaultdict(_floats))
    _open: dict[str, _Open] = Factory(dict)

    @property
    def unfinished(self) -> int:
        """Turns without an end."""
        return len(self._open)

    def see(self, record: Told) -> None:
        """One record more; raises TrailError where more than MOST_OPEN_TURNS turns have no end."""
        turn_id = record["turn"]
        turn = self._open.get(turn_id)
        if turn is None:
            turn = self._open[turn_id] = _Open()
            self.turns += 1
        if len(self._open) > MOST_OPEN_TURNS:
            msg = f"more than {MOST_OPEN_TURNS} turns have no end; count fewer files at a time"
            raise TrailError(msg)
        match record["is"]:
            case "decision":
                self._decided(turn, record)
            case "end":
                self._ended(turn, record)
                del self._open[turn_id]

    def _decided(self, turn: _Open, record: Told) -> None:
        at = float(record["at"])
        self.decisions += 1
        self.late += record["row"] == "late"
        if turn.seen:
            self.in_state_s[turn.state].append(at - turn.last)
        else:
            turn.began, turn.seen = at, True
        turn.last, turn.state = at, record["after"]
        fault = record["facts"].get("fault")
        if fault:
            self.faults[str(fault.get("kind", "unknown"))] += 1
        for moved in record["moved"]:
            if moved["after"] == moved["before"] + 1:
                self.spends[moved["counter"]] += 1
        for effect in record["effects"]:
            turn.tool_calls += effect["effect"] == "RunTool"
            if effect["effect"] == "SetTimer":
                turn.waited_s += float(effect["delay_s"])

    def _ended(self, turn: _Open, record: Told) -> None:
        self.outcomes[record["outcome"]] += 1
        if record["exhausted"]:
            self.counters[record["exhausted"]["counter"]] += 1
        if record["fault"]:
            self.ended_by_fault[str(record["fault"].get("kind", "unknown"))] += 1
        usage = record["usage"]
        self.duration_s.append(turn.last - turn.began)
        self.waited_s.append(turn.waited_s)
        self.calls.append(record["llm_calls"])
        self.tool_calls.append(turn.tool_calls)
        self.tokens.append(usage.get("input_tokens", 0) + usage.get("output_tokens", 0))

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        measures = ("duration_s", "waited_s", "calls", "tool_calls", "tokens")
        return {
            "turns": self.turns,
            "unfinished": self.unfinished,
            "decisions": self.decisions,
            "late": self.late,
            "outcomes": dict(self.outcomes.most_common()),
            "ended_by_counter": dict(self.counters.most_common()),
            "ended_by_fault": dict(self.ended_by_fault.most_common()),
            "faults": dict(self.faults.most_common()),
            "spends": dict(self.spends.most_common()),
            **{name: Spread.of(getattr(self, name)).plain() for name in measures},
            "in_state_s": {name: Spread.of(values).plain() for name, values in self.in_state_s.items()},
        }


def stats(records: Iterable[Told]) -> Stats:
    """Count the records of any number of turns, in any order that keeps each turn's own."""
    found = Stats()
    for record in records:
        found.see(record)
    return found
