"""Anthropic's Messages as deltas: each event on its own, and replies as they come."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_loop.core.faults import FaultKind
from fsm_loop.core.messages import Finish, Usage
from fsm_loop.errors import ModelError
from fsm_loop.ports import CallDelta, Meta, ReasoningDelta, Stopped, TextDelta
from fsm_loop.providers.anthropic_decode import FINISHES, MessagesDecoder, replay_item
from fsm_loop.providers.chat_read import ReplyReader

TEXT, TOOL = {"type": "text", "text": ""}, {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
THINKING = {"type": "thinking", "thinking": "", "signature": ""}


def begin(**usage):
    """The message begins."""
    return {"type": "message_start", "message": {"model": "m-2026", "usage": {"input_tokens": 3, **usage}}}


def start(index, block):
    """A block begins."""
    return {"type": "content_block_start", "index": index, "content_block": block}


def more(index, kind, **fields):
    """A block goes on."""
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def stop(index):
    """A block ends."""
    return {"type": "content_block_stop", "index": index}


def finish(reason, **usage):
    """The message is about to end."""
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


END = {"type": "message_stop"}


def deltas_of(*events, decoder=None):
    """All deltas of these events."""
    reader = decoder or MessagesDecoder("m", "r1")
    return [delta for each in events for delta in reader.event(each.get("type", ""), json.dumps(each))]


def said(*events):
    """The deltas but for what is only known of the reply."""
    return [delta for delta in deltas_of(*events) if not isinstance(delta, Meta)]


def replay_of(*events):
    """What the provider wants back."""
    return [item for delta in deltas_of(*events) if isinstance(delta, Meta) for item in delta.replay]


def fault_of(name, data):
    """The fault that this event tells of."""
    with pytest.raises(ModelError) as raised:
        MessagesDecoder().event(name, data)
    return raised.value.fault


# ---------------------------------------------------------------- a reply


def test_text():
    """Text comes as it is said, with the model, the request's id and the counts."""
    events = [
        begin(cache_read_input_tokens=100, cache_creation_input_tokens=10, output_tokens=1),
        start(0, TEXT),
        more(0, "text_delta", text="Hi"),
        {"type": "ping"},
        more(0, "text_delta", text="."),
        stop(0),
        finish("end_turn", output_tokens=7),
        END,
    ]

    assert [
        Meta(Usage(113, 1, 100), model="m-2026", request_id="r1"),
        TextDelta("Hi"),
        TextDelta("."),
        Meta(Usage(113, 7, 100)),
        Stopped(Finish.STOP),
    ] == deltas_of(*events)


def test_calls_are_put_together():
    """Each call has its id and name at once, and its input in pieces."""
    other = {**TOOL, "id": "t2", "name": "list"}
    events = [
        start(1, TOOL), more(1, "input_json_delta", partial_json=""), more(1, "input_json_delta", partial_json='{"a"'),
        more(1, "input_json_delta", partial_json=": 1}"), stop(1), start(2, other), stop(2), finish("tool_use"),
    ]  # fmt: skip

    assert [
        CallDelta(0, "t1", "look"),
        CallDelta(0, arguments='{"a"'),
        CallDelta(0, arguments=": 1}"),
        CallDelta(1, "t2", "list"),
        CallDelta(1, arguments="{}"),
        Stopped(Finish.TOOL_CALLS),
    ] == said(*events)


def test_an_input_that_comes_at_once_is_told_when_its_block_ends():
    """There are servers that send no pieces; one that sends both is read by its pieces."""
    whole = {**TOOL, "input": {"a": 1}}

    assert [CallDelta(0, "t1", "look"), CallDelta(0, arguments='{"a": 1}')] == said(start(0, whole), stop(0))
    assert [CallDelta(0, "t1", "look"), CallDelta(0, arguments="{}")] == said(
        start(0, whole), more(0, "input_json_delta", partial_json="{}"), stop(0)
    )


