"""Bytes of a reply, as deltas, whatever the answer turns out to be. Pure: any transport feeds it.

What an event or a body means is the decoder's affair, one for each protocol.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from fsm_loop.core.faults import Fault, FaultKind
from fsm_loop.errors import ModelError
from fsm_loop.ports import Delta
from fsm_loop.providers.chat_decode import ChatDecoder, parsed
from fsm_loop.providers.said import said_in, short
from fsm_loop.providers.sse import EventTooLarge, SseDecoder, SseEvent

MAX_BODY_BYTES = 64 * 1024 * 1024  # of a reply that comes in one body
MAX_REPLY_BYTES = 256 * 1024 * 1024  # of one that is streamed: 128,000 tokens, each with a page of log probabilities
SHOWN_CHARS = 120  # of a body that is none of what it should be

_BEFORE = b"\xef\xbb\xbf \t\r\n"
_BODY, _PAGE = b"{[", b"<"
_OF_EVENTS = (b":", b"data", b"event", b"id", b"retry", b"error")


class Decoder(Protocol):
    """What a protocol makes of one reply; `done` is true when nothing more can come that counts."""

    @property
    def done(self) -> bool:
        """Whether the rest of the stream says nothing."""
        ...

    def event(self, name: str, data: str) -> Sequence[Delta]:
        """The deltas of one event of a stream; raises ModelError."""
        ...

    def whole(self, value: Any) -> Sequence[Delta]:
        """The deltas of a reply that came in one body; raises ModelError."""
        ...


class ReplyReader:
    """One reply while it is read.

    Whether it is a stream of events, one JSON body or a page of HTML is seen in its first byte, for content types lie
    and gateways stream, or do not, against what was asked. `done` is true when nothing more can come that counts.
    """

    def __init__(self, decoder: Decoder, *, streamed: bool = True) -> None:
        self.done = False
        self._streamed = streamed
        self._decoder = decoder
        self._events = SseDecoder()
        self._head = b""  # how it begins, while nothing has been heard
        self._body: list[bytes] | None = None
        self._size_bytes = 0
        self._heard = False

    def feed(self, chunk: bytes) -> Iterator[Delta]:
        """The deltas that these bytes bring. Raises ModelError, after what was well before it."""
        if self._body is not None:
            self._keep(chunk)
        elif self._heard:
            yield from self._stream(chunk)
        else:
            yield from self._begin(chunk)

    def end(self) -> Iterator[Delta]:
        """The deltas that were still to come, now that all bytes are here."""
        if self._body is not None:
            yield from self._whole(b"".join(self._body))
            return
        for event in self._events.end():
            yield from self._last(event)
        if not self._heard and not _may_be_events(self._head.strip(_BEFORE)):
            raise ModelError(Fault(FaultKind.MALFORMED, f"the reply is no event stream: {_shown(self._head)}"))
        if not self._heard and not self._streamed:
            raise ModelError(Fault(FaultKind.MALFORMED, "the reply is empty"))

    def _begin(self, chunk: bytes) -> Iterator[Delta]:
        known = bool(self._head.lstrip(_BEFORE))
        if not known:
            self._head = self._head[-SHOWN_CHARS:] + chunk  # of blanks without end the last ones will do
        elif len(self._head) < SHOWN_CHARS:
            self._head += chunk
        first = self._head.lstrip(_BEFORE)[:1]
        if known:
            yield from self._stream(chunk)
        elif first and first in _BODY + _PAGE:
            self._body = []
            self._keep(self._head)
        elif first:
            yield from self._stream(self._head)

    def _keep(self, chunk: bytes) -> None:
        self._size_bytes += len(chunk)
        if self._size_bytes > MAX_BODY_BYTES or self._body is None:
            raise ModelError(Fault(FaultKind.MALFORMED, f"the reply is longer than {MAX_BODY_BYTES} bytes"))
        self._body.append(chunk)

    def _stream(self, chunk: bytes) -> Iterator[Delta]:
        self._size_bytes += len(chunk)
        if self._size_bytes > MAX_REPLY_BYTES:
            raise ModelError(Fault(FaultKind.MALFORMED, f"the reply is longer than {MAX_REPLY_BYTES} bytes"))
        try:
            events = self._events.feed(chunk)
        except EventTooLarge as error:
            raise ModelError(Fault(FaultKind.MALFORMED, str(error))) from error
        decoder = self._decoder
        for name, data in events:
            if self.done:
                return
            self._heard = True
            yield from decoder.event(name, data)
            self.done = decoder.done

    def _last(self, event: SseEvent) -> Iterator[Delta]:
        """An event that only the end of the body completed; one that is cut off is none."""
        if self.done:
            return
        self._heard = True
        try:
            yield from self._decoder.event(*event)
        except ModelError as error:
            if not (self._events.cut and error.fault.kind is FaultKind.MALFORMED):
                raise

    def _whole(self, body: bytes) -> Iterator[Delta]:
        text = body.strip(_BEFORE).decode("utf-8", "replace")
        try:
            value = parsed(text)
        except ValueError:
            what = said_in(text).message
            raise ModelError(
                Fault(FaultKind.MALFORMED, f"the reply is not JSON: {short(what)[:SHOWN_CHARS]}")
            ) from None
        yield from self._decoder.whole(value)


class ChatReader(ReplyReader):
    """One reply of Chat Completions while it is read."""

    def __init__(self, request_id: str = "", *, streamed: bool = True, cumulative: bool = False) -> None:
        super().__init__(ChatDecoder(request_id, cumulative=cumulative), streamed=streamed)


def _may_be_events(head: bytes) -> bool:
    """Whether a body that begins so, and ended before its first event did, was a stream of events."""
    return head.startswith(_OF_EVENTS) or any(each.startswith(head) for each in _OF_EVENTS)


def _shown(head: bytes) -> str:
    return short(head.decode("utf-8", "replace"))[:SHOWN_CHARS]
