"""Requests in the words of OpenAI's Responses."""

from __future__ import annotations

import json

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
from fsm_loop.ports import Meta, ToolSpec
from fsm_loop.providers.chat_encode import BE_BRIEF, NO_OUTPUT
from fsm_loop.providers.openai_responses_decode import ResponsesDecoder
from fsm_loop.providers.openai_responses_encode import SEALED, ResponsesShape, body_of
from tests.providers.responses import MODEL, call, message, reasoning, refusal, response

ASK = UserMessage("Hello")
SPEC = ToolSpec("look", "Looks.", {"type": "object", "properties": {"n": {"type": "integer"}}})
TOOL = {
    "type": "function",
    "name": "look",
    "description": "Looks.",
    "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}},
    "strict": False,
}
LOOK = ToolCall("call_a", "look", '{"n": 1}')
SEEN = ToolMessage("call_a", "seen")


def body(*messages, model="m", extra=None, tools=(), **facts):
    """The body of a request with these messages."""
    return body_of(Request(0, messages or (ASK,), **facts), tools, ResponsesShape(model, extra or {}))


def items(*messages, model="m"):
    """The items that these messages become."""
    return body(*messages, model=model)["input"]


def user(content):
    """What the user says."""
    return {"type": "message", "role": "user", "content": content}


def spoken(text, **own):
    """What the model said."""
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "role": "assistant", "content": content, **own}


def called(arguments='{"n": 1}', call_id="call_a", name="look", **own):
    """A call of the model's."""
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments, **own}


def answered(text="seen", call_id="call_a"):
    """The result of a call."""
    return {"type": "function_call_output", "call_id": call_id, "output": text}


# ---------------------------------------------------------------- the body


def test_the_least_that_is_sent():
    """A request says that nothing is to be stored, and nothing that was not asked for."""
    assert {"store": False, "model": "m", "input": [user("Hello")], "stream": True} == body()


def test_what_is_asked_for():
    """Limit, tools and further parameters stand under the protocol's names; the user's own word on storing holds."""
    extra = {"store": True, "temperature": 0, "model": "other", "stream": False, "input": "x"}
    found = body(extra=extra, tools=[SPEC], output_limit=99, stream=False)

    assert {
        "store": True, "temperature": 0, "model": "m", "input": [user("Hello")], "tools": [TOOL], "max_output_tokens": 99,
    } == found  # fmt: skip


@pytest.mark.parametrize(
    ("model", "extra", "sealed"),
    [
        ("o3", {}, True),
        ("o4-mini-2025-04-16", {}, True),
        ("openai/gpt-5.1-codex", {}, True),
        ("gpt-5", {}, True),
        ("codex-mini-latest", {}, True),
        ("gpt-5-chat-latest", {}, False),
        ("gpt-4.1", {}, False),
        ("gpt-4o", {}, False),
        ("llama-3.3", {}, False),
        ("my-deployment", {"reasoning": {"effort": "high"}}, True),
    ],
)
def test_sealed_reasoning(model, extra, sealed):
    """Reasoning is asked for in the form that can be sent back, of models that have it: others refuse."""
    assert ([SEALED] if sealed else None) == body(model=model, extra=extra).get("include")


def test_parameters_that_are_not_known():
    """What the provider refused is left out, whole where the name points inside; model and input never are."""
    refused = frozenset(["include", "reasoning.effort", "store", "max_output_tokens", "model", "input[0].content"])
    found = body(model="o3", extra={"reasoning": {"effort": "low"}}, output_limit=9, without=refused)

    assert {"model": "o3", "input": [user("Hello")], "stream": True} == found


# ---------------------------------------------------------------- messages


@pytest.mark.parametrize(
    ("messages", "instructions", "expected"),
    [
        ([SystemMessage("Be kind."), ASK], "Be kind.", [user("Hello")]),
        ([SystemMessage("A"), SystemMessage("B"), ASK], "A\n\nB", [user("Hello")]),
        ([SystemMessage(""), ASK], None, [user("Hello")]),
        (
            [ASK, SystemMessage("Now short.")],
            None,
            [user("Hello"), {"type": "message", "role": "system", "content": "Now short."}],
        ),
    ],
)
def test_system_messages(messages, instructions, expected):
    """System messages at the beginning are the instructions; one later stays where it is."""
    found = body(*messages)

    assert (instructions, expected) == (found.get("instructions"), found["input"])


