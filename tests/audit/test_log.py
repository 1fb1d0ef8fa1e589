"""The trail in the service's log."""

from __future__ import annotations

import io
import json
import logging

import anyio
import pytest
import structlog
from structlog.testing import capture_logs

from fsm_loop import LoopConfig
from fsm_loop.audit.log import LONGEST_CAUSE, LogWatcher, cause, fields_of, one_line, told
from fsm_loop.core.events import (
    CutJudged,
    Event,
    InterruptAsked,
    ModelFailed,
    ModelReplied,
    ProviderReady,
    RebuildAsked,
    RequestRepaired,
    SlotGranted,
    SteerGiven,
    StreamStarted,
    TimerFired,
    ToolReturned,
    TurnStarted,
)
from fsm_loop.core.faults import Fault, FaultKind
from fsm_loop.core.messages import Finish, Reply, ToolCall, UserMessage
from fsm_loop.core.step import Moved, begin_turn, step
from fsm_loop.loop import Loop
from fsm_loop.testing.clock import VirtualClock
from fsm_loop.testing.fakes import ScriptedModel, SeededChance, fails, says
from tests.drive.turns import on_each_backend

BUSY = Fault(FaultKind.OVERLOADED, "busy")
BEGIN = step(begin_turn(LoopConfig()), TurnStarted(messages=(UserMessage("my secret"),)))
SEND = step(BEGIN.turn, SlotGranted(attempt=1))
STOPPED = step(SEND.turn, InterruptAsked(issuer="user", reason="Ctrl-C"))


@pytest.fixture(autouse=True)
def configuration_of_the_service():
    """Whatever a test configures is forgotten after it."""
    yield
    structlog.reset_defaults()


def test_a_turn_is_a_line_for_each_decision():
    """Each decision is one line: turn, number, states, row, what moved, and what came."""
    clock = VirtualClock()
    model = ScriptedModel([fails(FaultKind.OVERLOADED, "busy\nagain"), says("ok")], clock=clock)
    loop = Loop(model=model, watchers=[LogWatcher()], clock=clock, chance=SeededChance(1))
    with capture_logs() as lines:
        result = clock.run(lambda: loop.run("my secret"))

    assert [f"{before} -> {after}" for before, _, after in result.path] == [line["event"] for line in lines]
    assert [row for _, row, _ in result.path] == [line["row"] for line in lines]
    assert [(result.turn_id, seq) for seq in range(len(lines))] == [(line["turn"], line["seq"]) for line in lines]
    assert "the provider is overloaded: busy again" == lines[2]["cause"]
    assert "api_retries 0->1/3" == lines[2]["moved"]
    assert "completed" == lines[-1]["outcome"]
    assert "my secret" not in str(lines)
    assert () == result.trail_faults


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        (BEGIN, {"row": "ready.turn_started", "trigger": "turn_started", "cause": "the turn began with 1 messages"}),
        (SEND, {"row": "calling.slot_granted.budget_left", "trigger": "slot_granted", "cause": "the request may go out", "moved": "requests 0->1/160"}),
        (STOPPED, {"row": "calling.interrupt_asked", "trigger": "interrupt_asked", "cause": "user asked to stop: Ctrl-C", "outcome": "interrupted"}),
        (step(STOPPED.turn, InterruptAsked()), {"row": "done.interrupt_asked", "trigger": "interrupt_asked", "cause": "user asked to stop"}),
        (step(SEND.turn, TimerFired(attempt=99)), {"row": "late", "trigger": "timer_fired", "cause": "the time to wait has passed"}),
    ],
)  # fmt: skip
def test_the_fields_of_a_line(decision, expected):
    """A line has what there is to say, and no field for what there is not."""
    assert {"turn": "t1", "seq": 5, **expected} == fields_of("t1", 5, decision)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (ModelFailed(attempt=1, fault=BUSY), "the provider is overloaded: busy"),
        (ModelReplied(attempt=1, reply=Reply("abc", finish=Finish.STOP)), "the model replied: finish stop, 3 characters"),
        (ModelReplied(attempt=1, reply=Reply("", (ToolCall("c", "f"),))), "the model replied: without terminal evidence, 0 characters, 1 tool calls"),
        (ToolReturned(attempt=1, call_id="c1", text="abcd"), "the tool of call c1 returned: ok, 4 characters"),
        (SteerGiven(text="abc"), "the user said 3 characters"),
        (SteerGiven(text="abc", now=True), "the user said 3 characters, now"),
        (RebuildAsked(messages=()), "the host has 0 new messages"),
        (RequestRepaired(attempt=1, changed=True), "the request was changed"),
        (RequestRepaired(attempt=1, changed=False), "the request could not be changed"),
        (StreamStarted(attempt=1), "the model gave its first sign of life"),
        (ProviderReady(attempt=1), "the next provider is ready"),
        (CutJudged(attempt=3), "cut judged, attempt 3"),
        (Event(), "event"),
    ],
)  # fmt: skip
def test_the_cause(event, expected):
    """Every event says what it is, in a sentence without anybody's text."""
    assert expected == cause(event)


