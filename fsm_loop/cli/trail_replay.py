"""The command `fsm-loop trail replay`: the events of a trail, folded through the step once more."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import attrs
import typer

from fsm_loop.cli.pages import page_of
from fsm_loop.cli.stops import Status, Stop

if TYPE_CHECKING:
    from fsm_loop.audit.replay import Replayed

SHOWN_ROWS = 20  # rows of another page that are listed


def replay(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Trails, written with content=full.")],
    page: Annotated[str | None, typer.Option(metavar="MODULE:NAME", help="The page, where it is one of yours.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else.")] = False,
) -> int:
    """Tell each turn again: its events must lead to the same rows, counters, effects and end.

    The exit status is 0 where they do, 1 where a turn parts from its trail, 2 where a trail cannot be told again.
    """
    from fsm_loop.audit.reading import records
    from fsm_loop.audit.replay import replay as replayed

    turns = replayed(records(files), page_of(page))
    if not turns:
        raise Stop(f"there is no turn in {', '.join(map(str, files))}")
    if as_json:
        print(json.dumps({"turns": [{**attrs.asdict(each), "same": each.same} for each in turns]}))
    else:
        for each in turns:
            print(f"{each.turn_id}: {_told(each)}")
        _other_page(turns)
    return _status(turns)


def _status(turns: Sequence[Replayed]) -> Status:
    if any(each.divergence for each in turns):
        return Status.FAILED
    return Status.USAGE if any(each.cannot for each in turns) else Status.COMPLETED


def _told(turn: Replayed) -> str:
    if turn.cannot:
        return f"cannot be told again: {turn.cannot}"
    if turn.divergence is None:
        rest = "" if turn.over else "; it has no end: killed, still running, or cut"
        return f"{turn.decisions} decisions, the same when told again{rest}"
    at = "the end" if turn.divergence.seq is None else f"decision {turn.divergence.seq}"
    return f"parts from its trail at {at}: {turn.divergence.sentence}"


def _other_page(turns: Sequence[Replayed]) -> None:
    changed = list(dict.fromkeys(row for turn in turns for row in turn.changed))
    if changed:
        print("Decided by another page than this one:")
        for row in changed[:SHOWN_ROWS]:
            print(f"  {row}")
        if len(changed) > SHOWN_ROWS:
            print(f"  and {len(changed) - SHOWN_ROWS} rows more")
