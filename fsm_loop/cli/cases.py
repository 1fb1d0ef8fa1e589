"""The command `fsm-loop cases`: cases of the wire, each played against the real loop, and judged."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from fsm_loop.cli.recording import record
from fsm_loop.cli.stops import Status, Stop

if TYPE_CHECKING:
    from fsm_loop.testing.wire.case import Case
    from fsm_loop.testing.wire.report import Report

SHOWN_CHARS = 500  # of one difference


class Way(StrEnum):
    """The ways to the wire on which a case is played."""

    HTTP = "http"
    SDK = "sdk"
    BOTH = "both"

    @property
    def ways(self) -> tuple[str, ...]:
        """Each of them by itself."""
        return ("http", "sdk") if self is Way.BOTH else (self.value,)


class PlaysByDefault(TyperGroup):
    """`fsm-loop cases DIR` plays; what else there is has a name."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The arguments, with the name of the command that they are for."""
        return super().parse_args(ctx, args if args[:1] == ["record"] else ["play", *args])


cases = typer.Typer(cls=PlaysByDefault, rich_markup_mode=None, pretty_exceptions_enable=False)
cases.command()(record)


@cases.command()
def play(
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="The folder that holds the cases, one file each.")
    ] = None,
    case: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Only this case; may be given several times.")
    ] = None,
    way: Annotated[
        Way,
        typer.Option(help="How to the wire: http is built in, sdk goes over the client of the protocol's vendor."),
    ] = Way.BOTH,
    view: Annotated[
        bool, typer.Option("--view", help="Show what the wire does beside what the loop did, request by request.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON array, and nothing else.")] = False,
    as_schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of a case, and stop.")] = False,
) -> int:
    """Play cases of what providers do on the wire, over real HTTP and in virtual time, and say what differs.

    One line for each case, with the differences and the path through the rows of the page below those that fail. The
    exit status is 0 where all are as expected, 1 where one is not, 2 for a wrong use. `fsm-loop cases record` makes
    cases of live traffic; a folder of that name is given as ./record.
    """
    from fsm_loop.testing.wire.case import schema
    from fsm_loop.testing.wire.report import tried

    if as_schema:
        print(schema(), end="")
        return Status.COMPLETED
    if folder is None:
        raise Stop("give the folder that holds the cases, as in `fsm-loop cases DIR`")
    reports = []
    for each in _chosen(folder, case or []):
        reports.append(tried(each, way.ways))
        if not as_json:
            _show(reports[-1])
            if view:
                _view(reports[-1])
    if as_json:
        print(json.dumps([report.plain() for report in reports]))
    else:
        print(_sum(reports))
    return Status.FAILED if any(report.ok is False for report in reports) else Status.COMPLETED


def _chosen(folder: Path, wanted: Sequence[str]) -> Sequence[Case]:
    from fsm_loop.testing.wire.case import CaseError, cases_in

    try:
        found = cases_in(folder)
    except CaseError as error:
        raise Stop(str(error)) from error
    known = {each.id: each for each in found}
    for name in wanted:
        if name not in known:
            raise Stop(f"--case: there is no case {name!r} in {folder}")
    return [known[name] for name in wanted] if wanted else found


def _show(report: Report) -> None:
    from fsm_loop.cli.ending import compressed
    from fsm_loop.cli.outlet import visible

    case, played = report.case, report.played
    if played is None:
        print(f"skip  {case.id}: {report.skipped}")
        return
    calls = "1 call" if played.llm_calls == 1 else f"{played.llm_calls} calls"
    runs = (1 + len(case.variants)) * len(report.ways)
    words = [played.outcome or "no end", calls, f"{played.seconds:.1f} s", *([f"{runs} runs"] if runs > 1 else [])]
    print(f"{'ok  ' if report.ok else 'FAIL'}  {case.id}: {', '.join(words)}", flush=True)
    for difference in report.differences:
        print(f"        {visible(difference[:SHOWN_CHARS])}")
    for path in report.paths:
        print(f"        path: {compressed(path)}")


def _view(report: Report) -> None:
    from fsm_loop.cli.cases_view import shown

    if report.played is not None:
        print(*(f"  {line}".rstrip() for line in shown(report.case, report.played, report.differences)), "", sep="\n")


def _sum(reports: Sequence[Report]) -> str:
    counts = Counter(report.ok for report in reports)
    words = [f"{counts[True]} as expected", f"{counts[False]} not"]
    reasons = Counter(report.skipped for report in reports if report.skipped)
    words += [f"{times} skipped ({reason})" for reason, times in reasons.items()]
    return f"{len(reports)} cases: {', '.join(words)}"
