"""What a row does: from the record and the event to the record that follows and the effects to carry out.

Spends and refills have been made before an action runs. A new try takes the next attempt id, so whatever the try
before it still sends is late.
"""

from __future__ import annotations

from typing import Any

from attrs import evolve

from fsm_loop.core import counters
from fsm_loop.core.conversation import (
    CALL_AGAIN,
    GO_ON,
    GO_ON_AFTER_DROP,
    GO_ON_AFTER_LOST_CALL,
    GO_ON_SMALLER,
    LAST_WORD,
    NOT_RUN,
    SPEAK,
    closed,
    error_of,
    request_of,
    said,
    with_steers,
)
from fsm_loop.core.effects import (
    Abandon,
    CallModel,
    Effect,
    JudgeCut,
    Reconnecting,
    Repair,
    ReserveSlot,
    RunTool,
    Say,
    SetTimer,
    SwitchProvider,
    Withdrawn,
)
from fsm_loop.core.ends import Did, first_missed
from fsm_loop.core.events import (
    CallFailed,
    CutJudged,
    Event,
    ModelReplied,
    RebuildAsked,
    RequestRepaired,
    SlotGranted,
    SlotRefused,
    SteerGiven,
    ToolReturned,
)
from fsm_loop.core.faults import RepairKind
from fsm_loop.core.guards import next_limit, room_to_grow
from fsm_loop.core.messages import (
    NO_REPLY,
    Reply,
    clean,
)
from fsm_loop.core.record import Record, Shape

# ---------------------------------------------------------------- asking


def begin_turn(record: Record, event: Event) -> Did:
    """The model is asked for the first time."""
    return _ask(record)


def ask(record: Record, event: Event) -> Did:
    """The try that was being prepared goes on to the model."""
    return record, (ReserveSlot(record.attempt, record.provider),)


def send(record: Record, event: SlotGranted) -> Did:
    """The request goes out, with every steer that waits."""
    fresh = with_steers(record).but(sent=record.sent + 1)
    return fresh, (CallModel(fresh.attempt, request_of(fresh)),)


def reconnect(record: Record, event: CallFailed) -> Did:
    """The same request is sent again at once, on a fresh connection."""
    marker = (Say(Reconnecting(event.fault.sentence)),) if event.partial.text else ()
    return _ask(record, *_withdrawal(event.partial), *marker)


def ask_for_call(record: Record, event: CallFailed) -> Did:
    """The model is asked to call its tool again: the call that it wrote could not be read."""
    return _ask(record.but(nudge=CALL_AGAIN), *_withdrawal(event.partial))


def back_off(record: Record, event: CallFailed) -> Did:
    """The time to try again is set: what the provider asked for, else the jittered delay."""
    retries = int(record.count(counters.api_retries))
    delay_s = event.fault.retry_after_s or record.config.delay_s(max(0, retries - 1), event.chance)
    return _wait(record, delay_s, "backoff", *_withdrawal(event.partial))


def wait_for_slot(record: Record, event: SlotRefused) -> Did:
    """The limiter's time is waited for; the attempt stays the same, for it was not sent."""
    delay_s = _within_turn(record, event.fault.retry_after_s or 0.0)
    return record, (SetTimer(record.attempt, delay_s, "slot"),)


def recover(record: Record, event: CallFailed) -> Did:
    """The outage is waited for; then the primary is asked first again."""
    cycle = int(record.count(counters.recoveries)) - 1
    planned = record.config.recovery_s(max(0, cycle), event.chance)
    delay_s = max(planned, event.fault.retry_after_s or 0.0)
    return _wait(record.but(provider=0), delay_s, "recovery", *_withdrawal(event.partial))


def switch(record: Record, event: CallFailed | ModelReplied) -> Did:
    """The next provider of the chain is made ready; what the last one showed of this reply is withdrawn."""
    shown = event.partial if isinstance(event, CallFailed) else event.reply
    return _switch(record, *_withdrawal(shown))


def switch_unrepaired(record: Record, event: RequestRepaired) -> Did:
    """The next provider is made ready, since the request could not be changed for this one."""
    return _switch(record)


