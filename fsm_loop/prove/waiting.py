"""The longest that a turn can wait: backoff and recovery with chance and Retry-After against it, and the limiter.

Waits need few requests: a limiter that refuses is waited for, and retried, without any. So a cap on requests is a
cap on what they refill, and the question is which refills to buy with them. A round of tools refills the most and
is bought first; then a cut reply, or a failing call of the last provider before an outage is waited for, each of which
refills the retries once; what is left goes into calls that only let the limiter refuse again. Without a fallback, an
outage is waited for only after a failing call, so each cycle of recovery is bought as well; how many to buy in which
round is found by trying all ways.
"""

from __future__ import annotations

from functools import cache
from math import inf

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
    SlotRefused,
    StreamDropped,
    TimerFired,
)
from fsm_loop.core.machine import State
from fsm_loop.prove import walk as w
from fsm_loop.prove.terms import evaluated, most_sent
from fsm_loop.prove.walk import Walk
from fsm_loop.prove.worst import cut_reply, repair_fault

CHANCE = 1.0  # the top of the jitter: chance comes as near to it as one likes
ANSWERED = ("completed", "partial", "refused")  # the reply to a request ends the turn so, and no row goes on from it


@frozen
class Pace:
    """How long a call and a round of tools take, in seconds; where they take no time, waits alone count."""

    call_s: float = 0.0
    tool_s: float = 0.0


AT_ONCE = Pace()
ENDS = {"completed": w.ANSWER, "partial": w.LOOPING, "refused": w.REFUSED}


@frozen
class Plan:
    """What requests are spent on: rounds of tools, refills of the retries, recoveries of each round, and the rest.

    `total_s` is what the turn then comes to; `tools_last` says that its last request leads to a round of tools, which
    is then one more than `rounds`; `ending` is the outcome.
    """

    total_s: float
    rounds: int = 0
    refills: int = 0
    recoveries: tuple[int, ...] = ()
    rest: int = 0
    tools_last: bool = False
    ending: str = "exhausted"


@frozen
class Means:
    """What there is to spend: so many requests in all, of which so many lead on to another one."""

    sent: int
    leading_on: int
    rounds: int


@cache
def plan(
    config: LoopConfig, chain: int, requests: int, calls: int, ending: str = "exhausted", pace: Pace = AT_ONCE
) -> Plan | None:
    """The best use of this many *requests* before this ending; None where the turn cannot end so.

    *calls* is how many requests there can be without a cap on them, grace aside.
    """
    ways = _answered(config, requests, calls) if ending in ANSWERED else _unanswered(config, requests, calls, ending)
    plans = [_plan(config, chain, means, slots, pace) for means, slots, _ in ways]
    tools = [last for _, _, last in ways]
    graces_s = pace.call_s * config.grace_calls if ending == "exhausted" else 0.0
    whole = [
        evolve(each, total_s=each.total_s + graces_s + pace.tool_s * last, tools_last=last, ending=ending)
        for each, last in zip(plans, tools, strict=True)
    ]
    return max(whole, key=lambda each: each.total_s, default=None)


def _answered(config: LoopConfig, requests: int, calls: int) -> list[tuple[Means, int, bool]]:
    """The last request leads no further, and nothing is waited for behind it."""
    sent = min(requests, calls)
    return [(Means(sent, sent - 1, min(config.max_iterations, sent) - 1), sent, False)] if sent else []


def _unanswered(config: LoopConfig, requests: int, calls: int, ending: str) -> list[tuple[Means, int, bool]]:
    """Behind the last request a slot can be waited for once more, or tools are run."""
    grace = config.grace_calls if ending == "exhausted" else 0
    sent, rounds = min(requests, calls), min(config.max_iterations, requests) - 1
    ways = [(Means(sent, sent, rounds), sent + (1 if grace or requests < calls else 0), False)]
    if rounds >= 0:  # the last of the iterations is not paused, so there is no request behind it
        sent = min(requests, calls - 1 - config.rebuilds)
        ways.append((Means(sent, sent - 1, min(rounds, sent - 1)), sent + grace, True))
    return ways


def _plan(config: LoopConfig, chain: int, means: Means, slots: int, pace: Pace) -> Plan:
    slot_s = config.slot_waits * config.max_wait_s
    bought = _with_chain(config, chain, means) if chain else _alone(config, means, pace, pace.call_s + slot_s)
    spent = bought.rounds + bought.refills + (0 if chain else sum(bought.recoveries))
    total_s = bought.total_s + slot_s * slots + pace.call_s * means.sent + pace.tool_s * bought.rounds
    return evolve(bought, total_s=total_s, rest=bought.rest - spent)


