"""Cases on trio over the user's own SDK client, whose httpx finds trio by itself: the other way comes to the same ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsm_loop.testing.wire.case import cases_in
from fsm_loop.testing.wire.connect import SDK
from fsm_loop.testing.wire.judge import differences
from fsm_loop.testing.wire.play import play_scaled
from tests.wire.streams import CASES, CHAT, MESSAGES
from tests.wire.test_threaded import APART, SCALE

pytest.importorskip("openai")
pytest.importorskip("anthropic")

SAMPLE = 40


def sample():
    """Cases from all of the folder, other ones than the built-in way is shown by, as far as there are."""
    disputed = (Path(__file__).parent / "disputed.md").read_text(encoding="utf-8")
    fit = [
        each
        for each in cases_in(CASES)
        if each.protocol in (CHAT, MESSAGES)
        and each.id not in APART
        and "waits" not in each.expect
        and each.id not in disputed
    ]
    return [fit[(place * len(fit) + len(fit) // 2) // SAMPLE] for place in range(SAMPLE)]


@pytest.mark.parametrize("case", sample(), ids=lambda case: case.id)
def test_a_sample_ends_as_expected_on_trio_over_the_sdk(case):
    """What came of the case is what a right loop does about it."""
    assert [] == differences(case, play_scaled(case, "trio", SCALE, SDK))
