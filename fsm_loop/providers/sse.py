"""Server-sent events out of bytes, however the wire cuts them: no I/O, and nothing of what the data means."""

from __future__ import annotations

import re

MAX_EVENT_BYTES = 16 * 1024 * 1024  # of one event, its lines together; no honest chunk of a reply is near it

_BOM = b"\xef\xbb\xbf"
_NAMED = re.compile(r"event: ([a-z_.]+)\ndata: ([^\n]+)").fullmatch


SseEvent = tuple[str, str]  # its name, empty where it has none, and its data, lines joined by a line feed


class EventTooLarge(ValueError):  # noqa: N818  # says what is wrong with it
    """An event has no end within MAX_EVENT_BYTES."""


class SseDecoder:
    r"""Turns chunks of bytes into events.

    Lines end with LF, CRLF or CR and with nothing else (U+2028 may stand in data); a byte order mark is dropped, bytes
    that are no UTF-8 become U+FFFD, comments and events without data are nothing. A field `error`, which llama.cpp
    sends, counts as data of an event of that name. `cut` is true when the body ended inside a line.
    """

    def __init__(self, limit_bytes: int = MAX_EVENT_BYTES) -> None:
        self.cut = False
        self._limit_bytes = limit_bytes
        self._unfinished: list[bytes] = []  # pieces of the line that has no end yet
        self._name = b""
        self._data: list[bytes] = []
        self._unfinished_bytes = 0
        self._data_bytes = 0
        self._after_cr = False
        self._first = True

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """The events that these bytes complete."""
        if self._after_cr and chunk.startswith(b"\n"):  # the second half of a CRLF
            chunk = chunk[1:]
            self._after_cr = False
        if not chunk:
            return []
        self._after_cr = chunk.endswith(b"\r")
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if self._first and not self._unfinished and not _BOM.startswith(chunk[:3]):  # no mark, nor a part of one
            self._first = False
        found: list[SseEvent] = []
        end = -1 if self._data or self._name or self._first else chunk.rfind(b"\n\n")
        if end >= 0:
            found = self._whole_events(b"".join((*self._unfinished, chunk[:end])))
            self._unfinished.clear()
            self._unfinished_bytes = 0
            chunk = chunk[end + 2 :]
            if not chunk:
                return found
        *lines, rest = chunk.split(b"\n")
        if lines and self._unfinished:
            lines[0] = b"".join((*self._unfinished, lines[0]))
            self._unfinished.clear()
            self._unfinished_bytes = 0
        found += [event for line in lines if (event := self._line(line)) is not None]
        if rest:
            self._unfinished.append(rest)
            self._unfinished_bytes += len(rest)
        if self._unfinished_bytes + self._data_bytes > self._limit_bytes and not found:  # what is whole is told first
            raise EventTooLarge(f"an event of the stream has no end within {self._limit_bytes} bytes")
        return found

    def _whole_events(self, body: bytes) -> list[SseEvent]:
        """The events of bytes that begin and end where events do, which is what nearly all chunks are."""
        found: list[SseEvent] = []
        for block in body.decode("utf-8", "replace").split("\n\n"):
            if block.startswith("data: ") and "\n" not in block and len(block) > 6:  # noqa: PLR2004  # the prefix
                found.append(("", block[6:]))
            elif (named := _NAMED(block)) is not None:
                found.append((named[1], named[2]))
            else:
                lines = (*block.encode("utf-8").split(b"\n"), b"")
                found += [event for line in lines if (event := self._line(line)) is not None]
        return found

    def end(self) -> list[SseEvent]:
        """The events that were complete but for the blank line behind them, now that the body has ended."""
        line = b"".join(self._unfinished)
        self._unfinished.clear()
        self.cut = bool(line)
        found = (self._line(line) if line else None, self._line(b""))
        return [event for event in found if event is not None]

    def _line(self, line: bytes) -> SseEvent | None:
        """Take in one line; the event that it completes, if it does."""
        if self._first:
            self._first, line = False, line.removeprefix(_BOM)
        if line.startswith(b"data:"):
            self._data.append(line[6:] if line[5:6] == b" " else line[5:])
            self._data_bytes += len(line)
        elif not line:
            return self._dispatched()
        elif not line.startswith(b":"):
            self._field(line)
        return None

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":  # a field without a colon: an empty line of data
            self._data.append(value)
            self._data_bytes += len(line)
        elif name == b"event":
            self._name = value
        elif name == b"error":
            self._name = name
            self._data.append(value)
            self._data_bytes += len(line)

    def _dispatched(self) -> SseEvent | None:
        name, data = self._name, b"\n".join(self._data)
        self._name = b""
        self._data.clear()
        self._data_bytes = 0
        if not data:
            return None
        return name.decode("utf-8", "replace"), data.decode("utf-8", "replace")
