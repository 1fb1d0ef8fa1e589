"""The door is light, and what stands in it is written down."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import fsm_loop
from tests.house.source import PACKAGE, ROOT, tree

# A name that comes or goes is a change for users: this list changes with it, and CHANGELOG.md says so.
DOOR = Path(__file__).with_name("door.txt").read_text(encoding="utf-8").split()

# What only an extra, a test or the command needs is imported where it is used.
HEAVY = {
    "aiohttp", "httpx", "httpx2", "hypothesis", "openai", "pytest", "rich", "trio", "typer", "xllamacpp",
}  # fmt: skip

IMPORTED_BY_THE_DOOR = "import fsm_loop, json, sys; print(json.dumps([fsm_loop.__file__, *sys.modules]))"


def test_the_door_is_light():
    """A fresh interpreter that imports the package imports no SDK, no server and no test tool."""
    said = subprocess.run(
        [sys.executable, "-c", IMPORTED_BY_THE_DOOR], cwd=ROOT, capture_output=True, text=True, check=True
    )
    file, *modules = json.loads(said.stdout)

    assert str(PACKAGE / "__init__.py") == file
    assert set() == {module.split(".")[0] for module in modules} & HEAVY


def test_the_door_is_pinned():
    """The names at the door are exactly those of the list, in its order."""
    assert DOOR == list(fsm_loop.__all__)


def test_every_name_at_the_door_is_there():
    """What the door promises can be imported from it."""
    assert [] == [name for name in DOOR if not hasattr(fsm_loop, name)]


def test_the_door_defines_nothing():
    """The door holds a docstring, imports and the list of its names."""
    docstring, *rest = tree(PACKAGE / "__init__.py").body
    others = [node for node in rest if not isinstance(node, ast.Import | ast.ImportFrom)]

    assert isinstance(docstring, ast.Expr)
    assert ["__all__"] == [ast.unparse(node.targets[0]) for node in others if isinstance(node, ast.Assign)]
    assert 1 == len(others)