def repair(record: Record, event: CallFailed) -> Did:
    """The request is to be changed as the fault asks."""
    fresh = record.but(attempt=record.attempt + 1)
    kind = event.fault.repair or RepairKind.SANITIZE
    wish = Repair(fresh.attempt, kind, event.fault, request_of(fresh), fresh.prompt, fresh.said)
    return fresh, (*_withdrawal(event.partial), wish)


def apply_repair(record: Record, event: RequestRepaired) -> Did:
    """The repaired request is asked."""
    changes: dict[str, Any] = {"shape": _reshaped(record, event)}
    if event.prompt is not None:
        changes["prompt"] = event.prompt
    if event.said is not None:
        changes["said"] = event.said
    if record.fault is not None and record.fault.repair is RepairKind.SANITIZE:
        changes |= {
            "lead": clean(record.lead),
            "pieces": tuple(map(clean, record.pieces)),
            "nudge": clean(record.nudge),
            "steers": tuple(map(clean, record.steers)),
        }
    return ask(record.but(**changes), event)


# ---------------------------------------------------------------- a reply


def keep_cut(record: Record, event: ModelReplied) -> Did:
    """The cut reply is kept, and is to be decided on."""
    return record.but(cut=event.reply, nudge=""), (JudgeCut(record.attempt),)


def keep_partial(record: Record, event: CallFailed) -> Did:
    """The text that was shown is kept; a tool call that was in flight is lost, and the model will be told."""
    lost = ", ".join(call.name or "a tool" for call in event.partial.tool_calls)
    nudge = GO_ON_AFTER_LOST_CALL.format(names=lost) if lost else GO_ON_AFTER_DROP
    cut = Reply(text=event.partial.text, reasoning=event.partial.reasoning, usage=event.partial.usage)
    return record.but(cut=cut, nudge=nudge), (JudgeCut(record.attempt),)


def boost(record: Record, event: CutJudged) -> Did:
    """The same request is asked again with more room; what was shown of the cut reply is withdrawn."""
    shape = evolve(record.shape, output_limit=next_limit(record))
    return _retold(record, shape)


def go_on(record: Record, event: CutJudged) -> Did:
    """The partial is kept as the model's words, and the model is asked to go on from there."""
    cut = record.cut or NO_REPLY
    nudge = record.nudge or (GO_ON_SMALLER if cut.tool_calls else GO_ON)
    return _ask(record.but(pieces=(*record.pieces, cut.text), cut=None, nudge=nudge))


def think_less(record: Record, event: CutJudged) -> Did:
    """The same request is asked with less reasoning, and with more room where there is some."""
    limit = next_limit(record) if room_to_grow(record, event) else record.shape.output_limit
    return _retold(record, evolve(record.shape, less_reasoning=True, output_limit=limit))


def resume_paused(record: Record, event: ModelReplied) -> Did:
    """The paused words go back unchanged, and the model goes on."""
    lead = record.answer + event.reply.text
    return _ask(said(record, event.reply, "not run: the reply was paused").but(lead=lead, nudge=""))


def run_tools(record: Record, event: ModelReplied) -> Did:
    """The valid calls are run; the others have their error results at once. The episode of the reply has ended."""
    asked = event.reply.message("".join(record.pieces))
    fresh = record.but(
        asked=asked,
        calls=asked.tool_calls,
        results=tuple(error_of(call) for call in asked.tool_calls),
        lead="",
        pieces=(),
        nudge="",
        shape=record.shape.after_episode(),
    )
    return fresh, tuple(RunTool(fresh.attempt, call) for call in fresh.calls if not call.problem)


def answer_tools(record: Record, event: ToolReturned) -> Did:
    """The results go to the model."""
    return _ask(closed(record))


def tell_bad_calls(record: Record, event: ModelReplied) -> Did:
    """The error results go to the model: none of its calls could be run."""
    return _ask(said(record, event.reply, "could not be run").but(lead="", nudge=""))


def nudge(record: Record, event: ModelReplied) -> Did:
    """The model is asked to speak."""
    return _ask(record.but(nudge=SPEAK), *_withdrawal(event.reply))


def answer_steer(record: Record, event: ModelReplied) -> Did:
    """The answer stands, and the model is asked again with what the user has said since."""
    return _ask(said(record, event.reply).but(lead="", nudge=""))


