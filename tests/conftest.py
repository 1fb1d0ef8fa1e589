"""What every test shares: how Hypothesis looks for counter-examples, and that every turn can be told again."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from tests.retold import Retold

# The same examples each time: a red test is red because of the change, and a green one stays green.
settings.register_profile("short", derandomize=True, deadline=None)
# New examples each time, and many: for a night, not for a change.
settings.register_profile(
    "long",
    derandomize=False,
    deadline=None,
    max_examples=5_000,
    stateful_step_count=100,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("FSM_LOOP_HYPOTHESIS", "short"))


@pytest.fixture(autouse=True)
def _retold(request, monkeypatch):
    """Whatever a test drives, its trail is verified, and leads to the same records when it is told again."""
    retold = Retold()
    if request.node.get_closest_marker("unwritten") is None:
        retold.watch(monkeypatch)
    yield
    assert [] == retold.wrong()
