"""What is written from the page: diagrams, the specification, blocks of the README. One file writes one artefact.

`artefacts` makes the texts, `write` keeps them, `check` says what is out of date. Any Page will do.
"""

from fsm_loop.export.kept import artefacts, check, write
from fsm_loop.export.mermaid import full, overview
from fsm_loop.export.model import Outline, outline

__all__ = ["Outline", "artefacts", "check", "full", "outline", "overview", "write"]
