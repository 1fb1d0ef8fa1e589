"""Replies that are anything but good, and whole turns that meet them: what the fuzzing of each protocol is made of.

A stream is a good reply to which things are done: first to its events, then to its bytes, then to how they come. Which
ones, Hypothesis says, in small numbers, so that what is found shrinks to the few that matter.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import aiohttp
import httpx
from aiohttp.http_exceptions import ContentEncodingError
from hypothesis import strategies as st

from tests.wire.streams import Event, Good, by_hand, of_cases

# ---------------------------------------------------------------- what is done to events

# Values that stand where others should, as JSON or as what only looks like it.
JUNK = (
    "null", "true", "false", "0", "-1", "1.5", "1e999", "-1e999", "NaN", "1e308", "9" * 5000, "18446744073709551616",
    '""', '"x"', '" "', '"\\ud800"', '"\\u0000"', '"\u2028"', '"stop"', '"tool_calls"', '"error"', '"[DONE]"', '"\\"',
    "[]", "{}", "[[]]", "[null]", "[1, 2]", '{"": null}', '{"a": 1, "a": 2}', '{"error": {}}', '{"message": []}',
    '[{"type": "text", "text": 1}]', '[{"type": "thinking", "thinking": [[]]}]', "{", "[", '"', "nul", "\x01", "",
    "HUGE", "DEEP", "DEEPER",
)  # fmt: skip
ERRORS = (
    '{"error": {"message": "Overloaded", "type": "overloaded_error", "code": 529}}',
    '{"type": "error", "error": {"type": "api_error", "message": "Internal"}}',
    '{"error": {"message": "maximum context length is 10 tokens", "code": "context_length_exceeded"}}',
    '{"error": "boom"}', '{"error": [[[]]]}', '{"error": {"code": "99999", "message": null}}', '{"detail": [{"loc": ["body", 1]}]}',
    '{"error": {"message": "<title><title><script>", "metadata": {"raw": "{"}}}', "error: gone", "<html>", "", "[DONE]",
    '{"type": "response.failed", "response": {"error": null}}', '{"object": "error"}', '[{"error": {"status": "UNAVAILABLE"}}]',
    '{"error": {"message": "max_tokens: 99999999999999999999 > 5, Please try again in 99999999999999999s"}}',
)  # fmt: skip
HUGE, DEEP, DEEPER = '"' + "ab\\n" * 30_000 + '"', "[" * 500 + "]" * 500, '{"a":' * 100_000 + "1" + "}" * 100_000
_LONG = {"HUGE": HUGE, "DEEP": DEEP, "DEEPER": DEEPER}
HOLE = "\ufdd0"  # what stands for junk until the event is JSON again


class Doing(NamedTuple):
    """One thing that is done: what, where, and with what; numbers are taken modulo what there is."""

    what: str
    where: int
    with_what: int


def _places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [at] if at else []
    if isinstance(value, dict):
        found += [each for name in value for each in _places(value[name], (*at, name))]
    elif isinstance(value, list):
        found += [each for place, entry in enumerate(value) for each in _places(entry, (*at, place))]
    return found


def _of_field(data: str, do: Doing) -> str:
    """The data of an event with one of its fields changed, dropped, or told under another's name."""
    try:
        value = json.loads(data)
        places = _places(value)
    except (ValueError, RecursionError):
        return data
    if not places:
        return JUNK[do.with_what % len(JUNK)]
    *way, last = places[do.where % len(places)]
    holder = value
    for step in way:
        holder = holder[step]
    if do.what == "drop field":
        del holder[last]
    elif do.what == "other field":
        path = places[do.with_what % len(places)]
        found = value
        for step in path:
            found = found[step]
        holder[last] = json.loads(json.dumps(found))
    else:
        holder[last] = HOLE
    junk = JUNK[do.with_what % len(JUNK)]
    return json.dumps(value, ensure_ascii=False).replace(f'"{HOLE}"', _LONG.get(junk, junk))


