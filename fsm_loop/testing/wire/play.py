"""A case is played: the real loop and the real provider, over real HTTP, against the server that replays the wire."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio
import anyio.abc
from attrs import field, frozen

from fsm_loop.drive.result import Entry, TurnResult
from fsm_loop.errors import TurnEnded
from fsm_loop.loop import Loop, RunningTurn
from fsm_loop.ports import Clock, Model
from fsm_loop.testing.fakes import SeededChance
from fsm_loop.testing.wire.case import Case, Received
from fsm_loop.testing.wire.connect import HTTP, WAYS, Close, Endpoint
from fsm_loop.testing.wire.scripted import PlainCompactor, config_of, messages_of, tool_of
from fsm_loop.testing.wire.server import WireServer
from fsm_loop.testing.wire.story import Story
from fsm_loop.testing.wire.threaded import ThreadedServer
from fsm_loop.testing.wire.virtual import LoopClock, ScaledClock, run_virtual
from fsm_loop.testing.wire.words import FAULTS, OUTCOMES, REASONS

LONGEST_S = 20_000.0  # virtual seconds after which a case is taken to have no end
SETTLES_S = 0.5  # virtual seconds for closed connections to be seen by the server

SCALE = 0.01  # real seconds that a virtual one takes where time is not virtual
LOOKS_S = 0.005  # real seconds between two looks at what a server in a thread has told

Parts = Mapping[str, Any]
Server = WireServer | ThreadedServer


@frozen
class Played:
    """What came of a case, in its own words; `ended` is false where it had no end."""

    outcome: str
    reason: str
    text: str
    tool_calls: Sequence[Parts]
    events: Sequence[str]
    states: Sequence[str]
    llm_calls: int
    seconds: float
    usage: Mapping[str, int]
    messages: Sequence[Parts]
    requests: Sequence[Received]
    ends: Sequence[float]
    violations: Sequence[str]
    open_connections: int
    trail: tuple[Entry, ...] = field(repr=False)


def play(case: Case, way: str = HTTP) -> Played:
    """Play the case to its end on this way to the wire, in virtual time."""
    return run_virtual(lambda: Player(case, LoopClock(), way=way).run())


def play_scaled(case: Case, backend: str = "trio", scale: float = SCALE, way: str = HTTP) -> Played:
    """Play the case in real time that is scaled down, on *backend*; its server is in a thread of its own."""
    return anyio.run(Player(case, ScaledClock(scale), scale, way).run, backend=backend)


class Player:
    """One run of a case: turns, one after the other, and whoever speaks during them."""

    def __init__(self, case: Case, clock: Clock, scale: float | None = None, way: str = HTTP) -> None:
        self._case = case
        self._way = way
        self._clock = clock
        self._scale = scale  # of real time; None in a virtual loop
        self._executed: list[dict[str, Any]] = []
        tools = case.setup["tools"]
        self._story = Story(frozenset(each["name"] for each in tools), self._heard)
        self._tools = [tool_of(each, clock, self._executed) for each in tools]
        self._heard_times: dict[str, int] = {}
        self._open_actions = list(case.setup["actions"])
        self._due_turns = 0  # new turns that have been triggered and have not begun
        self._next_word = ""
        self._turn: RunningTurn | None = None
        self._due_actions: list[tuple[float, Parts]] = []
        self._called = anyio.Event()
        self._words = anyio.Event()

    async def run(self) -> Played:
        """Play, and say what came of it."""
        async with self._served() as server:
            connected = self._connected(server)
            began_at = self._clock.now()
            results: list[TurnResult] = []
            try:
                with anyio.move_on_after(LONGEST_S * (self._scale or 1)):
                    async with anyio.create_task_group() as group:
                        group.start_soon(self._direct, group)
                        if isinstance(server, ThreadedServer):
                            group.start_soon(self._listen, server)
                        await self._turns(self._loop([model for model, _ in connected]), results)
                        group.cancel_scope.cancel()
                seconds = self._clock.now() - began_at
                await anyio.sleep(SETTLES_S if self._scale is None else LOOKS_S * 10)
                stand = server.open_connections
            finally:
                for _, close in connected:
                    await close()
            return self._played(results, server, seconds, stand)

    def _served(self) -> Server:
        if self._scale is None:
            return WireServer(self._case, tell=self._story.tell)
        return ThreadedServer(self._case, self._scale)

    async def _listen(self, server: ThreadedServer) -> None:
        """Take what the server's thread has told; nothing of a loop may be touched from there."""
        while True:
            while server.told:
                self._story.tell(server.told.popleft())
            await anyio.sleep(LOOKS_S)

    def _loop(self, models: Sequence[Model]) -> Loop:
        return Loop(
            model=models[0],
            fallbacks=models[1:],
            tools=self._tools,
            config=config_of(self._case.setup["config"]),
            watchers=[self._story],
            compactor=PlainCompactor(),
            clock=self._clock,
            chance=SeededChance(),
        )

    def _connected(self, server: Server) -> list[tuple[Model, Close]]:
        connect = WAYS[self._case.protocol]
        given = self._case.setup
        keys = _keys(given.get("credentials") or ["key"])
        config = given["config"]
        by_model = config.get("compat_by_model", {})
        return [
            connect(
                Endpoint(
                    model=name,
                    base_url=server.base_url,
                    root_url=server.root_url,
                    key=keys,
                    stream=self._case.stream,
                    compat={**config.get("compat", {}), **by_model.get(name, {})},
                    connections=config.get("http_max_connections"),
                    way=self._way,
                )
            )
            for name in given["models"]
        ]

    # ------------------------------------------------------------ turns

    async def _turns(self, loop: Loop, results: list[TurnResult]) -> None:
        messages = messages_of(self._case.setup["messages"])
        while True:
            async with loop.stream(messages) as self._turn:
                async for note in self._turn:
                    self._story.note(note)
            result = self._turn.result
            results.append(result)
            word = await self._next_turn()
            if not word:
                return
            messages = [*result.messages, {"role": "user", "content": word}]

    async def _next_turn(self) -> str:
        """What the user says next; empty where the case has no word left."""
        while self._due_turns and not self._next_word:
            self._words = anyio.Event()
            await self._words.wait()
        word, self._next_word = self._next_word, ""
        return word

    # ------------------------------------------------------------ whoever speaks

    def _heard(self, word: str) -> None:
        """A word of the story: whoever waits for it acts."""
        for each in word.split("|"):
            self._heard_times[each] = times = self._heard_times.get(each, 0) + 1
            for action in tuple(self._open_actions):
                when = action["when"]
                if when["event"] == each and when.get("nth", 1) == times:
                    self._open_actions.remove(action)
                    self._due_turns += action["do"] == "new_turn"
                    self._due_actions.append((self._clock.now() + action.get("delay", 0), action))
                    self._called.set()

    async def _direct(self, group: anyio.abc.TaskGroup) -> None:
        """Let each action that was triggered begin; what triggers one may be no task itself."""
        while True:
            while self._due_actions:
                group.start_soon(self._act, *self._due_actions.pop(0))
            self._called = anyio.Event()
            await self._called.wait()

    async def _act(self, moment: float, action: Parts) -> None:
        await self._clock.sleep_until(moment)
        turn = self._turn
        assert turn is not None
        match action["do"]:
            case "interrupt":
                turn.interrupt()
            case "steer":
                try:
                    turn.steer(action["text"])
                except TurnEnded:
                    self._say(action["text"])
            case "new_turn":
                self._due_turns -= 1
                self._say(action["text"])

    def _say(self, text: str) -> None:
        self._next_word = text
        self._words.set()

    # ------------------------------------------------------------ the end

    def _played(self, results: list[TurnResult], server: Server, seconds: float, stand: int) -> Played:
        last = results[-1] if results else None
        usage = {
            "input": sum(each.usage.input_tokens for each in results),
            "output": sum(each.usage.output_tokens for each in results),
            "cached": sum(each.usage.cached_input_tokens for each in results),
            "reasoning": sum(each.usage.reasoning_tokens for each in results),
        }
        return Played(
            outcome=OUTCOMES[last.outcome] if last else "",
            reason=_reason(last) if last else "",
            text=self._story.screen,
            tool_calls=self._executed,
            events=self._story.events,
            states=self._story.states,
            llm_calls=sum(each.llm_calls for each in results),
            seconds=seconds,
            usage=usage,
            messages=last.messages if last else (),
            requests=server.requests,
            ends=server.ends,
            violations=server.violations,
            open_connections=stand,
            trail=tuple(entry for each in results for entry in each.trail),
        )


def _reason(result: TurnResult) -> str:
    if result.fault is None:
        return ""
    kind = result.fault.kind
    return "|".join(filter(None, (FAULTS[kind], REASONS.get(kind))))


def _keys(credentials: Sequence[str]) -> Callable[[], str]:
    """A giver of keys: the next one each time it is asked, the last one for ever."""
    left = list(credentials)
    return lambda: left.pop(0) if len(left) > 1 else left[0]
