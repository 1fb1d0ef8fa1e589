"""A world for turns to walk in: it answers what a turn asks for, keeps what it saw, and knows what must hold.

The world plays the driver and the consumer at once. What is on the consumer's screen is built from what was shown and
what was withdrawn, never read from the record; so is what the tools did and which requests went out. `promises` are
the invariants, by name; each asks the last decision, and all that was seen before it.
"""

from __future__ import annotations

from fsm_loop.config import LoopConfig
from fsm_loop.core import counters as c
from fsm_loop.core.counters import COUNTERS
from fsm_loop.core.effects import (
    Abandon,
    CallModel,
    Effect,
    Finish,
    JudgeCut,
    Repair,
    Request,
    ReserveSlot,
    RunTool,
    Say,
    SetTimer,
    SwitchProvider,
    Withdrawn,
)
from fsm_loop.core.events import (
    CutJudged,
    Event,
    InterruptAsked,
    ModelFailed,
    ModelReplied,
    PortEvent,
    ProviderFailed,
    ProviderReady,
    RebuildAsked,
    RequestRepaired,
    SlotGranted,
    SlotRefused,
    SteerGiven,
    StreamDropped,
    StreamStalled,
    StreamStarted,
    TimerFired,
    ToolReturned,
    TurnStarted,
)
from fsm_loop.core.faults import Fault, FaultKind, RepairKind
from fsm_loop.core.machine import ASKING, State
from fsm_loop.core.messages import Finish as Stop
from fsm_loop.core.messages import (
    Reply,
    ToolCall,
    Usage,
    UserMessage,
    is_cut,
)
from fsm_loop.core.record import Record
from fsm_loop.core.step import Decision, Turn, begin_turn, step
from fsm_loop.prove.invariants import squeezed, unpaired, words_of

OUTCOMES = {"completed", "partial", "refused", "exhausted", "interrupted", "failed"}
COUNTED = tuple(each for each in COUNTERS if not each.measured)
REASONS = tuple(each for each in COUNTED if each not in (c.requests, c.slot_waits))  # why a request may go out again
CALLS = {"valid": ("{}", ""), "bad": ("{}", "there is no such tool"), "cut": ('{"a": ', "")}


