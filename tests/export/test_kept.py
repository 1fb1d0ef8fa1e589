"""What is kept is compared with what the page says, and written where it differs."""

from __future__ import annotations

import pytest

from fsm_loop import FsmLoopError
from fsm_loop.export import artefacts, check, write
from tests.export.own_page import OWN_PAGE

NAMES = [
    "diagrams/full.mmd", "diagrams/overview.mmd", "specs/machine.md", "diagrams/overview.svg", "fsm_loop/export/overview.svg",
]  # fmt: skip
README = """# Mine

<!-- generated: diagram -->
old
<!-- end -->

By hand.

<!-- generated: counters -->
<!-- end -->
"""


def test_all_is_written_once(tmp_path):
    """Into an empty directory everything is written; the second time there is nothing to write."""
    written = write(tmp_path)

    assert NAMES == [path.relative_to(tmp_path).as_posix() for path in written]
    assert [] == write(tmp_path)
    assert "" == check(tmp_path)


def test_what_is_written_is_what_was_made(tmp_path):
    """Each file holds its artefact, with one kind of line end."""
    write(tmp_path)

    assert {name: (tmp_path / name).read_bytes().decode() for name in NAMES} == artefacts(tmp_path)
    assert [] == [name for name, text in artefacts(tmp_path).items() if "\r" in text or not text.endswith("\n")]


@pytest.mark.parametrize("name", NAMES)
def test_a_changed_file_is_seen(tmp_path, name):
    """A line that somebody has changed is in the difference, and writing puts it right."""
    write(tmp_path)
    path = tmp_path / name
    kept = path.read_text(encoding="utf-8")
    path.write_text(kept.replace("backoff", "nap", 1), encoding="utf-8")
    difference = check(tmp_path)

    assert [f"--- {name} (kept)", f"+++ {name} (made)"] == difference.splitlines()[:2]
    assert "nap" in next(line for line in difference.splitlines()[2:] if line.startswith("-"))
    assert [path] == write(tmp_path)
    assert kept == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_file_is_seen(tmp_path, name):
    """A file that is not there differs by all of its lines."""
    write(tmp_path)
    (tmp_path / name).unlink()
    removed = [line for line in check(tmp_path).splitlines()[2:] if line.startswith("-")]

    assert check(tmp_path).startswith(f"--- {name} (kept)")
    assert [] == removed


def test_the_page_decides(tmp_path):
    """Another page gives other artefacts, and what was kept for the first is out of date."""
    write(tmp_path)

    assert "+    ready --> asked" in check(tmp_path, OWN_PAGE)
    assert NAMES[:-1] == [path.relative_to(tmp_path).as_posix() for path in write(tmp_path, OWN_PAGE)]
    assert "" == check(tmp_path, OWN_PAGE)


def test_blocks_of_the_readme_are_written(tmp_path):
    """Between the marks stands what was generated; what is around them stays."""
    readme = tmp_path / "README.md"
    readme.write_text(README, encoding="utf-8")
    write(tmp_path)
    text = readme.read_text(encoding="utf-8")

    assert "old" not in text
    assert "```mermaid\n" + artefacts(tmp_path)["diagrams/overview.mmd"] + "```" in text
    assert "| `requests` | 160 |" in text
    assert "\n\nBy hand.\n\n" in text
    assert text.startswith("# Mine\n\n<!-- generated: diagram -->\n")
    assert text.endswith("\n<!-- end -->\n")


def test_a_changed_block_is_seen(tmp_path):
    """A cap that somebody has changed in the README is in the difference; words of theirs are not."""
    readme = tmp_path / "README.md"
    readme.write_text(README, encoding="utf-8")
    write(tmp_path)
    text = readme.read_text(encoding="utf-8")
    readme.write_text(text.replace("| 160 |", "| 161 |").replace("By hand.", "By hand, again."), encoding="utf-8")
    changed = [line for line in check(tmp_path).splitlines()[2:] if line[0] in "+-"]

    assert ["-", "+"] == [line[0] for line in changed]
    assert "161" in changed[0]


def test_a_block_that_nobody_writes_is_refused(tmp_path):
    """A block with a name that is not known is an error which names it."""
    (tmp_path / "README.md").write_text("<!-- generated: dia -->\n<!-- end -->\n", encoding="utf-8")

    with pytest.raises(FsmLoopError, match="nothing writes a block named 'dia'; there are diagram, counters"):
        check(tmp_path)
