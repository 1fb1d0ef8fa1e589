"""What a thousand turns leave behind, with faults and interrupts: connections, tasks, memory, warnings.

    python bench/connections.py [turns]

On both ways to the wire, all protocols, asyncio and trio, against a server on loopback that resets, stalls, drips,
refuses and breaks off. Memory is what Python holds at the end and did not hold after a third of the turns, as
tracemalloc counts it, with the garbage collected.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fsm_loop.testing.wire.connect import HTTP, SDK
from tests.wire.streams import PROTOCOLS
from tests.wire.under_fire import fire


def main() -> None:
    """Fire, and print a line for each way."""
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print(f"{turns} turns each; open connections: most at once, kept alive at the end, left once all was closed")
    print(f"{'protocol':18} {'way':5} {'loop':8}  most  kept  left  tasks  grown kB  warnings       s")
    for backend in ("asyncio", "trio"):
        for way in (HTTP, SDK):
            for protocol in PROTOCOLS:
                began = time.monotonic()
                left = fire(protocol, way, backend, turns)
                took_s = time.monotonic() - began
                counts = f"{left.most_connections:5} {left.kept_connections:5} {left.connections:5} {left.tasks:6}"
                rest = f"{left.grown_bytes / 1000:9.1f} {len(left.complaints):9} {took_s:7.1f}"
                print(f"{protocol:18} {way:5} {backend:8} {counts} {rest}")
                print(f"    ends: {left.outcomes}\n    deeds: {left.deeds}", flush=True)
                for each in left.complaints[:3]:
                    print(f"    {each}")


if __name__ == "__main__":
    main()
