"""Chunks and bodies of Chat Completions as deltas, with all that compatible providers do to them."""

from __future__ import annotations

import json

import pytest

from fsm_loop.core.faults import Fault, FaultKind
from fsm_loop.core.messages import Finish, Usage
from fsm_loop.errors import ModelError
from fsm_loop.ports import CallDelta, Meta, ReasoningDelta, Stopped, TextDelta
from fsm_loop.providers.chat_decode import DONE, ChatDecoder, parsed
from fsm_loop.testing.server import called, chunk, said


def decoded(*chunks):
    """The deltas of these chunks, but for what is only known about them."""
    decoder = ChatDecoder()
    deltas = [
        delta for each in chunks for delta in decoder.event("", each if isinstance(each, str) else json.dumps(each))
    ]
    return [delta for delta in deltas if not isinstance(delta, Meta)]


def calls_of(deltas):
    """The tool calls of these deltas, put together as the driver does: id and name set, arguments added up."""
    slots = {}
    for delta in deltas:
        if isinstance(delta, CallDelta):
            call_id, name, arguments = slots.get(delta.slot, ("", "", ""))
            slots[delta.slot] = (delta.id or call_id, delta.name or name, arguments + delta.arguments)
    return list(slots.values())


def pieces(*calls):
    """One chunk with these pieces of tool calls."""
    return chunk({"tool_calls": list(calls)})


