"""A request in the words of Anthropic's Messages: who speaks when, what goes back, and what is left out."""

from __future__ import annotations

import base64

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from fsm_loop.core.effects import Request
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
from fsm_loop.ports import ToolSpec
from fsm_loop.providers.anthropic_decode import replay_item
from fsm_loop.providers.anthropic_encode import BEFORE, MAX_TOKENS, MessagesShape, body_of
from fsm_loop.providers.chat_encode import BE_BRIEF, NO_OUTPUT

SHAPE = MessagesShape("m")
HELLO = UserMessage("Hello")
CALL = ToolCall("t1", "look", '{"at": "x"}')
ASKED, RESULT = AssistantMessage("Now.", (CALL,)), ToolMessage("t1", "green")
LOOK = ToolSpec("look", "Look at it.", {"type": "object"})
LOOK_THERE = {"name": "look", "description": "Look at it.", "input_schema": {"type": "object"}}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}
SEARCH = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"q": "x"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}


def text(words):
    """A block of text."""
    return {"type": "text", "text": words}


def used(call_id="t1", name="look", **arguments):
    """A block that calls a tool."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def body(*messages, tools=(), shape=SHAPE, **facts):
    """The body of a request with these messages."""
    return body_of(Request(0, messages, **facts), tools, shape)


def turns(*messages, **facts):
    """The messages of the body: who, and what."""
    return [(each["role"], each["content"]) for each in body(*messages, **facts)["messages"]]


# ---------------------------------------------------------------- who speaks when


def test_the_smallest_request():
    """Model, messages, and the output limit that the protocol demands."""
    assert {
        "model": "m",
        "max_tokens": MAX_TOKENS,
        "messages": [{"role": "user", "content": [text("Hello")]}],
        "stream": True,
    } == body(HELLO)
    assert "stream" not in body(HELLO, stream=False)


def test_what_the_service_says_is_lifted():
    """Words of the service stand apart, wherever they came."""
    made = body(SystemMessage("Be kind."), HELLO, SystemMessage(" "), SystemMessage("Be short."))

    assert ("Be kind.\n\nBe short.", [{"role": "user", "content": [text("Hello")]}]) == (
        made["system"],
        made["messages"],
    )


def test_results_and_what_the_user_says_after_them_are_one_message():
    """Results stand right behind their calls, in order, and words of the user behind them."""
    other = ToolCall("t2", "look", "")
    failed = ToolMessage("t2", "no such thing", ToolStatus.ERROR)

    assert [
        ("user", [text("Hello")]),
        ("assistant", [text("Now."), used(at="x"), used("t2")]),
        (
            "user",
            [
                {"type": "tool_result", "tool_use_id": "t1", "content": "green"},
                {"type": "tool_result", "tool_use_id": "t2", "content": "no such thing", "is_error": True},
                text("Hurry."),
            ],
        ),
    ] == turns(HELLO, AssistantMessage("Now.", (CALL, other)), RESULT, failed, UserMessage("Hurry."))


def test_who_speaks_twice_in_a_row_speaks_once():
    """Neighbours of one side are one message."""
    assert [
        ("user", [text("Hello"), text("you")]),
        ("assistant", [text("a"), text("b")]),
        ("user", [text("c")]),
    ] == turns(HELLO, UserMessage("you"), AssistantMessage("a"), AssistantMessage("b"), UserMessage("c"))


def test_what_says_nothing_is_left_out():
    """Blank text is refused, so neither a message nor a part of one is made of it; who is left speaks once."""
    blank = UserMessage((TextPart("\n"), TextPart("you")))

    assert [("user", [text("Hello"), text("you")])] == turns(HELLO, AssistantMessage(" "), UserMessage(""), blank)


def test_the_user_speaks_first():
    """A history that begins with the model's words, after it was made shorter say, begins with a word of the user's."""
    assert [("user", [text(BEFORE)]), ("assistant", [text("a")]), ("user", [text("Hello")])] == turns(
        AssistantMessage("a"), HELLO
    )


def test_white_space_at_the_end_of_the_model_s_own_words_is_left_out():
    """What the model is to go on from may not end in white space; elsewhere it stays."""
    paused = AssistantMessage("Searching. ")

    assert ("assistant", [text("Searching.")]) == turns(HELLO, paused)[-1]
    assert ("assistant", [text("Searching. ")]) == turns(HELLO, paused, HELLO)[1]


# ---------------------------------------------------------------- what is said


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://x.test/a.png", {"type": "image", "source": {"type": "url", "url": "https://x.test/a.png"}}),
        ("https://x.test/a.PDF?b", {"type": "document", "source": {"type": "url", "url": "https://x.test/a.PDF?b"}}),
        (
            "data:image/png;base64,AAAA",
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
        ),
        (
            "data:application/pdf;base64,AAAA",
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}},
        ),
        (
            "data:image/svg+xml,%3Csvg%2F%3E",
            {
                "type": "image",
                "source": {
                    "type": "base64",
                    "media_type": "image/svg+xml",
                    "data": base64.b64encode(b"<svg/>").decode(),
                },
            },
        ),
    ],
)
def test_media(url, expected):
    """Media by address and in place, each as the protocol has it."""
    assert [("user", [text("This:"), expected])] == turns(UserMessage((TextPart("This:"), MediaPart(url))))


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (ToolCall("t1", "look", ""), used()),
        (ToolCall("call 1|x", "look", "{}"), {"name": "look", "input": {}}),
        (ToolCall("t1", "look", '{"a": '), used(invalid_json='{"a": ')),
        (ToolCall("t1", "look", "[1]"), used(invalid_json="[1]")),
        (ToolCall("t1", ""), used(name="unnamed")),
    ],
)
def test_calls(call, expected):
    """Calls go out with an object as their input, and with ids that the protocol takes, the same in the result."""
    _, (_, (sent,)), (_, (result,)) = turns(HELLO, AssistantMessage("", (call,)), ToolMessage(call.id, "x"))

    assert expected.items() <= sent.items()
    assert sent["id"].replace("_", "").isalnum()
    assert sent["id"] == result["tool_use_id"]


@pytest.mark.parametrize(
    ("status", "is_error"),
    [(ToolStatus.OK, False), (ToolStatus.ERROR, True), (ToolStatus.INTERRUPTED, True), (ToolStatus.UNKNOWN, True)],
)
def test_results(status, is_error):
    """A result says whether it is a failure, and is never empty."""
    _, _, (_, (result,)) = turns(HELLO, ASKED, ToolMessage("t1", "", status))

    assert (NO_OUTPUT, is_error) == (result["content"], result.get("is_error", False))


# ---------------------------------------------------------------- what the model wants back


def thought(words, *calls, kept, model="m"):
    """A reply of which these blocks were kept."""
    return AssistantMessage(words, calls, "hm", (replay_item(model, kept),))


def said(message, *after, **facts):
    """The blocks that this message becomes in a conversation."""
    return next(
        content for role, content in turns(HELLO, message, *(after or (HELLO,)), **facts) if role == "assistant"
    )


def test_thoughts_go_back_unchanged_and_in_their_places():
    """Signed thoughts stand where they stood, also between calls."""
    second = {**THOUGHT, "thinking": "so"}
    other = ToolCall("t2", "look", "{}")
    message = thought(
        "Now.", CALL, other, kept=[THOUGHT, text("Now."), {"type": "tool_use"}, second, {"type": "tool_use"}]
    )

    assert [THOUGHT, text("Now."), used(at="x"), second, used("t2")] == said(message, RESULT, ToolMessage("t2", "red"))


def test_words_that_led_up_to_the_reply_stand_behind_its_first_thoughts():
    """A reply that went on from a cut one begins with its thoughts all the same: the protocol demands it."""
    message = thought("First. Now.", CALL, kept=[THOUGHT, text("Now."), {"type": "tool_use"}])

    assert [THOUGHT, text("First. "), text("Now."), used(at="x")] == said(message, RESULT)


@pytest.mark.parametrize("words", ["Changed.", "Now."])
def test_a_reply_that_was_changed_since_keeps_its_first_thoughts(words):
    """Where the message is no longer what was kept, it goes out as it is now, behind the thoughts that led it."""
    kept = [THOUGHT, text("Now."), {"type": "tool_use"}, THOUGHT, {"type": "tool_use"}]

    assert [THOUGHT, text(words), used(at="x")] == said(thought(words, CALL, kept=kept), RESULT)


@pytest.mark.parametrize(
    "replay",
    [
        pytest.param((replay_item("other", [THOUGHT]),), id="another model's"),
        pytest.param(({"protocol": "openai-responses", "model": "m", "content": [THOUGHT]},), id="another protocol's"),
        pytest.param(({"type": "reasoning", "encrypted_content": "e"}, "x", None, 7), id="of a shape of their own"),
        pytest.param(({"protocol": "anthropic", "model": "m", "content": None},), id="empty"),
    ],
)
def test_what_others_want_back_is_not_sent(replay):
    """A signature is good for the model that gave it, and for no other."""
    assert [text("Now."), used(at="x")] == said(evolve(ASKED, replay=replay), RESULT)


def test_thoughts_alone_are_no_message():
    """A reply of nothing but thoughts is left out."""
    assert [("user", [text("Hello"), text("Hello")])] == turns(HELLO, thought("", kept=[THOUGHT]), HELLO)


def test_the_provider_s_own_tools_go_back_with_their_results():
    """A call of such a tool without its result is kept only where the model is to go on from it."""
    whole = thought("Yes.", kept=[SEARCH, FOUND, text("Yes.")])
    paused = thought("So. ", kept=[text("So. "), SEARCH])
    resumed = thought("Yes.", kept=[FOUND, text("Yes.")])

    assert [SEARCH, FOUND, text("Yes.")] == said(whole)
    assert ("assistant", [text("So. "), SEARCH]) == turns(HELLO, paused)[-1]
    assert [text("So. ")] == said(paused)
    assert [text("So. "), SEARCH, FOUND, text("Yes.")] == said(paused, resumed, HELLO)
    assert [text("Yes.")] == said(resumed)
    assert [("user", [text("Hello"), text("Hello")])] == turns(HELLO, thought("", kept=[THOUGHT, SEARCH]), HELLO)


def test_what_was_kept_is_not_changed():
    """The message is the same after it was sent: it will be sent again."""
    kept = [THOUGHT, text("So. ")]
    message = thought("So. ", kept=kept)
    turns(HELLO, message)

    assert [THOUGHT, text("So. ")] == kept


# ---------------------------------------------------------------- tools


def test_tools_on_offer():
    """Tools are told in the protocol's words, beside those that `extra` brings."""
    search = {"type": "web_search_20250305", "name": "web_search"}
    made = body(HELLO, tools=[LOOK, ToolSpec("list")], shape=MessagesShape("m", {"tools": [search]}))

    assert [search, LOOK_THERE, {"name": "list", "input_schema": ToolSpec("list").parameters}] == made["tools"]
    assert "tool_choice" not in made


