"""What the tests of the command share."""

from __future__ import annotations

import pytest

from fsm_loop.cli import main


@pytest.fixture
def command(capsys):
    """The command in this process: its status, what it printed, and what it said beside that."""

    def run(*arguments):
        status = main([*map(str, arguments)])
        return (status, *capsys.readouterr())

    return run
