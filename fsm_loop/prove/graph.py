"""Whether the machine takes exactly the steps of its oracle: the written spec, whose steps a model checker has listed.

`specs/loop.tla` is written by hand, and not from the page. For each small config beside it, all its steps are kept in
`specs/graph.json.gz`. Here the real `step` is led along these steps, one by one, from the beginning. In each state of
the spec the page must answer the same events, and each must lead it to the same state, in all that the spec speaks
of. As both are led from one beginning, and every step is compared, the two graphs are then equal, edge for edge.

A label is an event of the spec with its parameters: `ModelFailed|outage|text`. What it stands for in the machine's own
events is in `labels`, often several; they are taken in turn from state to state.
"""

from __future__ import annotations

import gzip
import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from attrs import define, field, frozen

from fsm_loop.config import LoopConfig
from fsm_loop.core import effects as do
from fsm_loop.core.effects import Effect
from fsm_loop.core.machine import PAGE
from fsm_loop.core.rows import Page
from fsm_loop.core.step import Decision, Turn, begin_turn, step
from fsm_loop.errors import UnexpectedEvent
from fsm_loop.prove.labels import COST_CAP, TOKENS_CAP, events_of

# What the spec speaks of, in the order in which its states are written; its counters, in theirs.
FACTS = ("state", "doing", "outcome", "count", "overspent", "pending", "cut", "told", "spare", "steer", "words")
COUNTERS = (
    *("requests", "iterations", "grace_calls", "sanitizations", "credential_refreshes", "output_limit_repairs"),
    *("history_repairs", "media_repairs", "parameter_repairs", "stream_switches", "continuations", "boosts"),
    *("empty_replies", "bad_tool_rounds", "compactions", "recoveries", "fallbacks", "rebuilds", "api_retries"),
    *("stream_retries", "slot_waits"),
)
MEASURED = ("tokens", "cost", "turn_seconds")
DOING: dict[type[Effect], str] = {
    do.ReserveSlot: "slot",
    do.CallModel: "call",
    do.JudgeCut: "judge",
    do.RunTool: "tools",
    do.SetTimer: "timer",
    do.Repair: "repair",
    do.SwitchProvider: "switch",
}
WORDS = ("SteerGiven", "SteerGivenNow", "RebuildAsked")  # those that the spec counts
# How the constants of a config of the spec are called in LoopConfig.
FIELDS = {
    "Requests": "max_requests",
    "Iterations": "max_iterations",
    "ApiRetries": "api_max_retries",
    **{
        "".join(word.capitalize() for word in name.split("_")): name
        for name in ("grace_calls", *COUNTERS[3:16], *COUNTERS[17:18], *COUNTERS[19:])
    },
}
NO_ROOM = 1000  # tokens: a request begins at the ceiling of the output limit

State = tuple[Any, ...]


@frozen
class Graph:
    """All steps of the spec under one config: `steps[here][label]` is where it goes, by its number in `states`."""

    name: str
    constants: Mapping[str, Any]
    states: tuple[State, ...]
    steps: tuple[Mapping[str, int], ...]

    @property
    def edges(self) -> int:
        """How many steps there are."""
        return sum(map(len, self.steps))

    @property
    def config(self) -> LoopConfig:
        """The config of the machine that this config of the spec speaks of."""
        caps: dict[str, Any] = {name: self.constants[constant] for constant, name in FIELDS.items()}
        if True in self.constants["Dear"]:
            caps |= {"tokens": TOKENS_CAP, "cost": COST_CAP}
        if not self.constants["Room"]:
            caps |= {"max_output_tokens": NO_ROOM, "output_ceiling_tokens": NO_ROOM}
        return LoopConfig(**caps)

    @property
    def providers(self) -> tuple[str, ...]:
        """The primary, and the chain behind it."""
        return tuple(f"provider {place}" for place in range(self.constants["Chain"] + 1))

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """Every event that this config of the spec knows."""
        return tuple(sorted({label for step in self.steps for label in step}))


@frozen
class Difference:
    """Where the page and the spec part: after this path, on this label, each goes elsewhere (None: nowhere)."""

    graph: str
    path: tuple[str, ...]
    label: str
    here: State
    spec: State | None
    page: State | None
    why: str = ""

    def __str__(self) -> str:
        """Read from the beginning of the turn."""
        way = "".join(f"\n  {number}. {label}" for number, label in enumerate((*self.path, self.label), 1))
        spec, page = _told(self.here, self.spec, self.page), _told(self.here, self.page, self.spec)
        return f"{self.graph}: after{way}\nthe spec: {spec}\nthe page: {page}{self.why and f' ({self.why})'}"


def read_graphs(path: Path) -> tuple[Graph, ...]:
    """The kept graphs of the spec, one for each small config."""
    with gzip.open(path, "rt", encoding="utf-8") as kept:
        return tuple(map(_graph, json.load(kept)))


@frozen
class Compared:
    """What came of leading a page along graphs: the nearest difference, if there is one, and the rows that fired."""

    difference: Difference | None
    rows: frozenset[str]


