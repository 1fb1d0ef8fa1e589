"""The binary event stream of AWS, in which Bedrock wraps the events of a model: no I/O, and nothing of their meaning.

A frame is its length, the length of its headers, a checksum of these two, the headers, the payload, and a checksum of
all. The checksums are not looked at: TLS has carried the bytes, and JSON that is broken is found out as such.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator

from fsm_loop.providers.chat_decode import parsed
from fsm_loop.providers.fields import mapping, text
from fsm_loop.providers.sse import MAX_EVENT_BYTES, EventTooLarge, SseDecoder, SseEvent

FIRST_BYTE = b"\x00"  # of a frame shorter than 16 MB; no text begins so
_PRELUDE_BYTES, _CHECKSUM_BYTES = 12, 4
_STRING = 7  # the one type of header that is used
_LENGTHS = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}  # of the values of the other types, in bytes


class AwsDecoder(SseDecoder):
    """Turns chunks of bytes into events; a frame that tells of an exception is an event `error`."""

    def __init__(self) -> None:
        super().__init__()
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """The events that these bytes complete; raises EventTooLarge where a frame is none, or too long."""
        self._buffer += chunk
        found: list[SseEvent] = []
        try:
            for frame in self._frames():
                event = _event(frame)
                if event is not None:
                    found.append(event)
        except EventTooLarge:
            if not found:  # what is whole is told first; the frame that is none stays, and is met again
                raise
        return found

    def end(self) -> list[SseEvent]:
        """Nothing: a frame is whole, or it is none."""
        self.cut = bool(self._buffer)
        return []

    def _frames(self) -> Iterator[bytes]:
        buffer = self._buffer
        while len(buffer) >= _PRELUDE_BYTES:
            size = int.from_bytes(buffer[:4])
            if not _PRELUDE_BYTES + _CHECKSUM_BYTES <= size <= MAX_EVENT_BYTES:
                raise EventTooLarge(f"a frame of the stream says that it is {size} bytes long")
            if len(buffer) < size:
                return
            yield bytes(buffer[:size])
            del buffer[:size]


def _event(frame: bytes) -> SseEvent | None:
    begin = _PRELUDE_BYTES + int.from_bytes(frame[4:8])
    headers = _headers(frame[_PRELUDE_BYTES:begin])
    try:
        payload = mapping(parsed(frame[begin:-_CHECKSUM_BYTES].decode("utf-8", "replace")))
        chunk = base64.b64decode(text(payload.get("bytes"))).decode("utf-8", "replace")
    except (ValueError, binascii.Error):
        return "", "a frame that cannot be read"
    failure = headers.get(":exception-type") or headers.get(":error-code")
    if failure:
        message = text(payload.get("message")) or text(payload.get("Message")) or headers.get(":error-message", "")
        return "error", json.dumps({"type": failure, "message": message})
    return ("", chunk) if chunk else None


def _headers(data: bytes) -> dict[str, str]:
    """The headers that are text; what is not well formed ends them."""
    found: dict[str, str] = {}
    at = 0
    while at < len(data):
        name_end = at + 1 + data[at]
        name, kind = data[at + 1 : name_end].decode("utf-8", "replace"), data[name_end : name_end + 1]
        at = name_end + 1
        if not kind or kind[0] not in {*_LENGTHS, 6, _STRING}:
            break
        length = _LENGTHS.get(kind[0])
        if length is None:
            length = int.from_bytes(data[at : at + 2])
            at += 2
        if kind[0] == _STRING:
            found[name] = data[at : at + length].decode("utf-8", "replace")
        at += length
    return found
