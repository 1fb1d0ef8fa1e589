"""What is said: when a text stops in the middle, when it is clean, and when it only repeats itself."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fsm_loop.core.messages import (
    REPETITION_WINDOW,
    AssistantMessage,
    Finish,
    MediaPart,
    Reply,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolStatus,
    Usage,
    UserMessage,
    arguments_of,
    clean,
    cleaned,
    is_cut,
    repeats,
)

NUMBERS = st.integers() | st.floats() | st.sampled_from([1e300, 1.5e-300, -0.0])
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
ARGUMENTS = st.dictionaries(st.text(), VALUES, max_size=4)
ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))
DEEP = "[" * 100_000


# ---------------------------------------------------------------- arguments


@given(ARGUMENTS, st.booleans(), st.sampled_from([None, 1]))
@example(
    {"a": [True, False, None, float("nan"), float("inf"), -float("inf"), 1.5e-7, -12, '\u00e9\U0001f600\\"\n']},
    True,
    None,
)
def test_every_beginning_of_arguments_is_cut(arguments, ascii_only, indent):
    """Wherever the arguments of a call stop before their end, it shows; the whole of them is whole."""
    text = json.dumps(arguments, ensure_ascii=ascii_only, indent=indent)

    assert [] == [text[:end] for end in range(1, len(text)) if not is_cut(text[:end])]
    assert not is_cut(text)


@given(ARGUMENTS, st.text(min_size=1).filter(str.strip))
@example({}, "t")
@example({"a": 1}, "-")
@example({"a": 1}, ".")
@example({}, "}")
def test_what_goes_on_behind_its_end_is_malformed_and_not_cut(arguments, more):
    """More of the text could not make it whole, so it is no matter of the output limit."""
    assert not is_cut(json.dumps(arguments) + more)


@pytest.mark.parametrize(
    "text",
    [
        "", " \n", "{}", "[]", "7", "hello", "{'a': 1}", '{"a" 1}', '{"a": 1,, "b": 2}', '{"a": x', '{"a": "x" t', '{"a": "x" e',
        '{"a": "\\u12zz"}', '{"a": "\\q', '{"a": nulx', '{"a": 1 2', "{a", '{"a": "one\ntwo', '{"a": 01', '{"a": "b".',
    ],
)  # fmt: skip
def test_what_is_malformed_or_whole_is_not_cut(text):
    """Blank arguments are whole, and what could not go on to anything is malformed."""
    assert not is_cut(text)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"a',
        '{"a"',
        '{"a":',
        '{"a": -',
        '{"a": 1.',
        '{"a": 1e',
        '{"a": 1.5E-',
        '{"a": tr',
        '{"a": "\\',
        '{"a": "\\u12',
        "[N",
        "-Infin",
        "1e",
    ],
)
def test_what_stops_in_the_middle_is_cut(text):
    """A token that has begun counts as much as a bracket that is open."""
    assert is_cut(text)


@pytest.mark.parametrize("text", [DEEP, '{"a": ' + "9" * 6000 + "}"], ids=["deep", "a number of 6,000 digits"])
def test_arguments_that_no_reader_can_follow_are_malformed(text):
    """What no reader can follow is no call that can be run, and more of it would not help."""
    assert not is_cut(text)
    assert None is arguments_of(ToolCall("c1", "add", text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [('{"a": 1}', {"a": 1}), ("", {}), (" \n", {}), ("[1]", None), ("7", None), ('{"a": ', None), ("null", None)],
)
def test_the_arguments_of_a_call_are_a_mapping(text, expected):
    """Several providers send nothing for a tool that takes nothing; what is no mapping is no arguments."""
    assert expected == arguments_of(ToolCall("c1", "add", text))


# ---------------------------------------------------------------- what UTF-8 can carry


@given(ANY_TEXT)
@example("a\ud800b\x00")
def test_clean_text_can_be_sent(text):
    """What is clean can be carried by UTF-8 and holds no NUL; cleaning it again changes nothing, nor the length."""
    fresh = clean(text)

    assert fresh.encode().decode() == fresh
    assert "\x00" not in fresh
    assert fresh == clean(fresh)
    assert len(text) == len(fresh)


def each_kind(word: str):
    """A message of each kind, with the word wherever a text may stand."""
    return [
        SystemMessage(word),
        UserMessage(word),
        UserMessage((TextPart(word), MediaPart("data:image/png;base64,"))),
        AssistantMessage(word),
        AssistantMessage("", (), word),
        AssistantMessage("", (ToolCall(word, "add"),)),
        AssistantMessage("", (ToolCall("c1", word),)),
        AssistantMessage("", (ToolCall("c1", "add", word),)),
        ToolMessage("c1", word, ToolStatus.ERROR),
        ToolMessage(word, "3"),
    ]


@pytest.mark.parametrize(
    ("dirty", "expected"), list(zip(each_kind("a\ud800\x00"), each_kind("a\ufffd\ufffd"), strict=True))
)
def test_every_text_of_a_message_is_cleaned(dirty, expected):
    """Whatever kind of message it is and wherever the text stands."""
    assert expected == cleaned(dirty)


@pytest.mark.parametrize("message", each_kind("caf\u00e9 \U0001f600"))
def test_a_clean_message_stays_the_same_object(message):
    """So whoever asks can tell whether there was anything to do."""
    assert message is cleaned(message)


# ---------------------------------------------------------------- repetition


LISTING = "\n".join(f"{number}. The value of item {number} is {number * 37 % 101}." for number in range(40))
PROSE = (
    "The state machine waits for the reply of the model, and every row of its table says what comes of it. "
    "When the reply is cut it decides how to go on; when a tool is asked for, it runs it and keeps the result. "
    "Nothing else changes the state, so that whoever reads the page has read the machine."
)


@given(st.text("abcdefgh ", min_size=1, max_size=30), st.integers(20, 80))
def test_a_stretch_said_over_and_over_is_a_repetition(stretch, times):
    """However long the stretch, once it fills what is looked at."""
    text = PROSE + stretch * max(times, REPETITION_WINDOW // len(stretch) + 1)

    assert repeats(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", False),
        ("no no no no no no", False),  # too short to tell
        ("ha" * 30, True),
        ("ha" * 29, False),
        (PROSE, False),
        (LISTING, False),
        (PROSE + "|---" * 20, False),  # the rule under the head of a table
        (PROSE + " and so on" * 100, True),
        ("x" * 100 + PROSE * 2, False),  # it has got over it
        (PROSE * 2, False),  # twice is no loop
    ],
)
def test_a_repetition_is_told_from_a_list(text, expected):
    """Only the end of a text is looked at, and most of it must be one stretch, at least three times."""
    assert expected is repeats(text)


# ---------------------------------------------------------------- small things


def test_a_users_text_leaves_media_out():
    """The text of a message is that of its parts."""
    assert "one two" == UserMessage((TextPart("one "), MediaPart("https://example.org/a.png"), TextPart("two"))).text
    assert "one" == UserMessage("one").text


def test_usage_adds_up():
    """Tokens and money of two calls are those of both."""
    both = Usage(1, 2, 3, 4, 0.5) + Usage(10, 20, 30, 40, 0.25)

    assert Usage(11, 22, 33, 44, 0.75) == both
    assert 33 == both.total_tokens


def test_a_reply_is_said_behind_its_lead():
    """What led up to a reply stands before it in the message, and what its provider wants back is kept."""
    reply = Reply("is.", (ToolCall("c1", "add"),), "Hm.", Finish.STOP, replay=("sealed",))

    assert AssistantMessage("It is.", (ToolCall("c1", "add"),), "Hm.", ("sealed",)) == reply.message("It ")


def test_two_replies_are_the_same_whoever_served_them():
    """The ids of a request are for whoever looks for it, and make no difference."""
    assert Reply("It is.", model="a", request_id="1") == Reply("It is.", model="b", request_id="2")
