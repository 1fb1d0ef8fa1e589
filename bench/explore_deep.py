"""The default config, explored in parts: states, edges, seconds and peak memory. Run it by hand; it takes minutes.

python bench/explore_deep.py [number of fallbacks]
"""

from __future__ import annotations

import resource
import sys
import time

from fsm_loop.config import LoopConfig
from fsm_loop.prove.explore import explored

STEP = 250_000  # states between two lines, where rich is not there


def main(chain: int) -> None:
    """One exploration, with a bar where rich is there."""
    began = time.perf_counter()
    try:
        from rich.progress import Progress
    except ImportError:
        done = explored(
            LoopConfig(), chain, told=lambda what, n, known: n % STEP or print(f"{what}: {n:,} of {known:,}")
        )
    else:
        with Progress() as bar:
            tasks = {}

            def told(what: str, n: int, known: int) -> None:
                task = tasks.setdefault(what, bar.add_task(what[:60], total=None)) if what not in tasks else tasks[what]
                bar.update(task, completed=n, total=known)

            done = explored(LoopConfig(), chain, told=told)
    print(done)
    for part in done.parts:
        print(f"  {part.states:>12,} states {part.edges:>14,} edges  {', '.join(part.counters)}")
    peak_gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(f"{time.perf_counter() - began:,.0f} s, peak memory {peak_gb:.2f} GB")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
