"""The server that replays the wire, as a client sees it: byte for byte."""

from __future__ import annotations

import asyncio
import json

import pytest

from fsm_loop.testing.wire.server import HOST, WireServer
from fsm_loop.testing.wire.virtual import run_virtual
from tests.wire.parts import case, says, sse

BODY = json.dumps({"model": "m", "messages": []}).encode()
POST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)


async def asked(server, request=POST):
    """All that comes for one request until the connection ends or is silent for long, and how that was."""
    reader, writer = await asyncio.open_connection(HOST, server.port)
    writer.write(request)
    data = b""
    try:
        async with asyncio.timeout(1000):
            while piece := await reader.read(65536):
                data += piece
        end = "end"
    except ConnectionResetError:
        end = "reset"
    except TimeoutError:
        end = "open"
    writer.close()
    return data, end


def played(*exchange, times=1, **facts):
    """The answers to so many requests, each on a connection of its own, and the server as it was then."""

    async def main():
        async with WireServer(case(*exchange, **facts)) as server:
            answers = [await asked(server) for _ in range(times)]
            await asyncio.sleep(1)
            return answers, server, server.open_connections

    return run_virtual(main)


def test_a_stream_goes_out_as_it_stands():
    """Records, comments and raw bytes, each in a chunk of its own, then the chunk that ends it."""
    steps = [{"sse": {"event": "e", "id": "1", "retry": 5, "data": {"a": "é"}}}, {"comment": "ping"}]
    steps += [{"text": "data: x\r\n\r\n"}, {"b64": "//4="}, {"sse": {"data": "[DONE]"}}]
    ((data, end),), _, _ = played({"status": 200, "headers": {"x-a": "b"}, "steps": steps})
    head, _, body = data.partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 200 ")
    assert {b"x-a: b", b"content-type: text/event-stream", b"transfer-encoding: chunked"} <= set(head.split(b"\r\n"))
    assert (
        b'2a\r\nevent: e\nid: 1\nretry: 5\ndata: {"a":"\xc3\xa9"}\n\n\r\n'
        b"8\r\n: ping\n\n\r\nb\r\ndata: x\r\n\r\n\r\n2\r\n\xff\xfe\r\ne\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
    ) == body
    assert "open" == end


@pytest.mark.parametrize(
    ("response", "body", "end"),
    [
        ({"status": 200, "body": {"a": "\ud800"}}, b'{"a":"\\ud800"}', "open"),
        ({"status": 503, "body_text": "<p>"}, b"<p>", "open"),
        ({"status": 200, "body_b64": "AAE="}, b"\0\1", "open"),
        ({"status": 200, "body_text": "abc", "headers": {"content-length": "9"}}, b"abc", "end"),
        ({"status": 200, "steps": [{"text": "ab"}], "headers": {"content-length": "9"}}, b"ab", "end"),
        ({"status": 200, "steps": [{"text": "ab"}, {"end": "abrupt"}]}, b"2\r\nab\r\n", "end"),
        ({"status": 200, "steps": [{"text": "ab"}, {"end": "reset"}]}, b"2\r\nab\r\n", "reset"),
        ({"status": 200, "steps": [{"text": "ab"}, {"end": "hang"}]}, b"2\r\nab\r\n", "open"),
        ({"status": 200, "steps": [{"text": "abc", "split": 2}, {"end": "abrupt"}]}, b"2\r\nab\r\n1\r\nc\r\n", "end"),
        ({"status": 200, "steps": [{"repeat": {"times": 2, "steps": [{"text": "a"}]}}]}, b"1\r\na\r\n" * 2 + b"0\r\n\r\n", "open"),
        ({"connect": "close"}, b"", "end"),
        ({"connect": "reset"}, b"", "reset"),
        ({"connect": "hang"}, b"", "open"),
    ],
)  # fmt: skip
def test_bodies_and_ends(response, body, end):
    """Whole bodies, bodies that are cut, and what no framework would send."""
    (answer,), _, _ = played(response)

    assert (body, end) == (answer[0].partition(b"\r\n\r\n")[2], answer[1])


def test_delays_are_virtual_seconds():
    """Headers and steps wait as long as they say, and the end of an answer is when it was over."""
    response = {
        "status": 200,
        "headers_delay": 30,
        "steps": [{"text": "a", "delay": 20}, {"end": "abrupt", "delay": 10}],
    }
    _, server, _ = played(response)

    assert [60] == server.ends
    assert [0] == [request.at for request in server.requests]


def test_a_client_that_leaves_ends_its_answer():
    """An answer for ever is over when nobody hears it, and its connection is gone."""
    forever = {"status": 200, "steps": [{"repeat": {"times": "forever", "steps": [sse("x")]}}]}

    async def main():
        async with WireServer(case(forever)) as server:
            reader, writer = await asyncio.open_connection(HOST, server.port)
            writer.write(POST)
            await reader.readline()
            writer.close()
            await asyncio.sleep(1)
            return len(server.ends), server.open_connections

    assert (1, 0) == run_virtual(main)


def test_a_request_too_many():
    """It gets a 599 and is a violation; or the last response again, where the case says so."""
    answers, server, _ = played(says("Hi."), times=2)
    again, patient, _ = played(says("Hi."), times=2, exchange_overflow="repeat_last")

    assert answers[1][0].startswith(b"HTTP/1.1 599")
    assert 1 == len(server.violations)
    assert again[0] == again[1]
    assert [] == patient.violations


def test_the_model_that_must_be_asked():
    """A request that names another one is a violation."""
    _, server, _ = played({**says("Hi."), "for_model": "other"})

    assert ["request 1 asks the model 'm', not 'other'"] == server.violations


def test_a_response_by_what_is_asked():
    """A variant with a condition answers a request that meets it."""
    better = {"name": "better", "at": 0, "if": [{"check": "contains", "text": '"m"'}], "response": {"connect": "close"}}
    worse = {**better, "if": [{"check": "contains", "text": "nothing of the kind"}]}

    assert b"" == played(says("Hi."), variants=[better])[0][0][0]
    assert b"Hi." in played(says("Hi."), variants=[worse])[0][0][0]


def test_nobody_listens():
    """While the server is down connections are refused; then it is at the same address again."""

    async def main():
        async with WireServer(case({"connect": "refuse", "down_for": 20}, says("Hi."))) as server:
            with pytest.raises(ConnectionRefusedError):
                await asked(server)
            await asyncio.sleep(21)
            return await asked(server), len(server.requests)

    (data, _), requests = run_virtual(main)

    assert b"Hi." in data
    assert 1 == requests


def test_several_requests_on_one_connection():
    """A connection whose answer was whole takes the next request, also one that came too early."""

    async def main():
        async with WireServer(case({"status": 200, "body_text": "one"}, {"status": 200, "body_text": "two"})) as server:
            data, end = await asked(server, POST + POST)
            return data, end, len(server.requests), len(server.ends)

    data, end, requests, ends = run_virtual(main)

    assert data.index(b"one") < data.index(b"two")
    assert ("open", 2, 2) == (end, requests, ends)
