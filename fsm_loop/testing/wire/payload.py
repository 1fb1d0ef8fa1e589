"""The bytes that a response of a case puts on the wire: pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Parts = Mapping[str, Any]

FOREVER_S = 0.05  # of a round that repeats for ever and asks for no time: even such a one ends at a deadline


def json_bytes(value: Any) -> bytes:
    """The value as JSON in UTF-8; with a lone surrogate in it, which UTF-8 cannot carry, all is escaped."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def step_bytes(step: Parts) -> bytes:
    """What one step puts into the body; nothing where it only waits or ends."""
    match step:
        case {"sse": record}:
            return _record(record)
        case {"comment": text}:
            return f": {text}\n\n".encode()
        case {"text": text}:
            return str(text).encode()
        case {"b64": text}:
            return base64.b64decode(text)
        case _:
            return b""


def _record(record: Parts) -> bytes:
    lines = [f"{name}: {record[name]}\n".encode() for name in ("event", "id", "retry") if record.get(name) is not None]
    if "data" in record:
        data = record["data"]
        raw = data.encode() if isinstance(data, str) else json_bytes(data)
        lines += [b"data: %b\n" % line for line in raw.split(b"\n")]
    return b"".join((*lines, b"\n"))


def unrolled(steps: Sequence[Parts]) -> Iterator[Parts]:
    """The steps with every repetition written out, for ever where it is for ever."""
    for step in steps:
        repeat = step.get("repeat")
        if repeat is None:
            yield step
            continue
        if "delay" in step:
            yield {"delay": step["delay"]}
        left = repeat["times"]
        while left == "forever" or left > 0:
            yield from unrolled(repeat["steps"])
            if left == "forever":
                yield {"delay": 0.0 if _takes_time(repeat["steps"]) else FOREVER_S}
            else:
                left -= 1
        if "end" in step:
            yield {"end": step["end"]}


def _takes_time(steps: Sequence[Parts]) -> bool:
    return any(step.get("delay") or _takes_time(step.get("repeat", {}).get("steps", ())) for step in steps)


def body_bytes(response: Parts) -> bytes:
    """The body of a response that is no stream of steps."""
    match response:
        case {"body": value}:
            return json_bytes(value)
        case {"body_text": text}:
            return str(text).encode()
        case {"body_b64": text}:
            return base64.b64decode(text)
        case _:
            return b""


def head_bytes(response: Parts, body: bytes | None) -> tuple[bytes, bool]:
    """The status line and the headers, and whether the body goes out in chunks; *body* is None for steps."""
    headers = {name: str(value) for name, value in response.get("headers", {}).items()}
    known = {name.lower() for name in headers}
    if body is None:
        kind = "text/event-stream"
    else:
        kind = "application/json" if "body" in response else ""
        if "content-length" not in known:
            headers["content-length"] = str(len(body))
    if kind and "content-type" not in known:
        headers["content-type"] = kind
    chunked = body is None and "content-length" not in known
    if chunked:
        headers["transfer-encoding"] = "chunked"
    lines = [f"HTTP/1.1 {response['status']} X", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join((*lines, "", "")).encode("latin-1"), chunked


def keeps_promise(response: Parts, body: bytes) -> bool:
    """Whether the body is as long as its headers say, so that the connection can be used again."""
    told = next(
        (value for name, value in response.get("headers", {}).items() if name.lower() == "content-length"), None
    )
    return told is None or str(told) == str(len(body))