def piece(index=None, call_id=None, name=None, arguments=None):
    """A piece of a tool call, holding what is given."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    placed = {key: value for key, value in (("index", index), ("id", call_id)) if value is not None}
    return {**placed, "type": "function", "function": function}


@pytest.mark.parametrize(
    ("delta", "expected"),
    [
        ({"content": "Hi"}, [TextDelta("Hi")]),
        ({"role": "assistant", "content": ""}, []),
        ({"content": None}, []),
        ({}, []),
        ({"content": 7}, []),
        ({"reasoning_content": "Hm"}, [ReasoningDelta("Hm")]),
        ({"reasoning": "Hm"}, [ReasoningDelta("Hm")]),
        ({"reasoning": "Hm", "reasoning_content": "Hm"}, [ReasoningDelta("Hm")]),
        ({"reasoning": {"text": "Hm"}}, []),
        ({"reasoning_content": "Hm", "content": "Hi"}, [ReasoningDelta("Hm"), TextDelta("Hi")]),
        ({"content": [{"type": "text", "text": "H"}, "i", {"type": "image"}]}, [TextDelta("Hi")]),
        ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}]}, [ReasoningDelta("Hm")]),
        ({"content": [{"type": "thinking", "thinking": "Hm"}]}, [ReasoningDelta("Hm")]),
        ({"tool_calls": []}, []),
        ({"tool_calls": None}, []),
        ({"tool_calls": [None, 7, {}]}, []),
        ({"tool_calls": {"index": 0}}, []),
    ],
)
def test_words(delta, expected):
    """Text and reasoning come under several names; what says nothing yields nothing."""
    assert expected == decoded(chunk(delta))


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"choices": []},
        {"choices": None},
        {"choices": [None]},
        {"choices": [{}]},
        {"choices": [{"index": 0, "delta": None, "finish_reason": None}]},
        {"choices": [{"index": 0}]},
        {"choices": [{"index": 1, "delta": {"content": "another"}}]},
        {"choices": [], "usage": None},
        {"choices": [], "usage": {}},
        {"type": "ping"},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": ""}]},
    ],
)
def test_chunks_that_say_nothing(value):
    """Nothing at all comes of an empty chunk, so that it is no progress."""
    assert [] == ChatDecoder("r1").chunk(value)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("stop", Finish.STOP),
        ("length", Finish.LENGTH),
        ("max_tokens", Finish.LENGTH),
        ("tool_calls", Finish.TOOL_CALLS),
        ("function_call", Finish.TOOL_CALLS),
        ("content_filter", Finish.REFUSED),
        ("STOP", Finish.STOP),
        ("end_turn", Finish.STOP),
        ("eos", Finish.STOP),
    ],
)
def test_finish_reasons(reason, expected):
    """Every word that is not known to mean something else ends the reply well."""
    assert [Stopped(expected)] == decoded(chunk(finish=reason))


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("abort", FaultKind.INCOMPLETE),
        ("error", FaultKind.SERVER_ERROR),
        ("insufficient_system_resource", FaultKind.OVERLOADED),
        ("malformed_function_call", FaultKind.MISSPOKE),
        ("function_call_filter: MALFORMED_FUNCTION_CALL", FaultKind.MISSPOKE),
    ],
)
def test_finish_reasons_that_are_failures(reason, kind):
    """Some providers say where a finish reason should stand that the reply broke off."""
    with pytest.raises(ModelError) as raised:
        decoded(chunk(finish=reason))

    assert kind is raised.value.fault.kind


def test_the_first_finish_reason_counts():
    """A second one changes nothing, nor does `[DONE]` behind it."""
    assert [Stopped(Finish.LENGTH)] == decoded(chunk(finish="length"), chunk(finish="stop"), DONE)


@pytest.mark.parametrize(
    ("chunks", "finish"),
    [
        ([], Finish.STOP),
        ([said("Hi")], Finish.STOP),
        ([called(0, "c1", "look", "{}")], Finish.TOOL_CALLS),
        ([chunk({"refusal": "No."})], Finish.REFUSED),
    ],
)
def test_done_is_terminal_evidence(chunks, finish):
    """`[DONE]` without a finish reason says that this was all."""
    assert Stopped(finish) == decoded(*chunks, DONE)[-1]


def test_a_refusal_is_shown_and_refused():
    """The words of a refusal are for the person to read; the reply is refused, though it ends with `stop`."""
    assert [TextDelta("I can't."), Stopped(Finish.REFUSED)] == decoded(chunk({"refusal": "I can't."}, "stop"))


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        pytest.param(
            [called(0, "c1", "look", ""), called(0, None, None, '{"at":'), called(0, None, None, '"x"}')],
            [("c1", "look", '{"at":"x"}')],
            id="fragments",
        ),
        pytest.param([pieces(piece(0, "c1", "look", "{}"))], [("c1", "look", "{}")], id="whole in one chunk"),
        pytest.param(
            [pieces(piece(0, "c1", "look", "{}"), piece(1, "c2", "hear", "{}"))],
            [("c1", "look", "{}"), ("c2", "hear", "{}")],
            id="two in one chunk",
        ),
        pytest.param(
            [
                called(0, "c1", "look", ""),
                called(1, "c2", "hear", ""),
                called(0, None, None, "{"),
                called(1, None, None, "["),
                called(0, None, None, "}"),
                called(1, None, None, "]"),
            ],
            [("c1", "look", "{}"), ("c2", "hear", "[]")],
            id="interleaved",
        ),
        pytest.param([called(1, "c1", "look", "{}")], [("c1", "look", "{}")], id="the first index is 1"),
        pytest.param([pieces(piece("0", "c1", "look", "{}"))], [("c1", "look", "{}")], id="an index that is text"),
        pytest.param(
            [called(0, "c1", "look", "{"), called(0, "c1", "look", "}")],
            [("c1", "look", "{}")],
            id="id and name in every chunk",
        ),
        pytest.param(
            [called(0, "c1", "lo", ""), called(0, None, "ok", ""), called(0, None, None, "{}")],
            [("c1", "look", "{}")],
            id="the name in pieces",
        ),
        pytest.param(
            [called(0, "c1", "lo", ""), called(0, None, "look", "{}")],
            [("c1", "look", "{}")],
            id="the name so far in every chunk",
        ),
        pytest.param(
            [called(0, "c1", "look", '{"at"'), called(0, None, "loo", ":1}")],
            [("c1", "look", '{"at":1}')],
            id="a name behind the arguments' begin is none",
        ),
        pytest.param(
            [pieces(piece(0, "c1", None, "{")), pieces(piece(0, None, "look", "}"))],
            [("c1", "look", "{}")],
            id="arguments before the name",
        ),
        pytest.param(
            [called(0, "c1", "look", "{}"), called(0, "c2", "look", "{}"), called(0, "c3", "hear", "{}")],
            [("c1", "look", "{}"), ("c2", "look", "{}"), ("c3", "hear", "{}")],
            id="same index, new id",
        ),
        pytest.param(
            [called(0, "c1", "look", "{"), called(0, "c2", "look", "["), called(0, "c1", None, "}")],
            [("c1", "look", "{}"), ("c2", "look", "[")],
            id="same index, an id that comes back",
        ),
        pytest.param(
            [called(0, "c1", "look", "{}"), called(1, "c1", "hear", "{}")],
            [("c1", "look", "{}"), ("c1", "hear", "{}")],
            id="same id, another index",
        ),
        pytest.param(
            [pieces(piece(None, "c1", "look", "{")), pieces(piece(None, None, None, "}"))],
            [("c1", "look", "{}")],
            id="no index",
        ),
        pytest.param(
            [
                pieces(piece(None, "c1", "look", "{}")),
                pieces(piece(None, "c2", "hear", "[")),
                pieces(piece(None, None, None, "]")),
                pieces(piece(None, "c1", None, " ")),
            ],
            [("c1", "look", "{} "), ("c2", "hear", "[]")],
            id="no index, two ids",
        ),
        pytest.param(
            [pieces(piece(0, None, "look", "{")), pieces(piece(0, None, None, "}"))],
            [("", "look", "{}")],
            id="no id",
        ),
        pytest.param(
            [pieces(piece(None, None, "look", "{}"), piece(None, None, "look", "{}"))],
            [("", "look", "{}"), ("", "look", "{}")],
            id="neither index nor id, two in one chunk",
        ),
        pytest.param(
            [pieces(piece(None, None, "look", ""), piece(None, None, "look", ""))],
            [("", "look", ""), ("", "look", "")],
            id="neither, two without arguments",
        ),
        pytest.param(
            [pieces(piece(None, None, "look", '{"at":1}')), pieces(piece(None, None, "look", '{"at":2}'))],
            [("", "look", '{"at":1}'), ("", "look", '{"at":2}')],
            id="neither, one after the other",
        ),
        pytest.param(
            [pieces(piece(None, None, "look", '{"at"')), pieces(piece(None, None, "look", ":1}"))],
            [("", "look", '{"at":1}')],
            id="neither, the name in every chunk",
        ),
        pytest.param([pieces(piece(0, 7, "look", "{}"))], [("7", "look", "{}")], id="an id that is a number"),
        pytest.param([pieces(piece(0, "", "look", "{}"))], [("", "look", "{}")], id="an id that is empty"),
        pytest.param([pieces(piece(0, "c1", "look", {"at": 1}))], [("c1", "look", '{"at": 1}')], id="arguments as an object"),
        pytest.param([pieces({"index": 0, "id": "c1", "function": {"name": "look", "arguments": None}})], [("c1", "look", "")], id="arguments null"),
        pytest.param(
            [chunk({"function_call": {"name": "look", "arguments": ""}}), chunk({"function_call": {"arguments": "{}"}})],
            [("", "look", "{}")],
            id="the legacy function call",
        ),
        pytest.param([pieces(piece(0, "c1", "", ""), piece(0, None, None, "{}"))], [("c1", "", "{}")], id="no name"),
    ],
)  # fmt: skip
def test_tool_calls(chunks, expected):
    """Calls come out whole and apart from each other, whatever is missing, repeated or misplaced."""
    assert expected == calls_of(decoded(*chunks))


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}, Usage(3, 2)),
        (
            {
                "prompt_tokens": 3,
                "completion_tokens": 2,
                "prompt_tokens_details": {"cached_tokens": 1},
                "completion_tokens_details": {"reasoning_tokens": 1},
                "cost": 0.5,
            },
            Usage(3, 2, 1, 1, 0.5),
        ),
        ({"prompt_tokens": 3, "prompt_cache_hit_tokens": 2}, Usage(3, 0, 2)),
        ({"prompt_tokens": 3.0, "completion_tokens": None, "prompt_tokens_details": None}, Usage(3)),
        ({"prompt_tokens": -1, "completion_tokens": "2", "cost": float("inf")}, Usage()),
    ],
)
def test_usage(usage, expected):
    """What a reply cost is taken from a chunk without choices, and what is no count counts nothing."""
    assert [Meta(expected, model="m", request_id="r1")] == ChatDecoder("r1").chunk(chunk(choices=[], usage=usage))


def test_model_and_request_are_told_once():
    """What is known of a reply comes with its first words, not with every chunk."""
    decoder = ChatDecoder("r1")
    deltas = [delta for each in (chunk(), said("a"), said("b")) for delta in decoder.chunk(each)]

    assert [Meta(model="m", request_id="r1"), TextDelta("a"), TextDelta("b")] == deltas


@pytest.mark.parametrize(
    ("name", "data", "kind", "message"),
    [
        ("", {"error": {"message": "Down", "code": 502}}, FaultKind.SERVER_ERROR, "Down"),
        ("", {"error": {"message": "Slow", "code": 429}, "choices": []}, FaultKind.RATE_LIMITED, "Slow"),
        ("", {"error": "upstream connect error"}, FaultKind.DROPPED, "upstream connect error"),
        (
            "",
            {"error": {"message": "stream disconnected", "type": "invalid_request_error"}},
            FaultKind.DROPPED,
            "stream",
        ),
        ("", {"object": "error", "message": "context length", "code": 400}, FaultKind.CONTEXT_TOO_LONG, "context"),
        ("", {"type": "error", "error": {"type": "overloaded_error", "message": "x"}}, FaultKind.OVERLOADED, "x"),
        ("", [{"error": {"message": "Quota", "status": "RESOURCE_EXHAUSTED"}}], FaultKind.RATE_LIMITED, "Quota"),
        ("", {"error": {"message": "filtered", "code": "content_filter"}}, FaultKind.REFUSED, "filtered"),
        ("error", "Internal Server Error", FaultKind.SERVER_ERROR, "Internal Server Error"),
        (
            "error",
            {"code": 400, "message": "exceeds the available context size"},
            FaultKind.CONTEXT_TOO_LONG,
            "exceeds",
        ),
        ("error", {"error": {"message": "Down", "code": 503}}, FaultKind.OVERLOADED, "Down"),
        ("", '{"choices":[{"del\n{"error": {"message": "Down"}}', FaultKind.SERVER_ERROR, "Down"),
        ("", '{"choices":[{"del', FaultKind.MALFORMED, "not JSON"),
        ("", '{"choices": []}\n{"choices":[{"del', FaultKind.MALFORMED, "not JSON"),
        ("", "7", FaultKind.MALFORMED, "int"),
        ("", '["a", "b"]', FaultKind.MALFORMED, "list"),
        ("", "true", FaultKind.MALFORMED, "bool"),
    ],
)
def test_errors_inside_a_stream(name, data, kind, message):
    """An error inside a reply is read like one with a status; a chunk is malformed only where nothing can be made of it."""
    with pytest.raises(ModelError) as raised:
        ChatDecoder().event(name, data if isinstance(data, str) else json.dumps(data))

    assert kind is raised.value.fault.kind
    assert message in raised.value.fault.message


def test_a_chunk_that_is_null_says_nothing():
    """Gateways send one to keep a connection alive."""
    assert [] == ChatDecoder().event("", "null")


def test_chunks_that_no_blank_line_parts():
    """Several chunks in one event are several chunks."""
    data = "\n".join(json.dumps(each) for each in (said("a"), said("b")))

    assert [TextDelta("a"), TextDelta("b")] == decoded(data)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": "\\ud83d"}', {"a": "�"}),
        ('{"a": ["\\ude00", {"\\ud83d": 1}]}', {"a": ["�", {"�": 1}]}),
        ('{"a": "\\ud83d\\ude00"}', {"a": "😀"}),
        ('{"a": "1\n2"}', {"a": "1\n2"}),
        ('{"a": 1e999}', {"a": float("inf")}),
    ],
)
def test_json_that_is_not_quite(text, expected):
    """Lone surrogates and raw control characters are borne, and nothing comes of them that cannot be sent on."""
    assert expected == parsed(text)


@pytest.mark.parametrize("text", ["{", "", "[" * 100_000])
def test_json_that_is_none(text):
    """What is no JSON is told so, however deep it goes."""
    with pytest.raises(ValueError):  # noqa: PT011  # the text is the JSON library's
        parsed(text)


@pytest.mark.parametrize(
    ("message", "reason", "expected"),
    [
        ({"content": "Hi"}, "stop", [TextDelta("Hi"), Stopped(Finish.STOP)]),
        ({"content": "Hi"}, None, [TextDelta("Hi"), Stopped(Finish.STOP)]),
        ({"content": "Hi", "tool_calls": []}, "stop", [TextDelta("Hi"), Stopped(Finish.STOP)]),
        ({"content": "Hi"}, "length", [TextDelta("Hi"), Stopped(Finish.LENGTH)]),
        (
            {"content": None, "tool_calls": [piece(None, "c1", "look", "{}"), piece(None, "c2", "look", "{}")]},
            None,
            [CallDelta(0, "c1", "look", "{}"), CallDelta(1, "c2", "look", "{}"), Stopped(Finish.TOOL_CALLS)],
        ),
        (
            {"tool_calls": [piece(None, "c1", "look", "{}"), piece(None, "c1", "look", "{}")]},
            "tool_calls",
            [CallDelta(0, "c1", "look", "{}"), Stopped(Finish.TOOL_CALLS)],
        ),
        (
            {"tool_calls": [piece(None, "c1", "look", "{}"), piece(None, "c1", "hear", "{}")]},
            "tool_calls",
            [CallDelta(0, "c1", "look", "{}"), CallDelta(1, "c1", "hear", "{}"), Stopped(Finish.TOOL_CALLS)],
        ),
        (
            {"tool_calls": [piece(None, None, "look", "{}"), piece(None, None, "look", "{}")]},
            "tool_calls",
            [CallDelta(0, "", "look", "{}"), CallDelta(1, "", "look", "{}"), Stopped(Finish.TOOL_CALLS)],
        ),
    ],
)
def test_a_whole_body(message, reason, expected):
    """A reply in one body ends by itself; a call that is told twice is one, two calls with one id are two."""
    body = {"model": "m", "choices": [{"index": 0, "message": message, "finish_reason": reason}]}
    meta, *deltas = ChatDecoder("r1").whole(body)

    assert Meta(model="m", request_id="r1") == meta
    assert expected == deltas


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({}, FaultKind.MALFORMED),
        ({"choices": []}, FaultKind.MALFORMED),
        ({"choices": None}, FaultKind.MALFORMED),
        ({"id": None, "choices": None, "error": {"code": 503, "message": "x"}}, FaultKind.OVERLOADED),
        ("text", FaultKind.MALFORMED),
        (None, FaultKind.MALFORMED),
    ],
)
def test_a_whole_body_that_is_no_reply(body, kind):
    """A body without choices is no reply, and one with an error tells of it."""
    with pytest.raises(ModelError) as raised:
        ChatDecoder().whole(body)

    assert kind is raised.value.fault.kind


USAGE = {"prompt_tokens": 3, "completion_tokens": 4}
# A chunk of text with something beside it: in the delta, in the choice, in the chunk.
BESIDE = {
    "nothing": ({}, {}, {}),
    "a role": ({"role": "assistant"}, {}, {}),
    "nulls": ({"reasoning_content": None, "tool_calls": None, "refusal": None}, {"logprobs": None}, {"usage": None}),
    "reasoning": ({"reasoning_content": "Hm"}, {}, {}),
    "a refusal": ({"refusal": "No"}, {}, {}),
    "a call": ({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]}, {}, {}),
    "an old call": ({"function_call": {"name": "f", "arguments": "{}"}}, {}, {}),
    "what nobody knows": ({"audio": {"id": "a"}}, {"stop_reason": None}, {"provider": "p"}),
    "an end": ({}, {"finish_reason": "stop"}, {}),
    "a failing end": ({}, {"finish_reason": "error"}, {}),
    "another choice": ({}, {"index": 1}, {}),
    "no index": ({}, {"index": None}, {}),
    "usage": ({}, {}, {"usage": USAGE}),
    "an error": ({}, {}, {"error": {"message": "overloaded", "code": 529}}),
    "the object of an error": ({}, {}, {"object": "error", "message": "no"}),
    "the type of an error": ({}, {}, {"type": "error", "message": "no"}),
}
QUICK = ("nothing", "a role", "nulls", "no index")


def heard(beside, text="Hi"):
    """What comes of a chunk of text behind another one, with what stands beside it: the deltas, or the fault."""
    delta, choice, more = BESIDE[beside]
    value = {
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": {"content": text, **delta}, "finish_reason": None, **choice}],
        **more,
    }
    decoder = ChatDecoder()
    decoder.event("", json.dumps(chunk({"content": "So: "})))
    try:
        return decoder.event("", json.dumps(value))
    except ModelError as error:
        return error.fault


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("text", ["Hi", "", "\ud800"])
def test_a_chunk_of_text_is_read_quickly_to_the_same_effect(monkeypatch, beside, text):
    """Whatever stands beside the text, the short way to read it says what the long way says."""
    short = heard(beside, text)
    monkeypatch.setattr("fsm_loop.providers.chat_decode._text_alone", lambda data: "")

    assert heard(beside, text) == short


@pytest.mark.parametrize(
    ("beside", "expected"),
    [
        *((each, [TextDelta("Hi")]) for each in QUICK),
        ("an end", [TextDelta("Hi"), Stopped(Finish.STOP)]),
        ("usage", [Meta(usage=Usage(3, 4)), TextDelta("Hi")]),
        ("reasoning", [ReasoningDelta("Hm"), TextDelta("Hi")]),
        ("another choice", []),
    ],
)
def test_what_stands_beside_a_text_is_heard(beside, expected):
    """An end, usage and reasoning beside a text are not passed over, and a choice that was not asked for is."""
    assert expected == heard(beside)


@pytest.mark.parametrize("beside", ["an error", "the object of an error", "the type of an error", "a failing end"])
def test_a_failure_beside_a_text_is_one(beside):
    """Text is no reason to overlook that the provider failed."""
    assert isinstance(heard(beside), Fault)
