"""The longest that a turn can wait: backoff and recovery with chance and Retry-After against it, and the limiter.

Waits need few requests: a limiter that refuses is waited for, and retried, without any. So a cap on requests is a
cap on what they refill, and the question is which refills to buy with them. A round of tools refills the most and
is bought first; then a cut reply, or a failing call of the last provider before an outage is waited for, each of which
refills the retries once; what is left goes into calls that only let the limiter refuse again. Without a fallback, an
outage is waited for only after a failing call, so each cycle of recovery is bought as well; how many to buy in which
round is found by trying all ways.
"""

from __future__ import annotations

from attrs import define, evolve, frozen

from fsm_loop.config import LoopConfig
from fsm_loop.core import counters as c
from fsm_loop.core.events import (
    CutJudged,
    ModelFailed,
    ModelReplied,
    ProviderFailed,
    ProviderReady,
    RebuildAsked,
    RequestRepaired,
    SlotGranted,
    StreamDropped,
    TimerFired,
)
from fsm_loop.core.machine import State
from fsm_loop.prove import walk as w
from fsm_loop.prove.walk import Walk
from fsm_loop.prove.worst import cut_reply, repair_fault

CHANCE = 1.0  # the top of the jitter: chance comes as near to it as one likes


@frozen
class Plan:
    """What requests are spent on: rounds of tools, refills of the retries, recoveries of each round, and the rest."""

    waited_s: float
    rounds: int
    refills: int
    recoveries: tuple[int, ...]
    rest: int


def plan(config: LoopConfig, chain: int, requests: int, calls: int) -> Plan:
    """The best use of this many *requests*; *calls* is how many there can be without a cap on them, grace aside."""
    sent = min(requests, calls)
    ends_waiting = config.grace_calls or requests < calls  # behind the last request, a slot can be waited for once more
    slots_s = config.slot_waits * config.max_wait_s * (sent + (1 if ends_waiting else 0))
    bought = (_with_chain if chain else _alone)(config, chain, requests)
    spent = bought.rounds + bought.refills + (0 if chain else sum(bought.recoveries))
    total = bought.waited_s + slots_s
    if config.turn_seconds is not None:
        total = min(total, config.turn_seconds)
    return evolve(bought, waited_s=total, rest=sent - spent)


def retries_s(config: LoopConfig) -> float:
    """The longest wait for all retries of one refill together."""
    return sum(max(config.max_wait_s, config.delay_s(retry, CHANCE)) for retry in range(config.api_max_retries))


def recoveries_s(config: LoopConfig) -> tuple[float, ...]:
    """The longest wait for the first cycles of recovery of a round together, for none, for one, for two, ..."""
    sums = [0.0]
    for cycle in range(config.recoveries):
        sums.append(sums[-1] + max(config.max_wait_s, config.recovery_s(cycle, CHANCE)))
    return tuple(sums)


def _with_chain(config: LoopConfig, chain: int, requests: int) -> Plan:
    rounds = max(0, min(config.max_iterations, requests) - 1)
    cycles = config.recoveries * (1 + rounds)
    cuts = (config.continuations + config.boosts) * (1 + rounds)
    refills = min(requests - rounds, cuts + cycles)
    full = 1 + rounds + chain * (1 + cycles) + refills
    waited_s = retries_s(config) * full + recoveries_s(config)[-1] * (1 + rounds)
    return Plan(waited_s, rounds, refills, (config.recoveries,) * (1 + rounds), 0)


def _alone(config: LoopConfig, chain: int, requests: int) -> Plan:  # noqa: ARG001  # called as the other is
    sums, best = recoveries_s(config), Plan(-1.0, 0, 0, (), 0)
    # The most that so many recoveries can be waited for in the rounds so far, and how many are in each round.
    ways: dict[int, tuple[float, tuple[int, ...]]] = {0: (0.0, ())}
    for rounds in range(max(0, min(config.max_iterations, requests) - 1) + 1):
        longer: dict[int, tuple[float, tuple[int, ...]]] = {}
        for number, (waited_s, counts) in ways.items():
            for more, more_s in enumerate(sums):
                if number + more <= requests and waited_s + more_s > longer.get(number + more, (-1.0, ()))[0]:
                    longer[number + more] = (waited_s + more_s, (*counts, more))
        ways = longer
        for number, (waited_s, counts) in ways.items():
            if rounds + number <= requests:
                cuts = min(requests - rounds - number, (config.continuations + config.boosts) * (1 + rounds))
                total = waited_s + retries_s(config) * (1 + rounds + number + cuts)
                if total > best.waited_s:
                    best = Plan(total, rounds, cuts, tuple(sorted(counts)), 0)
    return best


# ---------------------------------------------------------------- the walk


def longest_wait(config: LoopConfig, chain: int, requests: int, calls: int) -> Walk:
    """The turn that waits as long as the plan says."""
    chosen = plan(config, chain, requests, calls)
    turn = _Waiting(Walk(config, chain), config, chosen.rounds, chosen.refills, list(chosen.recoveries), chosen.rest)
    while not turn.walk.over:
        turn.go()
    return turn.walk


