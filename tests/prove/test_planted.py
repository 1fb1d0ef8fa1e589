"""Which way of proving finds which planted fault: the table, and that every fault is found.

That each cell is true is tested where the way is: the rules and the loops in test_loops.py, the exploration in
test_explore.py, the graph of the spec in test_graph.py.
"""

from __future__ import annotations

from tests.prove.broken import PLANTED
from tests.prove.test_explore import FOUND

WAYS = ("rules", "loops", "exploration", "graph")


def table():
    """Each planted fault, with the ways that find it."""
    return {
        name: (rules, loops or nested, bool(FOUND[name]), True)  # of the graph, all: see test_graph.py
        for name, (_, rules, loops, nested) in PLANTED.items()
    }


def test_every_fault_is_found_in_more_than_one_way_but_one():
    """The graph finds all; a budget that is not asked after tools comes to the same end by another way, and it alone does."""
    lonely = [name for name, found in table().items() if sum(found) < 2]

    assert len(table()) >= 12
    assert ["a round of tools is not held back by its budget"] == lonely


def test_the_table_can_be_read():
    """The ways are not the same: none of the first three finds all that another finds."""
    found = {way: {name for name, row in table().items() if row[place]} for place, way in enumerate(WAYS)}

    assert (11, 12, 12, 17) == tuple(len(found[way]) for way in WAYS)
    assert all(found[one] - found[two] for one in WAYS[:3] for two in WAYS[:3] if one != two)


if __name__ == "__main__":
    for fault, row in table().items():
        print(f"{fault:50}", *(f"{way if yes else '-':12}" for way, yes in zip(WAYS, row, strict=True)))  # noqa: T201
