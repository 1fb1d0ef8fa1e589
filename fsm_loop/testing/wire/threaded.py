"""The server of a case in a thread of its own, in real time that is scaled down: for trio, and for any test."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Sequence
from typing import Self

from fsm_loop.testing.wire.case import Case, Received
from fsm_loop.testing.wire.server import WireServer

STARTS_S = 10.0  # of real time for the thread to begin, and to end


class ThreadedServer:
    """Serves one run of a case between `with` and its end; a virtual second takes *scale* real ones.

    `told` holds what happened on the wire and has not been taken yet: `request_sent`, `response_opened`.
    """

    def __init__(self, case: Case, scale: float = 0.01) -> None:
        self.told: deque[str] = deque()
        self._server = WireServer(case, scale, self.told.append)
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="wire", daemon=True)

    @property
    def base_url(self) -> str:
        """Where an OpenAI client finds it."""
        return self._server.base_url

    @property
    def root_url(self) -> str:
        """Where an Anthropic client finds it."""
        return self._server.root_url

    @property
    def requests(self) -> Sequence[Received]:
        """All requests that came."""
        return self._server.requests

    @property
    def ends(self) -> Sequence[float]:
        """When each answer was over."""
        return self._server.ends

    @property
    def violations(self) -> Sequence[str]:
        """What a client did that the case has no answer for."""
        return self._server.violations

    @property
    def open_connections(self) -> int:
        """The connections that stand now."""
        return self._server.open_connections

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._ready.wait(STARTS_S):
            raise RuntimeError(f"the server did not start within {STARTS_S:g} s")
        return self

    def __exit__(self, *_: object) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(STARTS_S)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *_: object) -> None:
        self.__exit__()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with self._server:
            self._ready.set()
            await self._over.wait()
