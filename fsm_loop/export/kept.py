"""The artefacts that are kept beside the code: what they should be, writing them, and whether they are current."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import unified_diff
from importlib import metadata, resources
from pathlib import Path
from types import MappingProxyType

from fsm_loop.core.machine import PAGE
from fsm_loop.core.rows import Page
from fsm_loop.export.dot import dot
from fsm_loop.export.drawing import View
from fsm_loop.export.machine_md import specification
from fsm_loop.export.mermaid import full, overview
from fsm_loop.export.model import Outline, outline
from fsm_loop.export.picture import picture
from fsm_loop.export.readme import readme

README = "README.md"
PICTURE = "fsm_loop/export/overview.svg"
_COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)


def artefacts(root: Path = Path(), page: Page = PAGE) -> dict[str, str]:
    """Every artefact by its path from *root*: text alone, the same for the same page.

    README.md is the one that stands at *root*, with its generated blocks written anew; where there is none, it is
    left out.
    """
    words = outline(page)
    made = {
        "diagrams/full.mmd": full(words),
        "diagrams/overview.mmd": overview(words),
        "specs/machine.md": specification(words),
    }
    drawn = _drawn(words)
    if drawn is not None:
        made["diagrams/overview.svg"] = drawn
        if page is PAGE:
            made[PICTURE] = drawn
    kept = _kept(root / README)
    return made if kept is None else {README: readme(kept, words, page), **made}


def kept_picture() -> str | None:
    """The picture of the page that comes with the package, for who has nothing to draw with; None where it is lost."""
    kept = resources.files(__package__).joinpath(Path(PICTURE).name)
    return kept.read_text("utf-8") if kept.is_file() else None


def _drawn(words: Outline) -> str | None:
    """The picture of all states, without what names its renderer; None where there is no Graphviz of a known version.

    Another Graphviz draws the same picture with other numbers, so only the one whose version is pinned says what is
    current.
    """
    try:
        metadata.version("graphviz-pure")
    except metadata.PackageNotFoundError:
        return None
    svg = picture(dot(words, View.OVERVIEW), "svg").decode()
    return _COMMENT.sub("", svg[svg.index("<svg") :]).rstrip() + "\n"


def write(root: Path, page: Page = PAGE, more: Mapping[str, str] = MappingProxyType({})) -> list[Path]:
    """Write what is not current, and say what was written; *more* is what others generate, by its path from *root*."""
    made = {**artefacts(root, page), **more}
    stale = [(root / name, text) for name, text in made.items() if _kept(root / name) != text]
    for path, text in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    return [path for path, _ in stale]


def check(root: Path, page: Page = PAGE, more: Mapping[str, str] = MappingProxyType({})) -> str:
    """What `write` would change, as a unified diff; empty where all is current."""
    made = {**artefacts(root, page), **more}
    return "".join(_difference(name, _kept(root / name) or "", text) for name, text in made.items())


def _kept(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


def _difference(name: str, kept: str, made: str) -> str:
    return "".join(
        unified_diff(kept.splitlines(keepends=True), made.splitlines(keepends=True), f"{name} (kept)", f"{name} (made)")
    )
