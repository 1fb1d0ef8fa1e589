"""`fsm-loop trail view`: the file that it writes, and what it says when it cannot."""

from __future__ import annotations

import json

import pytest

from tests.export.browsed import spent


@pytest.fixture
def kept(tmp_path):
    """A trail of one turn."""
    spent(tmp_path / "turn.jsonl")
    return tmp_path / "turn.jsonl"


def test_it_writes_one_file(command, kept, tmp_path):
    """The file holds the turn, its verdict, and why it ended; the command says so on a line."""
    status, said, _ = command("trail", "view", kept, "-o", tmp_path / "page.html")
    html = (tmp_path / "page.html").read_text(encoding="utf-8")

    assert 0 == status
    assert "page.html: 1 turn; verified:" in said
    assert '"holds":true' in html
    assert "ended as exhausted" in html


def test_a_record_that_was_edited_is_named(command, kept, tmp_path):
    """The verdict of an edited trail is in the file, and on the line."""
    lines = kept.read_text(encoding="utf-8").splitlines()
    lines[3] = json.dumps({**json.loads(lines[3]), "wall": 1})
    kept.write_text("\n".join(lines) + "\n", encoding="utf-8")
    status, said, _ = command("trail", "view", kept, "-o", tmp_path / "page.html")

    assert 0 == status
    assert "not verified: " in said
    assert "turn.jsonl:4" in said
    assert '"holds":false' in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_what_is_wrong_is_said(command, kept, tmp_path):
    """No such turn, no such file, and the trail itself as the file to write, are each a sentence, and nothing is lost."""
    before = kept.read_bytes()
    for arguments, sentence in (
        ((kept, "--turn", "nobody", "-o", tmp_path / "x.html"), "there is no turn nobody"),
        ((tmp_path / "none.jsonl", "-o", tmp_path / "x.html"), "cannot be read"),
        ((kept, "-o", kept), "is the trail itself"),
    ):
        status, said, wrong = command("trail", "view", *arguments)
        assert (2, "") == (status, said)
        assert sentence in wrong

    assert before == kept.read_bytes()
    assert not (tmp_path / "x.html").exists()