def test_thoughts_are_shown_and_kept_with_their_signatures():
    """What was thought is told as reasoning, and goes back signed, in its place."""
    events = [
        start(0, THINKING), more(0, "thinking_delta", thinking="h"), more(0, "thinking_delta", thinking="m"),
        more(0, "signature_delta", signature="c2ln"), stop(0),
        start(1, {"type": "redacted_thinking", "data": "xyz"}), stop(1),
        start(2, TEXT), more(2, "text_delta", text="Now."), stop(2),
        start(3, TOOL), stop(3), finish("tool_use"), END,
    ]  # fmt: skip

    assert [ReasoningDelta("h"), ReasoningDelta("m")] == said(*events)[:2]
    assert [
        replay_item(
            "m",
            [
                {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                {"type": "redacted_thinking", "data": "xyz"},
                {"type": "text", "text": "Now."},
                {"type": "tool_use"},
            ],
        )
    ] == replay_of(*events)


def test_the_provider_s_own_tools_are_kept_and_are_no_calls_of_ours():
    """A search that ran over there goes back with its result; its words on where it found what do too."""
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    result = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"encrypted_content": "e"}]}
    citation = {"type": "web_search_result_location", "encrypted_index": "i"}
    events = [
        start(0, search), more(0, "input_json_delta", partial_json='{"q": "x"}'), stop(0), start(1, result), stop(1),
        start(2, TEXT), more(2, "text_delta", text="Yes."), more(2, "citations_delta", citation=citation), stop(2),
        finish("pause_turn"),
    ]  # fmt: skip

    assert [TextDelta("Yes."), Stopped(Finish.PAUSED)] == said(*events)
    assert [
        replay_item(
            "m", [{**search, "input": {"q": "x"}}, result, {"type": "text", "text": "Yes.", "citations": [citation]}]
        )
    ] == replay_of(*events)


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([start(0, TEXT), more(0, "text_delta", text="Hi")], id="text alone"),
        pytest.param([start(0, THINKING), more(0, "thinking_delta", thinking="hm")], id="unsigned"),
        pytest.param([start(0, {"type": "vendor_note", "data": "x"}), stop(0)], id="an unknown block"),
        pytest.param(
            [start(0, {"type": "server_tool_use"}), more(0, "input_json_delta", partial_json='{"q')], id="cut"
        ),
    ],
)
def test_nothing_else_goes_back(events):
    """What is said again from the message, or would be refused, is not kept."""
    assert [] == replay_of(*events, finish("max_tokens"))


@pytest.mark.parametrize(
    "event",
    [
        {"type": "vendor_metric", "value": 1},
        {"type": "ping"},
        start(0, {"type": "vendor_note"}),
        more(0, "vendor_delta", text="x"),
        more(0, "text_delta", text=""),
        stop(7),
        {"type": "message_delta", "delta": {"stop_reason": None}},
    ],
)
def test_what_says_nothing(event):
    """Events, blocks and deltas of an unknown type are passed over, and so are empty ones."""
    assert [] == deltas_of(event)


@pytest.mark.parametrize("kind", ["text_delta", "thinking_delta"])
def test_a_block_that_never_began(kind):
    """A delta whose block was not announced is read all the same."""
    field = kind.removesuffix("_delta")

    assert [(TextDelta if field == "text" else ReasoningDelta)("Hi")] == said(more(4, kind, **{field: "Hi"}))


# ---------------------------------------------------------------- ends


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("end_turn", Finish.STOP),
        ("stop_sequence", Finish.STOP),
        ("max_tokens", Finish.LENGTH),
        ("model_context_window_exceeded", Finish.WINDOW_FULL),
        ("tool_use", Finish.TOOL_CALLS),
        ("pause_turn", Finish.PAUSED),
        ("refusal", Finish.REFUSED),
        ("something_new", Finish.STOP),
    ],
)
def test_stop_reasons(reason, expected):
    """Each word of the provider's is one of ours, and is terminal evidence."""
    decoder = MessagesDecoder()

    assert Stopped(expected) == deltas_of(finish(reason), decoder=decoder)[-1]
    assert (True, False) == (decoder.ended, decoder.done)


def test_the_end_without_a_stop_reason():
    """`message_stop` alone is terminal evidence, and says nothing more behind a stop reason."""
    assert [TextDelta("Hi"), Stopped(Finish.STOP)] == said(more(0, "text_delta", text="Hi"), END)
    assert [Stopped(Finish.TOOL_CALLS)] == said(start(0, TOOL), END)[1:]
    assert [Stopped(Finish.LENGTH)] == said(finish("max_tokens"), finish("end_turn"), END)


