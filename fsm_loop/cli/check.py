"""The command `fsm-loop check`: that every turn ends, and the worst that it can come to under a config."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fsm_loop.cli.stops import Status, Stop
from fsm_loop.config import LoopConfig

if TYPE_CHECKING:
    from fsm_loop.core.rows import Page
    from fsm_loop.prove import Bounds, Certificate, Explored, Stopping


def check(
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Limits and delays, as a TOML file.")] = None,
    page: Annotated[
        str | None, typer.Option(metavar="MODULE:NAME", help="A page of your own; without it, ours.")
    ] = None,
    chain: Annotated[int, typer.Option(metavar="N", min=0, help="How many providers stand behind the first.")] = 0,
    odds: Annotated[
        str | None,
        typer.Option(
            metavar="PROFILE",
            help="How likely each end is under a profile of chances: calm, flaky_network, rate_limited, long_answers, "
            "outage, or a TOML file of your own.",
        ),
    ] = None,
    deep: Annotated[
        bool,
        typer.Option(
            "--deep",
            help="Explore this config itself, which takes minutes, and not only a small one; a page of your own too.",
        ),
    ] = False,
    trail: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write the turns that break an invariant as a trail, for `fsm-loop trail view`."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else.")] = False,
) -> int:
    """Prove that every turn ends, and print the exact worst case of a config, with what to look at in it.

    Reads the page that runs, the file and the environment; asks no model. The exit status is 0 where every loop is
    counted, with the cap on requests and without it, and every invariant holds (warnings change nothing); 1 where one
    is not, or does not; 2 for a wrong use.
    """
    from fsm_loop.cli.pages import page_of
    from fsm_loop.cli.proof import told, told_besides, told_of
    from fsm_loop.core import counters
    from fsm_loop.core.machine import PAGE
    from fsm_loop.prove import bounds, certificate, stopping, warnings_of
    from fsm_loop.prove.chances import profile_of
    from fsm_loop.prove.odds import odds as odds_of
    from fsm_loop.prove.rank import has_z3, ranked
    from fsm_loop.prove.worst import most_calls

    profile = profile_of(odds) if odds is not None else None
    settings, machine = LoopConfig.load(config), page_of(page)
    certified, nested = certificate(machine), certificate(machine, without=[counters.requests])
    whole = certified.terminates and nested.terminates
    # A page with a loop that is not counted has no worst case, and walks are turns of our own page.
    worst = bounds(settings, chain, machine) if whole else None
    stop = stopping(machine, most_calls(settings, chain) if whole and machine is PAGE else None)
    warnings = warnings_of(settings, chain) if whole and machine is PAGE else None
    rank = ranked(machine) if has_z3() else None
    likely = odds_of(profile, settings, chain, machine) if profile and whole else None
    seen = _explored(settings, chain, machine, deep=deep) if machine is PAGE or deep else None
    if trail is not None and seen is not None:
        _keep(trail, seen, machine)
    if as_json:
        plain = _plain(certified, nested, worst, stop, warnings)
        more = {"certificate_z3": rank.plain() if rank else None, "odds": likely.plain() if likely else None}
        print(json.dumps({**plain, **_plain_of(seen), **more}))
    else:
        lines = (*told(certified, nested, worst, stop, warnings), *told_of(seen), *told_besides(rank, profile, likely))
        print("\n".join(lines))
    sound = whole and stop.at_once and (seen is None or seen.holds)
    return Status.COMPLETED if sound else Status.FAILED


def _keep(path: Path, seen: Explored, page: Page) -> None:
    """Write each turn that breaks an invariant, under the invariant's name; one that stands already is written anew."""
    from fsm_loop.audit.jsonl import JsonLines
    from fsm_loop.core.step import begin_turn

    broken = [each for each in seen.invariants.values() if each is not None and each.decisions]
    if not broken:
        return
    try:
        path.unlink(missing_ok=True)
        with JsonLines(path, content="full") as sink:
            for each in broken:
                providers = each.decisions[0].turn.record.providers
                sink.opened(each.invariant, begin_turn(seen.config, providers, page), page)
                for seq, decision in enumerate(each.decisions):
                    sink.saw(each.invariant, seq, decision)
    except OSError as error:
        raise Stop(f"--trail: {path} cannot be written: {error.strerror}", Status.FAILED) from error


def _explored(settings: LoopConfig, chain: int, page: Page, *, deep: bool) -> Explored:
    """This config, where it is to be so; else a small one like it, with a chain of one at most."""
    from fsm_loop.cli.exploring import explored_with_bar
    from fsm_loop.prove import small

    return explored_with_bar(settings, chain, page) if deep else explored_with_bar(small(settings), min(chain, 1), page)


def _plain_of(seen: Explored | None) -> dict[str, Any]:
    if seen is None:
        return {"invariants": None, "states": None, "edges": None, "explored": None}
    plain = seen.plain()
    return {name: plain.pop(name) for name in ("invariants", "states", "edges")} | {"explored": plain}


def _plain(
    certified: Certificate, nested: Certificate, worst: Bounds | None, stop: Stopping, warnings: Sequence[str] | None
) -> dict[str, Any]:
    from fsm_loop.prove.terms import FORMULAS

    return {
        "terminates": certified.terminates,
        "certificate": certified.plain(),
        "certificate_without_requests": nested.plain(),
        "chain": worst.chain if worst else None,
        "bounds": worst.plain() if worst else None,
        "not_exact": worst.not_exact() if worst else {},
        "formula": dict(FORMULAS) if worst and worst.exact_formulas else None,
        "interrupt": {"ends_at_once": stop.at_once, "states": stop.states, "breaks": list(stop.breaks)},
        "warnings": list(warnings or ()),
    }
