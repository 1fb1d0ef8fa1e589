"""The command `fsm-loop trail view`: a trail as one HTML file, to be stepped through in a browser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fsm_loop.cli.outlet import visible
from fsm_loop.cli.pages import page_of
from fsm_loop.cli.stops import Status, Stop
from fsm_loop.core.rows import Page

if TYPE_CHECKING:
    from fsm_loop.audit.verify import Verdict
    from fsm_loop.export.viewer import Judged


def view(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Trails.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Where to write the HTML file.")],
    turn: Annotated[
        str | None, typer.Option(metavar="ID", help="This turn alone; the beginning of its id will do.")
    ] = None,
    page: Annotated[str | None, typer.Option(metavar="MODULE:NAME", help="The page, where it is one of yours.")] = None,
) -> int:
    """Write one HTML file that shows the turns step by step, with no network at all.

    It shows the diagram with the path lit, the time line, the counters and every decision. It holds all that the
    trail holds: of a trail with full content, what users, models and tools said.
    """
    from fsm_loop.audit.reading import read
    from fsm_loop.audit.verify import verify
    from fsm_loop.export.viewer import Shown, ViewerError, viewer

    if output.exists() and any(output.samefile(each) for each in files if each.exists()):
        raise Stop(f"--output: {output} is the trail itself; name another file")
    lines, of = [line for each in files for line in read(each)], page_of(page)
    verdict = verify(lines, of)
    records = [line.record for line in lines if line.record is not None]
    if turn is not None:
        records = [each for each in records if each["turn"].startswith(turn)]
    if not records:
        raise Stop(f"there is no turn{'' if turn is None else f' {turn}'} in {', '.join(map(str, files))}")
    title = files[0].name if len(files) == 1 else f"{len(files)} trails"
    try:
        output.write_text(viewer(Shown(records, _judged(verdict), _why(records, of), title), of), "utf-8", newline="\n")
    except ViewerError as error:
        raise Stop(str(error)) from error
    except OSError as error:
        raise Stop(f"--output: {output}: {error.strerror}", Status.FAILED) from error
    turns = len({each["turn"] for each in records})
    print(visible(f"{output}: {turns} {'turn' if turns == 1 else 'turns'}; {_judged(verdict).sentence}"))
    return Status.COMPLETED


def _judged(verdict: Verdict) -> Judged:
    from fsm_loop.export.viewer import Judged

    if not verdict.verified:
        first, more = verdict.problems[0], len(verdict.problems) - 1
        rest = f" (and {more} more)" if more else ""
        return Judged(False, f"not verified: {first.place}: {first.sentence}{rest}")
    torn = f", {len(verdict.torn)} torn left out" if verdict.torn else ""
    return Judged(True, f"verified: {sum(each.checked for each in verdict.turns)} records{torn}")


def _why(records: Sequence[Mapping[str, Any]], page: Page) -> dict[str, tuple[str, ...]]:
    """Sentences on how each turn ended; a turn with a damaged record has none, and the verdict says what is wrong."""
    from fsm_loop.audit.why import turns, why

    told: dict[str, tuple[str, ...]] = {}
    for each in turns(records):
        try:
            told[each.turn_id] = why(each, page).sentences
        except (KeyError, TypeError, ValueError):
            continue
    return told
