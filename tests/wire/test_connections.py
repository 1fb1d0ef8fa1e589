"""What turns leave behind, with faults and interrupts, is nothing."""

from __future__ import annotations

import pytest

from fsm_loop.testing.wire.connect import HTTP, SDK
from tests.wire.streams import CHAT, MESSAGES, RESPONSES
from tests.wire.under_fire import AT_ONCE, fire

TURNS = 100  # bench/connections.py fires a thousand
MOST_GROWN_BYTES = 300_000  # of two thirds of them: what libraries learn once, and less than a few turns would keep


@pytest.mark.parametrize(
    ("protocol", "way", "backend"),
    [
        (CHAT, HTTP, "asyncio"),
        (RESPONSES, HTTP, "trio"),
        (CHAT, SDK, "trio"),
        (MESSAGES, SDK, "asyncio"),
    ],
)
@pytest.mark.unwritten
def test_nothing_is_left_behind(protocol, way, backend):
    """No connection, no task, no memory and no warning, whatever the server did and whoever interrupted."""
    left = fire(protocol, way, backend, TURNS)

    assert TURNS == sum(left.outcomes.values())
    assert {"completed", "interrupted", "cancelled"} <= set(left.outcomes)
    assert len(left.deeds) >= 10
    assert 0 < left.most_connections <= 2 * AT_ONCE
    assert (0, 0, []) == (left.connections, left.tasks, left.complaints)
    assert left.grown_bytes < MOST_GROWN_BYTES
