"""`fsm-loop trail verify`: what it prints, and its exit status."""

from __future__ import annotations

import json
import subprocess

import pytest

from fsm_loop.audit.jsonl import JsonLines
from fsm_loop.audit.signing import signer
from fsm_loop.loop import Loop
from fsm_loop.testing.clock import VirtualClock
from fsm_loop.testing.fakes import ScriptedModel, says
from tests.audit.test_verify import put, rehashed


@pytest.fixture(scope="session")
def keys(tmp_path_factory):
    """Two pairs of keys, made as the sentence of an error says that they are made."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("mine", "theirs"):
        private, public = folder / f"{name}.pem", folder / f"{name}.pub"
        subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", private], check=True)
        subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", public], check=True)
    return folder


@pytest.fixture
def written(tmp_path):
    """A trail of so many turns of four decisions each."""

    def write(turns=1, **wishes):
        clock, path = VirtualClock(), tmp_path / "trail.jsonl"
        with JsonLines(path, **wishes) as watcher:
            loop = Loop(model=ScriptedModel(lambda _: says("ok"), clock=clock), watchers=[watcher], clock=clock)
            for _ in range(turns):
                clock.run(lambda: loop.run("hi"))
        return path

    return write


def records(path):
    """The records of the file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def edited(path, old, new):
    """The trail with these words changed in it."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return path


def test_a_good_trail(command, written):
    """It is verified, its last hash is told, and so is what hashes cannot show."""
    path = written()
    status, out, err = command("trail", "verify", path)
    first, second = out.splitlines()

    assert (0, "") == (status, err)
    head = records(path)[-1]["hash"]
    assert f"verified: 1 of 1 turn, 4 decisions: chain, shape and conformance; its last hash is {head}" == first
    assert second.startswith("Not shown by hashes alone: that the trail was not written anew as a whole")


def test_an_edited_trail(command, written):
    """The first bad record is named by file, line, turn and decision."""
    path = edited(written(2), '"seq":2,', '"seq":3,')
    status, out, _ = command("trail", "verify", path)
    turn = records(path)[0]["turn"]

    assert 1 == status
    assert (
        f"{path}:4: turn {turn}, decision 3: its hash is not that of its content: it was edited" == out.splitlines()[0]
    )
    assert "NOT verified: 0 of 2 turns" in out


def test_a_tail_that_was_cut(command, written):
    """Without more the turn is verified as far as it goes; --whole and --head find it out."""
    path = written()
    head = records(path)[-1]["hash"]
    turn = records(path)[0]["turn"]
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]) + b'{"torn')
    as_it_is = command("trail", "verify", path)
    whole = command("trail", "verify", path, "--whole")
    by_head = command("trail", "verify", path, "--head", head)

    assert [0, 1, 1] == [as_it_is[0], whole[0], by_head[0]]
    assert f"{path}:4: torn: it breaks off in the middle, where its writer was stopped" in as_it_is[1]
    assert f"turn {turn} has no end: killed, still running, or cut; it is verified as far as it goes" in as_it_is[1]
    assert "Not shown by hashes alone: that nothing was cut off the end of a turn" in as_it_is[1]
    assert f"{path}:3: turn {turn}: the turn has no end" in whole[1]
    assert f"head {head}: no turn ends in this hash" in by_head[1]


def test_a_head_that_fits(command, written):
    """The last hash, kept elsewhere, says that nothing of that turn is missing."""
    path = written(2)
    status, out, _ = command("trail", "verify", path, "--head", records(path)[-1]["hash"])

    assert 0 == status
    assert "Turns whose last hash was not given may have been left out" in out


@pytest.mark.parametrize(
    ("key", "status", "words"),
    [("mine", 0, "verified: 1 of 1"), ("theirs", 1, "its signature is not that of the key given")],
)
def test_a_signed_trail(command, written, keys, key, status, words):
    """By the right key it is verified, with nothing left that was not shown; by another one it is not."""
    path = written(sign=signer(keys / "mine.pem"))
    given = command("trail", "verify", path, "--key", keys / f"{key}.pub")

    assert status == given[0]
    assert words in given[1]
    assert "Not shown" not in given[1]


def test_a_trail_that_was_written_anew(command, written, keys):
    """Whoever computes all hashes anew is found out where the page says otherwise, and by a signature in any case."""
    path = written(sign=signer(keys / "mine.pem"))
    forged = rehashed(put(records(path), 2, ("facts", "chance"), 0.5))
    path.write_text("".join(json.dumps(each, sort_keys=True, separators=(",", ":")) + "\n" for each in forged))

    assert 0 == command("trail", "verify", path)[0]
    assert 1 == command("trail", "verify", path, "--key", keys / "mine.pub")[0]


def test_another_page(command, written):
    """A trail of another page has its chain verified; what is not checked is said, and the status is 2."""
    path = written()
    other = put(records(path), 0, ("page", "hash"), "0" * 64)
    other[0]["page"]["rows"]["ready.sun_rose"] = "00000000"
    path.write_text("".join(json.dumps(each, sort_keys=True, separators=(",", ":")) + "\n" for each in rehashed(other)))
    status, out, _ = command("trail", "verify", path)

    assert 2 == status
    assert "1 turn decided by another page; conformance was not checked (--page):\n  ready.sun_rose is gone\n" in out
    assert "verified: 1 of 1 turn, 4 decisions: chain, shape\n" in out.replace("; its last hash is", "\n")


def test_as_json(command, written):
    """One object says all of it."""
    status, out, _ = command("trail", "verify", edited(written(), '"seq":2,', '"seq":3,'), "--json")
    told = json.loads(out)

    assert (1, False, 1) == (status, told["verified"], len(told["turns"]))
    assert "it was edited" in told["problems"][0]["sentence"]


@pytest.mark.parametrize(
    ("name", "text", "options", "sentence"),
    [
        ("none", None, [], "cannot be read: No such file or directory"),
        ("empty", "", [], "there is no turn in"),
        ("prose", "no trail\n", [], "prose:1: it is no JSON object"),
        ("key", "", ["--key", "{folder}/key"], "holds no public Ed25519 key in PEM"),
        ("key", "", ["--key", "{folder}/nokey"], "nokey: cannot be read: No such file or directory"),
    ],
)
def test_what_cannot_be_used_is_status_2(command, tmp_path, name, text, options, sentence):
    """A file that is none, or holds no trail or no key, is a sentence on standard error."""
    if text is not None:
        (tmp_path / name).write_text(text)
    status, out, err = command("trail", "verify", tmp_path / name, *(each.format(folder=tmp_path) for each in options))

    assert (2, "") == (status, out)
    assert sentence in err


@pytest.mark.parametrize("of", ["rsa", "public", "nonsense"])
def test_what_is_no_key_to_sign_with(keys, tmp_path, of):
    """A key of another kind is refused, with the command that makes a right one."""
    made = {
        "rsa": lambda: subprocess.run(
            ["openssl", "genrsa", "-out", tmp_path / "key", "1024"], check=True, capture_output=True
        ),
        "public": lambda: (tmp_path / "key").write_bytes((keys / "mine.pub").read_bytes()),
        "nonsense": lambda: (tmp_path / "key").write_text("nonsense"),
    }
    made[of]()

    with pytest.raises(
        ValueError, match=r"holds no private Ed25519 key in PEM .*; `openssl genpkey -algorithm ed25519"
    ):
        signer(tmp_path / "key")