def test_instructions_that_a_server_does_not_know():
    """Where instructions are no parameter, the system's words are messages."""
    found = body(SystemMessage("Be kind."), ASK, without=frozenset(["instructions"]))

    assert "instructions" not in found
    assert {"type": "message", "role": "system", "content": "Be kind."} == found["input"][0]


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([ASK, AssistantMessage("Hi."), ASK], [user("Hello"), spoken("Hi."), user("Hello")]),
        ([AssistantMessage("Look.", (LOOK,)), SEEN], [spoken("Look."), called(), answered()]),
        ([AssistantMessage("", (LOOK,)), ToolMessage("call_a", " ")], [called(), answered(NO_OUTPUT)]),
        ([ASK, AssistantMessage(""), UserMessage("Hm?")], [user("Hello\n\nHm?")]),
        ([AssistantMessage("", (ToolCall("c", "look", ""),))], [called("{}", "c")]),
        ([AssistantMessage("", (ToolCall("c", "look", "{oops"),))], [called('{"invalid_json": "{oops"}', "c")]),
        ([AssistantMessage("Hi.", reasoning="Hm")], [spoken("Hi.")]),
        (
            [UserMessage((TextPart("See"), MediaPart("data:image/png;base64,AA")))],
            [
                user(
                    [
                        {"type": "input_text", "text": "See"},
                        {"type": "input_image", "image_url": "data:image/png;base64,AA", "detail": "auto"},
                    ]
                )
            ],
        ),
    ],
)
def test_messages(messages, expected):
    """Each message becomes the items that mean the same; one that says nothing becomes none."""
    assert expected == items(*messages)


def test_ids_that_are_too_long():
    """An id that the API does not take is sent as another, the same for the call and its result."""
    long = ToolCall("x" * 80, "look")
    asked, result = items(AssistantMessage("", (long,)), ToolMessage(long.id, "seen"))

    assert asked["call_id"] == result["call_id"]
    assert len(asked["call_id"]) <= 64


# ---------------------------------------------------------------- tools


HELD = (ASK, AssistantMessage("", (LOOK,)), SEEN)


@pytest.mark.parametrize(
    ("messages", "offered", "expected"),
    [
        ((ASK,), True, {"tools": [TOOL]}),
        (HELD, True, {"tools": [TOOL]}),
        ((ASK,), False, {}),
        (HELD, False, {"tools": [TOOL], "tool_choice": "none"}),
    ],
)
def test_tools(messages, offered, expected):
    """Tools that are not on offer are still defined for a history that holds calls, and forbidden."""
    found = body_of(Request(0, messages, tools=offered), [SPEC], ResponsesShape("m"))

    assert expected == {name: value for name, value in found.items() if name in ("tools", "tool_choice")}


def test_tools_of_the_providers_own():
    """Tools that `extra` names are offered beside ours."""
    assert [{"type": "web_search"}, TOOL] == body(tools=[SPEC], extra={"tools": [{"type": "web_search"}]})["tools"]


# ---------------------------------------------------------------- less reasoning


@pytest.mark.parametrize(
    ("model", "extra", "expected"),
    [
        ("gpt-5", {}, {"effort": "minimal"}),
        ("gpt-5-mini-2025-08-07", {}, {"effort": "minimal"}),
        ("gpt-5-codex", {}, {"effort": "low"}),
        ("gpt-5.1", {}, {"effort": "low"}),
        ("o3", {"reasoning": {"effort": "high", "summary": "auto"}}, {"effort": "low", "summary": "auto"}),
    ],
)
def test_less_reasoning(model, extra, expected):
    """Models that are known to have efforts are asked for the least that each takes."""
    assert expected == body(model=model, extra=extra, less_reasoning=True)["reasoning"]


@pytest.mark.parametrize(
    ("facts", "last"),
    [
        ({"model": "gpt-4.1"}, user(f"Hello\n\n{BE_BRIEF}")),
        ({"model": "gpt-5-pro"}, user(f"Hello\n\n{BE_BRIEF}")),
        ({"model": "o3", "extra": {"reasoning": {"effort": "low"}}}, user(f"Hello\n\n{BE_BRIEF}")),
        ({"model": "o3", "without": frozenset(["reasoning.effort"])}, user(f"Hello\n\n{BE_BRIEF}")),
    ],
)
def test_less_reasoning_in_words(facts, last):
    """Where the parameter does not help, the model is asked in words, so that the request differs."""
    assert last == body(less_reasoning=True, **facts)["input"][-1]


