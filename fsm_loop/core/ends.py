"""How a turn ends: each end names its outcome, and the counter or the fault that brought it.

Whatever was shown stands in the conversation, and every call in it has its one result.
"""

from __future__ import annotations

from fsm_loop.core import counters
from fsm_loop.core.conversation import NOT_RUN, closed, last_text, said
from fsm_loop.core.counters import Counter
from fsm_loop.core.effects import Abandon, Effect, Finish, Say, Withdrawn
from fsm_loop.core.events import (
    CallFailed,
    CutJudged,
    Event,
    InterruptAsked,
    ModelReplied,
    PortEvent,
    RequestRepaired,
    ToolReturned,
)
from fsm_loop.core.faults import Fault, FaultKind
from fsm_loop.core.guards import says_again
from fsm_loop.core.messages import NO_REPLY, AssistantMessage, Reply, ToolMessage
from fsm_loop.core.record import End, Record, Spent

Did = tuple[Record, tuple[Effect, ...]]


def completed(record: Record, event: ModelReplied) -> Did:
    """The answer is whole."""
    return _end(record, "completed", event.reply)


def refused(record: Record, event: ModelReplied | CallFailed) -> Did:
    """The content is refused, and no other provider is left."""
    if isinstance(event, CallFailed):
        return _end(record, "refused", event.partial, fault=event.fault, spent=_last_missed(record))
    fault = Fault(FaultKind.REFUSED, "the reply ended as refused")
    return _end(record, "refused", Reply(text=event.reply.text), fault=fault, spent=_last_missed(record))


def cut(record: Record, event: CutJudged) -> Did:
    """The answer is left as far as it came; a piece that only says another again is withdrawn.

    Where nothing of it came, the turn has failed.
    """
    again = record.cut.text if record.cut and says_again(record) else ""
    kept = record.but(cut=None) if again else record
    outcome = "partial" if kept.answer.strip() else "failed"
    fault = record.fault or Fault(FaultKind.CUT)
    fresh, finish = _end(kept, outcome, NO_REPLY, fault=fault, spent=_last_missed(record))
    return fresh, (Say(Withdrawn(again)), *finish) if again else finish


def empty(record: Record, event: ModelReplied) -> Did:
    """The model says nothing; what it said before is left as a part."""
    fault = Fault(FaultKind.EMPTY, "every reply was empty")
    outcome = "partial" if record.answer.strip() else "failed"
    return _end(record, outcome, NO_REPLY, fault=fault, spent=_last_missed(record))


def bad_calls(record: Record, event: ModelReplied) -> Did:
    """The model asks only for what cannot be run."""
    problems = "; ".join(call.problem for call in event.reply.tool_calls)
    told, text = said(record, event.reply, "could not be run"), record.answer + event.reply.text
    fault = Fault(FaultKind.BAD_TOOL_CALLS, problems)
    return _end(told, "failed", NO_REPLY, fault=fault, spent=_last_missed(record), text=text)


def failed(record: Record, event: CallFailed) -> Did:
    """Nothing is left to try."""
    return _end(record, "failed", event.partial, fault=event.fault, spent=_last_missed(record))


def unrepaired(record: Record, event: RequestRepaired) -> Did:
    """The request could not be changed, and no other provider is left."""
    return _end(record, "failed", NO_REPLY, fault=record.fault, spent=_last_missed(record))


def tool_loop(record: Record, event: ToolReturned) -> Did:
    """The tools go round and round."""
    fault = Fault(FaultKind.TOOL_LOOP, event.stop)
    stopped = closed(record, event.unstoppable)
    fresh, finish = _end(stopped, "failed", NO_REPLY, fault=fault, text=last_text(stopped))
    return fresh, (Abandon(record.attempt), *finish)


def exhausted(record: Record, event: Event) -> Did:
    """The budget is spent, and the last word is switched off or had."""
    text = record.answer
    if isinstance(event, ModelReplied):
        text += event.reply.text
        record = said(record, event.reply, NOT_RUN)
    settled = closed(record)
    text = text if text.strip() else last_text(settled)
    return _end(settled, "exhausted", NO_REPLY, spent=first_missed(record), text=text)


def grace_text(record: Record, event: ModelReplied) -> Did:
    """The last word is the answer; a tool call in it is discarded."""
    return _end(record, "exhausted", Reply(text=event.reply.text), spent=record.spent)


def grace(record: Record, event: PortEvent) -> Did:
    """No last word came, or half of one: the last valid partial is the answer."""
    partial = event.partial if isinstance(event, CallFailed) else NO_REPLY
    fault = event.fault if isinstance(event, CallFailed) else None
    spoken = said(record, NO_REPLY) if record.pieces else record
    text = partial.text or last_text(spoken)
    fresh, finish = _end(spoken, "exhausted", Reply(text=partial.text), fault=fault, spent=record.spent, text=text)
    discarded = event.reply.text if isinstance(event, ModelReplied) else ""
    return fresh, (Say(Withdrawn(discarded)), *finish) if discarded else finish


def stopped(record: Record, event: InterruptAsked) -> Did:
    """Everything in flight is let go; what was said and done is kept."""
    settled = closed(record, event.unstoppable)
    partial = Reply(text=event.partial.text)
    text = settled.answer + partial.text or last_text(settled)
    settled = settled.but(usage=record.usage + event.partial.usage)
    outcome = "failed" if event.fault else "interrupted"
    who, why = event.issuer, event.reason
    fresh, finish = _end(settled, outcome, partial, text=text, fault=event.fault, issuer=who, reason=why)
    return fresh, (Abandon(record.attempt), *finish)


# ---------------------------------------------------------------- helpers


def first_missed(record: Record) -> Spent | None:
    """The counter that closed the way on: the first that kept a row from firing."""
    missed = [each for each in record.missed if each is not counters.grace_calls]
    return _spent(record, missed[0]) if missed else record.spent


def _last_missed(record: Record) -> Spent | None:
    """The last resort that was spent; one that is switched off counts only where nothing else was.

    A chain that was never there is no counter that was spent.
    """
    missed = [each for each in record.missed if each is not counters.fallbacks or record.chain]
    chosen = [each for each in missed if record.cap(each)][-1:] or missed[:1]
    return _spent(record, chosen[0]) if chosen else None


def _spent(record: Record, counter: Counter) -> Spent:
    return Spent(counter.name, record.count(counter), record.cap(counter) or 0)


def _end(  # noqa: PLR0913  # an end has these parts
    record: Record,
    outcome: str,
    last: Reply,
    *,
    text: str | None = None,
    fault: Fault | None = None,
    spent: Spent | None = None,
    issuer: str = "",
    reason: str = "",
) -> Did:
    """The turn is over; what was shown stands in the conversation, and every call in it has its result."""
    answer = record.answer + last.text if text is None else text
    words = "".join(record.pieces) + (record.cut.text if record.cut else "") + last.text
    said = record.said
    if words.strip() or last.replay:
        said = (*said, AssistantMessage(words, (), last.reasoning, last.replay))
    elif said and isinstance(said[-1], ToolMessage):
        said = (*said, AssistantMessage(f"[No answer: the turn ended here as {outcome}.]"))
    end = End(outcome, answer, spent, fault, issuer, reason)
    fresh = record.but(said=said, lead="", pieces=(), nudge="", cut=None, attempt=record.attempt + 1, end=end)
    return fresh, (Finish(outcome),)
