"""What the house tests read: the package's files, and what each of them imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "fsm_loop"
CORE = PACKAGE / "core"
MODULES = sorted(PACKAGE.rglob("*.py"))


def short(path: Path) -> str:
    """The path as one says it: from the root of the checkout."""
    return path.relative_to(ROOT).as_posix()


def each(paths: list[Path]) -> pytest.MarkDecorator:
    """One test for each of these files, named after it."""
    return pytest.mark.parametrize("path", paths, ids=short)


@cache
def tree(path: Path) -> ast.Module:
    """The file as Python reads it."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=short(path))


def dotted(path: Path) -> str:
    """The name under which the file is imported."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and full name of every module the file imports: at the top, in a function, or for its types alone."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, name.name) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = _absolute(path, node)
            yield from ((node.lineno, _module_of(f"{module}.{name.name}", module)) for name in node.names)


def type_imports(path: Path) -> set[tuple[int, str]]:
    """Those of the imports that only a type checker sees."""
    blocks = (node for node in ast.walk(tree(path)) if isinstance(node, ast.If))
    hidden = [block for block in blocks if ast.unparse(block.test).endswith("TYPE_CHECKING")]
    lines = {
        node.lineno for block in hidden for one in block.body for node in ast.walk(one) if isinstance(node, ast.stmt)
    }
    return {(line, name) for line, name in imports(path) if line in lines}


def _absolute(path: Path, node: ast.ImportFrom) -> str:
    """The module that a `from` names, also where it is named by dots."""
    if not node.level:
        return node.module or ""
    here = path.parent
    for _ in range(node.level - 1):
        here = here.parent
    return ".".join(filter(None, [dotted(here / "__init__.py"), node.module]))


def _module_of(name: str, parent: str) -> str:
    """What `from parent import name` imports: a module where there is one of that name, else the parent."""
    at = ROOT.joinpath(*name.split("."))
    return name if at.with_suffix(".py").is_file() or at.is_dir() else parent
