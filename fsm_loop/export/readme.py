"""The blocks of README.md that are written from the page; the words around them are nobody's but their author's."""

from __future__ import annotations

import re
from collections.abc import Callable

from fsm_loop.core.machine import PAGE
from fsm_loop.core.rows import Page
from fsm_loop.errors import FsmLoopError
from fsm_loop.export.machine_md import counters
from fsm_loop.export.mermaid import overview
from fsm_loop.export.model import Outline
from fsm_loop.export.proof_md import proof

_BLOCK = re.compile(r"(?P<begin><!-- generated: (?P<name>[\w-]+) -->\n).*?(?P<end><!-- end -->)", re.DOTALL)


def readme(text: str, outline: Outline, page: Page = PAGE) -> str:
    """The text with each block between `<!-- generated: name -->` and `<!-- end -->` written anew, in words of *page*.

    Raises FsmLoopError for the name of a block that nothing writes.
    """
    blocks: dict[str, Callable[[], str]] = {
        "diagram": lambda: f"```mermaid\n{overview(outline)}```",
        "counters": lambda: counters(outline),
        "proof": lambda: proof(page),
    }

    def written(match: re.Match[str]) -> str:
        name = match["name"]
        if name not in blocks:
            raise FsmLoopError(f"README.md: nothing writes a block named {name!r}; there are {', '.join(blocks)}")
        return f"{match['begin']}\n{blocks[name]()}\n\n{match['end']}"

    return _BLOCK.sub(written, text)
