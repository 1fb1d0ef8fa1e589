"""The exploration: that it misses nothing, that what it takes as alike is, and what it finds on pages that are broken."""

from __future__ import annotations

from collections import deque

import pytest
from attrs import evolve

from fsm_loop.config import LoopConfig
from fsm_loop.core import counters as c
from fsm_loop.core.machine import PAGE
from fsm_loop.core.step import step
from fsm_loop.prove import bounds
from fsm_loop.prove.canon import Node, following, key_of, mattering, plain
from fsm_loop.prove.classes import KEPT, classes
from fsm_loop.prove.counts import walked
from fsm_loop.prove.explore import explored, small, windows
from fsm_loop.prove.invariants import CHECKED, CHECKS, Edge, broken
from fsm_loop.prove.moves import beginning, moves
from tests.prove.broken import PLANTED

# Two requests, and of what else is counted as little as leaves each kind of counter with one.
TINY = evolve(
    small(),
    max_iterations=1,
    **dict.fromkeys(("sanitizations", "history_repairs", "media_repairs", "parameter_repairs", "stream_switches"), 0),
    **dict.fromkeys(("credential_refreshes", "empty_replies", "compactions", "recoveries", "boosts"), 0),
)
COUNTED = tuple(each for each in PAGE.counters if not each.measured)
# Where each row of the page fires: each config is a small one, and together they fire all.
CONFIGS = (
    (small(), 1),
    (TINY, 0),
    (evolve(TINY, grace_calls=0, recoveries=1, output_limit_repairs=0), 2),
)


def reached(config, chain):
    """Every turn of the config by the real step alone, with all that it knows; those of one key and counts are one.

    Each turn that was taken as one with another is given back with that other.
    """
    at = beginning(config, chain)
    first = Node(at.turn, at.waits)
    seen, alike, frontier, edges = {state_of(first): first}, [], deque([first]), set()
    while frontier:
        node = frontier.popleft()
        for _, event in moves(node.moment, config):
            decision = step(node.turn, event)
            if decision.late:
                continue
            after = following(node, decision)
            state = state_of(after)
            assert {} == broken(Edge(node, decision, after))
            edges.add((state_of(node), decision.name, state))
            if state in seen:
                alike.append((seen[state], after))
            else:
                seen[state] = after
                frontier.append(after)
    return seen, edges, alike


def state_of(node):
    """The key, with the counts of all counters that matter."""
    matters = mattering(PAGE)[node.state]
    return key_of(node, PAGE), tuple(node.record.count(each) if each in matters else 0 for each in COUNTED)


def onward(node, config):
    """What each event leads to; texts and ids aside."""
    return {
        label: (decision.name, [type(each).__name__ for each in decision.effects], state_of(following(node, decision)))
        for label, event in moves(node.moment, config)
        if not (decision := step(node.turn, event)).late
    }


@pytest.fixture(scope="module")
def real():
    """The tiny config, by the real step alone."""
    return reached(TINY, 0)


@pytest.fixture(scope="module")
def tiny():
    """The classes of the tiny config."""
    return classes(TINY, 0, PAGE)


