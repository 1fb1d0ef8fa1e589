"""How a request is changed so that it can succeed: each repair changes it, or says that it has not."""

from __future__ import annotations

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_loop.core.effects import Repair, Request
from fsm_loop.core.faults import Fault, FaultKind, RepairKind
from fsm_loop.core.messages import (
    AssistantMessage,
    MediaPart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolStatus,
    UserMessage,
)
from fsm_loop.drive import repairs
from fsm_loop.testing.fakes import ScriptedModel

BAD, GOOD = "a\ud800b\x00", "a\ufffdb\ufffd"
IMAGE = UserMessage((TextPart("look"), MediaPart("data:x")))
CALL = ToolCall("c1", "look", "{}")


def repair(kind, prompt=(), said=(), *, fault=None, **request):
    """A repair of a request that holds these messages."""
    prompt, said = tuple(prompt), tuple(said)
    asked = Request(provider=0, messages=prompt + said, **request)
    return Repair(1, kind, fault or Fault(FaultKind.BAD_REQUEST), asked, prompt, said)


DIRTY = [
    (SystemMessage(BAD), SystemMessage(GOOD)),
    (UserMessage(BAD), UserMessage(GOOD)),
    (UserMessage((TextPart(BAD), MediaPart("data:x"))), UserMessage((TextPart(GOOD), MediaPart("data:x")))),
    (
        AssistantMessage(BAD, (ToolCall(BAD, BAD, BAD),), BAD),
        AssistantMessage(GOOD, (ToolCall(GOOD, GOOD, GOOD),), GOOD),
    ),
    (ToolMessage(BAD, BAD, ToolStatus.ERROR), ToolMessage(GOOD, GOOD, ToolStatus.ERROR)),
]


@pytest.mark.parametrize(("dirty", "clean"), DIRTY)
@pytest.mark.parametrize("place", ["prompt", "said"])
def test_sanitising_reaches_every_text(dirty, clean, place):
    """Whatever UTF-8 cannot carry becomes U+FFFD, wherever it stands; a second time there is nothing to do."""
    facts = repairs.sanitize(repair(RepairKind.SANITIZE, **{place: [dirty]}))

    assert (True, (clean,)) == (facts["changed"], facts[place])
    assert not repairs.sanitize(repair(RepairKind.SANITIZE, **{place: [clean]}))["changed"]


def test_sanitising_sees_what_is_only_in_the_request():
    """A continued answer that stands in the request alone counts as dirty too."""
    effect = repair(RepairKind.SANITIZE, [UserMessage("clean")])
    asked = Request(provider=0, messages=(*effect.prompt, AssistantMessage(BAD)))

    assert repairs.sanitize(Repair(1, effect.kind, effect.fault, asked, effect.prompt, effect.said))["changed"]


def test_media_give_way_to_a_word():
    """Images are replaced, texts stay; without images nothing changes."""
    facts = repairs.strip_media(repair(RepairKind.STRIP_MEDIA, [IMAGE], [UserMessage("and?"), AssistantMessage("x")]))

    assert facts["changed"]
    assert (UserMessage((TextPart("look"), repairs.REMOVED_MEDIA)),) == facts["prompt"]
    assert not repairs.strip_media(repair(RepairKind.STRIP_MEDIA, facts["prompt"], facts["said"]))["changed"]


BROKEN = [
    ("a call without a result", [AssistantMessage("", (CALL,)), UserMessage("x")],
     [AssistantMessage("", (CALL,)), ToolMessage("c1", "outcome unknown: no result was kept", ToolStatus.UNKNOWN), UserMessage("x")]),
    ("a result without a call", [UserMessage("x"), ToolMessage("c9", "y")], [UserMessage("x")]),
    ("a result that comes late", [AssistantMessage("", (CALL,)), UserMessage("x"), ToolMessage("c1", "y")],
     [AssistantMessage("", (CALL,)), ToolMessage("c1", "y"), UserMessage("x")]),
    ("two results of a call", [AssistantMessage("", (CALL,)), ToolMessage("c1", "first"), ToolMessage("c1", "second")],
     [AssistantMessage("", (CALL,)), ToolMessage("c1", "first")]),
    ("an empty word", [UserMessage("x"), AssistantMessage("  ")], [UserMessage("x")]),
    ("what another provider signed", [AssistantMessage("x", (), "hm", ("signature",))], [AssistantMessage("x")]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "before", "after"), BROKEN)
def test_a_history_is_mended(name, before, after):
    """Each call has exactly one result behind it, and nothing empty, orphaned or signed by others is left."""
    facts = repairs.mend_history(repair(RepairKind.MEND_HISTORY, before))

    assert (True, tuple(after)) == (facts["changed"], facts["prompt"])
    assert not repairs.mend_history(repair(RepairKind.MEND_HISTORY, after))["changed"]


calls = st.builds(ToolCall, st.sampled_from("abc"), st.just("look"))
anything = st.one_of(
    st.builds(UserMessage, st.just("x")),
    st.builds(
        AssistantMessage, st.sampled_from(["", "y"]), st.lists(calls, max_size=2, unique_by=lambda c: c.id).map(tuple)
    ),
    st.builds(ToolMessage, st.sampled_from("abc"), st.just("z")),
)


