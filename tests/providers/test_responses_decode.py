"""Events and bodies of OpenAI's Responses as deltas, with all that compatible servers do to them."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm_loop.core.faults import FaultKind
from fsm_loop.core.messages import Finish, Usage
from fsm_loop.errors import ModelError
from fsm_loop.ports import CallDelta, Meta, ReasoningDelta, Stopped, TextDelta
from fsm_loop.providers.chat_decode import DONE
from fsm_loop.providers.openai_responses_decode import ResponsesDecoder, replay_item
from tests.providers.responses import (
    MODEL,
    added,
    argued,
    call,
    calls_of,
    created,
    done,
    ended,
    message,
    piece,
    reasoning,
    refusal,
    replay_of,
    response,
    text_of,
    thoughts_of,
)

K = FaultKind
HI = [created(), added(message("")), piece("H"), piece("i."), done(message()), ended(message())]
LOOK = [
    created(),
    added(call("")),
    argued('{"n"'),
    argued(": 1}"),
    {"type": "response.function_call_arguments.done", "item_id": "fc_1", "output_index": 0, "arguments": '{"n": 1}'},
    done(call('{"n": 1}')),
    ended(call('{"n": 1}')),
]
THINK = [
    created(),
    added(reasoning(sealed=""), 0),
    piece("Hm", "rs_1", 0, "reasoning_summary_text"),
    done(reasoning(summary=["Hm"]), 0),
    added(message("", "msg_1"), 1),
    piece("Hi.", "msg_1", 1),
    done(message(), 1),
    added(call("", item_id="fc_1"), 2),
    argued('{"n": 1}', "fc_1", 2),
    done(call('{"n": 1}'), 2),
    ended(reasoning(summary=["Hm"]), message(), call('{"n": 1}')),
]


def decoded(*events):
    """The deltas of these events."""
    decoder = ResponsesDecoder(MODEL, "r1")
    data = (each if isinstance(each, str) else json.dumps(each) for each in events)
    return [delta for each in data for delta in decoder.event("", each)]


def told(deltas):
    """What the deltas come to: text, calls, and how it ended."""
    stops = [each.finish for each in deltas if isinstance(each, Stopped)]
    return text_of(deltas), calls_of(deltas), *stops


def fault_of(*events, name=""):
    """The fault that the last of these events tells of."""
    decoder = ResponsesDecoder(MODEL)
    data = [each if isinstance(each, str) else json.dumps(each) for each in events]
    for each in data[:-1]:
        decoder.event("", each)
    with pytest.raises(ModelError) as raised:
        decoder.event(name, data[-1])
    return raised.value.fault


# ---------------------------------------------------------------- a reply as it should come


def test_text():
    """Text comes piece by piece, and its end is told with what it cost."""
    usage = {
        "input_tokens": 9,
        "output_tokens": 5,
        "total_tokens": 14,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens_details": {"reasoning_tokens": 2},
    }

    assert [
        Meta(model="m", request_id="r1"),
        TextDelta("H"),
        TextDelta("i."),
        Meta(Usage(9, 5, 4, 2), model="m", request_id="r1"),
        Stopped(Finish.STOP),
    ] == decoded(*HI[:-1], ended(message(), usage=usage))


def test_a_call():
    """Each piece of a call is progress; the arguments follow, once, when they are known for good."""
    deltas = decoded(*LOOK)

    assert ("", [("call_a", "look", '{"n": 1}')], Finish.TOOL_CALLS) == told(deltas)
    assert CallDelta(0, "call_a", "look") == deltas[1]
    assert ['{"n": 1}'] == [each.arguments for each in deltas if isinstance(each, CallDelta) and each.arguments]


@pytest.mark.parametrize("kind", ["reasoning_text", "reasoning_summary_text", "reasoning", "reasoning_summary"])
def test_reasoning(kind):
    """What the model thinks is shown as its reasoning, under whatever name it comes."""
    assert [ReasoningDelta("Hm")] == decoded(piece("Hm", "rs_1", 0, kind))


def test_parts_of_a_summary_stand_apart():
    """Between two parts of a summary there is an empty line."""
    begins = {"type": "response.reasoning_summary_part.added", "item_id": "rs_1", "output_index": 0}
    parts = [begins | {"summary_index": 0}, piece("a", "rs_1", 0, "reasoning_summary_text")]
    parts += [begins | {"summary_index": 1}, piece("b", "rs_1", 0, "reasoning_summary_text")]

    assert "a\n\nb" == thoughts_of(decoded(*parts))


@pytest.mark.parametrize(
    ("last", "finish"),
    [
        (ended(message()), Finish.STOP),
        (ended(message(), kind="response.done"), Finish.STOP),
        (ended(message(), status="finished", kind="response.completed"), Finish.STOP),
        (ended(message(), status=None, kind="response.completed"), Finish.STOP),
        (ended(call()), Finish.TOOL_CALLS),
        (ended(message(), status="incomplete", incomplete_details={"reason": "max_output_tokens"}), Finish.LENGTH),
        (ended(message(), status="incomplete", incomplete_details=None), Finish.LENGTH),
        (ended(message(), status="incomplete", kind="response.completed"), Finish.LENGTH),
        (ended(message(), status="incomplete", incomplete_details={"reason": "content_filter"}), Finish.REFUSED),
        (ended(refusal("No.")), Finish.REFUSED),
    ],
)
def test_ends(last, finish):
    """How a reply ended is its event's word, and its status' where that knows better."""
    assert finish == told(decoded(created(), last))[-1]


@pytest.mark.parametrize(
    ("limit", "output", "finish"),
    [
        (5, [message()], Finish.LENGTH),
        (6, [message()], Finish.STOP),
        (None, [message()], Finish.STOP),
        (5, [call()], Finish.TOOL_CALLS),
        (5, [refusal("No.")], Finish.REFUSED),
    ],
)
def test_a_reply_as_long_as_its_limit(limit, output, finish):
    """Text that took all the tokens there were was cut, whatever the server calls it; a whole call was not."""
    body = response(output, usage={"input_tokens": 1, "output_tokens": 5})

    assert finish == told(ResponsesDecoder(limit=limit).whole(body))[-1]


def test_a_refusal_is_shown():
    """A refusal can be read, and ends the reply as refused."""
    deltas = decoded(piece("I can", kind="refusal"), piece("not.", kind="refusal"), ended(refusal("I cannot.")))

    assert ("I cannot.", [], Finish.REFUSED) == told(deltas)
    assert ("No.", [], Finish.REFUSED) == told(decoded(piece("No.", kind="refusal"), ended()))


def test_nothing_is_the_end_but_an_end():
    """`[DONE]` alone is no terminal evidence, and nothing is read behind it."""
    decoder = ResponsesDecoder()

    assert [] == decoder.event("", DONE)
    assert (True, False) == (decoder.done, decoder.ended)
    assert [] == decoder.event("", json.dumps(piece("Hi")))


def test_what_follows_the_end_says_nothing():
    """A reply ends once."""
    assert ("Hi.", [], Finish.STOP) == told(decoded(*HI, *HI, DONE))


# ---------------------------------------------------------------- events that are missing, doubled, or in disorder


def without(events, *kinds):
    """The events but those of these types."""
    return [each for each in events if each["type"].removeprefix("response.") not in kinds]


DELTAS = ("output_text.delta", "function_call_arguments.delta")
WHOLE = ("output_item.done", "function_call_arguments.done")


def without_output(events):
    """The events, the last of which tells of no output."""
    fresh = copy.deepcopy(events)
    fresh[-1]["response"]["output"] = []
    return fresh


def changed_ids(events):
    """The events with each another id for its item; those of calls stay."""
    fresh = copy.deepcopy(events)
    for number, each in enumerate(fresh):
        for holder, name in ((each, "item_id"), (each.get("item", {}), "id")):
            if name in holder:
                holder[name] = f"{holder[name]}_{number}"
        for item in each.get("response", {}).get("output", ()):
            item["id"] = f"{item['id']}_{number}"
    return fresh


def stripped(events, *names):
    """The events without these fields."""
    return [{name: value for name, value in each.items() if name not in names} for each in events]


def doubled(events):
    """Each event twice, with its own number."""
    numbers = [{**each, "sequence_number": number} for number, each in enumerate(events, 1)]
    return [each for one in numbers for each in (one, one)]


def numbered(events, number):
    """The events with one number for all, as careless servers number them."""
    return [{**each, "sequence_number": number} for each in events]


@pytest.mark.parametrize("events", [HI, LOOK, THINK])
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda events: events, id="as it should be"),
        pytest.param(lambda events: without(events, "created"), id="no beginning"),
        pytest.param(lambda events: without(events, "output_item.added"), id="no item begins")
        ,
        pytest.param(lambda events: without(events, *DELTAS), id="no pieces"),
        pytest.param(lambda events: without(events, *WHOLE), id="no item is whole"),
        pytest.param(lambda events: without(events, *WHOLE, "output_item.added"), id="pieces and the end"),
        pytest.param(lambda events: events[-1:], id="the end alone"),
        pytest.param(without_output, id="an end without output"),
        pytest.param(lambda events: without(without_output(events), *DELTAS), id="neither pieces nor output"),
        pytest.param(lambda events: [*events[:-1], *events[-2:]], id="the last item is whole twice"),
        pytest.param(changed_ids, id="another id in each event"),
        pytest.param(lambda events: stripped(events, "output_index"), id="no places"),
        pytest.param(lambda events: stripped(events, "item_id"), id="no ids in pieces"),
        pytest.param(lambda events: stripped(events, "output_index", "item_id"), id="neither"),
        pytest.param(lambda events: [{**each, "output_index": 0} for each in events], id="all at one place"),
        pytest.param(doubled, id="every event twice, numbered"),
        pytest.param(lambda events: stripped(changed_ids(events), "output_index", "item_id"), id="no places, other ids"),
        pytest.param(lambda events: [{**each, "output_index": 0} for each in stripped(events, "item_id")], id="one place, no ids"),
        pytest.param(
            lambda events: [
                {**each, "output_index": 0}
                for each in stripped(without(events, *WHOLE, "output_item.added"), "item_id")
            ],
            id="one place, no ids, pieces and the end",
        ),
        pytest.param(lambda events: numbered(events, 0), id="every number is 0"),
        pytest.param(lambda events: numbered(events, 7), id="every number is 7"),
    ],
)  # fmt: skip
def test_a_reply_survives(events, change):
    """Whatever of a reply is missing, doubled or named amiss: what it says is said once."""
    assert told(decoded(*events)) == told(decoded(*change(events)))


def test_equal_pieces_are_not_taken_for_one():
    """The same words twice are two, where their numbers differ or say nothing."""
    twice = [piece("ha"), piece("ha")]
    told_apart = [{**each, "sequence_number": number} for number, each in enumerate(twice, 1)]

    assert ["haha"] * 3 == [text_of(decoded(*each)) for each in (twice, told_apart, numbered(twice, 0))]
    assert "hahoha" == text_of(decoded(*numbered([piece("ha"), piece("ho"), piece("ha")], 7)))


def test_pieces_before_their_item():
    """A call whose pieces come before its beginning is one call."""
    events = [argued('{"n": 1}', "fc_1", 0), added(call("")), done(call('{"n": 1}')), ended()]

    assert ("", [("call_a", "look", '{"n": 1}')], Finish.TOOL_CALLS) == told(decoded(*events))
    assert CallDelta(0, "fc_1") == decoded(*events)[0]


@pytest.mark.parametrize("whole_alone", [True, False])
def test_two_calls_at_one_place(whole_alone):
    """A server that puts every item at the same place loses none of them."""
    one, two = call('{"n": 1}'), call('{"n": 2}', "call_b", item_id="fc_2")
    events = [added(call("")), done(one), added(call("", "call_b", item_id="fc_2")), done(two), ended()]
    told_whole = [each for each in events if not whole_alone or each["type"] != "response.output_item.added"]

    assert ['{"n": 1}', '{"n": 2}'] == [each[2] for each in calls_of(decoded(*told_whole))]


def test_pieces_of_two_calls_at_one_place():
    """Pieces are put to the call whose id they name, before the one at their place."""
    events = [
        added(call("")),
        argued('{"n": 1}'),
        added(call("", "call_b", item_id="fc_2")),
        argued('{"n": 2}', "fc_2"),
    ]

    assert ['{"n": 1}', '{"n": 2}'] == [each[2] for each in calls_of(decoded(*events, ended()))]


def test_a_list_that_names_its_items_anew():
    """The list at the end is put to what was told before, each of its items to another one."""
    one, two = call('{"n": 1}'), call('{"n": 2}', "call_b", item_id="fc_2")
    listed = [two | {"id": "fc_8"}, one | {"id": "fc_9"}]
    texts = [piece("A", "x", 5), piece("B", "y", 6), ended(message("A"), message("B!", "msg_2"))]

    assert ['{"n": 1}', '{"n": 2}'] == [each[2] for each in calls_of(decoded(done(one), done(two, 1), ended(*listed)))]
    assert "AB!" == text_of(decoded(*texts))


def test_calls_that_come_interleaved():
    """Pieces of two calls, in turns, are put to the call that they belong to."""
    one, two = call("", "call_a", "look", "fc_1"), call("", "call_b", "move", "fc_2")
    events = [added(one, 0), added(two, 1), argued('{"a"', "fc_1", 0), argued('{"b"', "fc_2", 1)]
    events += [argued(": 2}", "fc_2", 1), argued(": 1}", "fc_1", 0), ended()]

    assert [("call_a", "look", '{"a": 1}'), ("call_b", "move", '{"b": 2}')] == calls_of(decoded(*events))


@pytest.mark.parametrize(
    ("pieces", "whole", "expected"),
    [
        (['{"n": ', "1}"], '{"n": 1}', '{"n": 1}'),
        (['{"n": '], '{"n": 1}', '{"n": 1}'),
        (['{"n": 1}'], "", '{"n": 1}'),
        (['{"n": 1}'], "{}", '{"n": 1}'),
        (['{"n": 1}'], '{"n": ', '{"n": 1}'),
        (['{"n": 1}', '{"n": 1}'], '{"n": 1}', '{"n": 1}'),
        ([], {"n": 1}, '{"n": 1}'),
        ([], "{}", "{}"),
        ([], None, ""),
        (["{}"], "", "{}"),
        (['{"n": '], None, '{"n": '),
        (["nonsense"], None, "nonsense"),
    ],
)
def test_arguments_told_in_several_ways(pieces, whole, expected):
    """Of several tellings of a call's arguments the last that is whole and says something is believed."""
    events = [added(call("")), *map(argued, pieces), done(call(whole)), ended()]

    assert [expected] == [arguments for _, _, arguments in calls_of(decoded(*events))]


