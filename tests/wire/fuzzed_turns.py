"""Whole turns against replies that are anything but good, and all that must hold of each.

The loop and the provider are the real ones, time is virtual, and instead of sockets there is a script: so a turn takes
milliseconds, and one that hangs is seen to hang.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import selectors
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

import msgspec.json
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from fsm_loop import Loop, LoopConfig
from fsm_loop.core.effects import Request
from fsm_loop.core.events import ModelReplied
from fsm_loop.core.faults import FaultKind
from fsm_loop.core.messages import Finish
from fsm_loop.errors import ModelError
from fsm_loop.providers.anthropic_messages import AnthropicMessages
from fsm_loop.providers.openai_chat import OpenAIChat
from fsm_loop.providers.openai_responses import OpenAIResponses
from fsm_loop.testing.fakes import SeededChance
from fsm_loop.testing.wire.virtual import LoopClock
from tests.wire.fuzz import ENDINGS, SHORT_S, Reply, framed, replies, seeds_of
from tests.wire.streams import ARGUMENTS, CHAT, MESSAGES, RESPONSES, Good, by_hand

URL = "http://models.invalid/v1"
PROVIDERS: dict[str, Any] = {CHAT: OpenAIChat, MESSAGES: AnthropicMessages, RESPONSES: OpenAIResponses}
OUTCOMES = {"completed", "partial", "refused", "exhausted", "interrupted", "failed"}
BLANK = b"\n\n"  # behind an event
ARGS = tuple(ARGUMENTS.values())
_TERMINAL = re.compile(r'"finish_reason": "|"stop_reason": "|"type": "response\.(?:completed|incomplete|failed)"')
MOST_REQUESTS = 8
MOST_STEPS = 200  # of the trail: no turn of so few requests needs more
LONGEST_MESSAGE_CHARS = 1000
# Small caps, so that a turn that goes wrong again and again is over soon; the delays pass in no time.
CONFIG = LoopConfig(max_requests=MOST_REQUESTS, max_iterations=3, api_max_retries=1, recoveries=1, continuations=1)
WORDS_OF_AN_END = re.compile(
    rb"finish_reason|stop_reason|message_stop|\[DONE\]|response\.(completed|done|incomplete)|\"status\"|\"choices\""
)

# ---------------------------------------------------------------- a server that is none, and a loop without sockets


class Script:
    """A transport that answers by a script; the last answer comes again and again."""

    def __init__(self, answers: Sequence[Reply]) -> None:
        self.served: list[Reply] = []
        self._left = list(answers)

    @asynccontextmanager
    async def post(self, path: str, body: Any, headers: Any, **patience: Any) -> AsyncIterator[Any]:
        msgspec.json.encode(body)  # as the transport that is built in does
        reply = self._left.pop(0) if len(self._left) > 1 else self._left[0]
        self.served.append(reply)
        yield _Answer(reply)

    async def aclose(self) -> None:
        pass


class _Answer:
    def __init__(self, reply: Reply) -> None:
        self.status = reply.status
        self.headers = reply.headers
        self.ended = False
        self._steps = reply.steps

    async def chunks(self) -> AsyncIterator[bytes]:
        for step in self._steps:
            if isinstance(step, bytes):
                if step:
                    yield step
            elif isinstance(step, Exception):
                raise step
            elif step == float("inf"):
                await asyncio.get_running_loop().create_future()
            else:
                await asyncio.sleep(step)
        self.ended = True


class NothingWillHappen(AssertionError):  # noqa: N818  # says what is wrong with it
    """Whoever is awaited will never come: a turn that hangs."""


class _NoSockets(selectors.DefaultSelector):
    passed_s = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        found = super().select(0)
        if not found and timeout is None:
            raise NothingWillHappen
        if not found and timeout is not None:
            self.passed_s += timeout
        return found


class BareLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual seconds for tasks that need no socket; one that waits for nothing raises."""

    def __init__(self) -> None:
        self._bare = _NoSockets()
        super().__init__(self._bare)

    def time(self) -> float:
        """The virtual seconds that have passed."""
        return self._bare.passed_s


# ---------------------------------------------------------------- a turn, and what must hold of it


class _Listened:
    """A reader of whom is known what it raised that it may not raise."""

    def __init__(self, reader: Any, errors: list[BaseException]) -> None:
        self._reader = reader
        self._errors = errors

    @property
    def done(self) -> bool:
        return self._reader.done

    def feed(self, chunk: bytes) -> Any:
        return self._heard(self._reader.feed, chunk)

    def end(self) -> Any:
        return self._heard(self._reader.end)

    def _heard(self, function: Any, *args: Any) -> Any:
        try:
            yield from function(*args)
        except ModelError:
            raise
        except Exception as error:
            self._errors.append(error)
            raise


