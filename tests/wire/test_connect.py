"""A case is played on the way to the wire that was chosen, whatever its protocol."""

from __future__ import annotations

import pytest

from fsm_loop.testing.wire.connect import HTTP, SDK
from fsm_loop.testing.wire.play import play
from tests.wire.parts import case
from tests.wire.streams import CHAT, MESSAGES, RESPONSES

pytest.importorskip("openai")
pytest.importorskip("anthropic")

BARRED = {"status": 403, "body": {"error": {"message": "no"}}}


@pytest.mark.parametrize(
    ("protocol", "way", "agent"),
    [
        (CHAT, HTTP, "fsm-loop"),
        (MESSAGES, HTTP, "fsm-loop"),
        (RESPONSES, HTTP, "fsm-loop"),
        (CHAT, SDK, "AsyncOpenAI/"),
        (MESSAGES, SDK, "AsyncAnthropic/"),
        (RESPONSES, SDK, "AsyncOpenAI/"),
    ],
)
def test_a_request_says_who_sends_it(protocol, way, agent):
    """The built-in way names this package, the other one the vendor's client."""
    played = play(case(BARRED, protocol=protocol), way)

    assert [True] == [request.headers["user-agent"].startswith(agent) for request in played.requests]
