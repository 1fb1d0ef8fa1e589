"""Replies that end well, and are none."""

from __future__ import annotations

import time

import pytest

from fsm_loop.core.faults import FaultKind
from fsm_loop.core.messages import Finish, Reply, ToolCall, Usage
from fsm_loop.drive.judged import WRITTEN, fault_of_reply, written_call

READ = Usage(input_tokens=1000)
CALL = ToolCall("c1", "look")
TOOLS = {"look", "read_file"}
GOOD = '{"name": "look", "arguments": {"at": "x"}}'


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Reply(finish=Finish.LENGTH, usage=READ), FaultKind.CONTEXT_TOO_LONG),
        (Reply(finish=Finish.LENGTH), None),  # what was read is not known
        (Reply(finish=Finish.LENGTH, usage=Usage(1000, 64)), None),  # it thought where nobody sees it
        (Reply(reasoning="Hm", finish=Finish.LENGTH, usage=READ), None),
        (Reply(text="It is", finish=Finish.LENGTH, usage=READ), None),
        (Reply(finish=Finish.WINDOW_FULL), FaultKind.CONTEXT_TOO_LONG),
        (Reply(text="It is", finish=Finish.WINDOW_FULL), None),
        (Reply(finish=Finish.STOP, usage=READ), None),
        (Reply(text="I will look.", finish=Finish.TOOL_CALLS), FaultKind.MISSPOKE),
        (Reply(finish=Finish.TOOL_CALLS), FaultKind.MISSPOKE),
        (Reply(tool_calls=(CALL,), finish=Finish.TOOL_CALLS), None),
        (Reply(tool_calls=(CALL,), finish=Finish.LENGTH, usage=READ), None),
    ],
)
def test_what_a_good_end_hides(reply, expected):
    """No room for a word is a context that is too long; a call that was announced and never came was misspoken."""
    fault = fault_of_reply(reply)

    assert expected is (fault and fault.kind)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"<tool_call>\n{GOOD}\n</tool_call>", "look"),
        (f"Let me look.\n<tool_call>{GOOD}</tool_call>\n", "look"),
        (f"<function_call>{GOOD}</function_call>", "look"),
        (f"[TOOL_CALLS] [{GOOD}]", "look"),
        ('<|python_tag|>{"name": "look", "parameters": {}}', "look"),
        (f"```tool_call\n{GOOD}\n```", "look"),
        ('<function=look>{"at": "x"}</function>', "look"),
        ("<function=look>\n<parameter=at>\nx\n</parameter>\n</function>\n</tool_call>", "look"),
        ('<invoke name="read_file"><parameter name="at">x</parameter></invoke></function_calls>', "read_file"),
        (
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>look\n{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
            "look",
        ),
        (f"<tool_call>{GOOD}</tool_call>\n<tool_call>{GOOD}</tool_call>", "look"),
        (GOOD, "look"),
        (f"```json\n{GOOD}\n```", "look"),
        ('{"type": "function", "name": "look", "parameters": {"at": "x"}}', "look"),
        # No calls.
        (f"<tool_call>{GOOD.replace('look', 'fly')}</tool_call>", None),
        (f"Write <tool_call>{GOOD}</tool_call> to call a tool.", None),
        (f"Here it is: {GOOD}", None),
        (f"An example:\n```json\n{GOOD}\n```", None),
        ("<function=look>{} and so on, as in <b>this</b>", None),
        ('{"name": "look", "arguments": {}, "price": 3}', None),
        ('{"name": "look"}', None),
        ("<tool_call>{nonsense}</tool_call>", None),
        ("<tool_call>[1, 2]</tool_call>", None),
        ("[" * 5000 + "]", None),
        ("", None),
    ],
)
def test_a_call_that_is_written_out(text, expected):
    """A whole call of a known tool at the end of the text is one that the template failed to make."""
    call = written_call(Reply(text=text, finish=Finish.STOP), TOOLS)

    assert expected == (call and call.name)
    assert call is None or call.problem == WRITTEN


@pytest.mark.parametrize(
    "reply",
    [
        Reply(text=GOOD, finish=Finish.LENGTH),
        Reply(text=GOOD, finish=None),
        Reply(text=GOOD, finish=Finish.STOP, tool_calls=(CALL,)),
    ],
)
def test_only_a_whole_answer_is_looked_at(reply):
    """A reply that was cut, or that makes calls, is what it says that it is."""
    assert written_call(reply, TOOLS) is None


@pytest.mark.parametrize(
    "text", ["<function=a>" * 1600, "<function=a></function>" + " " * 19_000 + ">", "{" * 20_000 + "}"]
)
def test_no_text_takes_long(text):
    """However it is made, the text is gone through a few times and no more."""
    began = time.process_time()

    assert written_call(Reply(text=text, finish=Finish.STOP), TOOLS) is None
    assert time.process_time() - began < 1