@pytest.mark.parametrize("listed", [True, False])
def test_a_call_told_twice_is_one(listed):
    """Two items that are one call in all, its id too, are run once."""
    twin = call('{"n": 1}', item_id="fc_2")
    events = [added(call("")), done(call('{"n": 1}')), added(call("", item_id="fc_2"), 1), done(twin, 1)]

    assert [("call_a", "look", '{"n": 1}')] == calls_of(
        decoded(*events, ended(*([call('{"n": 1}'), twin] if listed else [])))
    )


def test_a_call_told_twice_in_one_body_is_one():
    """The same holds where the list at the end is all that there is."""
    assert [("call_a", "look", "{}")] == calls_of(decoded(ended(call(), call(item_id="fc_2"))))


def test_calls_that_share_an_id_are_two():
    """A server that gives every call the same id loses none of them."""
    one, two = call('{"n": 1}', "call_0"), call('{"n": 2}', "call_0", item_id="fc_2")
    events = [added(call("", "call_0")), done(one), added(call("", "call_0", item_id="fc_2"), 1), done(two, 1)]

    assert ['{"n": 1}', '{"n": 2}'] == [each[2] for each in calls_of(decoded(*events, ended(one, two)))]


def test_a_call_without_an_id_takes_its_items():
    """Where there is no `call_id`, the item's own id stands for it."""
    assert [("fc_1", "look", "{}")] == calls_of(decoded(ended(call(call_id=None))))


