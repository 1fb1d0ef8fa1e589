"""A request in the words of Chat Completions."""

from __future__ import annotations

import re

import pytest

from fsm_loop.core.effects import Request
from fsm_loop.core.messages import (
    AssistantMessage,
    MediaPart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from fsm_loop.ports import ToolSpec
from fsm_loop.providers.chat_encode import BE_BRIEF, NO_OUTPUT, ChatShape, body_of

SPEC = ToolSpec("look", "Look.", {"type": "object", "properties": {"at": {"type": "string"}}})
ASK = UserMessage("Hello")
CALL = AssistantMessage("Wait.", (ToolCall("c1", "look", '{"at": "x"}'),))
ROUND = (ASK, CALL, ToolMessage("c1", "seen"))


def body(*messages, tools=(), shape=None, **fields):
    """The body of a request with these messages, to a model called `m` unless said otherwise."""
    return body_of(Request(0, messages or (ASK,), **fields), tools, shape or ChatShape("m"))


def test_a_stream_is_asked_for_with_its_usage():
    """The plain request: model, messages, and a stream that ends with what it cost."""
    expected = {
        "model": "m",
        "messages": [{"role": "user", "content": "Hello"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }

    assert expected == body()


def test_what_is_no_stream_says_nothing_of_streams():
    """A server that cannot stream is not told of it."""
    assert {"model", "messages"} == body(stream=False).keys()


def test_every_kind_of_message():
    """All that can be said has its shape."""
    messages = body(
        SystemMessage("Be kind."),
        UserMessage((TextPart("See"), MediaPart("data:image/png;base64,AA"))),
        CALL,
        ToolMessage("c1", "seen"),
        AssistantMessage("A cat"),
        UserMessage("Go on."),
    )["messages"]

    assert [
        {"role": "system", "content": "Be kind."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "See"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
            ],
        },
        {
            "role": "assistant",
            "content": "Wait.",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "x"}'}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "seen"},
        {"role": "assistant", "content": "A cat"},
        {"role": "user", "content": "Go on."},
    ] == messages


def test_nothing_empty_is_sent():
    """A reply that said nothing is left out, and a result that says nothing says so: several providers refuse both."""
    messages = body(ASK, AssistantMessage(""), CALL, ToolMessage("c1", ""))["messages"]

    assert ["user", "assistant", "tool"] == [each["role"] for each in messages]
    assert NO_OUTPUT == messages[-1]["content"]


def test_the_user_never_speaks_twice_in_a_row():
    """Neighbours of the user's are sent as one message, for templates of local servers refuse two."""
    picture = UserMessage((MediaPart("data:image/png;base64,AA"),))
    texts = body(UserMessage("one"), AssistantMessage(""), UserMessage("two"), UserMessage("three"))["messages"]
    (mixed,) = body(UserMessage("look"), picture)["messages"]

    assert [{"role": "user", "content": "one\n\ntwo\n\nthree"}] == texts
    assert ["text", "image_url"] == [part["type"] for part in mixed["content"]]


def test_ids_of_calls_have_the_form_that_the_provider_takes():
    """A call and its result get the same other id where theirs is of another form, and keep one that is not."""
    shape = ChatShape("m", call_id_pattern="^[a-z0-9]{2}$")
    kept, other = ToolCall("c1", "look"), ToolCall("call_1", "look")
    messages = (ASK, AssistantMessage("", (kept, other)), ToolMessage("c1", "a"), ToolMessage("call_1", "b"))
    said = body_of(Request(0, messages), (), shape)["messages"]
    first, second = [call["id"] for call in said[1]["tool_calls"]]

    assert "c1" == first == said[2]["tool_call_id"]
    assert second == said[3]["tool_call_id"]
    assert re.fullmatch("[a-z0-9]{2}", second)


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [
        ('{"at": "x"}', '{"at": "x"}'),
        ("", "{}"),
        ('{"at": ', '{"invalid_json": "{\\"at\\": "}'),
        ("7", '{"invalid_json": "7"}'),
    ],
)
def test_arguments_are_always_an_object(arguments, sent):
    """Servers parse the arguments of old calls, so that broken ones would break every request after them."""
    messages = body(ASK, AssistantMessage("", (ToolCall("c1", "look", arguments),)))["messages"]

    assert sent == messages[1]["tool_calls"][0]["function"]["arguments"]


def test_reasoning_goes_back_only_where_it_is_wanted():
    """Some providers demand their reasoning back, others refuse it."""
    thought = AssistantMessage("Hi", reasoning="Hm.")
    plain, wanted = body(ASK, thought), body(ASK, thought, shape=ChatShape("m", returns_reasoning=True))

    assert "reasoning_content" not in plain["messages"][1]
    assert "Hm." == wanted["messages"][1]["reasoning_content"]


OFFERED = {
    "tools": [
        {"type": "function", "function": {"name": "look", "description": "Look.", "parameters": SPEC.parameters}},
    ]
}


@pytest.mark.parametrize(
    ("messages", "tools", "offered", "expected"),
    [
        pytest.param((ASK,), (SPEC,), True, OFFERED, id="offered"),
        pytest.param(ROUND, (SPEC,), True, OFFERED, id="offered again"),
        pytest.param((ASK,), (SPEC,), False, {}, id="off, and none was called"),
        pytest.param(ROUND, (SPEC,), False, {**OFFERED, "tool_choice": "none"}, id="off, though some were called"),
        pytest.param(ROUND, (), False, {}, id="there is none"),
    ],
)
def test_tools(messages, tools, offered, expected):
    """Tools that are off are still defined for a history that calls them, and then forbidden."""
    found = body_of(Request(0, messages, tools=offered), tools, ChatShape("m"))

    assert expected == {name: found[name] for name in ("tools", "tool_choice") if name in found}


@pytest.mark.parametrize(
    ("model", "option", "without", "expected"),
    [
        ("m", "", (), "max_tokens"),
        ("gpt-4o", "", (), "max_tokens"),
        ("o3-mini", "", (), "max_completion_tokens"),
        ("gpt-5-mini", "", (), "max_completion_tokens"),
        ("openai/o1", "", (), "max_completion_tokens"),
        ("qwen/o-something", "", (), "max_tokens"),
        ("m", "max_completion_tokens", (), "max_completion_tokens"),
        ("o3", "max_tokens", (), "max_tokens"),
        ("m", "", ("max_tokens",), "max_completion_tokens"),
        ("o3", "", ("max_completion_tokens",), "max_tokens"),
        ("m", "", ("max_tokens", "max_completion_tokens"), None),
    ],
)
def test_the_output_limit_has_two_names(model, option, without, expected):
    """The limit goes under the name that the model knows, and under the other where that was refused."""
    shape = ChatShape(model, output_limit_name=option)
    found = body(shape=shape, output_limit=99, without=frozenset(without))

    assert ({expected: 99} if expected else {}) == {k: v for k, v in found.items() if k.startswith("max_")}


def test_a_raised_limit_comes_before_the_users():
    """What `extra` says of the limit holds until the turn has a limit of its own."""
    shape = ChatShape("m", {"max_completion_tokens": 7, "temperature": 0})

    assert 7 == body(shape=shape)["max_completion_tokens"]
    assert {"max_tokens": 99} == {
        name: value for name, value in body(shape=shape, output_limit=99).items() if name.startswith("max_")
    }


def test_extra_has_no_say_in_what_the_turn_decides():
    """Further parameters go along; what the turn itself decides is not theirs."""
    extra = {"temperature": 0.5, "model": "x", "messages": [], "stream": False, "stream_options": {}}
    shape = ChatShape("m", extra)

    assert {**body(), "temperature": 0.5} == body(shape=shape)
    assert {**body(stream=False), "temperature": 0.5} == body(shape=shape, stream=False)


@pytest.mark.parametrize(
    ("name", "gone"),
    [
        ("stream_options", "stream_options"),
        ("stream_options.include_usage", "stream_options"),
        ("tools[0].function.strict", "tools"),
        ("temperature", "temperature"),
    ],
)
def test_parameters_are_left_out(name, gone):
    """A parameter that the provider does not know goes, and one inside another takes it along."""
    shape = ChatShape("m", {"temperature": 0.5})
    whole, found = (body(tools=(SPEC,), shape=shape, without=frozenset(names)) for names in ((), (name,)))

    assert {gone} == whole.keys() - found.keys()


@pytest.mark.parametrize("name", ["model", "messages", "messages[0].content"])
def test_what_makes_a_request_is_never_left_out(name):
    """Model and messages stay, whatever a provider says of them."""
    assert body() == body(without=frozenset({name}))


@pytest.mark.parametrize(
    ("model", "extra", "effort"),
    [
        ("gpt-5", {}, "minimal"),
        ("gpt-5-nano-2025-08-07", {}, "minimal"),
        ("gpt-5.1", {}, "low"),
        ("o4-mini", {}, "low"),
        ("openai/gpt-oss-120b", {}, "low"),
        ("o4-mini", {"reasoning_effort": "high"}, "low"),
    ],
)
def test_less_reasoning_is_a_parameter_where_the_model_has_it(model, extra, effort):
    """A model that is known to take an effort gets the least."""
    found = body(shape=ChatShape(model, extra), less_reasoning=True)

    assert effort == found["reasoning_effort"]
    assert [{"role": "user", "content": "Hello"}] == found["messages"]


@pytest.mark.parametrize(
    ("shape", "without"),
    [
        pytest.param(ChatShape("m"), (), id="unknown model"),
        pytest.param(ChatShape("o3"), ("reasoning_effort",), id="the parameter was refused"),
        pytest.param(ChatShape("o3", {"reasoning_effort": "low"}), (), id="there is no less"),
    ],
)
def test_less_reasoning_is_asked_for_in_words_elsewhere(shape, without):
    """Where no parameter can say it, words do: the request is never the same as before."""
    found = body(shape=shape, without=frozenset(without), less_reasoning=True)

    assert [{"role": "user", "content": f"Hello\n\n{BE_BRIEF}"}] == found["messages"]


@pytest.mark.parametrize(
    ("messages", "last"),
    [
        pytest.param(ROUND, {"role": "user", "content": BE_BRIEF}, id="behind a tool's result"),
        pytest.param(
            (UserMessage((MediaPart("u"),)),),
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": {"url": "u"}}, {"type": "text", "text": BE_BRIEF}],
            },
            id="behind an image",
        ),
    ],
)
def test_the_words_stand_last(messages, last):
    """The wish to be brief is the last thing that the model reads."""
    assert last == body(*messages, less_reasoning=True)["messages"][-1]
