"""What went wrong: each kind with what may be done about it, and the provider's own word, which comes first."""

from __future__ import annotations

import pytest

from fsm_loop.core.faults import Fault, FaultKind, RepairKind

PASSES = {"CONNECT_FAILED", "DROPPED", "INCOMPLETE", "STALLED", "TIMEOUT", "OVERLOADED", "SERVER_ERROR"}
RETRIED = PASSES | {"RATE_LIMITED", "NO_SLOT", "MALFORMED", "UNKNOWN"}
OURS = {"BAD_TOOL_CALLS", "TOOL_LOOP", "INTERNAL"}
REPAIRED = {
    "BAD_UNICODE": RepairKind.SANITIZE,
    "CONTEXT_TOO_LONG": RepairKind.COMPACT,
    "OUTPUT_LIMIT_TOO_HIGH": RepairKind.LOWER_OUTPUT_LIMIT,
    "HISTORY_REFUSED": RepairKind.MEND_HISTORY,
    "MEDIA_REFUSED": RepairKind.STRIP_MEDIA,
    "PARAMETER_UNSUPPORTED": RepairKind.DROP_PARAMETER,
    "CREDENTIAL_EXPIRED": RepairKind.REFRESH_CREDENTIAL,
    "STREAMING_UNSUPPORTED": RepairKind.STREAM_OFF,
}


@pytest.mark.parametrize("kind", FaultKind)
def test_a_kind_says_what_may_be_done(kind):
    """What passes is an outage and is retried; what is ours is not; all the rest another provider may do better."""
    fault = Fault(kind)

    assert (kind.name in RETRIED) is fault.retryable
    assert (kind.name in PASSES) is fault.outage
    assert (kind.name not in OURS) is fault.falls_back
    assert REPAIRED.get(kind.name) is fault.repair


def test_each_repair_mends_one_kind():
    """No two kinds are mended alike, and no repair is for nothing."""
    assert sorted(RepairKind) == sorted(kind.repair for kind in FaultKind if kind.repair)


@pytest.mark.parametrize(
    ("kind", "word", "expected"),
    [
        (FaultKind.OVERLOADED, None, True),
        (FaultKind.OVERLOADED, False, False),
        (FaultKind.OVERLOADED, True, True),
        (FaultKind.QUOTA_SPENT, None, False),
        (FaultKind.QUOTA_SPENT, True, True),
        (FaultKind.BAD_UNICODE, True, False),  # it would fail again until it is repaired
        (FaultKind.REFUSED, True, False),  # never sent again unchanged
        (FaultKind.REFUSED, False, False),
    ],
)
def test_the_providers_word_on_a_retry_comes_first(kind, word, expected):
    """But nothing that must change before it can succeed is sent again as it is."""
    assert expected is Fault(kind, should_retry=word).retryable


@pytest.mark.parametrize("kind", FaultKind)
def test_a_kind_has_a_word_and_a_sentence(kind):
    """The word is for trails, the sentence for a person."""
    assert kind.name.lower() == kind.word
    assert kind.sentence == Fault(kind).sentence
    assert f"{kind.sentence}: at 10:04" == Fault(kind, "at 10:04").sentence


def test_no_two_kinds_are_one():
    """An enum makes one of two members that say the same; here each has a sentence of its own."""
    assert len(FaultKind.__members__) == len({kind.sentence for kind in FaultKind})


def test_faults_are_the_same_whoever_had_them():
    """Which provider and which request it was makes no difference to what is decided."""
    assert Fault(FaultKind.DROPPED, provider="a", request_id="1") == Fault(
        FaultKind.DROPPED, provider="b", request_id="2"
    )