def retries_s(config: LoopConfig) -> float:
    """The longest wait for all retries of one refill together."""
    return sum(max(config.max_wait_s, config.delay_s(retry, CHANCE)) for retry in range(config.api_max_retries))


def recoveries_s(config: LoopConfig) -> tuple[float, ...]:
    """The longest wait for the first cycles of recovery of a round together, for none, for one, for two, ..."""
    sums = [0.0]
    for cycle in range(config.recoveries):
        sums.append(sums[-1] + max(config.max_wait_s, config.recovery_s(cycle, CHANCE)))
    return tuple(sums)


def _with_chain(config: LoopConfig, chain: int, means: Means) -> Plan:
    rounds = max(0, means.rounds)
    cycles = config.recoveries * (1 + rounds)
    refills = min(means.leading_on - rounds, _cuts(config, chain) * (1 + rounds) + cycles)
    full = 1 + rounds + chain * (1 + cycles) + refills
    total_s = retries_s(config) * full + recoveries_s(config)[-1] * (1 + rounds)
    return Plan(total_s, rounds, refills, (config.recoveries,) * (1 + rounds), means.leading_on)


def _alone(config: LoopConfig, means: Means, pace: Pace, request_s: float) -> Plan:
    """The best plan; each request takes *request_s*, and with few rounds there may be fewer of them."""
    sums, refill_s, most_cuts = recoveries_s(config), retries_s(config), _cuts(config, 0)
    best, best_s = Plan(-inf), -inf
    # The most that so many recoveries can be waited for in the rounds so far, and how many are in each round.
    ways: dict[int, tuple[float, tuple[int, ...]]] = {0: (0.0, ())}
    for rounds in range(max(0, means.rounds) + 1):
        fewer = max(0, means.sent - most_sent(config, 0, 1 + rounds))
        leading_on = means.leading_on - fewer
        longer: dict[int, tuple[float, tuple[int, ...]]] = {}
        for number, (waited_s, counts) in ways.items():
            for more, more_s in enumerate(sums):
                fits = number + more <= means.leading_on
                if fits and waited_s + more_s > longer.get(number + more, (-1.0, ()))[0]:
                    longer[number + more] = (waited_s + more_s, (*counts, more))
        ways = longer
        for number, (waited_s, counts) in ways.items():
            if rounds + number <= leading_on:
                cuts = min(leading_on - rounds - number, most_cuts * (1 + rounds))
                total_s = waited_s + refill_s * (1 + rounds + number + cuts) - request_s * fewer
                if total_s + pace.tool_s * rounds > best_s:
                    best_s = total_s + pace.tool_s * rounds
                    best = Plan(total_s, rounds, cuts, tuple(sorted(counts)), leading_on)
    return best


def _cuts(config: LoopConfig, chain: int) -> int:
    """The cut replies of one round that go on."""
    return config.continuations + int(evaluated(config, chain)["larger"])


# ---------------------------------------------------------------- the walk


def longest_wait(config: LoopConfig, chain: int, requests: int, calls: int) -> Walk:
    """The turn that waits as long as the plan says."""
    chosen = plan(config, chain, requests, calls)
    assert chosen is not None  # every turn can be exhausted
    return walked(config, chain, chosen)


def walked(config: LoopConfig, chain: int, chosen: Plan, *, slowly: bool = False) -> Walk:
    """The turn that goes as it was planned, as far as it can."""
    walk = Walk(config, chain, slowly=slowly)
    turn = _Waiting(walk, config, chosen, chosen.rounds, chosen.refills, list(chosen.recoveries), chosen.rest)
    while not turn.walk.over:
        turn.go()
    return turn.walk


@define
class _Waiting:
    """A turn that waits as long as it can, and what it may still spend requests on."""

    walk: Walk
    config: LoopConfig
    plan: Plan
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
                walk.return_tool(stop="again and again" if self.move == "end" and self.plan.ending == "failed" else "")
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
        if move == "end" and self.plan.ending == "failed" and not walk.may_send:
            walk.answer(SlotRefused, fault=w.BROKEN)
        else:
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
        if self.rest and self.walk.spent(c.iterations) + self.plan.tools_last < self.config.max_iterations:
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
        if walk.time_is_up:
            self.move = "end"
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
            case "tools":
                self.recoveries = self.recoveries[1:]
                walk.answer(ModelReplied, reply=w.TOOLS)
            case _:
                self.end()

    def end(self) -> None:
        """The last request is out; its answer brings the end that was planned."""
        if self.plan.ending == "failed" and not self.plan.tools_last:
            self.walk.answer(ModelFailed, fault=w.BROKEN)
        else:
            self.walk.answer(ModelReplied, reply=ENDS.get(self.plan.ending, w.TOOLS))

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
