"""The longest way through the page, by trying every way: every answer in every place, whatever its words may be.

Here a guard that asks about words may hold or not, at will; only the counters hold a row back. So no turn is longer
than what is found, and it is the oracle that formulas are compared with. It takes small caps.
"""

from __future__ import annotations

from fsm_loop.core import counters as c
from fsm_loop.core.effects import CallModel, RunTool
from fsm_loop.core.events import ToolReturned
from fsm_loop.core.machine import PAGE
from fsm_loop.prove.places import Place, asks, edges_of, is_a_word


def longest(config, chain, weight, *, rebuilds=True, counted=True):
    """The most that the rows of one turn can weigh together; *weight* is asked of each edge and the counts before it.

    The host's rebuilds and the count of requests can be left out.
    """
    limits = {each: each.limit(config, chain) for each in PAGE.counters}
    onward = {}
    for edge in edges_of(PAGE):
        waiting = edge.here == edge.there and edge.row.on is ToolReturned
        asked_by_host = edge.row.spends is c.rebuilds and not rebuilds
        first = edge.here.state is PAGE.start and edge.row.trigger == "turn_started"
        if first or not (waiting or is_a_word(edge.row) or asked_by_host):
            refills = frozenset(PAGE.refills(edge.row))
            onward.setdefault(edge.here, []).append((edge, refills))
    places = {counter: place for place, counter in enumerate(PAGE.counters)}

    def ways(at):
        place, counts = at
        for edge, refills in onward.get(place, ()):
            row = edge.row
            if all(limits[each] is None or counts[places[each]] < limits[each] for each in row.asks):
                after = [0 if each in refills else counts[places[each]] for each in PAGE.counters]
                if row.spends and (counted or row.spends is not c.requests):
                    after[places[row.spends]] += 1
                yield weight(edge, dict(zip(PAGE.counters, counts, strict=True))), (edge.there, tuple(after))

    return _heaviest((Place(PAGE.start, frozenset()), (0,) * len(PAGE.counters)), ways)


def _heaviest(start, ways):
    best, entered, stack = {}, set(), [(start, None)]
    while stack:
        at, following = stack.pop()
        if at in best:
            continue
        if following is None:
            assert at not in entered, f"round and round through {at[0]}"
            entered.add(at)
            following = list(ways(at))
            stack.append((at, following))
            stack.extend((there, None) for _, there in following if there not in best)
        else:
            best[at] = max((more + best[there] for more, there in following), default=0)
    return best[start]


def calls(edge, counts):
    """A request goes out."""
    return int(CallModel in asks(edge.row.do))


def tool_rounds(edge, counts):
    """A round of tools begins."""
    return int(RunTool in asks(edge.row.do))


def calls_of(provider):
    """A request goes out to this provider: its place is the number of hops since the chain was armed."""
    return lambda edge, counts: calls(edge, counts) * (counts[c.fallbacks] == provider)


def waited_s(config):
    """The timer runs, as long as it can."""

    def weight(edge, counts):
        match edge.row.do.__name__:
            case "wait_for_slot":
                return config.max_wait_s
            case "back_off":
                return max(config.max_wait_s, config.delay_s(counts[c.api_retries], 1.0))
            case "recover":
                return max(config.max_wait_s, config.recovery_s(counts[c.recoveries], 1.0))
        return 0

    return weight