def test_what_has_one_key_has_one_future(real):
    """Turns that are taken as one go on alike, whatever comes; so does the plain turn that stands for them."""
    seen, _, alike = real
    every = alike[:: max(1, len(alike) // 400)]

    assert len(every) >= 400
    for one, other in every:
        assert onward(one, TINY) == onward(other, TINY)
    for node in list(seen.values())[::5]:
        assert onward(node, TINY) == onward(plain(node, node.record.counts), TINY)


def test_the_numbers_come_out_as_step_has_them(real, tiny):
    """The classes with their numbers are what the real step reaches with all that it knows: no state more, and no edge."""
    seen, edges, _ = real
    walk = walked(tiny, tiny.free)

    def state(at):
        here, counts = at
        node = tiny.nodes[here]
        numbers = dict(zip((each.name for each in tiny.free), counts, strict=True))
        numbers |= {each.name: node.record.count(each) for each in KEPT}
        matters = mattering(PAGE)[node.state]
        return key_of(node, PAGE), tuple(numbers[each.name] if each in matters else 0 for each in COUNTED)

    told = {(state(at), way.row.name, state(there)) for at in walk.came for way, there in walk.onward(at) if way.row}

    assert seen.keys() == {state(at) for at in walk.came}
    assert edges == told


def test_every_turn_is_one_of_each_part(tiny):
    """Whatever is reached with all the numbers is reached in a part, if one forgets the numbers that it does not follow."""
    whole = walked(tiny, tiny.free)
    for counters in (tiny.free[:3], tiny.free[3:12], tiny.free[9:], ()):
        part = walked(tiny, counters)
        places = [tiny.free.index(each) for each in counters]
        seen = {(here, tuple(counts[place] for place in places)) for here, counts in whole.came}

        assert seen <= part.came.keys()
        assert whole.rows <= part.rows


def test_neighbours_stand_together_in_some_part():
    """The parts of the default config leave no counter out, and hold each pair of neighbours that is small enough."""
    made = classes(TINY, 0, PAGE)
    made.__dict__["caps"] = {each: each.limit(LoopConfig(), 0) for each in made.free}
    parts = list(windows(made))

    assert set(made.free) == {each for part in parts for each in part}
    pairs = zip(made.free[1:], made.free[2:], strict=False)
    assert all(any({one, other} <= set(part) for part in parts) for one, other in pairs)


@pytest.fixture(scope="module")
def done():
    """The small configs, explored."""
    return [explored(config, chain) for config, chain in CONFIGS]


def test_our_page_keeps_every_invariant(done):
    """In the small configs, which are explored whole, nothing is broken."""
    for each in done:
        assert each.whole
        assert [] == [str(found) for found in each.invariants.values() if found]
        assert CHECKS.keys() == each.invariants.keys()
        assert CHECKED.keys() - CHECKS.keys() == {"replay"}


def test_every_row_fires_in_some_small_config(done):
    """Each row of the page is fired by some turn of a config that is explored whole."""
    fired = frozenset().union(*(each.rows_fired for each in done))
    print(f"{len(fired)} of {len(PAGE.rows)} rows fired")  # noqa: T201  # said with -s

    assert [] == sorted({row.name for row in PAGE.rows} - fired)


def test_the_longest_turn_is_the_bound(done):
    """A turn has at most as many requests as the bounds say, and there is one that has so many."""
    for each, (config, chain) in zip(done, CONFIGS, strict=True):
        assert bounds(config, chain)["llm_calls"].value == each.most_requests


# Which invariants each planted fault breaks. In a small config nothing goes on for ever where requests are counted, so
# the first three are found by the loops alone, as is the steer; and a round of tools that the budget does not hold back
# comes to grace all the same, one slot later: it breaks no invariant, and is found by comparing graphs alone.
FOUND = {
    "a retry refills the retries": (),
    "a hop arms the chain again": (),
    "a tool round refills the iterations": (),
    "a wait for a slot is not spent": ("terminates",),
    "a reconnect is not spent": ("retry_changes",),
    "a retry is spent and not asked for": ("terminates", "bounded", "legal"),
    "a refresh of the credential is not spent": ("retry_changes",),
    "the last word is asked for again": ("terminates", "one_grace", "retry_changes"),
    "a provider that is not ready is asked for again": ("terminates", "own_counters"),
    "a steer is answered that nobody gave": (),
    "a cap that may be none": ("terminates",),
    "two spends of one counter, one of them refilled": ("own_counters", "retry_changes"),
    "an interrupt is not heard while a timer runs": ("interrupt_wins",),
    "there is no otherwise": ("terminates",),
    "a round of tools is not held back by its budget": (),
    "a provider that is ready is not asked": ("terminates", "own_counters"),
    "a request goes out without its counter": ("terminates",),
}
CHAINED = {
    "a provider that is ready is not asked",
    "there is no otherwise",
    "a provider that is not ready is asked for again",
}
LEAN = evolve(TINY, credential_refreshes=1, output_limit_repairs=0, rebuilds=1)


def test_who_finds_each_planted_fault():
    """Every planted fault but one is found by the page's rules, by the loops or by exploration."""
    missed = [name for name, (_, *others) in PLANTED.items() if not any(others) and not FOUND[name]]

    assert PLANTED.keys() == FOUND.keys()
    assert ["a round of tools is not held back by its budget"] == missed


@pytest.mark.parametrize("name", PLANTED)
def test_what_exploration_finds(name):
    """The table of planted faults says truly which invariants each breaks, and each trail that is told is a turn's own."""
    done = explored(LEAN, int(name in CHAINED), PLANTED[name][0]())
    found = {each: violation for each, violation in done.invariants.items() if violation}

    assert set(FOUND[name]) == found.keys(), [str(each) for each in found.values()]
    for violation in found.values():
        assert not violation.followed
        assert violation.invariant in str(violation).splitlines()[0]
        assert "ready" == violation.trail[0].state


def test_a_trail_is_told_row_by_row():
    """A violation says what does not hold, and how a turn comes there in as few decisions as can be."""
    done = explored(LEAN, 0, PLANTED["a reconnect is not spent"][0]())
    violation = done.invariants["retry_changes"]

    assert ["turn_started", "slot_granted", "stream_dropped: call begun", "slot_granted"] == [
        each.event for each in violation.trail
    ]
    assert "   3. calling: stream_dropped: call begun -> calling" in str(violation)
    assert not done.holds
    assert ["retry_changes"] == [each["invariant"] for each in done.plain()["violations"]]
    assert "BROKEN" in str(done)


def test_a_part_says_what_it_followed():
    """A config with many requests is explored in parts, and what is found there names the counters that were followed."""
    done = explored(evolve(LEAN, max_requests=9), 0, PLANTED["a reconnect is not spent"][0]())

    assert not done.whole
    assert done.parts[0].counters[0] == c.requests.name
    assert c.requests.name in done.invariants["retry_changes"].followed


def test_small_lowers_and_never_raises():
    """A small config has no cap above the one that it was made from."""
    config = LoopConfig(api_max_retries=0, max_requests=1, output_ceiling_tokens=100)
    lowered = small(config)

    assert (0, 1, 100, 1) == (
        lowered.api_max_retries,
        lowered.max_requests,
        lowered.output_ceiling_tokens,
        lowered.boosts,
    )


def test_progress_is_told():
    """Whoever listens hears what is being gone through, and how far it is."""
    heard = []
    explored(LEAN, 0, told=lambda *said: heard.append(said))

    assert {"classes"} < {what for what, _, _ in heard}
    assert all(done <= known for _, done, known in heard)