@pytest.mark.parametrize(
    ("moved", "expected"),
    [
        (Moved("requests", 0, 1, 160), "requests 0->1/160"),
        (Moved("tokens", 0, 12, None), "tokens 0->12"),
        (Moved("cost", 0.25, 0.5, 1.5), "cost 0.25->0.5/1.5"),
    ],
)
def test_what_moved(moved, expected):
    """A counter that moved is its name, its values and its cap, where it has one."""
    assert expected == told(moved)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a\nb\t c", "a b c"), ("a\ud800", "a\ufffd"), ("x" * 999, "x" * (LONGEST_CAUSE - 3) + "...")],
)
def test_a_cause_is_one_line(text, expected):
    """A provider's words cannot break a line, make it endless, or keep it from being written."""
    assert expected == one_line(text)


class Counting:
    """A logger's sink that counts what reaches it."""

    def __init__(self):
        self.lines = 0

    def msg(self, *args, **fields):
        self.lines += 1

    debug = info = warning = error = critical = msg


def filtered_by_structlog(sink, level):
    """Lines below this level are dropped before any is made."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(level), processors=[], logger_factory=lambda *_: sink
    )


@pytest.mark.parametrize(("level", "expected"), [(logging.DEBUG, 1), (logging.INFO, 1), (logging.WARNING, 0)])
def test_a_filtered_line_is_not_made(monkeypatch, level, expected):
    """Where the level is switched off nothing is made of the decision, and a level switched on later counts."""
    made, sink, watcher = [], Counting(), LogWatcher()
    filtered_by_structlog(sink, level)
    monkeypatch.setattr("fsm_loop.audit.log.fields_of", lambda *facts: made.append(facts) or {})
    watcher.saw("t1", 0, BEGIN)

    assert (expected, expected) == (len(made), sink.lines)


@pytest.mark.parametrize(("level", "expected"), [(logging.INFO, 1), (logging.WARNING, 0)])
def test_the_standard_library_decides_where_it_is_behind(level, expected):
    """With structlog in front of logging, the level of logging counts, and the line is JSON where that is asked for."""
    text = io.StringIO()
    logger = logging.getLogger("fsm_loop.test")
    logger.setLevel(level)
    logger.propagate = False
    logger.handlers = [logging.StreamHandler(text)]
    structlog.configure(
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        processors=[structlog.processors.JSONRenderer()],
    )
    LogWatcher(structlog.get_logger("fsm_loop.test")).saw("t1", 4, SEND)
    lines = [json.loads(line) for line in text.getvalue().splitlines()]

    assert [("calling -> calling", 4)] * expected == [(line["event"], line["seq"]) for line in lines]


def test_a_logger_that_cannot_be_asked_is_told():
    """A generic logger that knows no levels gets the line, and nothing else."""
    sink = Counting()
    structlog.configure(wrapper_class=structlog.BoundLogger, processors=[], logger_factory=lambda *_: sink)
    LogWatcher().saw("t1", 0, BEGIN)

    assert 1 == sink.lines


def test_the_fields_of_the_service_are_kept():
    """What the service has bound to its logger stands in each line."""
    with capture_logs() as lines:
        LogWatcher(structlog.get_logger().bind(customer=7)).saw("t1", 0, BEGIN)

    assert [7] == [line["customer"] for line in lines]


def test_a_level_can_be_chosen():
    """The lines are logged at the level that was asked for."""
    with capture_logs() as lines:
        LogWatcher(level="debug").saw("t1", 0, BEGIN)

    assert ["debug"] == [line["log_level"] for line in lines]


def test_a_level_that_is_none_is_refused():
    """A level that logging does not know is an error at once."""
    with pytest.raises(ValueError, match="must be one of debug, info"):
        LogWatcher(level="loud")


# ---------------------------------------------------------------- services that have configured structlog their own way


FIELDS = {"turn", "seq", "row", "trigger", "cause", "moved", "outcome"}


def lines_of_a_turn(text, backend="asyncio"):
    """The lines of one turn of a service that has a customer, as JSON."""

    async def main():
        with structlog.contextvars.bound_contextvars(customer=7):
            await Loop(model=ScriptedModel([says("ok")]), watchers=[LogWatcher()]).run("hi")

    anyio.run(main, backend=backend)
    return [json.loads(line) for line in text.getvalue().splitlines()]


@on_each_backend
def test_a_service_with_context_variables_and_json(backend):
    """What the service keeps in context variables stands in each line of the turn, and each line is one of JSON."""
    text = io.StringIO()
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(text),
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.JSONRenderer(),
        ],
    )
    lines = lines_of_a_turn(text, backend)

    assert ["ready -> calling", "calling -> calling", "calling -> streaming", "streaming -> done"] == [
        line["event"] for line in lines
    ]
    assert {(7, "info")} == {(line["customer"], line["level"]) for line in lines}
    assert FIELDS == set().union(*lines) - {"customer", "level", "event"}


def bridged(text, *processors, wrapper=structlog.stdlib.BoundLogger, foreign=()):
    """A service whose structlog hands its lines to logging, which formats them: the bridge of the standard library."""
    handler = logging.StreamHandler(text)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_log_level, *foreign],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    logger = logging.getLogger("fsm_loop")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.handlers = [handler]
    structlog.configure(
        wrapper_class=wrapper,
        logger_factory=structlog.stdlib.LoggerFactory(),
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.filter_by_level,
            structlog.stdlib.add_logger_name,
            structlog.stdlib.add_log_level,
            *processors,
        ],
    )


@pytest.fixture
def text():
    """Where the standard library's logger of the package writes to; it is as before after the test."""
    logger = logging.getLogger("fsm_loop")
    before = (logger.level, logger.propagate, logger.handlers)
    yield io.StringIO()
    level, logger.propagate, logger.handlers = before
    logger.setLevel(level)