def test_tools_off():
    """Where the history holds calls the tools stay defined and are forbidden; else they are not told at all."""
    forced = MessagesShape("m", {"tool_choice": {"type": "any"}})

    made = body_of(Request(0, (HELLO, ASKED, RESULT), tools=False), [LOOK], forced)

    assert ([LOOK_THERE], {"type": "none"}) == (made["tools"], made["tool_choice"])
    assert {"tools", "tool_choice"}.isdisjoint(body_of(Request(0, (HELLO,), tools=False), [LOOK], forced))


def test_a_history_with_calls_and_a_turn_without_tools():
    """The tools that the history names are defined, since the protocol demands it, and forbidden."""
    made = body(HELLO, ASKED, RESULT)

    assert ([{"name": "look", "input_schema": {"type": "object"}}], {"type": "none"}) == (
        made["tools"],
        made["tool_choice"],
    )


# ---------------------------------------------------------------- parameters


def test_extra_parameters():
    """Further parameters go out; the model, the messages and the stream are the turn's."""
    extra = {"temperature": 0, "model": "x", "messages": [], "stream": True, "system": "Be kind."}
    made = body(HELLO, stream=False, shape=MessagesShape("m", extra))

    assert (0, "m", 1, "Be kind.") == (made["temperature"], made["model"], len(made["messages"]), made["system"])
    assert "stream" not in made


