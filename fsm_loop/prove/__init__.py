"""What can be proved of a page and of a config: that every turn ends, and how long it can be. Reads the core alone."""

from fsm_loop.prove.bounds import Bound, Bounds, bounds, formula
from fsm_loop.prove.loops import Certificate, certificate
from fsm_loop.prove.warnings import warnings_of

__all__ = ["Bound", "Bounds", "Certificate", "bounds", "certificate", "formula", "warnings_of"]
