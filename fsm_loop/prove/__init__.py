"""What can be proved of a page and of a config: that every turn ends, and how long it can be. Reads the core alone."""

from fsm_loop.prove.bounds import Bound, Bounds, bounds
from fsm_loop.prove.explore import Explored, Violation, explored, small
from fsm_loop.prove.loops import Certificate, certificate
from fsm_loop.prove.stopping import Stopping, stopping
from fsm_loop.prove.terms import formula
from fsm_loop.prove.warnings import warnings_of

__all__ = [
    "Bound",
    "Bounds",
    "Certificate",
    "Explored",
    "Stopping",
    "Violation",
    "bounds",
    "certificate",
    "explored",
    "formula",
    "small",
    "stopping",
    "warnings_of",
]
