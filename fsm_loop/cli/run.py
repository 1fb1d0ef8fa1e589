"""`fsm-loop run`: one turn, followed while it runs, told when it is over."""

from __future__ import annotations

import asyncio
import os
import sys
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from fsm_loop.audit.jsonl import JsonLines
from fsm_loop.audit.sink import Sink
from fsm_loop.audit.sqlite import SqliteTrails
from fsm_loop.cli.ending import as_json, no_turn, summary
from fsm_loop.cli.leaving import Leaving
from fsm_loop.cli.models import models_for, nobody_at
from fsm_loop.cli.options import RunOptions, prompt_of, tools_of
from fsm_loop.cli.outlet import Outlet, outlet
from fsm_loop.cli.stops import STATUS_OF, Status, Stop, stop_of
from fsm_loop.cli.view import view_on
from fsm_loop.config import LoopConfig
from fsm_loop.drive.notes import Finished
from fsm_loop.drive.result import TurnResult
from fsm_loop.loop import Loop
from fsm_loop.tools.functions import FunctionTools

STORES = (".db", ".sqlite", ".sqlite3")  # how the name of a trail that is kept in SQLite ends


def run_turn(options: RunOptions) -> int:
    """Run the turn that was asked for; the command's exit status."""
    with outlet(as_json=options.as_json) as out, Leaving() as leaving:
        try:
            status = _run(options, out, leaving)
        except KeyboardInterrupt:
            why = "the turn was interrupted before it began"
            _no_turn(out, "interrupted", why)
            raise Stop(why, Status.INTERRUPTED) from None
        except BrokenPipeError:
            raise
        except Exception as error:
            stop = stop_of(error)
            if stop.status is not Status.USAGE:
                _no_turn(out, "failed", stop.sentence)
            raise stop from error
    leaving.leave(status)
    return status


def _run(options: RunOptions, out: Outlet, leaving: Leaving) -> int:
    config = _config(options)
    tools = FunctionTools(tools_of(options))
    prompt = prompt_of(options)
    with _trail(options.trail) as trail, _live(options, out) as live, models_for(options, out.tell) as models:
        why = nobody_at(options)
        if why:
            out.tell(f"{why}; it is asked once, and nothing is retried")
            config = attrs.evolve(config, api_max_retries=0, recoveries=0)
        loop = Loop(
            model=models[0],
            fallbacks=models[1:],
            tools=tools,
            config=config,
            system=options.system,
            watchers=[each for each in (trail, live) if each is not None],
        )
        status = asyncio.run(_follow(loop, prompt, out, leaving))
        leaving.closed()
        return status


async def _follow(loop: Loop, prompt: str, out: Outlet, leaving: Leaving) -> int:
    """Show the turn while it runs, and tell its end at once."""
    status = Status.FAILED
    with view_on(out) as view:
        async with loop.stream(prompt) as turn:
            leaving.stops(turn)
            async for note in turn:
                view.saw(note)
                if isinstance(note, Finished):
                    status = STATUS_OF[note.result.outcome]
                    view.close()
                    _tell(note.result, out)
                    leaving.told(status)
    await loop.aclose()
    return status


def _tell(result: TurnResult, out: Outlet) -> None:
    """The answer to standard output; the path and the end to standard error."""
    if out.as_json:
        out.answer(as_json(result))
    else:
        out.answer(result.text)
        out.show(*summary(result))
    for fault in result.trail_faults:
        out.tell(f"the trail ended early: {fault}")


def _no_turn(out: Outlet, outcome: str, why: str) -> None:
    if out.as_json and not out.answered:
        out.answer(no_turn(outcome, why))


def _config(options: RunOptions) -> LoopConfig:
    if options.max_tokens is None:
        return LoopConfig.load(options.config)
    return LoopConfig.load(options.config, max_output_tokens=options.max_tokens)


@contextmanager
def _trail(path: Path | None) -> Iterator[Sink | None]:
    if path is None:
        yield None
        return
    try:
        trail = SqliteTrails(path) if path.suffix in STORES else JsonLines(path)
    except OSError as error:
        raise Stop(f"--trail: {path} cannot be written: {error.strerror}") from error
    with trail:
        yield trail


@contextmanager
def _live(options: RunOptions, out: Outlet) -> Iterator[Sink | None]:
    """The page that follows the turn, opened in a browser where there is a screen for one."""
    if not options.view:
        yield None
        return
    from fsm_loop.web.live import Live

    try:
        live = Live(content="full")
    except OSError as error:
        raise Stop(f"--view: no port of this machine could be opened: {error.strerror}", Status.FAILED) from error
    with live:
        out.tell(f"follow the turn at {live.url}")
        if sys.platform in ("darwin", "win32") or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
            webbrowser.open(live.url)
        yield live
