"""`fsm-loop trail replay`: what it prints, and its exit status."""

from __future__ import annotations

import json

import pytest

from fsm_loop import LoopConfig
from fsm_loop.audit.jsonl import JsonLines
from fsm_loop.loop import Loop
from fsm_loop.testing.clock import VirtualClock
from fsm_loop.testing.fakes import ScriptedModel, says


@pytest.fixture
def written(tmp_path):
    """A trail of one turn, written with this content."""

    def write(content="full"):
        clock, path = VirtualClock(), tmp_path / f"{content}.jsonl"
        with JsonLines(path, content=content) as watcher:
            loop = Loop(model=ScriptedModel([says("ok")], clock=clock), watchers=[watcher], clock=clock)
            clock.run(lambda: loop.run("hi"))
        return path

    return write


def edited(path, old, new):
    """The trail with these words changed in it."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return path


def test_a_trail_that_is_the_same(command, written):
    """Each turn has its line, and the status is 0."""
    status, out, err = command("trail", "replay", written())

    assert (0, "") == (status, err)
    assert out.endswith(": 4 decisions, the same when told again\n")


def test_one_that_was_cut_says_so(command, written):
    """A turn without its end is the same as far as it goes, and that is said."""
    path = written()
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]))
    status, out, _ = command("trail", "replay", path)

    assert 0 == status
    assert out.endswith(": 2 decisions, the same when told again; it has no end: killed, still running, or cut\n")


def test_one_that_was_edited_is_status_1(command, written):
    """Where the two part is named."""
    status, out, _ = command("trail", "replay", edited(written(), '"seq":2', '"seq":5'))

    assert 1 == status
    assert "parts from its trail at decision 5: seq was 5, and is 2 when told again" in out


def test_digests_cannot_be_told_again(command, written):
    """A trail without text is status 2, with the reason."""
    status, out, _ = command("trail", "replay", written("digests"))

    assert 2 == status
    assert 'cannot be told again: it holds no text (content="digests")' in out


def test_another_page_is_told(command, written):
    """A trail of another page is told again by this one, and the rows that were otherwise are listed."""
    path = edited(written(), '"ready.turn_started":"', '"ready.sun_rose":"00')
    status, out, _ = command("trail", "replay", edited(path, '"page":{"hash":"', '"page":{"hash":"00'))

    assert 0 == status
    assert "Decided by another page than this one:\n  ready.sun_rose is gone\n  ready.turn_started is new\n" in out


def test_as_json(command, written):
    """One object holds every turn."""
    status, out, _ = command("trail", "replay", written(), "--json")
    (turn,) = json.loads(out)["turns"]

    assert (0, True, True, 4, None) == (status, turn["same"], turn["over"], turn["decisions"], turn["divergence"])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "cannot be read: No such file or directory"),
        ("", "there is no turn in"),
        ("no trail\n", "no.jsonl:1: it is no JSON object"),
        ('{"a": 1}\n', "no.jsonl:1: it is no record of a trail"),
        ("[1]\n", "no.jsonl:1: it is no JSON object"),
    ],
)
def test_what_is_no_trail_is_status_2(command, tmp_path, text, sentence):
    """A file that is none, or holds none, is a sentence on standard error."""
    path = tmp_path / "no.jsonl"
    if text is not None:
        path.write_text(text)
    status, out, err = command("trail", "replay", path)

    assert (2, "") == (status, out)
    assert sentence in err


def test_a_config_that_is_none_any_more(command, written):
    """A limit that is not allowed is named, and the trail cannot be told again."""
    cap = f'"recoveries":{LoopConfig().recoveries},'
    status, out, _ = command("trail", "replay", edited(written(), cap, '"recoveries":-1,'))

    assert 2 == status
    assert "cannot be told again: its config cannot be read: recoveries: -1 is too small" in out
