"""The limits and delays in force, for a person to read and for `--config` to read back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from fsm_loop.config import LoopConfig


def settings_as_toml(path: Path | None) -> str:
    """Every setting with its value, unit, environment variables and sentence, as the file that sets it so."""
    return "\n".join(_lines(LoopConfig.load(path)))


def _lines(config: LoopConfig) -> Iterator[str]:
    yield "[fsm_loop]"
    for row in LoopConfig.describe():
        yield f"# {row.sentence} ({row.unit}; {', '.join(row.env)})"
        yield f"{row.name} = {_value(getattr(config, row.name))}"
    yield ""


def _value(value: object) -> str:
    """The value as the file writes it: TOML has no word for none, so it is a text."""
    if value is None:
        return '"none"'
    return f"[{', '.join(map(repr, value))}]" if isinstance(value, tuple) else repr(value)
