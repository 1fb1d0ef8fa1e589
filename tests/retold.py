"""Every turn that a test drives is also written down; at the test's end the trail is verified and told again."""

from __future__ import annotations

from attrs import evolve

from fsm_loop.audit.reading import line_of
from fsm_loop.audit.replay import replay
from fsm_loop.audit.sink import Sink
from fsm_loop.audit.verify import verify
from fsm_loop.core.machine import PAGE
from fsm_loop.drive.aio import Driver


class Kept(Sink):
    """A trail in memory, with all content."""

    def __init__(self) -> None:
        super().__init__(content="full", wall=lambda: 0.0)
        self.lines: list[bytes] = []

    def write(self, scribe, line, *, last=False):
        """One line more."""
        self.lines.append(line)

    def close(self):
        """Nothing is held open."""


class Retold:
    """The turns of one test."""

    def __init__(self) -> None:
        self.kept: list[tuple[Kept, object]] = []

    def watch(self, monkeypatch) -> None:
        """See every turn of the asynchronous driver from now on."""
        begin = Driver.__init__

        def watched(driver, ports, config, turn_id, *, page=PAGE, **rest):
            kept = Kept()
            self.kept.append((kept, page))
            begin(driver, evolve(ports, watchers=(*ports.watchers, kept)), config, turn_id, page=page, **rest)

        monkeypatch.setattr(Driver, "__init__", watched)

    def wrong(self) -> list[object]:
        """Whatever is wrong with the trails of the turns: what verify finds, and where a replay parts from its trail."""
        return [each for kept, page in self.kept for each in _wrong(kept, page)]


def _wrong(kept, page):
    lines = [line_of("memory", number, raw) for number, raw in enumerate(kept.lines, 1)]
    yield from verify(lines, page).problems
    yield from (each for each in replay([line.record for line in lines], page) if not each.same)
