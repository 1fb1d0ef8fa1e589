"""What every test shares: how Hypothesis looks for counter-examples."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

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
