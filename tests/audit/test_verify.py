"""What `verify` finds: whatever is changed in a good trail, and what only its last hash or a signature can show."""

from __future__ import annotations

import copy
import json
from itertools import zip_longest

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fsm_loop import LoopConfig
from fsm_loop.audit.canonical import canonical, sha256
from fsm_loop.audit.reading import line_of
from fsm_loop.audit.records import START, UNHASHED
from fsm_loop.audit.signing import checks_with, signs_with
from fsm_loop.audit.sink import Sink
from fsm_loop.audit.verify import verify
from fsm_loop.core.faults import FaultKind
from fsm_loop.loop import Loop
from fsm_loop.testing.clock import VirtualClock
from fsm_loop.testing.fakes import ScriptedModel, SeededChance, calls, fails, says

KEY = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
OTHER = Ed25519PrivateKey.from_private_bytes(b"o" * 32)


class Kept(Sink):
    """A trail in memory."""

    def __init__(self, **wishes):
        super().__init__(wall=lambda: 1.5, **wishes)
        self.lines = []

    def write(self, scribe, line, *, last=False):
        self.lines.append(line)

    def close(self):
        pass


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def written(script=None, config=None, **wishes):
    """The records of a turn: a failed call, a wait, a tool round, an answer; or what the script has."""
    clock, kept = VirtualClock(), Kept(**wishes)
    script = script or [fails(FaultKind.OVERLOADED), calls(("add", {"a": 1, "b": 2})), says("three")]
    models = [ScriptedModel(script, clock=clock)]
    loop = Loop(model=models[0], tools=[add], watchers=[kept], clock=clock, chance=SeededChance(1), config=config)
    clock.run(lambda: loop.run("1 + 2?"))
    return [json.loads(line) for line in kept.lines]


CONTENTS = ("digests", "full")
TRAILS = {content: written(content=content, sign=signs_with(KEY)) for content in CONTENTS}
EXHAUSTED = written([calls(("add", {"a": 1, "b": 2}))] * 3, LoopConfig(max_iterations=1, grace_calls=0))


def checked(records, **wishes):
    """The verdict on these records."""
    return verify([line_of("t", number, canonical(each)) for number, each in enumerate(records, 1)], **wishes)


def rehashed(records, at=0):
    """The records, each from this one on with the hash of its content and of the one before it."""
    records = [copy.deepcopy(each) for each in records]  # one that stands twice is two
    previous = records[at - 1]["hash"] if at else START
    for record in records[at:]:
        record["previous"] = previous
        previous = sha256(canonical({name: value for name, value in record.items() if name not in UNHASHED}))
        record["hash"] = previous
    return records


@pytest.mark.parametrize("records", [*TRAILS.values(), EXHAUSTED], ids=[*TRAILS, "exhausted"])
def test_a_good_trail_is_verified(records):
    """What was written is right, and the verdict says what was found."""
    verdict = checked(records)
    (turn,) = verdict.turns

    assert (True, (), (), None) == (verdict.verified, verdict.problems, verdict.torn, turn.problem)
    assert (len(records), len(records) - 2, True, True) == (turn.checked, turn.decisions, turn.over, turn.conforms)
    assert (records[-1]["hash"], records[-1]["outcome"]) == (turn.head, turn.outcome)


def test_turns_among_each_other_are_verified():
    """Each turn is checked by itself, in whatever order their records stand."""
    one, other = TRAILS["full"], EXHAUSTED
    mixed = [each for pair in zip_longest(one, other) for each in pair if each]

    assert checked(mixed).verified
    assert [one[0]["turn"], other[0]["turn"]] == [each.turn_id for each in checked(mixed).turns]


# ---------------------------------------------------------------- changed at random


def leaves(value, path=()):
    """Every place of the record, and what stands there."""
    if isinstance(value, dict) and value:
        for name, each in value.items():
            yield from leaves(each, (*path, name))
    elif isinstance(value, list) and value:
        for place, each in enumerate(value):
            yield from leaves(each, (*path, place))
    else:
        yield path, value


def put(records, at, path, value):
    """The records with the value in that place."""
    records = copy.deepcopy(records)
    inner = records[at]
    for step in path[:-1]:
        inner = inner[step]
    if value is GONE:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return records


