"""Those who watch a turn: told of each decision before anything is done about it.

One that fails is told no more, and its failure is kept for the result. It changes nothing of the turn, unless it
raises TrailFailed: then the turn must not go on without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial

from fsm_loop.core.effects import CallModel, RunTool
from fsm_loop.core.faults import Fault, FaultKind
from fsm_loop.core.rows import Page
from fsm_loop.core.step import Decision, Turn
from fsm_loop.drive.watch import told
from fsm_loop.errors import TrailFailed
from fsm_loop.ports import Follows, Surrounds, Watcher


class Audience:
    """The watchers of one turn. `stop` is called with the fault where the turn must end for want of its trail."""

    def __init__(self, watchers: Iterable[Watcher], turn_id: str, stop: Callable[[Fault], None]) -> None:
        self.faults: list[str] = []
        self._watchers = list(watchers)
        self._standing: list[Surrounds] = [each for each in self._watchers if isinstance(each, Surrounds)]
        self._turn_id = turn_id
        self._stop = stop

    def opened(self, turn: Turn, page: Page) -> None:
        """The turn is about to begin."""
        for watcher in tuple(self._watchers):
            if isinstance(watcher, Follows):
                self._tell(watcher, partial(watcher.opened, self._turn_id, turn, page))

    def saw(self, seq: int, decision: Decision) -> None:
        """One decision was made."""
        for watcher in tuple(self._watchers):
            self._tell(watcher, partial(watcher.saw, self._turn_id, seq, decision))

    def around(self, effect: CallModel | RunTool) -> AbstractContextManager[None]:
        """What the effect is carried out in; nothing, where nobody asked to stand around it."""
        return self._around(effect) if self._standing else nullcontext()

    def closed(self, turn: Turn) -> None:
        """Nothing more will come of the turn."""
        for watcher in tuple(self._watchers):
            if isinstance(watcher, Follows):
                self._tell(watcher, partial(watcher.closed, self._turn_id, turn))
        self._watchers.clear()

    @contextmanager
    def _around(self, effect: CallModel | RunTool) -> Iterator[None]:
        entered: list[tuple[Surrounds, AbstractContextManager[None]]] = []
        for watcher in tuple(self._standing):
            try:
                manager = watcher.around(self._turn_id, effect)
                manager.__enter__()
            except Exception as error:  # noqa: BLE001  # as in `_tell`
                self._leave(watcher, told(error))
            else:
                entered.append((watcher, manager))
        try:
            yield
        finally:
            for watcher, manager in reversed(entered):
                try:
                    manager.__exit__(None, None, None)  # what is raised is the turn's, and nobody else may keep it
                except Exception as error:  # noqa: BLE001  # as in `_tell`
                    self._leave(watcher, told(error))

    def _tell(self, watcher: Watcher, word: Callable[[], None]) -> None:
        try:
            word()
        except TrailFailed as error:
            self._leave(watcher, str(error))
            self._stop(Fault(FaultKind.INTERNAL, str(error)))
        except Exception as error:  # noqa: BLE001  # a watcher that fails never changes the turn
            self._leave(watcher, told(error))

    def _leave(self, watcher: Watcher, why: str) -> None:
        self._watchers = [each for each in self._watchers if each is not watcher]
        self._standing = [each for each in self._standing if each is not watcher]
        self.faults.append(f"{type(watcher).__name__}: {why}")
