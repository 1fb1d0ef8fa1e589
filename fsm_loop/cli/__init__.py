"""The command `fsm-loop`. Its parts, typer and rich, are imported here and nowhere else in the package."""

from __future__ import annotations

import sys
from collections.abc import Sequence

PARTS = ("typer", "rich")
HOW = "the command needs the extra `cli`; install it with: pip install 'fsm-loop[cli]'"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, or with the process's own; its exit status."""
    try:
        from fsm_loop.cli.app import run_command
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in PARTS:
            raise
        print(f"fsm-loop: {error.name} is not installed: {HOW}", file=sys.stderr)
        return 1
    return run_command(arguments)
