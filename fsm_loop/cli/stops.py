"""Why a command cannot go on: one sentence, and the exit status that goes with it."""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path

from fsm_loop.errors import ConfigError, FsmLoopError, MessageError, ModelError, ToolError, TrailError


class Status(IntEnum):
    """What the command's exit status says."""

    COMPLETED = 0
    FAILED = 1
    USAGE = 2
    CUT_SHORT = 3
    INTERRUPTED = 130


STATUS_OF = {
    "completed": Status.COMPLETED,
    "failed": Status.FAILED,
    "partial": Status.CUT_SHORT,
    "exhausted": Status.CUT_SHORT,
    "refused": Status.CUT_SHORT,
    "interrupted": Status.INTERRUPTED,
}


class Stop(Exception):  # noqa: N818  # it stops the command; it is no fault of the command's
    """The command cannot go on."""

    def __init__(self, sentence: str, status: Status = Status.USAGE) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.status = status


def stop_of(error: Exception) -> Stop:
    """The error as the one sentence that a user of the command is told."""
    match error:
        case Stop():
            return error
        case ModelError(fault=fault):
            return Stop(fault.sentence, Status.FAILED)
        case ConfigError() | MessageError() | ToolError() | TrailError():  # something that the user has given
            return Stop(str(error))
        case FsmLoopError():
            return Stop(str(error), Status.FAILED)
        case _:
            words = " ".join(f"{type(error).__name__}: {error}".split())
            return Stop(f"a fault of fsm-loop itself: {words}{_where(error)}", Status.FAILED)


def _where(error: BaseException) -> str:
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return "" if at is None else f" ({Path(at.tb_frame.f_code.co_filename).name}, line {at.tb_lineno})"
