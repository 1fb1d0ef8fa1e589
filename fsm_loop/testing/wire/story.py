"""A turn told in the words of cases: what happened, through which states, and what is left on the user's screen."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from fsm_loop.core.effects import CallModel, Withdrawn
from fsm_loop.core.events import (
    CallFailed,
    ModelReplied,
    RequestRepaired,
    SteerGiven,
    StreamStalled,
    StreamStarted,
    TimerFired,
)
from fsm_loop.core.faults import Fault, FaultKind
from fsm_loop.core.messages import Finish, Reply, ToolCall
from fsm_loop.core.step import Decision
from fsm_loop.drive.notes import Note, StateChanged, ToolFinished, ToolStarted
from fsm_loop.ports import ReasoningDelta, TextDelta
from fsm_loop.testing.wire import words as w

Hear = Callable[[str], None]
_WHOLE = (Finish.STOP, Finish.TOOL_CALLS)


class Story:
    """Hears the notes of a turn and, as its watcher, each decision; *hear* is told each word as it is added."""

    def __init__(self, tools: frozenset[str], hear: Hear = lambda _: None) -> None:
        self.events: list[str] = []
        self.states: list[str] = []
        self.screen = ""
        self._tools = tools
        self._hear = hear
        self._decisions: deque[Decision] = deque()
        self._begun: set[str] = set()  # what this call has brought already
        self._steers = 0
        self._limit: int | None = None

    def tell(self, word: str) -> None:
        """One more thing has happened."""
        if word:
            self.events.append(word)
            self._hear(word)

    def saw(self, turn_id: str, seq: int, decision: Decision) -> None:
        """One decision was made; it is told when its note comes, so that all stands in one order."""
        if not decision.late and decision.before.name != "DONE":
            self._decisions.append(decision)

    def note(self, note: Note) -> None:
        """One thing that the turn says."""
        match note:
            case StateChanged():
                self._decision(self._decisions.popleft())
            case TextDelta(text) if text:
                self.screen += text
                self._first("text")
            case ReasoningDelta(text) if text:
                self._first("reasoning")
            case Withdrawn(text):
                kept, found, after = self.screen.rpartition(text)
                self.screen = kept + after if found else self.screen
            case ToolStarted():
                self.tell("tool_started")
            case ToolFinished(status=status):
                self.tell(w.TOOLS[status])

    def _first(self, word: str) -> None:
        if word not in self._begun:
            self._begun.add(word)
            self.tell(word)

    def _decision(self, decision: Decision) -> None:
        action = "" if decision.row is None else decision.row.do.__name__
        limit, self._limit = self._limit, decision.turn.record.shape.output_limit
        raised = ("max_tokens_raised",) if action in w.RAISES and limit != self._limit else ()
        for word in (*self._event(decision), *raised, *w.ACTIONS.get(action, ()), *self._asked(decision)):
            self.tell(word)
        if action in w.SILENT_WAITS:
            self.states.append(w.STATES["backoff"])
        state = w.STATES.get(decision.turn.state.name.lower(), "")
        if state and self.states[-1:] != [state]:
            self.states.append(state)

    def _event(self, decision: Decision) -> Iterator[str]:
        """What the event itself was."""
        record = decision.turn.record
        match decision.event:
            case StreamStarted():
                yield "first_output"
            case ModelReplied(reply=reply):
                yield from self._replied(reply, cut=decision.turn.state.name == "TRUNCATED")
            case CallFailed(fault=fault) as event:
                silent = isinstance(event, StreamStalled) and decision.before.name == "CALLING"
                yield "first_token_timeout" if silent and fault.kind is FaultKind.STALLED else _failed(fault)
            case TimerFired():
                yield "backoff_elapsed"
            case RequestRepaired(changed=True) if record.fault is not None and record.fault.repair is not None:
                yield w.REPAIRS[record.fault.repair]
            case SteerGiven():
                self._steers += 1
                yield "steer_received"

    def _asked(self, decision: Decision) -> Iterator[str]:
        """That a request goes out, and what the user has said in it."""
        if any(isinstance(effect, CallModel) for effect in decision.effects):
            self._begun.clear()
            yield from ("steer_delivered",) * self._steers
            self._steers = 0

    def _replied(self, reply: Reply, *, cut: bool) -> Iterator[str]:
        yield from ("tool_call_complete",) * (0 if cut else len(reply.tool_calls))
        yield w.FINISHES[reply.finish]
        if cut:
            yield _truncated(reply)
        elif reply.tool_calls:
            for call in reply.tool_calls:
                yield from self._problem(call)
        elif not reply.text.strip() and reply.finish in _WHOLE:
            yield "empty_response|reasoning_only" if reply.reasoning.strip() else "empty_response"
        if reply.finish is Finish.REFUSED:
            yield "content_blocked"

    def _problem(self, call: ToolCall) -> Iterator[str]:
        if call.problem:
            yield "malformed_tool_call" if call.name in self._tools or not call.name else "unknown_tool"
            yield "tool_skipped"


def _failed(fault: Fault) -> str:
    """The word for the fault; one that the provider told without a status, it told inside a reply."""
    word = w.FAULTS[fault.kind]
    if fault.status is None and fault.kind not in w.NOT_TOLD:
        return f"{word}|stream_error"
    return f"{word}|{w.TOO_LARGE_WORD}" if fault.status == w.TOO_LARGE else word


def _truncated(reply: Reply) -> str:
    if reply.tool_calls:
        return "truncated_tool_call"
    return "truncated_text" if reply.text.strip() else "truncated_reasoning"
