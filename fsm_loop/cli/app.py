"""The commands and their options. What goes wrong in one is told here, in one sentence and without a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

from fsm_loop.cli.cases import cases
from fsm_loop.cli.check import check
from fsm_loop.cli.diagram import diagram
from fsm_loop.cli.options import Provider, RunOptions
from fsm_loop.cli.stops import Status, Stop, stop_of
from fsm_loop.cli.trail import trail as trails
from fsm_loop.cli.tune import tune
from fsm_loop.errors import FsmLoopError

# The library's own word for a wrong use: what a bad parameter is one of.
UsageError: type[Exception] = typer.BadParameter.__bases__[0]

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
app.add_typer(cases, name="cases")
app.add_typer(trails, name="trail")
app.command()(check)
app.command()(diagram)
app.command()(tune)


def run_command(arguments: Sequence[str] | None = None) -> int:
    """Run one command to its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a character that a terminal does not know is no reason to stop
    try:
        status = app(args=None if arguments is None else list(arguments), prog_name="fsm-loop", standalone_mode=False)
    except UsageError as error:
        return _told(_sentence(error), Status.USAGE)
    except (Stop, FsmLoopError) as error:
        stop = stop_of(error)
        return _told(stop.sentence, stop.status)
    except (KeyboardInterrupt, typer.Abort):
        return _told("interrupted", Status.INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains when it flushes at its end
        return Status.FAILED
    return int(status or 0)


def _told(sentence: str, status: int) -> int:
    print(f"fsm-loop: {sentence}", file=sys.stderr)
    return int(status)


def _sentence(error: Exception) -> str:
    words = error.format_message() if hasattr(error, "format_message") else str(error)
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "fsm-loop"
    return f"{words.strip().rstrip('.')}; see `{command} --help`"


@app.callback(invoke_without_command=True)
def fsm_loop(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version, and stop.")] = False,
) -> int:
    """An agent's turn as one explicit finite-state machine."""
    if version:
        print(f"fsm-loop {metadata.version('fsm-loop')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help(), file=sys.stderr)
        raise typer.Exit(Status.USAGE)
    return 0


@app.command()
def run(
    *,
    prompt: Annotated[str, typer.Argument(help="What to ask; - reads it from standard input.")],
    provider: Annotated[
        Provider | None,
        typer.Option(
            help="openai: any server of that protocol; local: the embedded model. "
            "Without it: openai where a key or a base URL is given or in the environment, else local."
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="The model's name at the provider; litellm/VENDOR/NAME is asked through litellm.")
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(help="The provider's address, as in http://127.0.0.1:8080/v1.")
    ] = None,
    api_key_env: Annotated[
        str | None, typer.Option(metavar="NAME", help="The environment variable that holds the key.")
    ] = None,
    fallback: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODEL[@BASE_URL[#KEY_NAME]]",
            help="A model to fall back to; may be given several times. At another address it gets no key but "
            "the one in the environment variable KEY_NAME.",
        ),
    ] = None,
    tool: Annotated[
        list[str] | None,
        typer.Option(metavar="MODULE:FUNCTION", help="A Python function to offer; may be given several times."),
    ] = None,
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Limits and delays, as a TOML file.")] = None,
    trail: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Append every decision to this file, one JSON object a line; .db or .sqlite is SQLite."
        ),
    ] = None,
    view: Annotated[
        bool, typer.Option("--view", help="Follow the turn in a browser, at an address on this machine alone.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, and nothing else.")] = False,
    max_tokens: Annotated[
        int | None, typer.Option(metavar="N", help="The output limit that each request begins with, in tokens.")
    ] = None,
    system: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What the model is told before the prompt.")
    ] = None,
) -> int:
    """Ask a model, see the answer as it comes, and then the path of the turn through its states.

    Ctrl-C stops the turn and still prints its end; a second one leaves at once. The exit status is 0 for a completed
    turn, 1 for a failed one, 2 for a wrong use, 3 for a partial, exhausted or refused one, 130 for an interrupted one.
    """
    from fsm_loop.cli.run import run_turn

    return run_turn(
        RunOptions(
            prompt=prompt,
            provider=provider,
            model=model,
            base_url=base_url,
            api_key_env=api_key_env,
            fallbacks=tuple(fallback or ()),
            tools=tuple(tool or ()),
            config=config,
            trail=trail,
            view=view,
            as_json=as_json,
            max_tokens=max_tokens,
            system=system,
        )
    )


@app.command()
def export(
    check: Annotated[bool, typer.Option("--check", help="Write nothing; say what would change.")] = False,
    root: Annotated[Path, typer.Option(metavar="DIR", help="The root of the checkout.")] = Path(),
) -> int:
    """Write again what is generated from the page: diagrams, tables, the written machine, the schema of trails."""
    from fsm_loop import export as artefacts
    from fsm_loop.audit.records import artefacts as of_trails

    if not root.is_dir():
        raise Stop(f"--root: {root} is not a directory")
    try:
        if not check:
            for path in artefacts.write(root, more=of_trails()):
                print(path)
            return Status.COMPLETED
        difference = artefacts.check(root, more=of_trails())
    except OSError as error:
        raise Stop(f"{error.filename}: {error.strerror}", Status.FAILED) from error
    if difference:
        print(difference, end="" if difference.endswith("\n") else "\n")
        raise Stop("generated files are not current; run `fsm-loop export`", Status.FAILED)
    return Status.COMPLETED


@app.command()
def config(
    file: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="A TOML file that comes before the defaults.")
    ] = None,
) -> int:
    """Print every limit and delay in force, as a TOML file that can be read back."""
    from fsm_loop.cli.settings import settings_as_toml

    print(settings_as_toml(file), end="")
    return Status.COMPLETED