@pytest.mark.parametrize(
    ("limit", "extra", "own", "expected"),
    [(None, {}, 500, 500), (None, {"max_tokens": 700}, 500, 700), (900, {"max_tokens": 700}, 500, 900)],
)
def test_the_output_limit(limit, extra, own, expected):
    """The turn's own limit comes first, then that of the body's further parameters, then the provider's."""
    assert expected == body(HELLO, output_limit=limit, shape=MessagesShape("m", extra, own))["max_tokens"]


def test_what_the_provider_does_not_know_is_left_out():
    """Parameters that were refused go, all but those without which there is no request."""
    shape = MessagesShape("m", {"temperature": 0, "thinking": {"type": "adaptive"}})
    made = body(HELLO, shape=shape, without=frozenset({"temperature", "thinking.type", "max_tokens", "model"}))

    assert {"model", "max_tokens", "messages", "stream"} == set(made)


ON = {"type": "enabled", "budget_tokens": 4000}
OFF = {"type": "disabled"}


@pytest.mark.parametrize(
    ("thinking", "limit", "less", "expected"),
    [
        (ON, 8000, False, ON),
        (ON, 4000, False, {**ON, "budget_tokens": 2000}),
        (ON, 2000, False, OFF),
        (ON, 8000, True, {**ON, "budget_tokens": 1024}),
        ({**ON, "budget_tokens": 1024}, 8000, True, OFF),
        (ON, 1000, True, OFF),
        (OFF, 8000, False, OFF),
        ({"type": "adaptive"}, 8000, False, {"type": "adaptive"}),
    ],
)
def test_the_budget_of_thoughts(thinking, limit, less, expected):
    """Thoughts are fewer than the reply may have, and fewer still where less of them is asked for."""
    made = body(HELLO, output_limit=limit, less_reasoning=less, shape=MessagesShape("m", {"thinking": thinking}))

    assert expected == made["thinking"]


