"""The exploration of `fsm-loop check`, with a bar on standard error where somebody watches."""

from __future__ import annotations

import sys

from fsm_loop.config import LoopConfig
from fsm_loop.core.rows import Page
from fsm_loop.prove import Explored, explored

LONGEST_NAME = 60  # characters of what is being done


def explored_with_bar(config: LoopConfig, chain: int, page: Page) -> Explored:
    """Every turn of this config; a bar shows how many are done of those that are known so far."""
    if not sys.stderr.isatty():
        return explored(config, chain, page)
    from rich.console import Console
    from rich.progress import Progress, TaskID

    with Progress(console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, TaskID] = {}

        def told(what: str, done: int, known: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what[:LONGEST_NAME], total=None)
            bar.update(tasks[what], completed=done, total=known)

        return explored(config, chain, page, told=told)
