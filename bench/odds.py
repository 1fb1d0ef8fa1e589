"""How far the exact odds are from drawn turns, in standard errors: five profiles, so many turns each.

    python bench/odds.py [turns]

Prints each figure, the exact one and the drawn one, and how many standard errors lie between them. Ends that fewer
than twenty of these turns are expected to come to are taken together, for a count that small has no normal error.
"""

from __future__ import annotations

import random
import sys
import time
from math import sqrt

from fsm_loop import LoopConfig
from fsm_loop.prove.chances import PROFILES, profile_of
from fsm_loop.prove.odds import odds
from fsm_loop.testing.drawn import FIGURES, drawn

SEED = 20_261_201
FEW = 20


def main() -> None:
    """Compare, and say where they are furthest apart."""
    turns = int(sys.argv[1]) if sys.argv[1:] else 200_000
    worst = 0.0
    for name in PROFILES:
        profile, chain = profile_of(name), int(name == "outage")
        began = time.perf_counter()
        exact = odds(profile, chain=chain)
        drawn_from = time.perf_counter()
        sample = drawn(profile, random.Random(SEED).random, turns, LoopConfig(), chain)  # noqa: S311  # a seed, no secret
        took = time.perf_counter() - drawn_from
        print(f"{name} (chain {chain}): exact in {drawn_from - began:.1f} s, {turns:,} turns in {took:.1f} s")
        rows = [(figure, getattr(exact, figure), *sample.mean(figure)) for figure in FIGURES]
        often = {ending: chance for ending, chance in exact.ends.items() if chance * turns >= FEW}
        seen = {ending: sample.ends.get(ending, 0) / turns for ending in often}
        rows += [(" ".join(ending), p, seen[ending], sqrt(p * (1 - p) / turns)) for ending, p in often.items()]
        rest = max(0.0, 1 - sum(often.values()))
        rows.append(("all others", rest, 1 - sum(seen.values()), max(sqrt(rest * (1 - rest) / turns), 1 / turns)))
        for figure, expected, found, error in rows:
            apart = abs(expected - found) / error if error else 0.0
            worst = max(worst, apart)
            print(f"  {figure:28} {expected:14.6f} {found:14.6f} {apart:6.2f} standard errors")
    print(f"furthest apart: {worst:.2f} standard errors")


if __name__ == "__main__":
    main()
