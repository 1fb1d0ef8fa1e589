"""Cases in real time that is scaled down, on trio, with the server in a thread: what works there works with any client."""

from __future__ import annotations

import threading
import urllib.request
from pathlib import Path

import pytest

from fsm_loop.testing.wire.case import cases_in
from fsm_loop.testing.wire.connect import why_not
from fsm_loop.testing.wire.judge import differences
from fsm_loop.testing.wire.play import play_scaled
from fsm_loop.testing.wire.threaded import ThreadedServer
from tests.wire.parts import case, says

pytest.importorskip("openai")

SCALE = 0.02  # of real time: a machine that is busy is still in time
SAMPLE = 40
# What is about asyncio's own exception, or measured in seconds that a busy machine cannot keep.
APART = ("parallel-tool-raises-cancelled-error", "steers-are-not-retries")


def sample():
    """Every second or third case whose protocol is spoken, by its place in the folder."""
    spoken = [
        each
        for each in cases_in(Path(__file__).parent / "cases")
        if not why_not(each.protocol) and each.id not in APART and "waits" not in each.expect
    ]
    return [spoken[place * len(spoken) // SAMPLE] for place in range(SAMPLE)]


@pytest.mark.parametrize("case", sample(), ids=lambda case: case.id)
def test_a_sample_ends_as_expected_on_trio(case):
    """The other event loop comes to the same ends."""
    assert [] == differences(case, play_scaled(case, "trio", SCALE))


def test_any_client_can_be_served():
    """A client that knows nothing of loops gets the case's answers, and the thread is gone afterwards."""
    before = threading.active_count()
    with ThreadedServer(case(says("Hi."))) as server, urllib.request.urlopen(server.base_url, timeout=10) as answer:
        body = answer.read()

    assert b"Hi." in body
    assert 1 == len(server.requests)
    assert before == threading.active_count()
    assert ["request_sent", "response_opened"] == list(server.told)
