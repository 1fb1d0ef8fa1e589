"""The checks of a request, each by one that passes and one that does not."""

from __future__ import annotations

import pytest

from fsm_loop.testing.wire.case import Received
from fsm_loop.testing.wire.checks import CHECKS, problems_of

CHAT, ANTHROPIC, RESPONSES = "openai-chat", "anthropic", "openai-responses"
USER = {"role": "user", "content": "hi"}
SAID = {"role": "assistant", "content": "yes"}


def asks(*ids, arguments='{"a": 1}'):
    """An assistant's message with calls of these ids."""
    calls = [{"id": each, "type": "function", "function": {"name": "look", "arguments": arguments}} for each in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def answers(call_id, text="seen"):
    """The result of a call."""
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def blocks(*blocks, role="assistant"):
    """A message of Anthropic's."""
    return {"role": role, "content": list(blocks)}


USE = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "seen"}
ITEM_CALL = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
ITEM_RESULT = {"type": "function_call_output", "call_id": "c1", "output": "seen"}
LONG = {"role": "user", "content": "hi " * 100}

# fmt: off
ANSWERS = [
    ("tool_pairing", {}, CHAT, [USER, asks("a", "b"), answers("b"), answers("a")], True),
    ("tool_pairing", {}, CHAT, [USER, asks("a"), USER, answers("a")], False),
    ("tool_pairing", {}, CHAT, [USER, answers("a")], False),
    ("tool_pairing", {}, CHAT, [asks("a"), answers("a"), answers("a")], False),
    ("tool_pairing", {}, CHAT, [asks("a")], False),
    ("tool_pairing", {}, ANTHROPIC, [blocks(USE), blocks(RESULT, role="user")], True),
    ("tool_pairing", {}, ANTHROPIC, [blocks(USE), blocks({"type": "text", "text": "x"}, role="user")], False),
    ("tool_pairing", {}, RESPONSES, [USER, ITEM_CALL, ITEM_RESULT], True),
    ("tool_pairing", {}, RESPONSES, [USER, ITEM_CALL], False),
    ("unique_tool_ids", {}, CHAT, [asks("a", "b")], True),
    ("unique_tool_ids", {}, CHAT, [asks("a", "a")], False),
    ("nonempty_tool_ids", {}, CHAT, [asks("a"), answers("a")], True),
    ("nonempty_tool_ids", {}, CHAT, [asks(None), answers("a")], False),
    ("tool_ids_match", {"pattern": "^[ab]$"}, CHAT, [asks("a"), answers("a")], True),
    ("tool_ids_match", {"pattern": "^[ab]$"}, CHAT, [asks("a"), answers("c")], False),
    ("arguments_valid_json", {}, CHAT, [asks("a")], True),
    ("arguments_valid_json", {}, CHAT, [asks("a", arguments="{")], False),
    ("arguments_valid_json", {}, CHAT, [asks("a", arguments="3")], False),
    ("arguments_valid_json", {}, ANTHROPIC, [blocks(USE)], True),
    ("arguments_are_strings", {}, CHAT, [asks("a")], True),
    ("arguments_are_strings", {}, CHAT, [asks("a", arguments={})], False),
    ("tool_results_in_call_order", {}, CHAT, [asks("a", "b"), answers("a"), answers("b")], True),
    ("tool_results_in_call_order", {}, CHAT, [asks("a", "b"), answers("b"), answers("a")], False),
    ("tool_results_in_call_order", {}, CHAT, [USER], True),
    ("tool_result_is_error", {"tool_call_id": "a"}, CHAT, [asks("a"), answers("a", "the tool failed: no")], True),
    ("tool_result_is_error", {"tool_call_id": "a"}, CHAT, [asks("a"), answers("a")], False),
    ("tool_result_is_error", {"tool_call_id": "a"}, CHAT, [asks("a")], False),
    ("tool_result_is_error", {"tool_call_id": "a"}, CHAT, [USER], True),
    ("tool_result_is_error", {"tool_call_id": "t1"}, ANTHROPIC, [blocks(USE), blocks({**RESULT, "is_error": True}, role="user")], True),
    ("result_text_for", {"tool_call_id": "a", "text": "see"}, CHAT, [asks("a"), answers("a")], True),
    ("result_text_for", {"tool_call_id": "a", "text": "hear"}, CHAT, [asks("a"), answers("a")], False),
    ("no_empty_messages", {}, CHAT, [USER, asks("a"), answers("a")], True),
    ("no_empty_messages", {}, CHAT, [{**SAID, "content": " "}], False),
    ("no_empty_messages", {}, CHAT, [asks("a"), answers("a", "")], False),
    ("no_empty_messages", {}, ANTHROPIC, [blocks({"type": "text", "text": " "})], False),
    ("no_empty_messages", {}, ANTHROPIC, [blocks()], False),
    ("ends_with_user_or_tool", {}, CHAT, [SAID, USER], True),
    ("ends_with_user_or_tool", {}, CHAT, [USER, SAID], False),
    ("ends_with_user_or_tool", {}, CHAT, [], False),
    ("roles_alternate", {}, CHAT, [{"role": "system", "content": "x"}, USER, SAID, USER], True),
    ("roles_alternate", {}, CHAT, [USER, USER], False),
    ("roles_alternate", {}, CHAT, [USER, asks("a"), answers("a"), SAID], True),
    ("roles_alternate", {}, ANTHROPIC, [USER, USER], False),
    ("utf8_clean", {}, CHAT, [USER], True),
    ("utf8_clean", {}, CHAT, [{**USER, "content": "\ud800"}], False),
    ("contains", {"text": 'say "hi"'}, CHAT, [{**USER, "content": 'say "hi"'}], True),
    ("contains", {"text": "ho"}, CHAT, [USER], False),
    ("not_contains", {"text": "ho"}, CHAT, [USER], True),
    ("not_contains", {"text": "hi"}, CHAT, [USER], False),
    ("count_text", {"text": "hi", "value": 1}, CHAT, [USER], True),
    ("count_text", {"text": "hi", "value": 2}, CHAT, [USER], False),
    ("count_text_at_most", {"text": "hi", "value": 2}, CHAT, [USER], True),
    ("count_text_at_most", {"text": "hi", "value": 0}, CHAT, [USER], False),
    ("same_messages_as", {"request": 1}, CHAT, [USER], True),
    ("same_messages_as", {"request": 1}, CHAT, [SAID], False),
    ("differs_from", {"request": 1}, CHAT, [SAID], True),
    ("differs_from", {"request": 1}, CHAT, [USER], False),
    ("smaller_than", {"request": 1}, CHAT, [], True),
    ("smaller_than", {"request": 1}, CHAT, [LONG], False),
]
# fmt: on


