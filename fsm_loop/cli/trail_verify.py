"""The command `fsm-loop trail verify`: whether a trail is what was written, and whether it can have happened."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import attrs
import typer

from fsm_loop.cli.pages import page_of
from fsm_loop.cli.stops import Status, Stop

if TYPE_CHECKING:
    from fsm_loop.audit.verify import TurnVerdict, Verdict

SHOWN = 20  # turns that are wrong or unfinished, rows of another page: so many are listed


def verify(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Trails.")],
    head: Annotated[
        list[str] | None,
        typer.Option(metavar="HASH", help="The last hash of a turn, kept elsewhere; may be given several times."),
    ] = None,
    key: Annotated[
        Path | None, typer.Option(metavar="PUB", help="A public Ed25519 key in PEM: every turn must end signed by it.")
    ] = None,
    page: Annotated[str | None, typer.Option(metavar="MODULE:NAME", help="The page, where it is one of yours.")] = None,
    whole: Annotated[bool, typer.Option("--whole", help="A turn without its end is wrong.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else.")] = False,
) -> int:
    """Check hashes, shape and conformance: that the page can have come to each decision.

    The exit status is 0 for a trail that is verified, 1 for one that is not, 2 for one that cannot be used.
    """
    from fsm_loop.audit.reading import read
    from fsm_loop.audit.signing import checker
    from fsm_loop.audit.verify import verify as verified

    lines = chain.from_iterable(map(read, files))
    check = None if key is None else checker(key)
    verdict = verified(lines, page_of(page), heads=head or (), signature=check, whole=whole)
    if not verdict.turns:
        why = verdict.problems[0] if verdict.problems else None
        raise Stop(
            f"there is no turn in {', '.join(map(str, files))}" + (f": {why.place}: {why.sentence}" if why else "")
        )
    if as_json:
        print(json.dumps({"verified": verdict.verified, **attrs.asdict(verdict)}))
    else:
        _print(verdict, bool(head), key is not None)
    if any(each.conforms is None and each.problem is None for each in verdict.turns) and verdict.verified:
        return Status.USAGE
    return Status.COMPLETED if verdict.verified else Status.FAILED


def _print(verdict: Verdict, with_heads: bool, with_key: bool) -> None:
    for problem in verdict.problems[:SHOWN]:
        turn = f": turn {problem.turn_id}" if problem.turn_id else ""
        seq = "" if problem.seq is None else f", decision {problem.seq}"
        print(f"{problem.place}{turn}{seq}: {problem.sentence}")
    _more(len(verdict.problems), "problems")
    for place in verdict.torn[:SHOWN]:
        print(f"{place}: torn: it breaks off in the middle, where its writer was stopped")
    _more(len(verdict.torn), "torn lines")
    open_turns = [each for each in verdict.turns if not each.over and each.problem is None]
    for each in open_turns[:SHOWN]:
        print(f"turn {each.turn_id} has no end: killed, still running, or cut; it is verified as far as it goes")
    _more(len(open_turns), "turns without an end")
    _other_pages(verdict.turns)
    print(_summary(verdict))
    if verdict.verified and not with_key:
        print(_unchecked(open_turns=bool(open_turns), with_heads=with_heads))


def _summary(verdict: Verdict) -> str:
    turns, decisions = len(verdict.turns), sum(each.decisions for each in verdict.turns)
    good = sum(each.problem is None for each in verdict.turns)
    words = "verified" if verdict.verified else "NOT verified"
    checked = (
        "chain, shape and conformance" if all(each.conforms is not None for each in verdict.turns) else "chain, shape"
    )
    heads = f"; its last hash is {verdict.turns[0].head}" if turns == 1 and verdict.verified else ""
    return f"{words}: {good} of {turns} {_plural(turns, 'turn')}, {decisions} decisions: {checked}{heads}"


def _unchecked(*, open_turns: bool, with_heads: bool) -> str:
    """What hashes alone cannot show."""
    if with_heads:
        return "Turns whose last hash was not given may have been left out or written anew as a whole (see --key)."
    cut = "that nothing was cut off the end of a turn, or " if open_turns else ""
    return (
        f"Not shown by hashes alone: {cut}that the trail was not written anew as a whole, or a whole turn left out. "
        "The last hash, kept elsewhere (--head), or a signature (--key) shows it."
    )


def _other_pages(turns: tuple[TurnVerdict, ...]) -> None:
    other = [each for each in turns if each.conforms is None and each.problem is None]
    if other:
        print(
            f"{len(other)} {_plural(len(other), 'turn')} decided by another page; conformance was not checked (--page):"
        )
        rows = list(dict.fromkeys(row for each in other for row in each.changed))
        for row in rows[:SHOWN]:
            print(f"  {row}")
        _more(len(rows), "rows")


def _more(count: int, what: str) -> None:
    if count > SHOWN:
        print(f"... and {count - SHOWN} {what} more")


def _plural(count: int, word: str) -> str:
    return word if count == 1 else f"{word}s"