def test_nothing_counts_behind_the_end():
    """After `message_stop` the reply is done, and not before."""
    decoder = MessagesDecoder()
    deltas_of(begin(), finish("end_turn"), decoder=decoder)
    before = decoder.done
    deltas_of(END, decoder=decoder)

    assert (False, True) == (before, decoder.done)


def test_counts_only_grow():
    """A later count replaces an earlier one; one that is left out, or 0, does not."""
    last = finish("end_turn", input_tokens=0, output_tokens=9, output_tokens_details={"thinking_tokens": 4})
    events = [begin(output_tokens=1), finish(None, output_tokens=5), last]

    assert Usage(3, 9, reasoning_tokens=4) == deltas_of(*events)[-2].usage


# ---------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"type": "overloaded_error", "message": "Overloaded"}, FaultKind.OVERLOADED),
        ({"type": "rate_limit_error", "message": "slow down"}, FaultKind.RATE_LIMITED),
        ({"type": "api_error", "message": "Internal server error"}, FaultKind.SERVER_ERROR),
        ({"type": "timeout_error", "message": "Request timed out"}, FaultKind.SERVER_ERROR),
        ({"type": "authentication_error", "message": "invalid x-api-key"}, FaultKind.CREDENTIAL_EXPIRED),
        ({"type": "permission_error", "message": "not for you"}, FaultKind.ACCESS_DENIED),
        ({"type": "billing_error", "message": "pay first"}, FaultKind.QUOTA_SPENT),
        ({"type": "not_found_error", "message": "model: claude-9"}, FaultKind.MODEL_NOT_FOUND),
        ({"type": "request_too_large", "message": "Request exceeds the maximum size"}, FaultKind.CONTEXT_TOO_LONG),
        ({"type": "invalid_request_error", "message": "strange"}, FaultKind.BAD_REQUEST),
    ],
)
def test_errors_inside_a_stream(error, kind):
    """An error event is the fault that its type names, also where only the event's name says that it is one."""
    event = {"type": "error", "error": error}

    assert kind is fault_of("error", json.dumps(event)).kind
    assert kind is fault_of("error", json.dumps(error)).kind
    assert kind is fault_of("", json.dumps({**error, "type": "error", "code": error["type"]})).kind


@pytest.mark.parametrize(
    ("name", "data"),
    [("", "no json"), ("message_start", "[1]"), ("content_block_delta", '{"type": "content'), ("", "1")],
)
def test_what_cannot_be_read(name, data):
    """An event that is no JSON object is malformed."""
    assert FaultKind.MALFORMED is fault_of(name, data).kind


@pytest.mark.parametrize(("name", "data"), [("ping", "x"), ("", "[DONE]"), ("", "null")])
def test_what_need_not_be_read(name, data):
    """Keep-alives may hold anything, and the end marker of another protocol says nothing."""
    assert [] == MessagesDecoder().event(name, data)


def test_a_failure_in_place_of_a_stop_reason():
    """There are words that stand where a stop reason should, and say that the reply broke off."""
    with pytest.raises(ModelError) as raised:
        deltas_of(finish("error"))

    assert FaultKind.SERVER_ERROR is raised.value.fault.kind


# ---------------------------------------------------------------- one body


def test_a_whole_body():
    """A reply in one body is the same deltas at once."""
    body = {
        "model": "m-2026",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "Now."},
            {**TOOL, "input": {"a": 1}},
            {**TOOL, "id": "t2"},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 3, "output_tokens": 4},
    }
    layout = [body["content"][0], {"type": "text", "text": "Now."}, {"type": "tool_use"}, {"type": "tool_use"}]

    assert [
        Meta(Usage(3, 4), model="m-2026", request_id="r1"),
        ReasoningDelta("hm"),
        TextDelta("Now."),
        CallDelta(0, "t1", "look"),
        CallDelta(0, arguments='{"a": 1}'),
        CallDelta(1, "t2", "look"),
        CallDelta(1, arguments="{}"),
        Meta(Usage(3, 4), (replay_item("m", layout),)),
        Stopped(Finish.TOOL_CALLS),
    ] == MessagesDecoder("m", "r1").whole(body)