@on_each_backend
def test_a_service_with_the_bridge_of_the_standard_library(text, backend):
    """Lines that structlog hands to logging have all their fields, under the name of the package's logger."""
    bridged(text, structlog.stdlib.ProcessorFormatter.wrap_for_formatter)
    lines = lines_of_a_turn(text, backend)

    assert 4 == len(lines)
    assert {("fsm_loop", "info", 7)} == {(line["logger"], line["level"], line["customer"]) for line in lines}
    assert FIELDS == set().union(*lines) - {"customer", "level", "event", "logger"}


def test_a_service_whose_fields_are_those_of_logging(text):
    """No field has a name that logging keeps for itself, so that they may become the `extra` of its records."""
    bridged(text, structlog.stdlib.render_to_log_kwargs, foreign=[structlog.stdlib.ExtraAdder()])
    lines = lines_of_a_turn(text)

    assert 4 == len(lines)
    assert FIELDS <= set().union(*lines)


def test_a_service_whose_loggers_are_awaited(text):
    """A logger whose methods are to be awaited is asked by the way that is not: no line is lost."""
    bridged(text, structlog.stdlib.ProcessorFormatter.wrap_for_formatter, wrapper=structlog.stdlib.AsyncBoundLogger)

    assert [0, 1, 2, 3] == [line["seq"] for line in lines_of_a_turn(text)]


@pytest.mark.parametrize("decision", [BEGIN, SEND, STOPPED])
def test_event_is_nobodys_field(decision):
    """The word `event` is structlog's, for the sentence of a line, so no field is called so."""
    assert FIELDS >= set(fields_of("t1", 5, decision))
