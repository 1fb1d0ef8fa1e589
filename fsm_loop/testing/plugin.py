"""What pytest learns from this package: fixtures for tests of one's own.

pytest imports this in every run of whoever has the package, so nothing else is imported before a fixture is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from fsm_loop.testing.wire.case import Case
    from fsm_loop.testing.wire.threaded import ThreadedServer

SCALE = 0.01  # real seconds for a second of the case

Serve = Callable[..., "ThreadedServer"]


@pytest.fixture
def fault_server() -> Iterator[Serve]:
    """Call it with a case, and it is served to any client until the test is over; there may be several.

    A case is a file's path, its JSON as a dictionary, or a Case; `scale` is how many real seconds one of its seconds
    takes. The server has `base_url` for a client of OpenAI's protocols, `root_url` for one of Anthropic's, the
    `requests` that came, and the `violations` of what the case allows. Raises CaseError for what is no case.
    """
    with ExitStack() as stack:

        def serve(case: Case | Mapping[str, Any] | str | Path, *, scale: float = SCALE) -> ThreadedServer:
            from fsm_loop.testing.wire.threaded import ThreadedServer

            return stack.enter_context(ThreadedServer(_case_of(case), scale))

        yield serve


def _case_of(case: Case | Mapping[str, Any] | str | Path) -> Case:
    from fsm_loop.testing.wire.case import case_from, case_of

    if isinstance(case, str | Path):
        return case_from(Path(case))
    return case_of(case) if isinstance(case, Mapping) else case
