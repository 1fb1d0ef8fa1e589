"""A case played through the recorder, in one virtual loop with its server: what the tests of recordings need."""

from __future__ import annotations

import asyncio
import json

from fsm_loop.testing.wire.connect import HTTP
from fsm_loop.testing.wire.play import Player
from fsm_loop.testing.wire.recorder import LEAVES_S, Recorder
from fsm_loop.testing.wire.server import WireServer
from fsm_loop.testing.wire.virtual import LoopClock, run_virtual


class _Behind:
    """The server of a case, with a recorder before it."""

    def __init__(self, server, recorder_of):
        self._server, self._recorder_of, self.recorder = server, recorder_of, None

    def __getattr__(self, name):
        return getattr(self._server, name)

    @property
    def root_url(self):
        return self.recorder.root_url

    @property
    def base_url(self):
        return f"{self.recorder.root_url}/v1"

    async def __aenter__(self):
        await self._server.__aenter__()
        self.recorder = self._recorder_of(self._server.root_url)
        await self.recorder.__aenter__()
        return self

    async def __aexit__(self, *error):
        await asyncio.sleep(2 * LEAVES_S)
        await self.recorder.__aexit__(*error)
        await self._server.__aexit__(*error)


class _Player(Player):
    """Plays a case through a recorder."""

    def __init__(self, case, folder, keep_text, way):
        super().__init__(case, LoopClock(), way=way)
        self._folder, self._keep_text = folder, keep_text

    def _served(self):
        server = WireServer(self._case, tell=self._story.tell)
        return _Behind(server, lambda url: Recorder(url, self._folder, keep_text=self._keep_text))


def recorded(case, folder, *, keep_text=False, way=HTTP):
    """What came of the case when it was played through the recorder, and the files written, as JSON."""
    played = run_virtual(lambda: _Player(case, folder, keep_text, way).run())
    return played, [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
