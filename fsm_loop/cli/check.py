"""The command `fsm-loop check`: that every turn ends, and the worst that it can come to under a config."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fsm_loop.cli.stops import Status
from fsm_loop.config import LoopConfig

if TYPE_CHECKING:
    from fsm_loop.prove import Bound, Bounds, Certificate

MARGIN = "    "


def check(
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Limits and delays, as a TOML file.")] = None,
    chain: Annotated[int, typer.Option(metavar="N", min=0, help="How many providers stand behind the first.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else.")] = False,
) -> int:
    """Prove that every turn ends, and print the exact worst case of a config, with what to look at in it.

    Reads the page that runs, the file and the environment; asks no model. The exit status is 0 where every loop is
    counted, with the cap on requests and without it (warnings change nothing), 1 where one is not, 2 for a wrong use.
    """
    from fsm_loop.core import counters
    from fsm_loop.prove import bounds, certificate, warnings_of

    settings = LoopConfig.load(config)
    certified, nested = certificate(), certificate(without=[counters.requests])
    whole = certified.terminates and nested.terminates
    worst = bounds(settings, chain) if whole else None  # a page with a loop that is not counted has no worst case
    warnings = warnings_of(settings, chain) if whole else ()
    if as_json:
        print(json.dumps(_plain(certified, nested, worst, warnings)))
    else:
        print("\n".join(_told(certified, nested, worst, warnings)))
    return Status.COMPLETED if whole else Status.FAILED


def _plain(certified: Certificate, nested: Certificate, worst: Bounds | None, warnings: Sequence[str]) -> object:
    from fsm_loop.prove.bounds import TERMS

    return {
        "terminates": certified.terminates,
        "certificate": certified.plain(),
        "certificate_without_requests": nested.plain(),
        "chain": worst.chain if worst else None,
        "bounds": worst.plain() if worst else None,
        "not_known": {each.name: each.why_not for each in worst.all if each.value is None} if worst else {},
        "formula": dict(TERMS),
        "warnings": list(warnings),
    }


def _told(certified: Certificate, nested: Certificate, worst: Bounds | None, warnings: Sequence[str]) -> Iterator[str]:
    yield f"{certified}\n\n{nested}"
    if worst is None:
        return
    yield from ("", _heading(worst.chain), *(f"{MARGIN}{each}{_time(each)}" for each in worst.all))
    yield "\nModel calls without max_requests, in the names of the config (chain is the number of fallbacks):"
    yield from (f"{MARGIN}{line}" for line in worst.formula.splitlines())
    yield "\nTo look at:" if warnings else "\nNothing to look at."
    yield from (f"  - {sentence}" for sentence in warnings)


def _heading(chain: int) -> str:
    behind = f"{chain} provider{'s' if chain > 1 else ''} behind the first" if chain else "one provider"
    return f"The worst case, exactly, with {behind}; each number is reached by a turn that was walked:"


def _time(bound: Bound) -> str:
    from fsm_loop.prove.warnings import lasts

    return f" ({lasts(bound.value)})" if bound.unit == "s" and bound.value is not None else ""
