"""When a row may fire. The name of a guard reads well after "when"; its docstring finishes "holds when ...".

A guard asks one question of the record and the event. "And" is the list in the row, "not" the order of the rows.
The record already holds the event's facts.
"""

from __future__ import annotations

from fsm_loop.core.counters import Counter
from fsm_loop.core.events import (
    CallFailed,
    CutJudged,
    Event,
    ModelReplied,
    RequestRepaired,
    SteerGiven,
    ToolReturned,
)
from fsm_loop.core.faults import FaultKind, RepairKind
from fsm_loop.core.messages import Finish, Reply, is_cut, repeats
from fsm_loop.core.record import Record

BASE_OUTPUT_TOKENS = 4096  # what a request is taken to be limited to where nobody said


class Left:
    """One more is allowed of each of these counters. The first that has none left is the one to name."""

    def __init__(self, name: str, counters: tuple[Counter, ...]) -> None:
        self.counters = counters
        self.__name__ = name
        self.__doc__ = f"{_listed(counters)} under {'its cap' if len(counters) == 1 else 'their caps'}"

    def __call__(self, record: Record, event: Event) -> bool:
        """Answer for this record."""
        return all(map(record.has_left, self.counters))

    def missed(self, record: Record) -> Counter:
        """The counter that said no."""
        return next(counter for counter in self.counters if not record.has_left(counter))

    def __repr__(self) -> str:
        """Read as it stands in the page."""
        return f"left({', '.join(counter.name for counter in self.counters)})"


class Needs:
    """The fault can be repaired in this way."""

    def __init__(self, kind: RepairKind) -> None:
        self.kind = kind
        self.__name__ = f"needs_{kind.name.lower()}"
        self.__doc__ = f"the request can be repaired: {kind.value}"

    def __call__(self, record: Record, event: CallFailed) -> bool:
        """Answer for this fault."""
        return event.fault.repair is self.kind


def left(counter: Counter) -> Left:
    """One more of this counter is allowed."""
    return Left(f"{counter.name}_left", (counter,))


def budget(*counters: Counter) -> Left:
    """One more of each of these counters is allowed: together they are what a turn may spend."""
    return Left("budget_left", counters)


def _listed(counters: tuple[Counter, ...]) -> str:
    names = [counter.name for counter in counters]
    return f"{names[0]} is" if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]} are"


def needs(kind: RepairKind) -> Needs:
    """The fault asks for this kind of repair."""
    return Needs(kind)


# ---------------------------------------------------------------- of a reply


def was_cut(record: Record, event: ModelReplied) -> bool:
    """the reply stops at a limit of its length, or without terminal evidence, or in the middle of a tool call"""
    reply = event.reply
    return (
        reply.finish is None
        or reply.finish in (Finish.LENGTH, Finish.WINDOW_FULL)
        or any(is_cut(call.arguments) for call in reply.tool_calls)
    )


def was_refused(record: Record, event: ModelReplied) -> bool:
    """the provider refuses the content"""
    return event.reply.finish is Finish.REFUSED


def is_paused(record: Record, event: ModelReplied) -> bool:
    """the provider pauses the reply, to be asked on"""
    return event.reply.finish is Finish.PAUSED


def has_valid_call(record: Record, event: ModelReplied) -> bool:
    """at least one tool call of the reply can be run"""
    return any(not call.problem for call in event.reply.tool_calls)


def wants_tools(record: Record, event: ModelReplied) -> bool:
    """the reply asks for tools"""
    return bool(event.reply.tool_calls)


def is_empty(record: Record, event: ModelReplied) -> bool:
    """the reply says nothing that can be shown"""
    return not event.reply.text.strip() and not event.reply.tool_calls


def has_text(record: Record, event: ModelReplied) -> bool:
    """the reply holds text, and was neither refused nor paused"""
    ended_well = event.reply.finish not in (Finish.REFUSED, Finish.PAUSED)
    return ended_well and bool(event.reply.text.strip())


def steer_waiting(record: Record, event: Event) -> bool:
    """the user has said something that no request holds yet"""
    return bool(record.steers)


# ---------------------------------------------------------------- of a call that failed


def nothing_shown(record: Record, event: CallFailed) -> bool:
    """no text of this call was shown"""
    return not event.partial.text.strip()


