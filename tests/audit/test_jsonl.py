"""The trail as lines of JSON: what is written, when, and what becomes of it when that fails."""

from __future__ import annotations

import errno
import json
import os

import pytest

from fsm_loop import LoopConfig
from fsm_loop.audit.jsonl import JsonLines
from fsm_loop.core.events import SlotGranted, TurnStarted
from fsm_loop.core.faults import FaultKind
from fsm_loop.core.machine import PAGE
from fsm_loop.core.messages import UserMessage
from fsm_loop.core.step import begin_turn, step
from fsm_loop.loop import Loop
from fsm_loop.testing.clock import VirtualClock
from fsm_loop.testing.fakes import ScriptedModel, SeededChance, calls, fails, says

START = TurnStarted(messages=(UserMessage("hi"),), at=1.5)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def run(watcher, *, system=None):
    """A turn with a failed call and a tool round, watched."""
    clock = VirtualClock()
    model = ScriptedModel([fails(FaultKind.OVERLOADED), calls(("add", {"a": 1, "b": 2})), says("three")], clock=clock)
    loop = Loop(model=model, tools=[add], watchers=[watcher], clock=clock, chance=SeededChance(1), system=system)
    return clock.run(lambda: loop.run("1 + 2?"))


def read(path):
    """The records of the file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_turn_is_its_opening_its_decisions_and_its_end(tmp_path):
    """The file holds the turn's path, line by line, between an opening and an end."""
    with JsonLines(tmp_path / "trail", wall=lambda: 1700000000.25) as watcher:
        result = run(watcher)
    first, *decided, last = read(tmp_path / "trail")

    assert ("opening", "end", {"decision"}) == (first["is"], last["is"], {each["is"] for each in decided})
    assert result.path == [(each["state"], each["row"], each["after"]) for each in decided]
    assert list(range(len(decided))) == [each["seq"] for each in decided]
    assert {result.turn_id} == {each["turn"] for each in (first, *decided, last)}
    assert {1700000000.25} == {each["wall"] for each in (first, *decided, last)}
    assert (result.outcome, result.llm_calls, len(decided)) == (last["outcome"], last["llm_calls"], last["decisions"])
    assert ({"iterations": 1, "requests": 3}, None, None) == (last["counters"], last["exhausted"], last["fault"])
    assert () == result.trail_faults


def test_a_line_is_there_before_anything_is_done_about_it(tmp_path):
    """When the model is asked, the decision to ask it can be read already, by another program too."""
    path, held = tmp_path / "trail", []

    def script(_):
        held.append(read(path)[-1]["effects"])
        return says("ok")

    with JsonLines(path) as watcher:
        clock = VirtualClock()
        clock.run(lambda: Loop(model=ScriptedModel(script, clock=clock), watchers=[watcher], clock=clock).run("hi"))

    assert ["CallModel"] == [each["effect"] for (each,) in held]


def test_turns_side_by_side_share_a_file(tmp_path):
    """Each turn's records say whose they are, and follow from its own."""
    decision = step(begin_turn(LoopConfig()), START)
    with JsonLines(tmp_path / "trail") as one, JsonLines(tmp_path / "trail") as other:
        for watcher in (one, other):
            for turn in (f"{id(watcher)}a", f"{id(watcher)}b"):
                watcher.opened(turn, begin_turn(LoopConfig()), PAGE)
        for watcher in (one, other):
            for turn in (f"{id(watcher)}a", f"{id(watcher)}b"):
                watcher.saw(turn, 0, decision)
    records = read(tmp_path / "trail")
    heads = {each["turn"]: each["hash"] for each in records[:4]}

    assert 4 == len(heads)
    assert heads == {each["turn"]: each["previous"] for each in records[4:]}


@pytest.mark.parametrize("content", ["digests", "full"])
def test_full_content_keeps_the_text(tmp_path, content):
    """The text of everyone stands in the trail where it was asked for, and nowhere else."""
    with JsonLines(tmp_path / "trail", content=content) as watcher:
        run(watcher, system="my secret")
    text = (tmp_path / "trail").read_text()

    assert [content == "full"] * 4 == [words in text for words in ("my secret", "1 + 2?", '"three"', '{\\"a\\":')]
    assert content == read(tmp_path / "trail")[0]["content"]


WRONG = {
    "content": ({"content": "some"}, "content is 'some'; it must be 'digests' or 'full'"),
    "fsync": ({"fsync": "often"}, "fsync is 'often'; it must be 'each' or 'end' or 'never'"),
    "on_sink_failure": ({"on_sink_failure": "cry"}, "on_sink_failure is 'cry'; it must be 'go on' or 'stop'"),
}


