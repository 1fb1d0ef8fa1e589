"""What must hold, asked of one decision: of the turn before it, of what it says, and of the turn after it.

Each check is given a turn of which all of it held before, so what holds of each decision holds of every turn. A check
answers with a sentence, which is empty where it holds. `CHECKED` says where each invariant is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from attrs import define

from fsm_loop.core import counters as c
from fsm_loop.core.counters import COUNTERS
from fsm_loop.core.effects import Abandon, CallModel, Finish, RunTool, Say, Withdrawn
from fsm_loop.core.events import (
    CallFailed,
    Event,
    InterruptAsked,
    ModelReplied,
    PortEvent,
    RebuildAsked,
    RequestRepaired,
    SteerGiven,
)
from fsm_loop.core.machine import ASKING, PAGE, State
from fsm_loop.core.messages import AssistantMessage, Message, Reply, ToolMessage, UserMessage, is_cut
from fsm_loop.core.messages import Finish as Stop
from fsm_loop.core.record import Record
from fsm_loop.core.rows import Page
from fsm_loop.core.step import Decision
from fsm_loop.prove.canon import REQUESTS, Node
from fsm_loop.prove.conform import illegal

OUTCOMES = ("completed", "partial", "refused", "exhausted", "interrupted", "failed")
SPENT = frozenset(each.name for each in COUNTERS if not each.measured)
# Where each of the fourteen is checked; the last is none of them, but what a trail's verifier asks of each decision.
CHECKED: Mapping[str, str] = {
    "terminates": "each request is counted, and a turn that is not over waits for something that its state awaits; "
    "in a small config no way round is left; for every config by `certificate`",
    "one_grace": "on each decision",
    "bounded": "on each decision, for each counter at its cap",
    "interrupt_wins": "on each decision",
    "tools_whole": "on each decision",
    "paired": "on each decision",
    "shown_once": "on each decision: what was kept and is shown, less what is withdrawn, is what is kept",
    "one_writer": "on each decision, and each kind of late answer in each class of turns",
    "steer_kept": "on each decision, with the request that it asks for",
    "own_counters": "on each decision",
    "named_end": "on each decision that ends the turn",
    "replay": "not here: the journal is folded again in tests/core/test_walks.py",
    "retry_changes": "on each request: since the last one, something was counted or said",
    "honest": "on each decision that ends the turn",
    "legal": "on each decision, as the verifier of a trail asks it (conform)",
}


@define
class Edge:
    """One decision, with the turn before it and the turn after it."""

    before: Node
    decision: Decision
    after: Node
    page: Page = PAGE

    @property
    def event(self) -> Event:
        """What came."""
        return self.decision.event

    @property
    def old(self) -> Record:
        """What was known before."""
        return self.before.record

    @property
    def new(self) -> Record:
        """What is known now."""
        return self.after.record

    @property
    def over(self) -> bool:
        """Whether this decision ended the turn."""
        return self.old.end is None and self.new.end is not None

    @property
    def sent(self) -> tuple[CallModel, ...]:
        """The requests that go out."""
        return tuple(each for each in self.decision.effects if isinstance(each, CallModel))

    @property
    def up(self) -> set[str]:
        """The counters that rows count and that went up."""
        return {each.counter for each in self.decision.moved if each.after > each.before and each.counter in SPENT}


def broken(edge: Edge) -> dict[str, str]:
    """The invariants that do not hold here, by name, with a sentence each."""
    if edge.decision.late:
        return _late(edge)
    found = {name: check(edge) for name, check in CHECKS.items()}
    return {name: said for name, said in found.items() if said}


def _late(edge: Edge) -> dict[str, str]:
    decision = edge.decision
    if decision.turn is edge.before.turn and not (decision.effects or decision.answers or decision.moved):
        return {}
    return {"one_writer": "an answer to an attempt that is over changed something"}


# ---------------------------------------------------------------- the checks


def terminates(edge: Edge) -> str:
    """Each request is counted, and a turn that is not over waits for something."""
    sent, new = len(edge.sent), edge.new
    if new.sent - edge.old.sent != sent or sent > 1:
        return f"{sent} requests went out, and the record counts {new.sent - edge.old.sent}"
    if sent and edge.after.state is not State.GRACE and c.requests.name not in edge.up:
        return "a request went out that no counter holds back"
    if (edge.after.state is State.DONE) != (new.end is not None):
        return "the turn has its end and is not over, or is over without one"
    if edge.after.state not in (State.DONE, State.READY) and not edge.after.waits:
        return "the turn is not over, and waits for nothing"
    return ""


def one_grace(edge: Edge) -> str:
    """Grace is entered once, for one request without tools, and only the end comes after."""
    before, here, there = edge.before.past, edge.before.state, edge.after.state
    if before.graced and here is not State.GRACE and there is State.GRACE:
        return "grace is entered a second time"
    if before.graced and there not in (State.GRACE, State.DONE):
        return f"after grace the turn goes on to {there.name.lower()}"
    for call in edge.sent:
        if call.request.tools == (there is State.GRACE):
            return "tools are off in grace, and there alone"
        if before.last_word:
            return "grace has a second request"
    if edge.over and edge.new.end and edge.new.end.outcome == "exhausted":
        allowed = bool(edge.new.cap(c.grace_calls))
        if edge.after.past.graced != allowed:
            return "the budget is spent, and the turn ends without the last word that it has left"
    return ""


def bounded(edge: Edge) -> str:
    """No counter is above its cap."""
    for each in edge.decision.moved:
        if each.counter in SPENT and each.cap is not None and each.after > max(0, each.cap, each.before - 1):
            return f"{each.counter} is {each.after:g}, above its cap of {each.cap:g}"
    return ""


def interrupt_wins(edge: Edge) -> str:
    """After an interrupt nothing begins; after the end neither."""
    effects = {type(effect) for effect in edge.decision.effects}
    if edge.before.state is State.DONE:
        return "something begins after the end" if effects or edge.after.state is not State.DONE else ""
    if not isinstance(edge.event, InterruptAsked):
        return ""
    ended = edge.new.end is not None and edge.new.end.outcome == "interrupted"
    return "" if ended and effects == {Abandon, Finish} else "an interrupt does not end the turn, or something begins"


def tools_whole(edge: Edge) -> str:
    """What runs is whole, valid, of a reply that said that it ended, and runs once."""
    run = [effect.call for effect in edge.decision.effects if isinstance(effect, RunTool)]
    if not run:
        return ""
    if not isinstance(edge.event, ModelReplied):
        return "a tool is run that no reply asks for now"
    reply = edge.event.reply
    if reply.finish not in (Stop.STOP, Stop.TOOL_CALLS) or any(is_cut(call.arguments) for call in reply.tool_calls):
        return "a tool is run of a reply that is not whole"
    valid = [call for call in reply.tool_calls if not call.problem]
    return "" if run == valid else "what is run is not each valid call of the reply, once"


def paired(edge: Edge) -> str:
    """In what is said and in what is sent, each tool call has its one result right behind it, in order."""
    if unpaired(edge.new.said):
        return "in what was said, a tool call and its result do not stand together"
    if any(unpaired(call.request.messages) for call in edge.sent):
        return "in the request, a tool call and its result do not stand together"
    if edge.after.state is State.DONE and (edge.new.asked or edge.new.calls):
        return "the turn ends with a round of tools open"
    return ""


def shown_once(edge: Edge) -> str:
    """What was kept and is shown, less what is withdrawn, is what is kept."""
    replaced = isinstance(edge.event, RequestRepaired) and edge.event.said is not None
    screen = squeezed(_kept(edge.old, but_said=replaced) + _shown(edge))
    for effect in edge.decision.effects:
        if isinstance(effect, Say) and isinstance(effect.note, Withdrawn):
            text = squeezed(effect.note.text)
            if not screen.endswith(text):
                return f"{text!r} is withdrawn, and is not what was shown last: {screen!r}"
            screen = screen.removesuffix(text)
    kept = squeezed(_kept(edge.new, but_said=replaced))
    return "" if kept == screen else f"shown is {screen!r}, and kept is {kept!r}"


def one_writer(edge: Edge) -> str:
    """Whoever is asked is asked for the current attempt, and no two requests have one."""
    for effect in edge.decision.effects:
        attempt = getattr(effect, "attempt", None)
        current = edge.old.attempt if isinstance(effect, Abandon) else edge.new.attempt
        if attempt is not None and attempt != current:
            return f"{type(effect).__name__} is for attempt {attempt}, and the current one is {current}"
    if edge.new.attempt < edge.old.attempt:
        return "an attempt has the number of one before it"
    if edge.sent and edge.before.past.used and edge.new.attempt == edge.old.attempt:
        return "two requests on the wire have one attempt"
    return ""


def steer_kept(edge: Edge) -> str:
    """A steer waits until it is in a request, once; and then it waits no more."""
    given = (edge.event.text,) if isinstance(edge.event, SteerGiven) else ()
    waiting = edge.old.steers + given
    if not edge.sent:
        return "" if edge.new.steers == waiting else "a steer is lost, or waits twice"
    if edge.new.steers:
        return "a request goes out, and a steer goes on waiting"
    heard = "".join(m.text for call in edge.sent for m in call.request.messages if isinstance(m, UserMessage))
    return "" if all(heard.count(text) == 1 for text in waiting) else "a steer is not in the request once"


def own_counters(edge: Edge) -> str:
    """A word of the user counts nothing; the way to another provider counts a hop and nothing else."""
    up = edge.up
    if isinstance(edge.event, SteerGiven | InterruptAsked) and up:
        return f"a word of the user counts {', '.join(sorted(up))}"
    if isinstance(edge.event, RebuildAsked) and up - {c.rebuilds.name}:
        return f"a rebuild counts {', '.join(sorted(up))}"
    if edge.after.state is State.FALLBACK and isinstance(edge.event, PortEvent) and up != {c.fallbacks.name}:
        return f"the way to another provider counts {', '.join(sorted(up)) or 'nothing'}"
    return ""


def named_end(edge: Edge) -> str:
    """An end has an outcome, and the counter or the fault that brought it."""
    end, new = edge.new.end, edge.new
    if not edge.over or end is None:
        return ""
    if end.outcome not in OUTCOMES or [type(each) for each in edge.decision.effects].count(Finish) != 1:
        return f"the end is called {end.outcome}, and is told {edge.decision.effects}"
    missed = {each.name for each in new.missed if each is not c.fallbacks or new.chain}
    if missed and end.outcome not in ("completed", "interrupted"):
        named = end.exhausted.counter if end.exhausted else ""
        if named not in missed | ({new.spent.counter} if new.spent else set()):
            return f"the end names {named or 'no counter'}, and what barred the way is {', '.join(sorted(missed))}"
    if end.outcome == "exhausted" and (end.exhausted is None or end.exhausted.value < end.exhausted.cap):
        return "the turn is exhausted, and no counter is at its cap"
    if end.outcome in ("failed", "refused") and end.fault is None:
        return f"the turn has {end.outcome}, and no fault is named"
    return "" if end.issuer or end.outcome != "interrupted" else "nobody is named who interrupted"


def retry_changes(edge: Edge) -> str:
    """A request goes out again only where something was counted or said."""
    if not edge.sent or edge.before.past.changed or len(edge.new.said) > len(edge.old.said) or edge.up - REQUESTS:
        return ""
    return "a request goes out again, and nothing was counted or said for it"


def honest(edge: Edge) -> str:
    """Completed is a whole answer and nothing else; what grace brings is exhausted; what is cut is partial."""
    end = edge.new.end
    return next(_dishonest(edge, end.outcome, end.text), "") if edge.over and end else ""


def _dishonest(edge: Edge, outcome: str, text: str) -> Iterator[str]:
    event, here = edge.event, edge.before.state
    interrupted = isinstance(event, InterruptAsked)
    reply = event.reply if isinstance(event, ModelReplied) and here in ASKING else None
    if outcome == "completed":
        if reply is None or reply.finish not in (Stop.STOP, Stop.TOOL_CALLS) or reply.tool_calls:
            yield "the turn is called completed, and no whole answer came"
        elif not reply.text.strip() or not text.endswith(reply.text) or edge.new.steers:
            yield "the turn is called completed, and its answer is not what was said, or a steer waits"
    if interrupted != (outcome == "interrupted"):
        yield f"the turn is called {outcome}, and it was {'' if interrupted else 'not '}interrupted"
    if outcome == "partial" and not text.strip():
        yield "the turn is called partial, and nothing is left of it"
    if here is State.GRACE and outcome not in ("exhausted", "interrupted"):
        yield f"what grace brings is called {outcome}"
    if here is State.TRUNCATED and outcome not in ("partial" if text.strip() else "failed", "interrupted"):
        yield f"what was cut is called {outcome}"
    if reply and reply.finish is Stop.REFUSED and outcome != "refused":
        yield f"a reply that was refused is called {outcome}"


def legal(edge: Edge) -> str:
    """The row may fire in this state on this event, its guards answer as is told, and the counters add up."""
    return "; ".join(illegal(edge.decision, edge.before.turn, edge.page))


CHECKS: Mapping[str, Callable[[Edge], str]] = {
    check.__name__: check
    for check in (
        *(terminates, one_grace, bounded, interrupt_wins, tools_whole, paired, shown_once),
        *(one_writer, steer_kept, own_counters, named_end, retry_changes, honest, legal),
    )
}


# ---------------------------------------------------------------- helpers


def _shown(edge: Edge) -> str:
    """What was shown of the call in flight, where this decision ends the call."""
    event = edge.event
    if not any(kind is ModelReplied for kind in edge.before.waits):
        return ""
    if isinstance(event, ModelReplied):
        return event.reply.text
    ends = isinstance(event, CallFailed) or any(isinstance(effect, Abandon) for effect in edge.decision.effects)
    partial: Reply | None = getattr(event, "partial", None)
    return partial.text if ends and partial else ""


def _kept(record: Record, *, but_said: bool) -> str:
    said = "" if but_said else words_of(record.said)
    asked, cut = record.asked.text if record.asked else "", record.cut.text if record.cut else ""
    return said + asked + "".join(record.pieces) + cut


def words_of(messages: tuple[Message, ...]) -> str:
    """What the model said in these messages, but for the note that stands where it said nothing."""
    texts = (each.text for each in messages if isinstance(each, AssistantMessage))
    return "".join(text for text in texts if not text.startswith("[No answer"))


def squeezed(text: str) -> str:
    """The text without white space, which is kept or dropped as it comes."""
    return "".join(text.split())


def unpaired(messages: tuple[Message, ...]) -> list[Message]:
    """What is wrong with the order of calls and results."""
    wrong: list[Message] = []
    owed: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            wrong.extend([] if owed and owed.pop(0) == message.call_id else [message])
        else:
            wrong.extend([message] if owed else [])
            owed = [call.id for call in message.tool_calls] if isinstance(message, AssistantMessage) else []
    return wrong + [AssistantMessage(f"{call} has no result") for call in owed]