# ---------------------------------------------------------------- words of the user and the host


def keep(record: Record, event: Event) -> Did:
    """What the event brought is kept; nothing else changes."""
    return record, ()


def ask_now(record: Record, event: SteerGiven) -> Did:
    """The call in flight is abandoned, its words are kept as far as they came, and the model is asked anew."""
    words = Reply(text=event.partial.text)
    fresh = said(record, words) if record.pieces or words.text else record
    return _ask(fresh.but(lead="", nudge="", usage=record.usage + event.partial.usage), Abandon(record.attempt))


def rebuild(record: Record, event: RebuildAsked) -> Did:
    """What is in flight is abandoned and asked again, with the new messages before this turn's own."""
    fresh = record.but(prompt=event.messages, usage=record.usage + event.partial.usage)
    return _ask(fresh, Abandon(record.attempt), *_withdrawal(event.partial))


def take_prompt(record: Record, event: RebuildAsked) -> Did:
    """The new messages stand before this turn's own from the next request on."""
    return record.but(prompt=event.messages), ()


# ---------------------------------------------------------------- grace


def grace_after_tools(record: Record, event: ToolReturned) -> Did:
    """The budget is spent: the model is asked for its last word."""
    return _ask(closed(_into_grace(record)))


def grace_after_reply(record: Record, event: ModelReplied) -> Did:
    """The budget is spent: the reply's calls are answered as not run, and the model is asked for its last word."""
    return _ask(said(_into_grace(record), event.reply, NOT_RUN))


def grace_at_once(record: Record, event: SlotGranted) -> Did:
    """The budget is spent: the slot that was granted carries the last request."""
    return send_grace(_into_grace(record), event)


def send_grace(record: Record, event: SlotGranted) -> Did:
    """The last request goes out, with tools off."""
    spoken = said(record, NO_REPLY) if record.pieces else record
    fresh = with_steers(spoken).but(sent=record.sent + 1, nudge=LAST_WORD)
    return fresh, (CallModel(fresh.attempt, request_of(fresh, tools=False)),)


# ---------------------------------------------------------------- helpers


def _ask(record: Record, *before: Effect) -> Did:
    attempt = record.attempt + 1
    return record.but(attempt=attempt), (*before, ReserveSlot(attempt, record.provider))


def _wait(record: Record, delay_s: float, reason: str, *before: Effect) -> Did:
    attempt = record.attempt + 1
    return record.but(attempt=attempt), (*before, SetTimer(attempt, _within_turn(record, delay_s), reason))


def _within_turn(record: Record, delay_s: float) -> float:
    """No wait is longer than what is left of the turn."""
    left_s = record.seconds_left
    return delay_s if left_s is None else min(delay_s, left_s)


def _switch(record: Record, *before: Effect) -> Did:
    provider = int(record.count(counters.fallbacks))
    fresh = record.but(provider=provider, attempt=record.attempt + 1)
    return fresh, (*before, SwitchProvider(fresh.attempt, provider))


def _withdrawal(shown: Reply) -> tuple[Effect, ...]:
    return (Say(Withdrawn(shown.text)),) if shown.text else ()


def _retold(record: Record, shape: Shape) -> Did:
    """The cut reply is asked for again, in another shape; an answer that was being continued still is."""
    nudge = GO_ON if record.pieces else ""
    return _ask(record.but(shape=shape, cut=None, nudge=nudge), *_withdrawal(record.cut or NO_REPLY))


def _reshaped(record: Record, event: RequestRepaired) -> Any:
    shape, here = record.shape, record.provider
    if event.limit is not None:
        limits = {**dict(shape.limits), here: event.limit}
        shape = evolve(shape, limits=tuple(sorted(limits.items())))
    if event.parameter:
        shape = evolve(shape, without=shape.without | {(here, event.parameter)})
    if record.fault is not None and record.fault.repair is RepairKind.STREAM_OFF:
        shape = evolve(shape, unstreamed=shape.unstreamed | {here})
    return shape


def _into_grace(record: Record) -> Record:
    return record.but(spent=first_missed(record), lead="", nudge="")