@pytest.mark.parametrize("content", ["Hi.", [{"type": "text", "text": "Hi."}]])
def test_a_body_without_a_stop_reason_has_ended_well(content):
    """Such a body is terminal evidence by itself, whatever shape its text has."""
    assert [TextDelta("Hi."), Stopped(Finish.STOP)] == [
        delta for delta in MessagesDecoder().whole({"content": content}) if not isinstance(delta, Meta)
    ]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({}, FaultKind.MALFORMED),
        ([], FaultKind.MALFORMED),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "x"}}, FaultKind.OVERLOADED),
    ],
)
def test_a_body_that_is_no_reply(body, kind):
    """A body without content is malformed, one that tells of an error is that fault."""
    with pytest.raises(ModelError) as raised:
        MessagesDecoder().whole(body)

    assert kind is raised.value.fault.kind


# ---------------------------------------------------------------- cut anywhere

WHOLE = [
    begin(),
    *(start(0, THINKING), more(0, "thinking_delta", thinking="hm"), more(0, "signature_delta", signature="s"), stop(0)),
    *(start(1, TOOL), more(1, "input_json_delta", partial_json='{"a"'), more(1, "input_json_delta", partial_json=": 1}"), stop(1)),
    finish("tool_use"),
    END,
]  # fmt: skip
SENT = [f"event: {each['type']}\r\ndata: {json.dumps(each)}\r\n\r\n".encode() for each in WHOLE]
CUTS = range(sum(map(len, SENT)) + 1)
EVIDENCE_AT = sum(map(len, SENT[:-2])) + len(f"event: message_delta\r\ndata: {json.dumps(WHOLE[-2])}")


def read(body):
    """The deltas of a body that ends here."""
    reader = ReplyReader(MessagesDecoder("m"))
    return [*reader.feed(body), *reader.end()]


def test_a_stream_that_is_cut_anywhere_has_no_end():
    """Wherever the bytes stop, what was whole is told, and an end only where the stop reason was whole."""
    body = b"".join(SENT)
    whole = read(body)
    for cut in CUTS:
        deltas = read(body[:cut])

        assert deltas == whole[: len(deltas)]
        assert (cut >= EVIDENCE_AT) == any(isinstance(each, Stopped) for each in deltas)


# ---------------------------------------------------------------- anything

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=5), each, max_size=3),
    max_leaves=6,
)
KINDS = st.sampled_from(["text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "x_tool_result"])
DELTAS = st.sampled_from(["text_delta", "thinking_delta", "signature_delta", "input_json_delta", "citations_delta"])
NAMES = st.sampled_from(["text", "thinking", "signature", "partial_json", "id", "name", "input", "data", "citation"])
FIELDS = st.dictionaries(NAMES, JSON, max_size=4)
EVENTS = st.one_of(
    JSON,
    st.builds(lambda at, kind, rest: start(at, {**rest, "type": kind}), JSON, KINDS | JSON, FIELDS),
    st.builds(lambda at, kind, rest: more(at, kind, **rest), JSON, DELTAS | JSON, FIELDS),
    st.builds(stop, JSON),
    st.builds(finish, st.sampled_from([*FINISHES]) | JSON, output_tokens=JSON),
    st.just(END),
)


@given(st.lists(EVENTS, max_size=12))
def test_anything_is_deltas_or_a_fault(events):
    """Whatever a stream holds, it comes to deltas or to ModelError, and to at most one end."""
    decoder, stops = MessagesDecoder("m"), 0
    try:
        for each in events:
            stops += sum(isinstance(delta, Stopped) for delta in decoder.event("", json.dumps(each)))
    except ModelError:
        pass

    assert stops <= 1
    assert (stops == 1) is decoder.ended


@given(JSON | st.builds(lambda content: {"content": content}, st.lists(FIELDS, max_size=4) | JSON))
def test_any_body_is_deltas_or_a_fault(body):
    """Whatever a body holds, it comes to deltas with one end, or to ModelError."""
    try:
        deltas = MessagesDecoder("m").whole(body)
    except ModelError:
        return

    assert 1 == sum(isinstance(delta, Stopped) for delta in deltas)