GONE = object()
VALUES = st.one_of(
    st.integers(-3, 200), st.booleans(), st.none(), st.text(max_size=5), st.just(GONE), st.just([]), st.just({}),
    st.sampled_from(["calling", "done", "streaming", "0" * 64, "completed", "model_replied"]),
)  # fmt: skip


@st.composite
def edits(draw, records):
    """A change of one value, and where it is."""
    at = draw(st.integers(0, len(records) - 1))
    path, value = draw(st.sampled_from(list(leaves(records[at]))))
    fresh = draw(VALUES)
    assume(fresh is GONE or (fresh, type(fresh)) != (value, type(value)))
    return at, path, put(records, at, path, fresh)


@st.composite
def moves(draw, records):
    """The records with one dropped, doubled, moved or added from another turn."""
    at, to = draw(st.integers(0, len(records) - 1)), draw(st.integers(0, len(records)))
    match draw(st.sampled_from(["drop", "double", "swap", "add"])):
        case "drop":
            assume(at < len(records) - 1)  # that would be a tail that was cut
            return [*records[:at], *records[at + 1 :]]
        case "double":
            return [*records[:to], records[at], *records[to:]]
        case "swap":
            other = draw(st.integers(0, len(records) - 1).filter(lambda place: place != at))
            swapped = list(records)
            swapped[at], swapped[other] = swapped[other], swapped[at]
            return swapped
        case _:
            foreign = draw(st.sampled_from(EXHAUSTED))
            return [*records[:to], {**foreign, "turn": records[0]["turn"]}, *records[to:]]


@pytest.mark.parametrize("content", CONTENTS)
@settings(max_examples=400, derandomize=True)
@given(data=st.data())
def test_an_edit_is_found_where_it_is(content, data):
    """Whatever value of whatever record is changed, that record is named."""
    records = TRAILS[content]
    at, path, edited = data.draw(edits(records))
    assume(path != ("turn",))
    verdict = checked(edited)

    if path == ("signature",):  # hashes leave it out
        assert not checked(edited, signature=checks_with(KEY.public_key())).verified
    else:
        assert not verdict.verified
        assert f"t:{at + 1}" == verdict.problems[0].place


@settings(max_examples=400, derandomize=True)
@given(moves(TRAILS["digests"]))
def test_another_order_is_found(records):
    """Records that were dropped, doubled, moved or added are found."""
    assert not checked(records).verified


@pytest.mark.parametrize("content", CONTENTS)
@settings(max_examples=400, derandomize=True)
@given(data=st.data())
def test_an_edit_whose_chain_was_mended_is_found_by_the_last_hash(content, data):
    """Who computes all hashes anew leaves another last hash, and no signature that is right."""
    records = TRAILS[content]
    at, path, edited = data.draw(edits(records))
    assume(path not in (("turn",), ("hash",), ("previous",), ("signature",)))
    mended = rehashed(edited, data.draw(st.integers(0, at)))

    assert not checked(mended, heads=[records[-1]["hash"]]).verified
    assert not checked(mended, signature=checks_with(KEY.public_key())).verified


# What cannot be changed even by someone who computes all hashes anew: what the page and the rest of the trail say
# otherwise. In a trail that keeps all content that is nearly everything.
BOUND = ("state", "row", "after", "guards", "moved", "seq", "decisions", "counters", "llm_calls", "outcome", "trigger")


@pytest.mark.parametrize("content", CONTENTS)
@settings(max_examples=600, derandomize=True)
@given(data=st.data())
def test_what_cannot_have_happened_is_found_without_a_hash(content, data):
    """States, rows, guards, counters and counts that the page cannot come to are found in a trail written anew."""
    _, path, edited = data.draw(edits(TRAILS[content]))
    assume(path[0] in BOUND)

    assert not checked(rehashed(edited)).verified


FREE = ("wall", "turn", "hash", "previous", "signature", "package", "page", "content", "config", "providers", "at")


@settings(max_examples=600, derandomize=True)
@given(data=st.data())
def test_with_all_content_an_answer_cannot_be_changed(data):
    """What was replied, asked for and decided is bound together: told again, it leads elsewhere."""
    _, path, edited = data.draw(edits(TRAILS["full"]))
    assume(path[0] not in FREE and path[0] != "facts")

    assert not checked(rehashed(edited)).verified


# ---------------------------------------------------------------- one by one


