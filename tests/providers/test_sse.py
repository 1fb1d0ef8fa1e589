"""Server-sent events, however the wire cuts them."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_loop.providers.sse import EventTooLarge, SseDecoder


def events(*chunks, limit=None):
    """All events of a body that comes in these chunks."""
    decoder = SseDecoder() if limit is None else SseDecoder(limit)
    found = [event for chunk in chunks for event in decoder.feed(chunk)]
    return [*found, *decoder.end()]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(b"data: a\n\n", [("", "a")], id="LF"),
        pytest.param(b"data: a\r\n\r\n", [("", "a")], id="CRLF"),
        pytest.param(b"data: a\r\r", [("", "a")], id="CR"),
        pytest.param(b"data:a\n\n", [("", "a")], id="no space after the colon"),
        pytest.param(b"data:  a\n\n", [("", " a")], id="only one space is the field's"),
        pytest.param(b"data: a\ndata: b\n\n", [("", "a\nb")], id="several lines of data"),
        pytest.param(b"data: a\r\ndata: b\r\n\r\n", [("", "a\nb")], id="several lines that end with CRLF"),
        pytest.param(b"data: a\n\ndata: b\n\n", [("", "a"), ("", "b")], id="two events"),
        pytest.param(
            b"event: error\ndata: a\n\ndata: b\n\n", [("error", "a"), ("", "b")], id="a name holds for one event"
        ),
        pytest.param(b"error: {}\n\n", [("error", "{}")], id="llama.cpp's error field"),
        pytest.param(b": ping\n\n: ping\n\ndata: a\n\n", [("", "a")], id="comments"),
        pytest.param(b"retry: 3000\n\nid: 7\n\ndata: a\n\n", [("", "a")], id="records without data"),
        pytest.param(b": a\n\ndata:\n\ndata\n\ndata: \n\n", [], id="data that is empty"),
        pytest.param(b"data: a", [("", "a")], id="the end comes in the middle of a line"),
        pytest.param(b"data: a\n", [("", "a")], id="the end comes before the blank line"),
        pytest.param(b"", [], id="nothing"),
        pytest.param(b"data: a\xff\xfeb\n\n", [("", "a��b")], id="bytes that are no UTF-8"),
        pytest.param(
            "data: a\u2028b\u2029c\u0085d\n\n".encode(), [("", "a\u2028b\u2029c\u0085d")], id="other line ends are data"
        ),
    ],
)
@pytest.mark.parametrize("step", [1, 2, 3, 1000])
@pytest.mark.parametrize("before", [b"", b": hello\n\n"])
def test_events(body, expected, step, before):
    """The same events come out wherever the bytes are cut."""
    chunks = [body[at : at + step] for at in range(0, len(body), step)]

    assert expected == events(before, *chunks)


def test_a_byte_order_mark_is_no_data():
    """A mark stands before the first line, and nowhere else."""
    body = b"\xef\xbb\xbfdata: a\n\n"

    assert [("", "a")] == events(body) == events(*(bytes([byte]) for byte in body))


def test_a_name_may_come_by_itself():
    """An event's lines may come in chunks of their own."""
    assert [("", "a"), ("error", "b")] == events(b"data: a\n\n", b"event: error\n", b"data: b\n\n")


@given(
    lines=st.lists(st.tuples(st.text(max_size=20), st.sampled_from(["\n", "\r", "\r\n"]))),
    cuts=st.lists(st.integers(0, 400)),
)
def test_cuts_change_nothing(lines, cuts):
    """Whatever the body is, it means the same in one piece and in many."""
    body = "".join(f"data: {text}{end}{end}" for text, end in lines).encode()
    places = sorted({0, len(body), *(cut for cut in cuts if cut < len(body))})
    chunks = [body[here:there] for here, there in itertools.pairwise(places)]

    assert events(body) == events(*chunks)


def test_an_end_in_the_middle_of_a_line_is_told():
    """Whoever reads the last event can know that it may be half of one."""
    whole, half = SseDecoder(), SseDecoder()
    whole.feed(b"data: a\n")
    half.feed(b"data: a")

    assert [("", "a")] == whole.end() == half.end()
    assert (False, True) == (whole.cut, half.cut)


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param([b"data: " + b"x" * 40], id="one line"),
        pytest.param([b"data: x\n"] * 10, id="many lines of one event"),
        pytest.param([b"x"] * 40, id="byte by byte"),
        pytest.param([b"data\n"] * 10, id="many lines that say nothing"),
    ],
)
def test_an_event_has_a_limit(chunks):
    """An event that does not end is refused, however it comes."""
    with pytest.raises(EventTooLarge, match="no end within 32 bytes"):
        events(*chunks, limit=32)


@pytest.mark.parametrize("step", [1, 7, 26])
def test_a_stream_has_no_limit(step):
    """Many events, and comments without end, are fine: the limit is one event's."""
    body = b"data: 0123456789\n\n: ping\n\n" * 100
    found = events(*(body[at : at + step] for at in range(0, len(body), step)), limit=32)

    assert 100 == len(found)


def test_what_is_whole_is_told_before_an_event_that_is_too_large():
    """The limit is met by the bytes that pass it, not by the events before them in the same bytes."""
    decoder = SseDecoder(32)

    assert [("", "a")] == decoder.feed(b"data: a\n\ndata: " + b"x" * 40)
    with pytest.raises(EventTooLarge):
        decoder.feed(b"x")