def test_what_was_shown_stands():
    """A whole text that is another than what was shown shows nothing more."""
    assert "Ho." == text_of(decoded(piece("Ho."), done(message("Hi.")), ended(message("Hi."))))


def test_what_pieces_lack_is_shown():
    """The end of a text that no piece held comes with the whole of it."""
    assert "Hi." == text_of(decoded(piece("H"), done(message("Hi.")), ended(message("Hi."))))


def test_reasoning_that_comes_whole():
    """Reasoning that no piece held is shown when it is whole, its text before its summary."""
    both = reasoning(summary=["a", "b"], content=[{"type": "reasoning_text", "text": "Hm"}])

    assert "a\n\nb" == thoughts_of(decoded(done(reasoning(summary=["a", "b"])), ended()))
    assert "Hm" == thoughts_of(decoded(done(both), ended(both)))


@pytest.mark.parametrize(
    "event",
    [
        {"type": "response.in_progress", "response": None},
        {"type": "response.queued"},
        {"type": "response.content_part.added", "part": {"type": "output_text", "text": ""}},
        {"type": "response.content_part.done", "part": {"type": "output_text", "text": "Hi."}},
        {"type": "response.output_text.done", "text": "Hi."},
        {"type": "response.output_text.annotation.added"},
        {"type": "response.web_search_call.searching"},
        {"type": "response.function_call_arguments.unheard_of", "delta": "{"},
        {"type": "keepalive"},
        {"type": "response.reasoning_summary_part.added", "item_id": "rs_1", "summary_index": 1},
        {"type": 7},
        {"type": "response.output_text.delta", "delta": {"text": "Hi"}},
        {"type": "response.output_item.done", "item": None},
        {"type": "response.output_item.added", "item": {"type": "web_search_call", "id": "ws_1"}},
        {},
        "null",
    ],
)
def test_events_that_say_nothing(event):
    """What is not known, or says nothing, yields nothing, so that it is no progress."""
    assert [] == decoded(event)


