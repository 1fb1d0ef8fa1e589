"""What `fsm-loop check` has found, as a page for a person: the verdict, the worst case, why it ends, what to see to."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from fsm_loop.config import LoopConfig
from fsm_loop.prove import Bounds, Certificate, Explored, Stopping
from fsm_loop.prove.chances import Profile
from fsm_loop.prove.explore import FEW
from fsm_loop.prove.loops import WORD, Part
from fsm_loop.prove.odds import Odds
from fsm_loop.prove.places import Edge
from fsm_loop.prove.rank import Ranked
from fsm_loop.prove.tabled import lines_of
from fsm_loop.prove.terms import at_most
from fsm_loop.prove.warnings import lasts

WIDTH = 100  # characters


def aligned(worst: Bounds, stop: Stopping) -> Iterator[str]:
    """The worst case, a line for each number, in columns."""
    rows = lines_of(worst, stop)
    wide = [max(len(cells[place]) for cells in rows) for place in range(3)]
    for says, number, time, note in rows:
        start = f"  {says:{wide[0]}}  {number:>{wide[1]}}  {time:{wide[2]}}"
        yield from _filled(note, f"{start}  ", " " * (len(start) + 2)) if note else [start.rstrip()]


SEARCHED = (
    "The seconds of a turn, the tokens, and the waits under max_requests are exact in the table, by a search over the "
    "episodes that the requests can be spent on; no closed form gives them. They are never more than waited_s, and:"
)


def told(
    certified: Certificate, nested: Certificate, worst: Bounds | None, stop: Stopping, warnings: Sequence[str] | None
) -> Iterator[str]:
    """All of it, line by line, the most important first."""
    yield from (line for each in verdict(certified, nested, worst, stop) for line in _filled(each))
    failing = nested if certified.terminates else certified
    for loop in failing.loops:
        yield from ("", "This can be gone round for ever, row by row:", *_rows_of(loop))
    if worst is not None:
        yield from ("", _heading(worst), *aligned(worst, stop))
        yield from _filled(_pace(worst.config), "  ") if worst.exact_formulas else ()
    besides = ", even without max_requests" if failing.without else ""
    why_it_ends = f"Why it ends: each loop of the page spends what no row of it refills{besides}."
    yield f"\n{'How the loops come apart:' if failing.loops else why_it_ends}"
    yield from why(failing)
    yield from ("", *(line for each in str(stop).splitlines() for line in _filled(each)))
    if warnings is not None:
        yield from ("", "To look at:" if warnings else "Nothing to look at.")
    for sentence in warnings or ():
        yield from _filled(sentence, "  - ", "    ")
    if worst is not None and worst.exact_formulas:
        yield "\nIn the names of the config (chain: fallbacks; growths: doublings of an output limit to its ceiling):"
        yield from (line for each in worst.formula.splitlines() for line in _filled(each, "  ", " " * 18))
        yield from _filled(SEARCHED)
        yield from (line for each in at_most().splitlines() for line in _filled(each, "  ", " " * 19))


def told_of(seen: Explored | None) -> Iterator[str]:
    """What was explored, and each invariant that does not hold with its shortest trail."""
    yield ""
    if seen is None:
        yield "The invariants were not asked of this page's turns; --deep does it."
        return
    what = "This config" if seen.config.max_requests > FEW else "A small config like this one"
    holding = [name for name, violation in seen.invariants.items() if violation is None]
    sizes = f"{seen.decisions:,} decisions of the real step, {seen.states:,} states, {seen.edges:,} edges"
    broken = [violation for violation in seen.invariants.values() if violation]
    verdict = "no invariant is broken" if not broken else f"{len(broken)} NOT HELD"
    yield from _filled(f"{what} was explored, every turn of it: {sizes}; {verdict}.")
    yield from _filled(f"Held everywhere: {', '.join(holding)}.", "  ")
    for violation in broken:
        yield from ("", *str(violation).splitlines())
    if not broken:
        yield ""


def told_besides(rank: Ranked | None, profile: Profile | None, likely: Odds | None) -> Iterator[str]:
    """What z3 says of the page, and the odds where a profile was given."""
    if rank is None:
        yield "z3 was left out, for it is not installed: pip install 'fsm-loop[prove]' has it agree or not."
    else:
        yield from (line for each in str(rank).splitlines() for line in _filled(each, "", "  "))
    if likely is not None:
        yield from ("", *(f"{likely.profile.name}: {likely.profile.says}".splitlines() if likely.profile.says else ()))
        yield from str(likely).splitlines()
    elif profile is not None:
        yield from ("", "There are no odds: the turns of a page that need not end have none.")


def verdict(certified: Certificate, nested: Certificate, worst: Bounds | None, stop: Stopping) -> Iterator[str]:
    """What matters most, in a line; and the two numbers that people ask for."""
    if not certified.terminates:
        yield f"A TURN MAY GO ON FOR EVER: {_loops(certified)} not counted."
    elif not nested.terminates:
        yield f"A TURN IS BOUNDED BY max_requests ALONE: without it, {_loops(nested)} not counted."
    elif not stop.at_once:
        yield "Every turn ends, but AN INTERRUPT DOES NOT ALWAYS END IT AT ONCE."
    else:
        yield "Every turn ends, whatever the caps are."
    if worst is None:
        return
    limits = [f"{worst['llm_calls'].value:,.0f} model calls"]
    if worst["lasted_s"].value is not None:
        limits.append(lasts(worst["lasted_s"].value))
    tools = "" if worst.config.tool_timeout_s else ", and what its tools take, for they have no timeout"
    yield f"Under this config it is over after at most {' and '.join(limits)}{tools}."


def why(certified: Certificate) -> Iterator[str]:
    """How the loops come apart, the counters that pay for them first."""
    rows = [f"{len(part.rows)} row" + ("s" if len(part.rows) > 1 else "") for part in certified.parts]
    wide = max(map(len, rows), default=0)
    for number, part in zip(rows, certified.parts, strict=True):
        margin = "  " + "  " * part.depth
        yield from _filled(f"{number:>{wide}}  {_of_part(part)}", margin, margin + " " * (wide + 2))
    for each in certified.exempt:
        if each.why is WORD:
            kinds = sorted({row.partition(".")[2] for row in each.rows})
            yield from _filled(f"Left out, for words are not the loop's to make: {', '.join(kinds)}.", "  ")


def _rows_of(loop: Sequence[Edge]) -> Iterator[str]:
    for edge in loop:
        spends = f", spends {edge.row.spends.name}, which is refilled" if edge.row.spends else ""
        yield f"  {edge.row.name} -> {edge.there.state.name.lower()}{spends}"


def _of_part(part: Part) -> str:
    where = ", ".join(part.states)
    if part.spends:
        return f"{where}: {', '.join(each.name for each in part.spends)}"
    return f"{where}: nothing, for {part.exempt.why}" if part.exempt else f"{where}: NOTHING that is not refilled"


def _loops(certified: Certificate) -> str:
    number = len(certified.loops)
    return "one of its loops is" if number == 1 else f"{number} of its loops are"


def _heading(worst: Bounds) -> str:
    behind = f"{worst.chain} fallback{'s' if worst.chain > 1 else ''}" if worst.chain else "one provider"
    how = "a turn was walked to each number" if worst.exact_formulas else "as far as the page alone tells it"
    return f"The worst case with {behind}; {how}:"


def _pace(config: LoopConfig) -> str:
    tools = "no round of tools takes any time, for tools have no timeout: add what yours take"
    if config.tool_timeout_s:
        tools = f"a round of tools {config.tool_timeout_s:g} s (tool_timeout_s, for up to tool_workers at once)"
    return (
        f"Here a call lasts {config.call_deadline_s:g} s (call_deadline_s), whatever comes of it, and {tools}; "
        "the limiter, the compactor and what else the host provides answer at once."
    )


def _filled(text: str, first: str = "", rest: str | None = None) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=first if rest is None else rest,
        break_long_words=False, break_on_hyphens=False,
    ) or [first]  # fmt: skip
