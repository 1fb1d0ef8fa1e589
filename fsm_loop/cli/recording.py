"""The command `fsm-loop cases record`: live traffic becomes cases."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from fsm_loop.cli.options import check_url, shown_url
from fsm_loop.cli.stops import Status, Stop


def record(
    base_url: Annotated[str, typer.Option(metavar="URL", help="The server, as its client would be given it.")],
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="Where to listen on this machine; 0 is any free port.")
    ] = 0,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="The folder that the cases are written to.")
    ] = Path("recorded"),
    keep_text: Annotated[
        bool, typer.Option("--keep-text", help="Keep what was said; credentials are replaced all the same.")
    ] = False,
) -> int:
    """Pass everything on to a server as it comes, and write down each turn as a case, until Ctrl-C.

    The cases hold no credential, and no text that anybody wrote: all is invented, in the same shape. They can be played
    at once with `fsm-loop cases DIR`; the field `notes` says what is still to be completed by a person.
    """
    check_url(base_url, "--base-url")
    if output.exists() and not output.is_dir():
        raise Stop(f"--output: {output} is not a directory")
    try:
        asyncio.run(_record(base_url, port, output, keep_text=keep_text))
    except ModuleNotFoundError as error:
        raise Stop(f"recording needs {error.name}; install it with: pip install 'fsm-loop[http]'") from error
    except KeyboardInterrupt:  # where signals cannot be handled
        pass
    except OSError as error:
        raise Stop(f"--port {port}: {error.strerror}") from error
    return Status.COMPLETED


async def _record(base_url: str, port: int, folder: Path, *, keep_text: bool) -> None:
    from fsm_loop.testing.wire.recorder import Recorder

    over = asyncio.Event()
    with suppress(NotImplementedError):
        for each in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(each, over.set)
    async with Recorder(base_url, folder, port, keep_text, _tell) as recorder:
        _tell(f"recording what {shown_url(base_url)} says; give your client {recorder.base_url} in its place")
        _tell("Ctrl-C ends it")
        await over.wait()
    count = len({*recorder.written})
    _tell(f"{count} case{'' if count == 1 else 's'} written to {folder}" if count else "nothing was recorded")


def _tell(line: str) -> None:
    from fsm_loop.cli.outlet import visible

    print(visible(line), flush=True)