def test_the_type_may_stand_in_the_events_name():
    """An event whose data has no type is of the type that its name says."""
    assert [TextDelta("Hi")] == ResponsesDecoder().event("response.output_text.delta", '{"delta": "Hi"}')


# ---------------------------------------------------------------- what the model wants back


def test_reasoning_is_kept_where_it_stood():
    """A sealed reasoning item is kept with the places of the words and the calls that followed it."""
    kept = [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "Hm"}],
            "encrypted_content": "gAAA",
        },
        {"type": "message", "id": "msg_1", "text": "Hi."},
        {"type": "function_call", "id": "fc_1", "call_id": "call_a", "name": "look"},
    ]

    assert (replay_item(MODEL, kept),) == replay_of(decoded(*THINK))
    assert (replay_item(MODEL, kept),) == replay_of(decoded(THINK[-1]))


def test_what_the_provider_ran_itself_is_kept():
    """Items of the provider's own tools stand between reasoning and what followed, so they go back as they came."""
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": None}
    (kept,) = replay_of(decoded(ended(reasoning(), search, message())))

    assert {"type": "web_search_call", "id": "ws_1", "status": "completed"} == kept["items"][1]


def test_a_call_told_twice_is_kept_once():
    """Of two items that are one call in all, one goes back."""
    (kept,) = replay_of(decoded(ended(reasoning(), call(), call(item_id="fc_2"))))

    assert ["reasoning", "function_call"] == [each["type"] for each in kept["items"]]


