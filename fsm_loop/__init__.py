"""An agent's turn as one explicit finite-state machine: what it did, why it stopped, and that it cannot run for ever.

The door: everything that a user of the package needs is here; nothing is defined here. What is not listed may move.
"""

from fsm_loop.config import LoopConfig
from fsm_loop.core.effects import Reconnecting, Withdrawn
from fsm_loop.core.faults import Fault, FaultKind
from fsm_loop.core.machine import PAGE, State
from fsm_loop.core.messages import Usage
from fsm_loop.core.record import Spent
from fsm_loop.core.step import Decision, Turn, begin_turn, step
from fsm_loop.drive.notes import Finished, StateChanged, ToolFinished, ToolStarted
from fsm_loop.drive.result import TurnResult
from fsm_loop.errors import (
    ConfigError,
    FsmLoopError,
    MessageError,
    MissingExtra,
    ModelError,
    PageError,
    ToolError,
    TurnEnded,
    TurnFailed,
    UnexpectedEvent,
)
from fsm_loop.limiter import SlidingWindow
from fsm_loop.loop import Loop, RunningTurn
from fsm_loop.ports import ReasoningDelta, TextDelta

__all__ = [
    "PAGE",
    "ConfigError",
    "Decision",
    "Fault",
    "FaultKind",
    "Finished",
    "FsmLoopError",
    "Loop",
    "LoopConfig",
    "MessageError",
    "MissingExtra",
    "ModelError",
    "PageError",
    "ReasoningDelta",
    "Reconnecting",
    "RunningTurn",
    "SlidingWindow",
    "Spent",
    "State",
    "StateChanged",
    "TextDelta",
    "ToolError",
    "ToolFinished",
    "ToolStarted",
    "Turn",
    "TurnEnded",
    "TurnFailed",
    "TurnResult",
    "UnexpectedEvent",
    "Usage",
    "Withdrawn",
    "begin_turn",
    "step",
]
