"""The trade-off of `fsm-loop tune` as a small SVG: the mean wait to the right, the goal's figure upwards."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from math import ceil, floor, log10
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fsm_loop.prove.tune import Tried, Tuned

WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 90, 30, 56, 60
STEPS = 5  # on an axis, about
INK, FAINT, GOOD, BAD = "#222222", "#dddddd", "#1b7f4b", "#9a9a9a"


def plotted(found: Tuned) -> str:
    """All that was tried as points, the config as it is and the best by name, the goal as a line."""
    return "\n".join(_drawn(found)) + "\n"


def _drawn(found: Tuned) -> Iterator[str]:
    waits = [each.found.waited_s for each in found.tried]
    figures = [*(each.figure for each in found.tried), found.goal.number]
    across, up = _Scale(waits, LEFT, WIDTH - RIGHT), _Scale(figures, HEIGHT - BOTTOM, TOP)

    def at(each: Tried) -> tuple[float, float]:
        return across(each.found.waited_s), up(each.figure)

    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'font-family="sans-serif" font-size="12" fill="{INK}">'
    )
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
    title = f"{found.profile.name}: {found.goal.text}" + ("" if found.reached else " (not reached)")
    yield f'<text x="{LEFT}" y="24" font-size="15">{escape(title)}</text>'
    for value in across.ticks():
        x = across(value)
        yield f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}" stroke="{FAINT}"/>'
        yield f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{value:.4g}</text>'
    for value in up.ticks():
        yield f'<line x1="{LEFT}" y1="{up(value):.1f}" x2="{WIDTH - RIGHT}" y2="{up(value):.1f}" stroke="{FAINT}"/>'
        yield f'<text x="{LEFT - 8}" y="{up(value) + 4:.1f}" text-anchor="end">{value:.6g}</text>'
    middle, foot = (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 16
    yield f'<text x="{middle}" y="{foot}" text-anchor="middle">mean wait of a turn, in seconds</text>'
    figure = found.goal.text.partition(">")[0].partition("<")[0].strip()
    yield f'<text x="{LEFT - 70}" y="{TOP - 12}">{escape(figure)}</text>'
    goal = up(found.goal.number)
    line = f'x1="{LEFT}" y1="{goal:.1f}" x2="{WIDTH - RIGHT}" y2="{goal:.1f}"'
    yield f'<line {line} stroke="{GOOD}" stroke-dasharray="6 4"/>'
    yield f'<text x="{LEFT + 6}" y="{goal - 5:.1f}" fill="{GOOD}">the goal</text>'
    for each in found.tried:
        x, y = at(each)
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{GOOD if each.reaches else BAD}" fill-opacity="0.7"/>'
    for each, name, below in ((found.start, "as it is", 20), (found.best, "best", -12)):
        if name == "best" or each is not found.best:
            x, y = at(each)
            side = "end" if x > (LEFT + WIDTH - RIGHT) / 2 else "start"
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="none" stroke="{INK}" stroke-width="1.5"/>'
            yield f'<text x="{x:.1f}" y="{y + below:.1f}" text-anchor="{side}">{name}</text>'
    yield "</svg>"


class _Scale:
    """From values to places on the paper, with a little room at both ends."""

    def __init__(self, values: list[float], start: float, end: float) -> None:
        low, high = min(values), max(values)
        room = (high - low or abs(high) or 1.0) * 0.06
        self.low, self.high = low - room, high + room
        self.start, self.end = start, end

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Round values within the scale, about as many as STEPS."""
        rough = (self.high - self.low) / STEPS
        power = 10.0 ** floor(log10(rough))
        step = next(power * each for each in (1, 2, 5, 10) if power * each >= rough)
        return [number * step for number in range(ceil(self.low / step), floor(self.high / step) + 1)]