def test_a_phase_is_kept():
    """The phase of a message goes back, for without it the model does worse."""
    (kept,) = replay_of(decoded(ended(message(phase="commentary"), call())))

    assert {"type": "message", "id": "msg_1", "text": "Hi.", "phase": "commentary"} == kept["items"][0]


@pytest.mark.parametrize(
    "last",
    [
        ended(message(), call()),
        ended(reasoning(sealed=None), message()),
        ended(reasoning(), message(), status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
        ended({"type": "custom_tool_call", "call_id": "call_c", "id": "ctc_1", "name": "x", "input": "y"}, message()),
    ],
)
def test_what_is_not_kept(last):
    """Words and calls are kept by themselves; of a cut reply, and of thoughts that are not sealed, nothing goes back."""
    assert () == replay_of(decoded(last))


# ---------------------------------------------------------------- one body


@pytest.mark.parametrize("events", [HI, LOOK, THINK])
def test_a_body_is_what_the_stream_says(events):
    """A reply in one body is the same reply."""
    whole = ResponsesDecoder(MODEL, "r1").whole(events[-1]["response"])

    assert told(decoded(*events)) == told(whole)
    assert replay_of(decoded(*events)) == replay_of(whole)


def test_a_body_without_a_status_has_ended():
    """A body that holds output is a reply, though no word says how it ended."""
    assert ("Hi.", [], Finish.STOP) == told(ResponsesDecoder().whole({"output": [message()]}))


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({}, K.MALFORMED),
        ([], K.MALFORMED),
        ({"choices": []}, K.MALFORMED),
        ({"error": {"message": "no such model: m", "code": "model_not_found"}}, K.MODEL_NOT_FOUND),
        (response([], "failed", error={"code": "server_error", "message": "x"}), K.SERVER_ERROR),
        (response([], "failed", error={"code": "rate_limit_exceeded", "message": "x"}), K.RATE_LIMITED),
        (response([], "failed"), K.SERVER_ERROR),
        (response([], None, error={"code": "server_error", "message": "x"}), K.SERVER_ERROR),
        (response([message()], "in_progress"), K.INCOMPLETE),
        (response([message()], "queued"), K.INCOMPLETE),
        (response([message()], "cancelled"), K.INCOMPLETE),
    ],
)
def test_a_body_that_is_no_reply(body, kind):
    """A body that failed, has not ended, or has no shape is a fault."""
    with pytest.raises(ModelError) as raised:
        ResponsesDecoder().whole(body)

    assert kind is raised.value.fault.kind


