"""The core is pure: no clock, no chance, no waiting, no log, nothing read and nothing written."""

from __future__ import annotations

import ast
import sys

from tests.house.source import CORE, each, imports, tree

FILES = sorted(CORE.rglob("*.py"))
OUTSIDE = {
    "time", "random", "datetime", "uuid", "asyncio", "anyio", "threading", "os", "socket", "logging", "structlog",
    # Other doors to the same outside.
    "concurrent", "contextvars", "http", "importlib", "io", "multiprocessing", "pathlib", "secrets", "selectors",
    "signal", "sqlite3", "ssl", "subprocess", "sys", "tempfile", "urllib", "warnings",
}  # fmt: skip
BUILTINS_THAT_REACH_OUT = {"open", "print", "input", "eval", "exec", "__import__", "breakpoint"}
ALLOWED = sys.stdlib_module_names | {"attr", "attrs", "transitions", "fsm_loop"}


@each(FILES)
def test_the_core_imports_nothing_of_the_outside(path):
    """A file of the core imports attrs, transitions, and those parts of the standard library that reach nowhere."""
    roots = {(line, module.split(".")[0]) for line, module in imports(path)}

    assert [] == sorted((line, root) for line, root in roots if root in OUTSIDE or root not in ALLOWED)


@each(FILES)
def test_the_core_names_nothing_of_the_outside(path):
    """A file of the core does not so much as say `time` or `open`, whichever way it came by them."""
    forbidden = OUTSIDE | BUILTINS_THAT_REACH_OUT
    names = [node for node in ast.walk(tree(path)) if isinstance(node, ast.Name)]

    assert [] == [(node.lineno, node.id) for node in names if node.id in forbidden]


@each(FILES)
def test_the_core_never_waits(path):
    """A file of the core has no coroutine in it."""
    waits = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)

    assert [] == [node.lineno for node in ast.walk(tree(path)) if isinstance(node, waits)]


def test_the_core_was_seen():
    """These tests read the page and the step, not an empty folder."""
    assert {CORE / "machine.py", CORE / "step.py"} <= set(FILES)