def _of_events(  # noqa: C901, PLR0911, PLR0912  # a table of what is done
    events: list[Event], do: Doing, others: Sequence[Good]
) -> list[Event]:
    """The events once this was done to them."""
    if not events:
        return events
    at, to = do.where % len(events), do.with_what % len(events)
    here = events[at]
    match do.what:
        case "drop":
            return [*events[:at], *events[at + 1 :]]
        case "double":
            return [*events[:at], here, *events[at:]]
        case "swap":
            events[at], events[to] = events[to], here
        case "move":
            events.insert(to, events.pop(at))
        case "cut":
            return events[:at]
        case "repeat from":
            return [*events, *events[at:]]
        case "splice":
            other = others[do.with_what % len(others)].events
            return [*events[:at], *other[do.where % len(other) :]]
        case "error":
            name = ("", "error", here.name)[do.where % 3]
            events.insert(at, Event(name, ERRORS[do.with_what % len(ERRORS)]))
        case "merge":
            events[at : at + 2] = [Event(here.name, "\n".join(each.data for each in events[at : at + 2]))]
        case "split":
            cut = do.with_what % (len(here.data) + 1)
            events[at : at + 1] = [Event(here.name, here.data[:cut]), Event(here.name, here.data[cut:])]
        case "rename":
            events[at] = Event(("", "error", "ping", "x" * 5000, events[to].name)[do.with_what % 5], here.data)
        case "junk event":
            junk = JUNK[do.with_what % len(JUNK)]
            events[at] = Event(here.name, _LONG.get(junk, junk))
        case _:
            events[at] = Event(here.name, _of_field(here.data, do))
    return events


OF_FIELDS = ("junk field", "junk field", "drop field", "other field")
OF_EVENTS = (
    *OF_FIELDS, *OF_FIELDS, "drop", "double", "swap", "move", "cut", "repeat from", "splice", "error", "merge", "split",
    "rename", "junk event",
)  # fmt: skip

# ---------------------------------------------------------------- what is done to bytes

BYTES = (
    b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf0\x9f\x98", b"\x00", b"\r", b"\n", b"\r\n\r\n", b"\n\n", b"\xe2\x80\xa8", b"\xef\xbb\xbf",
    b": ping\n\n", b"data\n", b"data:\n\n", b"event: error\n", b"id: \x00\n", b"retry: x\n", b"error: {}\n\n", b"{", b"<", b"\x1f\x8b\x08\x00",
)  # fmt: skip
OF_BYTES = ("insert", "cut", "erase", "flip", "double bytes", "newlines", "begin")


def framed(events: Sequence[Event], *, named: bool, newline: str) -> bytes:
    """The events as an event stream."""
    lines: list[str] = []
    for name, data in events:
        if named and name:
            lines.append(f"event: {name}")
        lines += [f"data: {line}" for line in data.split("\n")]
        lines.append("")
    return "".join(line + newline for line in lines).encode("utf-8", "surrogatepass")


def framed_by_aws(events: Sequence[Event]) -> bytes:
    """The events in the binary frames of Bedrock."""
    told = b"".join(
        bytes([len(name)]) + name + b"\x07" + len(value).to_bytes(2) + value
        for name, value in ((b":message-type", b"event"), (b":event-type", b"chunk"))
    )
    frames = []
    for _, data in events:
        packed = base64.b64encode(data.encode("utf-8", "surrogatepass")).decode()
        body = json.dumps({"bytes": packed}).encode()
        frames.append(
            (16 + len(told) + len(body)).to_bytes(4) + len(told).to_bytes(4) + b"crc." + told + body + b"crc."
        )
    return b"".join(frames)


def _of_bytes(body: bytes, do: Doing) -> bytes:  # noqa: PLR0911  # a table of what is done
    """The bytes once this was done to them."""
    at = do.where % (len(body) + 1)
    junk = BYTES[do.with_what % len(BYTES)]
    match do.what:
        case "insert":
            return body[:at] + junk + body[at:]
        case "cut":
            return body[:at]
        case "erase":
            return body[:at] + body[at + 1 + do.with_what % 64 :]
        case "flip":
            return body[:at] + bytes(each ^ (1 << do.with_what % 8) for each in body[at : at + 1]) + body[at + 1 :]
        case "double bytes":
            return body[: at + 1 + do.with_what % 512] + body[at:]
        case "newlines":
            return body.replace(b"\n", (b"\r", b"\r\n", b"\n\n", b"\n\r")[do.with_what % 4])
        case _:
            return junk + body


# ---------------------------------------------------------------- one reply as it comes

Step = bytes | float | Exception  # what is sent, the seconds that are waited, what is raised

