"""Each file can be read in one sitting, and says what it is about."""

from __future__ import annotations

import ast

from tests.house.source import MODULES, PACKAGE, each, tree

MOST_LINES = 400
DOCUMENTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@each(MODULES)
def test_a_file_is_short(path):
    """A file of the package has at most 400 lines."""
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


@each(MODULES)
def test_a_file_says_what_it_is_about(path):
    """A module begins with a docstring."""
    assert ast.get_docstring(tree(path))


@each(MODULES)
def test_what_is_public_says_what_it_is(path):
    """A public function or class of a module has a docstring."""
    public = [node for node in tree(path).body if isinstance(node, DOCUMENTED) and node.name[0] != "_"]

    assert [] == [(node.lineno, node.name) for node in public if not ast.get_docstring(node)]


def test_the_package_was_seen():
    """These tests read the page, not an empty folder."""
    assert PACKAGE / "core" / "machine.py" in MODULES


def test_the_package_is_typed():
    """The package tells type checkers that it carries its types."""
    assert (PACKAGE / "py.typed").is_file()
