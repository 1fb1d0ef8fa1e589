"""The command `fsm-loop tune`: which caps and delays reach a goal under a profile, and what they cost."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fsm_loop.cli.stops import Status, Stop
from fsm_loop.config import LoopConfig

if TYPE_CHECKING:
    from fsm_loop.prove.tune import Tried, Tuned

MOST_ROWS = 12  # of the table


def tune(
    profile: Annotated[
        str,
        typer.Option(
            metavar="PROFILE",
            help="calm, flaky_network, rate_limited, long_answers, outage, or a TOML file of chances per call.",
        ),
    ],
    goal: Annotated[
        str,
        typer.Option(
            metavar="GOAL",
            help="p(OUTCOME), p(exhausted COUNTER), calls or waited; >= or <=; a number: 'p(completed) >= 0.999'.",
        ),
    ],
    max_wait: Annotated[
        float | None, typer.Option(metavar="S", min=0, help="The longest mean wait of a turn, in seconds.")
    ] = None,
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Limits and delays, as a TOML file.")] = None,
    chain: Annotated[int, typer.Option(metavar="N", min=0, help="How many providers stand behind the first.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else.")] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Draw the trade-off, as SVG.")
    ] = None,
) -> int:
    """Search for caps and delays that reach a goal under a profile, and show what each choice costs.

    Tries at most 60 configs, beginning with the one in force; asks no model and changes no file but the plot's. The
    exit status is 0 where the goal is reached, 1 where nothing that was tried reaches it, 2 for a wrong use.
    """
    from fsm_loop.cli.plot import plotted
    from fsm_loop.prove.chances import profile_of
    from fsm_loop.prove.goals import goal_of
    from fsm_loop.prove.tune import tune as tuned_for

    wished, chosen, settings = goal_of(goal), profile_of(profile), LoopConfig.load(config)
    found = tuned_for(chosen, wished, settings, chain=chain, max_wait_s=max_wait, progress=_progress)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    print(json.dumps(found.plain()) if as_json else "\n".join(_told(found)))
    if output is not None:
        try:
            output.write_text(plotted(found), encoding="utf-8")
        except OSError as error:
            raise Stop(f"-o {output}: cannot be written: {error.strerror}") from error
    return Status.COMPLETED if found.reached else Status.FAILED


def _progress(tried: int, most: int) -> None:
    """How far the search is: one line that moves on a terminal, and else a line now and then."""
    if sys.stderr.isatty():
        print(f"\rtried {tried} of at most {most} configs", end="", file=sys.stderr, flush=True)
    elif tried % 20 == 0:
        print(f"tried {tried} of at most {most} configs", file=sys.stderr)


def _told(found: Tuned) -> Iterator[str]:
    wait = f", with a mean wait of at most {found.max_wait_s:g} s" if found.max_wait_s is not None else ""
    wished = f"{found.goal.text}{wait}"
    if found.reached:
        if found.fits(found.start):
            yield f"The config as it is reaches {wished}, under {found.profile.name}."
        else:
            yield f"Reached under {found.profile.name}: {wished}."
        if found.best.changes:
            yield "Of the configs that were tried and reach it, this one waits least:"
            yield from (f"  {name} = {value!r}" for name, value in found.best.changes.items())
    else:
        yield f"NOTHING THAT WAS TRIED REACHES {wished}, under {found.profile.name}. The nearest is marked with *."
        yield from _why_not(found)
    yield ""
    yield from _table(found)
    yield f"{len(found.tried)} configs were tried; what another one beats in goal, calls and waits is left out here."


def _why_not(found: Tuned) -> Iterator[str]:
    """What still ends the turns of the nearest config otherwise."""
    from fsm_loop.prove.odds import share

    others = [(ending, chance) for ending, chance in found.best.found.ends.items() if ending[0] != "completed"]
    for (outcome, counter), chance in sorted(others, key=lambda each: -each[1])[:3]:
        yield f"  under it {share(chance)} end as {outcome}, {f'{counter} spent' if counter else 'and no cap helps'}"


def _table(found: Tuned) -> Iterator[str]:
    rows = _rows(found)
    head = (
        "",
        found.goal.text.partition(">")[0].partition("<")[0].strip(),
        "calls",
        "waits",
        "waits at most",
        "change",
    )
    cells = [head, *(_cells(each, found) for each in rows)]
    wide = [max(len(row[place]) for row in cells) for place in range(len(head))]
    for mark, figure, calls, wait, worst, change in cells:
        numbers = f"{figure:>{wide[1]}}  {calls:>{wide[2]}}  {wait:>{wide[3]}}  {worst:>{wide[4]}}"
        yield f"{mark:{wide[0]}} {numbers}  {change}".rstrip()


def _rows(found: Tuned) -> list[Tried]:
    """The config as it is, the best, and the best of the front, in the order of their mean waits."""
    near = sorted(found.front, key=lambda each: (not each.reaches, each.short_by if not each.reaches else 0.0))
    chosen = {id(each): each for each in (found.start, found.best, *near[: MOST_ROWS - 2])}
    return sorted(chosen.values(), key=lambda each: each.found.waited_s)


def _cells(each: Tried, found: Tuned) -> tuple[str, ...]:
    change = ", ".join(f"{name} {value:g}" for name, value in each.changes.items()) or "none"
    figure = f"{each.figure:.3f}" if found.goal.mean else f"{each.figure:.6f}"
    mark = "*" if each is found.best else ""
    return (
        mark,
        figure,
        f"{each.found.calls:.2f}",
        f"{each.found.waited_s:.1f} s",
        f"{each.worst_wait_s:,.0f} s",
        change,
    )