class Bench:
    """One protocol, ready to be asked again and again: its model, its tool, its loop."""

    def __init__(self, protocol: str, *, stream: bool = True, model: Any = None) -> None:
        self.ran: list[tuple[Any, Any]] = []
        self.errors: list[BaseException] = []
        self._model = model or PROVIDERS[protocol]("m", base_url=URL, stream=stream)
        reader = self._model._reader
        self._model._reader = lambda *args: _Listened(reader(*args), self.errors)
        self._loop = Loop(model=self._model, tools=[self.look], config=CONFIG, clock=LoopClock(), chance=SeededChance())

    async def look(self, city: str, days: int = 1) -> str:
        """The weather.

        Args:
            city: where
            days: how many

        """
        self.ran.append((city, days))
        return "sunny"

    async def turn(self, answers: Sequence[Reply]) -> tuple[Any, Script]:
        """One whole turn against these answers."""
        self._model._http = script = Script(answers)
        return await self.run(), script

    async def run(self) -> Any:
        """One whole turn against whatever the model speaks with."""
        self.ran.clear()
        self.errors.clear()
        return await self._loop.run("Hello")


class Served(Protocol):
    """Whoever has answered requests."""

    served: list[Reply]


def check(bench: Bench, result: Any, server: Served) -> None:
    """All that must hold of any turn, whatever its server sends."""
    faults = [fault for each in result.trail if (fault := getattr(each.event, "fault", None)) is not None]

    assert [] == bench.errors
    assert [] == [fault for fault in faults if fault.kind in (FaultKind.INTERNAL, FaultKind.UNKNOWN)]
    assert [] == [fault for fault in faults if len(fault.message) > LONGEST_MESSAGE_CHARS]
    assert result.outcome in OUTCOMES - {"interrupted"}
    assert result.last_state
    assert result.outcome != "failed" or result.fault is not None
    assert result.outcome != "exhausted" or result.exhausted is not None
    assert len(server.served) <= result.llm_calls <= MOST_REQUESTS + 1
    assert len(result.trail) <= MOST_STEPS
    assert () == result.trail_faults
    json.dumps(result.messages, ensure_ascii=False).encode()
    _check_pairs(result.messages)
    _check_tools(bench, result, server)


