"""Every row of the page, by an example: what it decides, what it asks for, what it counts, what it leaves behind.

An example stands for one line of the page: *asking*, *waiting* and *alive* are the states that a line may begin in.
What the event itself adds to the record is told in test_record.py; here stands what the row makes of it.
"""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from fsm_loop.config import LoopConfig
from fsm_loop.core.conversation import (
    CALL_AGAIN,
    GO_ON,
    GO_ON_AFTER_DROP,
    GO_ON_AFTER_LOST_CALL,
    GO_ON_SMALLER,
    LAST_WORD,
    NOT_RUN,
    SPEAK,
)
from fsm_loop.core.effects import (
    Abandon,
    CallModel,
    Effect,
    Finish,
    JudgeCut,
    Reconnecting,
    Request,
    Say,
    SwitchProvider,
)
from fsm_loop.core.events import Event, TurnStarted
from fsm_loop.core.faults import Fault, FaultKind
from fsm_loop.core.machine import ALIVE, ASKING, PAGE, WAITING, State
from fsm_loop.core.messages import AssistantMessage, Reply, ToolMessage, ToolStatus, Usage, UserMessage
from fsm_loop.core.messages import Finish as End_
from fsm_loop.core.record import End, Record, Shape, Spent
from fsm_loop.core.step import Turn, begin_turn, step
from tests.core.build import (
    ADD,
    BAD,
    BLANK,
    CONFIG,
    CUT,
    HALF,
    HALF_BOTH,
    HALF_CALL,
    ONE_OF_EACH,
    PROVIDERS,
    QUESTION,
    SUB,
    call,
    dropped,
    failed,
    fault,
    fired,
    granted,
    in_a_round,
    interrupt,
    judged,
    known,
    not_ready,
    ready,
    rebuild,
    refilled,
    refused_slot,
    repaired,
    repairing,
    replied,
    result,
    returned,
    run,
    slot,
    spent,
    stalled,
    started,
    steer,
    timer,
    withdrawn,
)

WHERE = {"asking": ASKING, "waiting": WAITING, "alive": ALIVE}
STAYS = None
(READY, CALLING, STREAMING, TRUNCATED, TOOL_EXEC, BACKOFF, REPAIRING, FALLBACK, RECOVERING, GRACE, DONE) = State
FRENCH, NOW = UserMessage("In French."), UserMessage("What is it now?")
NEXT_PROVIDER = {"attempt": 8, "provider": 1}
SWITCHED = {"fallbacks": (0, 1), **refilled("api_retries", "stream_retries")}
RETRIES = {"api_retries": 1, "stream_retries": 1}
CUT_REFILLS = refilled("api_retries", "stream_retries")
RECOVERED = {"recoveries": (1, 2), **refilled("fallbacks", "api_retries", "stream_retries")}
NO_RETRIES = spent("api_retries", "stream_retries")
NO_PROVIDER = spent("api_retries", "stream_retries", "fallbacks")
NOTHING_LEFT = spent("api_retries", "stream_retries", "fallbacks", "recoveries")
ROUND = refilled(
    "continuations", "boosts", "empty_replies", "bad_tool_rounds", "compactions", "recoveries", "rebuilds",
    "api_retries", "stream_retries",
)  # fmt: skip
TOKENS = LoopConfig(tokens=100)
TIMED = LoopConfig(turn_seconds=60.0)
PRICED = LoopConfig(cost=0.5)
NO_BOOST = LoopConfig(max_output_tokens=32768)
ENDED = {"attempt": 8}
SPENT_REQUESTS = Spent("requests", 160, 160)
SPENT_ROUNDS = Spent("iterations", 40, 40)
SPENT_CHAIN = Spent("fallbacks", 2, 2)


@attrs.frozen
class Example:
    """One line, and what comes of it."""

    line: str
    record: Record
    event: Event
    to: State | None
    effects: tuple[Effect, ...] = ()
    then: dict[str, Any] = attrs.field(factory=dict)
    moved: dict[str, tuple[float, float]] = attrs.field(factory=dict)

    def cases(self) -> list[tuple[State, str]]:
        """The states that the line begins in, each with the name of its row."""
        first, _, rest = self.line.partition(".")
        states = WHERE.get(first) or (State[first.upper()],)
        return [(state, f"{state.name.lower()}.{rest}") for state in states]


def row(line, record, event, to, *effects, then=None, moved=None) -> Example:
    """One example."""
    return Example(line, record, event, to, effects, then or {}, moved or {})


def over(outcome: str, text: str = "", spent: Spent | None = None, fault: Fault | None = None, **facts: Any) -> dict:
    """What an end leaves behind."""
    said = facts.pop("said", (AssistantMessage(text),) if text else ())
    return {"attempt": 8, "end": End(outcome, text, spent, fault), **({"said": said} if said else {}), **facts}


def both(*texts: str) -> UserMessage:
    """Two words of the user's side, as one message."""
    return UserMessage("\n\n".join(texts))


def last_call() -> CallModel:
    """The request for a last word."""
    return CallModel(7, Request(0, (both(QUESTION.text, LAST_WORD),), tools=False))


def started_turn() -> Record:
    """A record that has not begun."""
    return Record(config=CONFIG, providers=PROVIDERS)


DRY = spent("requests")
WRONG = fault(FaultKind.BAD_REQUEST)
DOWN = fault(FaultKind.OVERLOADED)
GONE = fault(FaultKind.DROPPED)
SILENT = fault(FaultKind.STALLED)
REFUSED = Fault(FaultKind.REFUSED, "the reply ended as refused")
CUT_SHORT = Fault(FaultKind.CUT)
EMPTY = Fault(FaultKind.EMPTY, "every reply was empty")
NO_SLOT = refused_slot(2.5).fault
CUT_TEXT = Reply("It is", finish=End_.LENGTH)
CUT_CALL = Reply("It is", (CUT,), finish=End_.LENGTH)
CUT_THOUGHT = Reply(reasoning="Hm, what if", finish=End_.LENGTH)
SAME = Reply("It is", finish=End_.LENGTH)
UNKNOWN = "outcome unknown: still running when the turn ended"
STOPPED = "interrupted: no result"
NO_ANSWER = AssistantMessage("[No answer: the turn ended here as interrupted.]")
COUNTED = AssistantMessage("I count.", (ADD, SUB))
BOTH = (result(ADD, "3"), result(SUB, "5"))


