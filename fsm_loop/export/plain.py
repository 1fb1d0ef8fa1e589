"""A page as JSON: the outline that every exporter reads, for programs of others."""

from __future__ import annotations

import json

import attrs

from fsm_loop.export.model import Outline


def as_json(outline: Outline) -> str:
    """States, events, rows, counters and settings, in the order of the page."""
    return json.dumps(attrs.asdict(outline), indent=2, ensure_ascii=False) + "\n"
