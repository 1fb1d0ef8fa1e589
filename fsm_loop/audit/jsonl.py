"""The trail as a file of lines: one JSON object for each decision, written out before the next one is made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from fsm_loop.audit.facts import facts, plain
from fsm_loop.core.events import name_of
from fsm_loop.core.rows import name_of_guard
from fsm_loop.core.step import Decision

if TYPE_CHECKING:
    import os

Content = Literal["digests", "full"]


class JsonLines:
    """A watcher that appends each decision to a file, as one line of ASCII.

    A line goes to the system whole, so several turns, and several programs, may share a file: `turn` and `seq` tell
    their lines apart. `content="full"` keeps what users, models and tools say; without it the trail holds lengths and
    digests. Raises OSError where the file cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str], *, content: Content = "digests") -> None:
        if content not in ("digests", "full"):
            msg = f"content is {content!r}; it must be 'digests' or 'full'"
            raise ValueError(msg)
        self._full = content == "full"
        self._file = Path(path).open("ab", buffering=0)  # noqa: SIM115  # open for as long as turns are watched

    def saw(self, turn_id: str, seq: int, decision: Decision) -> None:
        """One decision was made: its line is written."""
        line = json.dumps(record_of(turn_id, seq, decision, full=self._full), separators=(",", ":"))
        rest = memoryview(f"{line}\n".encode("ascii"))
        while rest:
            rest = rest[self._file.write(rest) :]

    def close(self) -> None:
        """No more lines will come."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def record_of(turn_id: str, seq: int, decision: Decision, *, full: bool = False) -> dict[str, Any]:
    """The decision as a trail keeps it: what came, what was asked, what it led to."""
    return {
        "turn": turn_id,
        "seq": seq,
        "at": plain(decision.event.at),
        "state": decision.before.name.lower(),
        "trigger": name_of(type(decision.event)),
        "facts": facts(decision.event, full=full),
        "guards": [{"guard": name_of_guard(guard), "answer": answer} for guard, answer in decision.answers],
        "row": decision.name,
        "moved": [
            {"counter": each.counter, "before": plain(each.before), "after": plain(each.after), "cap": plain(each.cap)}
            for each in decision.moved
        ],
        "effects": [type(effect).__name__ for effect in decision.effects],
        "after": decision.turn.state.name.lower(),
    }