SHORT_S, LONG_S = 5.0, 95.0  # waits that are borne, and that are not
ENDINGS: tuple[tuple[Step, ...], ...] = (
    *((),) * 10,
    (aiohttp.ClientPayloadError("Response payload is not completed"),),
    (aiohttp.ServerDisconnectedError(),),
    (httpx.RemoteProtocolError("peer closed connection without sending complete message body"),),
    (ConnectionResetError(104, "Connection reset by peer"),),
    (TimeoutError(),),
    (ContentEncodingError("Can not decode content-encoding: gzip"),),
    (httpx.DecodingError("Error -3 while decompressing data: incorrect header check"),),
    (float("inf"),),
    (SHORT_S,),
    (LONG_S,),
)
STATUSES = (200,) * 80 + (201, 204, 302, 400, 401, 402, 404, 413, 429, 499, 500, 503, 529, 600)
HEADERS: tuple[dict[str, str], ...] = (
    {"content-type": "text/event-stream"},
    {"content-type": "text/event-stream; charset=latin-1"},
    {"content-type": "application/json"},
    {"content-type": "text/html"},
    {},
    {"content-type": "\xff", "x-request-id": "r1", "retry-after": "soon"},
    {"retry-after": "1e9", "x-should-retry": "true"},
    {"retry-after-ms": "-5", "x-ratelimit-reset-requests": "9" * 400},
)


class Reply(NamedTuple):
    """One answer of the server."""

    status: int
    headers: dict[str, str]
    steps: tuple[Step, ...]

    @property
    def sent(self) -> bytes:
        """All bytes of the body."""
        return b"".join(each for each in self.steps if isinstance(each, bytes))


def chunked(body: bytes, cuts: Sequence[int]) -> tuple[bytes, ...]:
    """The body, cut at these places."""
    places = sorted({0, len(body), *(cut % (len(body) + 1) for cut in cuts)})
    return tuple(body[at:to] for at, to in pairwise(places))


# A number holds several choices, for each draw costs as much as a good part of a turn.
_PLACES = 1 << 16
_ON_EVENTS = st.lists(st.integers(0, len(OF_EVENTS) * _PLACES * _PLACES - 1), max_size=3)
_ON_BYTES = st.lists(st.integers(0, len(OF_BYTES) * _PLACES * _PLACES - 1), max_size=2)
_CUTS = st.integers(0, _PLACES - 1)
MOST_CUTS = 6
MOST_SINGLE_BYTES = 2000
STYLES = 12  # ways to frame events


def _doing(kinds: Sequence[str], number: int) -> Doing:
    rest, kind = divmod(number, len(kinds))
    return Doing(kinds[kind], *divmod(rest, _PLACES))


def _cuts(number: int) -> Sequence[int]:
    """Where the body is cut: nowhere, behind each byte, or at some places."""
    many, at = divmod(number, 64)
    match at % (MOST_CUTS + 2):
        case 0:
            return ()
        case 1:
            return range(MOST_SINGLE_BYTES)
        case several:
            return [many * 31 * place for place in range(1, several)]


def replies(seeds: Sequence[Good], *, aws: bool = False) -> st.SearchStrategy[Reply]:
    """Good replies to which things were done."""

    def made(drawn: tuple[Any, ...]) -> Reply:
        good, on_events, on_bytes, cuts, style, head, ending = drawn
        events = list(good.events)
        for each in on_events:
            events = _of_events(events, _doing(OF_EVENTS, each), seeds)
        body = _framed(good, events, style, aws=aws)
        for each in on_bytes:
            body = _of_bytes(body, _doing(OF_BYTES, each))
        header, status = divmod(head, len(STATUSES))
        return Reply(STATUSES[status], HEADERS[header], (*chunked(body, _cuts(cuts)), *ENDINGS[ending]))

    return st.tuples(
        st.sampled_from(seeds),
        _ON_EVENTS,
        _ON_BYTES,
        _CUTS,
        st.integers(0, STYLES - 1),
        st.integers(0, len(STATUSES) * len(HEADERS) - 1),
        st.integers(0, len(ENDINGS) - 1),
    ).map(made)


def _framed(good: Good, events: Sequence[Event], style: int, *, aws: bool) -> bytes:
    """The events in one of the styles; a body that came whole is seldom framed at all."""
    if not good.streamed and style:
        return "".join(event.data for event in events).encode("utf-8", "surrogatepass")
    if aws and style in (1, 2):
        return framed_by_aws(events)
    return framed(events, named=style % 2 == 1, newline=("\n", "\r\n", "\n", "\r")[style % 4])


def seeds_of(protocol: str) -> list[Good]:
    """What fuzzing begins with; those whose tool can run as many as the others."""
    known, others = [*by_hand(protocol).values()], of_cases(protocol)
    return [*known * (1 + len(others) // len(known)), *others]