# ---------------------------------------------------------------- faults inside a stream


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ({"type": "error", "code": "rate_limit_exceeded", "message": "slower", "param": None}, K.RATE_LIMITED),
        ({"type": "error", "error": {"code": "insufficient_quota", "message": "paid?"}}, K.QUOTA_SPENT),
        ({"type": "error", "code": None, "message": None}, K.SERVER_ERROR),
        ({"error": {"message": "overloaded"}}, K.OVERLOADED),
        (ended(status="failed"), K.SERVER_ERROR),
        (ended(status="failed", error={"code": "server_error", "message": "x"}), K.SERVER_ERROR),
        (ended(status="failed", kind="response.completed"), K.SERVER_ERROR),
        ({"type": "response.failed"}, K.SERVER_ERROR),
        (ended(status="failed", error={"code": "context_length_exceeded", "message": "x"}), K.CONTEXT_TOO_LONG),
        (ended(status="failed", error={"code": "invalid_prompt", "message": "x"}), K.BAD_REQUEST),
        (ended(status="failed", error={"code": "invalid_prompt", "message": "against our usage policy"}), K.REFUSED),
        (ended(status="failed", error={"code": "bio_policy", "message": "x"}), K.REFUSED),
        (ended(status="failed", error={"code": "image_parse_error", "message": "x"}), K.MEDIA_REFUSED),
        (ended(status="failed", error={"code": "empty_image_file", "message": "x"}), K.MEDIA_REFUSED),
        (ended(status="failed", error={"code": "slow_down", "message": "x"}), K.OVERLOADED),
        (ended(status="failed", error={"code": "usage_limit_reached", "message": "x"}), K.RATE_LIMITED),
        (ended(status="failed", error={"code": "invalid_encrypted_content", "message": "x"}), K.HISTORY_REFUSED),
        (ended(status="cancelled"), K.INCOMPLETE),
        ({"choices": [{"delta": {"content": "Hi"}}]}, K.MALFORMED),
        ("[]", K.MALFORMED),
        ("{", K.MALFORMED),
        ('{\n{"error": "disconnected"}', K.DROPPED),
    ],
)
def test_faults(event, kind):
    """A fault that is told inside a stream is classified as any other."""
    assert kind is fault_of(created(), piece("Hi"), event).kind


