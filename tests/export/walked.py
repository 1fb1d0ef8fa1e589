"""Turns of the real machine as a walk that any engine can take: events, what the guards answer, the states."""

from __future__ import annotations

import random
from collections.abc import Iterator

from fsm_loop import LoopConfig
from fsm_loop.core.events import InterruptAsked, RebuildAsked, SteerGiven, name_of
from fsm_loop.core.machine import PAGE
from fsm_loop.core.rows import name_of_guard
from fsm_loop.drive.sim import Simulated, Word
from fsm_loop.prove.chances import THINGS, Profile
from fsm_loop.testing import drawn

SEED = 20261201
CAPS = (
    "api_max_retries",
    "stream_retries",
    "recoveries",
    "continuations",
    "boosts",
    "empty_replies",
    "bad_tool_rounds",
    "compactions",
    "rebuilds",
    "slot_waits",
)
OTHERS = (
    "sanitizations",
    "credential_refreshes",
    "output_limit_repairs",
    "history_repairs",
    "parameter_repairs",
    "stream_switches",
)
WORDS = (
    (SteerGiven, {"text": "so"}), (SteerGiven, {"text": "so", "now": True}), (RebuildAsked, {"messages": ()}), (InterruptAsked, {}),
)  # fmt: skip


def config_of(chance: random.Random) -> LoopConfig:
    """A config with small caps, each turn another one."""
    caps = {name: chance.choice([0, 0, 1, 2]) for name in (*CAPS, *OTHERS)}
    return LoopConfig(
        **caps,
        max_iterations=chance.randint(1, 3),
        max_requests=chance.randint(2, 12),
        grace_calls=chance.randint(0, 1),
    )


def profile_of(chance: random.Random) -> Profile:
    """A few things that go wrong often, each turn others."""
    things = chance.sample([*THINGS], 4)
    shares = {name: 0.9 * chance.choice([0.05, 0.2, 0.25]) for name in things}
    return Profile(
        "anything", chances=shares, provider_not_ready=chance.choice([0, 0.5]), repair_fails=chance.choice([0, 0.5]), tool_loop=0.1
    )  # fmt: skip


def turns(count: int) -> Iterator[Simulated]:
    """So many turns in which anything may happen, words among it."""
    chance = random.Random(SEED)
    for _ in range(count):
        said = [Word(chance.randint(1, 8), *chance.choice(WORDS)) for _ in range(chance.choice([0, 0, 1, 4]))]
        yield drawn.draw_one(
            profile_of(chance), chance.random, config_of(chance), chain=chance.randint(0, 2), words=said
        )


def walk(count: int) -> list[list[tuple[str, dict[str, bool], str, str]]]:
    """The turns, each a list of steps: the event, the answers of the guards, the state after it, the row."""
    return [
        [
            (
                name_of(type(each.event)),
                {name_of_guard(guard): answer for guard, answer in each.answers},
                each.turn.state.name.lower(),
                each.name,
            )
            for each in turn.decisions
            if each.before is not PAGE.done
        ]
        for turn in turns(count)
    ]
