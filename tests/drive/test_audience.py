"""Who watches a turn: told of its beginning, each decision and its end, in order; one that fails is told no more."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar

import anyio
import pytest

from fsm_loop.core.machine import PAGE
from fsm_loop.errors import TrailFailed
from fsm_loop.loop import Loop
from fsm_loop.testing.clock import VirtualClock
from fsm_loop.testing.fakes import ScriptedModel, calls, says
from tests.drive.turns import on_each_backend


class Listens:
    """A watcher that keeps what it was told, and fails at one word of it, if it is to."""

    def __init__(self, log, name, fails_at=None, error=ValueError):
        self.log, self.name, self.fails_at, self.error = log, name, fails_at, error

    def opened(self, turn_id, turn, page):
        assert turn.state is page.start is PAGE.start
        self.hear("opened")

    def saw(self, turn_id, seq, decision):
        self.hear(f"saw {seq}")

    def closed(self, turn_id, turn):
        assert turn.state is PAGE.done
        self.hear("closed")

    def hear(self, word):
        self.log.append((self.name, word))
        if word == self.fails_at:
            raise self.error("no ears")


class Hears:
    """A watcher that asks for decisions alone."""

    def __init__(self, log):
        self.log = log

    def saw(self, turn_id, seq, decision):
        self.log.append(("hears", f"saw {seq}"))


def run(*watchers):
    """A turn of four decisions, watched."""
    clock = VirtualClock()
    loop = Loop(model=ScriptedModel([says("ok")], clock=clock), watchers=watchers, clock=clock)
    return clock.run(lambda: loop.run("hi"))


WORDS = ["opened", "saw 0", "saw 1", "saw 2", "saw 3", "closed"]


def test_all_are_told_in_order():
    """Each word is told to all before the next one; who asks for decisions alone gets them alone."""
    log = []
    run(Listens(log, "a"), Hears(log), Listens(log, "b"))
    listens = [(name, word) for word in WORDS for name in ("a", "hears", "b")]

    assert [each for each in listens if each not in (("hears", "opened"), ("hears", "closed"))] == log


@pytest.mark.parametrize("word", WORDS)
def test_one_that_fails_is_told_no_more(word):
    """Its failure is kept, the others hear everything, and the turn is as it is."""
    log = []
    result = run(Listens(log, "a", word), Listens(log, "b"))

    assert WORDS[: WORDS.index(word) + 1] == [each for name, each in log if name == "a"]
    assert WORDS == [each for name, each in log if name == "b"]
    assert ("completed", ("Listens: ValueError: no ears",)) == (result.outcome, result.trail_faults)


@pytest.mark.parametrize("word", WORDS)
def test_one_that_the_turn_must_not_go_on_without_ends_it(word):
    """The turn fails at once; where it is over already, it stays as it ended."""
    log = []
    result = run(Listens(log, "a", word, TrailFailed), Listens(log, "b"))
    over = word in ("saw 3", "closed")

    assert WORDS[: WORDS.index(word) + 1] == [each for name, each in log if name == "a"]
    assert "closed" == log[-1][1]
    assert ("completed" if over else "failed") == result.outcome
    assert ("Listens: no ears",) == result.trail_faults
    if not over:
        assert ("trail", "no ears", "interrupt_asked") == (
            result.issuer,
            result.fault.message,
            result.trail[-1].row.split(".")[1],
        )


# ---------------------------------------------------------------- those who stand around


PLACE = ContextVar("place", default="outside")


class Stands:
    """A watcher that stands around each effect, says so in a context variable, and fails where it is to."""

    def __init__(self, log, fails_at=""):
        self.log, self.fails_at = log, fails_at

    def saw(self, turn_id, seq, decision):
        """Asked for by every turn, and of no interest here."""

    @contextmanager
    def around(self, turn_id, effect):
        place = type(effect).__name__ + getattr(getattr(effect, "call", None), "arguments", "")
        self.fail("entering")
        token = PLACE.set(place)
        self.log.append(("in", place))
        try:
            yield
        except BaseException as error:
            self.log.append(("raised", repr(error)))
            raise
        finally:
            self.log.append(("out", place))
            PLACE.reset(token)
            self.fail("leaving")

    def fail(self, at):
        if at == self.fails_at:
            raise ValueError("no room")


def surrounded(watchers, tools, script, backend="asyncio", **words):
    """A turn with tools, and with watchers around what it does."""
    clock = VirtualClock()
    loop = Loop(model=ScriptedModel(script, clock=clock), tools=tools, watchers=watchers, clock=clock)
    return clock.run(lambda: loop.run("hi", **words), backend)


@on_each_backend
def test_context_holds_in_the_tool(backend):
    """What a watcher sets around a tool call holds in that tool alone, in a task as in a thread, at the same time."""
    log, places = [], {}
    both = anyio.Event()

    async def task() -> str:
        """Wait for the other."""
        await both.wait()
        places["task"] = PLACE.get()
        return ""

    def thread(n: int) -> str:
        """Run in a thread."""
        places["thread"] = PLACE.get()
        anyio.from_thread.run_sync(both.set)
        return ""

    script = [calls(("task", {}), ("thread", {"n": 1})), says("ok")]
    result = surrounded([Stands(log)], [task, thread], script, backend)

    assert ("completed", ()) == (result.outcome, result.trail_faults)
    assert {"task": "RunTool{}", "thread": 'RunTool{"n": 1}'} == places
    assert [("in", "CallModel"), ("out", "CallModel")] == log[:2] == log[-2:]
    assert {("in", "RunTool{}"), ("in", 'RunTool{"n": 1}')} == set(log[2:4])
    assert {("out", "RunTool{}"), ("out", 'RunTool{"n": 1}')} == set(log[4:6])
    assert 8 == len(log)


@pytest.mark.parametrize("at", ["entering", "leaving"])
def test_one_that_fails_around_is_asked_no_more(at):
    """Its failure is kept once, whoever else stands there stays, and the turn is as it is."""
    log, other = [], []

    def f() -> str:
        """A tool."""
        return ""

    result = surrounded([Stands(log, at), Stands(other)], [f], [calls(("f", {})), says("ok")])

    assert ("completed", ("Stands: ValueError: no room",)) == (result.outcome, result.trail_faults)
    assert ([] if at == "entering" else [("in", "CallModel"), ("out", "CallModel")]) == log
    assert 6 == len(other)


@on_each_backend
def test_what_the_turn_raises_passes_by(backend):
    """A watcher is not told of a cancellation, and leaves its place all the same."""
    log = []

    async def hangs() -> str:
        """Never return."""
        await anyio.sleep_forever()
        return ""

    async def cancelled():
        loop = Loop(model=ScriptedModel([calls(("hangs", {}))]), tools=[hangs], watchers=[Stands(log)])
        async with loop.stream("hi") as turn:
            async for note in turn:
                if type(note).__name__ == "ToolStarted":
                    turn.interrupt()

    anyio.run(cancelled, backend=backend)

    assert [("in", "RunTool{}"), ("out", "RunTool{}")] == log[-2:]
    assert [] == [each for each in log if each[0] == "raised"]
