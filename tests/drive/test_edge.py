"""The edge: OpenAI-shaped dictionaries outside, typed messages inside."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_loop.core.messages import (
    AssistantMessage,
    MediaPart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolStatus,
    UserMessage,
)
from fsm_loop.drive.edge import plain, plain_message, typed
from fsm_loop.errors import MessageError

CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"n": 1}'}}
ASKS = {"role": "assistant", "content": None, "tool_calls": [CALL]}
ANSWER = {"role": "tool", "tool_call_id": "c1", "content": "seen"}
USER = {"role": "user", "content": "hi"}

PAIRS = [
    (UserMessage("hi"), USER),
    (SystemMessage("be brief"), {"role": "system", "content": "be brief"}),
    (AssistantMessage("four"), {"role": "assistant", "content": "four"}),
    (AssistantMessage(""), {"role": "assistant", "content": ""}),
    (AssistantMessage("", (ToolCall("c1", "look", '{"n": 1}'),)), ASKS),
    (AssistantMessage("let me", (ToolCall("c1", "look", '{"n": 1}'),)), {**ASKS, "content": "let me"}),
    (ToolMessage("c1", "seen"), ANSWER),
    (
        UserMessage((TextPart("what is it?"), MediaPart("data:image/png;base64,AA"))),
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "what is it?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
            ],
        },
    ),
]


@pytest.mark.parametrize(("message", "shape"), PAIRS)
def test_a_message_has_its_shape(message, shape):
    """Each kind of message goes out in its OpenAI shape."""
    assert shape == plain_message(message)


@pytest.mark.parametrize(("message", "shape"), PAIRS)
def test_a_shape_is_read_as_its_message(message, shape):
    """Each shape is read as the message that goes out in it."""
    around = {"tool": ([ASKS], []), "assistant": ([], [ANSWER] if shape.get("tool_calls") else [])}
    before, after = around.get(shape["role"], ([], []))

    assert message == typed([*before, shape, *after])[len(before)]


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ({"role": "developer", "content": "be brief"}, SystemMessage("be brief")),
        (
            {"role": "system", "content": [{"type": "text", "text": "be "}, {"type": "text", "text": "brief"}]},
            SystemMessage("be brief"),
        ),
        ({"role": "assistant", "content": None}, AssistantMessage("")),
        ({"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}, AssistantMessage("no")),
        ({"role": "assistant", "content": "x", "tool_calls": None}, AssistantMessage("x")),
        ({"role": "user", "content": [{"type": "input_text", "text": "hi"}]}, UserMessage((TextPart("hi"),))),
        (UserMessage("typed already"), UserMessage("typed already")),
    ],
)
def test_other_spellings_are_read_too(shape, message):
    """What other libraries write is understood where it is plain what is meant."""
    assert (message,) == typed([shape])


def test_a_text_is_the_users_word():
    """The shortest prompt is a text, an empty one too."""
    assert ((UserMessage("hi"),), (UserMessage(""),)) == (typed("hi"), typed(""))


def test_what_a_tool_call_lacks_is_no_arguments():
    """A call without arguments, or with empty ones, has none."""
    bare = {"id": "c1", "function": {"name": "look"}}
    empty = {"id": "c1", "function": {"name": "look", "arguments": ""}}

    for call in (bare, empty):
        message = typed([{"role": "assistant", "content": None, "tool_calls": [call]}, ANSWER])[0]
        assert (ToolCall("c1", "look", "{}"),) == message.tool_calls
    assert (
        "{}"
        == plain_message(AssistantMessage("", (ToolCall("c", "look", ""),)))["tool_calls"][0]["function"]["arguments"]
    )


REFUSED = [
    ([], "no messages were given"),
    ([42], "message 0 is int"),
    ([USER, "hi"], "message 1 is str"),
    ([{"content": "hi"}], "role is None; it must be one of system"),
    ([{"role": "robot", "content": "hi"}], "role is 'robot'"),
    ([{"role": "user"}], "content is NoneType"),
    ([{"role": "user", "content": 42}], "content is int"),
    ([{"role": "user", "content": [{"type": "audio"}]}], "a part of type 'audio' is not known"),
    ([{"role": "user", "content": ["hi"]}], "not OpenAI-shaped"),
    ([{"role": "user", "content": [{"type": "text", "text": 1}]}], "text is int"),
    ([{"role": "user", "content": [{"type": "image_url"}]}], "not OpenAI-shaped: KeyError 'image_url'"),
    ([{"role": "assistant", "tool_calls": [{"id": "x"}]}], "not OpenAI-shaped: KeyError 'function'"),
    ([{"role": "assistant", "tool_calls": [{**CALL, "id": 7}]}], "id is int; it must be text"),
    (
        [{"role": "assistant", "tool_calls": [{"id": "x", "function": {"name": "f", "arguments": {"a": 1}}}]}],
        "arguments is dict",
    ),
    ([{"role": "tool", "content": "x"}], "KeyError 'tool_call_id'"),
]


@pytest.mark.parametrize(("messages", "text"), REFUSED)
def test_what_no_provider_would_take_is_refused(messages, text):
    """The error names the first message that is wrong, and what is wrong with it."""
    with pytest.raises(MessageError, match=text):
        typed(messages)


LOST = {"role": "tool", "tool_call_id": "c1", "content": "outcome unknown: no result was kept"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([ASKS, ANSWER], [ASKS, ANSWER]),
        ([USER, ANSWER], [USER]),
        ([ASKS], [ASKS, LOST]),
        ([ASKS, USER], [ASKS, LOST, USER]),
        ([ASKS, ANSWER, ANSWER], [ASKS, ANSWER]),
        ([ASKS, USER, ANSWER], [ASKS, ANSWER, USER]),
        ([ASKS, ANSWER, ASKS], [ASKS, ANSWER, ASKS, LOST]),  # an id that comes again is another call's
    ],
)
def test_a_history_that_was_cut_is_whole_again(given, expected):
    """Each call has exactly one result, right behind it, and a result that answers nothing is gone."""
    assert expected == plain(typed(given))


def test_results_may_stand_in_another_order():
    """Several results of one message may come in any order."""
    second = {**CALL, "id": "c2"}
    asks = {**ASKS, "tool_calls": [CALL, second]}

    assert 3 == len(typed([asks, {**ANSWER, "tool_call_id": "c2"}, ANSWER]))


texts = st.text(max_size=8)
parts = st.one_of(texts.map(TextPart), texts.map(MediaPart))
calls = st.builds(ToolCall, texts, texts, texts.filter(bool))
messages = st.one_of(
    texts.map(SystemMessage),
    texts.map(UserMessage),
    st.lists(parts, max_size=3).map(tuple).map(UserMessage),
    texts.map(AssistantMessage),
)
rounds = st.tuples(texts, st.lists(calls, min_size=1, max_size=3, unique_by=lambda call: call.id)).map(
    lambda both: [
        AssistantMessage(both[0], tuple(both[1])),
        *(ToolMessage(call.id, both[0], ToolStatus.OK) for call in both[1]),
    ]
)


conversations = st.lists(messages.map(lambda message: [message]) | rounds, min_size=1).map(
    lambda lists: [*itertools.chain.from_iterable(lists)]
)


@given(conversations)
def test_what_goes_out_comes_in_as_it_was(conversation):
    """A conversation that is written and read again is the same."""
    assert tuple(conversation) == typed(plain(conversation))
