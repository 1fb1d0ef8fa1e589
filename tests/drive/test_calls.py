"""The model's side of a turn: how a model is asked, and which replies are none."""

from __future__ import annotations

from attrs import define

from fsm_loop.core.conversation import CALL_AGAIN
from fsm_loop.core.faults import FaultKind
from fsm_loop.core.messages import Finish, Usage, UserMessage
from fsm_loop.drive.judged import WRITTEN
from fsm_loop.ports import CallDelta, Streams
from fsm_loop.testing.fakes import Hang, Pause, ScriptedModel, calls, says
from tests.drive.turns import drive, said_by

FULL = says("", finish=Finish.LENGTH, usage=Usage(input_tokens=1000))
PROMISED = says("I will look.", finish=Finish.TOOL_CALLS)
WRITES = says('<tool_call>{"name": "look", "arguments": {}}</tool_call>')


def look() -> str:
    """Look."""
    return "seen"


@define(eq=False)
class Unstreamed(ScriptedModel):
    """A model that is never asked for a stream."""

    streams: bool = False


class Forgets:
    """A compactor that keeps the last word."""

    async def compact(self, messages, fault):
        """The last of the messages."""
        return messages[-1:]


def test_a_model_that_does_not_stream_is_not_asked_to():
    """Its requests say so, and its silence is borne as long as that of anything that is no stream."""
    model = Unstreamed([[Hang()], [Pause(20), *says("yes")]])
    driven = drive(model, read_timeout_s=30)

    assert isinstance(model, Streams)
    assert [False, False] == [request.stream for request in driven.requests]
    assert "calling.model_failed.may_retry+api_retries_left" in driven.recorder.rows
    assert ("completed", "yes") == (driven.result.outcome, driven.result.text)


def test_a_reply_that_had_no_room_is_a_context_that_is_too_long():
    """Nothing was written though the limit was reached: the conversation is made shorter, and asked again."""
    prompt = [
        {"role": "user", "content": "long " * 9},
        {"role": "assistant", "content": "x"},
        {"role": "user", "content": "hi"},
    ]
    driven = drive([FULL, says("yes")], prompt=prompt, ports={"compactor": Forgets()})

    assert ["ready", "calling", "repairing", "calling", "streaming", "done"] == driven.states
    assert (UserMessage("hi"),) == driven.requests[1].messages
    assert ("completed", 1000) == (driven.result.outcome, driven.result.usage.input_tokens)


def test_a_reply_that_had_no_room_and_cannot_be_made_shorter_fails():
    """Without a compactor the turn ends, and says why."""
    driven = drive([FULL])

    assert ("failed", FaultKind.CONTEXT_TOO_LONG) == (driven.result.outcome, driven.result.fault.kind)


def test_a_call_that_was_announced_is_asked_for():
    """A reply that ends as if it called, and does not, is taken back, and the model is told."""
    driven = drive([PROMISED, calls(("look", {})), says("a cat")], tools=[look])

    assert driven.requests[1].messages[-1].text.endswith(CALL_AGAIN)
    assert ("completed", "a cat", "a cat") == (driven.result.outcome, driven.result.text, driven.screen)
    assert ["hi"] == said_by(driven.result, "user")


def test_a_call_that_never_comes_ends_the_turn():
    """It is asked for as often as bad rounds are borne; the words before it are kept."""
    driven = drive(lambda _: PROMISED, tools=[look], bad_tool_rounds=2)

    assert (3, "failed", FaultKind.MISSPOKE) == (driven.calls, driven.result.outcome, driven.result.fault.kind)
    assert ("bad_tool_rounds", "I will look.") == (driven.result.exhausted.counter, driven.screen)


def test_another_provider_may_call_better():
    """When the bad rounds are spent, the next model is asked."""
    driven = drive([PROMISED, PROMISED], fallbacks=[[says("no need")]], tools=[look], bad_tool_rounds=1)

    assert ("completed", "no need") == (driven.result.outcome, driven.result.text)


def test_a_call_that_is_written_as_text_is_not_run():
    """It gets the error result of a call that cannot be run, and is no answer."""
    driven = drive([WRITES, calls(("look", {})), says("a cat")], tools=[look])

    assert [WRITTEN, "seen"] == said_by(driven.result, "tool")
    assert ("completed", "a cat") == (driven.result.outcome, driven.result.text)


def test_without_tools_a_written_call_is_an_answer():
    """What names no tool on offer is text."""
    driven = drive([WRITES])

    assert ("completed", 1) == (driven.result.outcome, driven.calls)


def test_a_call_that_came_is_no_promise():
    """The calls of a reply count, whatever else it says."""
    reply = (CallDelta(0, "c1", "look", "{}"), *says("Look.", finish=Finish.TOOL_CALLS))
    driven = drive([reply, says("a cat")], tools=[look])

    assert ("completed", 2) == (driven.result.outcome, driven.calls)