class World:
    """One turn, and all that was seen of it."""

    def __init__(self, config: LoopConfig, chain: int) -> None:
        self.turn = begin_turn(config, tuple(f"model {number}" for number in range(chain + 1)))
        self.first = self.turn
        self.now = 0.0
        self.serial = 0
        self.journal: list[Event] = []
        self.decisions: list[Decision] = []
        self.waits: Effect | None = None
        self.began = False
        self.running: dict[str, ToolCall] = {}
        self.ran: list[ToolCall] = []
        self.screen = ""  # what the consumer sees
        self.stored = ""  # what was said before the conversation was made shorter
        self.partial = ""  # what the call in flight has shown
        self.half_call = False
        self.requests: list[tuple[Request, float]] = []
        self.attempts: set[int] = set()
        self.steers: list[str] = []
        self.delivered: set[str] = set()
        self.paid = 0.0

    def begin_at(self, counts: dict[str, float]) -> None:
        """Let the turn go on from these counts, as if it had come by them; the provider is the one that they say."""
        record = self.record.but(counts=counts, provider=int(counts.get("fallbacks", 0)))
        self.turn = self.first = Turn(self.turn.state, record)
        self.journal, self.decisions = [], []
        self.waits = ReserveSlot(record.attempt, record.provider)

    # ------------------------------------------------------------ what is known

    @property
    def record(self) -> Record:
        """What the turn knows."""
        return self.turn.record

    @property
    def state(self) -> State:
        """Where the turn stands."""
        return self.turn.state

    @property
    def last(self) -> Decision | None:
        """The last decision."""
        return self.decisions[-1] if self.decisions else None

    @property
    def calling(self) -> bool:
        """Whether a call is in flight."""
        return isinstance(self.waits, CallModel)

    @property
    def rows(self) -> set[str]:
        """The rows that fired."""
        return {decision.name for decision in self.decisions}

    def fresh(self, word: str) -> str:
        """A text that was never said before."""
        self.serial += 1
        return f"{word}{self.serial} "

    # ------------------------------------------------------------ what happens

    def feed(self, kind: type[Event], **facts) -> Decision:
        """One event, and what comes of it."""
        if issubclass(kind, PortEvent):
            facts = {"attempt": self.record.attempt} | facts
        event = kind(at=self.now, **facts)
        before = self.turn
        decision = step(before, event)
        assert decision == step(before, event)
        self.journal.append(event)
        self.decisions.append(decision)
        self.turn = decision.turn
        self.paid += sum(
            each.after > each.before for each in decision.moved if each.counter in {r.name for r in REASONS}
        )
        if isinstance(event, RequestRepaired) and event.changed and event.said == ():
            self.stored += words_of(before.record.said)
        for effect in decision.effects:
            self._take(effect)
        if not self.calling:
            self.partial, self.half_call, self.began = "", False, False
        return decision

    def _take(self, effect: Effect) -> None:
        match effect:
            case Say(Withdrawn(text)):
                assert self.screen.endswith(text), (self.screen, text)
                self.screen = self.screen.removesuffix(text)
            case Say():
                pass
            case Abandon() | Finish():
                self.waits, self.running = None, {}
            case RunTool(_, call):
                self.waits, self.running[call.id] = effect, call
                self.ran.append(call)
            case CallModel(attempt, request):
                assert attempt not in self.attempts, "one_writer: two requests on the wire have one id"
                assert request.tools == (self.state is not State.GRACE), (
                    "one_grace: tools are off in grace, and there alone"
                )
                self.attempts.add(attempt)
                self.waits, self.began, self.partial = effect, False, ""
                self._sent(request)
            case ReserveSlot() | JudgeCut() | SetTimer() | Repair() | SwitchProvider():
                self.waits = effect

    def _sent(self, request: Request) -> None:
        same = [paid for earlier, paid in self.requests if earlier == request]
        assert not same or same[-1] < self.paid, "retry_changes: the same request again, and nothing was counted for it"
        self.requests.append((request, self.paid))
        heard = "".join(message.text for message in request.messages if isinstance(message, UserMessage))
        for text in self.steers:
            assert heard.count(text) <= 1, "steer_kept: a steer stands twice in a request"
            if text in heard:
                self.delivered.add(text)

    # ------------------------------------------------------------ moves: one for each event

    def start(self) -> None:
        """The user speaks."""
        self.feed(TurnStarted, messages=(UserMessage("question"),))

    def grant(self) -> None:
        """The limiter lets the request go."""
        self.feed(SlotGranted)

    def refuse_slot(self, wait_s: float) -> None:
        """The limiter does not."""
        self.feed(SlotRefused, fault=Fault(FaultKind.NO_SLOT, retry_after_s=wait_s))

    def sign_of_life(self) -> None:
        """The model begins."""
        self.began = True
        self.feed(StreamStarted)

    def show(self, kind: str) -> None:
        """The model says something, which is shown at once."""
        text = {"word": self.fresh("word"), "blank": " \n", "same": "again and again "}[kind]
        self.partial += text
        self.screen += text

    def begin_call(self) -> None:
        """A tool call begins to arrive."""
        self.half_call = True

    def _so_far(self) -> Reply:
        calls = (ToolCall("half", "tool", '{"a'),) if self.half_call else ()
        return Reply(self.partial, calls, usage=Usage(output_tokens=len(self.partial)))

    def reply(self, stop: Stop | None, calls: tuple[str, ...], *, text: bool, reasoning: bool) -> None:
        """The reply is in; what of it was not shown yet is shown now."""
        if text:
            self.show("word")
        made = tuple(ToolCall(self.fresh("call").strip(), "tool", *CALLS[each]) for each in calls)
        thought = "Hm." if reasoning else ""
        self.feed(ModelReplied, reply=Reply(self.partial, made, thought, stop, Usage(10, 10, cost=0.01)))

    def fail(self, kind: FaultKind, wait_s: float | None, retry: bool | None) -> None:
        """The call fails."""
        self.feed(ModelFailed, fault=Fault(kind, retry_after_s=wait_s, should_retry=retry), partial=self._so_far())

    def drop(self) -> None:
        """The stream breaks off."""
        self.feed(StreamDropped, fault=Fault(FaultKind.DROPPED), partial=self._so_far())

    def stall(self) -> None:
        """The stream falls silent."""
        self.feed(StreamStalled, fault=Fault(FaultKind.STALLED), partial=self._so_far())

    def judge(self) -> None:
        """The cut reply is decided on."""
        self.feed(CutJudged)

    def tool_back(self, which: int, *, stop: bool) -> None:
        """A tool returns."""
        call_id = sorted(self.running)[which % len(self.running)]
        del self.running[call_id]
        self.feed(ToolReturned, call_id=call_id, text=self.fresh("result"), stop="round and round" if stop else "")

    def tool_back_twice(self) -> None:
        """A tool that has returned returns again."""
        done = [each.id for each in self.record.calls if each.id not in self.running]
        self.feed(ToolReturned, call_id=done[0] if done else "nobody's", text="again")

    def time_passes(self, seconds: float) -> None:
        """Time passes."""
        self.now += seconds

    def timer(self) -> None:
        """The wait is over."""
        self.now += self.waits.delay_s
        self.feed(TimerFired)

    def repaired(self, *, changed: bool) -> None:
        """The repair is over, as its kind has it."""
        wish, facts = self.waits, {}
        match wish.kind:
            case RepairKind.COMPACT:
                facts = {"prompt": (UserMessage(self.fresh("summary")),), "said": ()}
            case RepairKind.DROP_PARAMETER:
                facts = {"parameter": self.fresh("parameter")}
            case RepairKind.LOWER_OUTPUT_LIMIT:
                facts = {"limit": 1000}
        self.feed(RequestRepaired, changed=changed, **(facts if changed else {}))

    def provider_ready(self) -> None:
        """The next provider can be asked."""
        self.feed(ProviderReady)

    def provider_failed(self, kind: FaultKind) -> None:
        """The next provider cannot."""
        self.feed(ProviderFailed, fault=Fault(kind))

    def interrupt(self) -> None:
        """Someone asks to stop."""
        self.feed(InterruptAsked, partial=self._so_far(), unstoppable=list(self.running)[:1])

    def steer(self, *, now: bool) -> None:
        """The user says something."""
        text = self.fresh("steer")
        self.steers.append(text)
        self.feed(SteerGiven, text=text, now=now, partial=self._so_far())

    def rebuild(self) -> None:
        """The host has new messages."""
        self.feed(RebuildAsked, messages=(UserMessage(self.fresh("prompt")),), partial=self._so_far())

    def late(self, behind: int, kind: type[PortEvent]) -> None:
        """An answer comes to an attempt that is over, or that never was."""
        facts: dict[type[PortEvent], dict] = {
            ModelReplied: {"reply": Reply("late", (ToolCall("late", "tool"),), finish=Stop.TOOL_CALLS)},
            ToolReturned: {"call_id": next(iter(self.running), "late"), "text": "late"},
            ModelFailed: {"fault": Fault(FaultKind.OVERLOADED), "partial": Reply("late")},
            SlotGranted: {},
        }
        before = self.turn
        decision = self.feed(kind, attempt=self.record.attempt - behind, **facts[kind])
        assert decision.late
        assert before is decision.turn
        assert () == decision.effects == decision.answers == decision.moved

    # ------------------------------------------------------------ what may happen now

    def may(self, move: str) -> bool:
        """Whether this can happen now: what answers something, only where it was asked for; words and time, always."""
        if move in ANSWERS:
            return isinstance(self.waits, ANSWERS[move]) and not (move == "sign_of_life" and self.began)
        return {"start": self.state is State.READY, "late": self.state is not State.READY}.get(move, True)

    # ------------------------------------------------------------ what must hold

    def terminates(self) -> None:
        """The calls of the turn are at most its requests, and a grace call."""
        before = self.first.record
        most = before.cap(c.requests) - before.count(c.requests) + 1
        assert len(self.requests) <= max(1, most)
        assert self.record.sent - before.sent == len(self.requests)
        assert (self.state is State.DONE) == (self.record.end is not None)
        assert (self.state is State.DONE) == (self.waits is None and self.state is not State.READY)

    def one_grace(self) -> None:
        """Grace is entered at most once, for one request without tools, and nothing but its end comes after."""
        ways_in = [each for each in self.decisions if each.turn.state is State.GRACE and each.before is not State.GRACE]
        last_calls = [request for request, _ in self.requests if not request.tools]
        assert len(ways_in) <= 1
        assert len(last_calls) <= len(ways_in)
        assert not last_calls or self.requests[-1][0] is last_calls[-1]
        assert not ways_in or self.state in (State.GRACE, State.DONE)

    def one_grace_when_spent(self) -> None:
        """A turn that ended exhausted had its grace call, unless that was switched off or spent."""
        end = self.record.end
        if end is not None and end.outcome == "exhausted":
            before = self.first.record
            had = any(each.turn.state is State.GRACE for each in self.decisions)
            assert had == (before.count(c.grace_calls) < before.cap(c.grace_calls))

    def bounded(self) -> None:
        """No counter is ever above its cap."""
        assert [] == [each.name for each in COUNTED if self.record.count(each) > max(0, self.record.cap(each))]

    def interrupt_wins(self) -> None:
        """After an interrupt nothing begins: what is in flight is let go, and the turn is over."""
        last = self.last
        if last is not None and isinstance(last.event, InterruptAsked) and last.before is not State.DONE:
            assert {Abandon, Finish} == {type(effect) for effect in last.effects}
            assert State.DONE is last.turn.state
            assert "interrupted" == self.record.end.outcome
        if last is not None and last.before is State.DONE:
            assert () == last.effects
            assert State.DONE is last.turn.state

    def tools_whole(self) -> None:
        """What runs is whole, valid, of a reply that said that it ended, and runs once."""
        last = self.last
        run = [effect.call for effect in last.effects if isinstance(effect, RunTool)] if last else []
        if run:
            reply = last.event.reply
            assert reply.finish not in (None, Stop.LENGTH, Stop.REFUSED, Stop.PAUSED)
            assert not any(is_cut(call.arguments) for call in reply.tool_calls)
            assert [call for call in reply.tool_calls if not call.problem] == run
        assert len(self.ran) == len({call.id for call in self.ran})

    def paired(self) -> None:
        """In what is said and in what is sent, each tool call has its one result right behind it, in order."""
        assert unpaired(self.record.said) == []
        if self.requests:
            assert unpaired(self.requests[-1][0].messages) == []
        if self.state is State.DONE:
            assert self.record.asked is None
            assert () == self.record.calls

    def shown_once(self) -> None:
        """The screen shows what is kept, in its order and once: all that was not withdrawn, and nothing else."""
        record = self.record
        kept = words_of(record.said) + (record.asked.text if record.asked else "") + "".join(record.pieces)
        cut = record.cut.text if record.cut else ""
        assert squeezed(self.stored + kept + cut + self.partial) == squeezed(self.screen)

    def one_writer(self) -> None:
        """Whoever is asked is asked for the current attempt, and nobody else is waited for."""
        attempt = getattr(self.waits, "attempt", self.record.attempt)
        assert attempt == self.record.attempt
        assert self.last is None or self.last.late or self.last.row is not None

    def steer_kept(self) -> None:
        """A steer waits, or was in a request: one of the two."""
        waiting = list(self.record.steers)
        assert sorted(self.steers) == sorted([*waiting, *self.delivered])

    def own_counters(self) -> None:
        """A word of the user counts nothing; the way to another provider counts a hop and nothing else."""
        last = self.last
        if last is None or last.late:
            return
        up = {
            each.counter
            for each in last.moved
            if each.after > each.before and each.counter in {x.name for x in COUNTED}
        }
        if isinstance(last.event, SteerGiven | InterruptAsked):
            assert set() == up
        if last.turn.state is State.FALLBACK and isinstance(last.event, PortEvent):
            assert {"fallbacks"} == up
        if isinstance(last.event, RebuildAsked):
            assert up <= {"rebuilds"}

    def named_end(self) -> None:
        """An end has an outcome, the state before it, and the counter that barred the way where one did."""
        last, end = self.last, self.record.end
        if last is None or end is None or last.before is State.DONE:
            return
        assert end.outcome in OUTCOMES
        missed = {each.name for each in self.record.missed if each.name != "fallbacks" or self.record.chain}
        if missed and end.outcome not in ("completed", "interrupted"):
            assert end.exhausted.counter in missed | ({self.record.spent.counter} if self.record.spent else set())
        if end.outcome == "exhausted":
            assert end.exhausted is not None
            assert end.exhausted.value >= end.exhausted.cap
        if end.outcome in ("failed", "refused"):
            assert end.fault is not None
        if end.outcome == "interrupted":
            assert "user" == end.issuer

    def honest(self) -> None:
        """Completed is a whole answer and nothing else; what grace brings is exhausted; what is cut is partial."""
        last, end = self.last, self.record.end
        if last is None or end is None or last.before is State.DONE:
            return
        event, interrupted = last.event, isinstance(last.event, InterruptAsked)
        whole = (
            isinstance(event, ModelReplied)
            and last.before in ASKING
            and event.reply.finish in (Stop.STOP, Stop.TOOL_CALLS)
        )
        if end.outcome == "completed":
            assert whole
            assert event.reply.text.strip()
            assert () == event.reply.tool_calls == self.record.steers
            assert end.text.endswith(event.reply.text)
        assert interrupted == (end.outcome == "interrupted")
        if end.outcome == "partial":
            assert end.text.strip()
        if last.before is State.GRACE:
            assert end.outcome in ("exhausted", "interrupted")
        if last.before is State.TRUNCATED:
            assert end.outcome in ("partial" if end.text.strip() else "failed", "interrupted")
        if isinstance(event, ModelReplied) and event.reply.finish is Stop.REFUSED and last.before in ASKING:
            assert "refused" == end.outcome

    def replay(self) -> None:
        """The journal, folded again, is the same turn by the same decisions."""
        turn, again = self.first, []
        for event in self.journal:
            again.append(step(turn, event))
            turn = again[-1].turn
        assert self.turn == turn
        assert self.decisions == again

    # ------------------------------------------------------------ to the end

    def run_out(self, policy: str) -> None:
        """Nobody says anything more, and the world answers in one way for ever: the turn ends all the same."""
        bound = 200 * (self.record.config.max_requests + 2)
        if self.state is State.READY:
            self.start()
        for _ in range(bound):
            if self.state is State.DONE:
                break
            self._answer(policy)
            self.check()
        assert State.DONE is self.state, f"terminates: not within {bound} events"

    def _answer(self, policy: str) -> None:
        match self.waits:
            case ReserveSlot():
                self.refuse_slot(1.0) if policy == "no slot" else self.grant()
            case CallModel():
                self._answer_call(policy)
            case JudgeCut():
                self.judge()
            case SetTimer():
                self.timer()
            case Repair():
                self.repaired(changed=policy != "no repair")
            case SwitchProvider():
                self.provider_failed(FaultKind.CONNECT_FAILED) if policy == "no provider" else self.provider_ready()
            case RunTool():
                self.tool_back(0, stop=False)

    def _answer_call(self, policy: str) -> None:
        if policy in ("drop", "stall"):
            getattr(self, policy)()
        elif policy in REPLIES:
            stop, calls, text, reasoning = REPLIES[policy]
            self.reply(stop, calls, text=text, reasoning=reasoning)
        else:
            self.fail(FAULTS.get(policy, FaultKind.OVERLOADED), None, None)

    def check(self) -> None:
        """All that must hold, but the replay, which is asked at the end."""
        for name in PROMISES:
            getattr(self, name)()


