"""A picture of a page as SVG or PNG, drawn from the DOT by Graphviz: the one of the extra `diagrams`, or the machine's.

Every state, arrow and row has an `id` in the SVG that stays the same while the page does: `state-calling`,
`row-calling.stream_started`, `rows-calling-streaming` for an arrow that stands for several rows.
"""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path

from fsm_loop.errors import FsmLoopError

DRAWN_WITHIN_S = 60.0


class PictureError(FsmLoopError):
    """There is no Graphviz, or it could not draw."""


def picture(dot: str, kind: str, *, within_s: float = DRAWN_WITHIN_S) -> bytes:
    """The DOT as `svg` or `png`. Raises PictureError where no Graphviz is found, where it fails or takes too long."""
    try:
        drawn = subprocess.run(  # noqa: S603  # the program is Graphviz, and what it reads is text
            [_renderer(), f"-T{kind}"], input=dot.encode(), capture_output=True, timeout=within_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise PictureError(f"Graphviz did not draw the picture within {within_s:g} s") from error
    if drawn.returncode or not drawn.stdout:
        raise PictureError(f"Graphviz could not draw the picture: {drawn.stderr.decode(errors='replace').strip()}")
    return drawn.stdout


def _renderer() -> str:
    """The program that draws: that of this environment first, for it is the same for everyone."""
    beside = shutil.which("graphviz-pure", path=str(Path(sysconfig.get_path("scripts"))))
    found = beside or shutil.which("graphviz-pure") or shutil.which("dot")
    if found is None:
        raise PictureError(
            "no Graphviz is here to draw a picture; install fsm-loop[diagrams], or your system's graphviz, "
            "or ask for --format dot or mermaid"
        )
    return found
