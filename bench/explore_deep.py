"""The default config, explored in parts: states, edges, seconds and peak memory. Run it by hand; it takes minutes.

python bench/explore_deep.py [number of fallbacks]
"""

from __future__ import annotations

import resource
import sys
import time

from fsm_loop.cli.exploring import explored_with_bar
from fsm_loop.config import LoopConfig
from fsm_loop.core.machine import PAGE


def main(chain: int) -> None:
    """One exploration, with a bar where somebody watches."""
    began = time.perf_counter()
    done = explored_with_bar(LoopConfig(), chain, PAGE)
    print(done)
    for part in done.parts:
        print(f"  {part.states:>12,} states {part.edges:>14,} edges  {', '.join(part.counters)}")
    peak_gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(f"{time.perf_counter() - began:,.0f} s, peak memory {peak_gb:.2f} GB")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