# What each move answers; the others are words, or time.
ANSWERS = {
    **dict.fromkeys(("grant", "refuse_slot"), ReserveSlot),
    **dict.fromkeys(("sign_of_life", "show", "begin_call", "reply", "fail", "drop", "stall"), CallModel),
    **dict.fromkeys(("tool_back", "tool_back_twice"), RunTool),
    **dict.fromkeys(("provider_ready", "provider_failed"), SwitchProvider),
    "judge": JudgeCut,
    "timer": SetTimer,
    "repaired": Repair,
}
REPLIES = {
    "tools": (Stop.TOOL_CALLS, ("valid", "bad"), True, False),
    "bad tools": (Stop.TOOL_CALLS, ("bad",), False, False),
    "cut": (Stop.LENGTH, (), True, False),
    "cut call": (Stop.TOOL_CALLS, ("cut",), True, False),
    "thought": (Stop.LENGTH, (), False, True),
    "nothing": (Stop.STOP, (), False, False),
    "paused": (Stop.PAUSED, (), True, False),
    "refused": (Stop.REFUSED, (), True, False),
    "answer": (Stop.STOP, (), True, False),
}
FAULTS = {"no repair": FaultKind.CONTEXT_TOO_LONG, "repair": FaultKind.BAD_UNICODE}
POLICIES = (*REPLIES, *FAULTS, "drop", "stall", "outage", "no slot", "no provider")
PROMISES = (
    "terminates", "one_grace", "one_grace_when_spent", "bounded", "interrupt_wins", "tools_whole", "paired", "shown_once",
    "one_writer", "steer_kept", "own_counters", "named_end", "honest",
)  # fmt: skip
