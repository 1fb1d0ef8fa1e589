"""The bytes of a reply, whatever the answer turns out to be."""

from __future__ import annotations

import json

import pytest

from fsm_loop.core.faults import FaultKind
from fsm_loop.core.messages import Finish
from fsm_loop.errors import ModelError
from fsm_loop.ports import Meta, Stopped, TextDelta
from fsm_loop.providers import chat_read
from fsm_loop.providers.chat_read import ChatReader
from fsm_loop.providers.sse import SseDecoder
from fsm_loop.testing.server import chunk, said

HI, STOP = (b"data: %b\n\n" % json.dumps(each).encode() for each in (said("Hi"), chunk(finish="stop")))
DONE = b"data: [DONE]\n\n"
WHOLE = json.dumps({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}).encode()
FULL = [TextDelta("Hi"), Stopped(Finish.STOP)]


def read(body, step=1000):
    """The deltas of this body, but for what is only known about them, and whether nothing more could come."""
    reader, deltas = ChatReader(), []
    for at in range(0, len(body), step):
        deltas += reader.feed(body[at : at + step])
        if reader.done:
            break
    else:
        deltas += reader.end()
    return [delta for delta in deltas if not isinstance(delta, Meta)], reader.done


@pytest.mark.parametrize(
    ("body", "expected", "done"),
    [
        pytest.param(HI + STOP + DONE, FULL, True, id="a stream"),
        pytest.param(HI + STOP, FULL, False, id="a stream without [DONE]"),
        pytest.param(HI + DONE, FULL, True, id="a stream without a finish reason"),
        pytest.param(DONE, [Stopped(Finish.STOP)], True, id="nothing but [DONE]"),
        pytest.param(HI + STOP.rstrip(), FULL, False, id="the end comes without a blank line"),
        pytest.param(HI + STOP[:-20], [TextDelta("Hi")], False, id="the end comes in the middle of a chunk"),
        pytest.param(HI + DONE + HI, FULL, True, id="behind [DONE] nothing counts"),
        pytest.param(b": ping\n\n" * 9 + HI + STOP, FULL, False, id="comments first"),
        pytest.param(b"\n\n\r\n" + HI + STOP, FULL, False, id="blank lines first"),
        pytest.param(b"\xef\xbb\xbf" + HI + STOP, FULL, False, id="a byte order mark first"),
        pytest.param(b": ping\n\n", [], False, id="nothing but comments"),
        pytest.param(b"", [], False, id="nothing"),
        pytest.param(b"\n\n\n", [], False, id="nothing but blank lines"),
        pytest.param(WHOLE, FULL, False, id="one body"),
        pytest.param(b"\n\n\xef\xbb\xbf" + WHOLE, FULL, False, id="one body behind blank lines"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("step", [1, 7, 1000])
def test_bodies(body, expected, done, step):
    """A reply is read as what it is, not as what it was asked or said to be."""
    assert (expected, done) == read(body, step)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html><head><title>Down for now</title></head></html>", "not JSON: Down for now"),
        (b"{half", "not JSON: {half"),
        (b"upstream timed out", "no event stream: upstream timed out"),
        (b"{}", "no choices"),
        (HI + b"data: {half\n\n" + STOP, "not JSON"),
        (HI + b"data: {half\n", "not JSON"),
    ],
)
@pytest.mark.parametrize("step", [1, 1000])
def test_bodies_that_are_none(body, message, step):
    """What has no shape that can be read is malformed, and quoted."""
    with pytest.raises(ModelError, match=message) as raised:
        read(body, step)

    assert FaultKind.MALFORMED is raised.value.fault.kind


def test_what_was_well_before_an_error_is_kept():
    """A chunk of bytes that holds text and then an error gives the text first."""
    deltas = ChatReader().feed(HI + b'data: {"error": "Down"}\n\n')

    assert isinstance(next(deltas), Meta)
    assert TextDelta("Hi") == next(deltas)
    with pytest.raises(ModelError, match="Down"):
        next(deltas)


def test_an_error_in_the_last_half_line_is_told():
    """A body that ends in an error without its line end tells of the error."""
    with pytest.raises(ModelError, match="Down"):
        read(HI + b'data: {"error": "Down"}')


@pytest.mark.parametrize("body", [b"data: " + b"x" * 100, b"{" * 100])
def test_a_reply_has_a_limit(body, monkeypatch):
    """Neither an event nor a body grows without end."""
    monkeypatch.setattr(chat_read, "MAX_BODY_BYTES", 64)
    monkeypatch.setattr(chat_read, "SseDecoder", lambda: SseDecoder(64))
    reader = ChatReader()
    with pytest.raises(ModelError, match="64 bytes") as raised:
        list(reader.feed(body))

    assert FaultKind.MALFORMED is raised.value.fault.kind


@pytest.mark.parametrize("body", [b"", b"\n\n \n"])
def test_an_empty_body_is_no_reply_where_one_was_asked_for(body):
    """What was not to be streamed is malformed; of a stream, that it ends too early is told by who reads it."""
    whole, streamed = ChatReader(streamed=False), ChatReader()
    for reader in (whole, streamed):
        assert [] == [*reader.feed(body)]

    assert [] == [*streamed.end()]
    with pytest.raises(ModelError) as raised:
        [*whole.end()]
    assert FaultKind.MALFORMED is raised.value.fault.kind


def test_text_that_is_told_from_its_beginning_each_time():
    """Where the provider is known to do so, each chunk yields what is new of it."""
    texts = ["Al", "Alpha", "Alpha", "Alpha beta", "!"]
    lines = (b"data: %b\n\n" % json.dumps(said(text)).encode() for text in texts)
    reader = ChatReader(cumulative=True)
    deltas = [delta for line in lines for delta in reader.feed(line) if isinstance(delta, TextDelta)]

    assert [TextDelta("Al"), TextDelta("pha"), TextDelta(" beta"), TextDelta("!")] == deltas
