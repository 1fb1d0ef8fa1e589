"""The command `fsm-loop trail why`: plain sentences on how turns ended."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Annotated

import attrs
import typer

from fsm_loop.cli.outlet import visible
from fsm_loop.cli.pages import page_of
from fsm_loop.cli.stops import Status, Stop
from fsm_loop.cli.trail_show import MISSHAPEN

MOST_TURNS = 20  # that are told of, where no turn is named


def why(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Trails.")],
    turn: Annotated[
        str | None, typer.Option(metavar="ID", help="This turn alone; the beginning of its id will do.")
    ] = None,
    page: Annotated[str | None, typer.Option(metavar="MODULE:NAME", help="The page, where it is one of yours.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else.")] = False,
) -> int:
    """Say how a turn ended, what was spent and on what, what was waited for, and what would have led on.

    Of several turns, those that did not complete are told of, and the others are counted; --turn names one.
    """
    from fsm_loop.audit.reading import records
    from fsm_loop.audit.why import turns
    from fsm_loop.audit.why import why as why_of

    found = turns(records(files))
    if turn is not None:
        found = [each for each in found if each.turn_id.startswith(turn)]
    if not found:
        which = "no turn" if turn is None else f"no turn {turn}"
        raise Stop(f"there is {which} in {', '.join(map(str, files))}")
    of = page_of(page)
    try:
        told = [why_of(each, of) for each in found]
    except MISSHAPEN as error:
        names = ", ".join(map(str, files))
        raise Stop(f"{names}: a record is not whole; `fsm-loop trail verify {names}` says which") from error
    if as_json:
        print(json.dumps({"turns": [attrs.asdict(each) for each in told]}))
        return Status.COMPLETED
    shown = told if len(told) == 1 else [each for each in told if each.outcome != "completed"]
    for each in shown[:MOST_TURNS]:
        print(visible("\n".join(each.sentences)), end="\n\n" if len(told) > 1 else "\n")
    if len(told) > 1:
        print(_rest(Counter(each.outcome or "without an end" for each in told), len(shown)))
    return Status.COMPLETED


def _rest(outcomes: Counter[str], shown: int) -> str:
    counted = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
    more = f"; {shown - MOST_TURNS} more are not told of: name one with --turn" if shown > MOST_TURNS else ""
    return f"{outcomes.total()} turns: {counted}{more}."