@pytest.mark.parametrize(
    ("message_", "expected"),
    [
        (SEEN, user(BE_BRIEF)),
        (
            UserMessage((TextPart("Hi"),)),
            user([{"type": "input_text", "text": "Hi"}, {"type": "input_text", "text": BE_BRIEF}]),
        ),
    ],
)
def test_where_the_words_stand(message_, expected):
    """The words are the user's last, whatever stood there."""
    assert expected == body(ASK, AssistantMessage("", (LOOK,)), message_, less_reasoning=True)["input"][-1]


# ---------------------------------------------------------------- what the model wants back


def replay(*output):
    """What a model of ours wants back of this reply."""
    deltas = ResponsesDecoder(MODEL).whole(response([*output]))
    return tuple(item for each in deltas if isinstance(each, Meta) for item in each.replay)


RS = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
SAID = {"type": "message", "id": "msg_1", "text": "Hi."}
THOUGHT = replay(reasoning(), message("Look."), call('{"n": 1}'))


def test_reasoning_goes_back_as_it_came():
    """The model gets its items back in their order, each with the id that it had."""
    found = items(ASK, AssistantMessage("Look.", (LOOK,), "Hm", THOUGHT), SEEN, model=MODEL)

    assert [user("Hello"), RS, spoken("Look.", id="msg_1", status="completed"), called(id="fc_1"), answered()] == found


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        # a call that was given another id in the turn
        (
            AssistantMessage("Look.", (ToolCall("call_a_2", "look", '{"n": 1}'),), "", THOUGHT),
            [RS, spoken("Look.", id="msg_1", status="completed"), called(call_id="call_a_2")],
        ),
        # words that led up to the reply
        (AssistantMessage("So. Look.", (LOOK,), "", THOUGHT), [RS, spoken("So. Look."), called(id="fc_1")]),
        # calls that somebody took away, or changed
        (AssistantMessage("Look.", (), "", THOUGHT), [spoken("Look.")]),
        (AssistantMessage("", (ToolCall("call_a", "move"),), "", THOUGHT), [called("{}", name="move")]),
        # nothing that follows the thoughts
        (AssistantMessage("", (), "Hm", replay(reasoning())), []),
        (AssistantMessage("", (), "Hm", THOUGHT), []),
        # words, where none were kept
        (AssistantMessage("Hi.", (), "", replay(reasoning())), [spoken("Hi.")]),
        (AssistantMessage("No.", (), "", replay(reasoning(), refusal("No."))), [spoken("No.")]),
        # thoughts of another model, and what no provider knows
        (AssistantMessage("Hi.", (), "", ({"protocol": "openai-responses", "model": "o3", "items": [RS, SAID]},)), [spoken("Hi.")]),
        # thoughts behind the words
        (AssistantMessage("Hi.", (), "", replay(message("Hi."), reasoning())), [spoken("Hi.", id="msg_1", status="completed")]),
        (AssistantMessage("Hi.", (), "", ({"protocol": "anthropic", "model": MODEL, "content": []}, 7, None)), [spoken("Hi.")]),
    ],
)  # fmt: skip
def test_what_goes_back_of_a_message_that_changed(said, expected):
    """Reasoning goes back only to its own model, and only with what followed it."""
    assert expected == items(ASK, said, model=MODEL)[1:]


def test_phases_go_back():
    """Two messages of one reply stay two, each with its phase."""
    kept = replay(reasoning(), message("A", phase="commentary"), message("B", "msg_2", phase="final_answer"))
    found = items(ASK, AssistantMessage("AB", (), "", kept), model=MODEL)
    led = items(ASK, AssistantMessage("So: AB", (), "", kept), model=MODEL)

    assert [
        RS,
        spoken("A", id="msg_1", status="completed", phase="commentary"),
        spoken("B", id="msg_2", status="completed", phase="final_answer"),
    ] == found[1:]
    assert [RS, spoken("So: AB", phase="final_answer")] == led[1:]


def test_a_body_can_be_sent():
    """All that goes back is plain JSON."""
    found = body(ASK, AssistantMessage("Look.", (LOOK,), "Hm", THOUGHT), SEEN, model=MODEL, tools=[SPEC])

    assert found == json.loads(json.dumps(found))