@pytest.mark.parametrize(("wishes", "sentence"), WRONG.values(), ids=WRONG)
def test_a_wish_that_is_none_is_refused(tmp_path, wishes, sentence):
    """What is neither of the allowed words is an error, before a file is made."""
    with pytest.raises(ValueError, match=sentence):
        JsonLines(tmp_path / "trail", **wishes)

    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize(("fsync", "expected"), [("each", 13), ("end", 1), ("never", 0)])
def test_what_outlives_the_machine(tmp_path, monkeypatch, fsync, expected):
    """The disk is waited for at each record, at the end of a turn, or not at all."""
    waited = []
    monkeypatch.setattr("fsm_loop.audit.jsonl.os.fsync", waited.append)
    with JsonLines(tmp_path / "trail", fsync=fsync) as watcher:
        run(watcher)

    assert 13 == len(read(tmp_path / "trail"))
    assert expected == len(waited)


def test_a_torn_end_stays_a_line_by_itself(tmp_path):
    """What a writer that was killed left unfinished is not added to, so the next record can be read."""
    (tmp_path / "trail").write_bytes(b'{"after":"cal')
    with JsonLines(tmp_path / "trail") as watcher:
        watcher.opened("t1", begin_turn(LoopConfig()), PAGE)
    torn, line = (tmp_path / "trail").read_bytes().splitlines()

    assert (b'{"after":"cal', "opening") == (torn, json.loads(line)["is"])


class Full:
    """A disk that takes so many bytes, and then no more until there is room again."""

    def __init__(self, file, room):
        self.file, self.room = file, room

    def write(self, data):
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = self.file.write(data[: self.room])
        self.room -= written
        return written

    def close(self):
        self.file.close()


def test_a_disk_that_was_full_spoils_one_line(tmp_path):
    """The turn whose record found no room has no more records; the next turn's stand on lines of their own."""
    with JsonLines(tmp_path / "trail", wall=lambda: 1.5) as watcher:
        watcher._file = Full(watcher._file, 13000)
        faults = run(watcher).trail_faults
        watcher._file.room = 10**9
        after = run(watcher)
    lines = (tmp_path / "trail").read_bytes().splitlines()
    good = [json.loads(line) for line in lines if line.startswith(b"{") and line.endswith(b"}")]

    assert ("JsonLines: OSError: [Errno 28] No space left on device",) == faults
    assert () == after.trail_faults
    assert len(lines) - 1 == len(good)
    assert 13 == len([each for each in good if each["turn"] == after.turn_id])


@pytest.mark.parametrize("room", range(0, 24000, 1200))
def test_a_turn_that_must_not_go_on_without_its_trail_fails(tmp_path, room):
    """It ends as failed, says why, and nothing is asked of the model or of a tool that no record in the file asks for."""
    with JsonLines(tmp_path / "trail", on_sink_failure="stop", wall=lambda: 1.5) as watcher:
        watcher._file = Full(watcher._file, room)
        clock, asked = VirtualClock(), []

        def script(_):
            asked.append("CallModel")
            return calls(("count", {}))

        def count() -> int:
            """How much was asked for."""
            asked.append("RunTool")
            return len(asked)

        model, chance = ScriptedModel(script, clock=clock), SeededChance(1)
        loop = Loop(model=model, tools=[count], watchers=[watcher], clock=clock, chance=chance)
        result = clock.run(lambda: loop.run("go"))
    *lines, _ = (tmp_path / "trail").read_bytes().split(b"\n")
    effects = [each["effect"] for line in lines for each in json.loads(line).get("effects", ())]
    sentence = "the trail cannot be written: [Errno 28] No space left on device"

    assert ("failed", "trail", FaultKind.INTERNAL, sentence) == (
        result.outcome,
        result.issuer,
        result.fault.kind,
        result.fault.message,
    )
    assert (f"JsonLines: {sentence}",) == result.trail_faults
    assert [each for each in effects if each in ("CallModel", "RunTool")] == asked


def test_a_second_fault_of_the_trail_leaves_the_end_as_it_is(tmp_path):
    """A turn that is over when its trail fails stays as it ended."""
    with JsonLines(tmp_path / "trail", on_sink_failure="stop") as watcher:
        decided, write = [], watcher.write

        def last(scribe, line, *, last=False):
            decided.append(line)
            if last:
                raise OSError(errno.EIO, "broken")
            write(scribe, line)

        watcher.write = last
        result = run(watcher)

    assert ("completed", ("JsonLines: the trail cannot be written: [Errno 5] broken",)) == (
        result.outcome,
        result.trail_faults,
    )
    assert 13 == len(decided)


def test_a_watcher_that_knows_no_beginning_is_told_of_decisions_alone(tmp_path):
    """A trail needs its opening: without one there is nothing that a decision could follow from."""
    with JsonLines(tmp_path / "trail") as watcher, pytest.raises(KeyError):
        watcher.saw("t1", 0, step(begin_turn(LoopConfig()), SlotGranted(attempt=1)))
