"""What is proved of the page, in short: how its loops come apart, and the worst case of the default config."""

from __future__ import annotations

from collections.abc import Iterator

from fsm_loop.core import counters
from fsm_loop.core.rows import Page
from fsm_loop.prove import Certificate, bounds, certificate, stopping
from fsm_loop.prove.tabled import lines_of


def proof(page: Page) -> str:
    """How every loop is paid for, without the cap on requests; and the numbers, for one provider, in Markdown."""
    return "\n".join(_written(page))


def _written(page: Page) -> Iterator[str]:
    nested = certificate(page, without=[counters.requests])
    yield from ("| rows of loops | spend, and never refill |", "| ---: | --- |", *_parts(nested))
    if nested.terminates:
        yield from ("", "| the worst case at the defaults, with one provider | | |", "| --- | ---: | --- |")
        for says, number, time, note in lines_of(bounds(page=page), stopping(page)):
            indent = says.replace("  ", "&nbsp;&nbsp;")
            yield f"| {indent} | {number} | {'; '.join(filter(None, (time, note)))} |"


def _parts(nested: Certificate) -> Iterator[str]:
    for part in nested.parts:
        pays = ", ".join(f"`{each.name}`" for each in part.spends)
        why = pays or (f"nothing: {part.exempt.why}" if part.exempt else "NOT COUNTED")
        yield f"| {len(part.rows)} | {'&nbsp;&nbsp;' * part.depth}{why} |"