def repair_of(kind: FaultKind, counter: str, **facts: Any) -> list[Example]:
    """A fault that a changed request can mend, and the counter of its kind."""
    line = f"asking.model_failed.needs_{fault(kind).repair.name.lower()}+{counter}_left"
    wish = repairing(fault(kind, **facts))
    moved = {counter: (0, 1)}
    return [
        row(line, known(), failed(kind, **facts), REPAIRING, wish, then={"attempt": 8}, moved=moved),
        row(line, known(), failed(kind, HALF, **facts), REPAIRING, withdrawn(), wish, then={"attempt": 8}, moved=moved),
    ]


def reply_spends(counter: str, *more: str) -> dict[str, tuple[float, float]]:
    """A reply counts one of this, and refills rebuilds."""
    return {counter: (1, 2), **refilled("rebuilds", *more)}


# fmt: off
EXAMPLES = [
    row("ready.turn_started", started_turn(), TurnStarted(messages=(QUESTION,), at=12.5), CALLING, slot(1), then={"attempt": 1}),

    # The limiter's slot, and the budget.
    row("calling.slot_granted.budget_left", known(counts={"requests": 3, "slot_waits": 1}), granted(), CALLING, call(), then={"sent": 4}, moved={"requests": (3, 4), **refilled("slot_waits")}),
    row("calling.slot_granted.budget_left", known(steers=("In French.",)), granted(), CALLING, call(FRENCH), then={"sent": 4, "steers": (), "said": (FRENCH,)}, moved={"requests": (0, 1)}),
    row("calling.slot_granted.budget_left", known(pieces=("It ", "is"), nudge=GO_ON), granted(), CALLING, call(AssistantMessage("It is"), UserMessage(GO_ON)), then={"sent": 4}, moved={"requests": (0, 1)}),
    row("calling.slot_granted.budget_left", known(pieces=("It is",), lead="So: ", nudge=GO_ON, steers=("In French.",)), granted(), CALLING, call(AssistantMessage("It is"), FRENCH),
        then={"sent": 4, "pieces": (), "lead": "", "nudge": "", "steers": (), "said": (AssistantMessage("It is"), FRENCH)}, moved={"requests": (0, 1)}),
    row("calling.slot_granted.budget_left", known(nudge=SPEAK, shape=Shape(8192, less_reasoning=True, limits=((0, 4000), (1, 9)), unstreamed=frozenset({0}), without=frozenset({(0, "seed"), (1, "top_p")}))), granted(), CALLING,
        CallModel(7, Request(0, (both(QUESTION.text, SPEAK),), output_limit=4000, less_reasoning=True, stream=False, without=frozenset({"seed"}))), then={"sent": 4}, moved={"requests": (0, 1)}),
    row("calling.slot_granted.budget_left", known(config=TIMED, started_at=10.0), granted(at=30.0), CALLING, call(time_left_s=40.0), then={"sent": 4}, moved={"requests": (0, 1), "turn_seconds": (0, 20.0)}),
    row("calling.slot_granted.grace_calls_left", known(counts=DRY), granted(), GRACE, last_call(), then={"sent": 4, "nudge": LAST_WORD, "spent": SPENT_REQUESTS}, moved={"grace_calls": (0, 1)}),
    row("calling.slot_granted.grace_calls_left", known(counts=DRY, pieces=("It is",), lead="So: ", nudge=GO_ON, steers=("In French.",)), granted(), GRACE, call(AssistantMessage("It is"), both("In French.", LAST_WORD), tools=False),
        then={"sent": 4, "nudge": LAST_WORD, "lead": "", "pieces": (), "steers": (), "said": (AssistantMessage("It is"), FRENCH), "spent": SPENT_REQUESTS}, moved={"grace_calls": (0, 1)}),
    row("calling.slot_granted.grace_calls_left", known(config=TOKENS, counts={"tokens": 120}), granted(), GRACE, last_call(), then={"sent": 4, "nudge": LAST_WORD, "spent": Spent("tokens", 120, 100)}, moved={"grace_calls": (0, 1)}),
    row("calling.slot_granted.grace_calls_left", known(config=PRICED, counts={"cost": 0.5}), granted(), GRACE, last_call(), then={"sent": 4, "nudge": LAST_WORD, "spent": Spent("cost", 0.5, 0.5)}, moved={"grace_calls": (0, 1)}),
    row("calling.slot_granted", known(counts=spent("requests", "grace_calls")), granted(), DONE, Finish("exhausted"), then=over("exhausted", spent=SPENT_REQUESTS)),
    row("calling.slot_granted", known(counts=spent("requests", "grace_calls"), said=(COUNTED, *BOTH)), granted(), DONE, Finish("exhausted"),
        then=over("exhausted", "I count.", SPENT_REQUESTS, said=(COUNTED, *BOTH, AssistantMessage("[No answer: the turn ended here as exhausted.]")))),
    row("calling.slot_granted", known(counts=spent("requests", "grace_calls"), said=(COUNTED, *BOTH), pieces=("It is",)), granted(), DONE, Finish("exhausted"),
        then=over("exhausted", "It is", SPENT_REQUESTS, said=(COUNTED, *BOTH, AssistantMessage("It is")), pieces=())),
    row("calling.slot_refused.waits_soon+slot_waits_left", known(), refused_slot(2.5), BACKOFF, timer(2.5, "slot", attempt=7), moved={"slot_waits": (0, 1)}),
    row("calling.slot_refused.may_retry+api_retries_left", known(counts=spent("slot_waits")), refused_slot(2.5), BACKOFF, timer(2.5), then={"attempt": 8}, moved={"api_retries": (0, 1)}),
    row("calling.slot_refused.fallbacks_left", known(counts={**spent("slot_waits"), "api_retries": 3}), refused_slot(), FALLBACK, SwitchProvider(8, 1), then=NEXT_PROVIDER, moved={"fallbacks": (0, 1), "api_retries": (3, 0)}),
    row("calling.slot_refused.fallbacks_left", known(), refused_slot(601), FALLBACK, SwitchProvider(8, 1), then=NEXT_PROVIDER, moved={"fallbacks": (0, 1)}),
    row("calling.slot_refused", known(counts=spent("slot_waits", "api_retries", "fallbacks")), refused_slot(), DONE, Finish("failed"), then=over("failed", spent=SPENT_CHAIN, fault=NO_SLOT)),

    # The reply.
    row("calling.stream_started", known(), started(), STREAMING),
    row("asking.model_replied.was_refused+fallbacks_left", known(counts=RETRIES), replied("It is", finish=End_.REFUSED), FALLBACK, withdrawn(), SwitchProvider(8, 1), then=NEXT_PROVIDER, moved=SWITCHED),
    row("asking.model_replied.was_refused+fallbacks_left", known(counts={"fallbacks": 1}, provider=1), replied(finish=End_.REFUSED), FALLBACK, SwitchProvider(8, 2), then={"attempt": 8, "provider": 2}, moved={"fallbacks": (1, 2)}),
    row("asking.model_replied.was_refused", known(counts=spent("fallbacks")), replied("It is", finish=End_.REFUSED), DONE, Finish("refused"), then=over("refused", "It is", SPENT_CHAIN, REFUSED)),
    row("asking.model_replied.was_refused", known(providers=("only",)), replied("It is", ADD, finish=End_.REFUSED), DONE, Finish("refused"), then=over("refused", "It is", None, REFUSED)),
    row("asking.model_replied.is_paused+iterations_left", known(counts={"iterations": 1, "rebuilds": 1}, lead="So: ", pieces=("It ",), nudge=GO_ON), replied("is", finish=End_.PAUSED, replay=("sealed",)), CALLING, slot(),
        then={"attempt": 8, "lead": "So: It is", "pieces": (), "nudge": "", "said": (AssistantMessage("It is", replay=("sealed",)),)}, moved=reply_spends("iterations")),
    row("asking.model_replied.is_paused+grace_calls_left", known(counts=spent("iterations"), lead="So: ", nudge=GO_ON), replied("It is", finish=End_.PAUSED), GRACE, slot(),
        then={"attempt": 8, "lead": "", "nudge": "", "spent": SPENT_ROUNDS, "said": (AssistantMessage("It is"),)}, moved={"grace_calls": (0, 1)}),
    row("asking.model_replied.is_paused", known(counts=spent("iterations", "grace_calls"), lead="So: "), replied("It is", finish=End_.PAUSED), DONE, Finish("exhausted"),
        then=over("exhausted", "So: It is", SPENT_ROUNDS, said=(AssistantMessage("It is"),), lead="")),
    row("asking.model_replied.was_cut", known(nudge=SPEAK), replied("It is", finish=End_.LENGTH), TRUNCATED, JudgeCut(7), then={"cut": CUT_TEXT, "nudge": ""}),
    row("asking.model_replied.was_cut", known(), replied("It is", ADD, finish=End_.LENGTH), TRUNCATED, JudgeCut(7), then={"cut": Reply("It is", (ADD,), finish=End_.LENGTH)}),
    row("asking.model_replied.was_cut", known(), replied("", ADD, CUT, finish=End_.TOOL_CALLS), TRUNCATED, JudgeCut(7), then={"cut": Reply("", (ADD, CUT), finish=End_.TOOL_CALLS)}),
    row("asking.model_replied.was_cut", known(), replied("It is", finish=None), TRUNCATED, JudgeCut(7), then={"cut": Reply("It is")}),
    row("asking.model_replied.has_valid_call+iterations_left", known(counts=ONE_OF_EACH, lead="So: ", pieces=("I ",), nudge=GO_ON, shape=Shape(8192, less_reasoning=True, limits=((0, 9),))), replied("count.", ADD, BAD), TOOL_EXEC, *run(ADD),
        then={"asked": AssistantMessage("I count.", (ADD, BAD)), "calls": (ADD, BAD), "results": (None, result(BAD, "there is no tool fly", ToolStatus.ERROR)), "lead": "", "pieces": (), "nudge": "", "shape": Shape(limits=((0, 9),))},
        moved={"iterations": (1, 2), **ROUND}),
    row("asking.model_replied.has_valid_call+iterations_left", known(), replied("I count.", ADD, SUB, finish=End_.TOOL_CALLS), TOOL_EXEC, *run(ADD, SUB),
        then={"asked": COUNTED, "calls": (ADD, SUB), "results": (None, None)}, moved={"iterations": (0, 1)}),
    row("asking.model_replied.has_valid_call+grace_calls_left", known(counts=spent("iterations"), pieces=("I ",)), replied("count.", ADD, BAD), GRACE, slot(),
        then={"attempt": 8, "pieces": (), "spent": SPENT_ROUNDS, "said": (AssistantMessage("I count.", (ADD, BAD)), result(ADD, NOT_RUN, ToolStatus.NOT_RUN), result(BAD, "there is no tool fly", ToolStatus.ERROR))}, moved={"grace_calls": (0, 1)}),
    row("asking.model_replied.has_valid_call", known(counts=spent("iterations", "grace_calls")), replied("I count.", ADD), DONE, Finish("exhausted"),
        then=over("exhausted", "I count.", SPENT_ROUNDS, said=(AssistantMessage("I count.", (ADD,)), result(ADD, NOT_RUN, ToolStatus.NOT_RUN), AssistantMessage("[No answer: the turn ended here as exhausted.]")))),
    row("asking.model_replied.wants_tools+bad_tool_rounds_left", known(counts={"bad_tool_rounds": 1, "rebuilds": 1}, lead="So: ", pieces=("I ",), nudge=GO_ON), replied("fly.", BAD), CALLING, slot(),
        then={"attempt": 8, "lead": "", "nudge": "", "pieces": (), "said": (AssistantMessage("I fly.", (BAD,)), result(BAD, "there is no tool fly", ToolStatus.ERROR))}, moved=reply_spends("bad_tool_rounds")),
    row("asking.model_replied.wants_tools", known(counts=spent("bad_tool_rounds"), pieces=("I ",)), replied("fly.", BAD), DONE, Finish("failed"),
        then=over("failed", "I fly.", Spent("bad_tool_rounds", 3, 3), Fault(FaultKind.BAD_TOOL_CALLS, "there is no tool fly"), pieces=(),
                  said=(AssistantMessage("I fly.", (BAD,)), result(BAD, "there is no tool fly", ToolStatus.ERROR), AssistantMessage("[No answer: the turn ended here as failed.]")))),
    row("asking.model_replied.is_empty+empty_replies_left", known(counts={"empty_replies": 1, "rebuilds": 1}, pieces=("It is",), nudge=GO_ON), replied(" \n"), CALLING, withdrawn(" \n"), slot(), then={"attempt": 8, "nudge": SPEAK}, moved=reply_spends("empty_replies")),
    row("asking.model_replied.is_empty+fallbacks_left", known(counts={**RETRIES, **spent("empty_replies")}), replied("", reasoning="Hm."), FALLBACK, SwitchProvider(8, 1), then=NEXT_PROVIDER, moved=SWITCHED),
    row("asking.model_replied.is_empty", known(counts=spent("empty_replies", "fallbacks")), replied(), DONE, Finish("failed"), then=over("failed", "", SPENT_CHAIN, EMPTY)),
    row("asking.model_replied.is_empty", known(counts=spent("empty_replies"), providers=("only",), pieces=("It is",)), replied(), DONE, Finish("partial"), then=over("partial", "It is", Spent("empty_replies", 2, 2), EMPTY, pieces=())),
    row("asking.model_replied.steer_waiting", known(counts={"rebuilds": 1, **RETRIES}, steers=("In French.",), lead="So: ", pieces=("It ",), nudge=GO_ON), replied("is."), CALLING, slot(),
        then={"attempt": 8, "lead": "", "nudge": "", "pieces": (), "said": (AssistantMessage("It is."),)}, moved=refilled("rebuilds")),
    row("asking.model_replied", known(lead="So: ", pieces=("It ",), nudge=GO_ON), replied("is.", reasoning="Hm.", replay=("sealed",)), DONE, Finish("completed"),
        then=over("completed", "So: It is.", said=(AssistantMessage("It is.", (), "Hm.", ("sealed",)),), lead="", pieces=(), nudge="")),
    row("asking.model_replied", known(said=(COUNTED, *BOTH)), replied("Eight.", usage=Usage(10, 5)), DONE, Finish("completed"), then=over("completed", "Eight.", said=(COUNTED, *BOTH, AssistantMessage("Eight."))), moved={"tokens": (0, 15)}),

    # The stream breaks off, or falls silent.
    row("asking.stream_dropped.nothing_shown+stream_retries_left", known(counts={"stream_retries": 1}), dropped(), CALLING, slot(), then={"attempt": 8}, moved={"stream_retries": (1, 2)}),
    row("asking.stream_dropped.nothing_shown+stream_retries_left", known(), dropped(BLANK), CALLING, withdrawn(BLANK.text), Say(Reconnecting(GONE.sentence)), slot(), then={"attempt": 8}, moved={"stream_retries": (0, 1)}),
    row("asking.stream_dropped.nothing_shown+stream_retries_left", known(), dropped(HALF_CALL), CALLING, slot(), then={"attempt": 8}, moved={"stream_retries": (0, 1)}),
    row("asking.stream_dropped.tool_in_flight+stream_retries_left", known(), dropped(HALF_BOTH), CALLING, withdrawn(), Say(Reconnecting(GONE.sentence)), slot(), then={"attempt": 8}, moved={"stream_retries": (0, 1)}),
    row("asking.stream_dropped.text_shown+stream_retries_left", known(nudge=SPEAK), dropped(HALF), TRUNCATED, JudgeCut(7), then={"cut": HALF, "nudge": GO_ON_AFTER_DROP}, moved={"stream_retries": (0, 1)}),
    row("asking.stream_dropped.text_shown+falls_back+fallbacks_left", known(counts=spent("stream_retries")), dropped(HALF_BOTH), FALLBACK, withdrawn(), SwitchProvider(8, 1), then=NEXT_PROVIDER, moved={"fallbacks": (0, 1), "stream_retries": (2, 0)}),
    row("asking.stream_dropped.text_shown", known(counts=NO_PROVIDER, pieces=("Well, ",), nudge=GO_ON), dropped(HALF), TRUNCATED, JudgeCut(7), then={"cut": HALF, "nudge": GO_ON_AFTER_DROP}),
    row("asking.stream_dropped.text_shown", known(counts=NO_PROVIDER), dropped(HALF_BOTH), TRUNCATED, JudgeCut(7), then={"cut": HALF, "nudge": GO_ON_AFTER_LOST_CALL.format(names="add")}),
    row("asking.stream_dropped.may_retry+api_retries_left", known(counts={**spent("stream_retries"), "api_retries": 1}), dropped(), BACKOFF, timer(10.0), then={"attempt": 8}, moved={"api_retries": (1, 2)}),
    row("asking.stream_dropped.falls_back+fallbacks_left", known(counts=NO_RETRIES), dropped(), FALLBACK, SwitchProvider(8, 1), then=NEXT_PROVIDER, moved={"fallbacks": (0, 1), "api_retries": (3, 0), "stream_retries": (2, 0)}),
    row("asking.stream_dropped.is_outage+waits_soon+recoveries_left", known(counts={**NO_PROVIDER, "recoveries": 1}, provider=2), dropped(), RECOVERING, timer(30.0, "recovery"), then={"attempt": 8, "provider": 0},
        moved={"recoveries": (1, 2), "fallbacks": (2, 0), "api_retries": (3, 0), "stream_retries": (2, 0)}),
    row("asking.stream_dropped", known(counts=NOTHING_LEFT), dropped(), DONE, Finish("failed"), then=over("failed", "", Spent("recoveries", 5, 5), GONE)),
    row("asking.stream_stalled.text_shown+tool_in_flight+stream_retries_left", known(), stalled(HALF_BOTH), CALLING, withdrawn(), Say(Reconnecting(SILENT.sentence)), slot(), then={"attempt": 8}, moved={"stream_retries": (0, 1)}),
    row("asking.stream_stalled.text_shown+api_retries_left", known(), stalled(HALF), TRUNCATED, JudgeCut(7), then={"cut": HALF, "nudge": GO_ON_AFTER_DROP}, moved={"api_retries": (0, 1)}),
    row("asking.stream_stalled.text_shown+api_retries_left", known(counts=spent("stream_retries")), stalled(HALF_BOTH), TRUNCATED, JudgeCut(7), then={"cut": HALF, "nudge": GO_ON_AFTER_LOST_CALL.format(names="add")}, moved={"api_retries": (0, 1)}),
    row("asking.stream_stalled.text_shown+falls_back+fallbacks_left", known(counts=spent("api_retries")), stalled(HALF), FALLBACK, withdrawn(), SwitchProvider(8, 1), then=NEXT_PROVIDER, moved={"fallbacks": (0, 1), "api_retries": (3, 0)}),
    row("asking.stream_stalled.text_shown", known(counts=NO_PROVIDER), stalled(HALF), TRUNCATED, JudgeCut(7), then={"cut": HALF, "nudge": GO_ON_AFTER_DROP}),
    row("asking.stream_stalled.may_retry+api_retries_left", known(), stalled(), BACKOFF, timer(5.0), then={"attempt": 8}, moved={"api_retries": (0, 1)}),
    row("asking.stream_stalled.may_retry+api_retries_left", known(), stalled(HALF_CALL), BACKOFF, timer(5.0), then={"attempt": 8}, moved={"api_retries": (0, 1)}),
    row("asking.stream_stalled.falls_back+fallbacks_left", known(counts={**RETRIES, **spent("api_retries")}), stalled(), FALLBACK, SwitchProvider(8, 1), then=NEXT_PROVIDER, moved={"fallbacks": (0, 1), "api_retries": (3, 0), "stream_retries": (1, 0)}),
    row("asking.stream_stalled.is_outage+waits_soon+recoveries_left", known(counts={**RETRIES, **spent("api_retries", "fallbacks")}), stalled(), RECOVERING, timer(15.0, "recovery"), then={"attempt": 8},
        moved={"recoveries": (0, 1), "fallbacks": (2, 0), "api_retries": (3, 0), "stream_retries": (1, 0)}),
    row("asking.stream_stalled", known(counts=NOTHING_LEFT), stalled(), DONE, Finish("failed"), then=over("failed", "", Spent("recoveries", 5, 5), SILENT)),

    # The call fails.
    *repair_of(FaultKind.BAD_UNICODE, "sanitizations"),
    *repair_of(FaultKind.CONTEXT_TOO_LONG, "compactions"),
    *repair_of(FaultKind.OUTPUT_LIMIT_TOO_HIGH, "output_limit_repairs", limit=4096),
    *repair_of(FaultKind.HISTORY_REFUSED, "history_repairs"),
    *repair_of(FaultKind.MEDIA_REFUSED, "media_repairs"),
    *repair_of(FaultKind.PARAMETER_UNSUPPORTED, "parameter_repairs", parameter="seed"),
    *repair_of(FaultKind.CREDENTIAL_EXPIRED, "credential_refreshes"),
    *repair_of(FaultKind.STREAMING_UNSUPPORTED, "stream_switches"),
    row("asking.model_failed.misspoke+bad_tool_rounds_left", known(), failed(FaultKind.MISSPOKE, HALF), CALLING, withdrawn(), slot(), then={"attempt": 8, "nudge": CALL_AGAIN}, moved={"bad_tool_rounds": (0, 1)}),
    row("asking.model_failed.is_malformed+fallbacks_left", known(counts=RETRIES), failed(FaultKind.MALFORMED), FALLBACK, SwitchProvider(8, 1), then=NEXT_PROVIDER, moved=SWITCHED),
    row("asking.model_failed.may_retry+api_retries_left", known(counts={"api_retries": 2}), failed(FaultKind.OVERLOADED, HALF), BACKOFF, withdrawn(), timer(20.0), then={"attempt": 8}, moved={"api_retries": (2, 3)}),
    row("asking.model_failed.may_retry+api_retries_left", known(), failed(FaultKind.RATE_LIMITED, retry_after_s=600.0), BACKOFF, timer(600.0), then={"attempt": 8}, moved={"api_retries": (0, 1)}),
    row("asking.model_failed.may_retry+api_retries_left", known(counts=spent("fallbacks")), failed(FaultKind.MALFORMED), BACKOFF, timer(5.0), then={"attempt": 8}, moved={"api_retries": (0, 1)}),
    row("asking.model_failed.may_retry+api_retries_left", known(config=TIMED, counts={"turn_seconds": 58.5}), failed(FaultKind.OVERLOADED), BACKOFF, timer(1.5), then={"attempt": 8}, moved={"api_retries": (0, 1)}),
    row("asking.model_failed.falls_back+fallbacks_left", known(), failed(FaultKind.RATE_LIMITED, HALF, retry_after_s=600.5), FALLBACK, withdrawn(), SwitchProvider(8, 1), then=NEXT_PROVIDER, moved={"fallbacks": (0, 1)}),
    row("asking.model_failed.falls_back+fallbacks_left", known(), failed(FaultKind.SERVER_ERROR, should_retry=False), FALLBACK, SwitchProvider(8, 1), then=NEXT_PROVIDER, moved={"fallbacks": (0, 1)}),
    row("asking.model_failed.falls_back+fallbacks_left", known(), failed(FaultKind.REFUSED, should_retry=True), FALLBACK, SwitchProvider(8, 1), then=NEXT_PROVIDER, moved={"fallbacks": (0, 1)}),
    row("asking.model_failed.falls_back+fallbacks_left", known(counts=spent("sanitizations")), failed(FaultKind.BAD_UNICODE), FALLBACK, SwitchProvider(8, 1), then=NEXT_PROVIDER, moved={"fallbacks": (0, 1)}),
    row("asking.model_failed.is_outage+waits_soon+nothing_shown+recoveries_left", known(counts={**NO_PROVIDER, "recoveries": 4}, provider=2), failed(FaultKind.OVERLOADED, retry_after_s=90.0), RECOVERING, timer(90.0, "recovery"), then={"attempt": 8, "provider": 0},
        moved={"recoveries": (4, 5), "fallbacks": (2, 0), "api_retries": (3, 0), "stream_retries": (2, 0)}),
    row("asking.model_failed.is_refusal", known(counts=spent("fallbacks")), failed(FaultKind.REFUSED, HALF), DONE, Finish("refused"), then=over("refused", "It is", SPENT_CHAIN, fault(FaultKind.REFUSED))),
    row("asking.model_failed", known(counts=NOTHING_LEFT), failed(FaultKind.OVERLOADED), DONE, Finish("failed"), then=over("failed", "", Spent("recoveries", 5, 5), DOWN)),
    row("asking.model_failed", known(counts=NO_PROVIDER, pieces=("Well, ",)), failed(FaultKind.OVERLOADED, HALF), DONE, Finish("failed"), then=over("failed", "Well, It is", SPENT_CHAIN, DOWN, pieces=())),
    row("asking.model_failed", known(), failed(FaultKind.INTERNAL), DONE, Finish("failed"), then=over("failed", "", None, fault(FaultKind.INTERNAL))),
    row("asking.model_failed", known(providers=("only",)), failed(FaultKind.BAD_REQUEST), DONE, Finish("failed"), then=over("failed", "", None, WRONG)),

    # A reply was cut.
    row("truncated.cut_judged.call_was_cut+room_to_grow+boosts_left", known(counts=RETRIES, cut=CUT_CALL), judged(), CALLING, withdrawn(), slot(), then={"attempt": 8, "cut": None, "shape": Shape(8192)}, moved={"boosts": (0, 1), **CUT_REFILLS}),
    row("truncated.cut_judged.call_was_cut+room_to_grow+boosts_left", known(counts={"boosts": 1}, cut=HALF_CALL, pieces=("Well, ",), shape=Shape(8192)), judged(), CALLING, slot(), then={"attempt": 8, "cut": None, "nudge": GO_ON, "shape": Shape(16384)}, moved={"boosts": (1, 2)}),
    row("truncated.cut_judged.text_was_cut+makes_progress+continuations_left", known(counts=RETRIES, cut=CUT_TEXT, pieces=("Well, ",)), judged(), CALLING, slot(), then={"attempt": 8, "cut": None, "pieces": ("Well, ", "It is"), "nudge": GO_ON}, moved={"continuations": (0, 1), **CUT_REFILLS}),
    row("truncated.cut_judged.text_was_cut+makes_progress+continuations_left", known(cut=HALF, nudge=GO_ON_AFTER_DROP), judged(), CALLING, slot(), then={"attempt": 8, "cut": None, "pieces": ("It is",)}, moved={"continuations": (0, 1)}),
    row("truncated.cut_judged.text_was_cut+makes_progress+continuations_left", known(cut=CUT_CALL, counts=spent("boosts")), judged(), CALLING, slot(), then={"attempt": 8, "cut": None, "pieces": ("It is",), "nudge": GO_ON_SMALLER}, moved={"continuations": (0, 1)}),
    row("truncated.cut_judged.text_was_cut+makes_progress+continuations_left", known(cut=CUT_CALL, config=NO_BOOST), judged(), CALLING, slot(), then={"attempt": 8, "cut": None, "pieces": ("It is",), "nudge": GO_ON_SMALLER}, moved={"continuations": (0, 1)}),
    row("truncated.cut_judged.only_reasoned+boosts_left", known(counts={"boosts": 2, **RETRIES}, cut=CUT_THOUGHT), judged(), CALLING, slot(), then={"attempt": 8, "cut": None, "shape": Shape(8192, less_reasoning=True)}, moved={"boosts": (2, 3), **CUT_REFILLS}),
    row("truncated.cut_judged.only_reasoned+boosts_left", known(cut=Reply(" \n", reasoning="Hm", finish=End_.LENGTH), config=NO_BOOST, pieces=("Well, ",)), judged(), CALLING, withdrawn(" \n"), slot(),
        then={"attempt": 8, "cut": None, "nudge": GO_ON, "shape": Shape(less_reasoning=True)}, moved={"boosts": (0, 1)}),
    row("truncated.cut_judged", known(counts=spent("continuations"), cut=CUT_TEXT, pieces=("Well, ",)), judged(), DONE, Finish("partial"), then=over("partial", "Well, It is", Spent("continuations", 3, 3), CUT_SHORT, pieces=(), cut=None)),
    row("truncated.cut_judged", known(cut=SAME, pieces=("It is",)), judged(), DONE, withdrawn(), Finish("partial"), then=over("partial", "It is", None, CUT_SHORT, pieces=(), cut=None)),
    row("truncated.cut_judged", known(cut=HALF, counts=spent("continuations"), fault=GONE, nudge=GO_ON_AFTER_DROP), judged(), DONE, Finish("partial"), then=over("partial", "It is", Spent("continuations", 3, 3), GONE, cut=None, nudge="")),
    row("truncated.cut_judged", known(cut=CUT_THOUGHT, shape=Shape(less_reasoning=True)), judged(), DONE, Finish("failed"), then=over("failed", "", None, CUT_SHORT, cut=None)),

    # Tools.
    row("tool_exec.tool_returned.must_stop", in_a_round(None, BOTH[1]), returned(ADD, "3", stop="add was asked for 5 times"), DONE, Abandon(7), Finish("failed"),
        then=over("failed", "I count.", None, Fault(FaultKind.TOOL_LOOP, "add was asked for 5 times"), asked=None, calls=(), results=(), said=(COUNTED, *BOTH, AssistantMessage("[No answer: the turn ended here as failed.]")))),
    row("tool_exec.tool_returned.all_back+iterations_left+budget_left", in_a_round(None, BOTH[1], counts={"iterations": 1}), returned(ADD), CALLING, slot(), then={"attempt": 8, "asked": None, "calls": (), "results": (), "said": (COUNTED, *BOTH)}),
    row("tool_exec.tool_returned.all_back+grace_calls_left", in_a_round(None, BOTH[1], counts=spent("iterations")), returned(ADD), GRACE, slot(),
        then={"attempt": 8, "asked": None, "calls": (), "results": (), "said": (COUNTED, *BOTH), "spent": SPENT_ROUNDS}, moved={"grace_calls": (0, 1)}),
    row("tool_exec.tool_returned.all_back+grace_calls_left", in_a_round(None, BOTH[1], config=TIMED, started_at=0.0), returned(ADD, at=60.0), GRACE, slot(),
        then={"attempt": 8, "asked": None, "calls": (), "results": (), "said": (COUNTED, *BOTH), "spent": Spent("turn_seconds", 60.0, 60.0)}, moved={"grace_calls": (0, 1), "turn_seconds": (0, 60.0)}),
    row("tool_exec.tool_returned.all_back", in_a_round(None, BOTH[1], counts=spent("iterations", "grace_calls")), returned(ADD), DONE, Finish("exhausted"),
        then=over("exhausted", "I count.", SPENT_ROUNDS, asked=None, calls=(), results=(), said=(COUNTED, *BOTH, AssistantMessage("[No answer: the turn ended here as exhausted.]")))),
    row("tool_exec.tool_returned", in_a_round(), returned(SUB, "5"), STAYS),

    # Waits.
    row("backoff.timer_fired", known(provider=1), fired(), CALLING, slot(7, provider=1)),
    row("recovering.timer_fired", known(), fired(), CALLING, slot(7)),
    row("repairing.request_repaired.has_changed", known(fault=fault(FaultKind.CONTEXT_TOO_LONG), said=(COUNTED, *BOTH)), repaired(prompt=(NOW,), said=()), CALLING, slot(7), then={"prompt": (NOW,), "said": ()}),
    row("repairing.request_repaired.has_changed", known(fault=fault(FaultKind.BAD_UNICODE), lead="\ud800", pieces=("\x00a", "b"), steers=("\udfff!",), nudge="call of \ud800"), repaired(prompt=(QUESTION,), said=()), CALLING, slot(7),
        then={"lead": "\ufffd", "pieces": ("\ufffda", "b"), "steers": ("\ufffd!",), "nudge": "call of \ufffd"}),
    row("repairing.request_repaired.has_changed", known(provider=1, fault=fault(FaultKind.OUTPUT_LIMIT_TOO_HIGH), shape=Shape(limits=((0, 9), (1, 8000)))), repaired(limit=4096), CALLING, slot(7, provider=1), then={"shape": Shape(limits=((0, 9), (1, 4096)))}),
    row("repairing.request_repaired.has_changed", known(provider=1, fault=fault(FaultKind.PARAMETER_UNSUPPORTED), shape=Shape(without=frozenset({(0, "seed")}))), repaired(parameter="top_p"), CALLING, slot(7, provider=1), then={"shape": Shape(without=frozenset({(0, "seed"), (1, "top_p")}))}),
    row("repairing.request_repaired.has_changed", known(provider=1, fault=fault(FaultKind.STREAMING_UNSUPPORTED)), repaired(), CALLING, slot(7, provider=1), then={"shape": Shape(unstreamed=frozenset({1}))}),
    row("repairing.request_repaired.has_changed", known(fault=fault(FaultKind.CREDENTIAL_EXPIRED)), repaired(), CALLING, slot(7)),
    row("repairing.request_repaired.fault_falls_back+fallbacks_left", known(counts=RETRIES, fault=fault(FaultKind.MEDIA_REFUSED)), repaired(changed=False), FALLBACK, SwitchProvider(8, 1), then=NEXT_PROVIDER, moved=SWITCHED),
    row("repairing.request_repaired", known(counts=spent("fallbacks"), fault=fault(FaultKind.MEDIA_REFUSED)), repaired(changed=False), DONE, Finish("failed"), then=over("failed", "", SPENT_CHAIN, fault(FaultKind.MEDIA_REFUSED))),
    row("fallback.provider_ready", known(provider=1), ready(), CALLING, slot(7, provider=1)),
    row("fallback.provider_failed.fallbacks_left", known(provider=1, counts={"fallbacks": 1, **RETRIES}), not_ready(), FALLBACK, SwitchProvider(8, 2), then={"attempt": 8, "provider": 2}, moved={"fallbacks": (1, 2), **CUT_REFILLS}),
    row("fallback.provider_failed.is_outage+waits_soon+recoveries_left", known(provider=2, counts={"fallbacks": 2, "recoveries": 1}), not_ready(FaultKind.CONNECT_FAILED), RECOVERING, timer(30.0, "recovery"), then={"attempt": 8, "provider": 0}, moved={"recoveries": (1, 2), "fallbacks": (2, 0)}),
    row("fallback.provider_failed", known(provider=2, counts={"fallbacks": 2}), not_ready(), DONE, Finish("failed"), then=over("failed", "", SPENT_CHAIN, fault(FaultKind.NOT_READY))),

    # The last word.
    row("grace.slot_granted", known(spent=SPENT_ROUNDS), granted(), STAYS, last_call(), then={"sent": 4, "nudge": LAST_WORD}),
    row("grace.slot_granted", known(spent=SPENT_ROUNDS, steers=("In French.",)), granted(), STAYS, call(both("In French.", LAST_WORD), tools=False), then={"sent": 4, "nudge": LAST_WORD, "steers": (), "said": (FRENCH,)}),
    row("grace.slot_refused.waits_soon+slot_waits_left", known(spent=SPENT_ROUNDS), refused_slot(2.5), STAYS, timer(2.5, "slot", attempt=7), moved={"slot_waits": (0, 1)}),
    row("grace.slot_refused", known(spent=SPENT_ROUNDS, counts=spent("slot_waits"), said=(AssistantMessage("So far."),)), refused_slot(), DONE, Finish("exhausted"), then=over("exhausted", "So far.", SPENT_ROUNDS, NO_SLOT, said=())),
    row("grace.timer_fired", known(), fired(), STAYS, slot(7)),
    row("grace.stream_started", known(), started(), STAYS),
    row("grace.model_replied.has_text", known(spent=SPENT_ROUNDS, nudge=LAST_WORD), replied("It is.", ADD), DONE, Finish("exhausted"), then=over("exhausted", "It is.", SPENT_ROUNDS, nudge="")),
    row("grace.model_replied.has_text", known(spent=SPENT_ROUNDS), replied("It is", finish=End_.LENGTH), DONE, Finish("exhausted"), then=over("exhausted", "It is", SPENT_ROUNDS)),
    row("grace.model_replied", known(spent=SPENT_ROUNDS, said=(COUNTED, *BOTH)), replied("", ADD), DONE, Finish("exhausted"),
        then=over("exhausted", "I count.", SPENT_ROUNDS, said=(COUNTED, *BOTH, AssistantMessage("[No answer: the turn ended here as exhausted.]")))),
    row("grace.model_replied", known(spent=SPENT_ROUNDS, said=(AssistantMessage("So far."),)), replied("I ca", finish=End_.REFUSED), DONE, withdrawn("I ca"), Finish("exhausted"), then=over("exhausted", "So far.", SPENT_ROUNDS, said=())),
    row("grace.stream_dropped", known(spent=SPENT_ROUNDS), dropped(HALF_BOTH), DONE, Finish("exhausted"), then=over("exhausted", "It is", SPENT_ROUNDS, GONE)),
    row("grace.stream_stalled", known(spent=SPENT_ROUNDS, said=(AssistantMessage("So far."),)), stalled(), DONE, Finish("exhausted"), then=over("exhausted", "So far.", SPENT_ROUNDS, SILENT, said=())),
    row("grace.model_failed", known(spent=SPENT_ROUNDS, pieces=("So ",)), failed(FaultKind.OVERLOADED), DONE, Finish("exhausted"), then=over("exhausted", "So ", SPENT_ROUNDS, DOWN, pieces=())),

    # Words of the user and of the host.
    row("alive.interrupt_asked", known(lead="So: ", pieces=("It ",), nudge=GO_ON, steers=("In French.",)), interrupt(Reply("is", (CUT,))), DONE, Abandon(7), Finish("interrupted"),
        then={**ENDED, "end": End("interrupted", "So: It is", issuer="supervisor", reason="enough"), "lead": "", "pieces": (), "nudge": "", "said": (AssistantMessage("It is"),)}),
    row("truncated.interrupt_asked", known(cut=CUT_CALL), interrupt(), DONE, Abandon(7), Finish("interrupted"), then={**ENDED, "end": End("interrupted", "It is", issuer="supervisor", reason="enough"), "cut": None, "said": (AssistantMessage("It is"),)}),
    row("tool_exec.interrupt_asked", in_a_round(None, None, BOTH[1], calls=(ADD, BAD, SUB)), interrupt(unstoppable=["c1"]), DONE, Abandon(7), Finish("interrupted"),
        then={**ENDED, "end": End("interrupted", "I count.", issuer="supervisor", reason="enough"), "asked": None, "calls": (), "results": (),
              "said": (AssistantMessage("I count.", (ADD, BAD, SUB)), result(ADD, UNKNOWN, ToolStatus.UNKNOWN), result(BAD, STOPPED, ToolStatus.INTERRUPTED), BOTH[1], NO_ANSWER)}),
    row("asking.steer_given.is_now", known(counts={"rebuilds": 1}, lead="So: ", pieces=("It ",), nudge=GO_ON), steer(now=True, partial=Reply("is", (CUT,))), CALLING, Abandon(7), slot(),
        then={"attempt": 8, "lead": "", "pieces": (), "nudge": "", "said": (AssistantMessage("It is"),)}),
    row("asking.steer_given.is_now", known(nudge=SPEAK), steer(now=True), CALLING, Abandon(7), slot(), then={"attempt": 8, "nudge": ""}),
    row("asking.steer_given", known(), steer(), STAYS),
    row("repairing.steer_given", known(), steer(now=True), STAYS),
    row("waiting.steer_given", known(), steer(now=True), STAYS),
    row("asking.rebuild_asked.rebuilds_left", known(pieces=("Well, ",), nudge=GO_ON), rebuild(HALF), CALLING, Abandon(7), withdrawn(), slot(), then={"attempt": 8, "prompt": (NOW,)}, moved={"rebuilds": (0, 1)}),
    row("asking.rebuild_asked", known(counts=spent("rebuilds")), rebuild(HALF), STAYS, then={"prompt": (NOW,)}),
    row("repairing.rebuild_asked.rebuilds_left", known(), rebuild(), CALLING, Abandon(7), slot(), then={"attempt": 8, "prompt": (NOW,)}, moved={"rebuilds": (0, 1)}),
    row("repairing.rebuild_asked", known(counts=spent("rebuilds")), rebuild(), STAYS, then={"prompt": (NOW,)}),
    row("waiting.rebuild_asked", known(counts=spent("rebuilds")), rebuild(), STAYS, then={"prompt": (NOW,)}),

    # It is over.
    row("done.interrupt_asked", known(end=End("completed")), interrupt(), STAYS),
    row("done.steer_given", known(end=End("completed")), steer(now=True), STAYS),
    row("done.rebuild_asked", known(end=End("completed")), rebuild(), STAYS),
]
# fmt: on