def test_an_event_named_error_may_be_plain_text():
    """Some servers tell of a fault in words."""
    assert K.OVERLOADED is fault_of("at capacity", name="error").kind


def test_a_wait_is_read():
    """How long to wait is taken from the words of the fault."""
    words = "Rate limit reached for o4-mini. Please try again in 11.5s."

    assert (
        11.5 == fault_of(ended(status="failed", error={"code": "rate_limit_exceeded", "message": words})).retry_after_s
    )


# ---------------------------------------------------------------- whatever comes


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 9) | st.floats() | st.text(max_size=8) | st.sampled_from(["fc_1", "msg_1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
        ["id", "type", "text", "content", "arguments", "call_id", "name", "delta", "item", "response", "output", "error"]
    ), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@st.composite
def mutated(draw):
    """A good stream with events dropped, doubled, moved, and fields that hold something else."""
    events = copy.deepcopy(draw(st.sampled_from([HI, LOOK, THINK])))
    for _ in range(draw(st.integers(1, 5))):
        place = draw(st.integers(0, len(events) - 1))
        match draw(st.sampled_from(["drop", "double", "move", "field", "inner", "type"])):
            case "drop" if len(events) > 1:
                del events[place]
            case "double":
                events.insert(draw(st.integers(0, len(events))), copy.deepcopy(events[place]))
            case "move":
                events.insert(draw(st.integers(0, len(events) - 1)), events.pop(place))
            case "type":
                events[place]["type"] = draw(st.sampled_from([each["type"] for each in (*LOOK, *THINK)]))
            case "field":
                events[place][draw(st.sampled_from(sorted(events[place])))] = draw(JSON)
            case _:
                inner = next(
                    (each for each in events[place].values() if isinstance(each, dict) and each), events[place]
                )
                inner[draw(st.sampled_from(sorted(inner)))] = draw(JSON)
    return events


@given(mutated())
@settings(max_examples=400, deadline=None)
def test_whatever_comes_is_a_reply_or_a_fault(events):
    """A stream that was tampered with yields deltas or a fault, and ends at most once, behind all that it says."""
    decoder, deltas = ResponsesDecoder(MODEL), []
    try:
        for each in events:
            deltas += decoder.event("", json.dumps(each))
    except ModelError:
        assert not decoder.ended
    stops = [place for place, each in enumerate(deltas) if isinstance(each, Stopped)]

    assert ([len(deltas) - 1] if decoder.ended else []) == stops
    if not decoder.ended:
        assert [] == [each for each in deltas if isinstance(each, CallDelta) and each.arguments]
