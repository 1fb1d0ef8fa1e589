"""The command `fsm-loop check`: that every turn ends, and the worst that it can come to under a config."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from fsm_loop.cli.stops import Status
from fsm_loop.config import LoopConfig

WIDTH = 4  # the margin of what stands below a heading


def check(
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Limits and delays, as a TOML file.")] = None,
    chain: Annotated[int, typer.Option(metavar="N", min=0, help="How many providers stand behind the first.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else.")] = False,
) -> int:
    """Prove that every turn ends, and print the exact worst case of a config, with what to look at in it.

    Reads the page that runs, the file and the environment; asks no model. The exit status is 0 where every loop is
    counted (warnings change nothing), 1 where one is not, 2 for a wrong use.
    """
    from fsm_loop.core import counters
    from fsm_loop.prove import bounds, certificate, formula
    from fsm_loop.prove.bounds import TERMS
    from fsm_loop.prove.warnings import lasts, warnings_of

    settings = LoopConfig.load(config)
    certified, nested = certificate(), certificate(without=[counters.requests])
    worst = bounds(settings, chain)
    warnings = warnings_of(settings, chain)
    if as_json:
        told = {
            "terminates": certified.terminates,
            "chain": chain,
            "certificate": certified.plain(),
            "certificate_without_requests": nested.plain(),
            "bounds": worst.plain(),
            "not_known": {each.name: each.why_not for each in worst.all if each.value is None},
            "formula": dict(TERMS),
            "warnings": list(warnings),
        }
        print(json.dumps(told))
        return Status.COMPLETED if certified.terminates else Status.FAILED
    print(certified)
    print(f"\n{nested}")
    behind = f"{chain} provider{'s' if chain > 1 else ''} behind the first" if chain else "one provider"
    print(f"\nThe worst case, exactly, with {behind}; each number is reached by a turn that was walked:")
    for each in worst.all:
        time = f" ({lasts(each.value)})" if each.unit == "s" and each.value is not None else ""
        print(f"{'':{WIDTH}}{each}{time}")
    print("\nModel calls without max_requests, in the names of the config (chain is the number of fallbacks):")
    for line in formula().splitlines():
        print(f"{'':{WIDTH}}{line}")
    print("\nTo look at:" if warnings else "\nNothing to look at.")
    for sentence in warnings:
        print(f"  - {sentence}")
    return Status.COMPLETED if certified.terminates else Status.FAILED