CASES = [(state, name, example) for example in EXAMPLES for state, name in example.cases()]
IN_THEIR_OWN_WAY = {"counts", "missed"}  # told by what moved, and by the end


def cases():
    """Every example in every state that its line begins in."""
    return [
        pytest.param(state, name, example, id=f"{number}-{name}") for number, (state, name, example) in enumerate(CASES)
    ]


def differences(before: Record, after: Record) -> dict[str, Any]:
    """The fields that changed, with what they hold now."""
    names = [each.name for each in attrs.fields(Record) if each.name not in IN_THEIR_OWN_WAY]
    return {name: getattr(after, name) for name in names if getattr(before, name) != getattr(after, name)}


@pytest.mark.parametrize(("state", "name", "example"), cases())
def test_a_row_does_what_its_line_says(state, name, example):
    """In this state, on this event, with this record, the row named fires: it goes there, asks for that, and counts."""
    decision = step(Turn(state, example.record), example.event)

    assert name == decision.name
    assert (example.to or state) is decision.turn.state
    assert example.effects == decision.effects
    assert example.moved == {each.counter: (each.before, each.after) for each in decision.moved}
    assert example.then == differences(example.record.after(example.event), decision.turn.record)


def test_every_row_has_an_example():
    """No row of the page is without an example, and no example speaks of a row that the page does not have."""
    assert {each.name for each in PAGE.rows} == {name for _, name, _ in CASES}


def test_a_turn_begins_with_nothing():
    """A turn that has not begun is in the page's first state, and has counted nothing."""
    assert Turn(READY, started_turn()) == begin_turn(CONFIG, PROVIDERS)


@pytest.mark.parametrize("outcome", ["completed", "partial", "refused", "exhausted", "interrupted", "failed"])
def test_every_outcome_has_an_example(outcome):
    """Each of the six ways to end is shown above."""
    assert outcome in {each.then["end"].outcome for each in EXAMPLES if "end" in each.then}


def test_a_second_result_of_a_call_is_the_first():
    """A tool that returns twice has the result that it returned first."""
    turn = Turn(TOOL_EXEC, in_a_round(result(ADD, "3"), None))

    decision = step(turn, returned(ADD, "4"))

    assert (ToolMessage("c1", "3"), None) == decision.turn.record.results
    assert TOOL_EXEC is decision.turn.state