def test_a_tail_that_was_cut_needs_a_last_hash_or_a_signature():
    """A turn without its end is right as far as it goes; who knows its last hash, or asks for an end, finds out."""
    records = TRAILS["digests"]
    for length in range(1, len(records)):
        cut = records[:length]

        assert checked(cut).verified
        assert not checked(cut).turns[0].over
        assert not checked(cut, whole=True).verified
        assert not checked(cut, heads=[records[-1]["hash"]]).verified
        assert not checked(cut, signature=checks_with(KEY.public_key())).verified


def test_a_turn_that_was_left_out_is_found_by_its_last_hash():
    """A whole turn is missed by nobody but by who knows its last hash."""
    heads = [TRAILS["digests"][-1]["hash"], EXHAUSTED[-1]["hash"]]

    assert checked([*TRAILS["digests"], *EXHAUSTED], heads=heads).verified
    assert checked(EXHAUSTED).verified
    assert [f"head {heads[0]}"] == [each.place for each in checked(EXHAUSTED, heads=heads).problems]


def test_a_signature_is_that_of_one_key():
    """The right key finds the trail right, another one does not, and a trail without a signature has none."""
    signed = checked(TRAILS["full"], signature=checks_with(KEY.public_key()))
    other = checked(TRAILS["full"], signature=checks_with(OTHER.public_key()))
    none = checked(EXHAUSTED, signature=checks_with(KEY.public_key()))

    assert (True, True) == (signed.verified, signed.turns[0].signed)
    assert "its signature is not that of the key given" == other.problems[0].sentence
    assert "it is not signed" == none.problems[0].sentence


def forged(at, path, value, content="digests"):
    """A trail with this one thing changed and all hashes computed anew."""
    return rehashed(put(TRAILS[content], at, path, value))


