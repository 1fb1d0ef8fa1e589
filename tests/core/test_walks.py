"""Walks over the page that begin anywhere, and after every step of which all that must hold does.

The seed is said by the profile in conftest.py: the same walks each time, others and longer ones in the night.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fsm_loop.config import LoopConfig
from fsm_loop.core.counters import COUNTERS
from fsm_loop.core.events import ModelFailed, ModelReplied, SlotGranted, ToolReturned
from fsm_loop.core.faults import FaultKind
from fsm_loop.core.machine import PAGE, State
from fsm_loop.core.messages import Finish
from tests.core.world import COUNTED, POLICIES, World

SEED = 20250729
CAPS = tuple(each for each in COUNTED if isinstance(each.cap, str))
KINDS = tuple(FaultKind)
REPAIRABLE = tuple(each for each in FaultKind if each.repair)
OUTAGES = tuple(each for each in FaultKind if each.outage)
UNREADY = (FaultKind.NOT_READY, FaultKind.CONNECT_FAILED)
STOPS = (Finish.STOP, Finish.TOOL_CALLS, Finish.LENGTH, Finish.PAUSED, Finish.REFUSED)
STOP_WEIGHTS = (3, 5, 3, 2, 2)
CALLS = ((), (), (), ("valid",), ("valid", "bad"), ("valid", "valid", "valid"), ("bad",), ("cut",), ("valid", "cut"))
WAITS = (None, None, 1.0, 601.0)
RETRY = (None, None, True, False)
LATE = (ModelReplied, ModelFailed, ToolReturned, SlotGranted)
SHOWN = ("word", "word", "blank", "same")

# How to come to each state from a request that is about to go out.
WAYS = {
    State.CALLING: (),
    State.STREAMING: (("grant",), ("sign_of_life",), ("show", "word")),
    State.TRUNCATED: (("grant",), ("sign_of_life",), ("show", "word"), ("drop",)),
    State.TOOL_EXEC: (("grant",), ("reply", Finish.TOOL_CALLS, ("valid", "bad", "valid"))),
    State.BACKOFF: (("grant",), ("fail", FaultKind.OVERLOADED, None, None)),
    State.REPAIRING: (("grant",), ("fail", FaultKind.BAD_UNICODE, None, None)),
    State.FALLBACK: (("grant",), ("reply", Finish.REFUSED, ())),
    State.RECOVERING: (
        ("grant",),
        ("fail", FaultKind.OVERLOADED, 601.0, None),
        ("provider_failed", FaultKind.CONNECT_FAILED),
    ),
    State.GRACE: (("grant",),),
    State.DONE: (("interrupt",),),
}
# What must be spent, or must not be, to come there.
SPENT = {State.RECOVERING: ("fallbacks",), State.GRACE: ("requests",), State.TRUNCATED: ("stream_retries",)}
FREE = {State.FALLBACK: ("fallbacks",), State.GRACE: ("grace_calls",)}


def small(caps: dict[str, int], **more) -> LoopConfig:
    """A turn of small limits."""
    return LoopConfig(**caps, **more)


def begin(world: World, state: State, near: dict[str, int]) -> None:
    """A turn that stands in *state*, its counters as near to their caps as *near* says; 0 is at the cap."""
    if state is State.READY:
        return
    world.start()
    record, counts = world.record, {}
    for counter in COUNTED:
        cap = int(record.cap(counter))
        short = 0 if counter.name in SPENT.get(state, ()) else near.get(counter.name, 9)
        short = max(short, 1) if counter.name in FREE.get(state, ()) or counter.name == "grace_calls" else short
        counts[counter.name] = max(0, cap - short)
    world.begin_at(counts)
    for move, *facts in WAYS[state]:
        if world.may(move):
            do(world, move, facts)


def do(world: World, move: str, facts: list) -> None:
    """One move, by its name."""
    if move == "reply":
        stop, calls = facts
        world.reply(stop, calls, text=True, reasoning=False)
    else:
        getattr(world, move)(*facts)


LIMITS = st.fixed_dictionaries(
    {each.cap: st.integers(0, 1 if each.cap == "grace_calls" else 3) for each in CAPS if each.cap != "max_requests"}
    | {"max_requests": st.integers(0, 9)}
)
MEASURES = st.fixed_dictionaries(
    {},
    optional={
        "tokens": st.integers(0, 90),
        "cost": st.sampled_from([0.0, 0.03]),
        "turn_seconds": st.sampled_from([0.0, 30.0]),
    },
)
NEAR = st.fixed_dictionaries({each.name: st.integers(0, 2) for each in COUNTERS})


class Walk(RuleBasedStateMachine):
    """A turn, and whatever can happen to it, in any order."""

    @initialize(limits=LIMITS, measures=MEASURES, chain=st.integers(0, 2), state=st.sampled_from(State), near=NEAR)
    def begin(self, limits, measures, chain, state, near):
        self.world = World(small(limits, **measures), chain)
        begin(self.world, state, near)

    # fmt: off
    @precondition(lambda self: self.world.may("start"))
    @rule()
    def start(self): self.world.start()

    @precondition(lambda self: self.world.may("grant"))
    @rule()
    def grant(self): self.world.grant()

    @precondition(lambda self: self.world.may("refuse_slot"))
    @rule(wait_s=st.sampled_from([1.0, 601.0]))
    def refuse_slot(self, wait_s): self.world.refuse_slot(wait_s)

    @precondition(lambda self: self.world.may("sign_of_life"))
    @rule()
    def sign_of_life(self): self.world.sign_of_life()

    @precondition(lambda self: self.world.may("show"))
    @rule(kind=st.sampled_from(SHOWN))
    def show(self, kind): self.world.show(kind)

    @precondition(lambda self: self.world.may("begin_call"))
    @rule()
    def begin_call(self): self.world.begin_call()

    @precondition(lambda self: self.world.may("reply"))
    @rule(stop=st.sampled_from(STOPS), calls=st.sampled_from(CALLS), text=st.booleans(), reasoning=st.booleans())
    def reply(self, stop, calls, text, reasoning): self.world.reply(stop, calls, text=text, reasoning=reasoning)

    @precondition(lambda self: self.world.may("fail"))
    @rule(kind=st.sampled_from(KINDS), wait_s=st.sampled_from(WAITS), retry=st.sampled_from(RETRY))
    def fail(self, kind, wait_s, retry): self.world.fail(kind, wait_s, retry)

    @precondition(lambda self: self.world.may("drop"))
    @rule()
    def drop(self): self.world.drop()

    @precondition(lambda self: self.world.may("stall"))
    @rule()
    def stall(self): self.world.stall()

    @precondition(lambda self: self.world.may("judge"))
    @rule()
    def judge(self): self.world.judge()

    @precondition(lambda self: self.world.may("tool_back"))
    @rule(which=st.integers(0, 2), stop=st.sampled_from([False, False, False, True]))
    def tool_back(self, which, stop): self.world.tool_back(which, stop=stop)

    @precondition(lambda self: self.world.may("tool_back_twice"))
    @rule()
    def tool_back_twice(self): self.world.tool_back_twice()

    @precondition(lambda self: self.world.may("timer"))
    @rule()
    def timer(self): self.world.timer()

    @precondition(lambda self: self.world.may("repaired"))
    @rule(changed=st.booleans())
    def repaired(self, changed): self.world.repaired(changed=changed)

    @precondition(lambda self: self.world.may("provider_ready"))
    @rule()
    def provider_ready(self): self.world.provider_ready()

    @precondition(lambda self: self.world.may("provider_failed"))
    @rule(kind=st.sampled_from(UNREADY))
    def provider_failed(self, kind): self.world.provider_failed(kind)

    @rule(seconds=st.sampled_from([0.5, 10.0]))
    def time_passes(self, seconds): self.world.time_passes(seconds)

    @rule()
    def interrupt(self): self.world.interrupt()

    @rule(now=st.booleans())
    def steer(self, now): self.world.steer(now=now)

    @rule()
    def rebuild(self): self.world.rebuild()

    @precondition(lambda self: self.world.may("late"))
    @rule(behind=st.sampled_from([1, 2, -1]), kind=st.sampled_from(LATE))
    def late(self, behind, kind): self.world.late(behind, kind)

    @invariant()
    def terminates(self): self.world.terminates()

    @invariant()
    def one_grace(self): self.world.one_grace()

    @invariant()
    def one_grace_when_spent(self): self.world.one_grace_when_spent()

    @invariant()
    def bounded(self): self.world.bounded()

    @invariant()
    def interrupt_wins(self): self.world.interrupt_wins()

    @invariant()
    def tools_whole(self): self.world.tools_whole()

    @invariant()
    def paired(self): self.world.paired()

    @invariant()
    def shown_once(self): self.world.shown_once()

    @invariant()
    def one_writer(self): self.world.one_writer()

    @invariant()
    def steer_kept(self): self.world.steer_kept()

    @invariant()
    def own_counters(self): self.world.own_counters()

    @invariant()
    def named_end(self): self.world.named_end()

    @invariant()
    def honest(self): self.world.honest()
    # fmt: on

    def teardown(self):
        """Nobody says anything more: the turn ends; and its journal tells the same turn again."""
        world = getattr(self, "world", None)
        if world is not None:
            world.run_out(POLICIES[len(world.journal) % len(POLICIES)])
            world.replay()


TestWalk = Walk.TestCase
TestWalk.settings = settings(max_examples=max(250, settings.default.max_examples))


# ---------------------------------------------------------------- walks that are cheaper, and many


# What happens how often; words and late answers less often than what was asked for.
OFTEN = {
    "start": 1, "grant": 12, "refuse_slot": 2, "sign_of_life": 6, "show": 3, "begin_call": 2, "reply": 4, "fail": 5, "drop": 3,
    "stall": 3, "judge": 9, "tool_back": 9, "tool_back_twice": 1, "timer": 9, "repaired": 9, "provider_ready": 6,
    "provider_failed": 3, "time_passes": 1, "interrupt": 0.3, "steer": 1, "rebuild": 1, "late": 0.5,
}  # fmt: skip
# And what it brings, as chance has it.
FACTS = {
    "refuse_slot": lambda dice: {"wait_s": dice.choice([1.0, 601.0])},
    "show": lambda dice: {"kind": dice.choice(SHOWN)},
    "reply": lambda dice: {
        "stop": dice.choices(STOPS, STOP_WEIGHTS)[0], "calls": dice.choice(CALLS), "text": dice.random() < 0.5, "reasoning": dice.random() < 0.5,
    },
    "fail": lambda dice: {"kind": dice.choice(dice.choice([KINDS, OUTAGES, REPAIRABLE])), "wait_s": dice.choice(WAITS), "retry": dice.choice(RETRY)},
    "tool_back": lambda dice: {"which": dice.randrange(3), "stop": dice.random() < 0.1},
    "time_passes": lambda dice: {"seconds": dice.choice([0.5, 10.0])},
    "repaired": lambda dice: {"changed": dice.random() < 0.5},
    "provider_failed": lambda dice: {"kind": dice.choice(UNREADY)},
    "steer": lambda dice: {"now": dice.random() < 0.5},
    "late": lambda dice: {"behind": dice.choice([1, 2, -1]), "kind": dice.choice(LATE)},
}  # fmt: skip


def any_move(world: World, dice: Random) -> None:
    """Something that can happen, happens."""
    possible = [move for move in OFTEN if world.may(move)]
    (move,) = dice.choices(possible, [OFTEN[each] for each in possible])
    facts = FACTS[move](dice) if move in FACTS else {}
    getattr(world, move)(**facts)


def walk(dice: Random, state: State, steps: int = 60) -> World:
    """One turn from *state*, however it goes."""
    caps = {each.cap: dice.randint(0, 1 if each.cap == "grace_calls" else 4) for each in CAPS} | {
        "max_requests": dice.choice([0, 3, 30])
    }
    measures = {
        name: value for name, value in (("tokens", 90), ("cost", 0.05), ("turn_seconds", 100.0)) if dice.random() < 0.1
    }
    world = World(small(caps, **measures), dice.randint(0, 2))
    near = dice.choice([(0, 1), (0, 9, 9), (9,)])
    begin(world, state, {each.name: dice.choice(near) for each in COUNTERS})
    world.check()
    for _ in range(steps):
        if world.state is State.DONE and dice.random() < 0.3:
            break
        any_move(world, dice)
        world.check()
    return world


def test_long_walks_fire_almost_every_row():
    """In thousands of turns that begin anywhere, all that must hold does after each step; few rows are left unfired.

    Chance leaves a row or two out; that each row is read by somebody is what test_rows.py is for.
    """
    dice, fired = Random(SEED), set()
    for number in range(3000):
        world = walk(dice, tuple(State)[number % len(State)])
        world.replay()
        fired |= world.rows

    unfired = {row.name for row in PAGE.rows} - fired
    print(f"{len(unfired)} of {len(PAGE.rows)} rows never fired:", *sorted(unfired), sep="\n  ")  # noqa: T201  # said with -s
    assert len(unfired) <= len(PAGE.rows) // 20


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("chain", [0, 2])
def test_a_world_that_answers_in_one_way_for_ever_is_left(policy, chain):
    """Whatever goes wrong for ever, the turn ends by the limits that everybody has, with its calls under the cap."""
    world = World(LoopConfig(), chain)

    world.run_out(policy)

    assert len(world.requests) <= 161
    world.replay()
