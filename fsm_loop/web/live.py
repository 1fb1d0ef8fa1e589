"""A turn followed in a browser while it runs: the viewer, and server-sent events that bring it each record.

It listens on the loopback alone, and answers nobody who does not know the token in its address, nor a browser that was
sent there under another host's name.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Unpack

import msgspec

from fsm_loop.audit.scribe import Scribe
from fsm_loop.audit.sink import Sink, Wishes
from fsm_loop.core.machine import PAGE
from fsm_loop.core.rows import Page
from fsm_loop.export.viewer import MOST_RECORDS, Shown, told, viewer

LOOPBACK = "127.0.0.1"
COMES_WITHIN_S = 5.0  # for a browser to come at all, after a turn that was short
LEAVES_WITHIN_S = 2.0  # for a browser that is there to be told the rest
HEADERS = (
    ("Cache-Control", "no-store"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
)
BEAT_S = 1.0  # between two looks at whether the browser is still there


class Live(Sink):
    """A watcher whose turns are shown at `url` until it is closed; the browser keeps what it has then.

    `waits_s` is how long it waits, when it closes, for a browser that has not come yet. Raises OSError where no port
    is to be had.
    """

    def __init__(self, page: Page = PAGE, *, waits_s: float = COMES_WITHIN_S, **wishes: Unpack[Wishes]) -> None:
        super().__init__(**wishes)
        self._events: list[bytes] = []
        self._changed = threading.Condition()
        self._over = False
        self._served = 0
        self._following = 0
        self._waits_s = waits_s
        self._token = secrets.token_urlsafe(24)
        html = viewer(Shown(title="live", live=True), page).encode()
        self._server = _Server(self, html)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    @property
    def authority(self) -> str:
        """The host and port that a browser must ask for."""
        return f"{LOOPBACK}:{self._server.server_address[1]}"

    @property
    def path(self) -> str:
        """Where the page is; nobody can guess it."""
        return f"/{self._token}/"

    @property
    def url(self) -> str:
        """The page's address."""
        return f"http://{self.authority}{self.path}"

    def write(self, scribe: Scribe, line: bytes, *, last: bool = False) -> None:  # noqa: ARG002  # an end says that it is one
        """One record, for every browser that follows; past what a page can hold, none."""
        record = msgspec.json.decode(line)
        event = {"kind": record["is"], "turn": scribe.turn_id, "record": told(record)}
        with self._changed:
            if len(self._events) < MOST_RECORDS:
                self._events.append(json.dumps(event).encode())
                self._changed.notify_all()

    def follow(self, send: Callable[[bytes], object], after: int = 0) -> None:
        """Send every record after the first *after* ones as it comes, and then that it is over."""
        with self._changed:
            self._following += 1
            after = min(after, len(self._events))
        try:
            while True:
                with self._changed:
                    if after == len(self._events) and not self._over:
                        self._changed.wait(BEAT_S)
                    fresh, over = self._events[after:], self._over
                for event in fresh:
                    after += 1
                    send(b"id: %d\nevent: record\ndata: %b\n\n" % (after, event))
                if over:
                    send(b"event: over\ndata: {}\n\n")
                    return
                if not fresh:
                    send(b": still here\n\n")
        finally:
            with self._changed:
                self._following -= 1
                self._served += 1
                self._changed.notify_all()

    def close(self) -> None:
        """The turn is over: whoever follows is told the rest, and the server ends."""
        with self._changed:
            if self._over:
                return
            self._over = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: bool(self._served or self._following), self._waits_s)
            self._changed.wait_for(lambda: not self._following, LEAVES_WITHIN_S)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(LEAVES_WITHIN_S)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, live: Live, html: bytes) -> None:
        super().__init__((LOOPBACK, 0), _Handler)
        self.live = live
        self.html = html


class _Handler(BaseHTTPRequestHandler):
    timeout = 10.0
    server: _Server

    def do_GET(self) -> None:
        live, path = self.server.live, self.path.encode()
        if self.headers.get("Host") != live.authority:
            self._head(403, "text/plain")
        elif secrets.compare_digest(path, live.path.encode()):
            self._head(200, "text/html; charset=utf-8")
            self.wfile.write(self.server.html)
        elif secrets.compare_digest(path, f"{live.path}events".encode()):
            self._stream(live)
        else:
            self._head(404, "text/plain")

    def _stream(self, live: Live) -> None:
        last = self.headers.get("Last-Event-ID", "")
        self._head(200, "text/event-stream")
        try:
            live.follow(self._send, int(last) if last.isascii() and last.isdecimal() else 0)
        except OSError:
            return  # the browser has gone

    def _send(self, data: bytes) -> None:
        self.wfile.write(data)
        self.wfile.flush()

    def _head(self, status: int, kind: str) -> None:
        self.send_response(status)
        for name, value in (("Content-Type", kind), *HEADERS):
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing is logged: the address holds the token."""
