"""The binary event stream of AWS: frames as they come, and frames that are none."""

from __future__ import annotations

import base64
import json

import anthropic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_loop import LoopConfig, ModelError
from fsm_loop.core.effects import Request
from fsm_loop.core.faults import FaultKind
from fsm_loop.core.messages import Finish, UserMessage
from fsm_loop.ports import Meta, Stopped, TextDelta
from fsm_loop.providers.anthropic_messages import AnthropicMessages
from fsm_loop.providers.aws_events import AwsDecoder
from fsm_loop.providers.sse import EventTooLarge
from fsm_loop.testing import server as s


def framed(payload, **headers):
    """A frame with this payload and these headers, all of them text."""
    told = b""
    for name, value in headers.items():
        word = f":{name.replace('_', '-')}".encode()
        told += bytes([len(word)]) + word + b"\x07" + len(value).to_bytes(2) + value.encode()
    body = json.dumps(payload).encode()
    size = 12 + len(told) + len(body) + 4
    return size.to_bytes(4) + len(told).to_bytes(4) + b"crc." + told + body + b"crc."


def wrapped(event):
    """An event of the model's in a frame."""
    data = base64.b64encode(json.dumps(event).encode()).decode()
    return framed({"bytes": data, "p": "abc"}, event_type="chunk", message_type="event")


BEGIN = {"type": "message_start", "message": {"model": "m-1", "usage": {"input_tokens": 3}}}
SAYS = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}}
STOPS = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}}
ENDS = {"type": "message_stop"}
WHOLE = b"".join(map(wrapped, (BEGIN, SAYS, STOPS, ENDS)))
THROTTLED = framed({"message": "slow down"}, exception_type="throttlingException", message_type="exception")


@pytest.mark.parametrize("size", [1, 7, 64, 100_000])
def test_events_come_out_of_frames(size):
    """However the wire cuts them, each frame is one event."""
    decoder = AwsDecoder()
    pieces = [WHOLE[at : at + size] for at in range(0, len(WHOLE), size)]
    events = [event for piece in pieces for event in decoder.feed(piece)]

    assert [BEGIN, SAYS, STOPS, ENDS] == [json.loads(event[1]) for event in events]
    assert ([], False) == (decoder.end(), decoder.cut)


def test_an_exception_is_an_error():
    """A frame that tells of an exception is an event `error`, with its name and its words."""
    (event,) = AwsDecoder().feed(THROTTLED)

    assert ("error", {"type": "throttlingException", "message": "slow down"}) == (event[0], json.loads(event[1]))


def test_headers_that_are_no_text_are_passed_over():
    """Headers may be numbers; one of an unknown type ends them."""
    number = b"\x01n\x04\x00\x00\x00\x07" + b"\x01y\x00" + b"\x01x\x63junk"
    frame = (12 + len(number) + 2 + 4).to_bytes(4) + len(number).to_bytes(4) + b"crc." + number + b"{}" + b"crc."

    assert [] == AwsDecoder().feed(frame)


def test_a_frame_that_is_cut_is_no_event():
    """What is not whole says nothing."""
    decoder = AwsDecoder()

    assert ([], [], True) == (decoder.feed(wrapped(SAYS)[:-1]), decoder.end(), decoder.cut)


def test_what_is_no_frame():
    """A length that cannot be, and a payload that is no JSON, are told."""
    with pytest.raises(EventTooLarge):
        AwsDecoder().feed(b"\x00\x00\x00\x01" + b"x" * 20)
    broken = (12 + 3 + 4).to_bytes(4) + bytes(4) + b"crc." + b"{x}" + b"crc."

    assert [("", "a frame that cannot be read")] == AwsDecoder().feed(broken)


@given(st.binary(max_size=60), st.integers(0, len(WHOLE)))
def test_anything_is_events_or_too_large(junk, at):
    """Whatever the bytes are, they come to events, or to EventTooLarge."""
    decoder = AwsDecoder()
    try:
        decoder.feed(WHOLE[:at] + junk + WHOLE[at:])
    except EventTooLarge:
        return

    assert [] == decoder.end()


async def asked(body):
    """What comes of one request to Bedrock, over a client of the SDK, that is answered so."""
    answer = s.Answer((s.Send(body),), 200, {"content-type": "application/vnd.amazon.eventstream"})
    with s.ChatServer([answer]) as server:
        client = anthropic.AsyncAnthropicBedrock(api_key="k", aws_region="x", base_url=server.base_url)
        async with client, AnthropicMessages("anthropic.m", client=client) as model:
            request = Request(0, (UserMessage("Hello"),))
            async with model.ask(request, (), LoopConfig()) as deltas:
                told = [delta async for delta in deltas if not isinstance(delta, Meta)]
    return told, server.requests[0]


@pytest.mark.anyio
async def test_bedrock():
    """Over the SDK's client for Bedrock a reply is the same deltas, from the path that Bedrock has."""
    told, received = await asked(WHOLE)

    assert [TextDelta("Hi"), Stopped(Finish.STOP)] == told
    assert received.path.endswith("/model/anthropic.m/invoke-with-response-stream")


@pytest.mark.anyio
async def test_what_bedrock_tells_inside_a_stream():
    """An exception in the stream is the fault that its name tells of."""
    with pytest.raises(ModelError) as raised:
        await asked(wrapped(BEGIN) + THROTTLED)

    assert FaultKind.RATE_LIMITED is raised.value.fault.kind


def test_what_is_whole_is_told_before_a_frame_that_is_none():
    """A frame that cannot be is met again, once what came before it in the same bytes has been told."""
    decoder = AwsDecoder()

    assert [BEGIN] == [json.loads(event[1]) for event in decoder.feed(wrapped(BEGIN) + bytes(16))]
    with pytest.raises(EventTooLarge):
        decoder.feed(b"")
