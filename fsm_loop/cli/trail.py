"""The commands `fsm-loop trail ...`: what can be done with a trail once it is written."""

from __future__ import annotations

import typer

from fsm_loop.cli.trail_replay import replay
from fsm_loop.cli.trail_show import show
from fsm_loop.cli.trail_stats import stats
from fsm_loop.cli.trail_verify import verify
from fsm_loop.cli.trail_view import view
from fsm_loop.cli.trail_why import why

trail = typer.Typer(
    rich_markup_mode=None, pretty_exceptions_enable=False, help="Read trails: verify, explain, show, replay, count."
)
trail.command()(verify)
trail.command()(why)
trail.command()(show)
trail.command()(stats)
trail.command()(view)
trail.command()(replay)


@trail.callback()
def _several() -> None:
    """Read trails: verify, explain, show, replay, count."""