def _check_pairs(messages: Sequence[dict[str, Any]]) -> None:
    """Each call has its one result, at once behind it and in order."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert waiting
            assert waiting.pop(0) == message["tool_call_id"]
            continue
        assert not waiting
        waiting = [call["id"] for call in message.get("tool_calls") or ()]
    assert not waiting


def _check_tools(bench: Bench, result: Any, server: Served) -> None:
    """Tools ran as often as whole calls were in whole replies, and with arguments that were whole."""
    replied = [each.event.reply for each in result.trail if isinstance(each.event, ModelReplied)]
    whole = [reply for reply in replied if reply.finish in (Finish.TOOL_CALLS, Finish.STOP)]
    asked = [call.arguments for reply in whole for call in reply.tool_calls if not call.problem]

    assert len(bench.ran) <= len(asked)
    assert all(isinstance(city, str) and type(days) is int for city, days in bench.ran)
    if bench.ran:
        assert any(WORDS_OF_AN_END.search(reply.sent) or b'"bytes"' in reply.sent for reply in server.served)
    for arguments in asked[: len(bench.ran)]:
        assert isinstance(json.loads(arguments), dict)


@contextlib.contextmanager
def bare(kind: type[Any] = BareLoop) -> Iterator[Any]:
    """An event loop of this kind, to run one turn after another in."""
    loop = kind()
    try:
        yield loop
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


# ---------------------------------------------------------------- how many

# `make fuzz` sets it: so many streams for each protocol, other ones each time. Without it: few, and always the same.
FUZZ = int(os.environ.get("FUZZ", "0"))
FEW = 1200
FUZZING = settings(
    max_examples=FUZZ or FEW,
    derandomize=not FUZZ,
    deadline=None,
    database=None,
    print_blob=True,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
STRIDE = 1 if FUZZ else 5  # between two places at which a good stream is cut


class Tally:
    """What the turns of one protocol came to, for whoever fuzzes by hand to see."""

    def __init__(self, protocol: str) -> None:
        self._protocol = protocol
        self._began = time.monotonic()
        self._ends: Counter[str] = Counter()
        self._faults: Counter[str] = Counter()
        self._streams = 0
        self._ran = 0

    def add(self, bench: Bench, result: Any, script: Script) -> None:
        """One turn more."""
        self._ends[result.outcome] += 1
        self._streams += len(script.served)
        self._ran += len(bench.ran)
        faults = (getattr(each.event, "fault", None) for each in result.trail)
        self._faults.update(fault.kind.word for fault in faults if fault is not None)

    def __str__(self) -> str:
        took_s = time.monotonic() - self._began
        return (
            f"\n{self._protocol}: {self._ends.total()} turns, {self._streams} replies, {self._ran} tool runs in "
            f"{took_s:.0f} s\n  ends: {_counted(self._ends)}\n  faults: {_counted(self._faults)}"
        )


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{word} {number}" for word, number in counts.most_common())


# ---------------------------------------------------------------- the tests of each protocol


@contextlib.contextmanager
def _turns(protocol: str) -> Iterator[Callable[..., Any]]:
    """A function that plays a whole turn against some answers, and sees that what must hold of any turn does."""
    tally = Tally(protocol)
    benches = {stream: Bench(protocol, stream=stream) for stream in (True, False)}
    with bare() as loop:

        def run(*answers: Reply, stream: bool = True) -> tuple[Any, list[Any]]:
            bench = benches[stream]
            result, script = loop.run_until_complete(bench.turn(answers))
            tally.add(bench, result, script)
            check(bench, result, script)
            return result, list(bench.ran)

        yield run
    if FUZZ:
        print(tally)  # noqa: T201  # it is run by hand, to be read


def whatever_comes(protocol: str) -> None:
    """Whatever a server sends, the turn ends by a name and no tool runs that was not asked for in whole."""
    answer = replies(seeds_of(protocol), aws=protocol == MESSAGES)
    good = Reply(200, {}, (_streamed(by_hand(protocol)["text"]),))
    with _turns(protocol) as run:

        @FUZZING
        @given(first=answer, second=st.one_of(st.just(good), answer), stream=st.integers(0, 7))
        def any_turn(first: Reply, second: Reply, stream: int) -> None:
            run(first, second, stream=stream > 0)

        any_turn()


def cut_at_every_byte(protocol: str) -> None:
    """A call in a reply that was cut runs exactly if the word that ends the reply was there in whole.

    Where the reply ends well, the end of its last event may be missing; where it breaks off, nothing may.
    """
    good = by_hand(protocol)
    text = Reply(200, {}, (_streamed(good["text"]),))
    with _turns(protocol) as run:
        for name, calls in (("call", 1), ("two calls", 2)):
            body = _streamed(good[name])
            ends_at = _end_of_terminal(body, good[name])
            for at in sorted({*range(0, len(body), STRIDE), *range(ends_at - 1, ends_at + 3)}):
                ending = ENDINGS[-1 - at % 8] if at % 2 else ()
                result, ran = run(Reply(200, {}, (body[:at], *ending)), text)
                whole = at >= ends_at + (0 if ending in ((), (SHORT_S,)) else len(BLANK))

                assert [ARGS] * (calls if whole else 0) == ran, at
                assert "completed" == result.outcome or not whole, at


def chunks_end_anywhere(protocol: str) -> None:
    """Wherever the bytes of a good reply are parted, it says the same."""
    for good in by_hand(protocol).values():
        bodies = [_streamed(good), _streamed(good).replace(b"\n", b"\r\n")] if good.streamed else [_whole(good)]
        expected = _deltas(protocol, good, bodies[:1])
        for body in bodies:
            for at in range(1, len(body), STRIDE):
                assert expected == _deltas(protocol, good, [body[:at], body[at:]]), (good.name, at)


def _streamed(good: Good) -> bytes:
    return framed(good.events, named=True, newline="\n")


def _whole(good: Good) -> bytes:
    return good.events[0].data.encode()


def _end_of_terminal(body: bytes, good: Good) -> int:
    """Behind the last byte of the event that ends the reply."""
    (event,) = [each for each in good.events if _TERMINAL.search(each.data)]
    data = event.data.encode()
    return body.index(data) + len(data)


def _deltas(protocol: str, good: Good, chunks: Sequence[bytes]) -> list[Any]:
    """What a reader of this protocol makes of the chunks: its deltas, or the fault behind them."""
    reader: Any = PROVIDERS[protocol]("m", base_url=URL)._reader(Request(0, (), stream=good.streamed), "r1")
    said: list[Any] = []
    try:
        for chunk in chunks:
            said += reader.feed(chunk)
        said += reader.end()
    except ModelError as error:
        said.append(error.fault)
    return said