def text_shown(record: Record, event: CallFailed) -> bool:
    """text of this call was shown"""
    return bool(event.partial.text.strip())


def tool_in_flight(record: Record, event: CallFailed) -> bool:
    """a tool call had begun to arrive"""
    return bool(event.partial.tool_calls)


def may_retry(record: Record, event: CallFailed) -> bool:
    """the same request may succeed later, and soon enough"""
    return event.fault.retryable and waits_soon(record, event)


def waits_soon(record: Record, event: CallFailed) -> bool:
    """the provider asks for no wait that is longer than max_wait_s"""
    asked = event.fault.retry_after_s
    return asked is None or asked <= record.config.max_wait_s


def falls_back(record: Record, event: CallFailed) -> bool:
    """another provider may do better"""
    return event.fault.falls_back


def is_outage(record: Record, event: CallFailed) -> bool:
    """the fault is one that passes by itself"""
    return event.fault.outage and event.fault.should_retry is not False


def is_malformed(record: Record, event: CallFailed) -> bool:
    """the reply has no shape that can be read"""
    return event.fault.kind is FaultKind.MALFORMED


def misspoke(record: Record, event: CallFailed) -> bool:
    """the model wrote a tool call that cannot be read"""
    return event.fault.kind is FaultKind.MISSPOKE


def is_refusal(record: Record, event: CallFailed) -> bool:
    """the provider refuses the content"""
    return event.fault.kind is FaultKind.REFUSED


def has_changed(record: Record, event: RequestRepaired) -> bool:
    """the repair changed the request"""
    return event.changed


def fault_falls_back(record: Record, event: Event) -> bool:
    """another provider may do better than the one that failed last"""
    return record.fault is not None and record.fault.falls_back


# ---------------------------------------------------------------- of a reply that was cut


def _cut(record: Record) -> Reply:
    return record.cut or Reply()


def _has_room(record: Record) -> bool:
    """Whether the model's window has room: where it has none, no limit and no word gives the reply any."""
    return _cut(record).finish is not Finish.WINDOW_FULL


def call_was_cut(record: Record, event: CutJudged) -> bool:
    """a tool call is in the cut reply"""
    return bool(_cut(record).tool_calls)


def room_to_grow(record: Record, event: CutJudged) -> bool:
    """the output limit can still be raised, and it is what the reply ran into"""
    return _has_room(record) and next_limit(record) > current_limit(record)


def text_was_cut(record: Record, event: CutJudged) -> bool:
    """there is text to go on from"""
    return bool(_cut(record).text.strip())


def makes_progress(record: Record, event: CutJudged) -> bool:
    """the text says something new, no repetition of itself or of a piece before it, and there is room for more"""
    return _has_room(record) and not says_again(record) and not repeats(_cut(record).text)


def only_reasoned(record: Record, event: CutJudged) -> bool:
    """nothing but reasoning came, and less of it has not been asked for yet"""
    cut = _cut(record)
    return not cut.text.strip() and not cut.tool_calls and not record.shape.less_reasoning


def says_again(record: Record) -> bool:
    """Whether the cut reply says what a piece of the answer has said already."""
    text = _cut(record).text.strip()
    return bool(text) and text in {piece.strip() for piece in record.pieces}


def current_limit(record: Record) -> int:
    """The output limit that the cut reply ran into, in tokens, as far as it is known."""
    asked = record.shape.limit_for(record.provider, record.config)
    if asked is not None:
        return asked
    return max(BASE_OUTPUT_TOKENS, _cut(record).usage.output_tokens)


def next_limit(record: Record) -> int:
    """The output limit to try next, in tokens: twice the last, up to the ceiling and to what the provider takes."""
    wished = min(2 * current_limit(record), record.config.output_ceiling_tokens)
    lowered = dict(record.shape.limits).get(record.provider)
    return wished if lowered is None else min(wished, lowered)


# ---------------------------------------------------------------- of tools and words


def all_back(record: Record, event: ToolReturned) -> bool:
    """every tool call of the round has its result"""
    return None not in record.results


def must_stop(record: Record, event: ToolReturned) -> bool:
    """the guard against tool loops says stop"""
    return bool(event.stop)


def is_now(record: Record, event: SteerGiven) -> bool:
    """the message is not to wait for the call in flight"""
    return event.now
