"""Imports run one way: through the rooms of the house, and through the files of the core."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house.source import CORE, MODULES, PACKAGE, dotted, each, imports, type_imports

# A room imports itself and what stands on the lines above it; those that share a line do not know each other.
LEVELS = (
    ("errors",),
    ("config",),
    ("core",),
    ("ports",),
    ("drive",),
    ("audit", "durable", "limiter", "providers", "tools"),
    ("loop",),
    ("testing",),  # it plays cases of the wire against the whole loop
    ("fsm_loop",),  # the door
    ("web",),
    ("cli",),
    ("__main__",),
)
# Two rooms read the page and nothing else, so that what is proved and what is drawn is what runs; what is proved is
# written down by the second.
READERS = ("prove", "export")
READABLE = {"errors", "config", "core"}
# Who may ask them: whoever shows what they found, and the trail, which is checked against the page as decisions are.
READ_BY = {"audit": {"prove"}, "testing": {"prove"}, "web": READERS, "cli": READERS, "__main__": READERS}

# Inside the core the files form a line, each using only those before it.  Three more than the page needs keep
# their neighbours short: conversation.py and ends.py beside actions.py, rows.py beside machine.py.
LINE = (
    "messages", "faults", "events", "effects", "counters", "record", "guards", "conversation", "ends", "actions", "rows",
    "machine", "step",
)  # fmt: skip


def room(module: str) -> str:
    """The room that a module of ours is in: what follows `fsm_loop.`, or the door."""
    return [*module.split("."), "fsm_loop"][1]


def allowed(name: str) -> set[str]:
    """The rooms that this one may import."""
    if name in READERS:
        return READABLE | {*READERS[: READERS.index(name)], name}
    at = next((place for place, level in enumerate(LEVELS) if name in level), None)
    if at is None:
        pytest.fail(f"the room {name!r} has no place yet: give it a line in LEVELS")
    return {name, *READ_BY.get(name, ()), *(below for level in LEVELS[:at] for below in level)}


def ours(path: Path) -> list[tuple[int, str]]:
    """Line and name of every module of this package that the file imports."""
    return [(line, module) for line, module in imports(path) if module.split(".")[0] == "fsm_loop"]


@each(MODULES)
def test_imports_run_one_way(path):
    """A file imports only from its own room and from rooms below."""
    may = allowed(room(dotted(path)))
    # An error carries what went wrong, and the types of that live higher up: a type checker may look there.
    for_types_alone = type_imports(path) if path == PACKAGE / "errors.py" else set()
    wrong = [(line, name) for line, name in ours(path) if room(name) not in may]

    assert [] == [one for one in wrong if one not in for_types_alone]


@each(sorted(CORE.rglob("*.py")))
def test_the_core_is_a_line(path):
    """A file of the core imports only files of the core that come before it."""
    if path.name == "__init__.py":
        assert [] == ours(path)
        return
    assert path.stem in LINE, "a file of the core has no place yet: put it into LINE"
    earlier = {f"fsm_loop.core.{name}" for name in LINE[: LINE.index(path.stem)]}
    wrong = [(line, name) for line, name in ours(path) if room(name) == "core" and name not in earlier]

    assert [] == wrong


@each(MODULES)
def test_one_file_knows_the_engine(path):
    """`transitions` is imported by core/step.py, and by no other file."""
    knows = any(module.split(".")[0] == "transitions" for _, module in imports(path))

    assert (path == CORE / "step.py") == knows


def test_the_house_was_seen():
    """These tests read the page, the door and the whole line of the core, not an empty folder."""
    seen = set(MODULES)

    assert {PACKAGE / "__init__.py", *(CORE / f"{name}.py" for name in LINE)} <= seen
    assert any(name == "fsm_loop.core.guards" for _, name in ours(CORE / "machine.py"))