def received(number, body, **headers):
    """A request that reached the server."""
    return Received(number, 0.0, "/v1", headers, body)


@pytest.mark.parametrize(("name", "facts", "protocol", "messages", "passes"), ANSWERS)
def test_a_check_knows_right_from_wrong(name, facts, protocol, messages, passes):
    """What is right has no problem, and what is wrong has one that names the check."""
    field = "input" if protocol == RESPONSES else "messages"
    requests = [received(1, {field: [USER]}), received(2, {field: messages})]
    problems = problems_of(requests, 2, [{"check": name, **facts}], protocol)

    assert passes == (not problems)
    assert all(problem.startswith(f"request 2: {name}: ") for problem in problems)


@pytest.mark.parametrize(
    ("name", "facts", "first", "second", "passes"),
    [
        ("max_tokens_greater_than", {"request": 1}, {"max_tokens": 64}, {"max_completion_tokens": 128}, True),
        ("max_tokens_greater_than", {"request": 1}, {"max_tokens": 64}, {"max_tokens": 64}, False),
        ("max_tokens_greater_than", {"request": 1}, {"max_tokens": 64}, {}, True),  # the provider's own is the largest
        ("max_tokens_at_most", {"value": 64}, {}, {"max_tokens": 64}, True),
        ("max_tokens_at_most", {"value": 64}, {}, {"max_tokens": 65}, False),
        ("max_tokens_at_most", {"value": 64}, {}, {}, False),
        ("tools_defined_if_tool_blocks", {}, {}, {"messages": [asks("a")], "tools": [{}]}, True),
        ("tools_defined_if_tool_blocks", {}, {}, {"messages": [asks("a")]}, False),
        ("no_such_check", {}, {}, {}, False),
    ],
)
def test_a_check_of_the_body(name, facts, first, second, passes):
    """Limits go by three names, and a check that nobody knows is a problem."""
    requests = [received(1, first), received(2, second)]

    assert passes == (not problems_of(requests, 2, [{"check": name, **facts}], CHAT))


@pytest.mark.parametrize(("key", "passes"), [("new", True), ("old", False)])
def test_a_check_of_the_credential(key, passes):
    """A refreshed credential is another one."""
    requests = [received(1, {}, authorization="old"), received(2, {}, authorization=key)]
    check = {"check": "auth_differs_from", "request": 1}

    assert passes == (not problems_of(requests, 2, [check], CHAT))


def test_a_request_that_was_not_made():
    """Of one that was not made nothing is wrong; one whose body is no object has one problem."""
    assert [] == problems_of([], 1, [{"check": "utf8_clean"}], CHAT)
    assert 1 == len(problems_of([received(1, None)], 1, [{"check": "utf8_clean"}], CHAT))


def test_every_check_is_tried():
    """No check is without a yes and a no."""
    apart = {"max_tokens_greater_than", "max_tokens_at_most", "tools_defined_if_tool_blocks", "auth_differs_from"}

    for answer in (True, False):
        assert set(CHECKS) - apart == {name for name, *_, passes in ANSWERS if passes is answer}
