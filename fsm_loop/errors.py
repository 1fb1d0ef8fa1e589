"""Every error of the package; its base is what a caller would catch anyway.

    FsmLoopError
    +-- ConfigError (ValueError)          a limit or a delay is not one
    +-- PageError (ValueError)            a page that would not be safe to run
    +-- MessageError (ValueError)         messages that no provider would accept
    +-- ToolError (TypeError)             a function that cannot be offered as a tool
    +-- MissingExtra (ImportError)        something optional is not installed
    +-- UnexpectedEvent (RuntimeError)    a driver reported what the page does not await
    +-- TrailError (ValueError)           a trail that cannot be read
    +-- TurnEnded (RuntimeError)          a word to a turn that is over
    +-- TrailFailed                       a watcher cannot keep its trail, and the turn must not go on
    +-- ModelError                        an adapter says what went wrong, as a fault
    +-- TurnFailed                        `TurnResult.raise_for_outcome` was asked to raise

A provider's failure is not an error here: it comes back as an event, and the page decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fsm_loop.core.faults import Fault
    from fsm_loop.drive.result import TurnResult


class FsmLoopError(Exception):
    """Something that this package refuses or cannot do."""


class ConfigError(FsmLoopError, ValueError):
    """A value of the configuration is not valid; the text names it and says what is allowed."""


class PageError(FsmLoopError, ValueError):
    """A page of rows does not hold together; the text names the row and the rule."""


class MessageError(FsmLoopError, ValueError):
    """The messages given cannot be sent to any provider; the text names the first that is wrong."""


class ToolError(FsmLoopError, TypeError):
    """A function cannot be offered as a tool; the text says which and why."""


class MissingExtra(FsmLoopError, ImportError):  # noqa: N818  # "missing extra" is what it is; "Error" adds no word
    """An optional part is not installed; the text says how to install it."""


class UnexpectedEvent(FsmLoopError, RuntimeError):  # noqa: N818  # named for the event, as the page names them
    """A driver reported an event that the turn's state does not await: the driver's fault."""


class TurnEnded(FsmLoopError, RuntimeError):  # noqa: N818  # a statement about the turn
    """The turn is over, so it can be told nothing more."""


class TrailError(FsmLoopError, ValueError):
    """A trail cannot be read; the text names the file, the line and what is wrong with it."""


class TrailFailed(FsmLoopError):  # noqa: N818  # a statement about the trail
    """A watcher raises it where it cannot keep its trail and the turn must not go on: the turn ends as failed."""


class ModelError(FsmLoopError):
    """An adapter's model failed; `fault` says how, in the page's words."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


class TurnFailed(FsmLoopError):  # noqa: N818  # a statement about the turn
    """The turn did not end as completed; `result` holds all that is known of it."""

    def __init__(self, result: TurnResult) -> None:
        super().__init__(result.why)
        self.result = result