@given(st.lists(anything, max_size=8).map(tuple))
def test_a_mended_history_needs_no_mending(messages):
    """Mending is whole the first time, whatever stood there."""
    once = repairs.mended(messages)

    assert once == repairs.mended(once)
    open_calls = []
    for message in once:
        if isinstance(message, ToolMessage):
            assert message.call_id == open_calls.pop(0)
        else:
            assert [] == open_calls
        if isinstance(message, AssistantMessage):
            open_calls = [call.id for call in message.tool_calls]
    assert [] == open_calls


@pytest.mark.parametrize(
    ("parameter", "without", "changed"), [("seed", (), True), ("", (), False), ("seed", ("seed",), False)]
)
def test_a_parameter_is_left_out_once(parameter, without, changed):
    """A parameter that is named and still there is left out; otherwise nothing changes."""
    fault = Fault(FaultKind.PARAMETER_UNSUPPORTED, parameter=parameter)
    facts = repairs.drop_parameter(repair(RepairKind.DROP_PARAMETER, fault=fault, without=frozenset(without)))

    assert (changed, parameter) == (facts["changed"], facts["parameter"])


@pytest.mark.parametrize(
    ("asked", "named", "limit", "changed"),
    [(9000, 4096, 4096, True), (9000, None, 4500, True), (4096, 4096, 4096, False), (100, 4096, 4096, False),
     (None, None, 4096, True), (None, 512, 512, True), (1, None, 0, False)],
)  # fmt: skip
def test_the_output_limit_is_lowered_or_nothing_is(asked, named, limit, changed):
    """The limit becomes the provider's, else half of what was refused; one that is no lower changes nothing."""
    fault = Fault(FaultKind.OUTPUT_LIMIT_TOO_HIGH, limit=named)
    facts = repairs.lower_output_limit(repair(RepairKind.LOWER_OUTPUT_LIMIT, fault=fault, output_limit=asked))

    assert (changed, limit) == (facts["changed"], facts["limit"])


@pytest.mark.parametrize("stream", [True, False])
def test_streaming_is_switched_off_once(stream):
    """A request that did not stream cannot be mended by not streaming."""
    assert {"changed": stream} == repairs.stream_off(repair(RepairKind.STREAM_OFF, stream=stream))


def test_every_plain_kind_has_its_repair():
    """All kinds but the two that ask a port are in the table."""
    assert {*RepairKind} - {RepairKind.COMPACT, RepairKind.REFRESH_CREDENTIAL} == set(repairs.PLAIN)


class Compactor:
    """A compactor that gives what it was given to give."""

    def __init__(self, gives) -> None:
        self.gives, self.asked = gives, []

    async def compact(self, messages, fault):
        self.asked.append(messages)
        return self.gives


LONG = (UserMessage("x" * 100), AssistantMessage("y" * 50))


@pytest.mark.parametrize(
    ("gives", "changed"),
    [(LONG[:1], True), (LONG, False), ((*LONG, UserMessage("z")), False), ([UserMessage("x" * 149)], True), ((), True)],
)
def test_a_compaction_makes_it_shorter_or_has_failed(gives, changed):
    """What counts is how much is said; what was said in this turn is part of what is compacted."""
    compactor = Compactor(gives)
    facts = anyio.run(repairs.compact, repair(RepairKind.COMPACT, LONG[:1], LONG[1:]), compactor)

    assert (changed, tuple(gives), ()) == (facts["changed"], facts["prompt"], facts["said"])
    assert [LONG] == compactor.asked


def test_without_a_compactor_nothing_is_compacted():
    """There is nobody to ask."""
    assert repairs.NO_CHANGE == anyio.run(repairs.compact, repair(RepairKind.COMPACT, LONG), None)


@pytest.mark.parametrize(
    ("message", "size"),
    [
        (SystemMessage("four"), 4),
        (UserMessage("four"), 4),
        (UserMessage((TextPart("four"), MediaPart("url"))), 7),
        (AssistantMessage("four", (ToolCall("c", "look", "{}"),), "hm"), 4 + 2 + 4 + 2),
        (ToolMessage("c", "seen"), 4),
    ],
)
def test_a_message_is_as_large_as_what_it_says(message, size):
    """Texts, names, arguments, reasoning and addresses count."""
    assert size == repairs.size_of([message])


@pytest.mark.parametrize("fresh", [True, False])
def test_a_credential_is_refreshed_where_it_can_be(fresh):
    """A model that can refresh says whether it did; one that cannot has not."""

    class Refreshes(ScriptedModel):
        async def refresh(self):
            return fresh

    assert {"changed": fresh} == anyio.run(repairs.refresh_credential, Refreshes(()))
    assert {"changed": False} == anyio.run(repairs.refresh_credential, ScriptedModel(()))


def test_who_speaks_twice_in_a_row_speaks_once():
    """Neighbours of one speaker become one, also where the prompt ends and what the turn said begins."""
    one, two, three = UserMessage("one"), UserMessage("two"), UserMessage("three")
    words = (AssistantMessage("so"), AssistantMessage("then", (CALL,)), ToolMessage("c1", "seen"))
    facts = repairs.mend_history(repair(RepairKind.MEND_HISTORY, (one, two), (three, *words)))

    together = (AssistantMessage("so\n\nthen", (CALL,)), ToolMessage("c1", "seen"))
    assert (UserMessage("one\n\ntwo\n\nthree"), *together) == facts["prompt"] + facts["said"]
    assert facts["changed"]