def compared(graphs: Iterable[Graph], page: Page = PAGE, *, newest: bool = False) -> Compared:
    """Whether *page* takes the steps of the spec, edge for edge; the first graph in which it does not is the last.

    A state of the spec stands for many turns of the machine. One is followed: the first that leads there, or
    with *newest* the last one that was found.
    """
    rows: set[str] = set()
    for graph in graphs:
        walk = _Walk(graph, page, newest)
        difference = walk.difference()
        rows |= walk.rows
        if difference is not None:
            return Compared(difference, frozenset(rows))
    return Compared(None, frozenset(rows))


@frozen
class _Here:
    """A turn, and what the spec knows of it that no record holds."""

    turn: Turn
    doing: str = "nothing"
    words: int = 0


@define
class _Walk:
    """The page, led along one graph."""

    graph: Graph
    page: Page
    newest: bool
    rows: set[str] = field(factory=set)
    came: dict[int, tuple[int, str]] = field(factory=dict)

    def difference(self) -> Difference | None:
        """The first step in which the page parts from the graph; the shortest way there, unless newest turns lead."""
        start = _Here(begin_turn(self.graph.config, self.graph.providers, self.page))
        if facts_of(start) != self.graph.states[0]:
            return Difference(self.graph.name, (), "Init", (), self.graph.states[0], facts_of(start))
        turns, waiting = {0: start}, deque([0])
        while waiting:
            number = waiting.pop() if self.newest else waiting.popleft()
            here, steps = turns.pop(number), self.graph.steps[number]
            for label in self.graph.labels:
                there, why = self._follow(here, label, number)
                expected = steps.get(label)
                spec = None if expected is None else self.graph.states[expected]
                page = None if there is None else facts_of(there)
                if spec != page:
                    path = self._path(number)
                    return Difference(self.graph.name, path, label, self.graph.states[number], spec, page, why)
                if expected is None or there is None:
                    continue
                if expected != 0 and expected not in self.came:
                    self.came[expected] = number, label
                    turns[expected] = there
                    waiting.append(expected)
                elif self.newest and expected in turns:
                    turns[expected] = there
        return None

    def _follow(self, here: _Here, label: str, number: int) -> tuple[_Here | None, str]:
        """Where the page goes on an event that may come now; None where it cannot come, or is not awaited."""
        name = label.split("|", 1)[0]
        counted = name in WORDS and here.turn.state is not self.page.done
        if counted and here.words >= self.graph.constants["Words"]:
            return None, "no more words come"
        events = events_of(label, here.turn, here.doing)
        if not events:
            return None, "no such answer is awaited"
        try:
            decision = step(here.turn, events[number % len(events)], self.page)
        except (UnexpectedEvent, AssertionError) as error:
            return None, str(error)
        self.rows.add(decision.name)
        return _Here(decision.turn, _doing_after(here, decision), here.words + counted), decision.name

    def _path(self, number: int) -> tuple[str, ...]:
        labels: list[str] = []
        while number:
            number, label = self.came[number]
            labels.append(label)
        return tuple(reversed(labels))


def _doing_after(here: _Here, decision: Decision) -> str:
    if decision.turn.record.end is not None:
        return "nothing" if not any(type(effect) in DOING for effect in decision.effects) else "too much"
    asked = {DOING[type(effect)] for effect in decision.effects if type(effect) in DOING}
    return "+".join(sorted(asked)) or here.doing


def facts_of(here: _Here) -> State:
    """What the spec speaks of, of this turn of the machine."""
    record, state = here.turn.record, here.turn.state.name.lower()
    over = state in ("grace", "done")
    return (
        state,
        here.doing,
        record.end.outcome if record.end else "none",
        tuple(int(record.counts.get(name, 0)) for name in COUNTERS),
        any(_is_spent(here.turn, name) for name in MEASURED),
        sum(result is None for result in record.results),
        _cut_of(here.turn),
        not over and bool((record.lead + "".join(record.pieces)).strip()),
        not over and record.shape.less_reasoning,
        bool(record.steers),
        here.words,
    )


def _is_spent(turn: Turn, measure: str) -> bool:
    cap = getattr(turn.record.config, measure)
    return cap is not None and turn.record.counts.get(measure, 0) >= cap


def _cut_of(turn: Turn) -> str:
    """The cut reply, as the spec calls it."""
    cut = turn.record.cut
    if cut is None:
        return "none"
    return cut.model or "text"  # a reply bears the name of its kind; the rest of a stream that broke off is text


def _graph(kept: dict[str, Any]) -> Graph:
    steps: list[dict[str, int]] = [{} for _ in kept["states"]]
    for here, label, there in kept["edges"]:
        steps[here][kept["labels"][label]] = there
    states = tuple((*each[:3], tuple(each[3]), *each[4:]) for each in kept["states"])
    return Graph(kept["name"], kept["constants"], states, tuple(steps))


def _told(here: State, there: State | None, other: State | None) -> str:
    """What changes on the way from *here*, and where the other side goes elsewhere."""
    if there is None:
        return "nothing can happen so"
    return ", ".join(_changes(here, there, other)) or "nothing changes"


def _changes(here: State, there: State, other: State | None) -> Iterator[str]:
    old, new, else_ = (_flat(each) if each else {} for each in (here, there, other))
    for name, value in new.items():
        if value != old.get(name) or (other and value != else_.get(name)):
            yield f"{name} {value}"


def _flat(state: State) -> dict[str, Any]:
    facts = dict(zip(FACTS, state, strict=True))
    counts = dict(zip(COUNTERS, facts.pop("count"), strict=True))
    return facts | counts