SENTENCES = {
    "hash": (put(TRAILS["digests"], 2, ("at",), 1), "its hash is not that of its content: it was edited"),
    "order": (rehashed(TRAILS["digests"][:4])[:2] + rehashed(TRAILS["digests"][:4])[3:], "it does not follow the record before it"),
    "shape": (forged(2, ("moved", 0, "cap"), "many"), "its shape is wrong: Expected `int | float | null`"),
    "unknown member": (forged(2, ("colour",), "red"), "its shape is wrong: Object contains unknown field `colour`"),
    "no opening": (rehashed(TRAILS["digests"][1:]), "the turn's opening is missing"),
    "two openings": (rehashed([TRAILS["digests"][0], *TRAILS["digests"]]), "a second opening stands in the turn"),
    "two ends": (rehashed([*TRAILS["digests"], TRAILS["digests"][-1]]), "the turn had its end already"),
    "format": (forged(0, ("format",), 9), "it is of format 9, and only 1 is known here"),
    "config": (forged(0, ("config", "recoveries"), -1), "its config cannot be read: recoveries: -1 is too small"),
    "cap": (forged(0, ("config", "max_requests"), 5), "requests has a cap of 5, and is told to have 160"),
    "seq": (forged(2, ("seq",), 7), "it is decision 7, and should be 1"),
    "time": (forged(7, ("at",), 0.5), "it came at 0.5 s, before the decision ahead of it, at 5.65"),
    "row": (forged(2, ("row",), "calling.sunrise"), "no row 'calling.sunrise' stands on the page"),
    "guard": (forged(2, ("guards", 0, 1), False), "guard budget_left is told to answer no, and answers yes"),
    "a fact": (forged(3, ("facts", "fault", "kind"), "quota_spent"), "guard may_retry is told to answer yes, and answers no"),
    "counter": (forged(2, ("moved", 0, "after"), 7), "requests goes to 7, and row calling.slot_granted.budget_left brings it to 1"),
    "effect": (forged(2, ("effects", 0, "effect"), "RunTool"), "never asks for RunTool"),
    "decisions": (forged(-1, ("decisions",), 3), "it tells of 3 decisions, and there are 11"),
    "outcome": (forged(-1, ("outcome",), "partial"), "it ends as partial, and the decisions as completed"),
    "calls": (forged(-1, ("llm_calls",), 1), "it tells of 1 calls, and there are 3"),
    "counts": (forged(-1, ("counters", "requests"), 1), "it tells of the counters iterations 1, requests 1, and they stand at"),
    "a wait": (forged(3, ("effects", 0, "delay_s"), 1, "full"), "told again, effects was"),
    "exhausted": (
        rehashed(put(EXHAUSTED, -1, ("exhausted", "value"), 9)), "iterations is told to have ended it at 9 of 1, and is otherwise",
    ),
    "exhausted by no counter": (
        rehashed(put(EXHAUSTED, -1, ("exhausted",), None)), "it ends as exhausted, and names no counter",
    ),
    "exhausted by another": (
        rehashed(put(EXHAUSTED, -1, ("exhausted",), {"counter": "requests", "value": 1, "cap": 160})),
        "it was ended by requests, and no guard that asks for it said no",
    ),
    "a counter that had some left": (
        forged(-1, ("exhausted",), {"counter": "requests", "value": 3, "cap": 160}),
        "it was ended by requests, and no guard that asks for it said no",
    ),
    "exhausted by nothing": (
        rehashed(put(EXHAUSTED, -1, ("exhausted", "counter"), "luck")), "it was ended by luck, which is no counter of the page",
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("records", "sentence"),
    SENTENCES.values(),
    ids=SENTENCES,
)
def test_what_is_said(records, sentence):
    """The first record that is wrong has a sentence that says why."""
    verdict = checked(records)

    assert not verdict.verified
    assert sentence in verdict.problems[0].sentence


def test_lines_that_are_no_records():
    """A torn line is named as such and is no fault; any other line that is no record is one."""
    raw = [canonical(each) for each in TRAILS["digests"]]
    lines = [*raw, b'{"after":"cal', b"nonsense", b'{"is":"decision"}', b"[]"]
    verdict = verify(line_of("t", number, line + b"\n") for number, line in enumerate(lines, 1))

    assert ("t:14",) == verdict.torn
    assert ["t:15", "t:16", "t:17"] == [each.place for each in verdict.problems]
    assert not verdict.verified


def test_a_text_in_another_form_is_found():
    """A blank, another order of members or an escape that need not be is not what was written."""
    raw = [canonical(each) for each in TRAILS["digests"]]
    for changed in (
        raw[2].replace(b'"at":', b'"at": '),
        b"{" + raw[2][raw[2].index(b'"at"') : -1] + b',"after":"calling"}',
    ):
        lines = [*raw[:2], changed, *raw[3:]]
        verdict = verify(line_of("t", number, line) for number, line in enumerate(lines, 1))

        assert "its bytes are not the canonical text of its value (RFC 8785)" == verdict.problems[0].sentence


@pytest.mark.parametrize(
    ("at", "path", "value"),
    [(1, ("at",), 0.0), (1, ("facts", "messages"), [{"content": 1.0}]), (2, ("facts",), {"x": 2**60, "y": "e-6"})],
    ids=["0.0", "1.0", "2**60"],
)
def test_a_number_in_another_form_is_found(at, path, value):
    """A whole number with a point, or one that not every reader has, is not canonical, whatever the hashes say."""
    quick = msgspec.json.Encoder(order="sorted").encode
    records, previous, raw = put(TRAILS["digests"], at, path, value), START, []
    for record in records:
        hashed = {**{name: each for name, each in record.items() if name not in UNHASHED}, "previous": previous}
        previous = sha256(quick(hashed))
        signature = {name: record[name] for name in record.keys() & {"signature"}}
        raw.append(quick({**hashed, "hash": previous, **signature}))
    verdict = verify(line_of("t", number, line) for number, line in enumerate(raw, 1))

    assert f"t:{at + 1}" == verdict.problems[0].place
    assert "its bytes are not the canonical text of its value (RFC 8785)" == verdict.problems[0].sentence


@pytest.mark.parametrize("line", [b"[" * 100_000, b'{"a":' * 100_000, b'{"is":"end","turn":"t","x":1e400}', b"\xff\n"])
def test_whatever_a_line_holds_is_a_verdict(line):
    """Depth, size and bytes that no text has are problems of that line."""
    verdict = verify([line_of("t", 1, line + b"\n")])

    assert not verdict.verified
    assert ["t:1"] == [each.place for each in verdict.problems]


def test_another_page_is_told_and_not_judged():
    """The chain of a trail of another page is checked, and the rows that it had otherwise are named."""
    other = put(TRAILS["digests"], 0, ("page", "hash"), "0" * 64)
    other[0]["page"]["rows"]["ready.sunrise"] = "00000000"
    (turn,) = checked(rehashed(other)).turns

    assert (None, None, ("ready.sunrise is gone",)) == (turn.problem, turn.conforms, turn.changed)