@define
class _Waiting:
    """A turn that waits as long as it can, and what it may still spend requests on."""

    walk: Walk
    config: LoopConfig
    rounds: int
    refills: int
    recoveries: list[int]
    rest: int
    move: str = ""

    def go(self) -> None:
        """One event more."""
        walk = self.walk
        match walk.turn.state:
            case State.TOOL_EXEC:
                walk.return_tool()
            case State.TRUNCATED:
                walk.answer(CutJudged)
            case State.REPAIRING:
                walk.answer(RequestRepaired, changed=True)
            case State.FALLBACK if walk.left(c.fallbacks) or not self.recovers or self.may_refill:
                walk.answer(ProviderReady)
            case State.FALLBACK:
                self.recover(ProviderFailed)
            case _ if walk.waits_for_timer:
                walk.answer(TimerFired)
            case state:
                self.ask(last=state is State.GRACE)

    def ask(self, *, last: bool) -> None:
        """The slot, or the reply, is answered; *last* says that it is the last word."""
        walk = self.walk
        if walk.is_out and last:
            walk.answer(ModelReplied, reply=w.ANSWER)
        elif walk.is_out:
            self.reply()
        elif walk.left(c.slot_waits):
            walk.refuse_slot(self.config.max_wait_s)
        elif last:
            walk.answer(SlotGranted)
        else:
            self.choose()

    @property
    def recovers(self) -> bool:
        """Whether an outage is to be waited for in this round."""
        return bool(self.recoveries and self.recoveries[0] and self.walk.left(c.recoveries))

    # Behind the last round of tools there must be a request, or the budget would be spent and the round the last word.

    @property
    def may_refill(self) -> bool:
        """Whether a request can go into refilling the retries."""
        return self.refills > (1 if self.rounds else 0)

    @property
    def may_rest(self) -> bool:
        """Whether a request can go into what refills nothing."""
        return self.rest > (1 if self.rounds and not self.refills else 0)

    def choose(self) -> None:
        """What to do next, with a request or without one."""
        walk = self.walk
        move = self._next()
        if move in ("retry", "hop") and not self.may_rest:
            if move == "retry":
                walk.refuse_slot(*self._against())
            else:
                walk.refuse_slot(2 * self.config.max_wait_s + 1)
            return
        if move == "cut" or (move == "recover" and walk.chain):
            self.refills -= 1
        elif move == "tools":
            self.rounds -= 1
        elif move not in ("recover", "end"):
            self.rest -= 1
        self.move = move
        walk.answer(SlotGranted)

    def _next(self) -> str:  # noqa: PLR0911  # one line for each thing that can be done
        left = self.walk.left
        if left(c.api_retries):
            return "retry"
        if self.may_rest and self._may_idle():
            return "idle"
        if left(c.fallbacks) and (self.recovers or not self._is_last_hop):
            return "hop"
        if self.recovers:
            return "recover"
        if self.may_refill and cut_reply(self.walk):
            return "cut"
        if left(c.fallbacks) and (self.may_refill or not self.rounds):
            return "hop"  # else the last hop is kept: after the next round of tools, it leads to a recovery for nothing
        if self.rounds:
            return "tools"
        if self.rest and self.walk.spent(c.iterations) + 1 == self.config.max_iterations:
            return "pause"
        return "end"

    @property
    def _is_last_hop(self) -> bool:
        return self.walk.spent(c.fallbacks) + 1 == self.walk.chain

    def _may_idle(self) -> bool:
        walk = self.walk
        idle = (c.rebuilds, c.stream_retries, c.empty_replies, c.bad_tool_rounds)
        return any(map(walk.left, idle)) or repair_fault(walk) is not None

    def _against(self) -> tuple[float | None, float]:
        """The Retry-After and the chance that make the next retry wait the longest."""
        own_s = self.config.delay_s(self.walk.spent(c.api_retries), CHANCE)
        return (self.config.max_wait_s, 0.0) if self.config.max_wait_s >= own_s else (None, CHANCE)

    def recover(self, kind: type[ModelFailed | ProviderFailed]) -> None:
        """The outage is to be waited for."""
        if self.recoveries and not self.walk.left(c.fallbacks):
            self.recoveries[0] -= 1
        self.walk.answer(kind, fault=evolve(w.OVERLOADED, retry_after_s=self.config.max_wait_s))

    def reply(self) -> None:
        """The answer to the request that is out, as it was chosen."""
        walk = self.walk
        match self.move:
            case "retry":
                after_s, chance = self._against()
                walk.answer(ModelFailed, fault=evolve(w.OVERLOADED, retry_after_s=after_s), chance=chance)
            case "idle":
                self.idle()
            case "cut":
                walk.answer(ModelReplied, reply=cut_reply(walk))
            case "hop":
                walk.answer(ModelFailed, fault=w.OVERLOADED)
            case "recover":
                self.recover(ModelFailed)
            case "pause":
                walk.answer(ModelReplied, reply=w.PAUSED)
            case _:
                if self.move == "tools":
                    self.recoveries = self.recoveries[1:]
                walk.answer(ModelReplied, reply=w.TOOLS)

    def idle(self) -> None:
        """The request comes to nothing, and the next one is asked without a wait of its own."""
        walk = self.walk
        if walk.left(c.rebuilds):
            walk.feed(RebuildAsked(messages=walk.turn.record.prompt, at=walk.at))
        elif walk.left(c.stream_retries):
            walk.answer(StreamDropped, fault=w.DROPPED)
        elif walk.left(c.empty_replies):
            walk.answer(ModelReplied, reply=w.EMPTY)
        elif walk.left(c.bad_tool_rounds):
            walk.answer(ModelReplied, reply=w.BAD_TOOLS)
        else:
            walk.answer(ModelFailed, fault=repair_fault(walk))