@pytest.mark.parametrize(
    ("output", "without", "thinking", "expected"),
    [
        (None, (), {"type": "adaptive"}, {"effort": "low"}),
        ({"effort": "high", "format": 1}, (), {"type": "adaptive"}, {"effort": "low", "format": 1}),
        ({"effort": "low"}, (), OFF, {"effort": "low"}),
        (None, ("output_config",), OFF, None),
    ],
)
def test_less_of_thoughts_that_the_model_measures_itself(output, without, thinking, expected):
    """Where the model decides how much it thinks it is asked for low effort; where that was so, not to think."""
    extra = {"thinking": {"type": "adaptive"}} | ({"output_config": output} if output else {})
    made = body(HELLO, less_reasoning=True, without=frozenset(without), shape=MessagesShape("m", extra))

    assert (thinking, expected) == (made["thinking"], made.get("output_config"))


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ((HELLO,), [text("Hello"), text(BE_BRIEF)]),
        (
            (HELLO, ASKED, RESULT),
            [{"type": "tool_result", "tool_use_id": "t1", "content": "green"}, text(BE_BRIEF)],
        ),
        ((HELLO, AssistantMessage("So")), [text(BE_BRIEF)]),
    ],
)
def test_where_no_thoughts_were_on_less_is_asked_for_in_words(messages, expected):
    """A short word of the user's makes the request another one."""
    assert ("user", expected) == turns(*messages, less_reasoning=True)[-1]


@pytest.mark.parametrize(
    ("kept", "expected"),
    [([THOUGHT, text("Now."), {"type": "tool_use"}], ON), ([], OFF)],
)
def test_a_round_of_tools_that_was_begun_without_thoughts_goes_on_without(kept, expected):
    """After a change of the provider the round has none that can be sent, and the protocol demands them or none."""
    message = thought("Now.", CALL, kept=kept)
    shape = MessagesShape("m", {"thinking": ON})

    assert expected == body(HELLO, message, RESULT, shape=shape)["thinking"]
    assert ON == body(HELLO, message, RESULT, AssistantMessage("Green."), HELLO, shape=shape)["thinking"]


# ---------------------------------------------------------------- whatever is said

WORDS = st.text(alphabet="a \n", max_size=3)
KEPT = st.lists(
    st.sampled_from(
        [THOUGHT, text("a"), {"type": "tool_use"}, SEARCH, FOUND, {"type": "redacted_thinking", "data": "x"}]
    ),
    max_size=4,
)


@st.composite
def rounds(draw):
    """A reply, and the results of the calls in it."""
    calls = tuple(ToolCall(f"t{n}", "look") for n in range(draw(st.integers(0, 2))))
    message = AssistantMessage(draw(WORDS), calls, "", (replay_item(draw(st.sampled_from("mx")), draw(KEPT)),))
    return (message, *(ToolMessage(call.id, draw(WORDS)) for call in calls))


HISTORIES = st.lists(
    rounds()
    | st.builds(lambda words: (UserMessage(words),), WORDS)
    | st.builds(lambda words: (SystemMessage(words),), WORDS),
    max_size=6,
)


@given(HISTORIES, st.booleans(), st.booleans())
def test_whatever_is_said_is_a_request_that_the_protocol_takes(history, tools, less):
    """Roles alternate and the user is first, nothing is empty, each call has its result right behind it, and so on."""
    messages = tuple(message for each in history for message in each)
    shape = MessagesShape("m", {"thinking": ON})
    made = body_of(Request(0, messages, tools=tools, less_reasoning=less), [LOOK], shape)
    told = made["messages"]

    assert ["user", "assistant"] * (len(told) // 2) + ["user"] * (len(told) % 2) == [each["role"] for each in told]
    assert all(
        any(block["type"] not in ("thinking", "redacted_thinking") for block in each["content"]) for each in told
    )
    assert all(block["text"].strip() for each in told for block in each["content"] if block["type"] == "text")
    for asked, answered in zip(told, [*told[1:], {"content": []}], strict=False):
        if asked["role"] == "assistant":
            calls = [block["id"] for block in asked["content"] if block["type"] == "tool_use"]
            results = [block["tool_use_id"] for block in answered["content"] if block["type"] == "tool_result"]
            assert calls == results
            assert calls == [] or "tool_result" == answered["content"][0]["type"]
    assert made["thinking"].get("budget_tokens", 0) < made["max_tokens"]
