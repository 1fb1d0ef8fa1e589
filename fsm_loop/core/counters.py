"""What is counted. One entry is the whole of a counter: its name, what it counts, its cap, what refills it.

The list is in the order of ranks: a row that refills a counter must spend one that stands above it, so no loop
of the page can refill what it lives on. Only rows move a counter; a measured one follows what events report.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from attrs import frozen

from fsm_loop.config import LoopConfig


class Occasion(StrEnum):
    """Something that a row brings about, and that refills counters."""

    TOOL_ROUND = "a tool round"
    PROVIDER_SWITCH = "a provider switch"
    RECOVERY_CYCLE = "a recovery cycle"
    CUT_REPLY = "a cut reply that goes on"
    REPLY = "a reply"
    REQUEST_OUT = "the request going out"
    WORD = "a word of the user"


@frozen
class Counter:
    """One thing that is counted, up to its cap.

    `cap` is the field of LoopConfig that holds it (a number for a counter of a user's own page); None means the
    length of the fallback chain. A `measured` counter follows what events report (tokens, money, seconds), so
    the last report may carry it past its cap. One that is `by_host` is spent by the host's wishes, and by nothing
    else; the host's and the user's words spend no other.
    """

    name: str
    counts: str
    cap: str | int | None
    refilled_by: tuple[Occasion, ...] = ()
    measured: bool = False
    by_host: bool = False

    def limit(self, config: LoopConfig, chain: int) -> float | None:
        """The cap in force; None where there is none. `chain` is the number of fallbacks."""
        if self.cap is None:
            return chain
        if isinstance(self.cap, str):
            limit: float | None = getattr(config, self.cap)
            return limit
        return self.cap


_ROUND = (Occasion.TOOL_ROUND,)
_CALLS = (Occasion.TOOL_ROUND, Occasion.PROVIDER_SWITCH, Occasion.RECOVERY_CYCLE, Occasion.CUT_REPLY)

# fmt: off
requests             = Counter("requests",             "requests on the wire, all but the grace call",    "max_requests")
iterations           = Counter("iterations",           "replies whose tools were run, and paused replies", "max_iterations")
grace_calls          = Counter("grace_calls",          "the one last reply, with tools off",              "grace_calls")
tokens               = Counter("tokens",               "tokens read and written",                         "tokens", measured=True)
cost                 = Counter("cost",                 "US dollars",                                      "cost", measured=True)
turn_seconds         = Counter("turn_seconds",         "seconds since the turn began",                    "turn_seconds", measured=True)
sanitizations        = Counter("sanitizations",        "repairs of text that UTF-8 cannot carry",         "sanitizations")
credential_refreshes = Counter("credential_refreshes", "refreshes of a credential",                       "credential_refreshes")
output_limit_repairs = Counter("output_limit_repairs", "lowerings of the output limit",                   "output_limit_repairs")
history_repairs      = Counter("history_repairs",      "mendings of the order of the messages",           "history_repairs")
media_repairs        = Counter("media_repairs",        "removals of media",                               "media_repairs")
parameter_repairs    = Counter("parameter_repairs",    "parameters left out",                             "parameter_repairs")
stream_switches      = Counter("stream_switches",      "providers asked without streaming",               "stream_switches")
continuations        = Counter("continuations",        "prompts to go on after cut text",                 "continuations", _ROUND)
boosts               = Counter("boosts",               "re-asks with more room, or less reasoning",       "boosts", _ROUND)
empty_replies        = Counter("empty_replies",        "nudges after an empty reply",                     "empty_replies", _ROUND)
bad_tool_rounds      = Counter("bad_tool_rounds",      "rounds in which no tool call was valid",          "bad_tool_rounds", _ROUND)
compactions          = Counter("compactions",          "compactions of the request",                      "compactions", _ROUND)
recoveries           = Counter("recoveries",           "waits for an outage to pass",                     "recoveries", _ROUND)
fallbacks            = Counter("fallbacks",            "hops to the next provider",                       None, (Occasion.RECOVERY_CYCLE,))
rebuilds             = Counter("rebuilds",             "rebuilds that the host asked for",                "rebuilds", (Occasion.REPLY,), by_host=True)
api_retries          = Counter("api_retries",          "failed calls retried after backoff",              "api_max_retries", _CALLS)
stream_retries       = Counter("stream_retries",       "silent reconnects",                               "stream_retries", _CALLS)
slot_waits           = Counter("slot_waits",           "waits for the local limiter's slot",              "slot_waits", (Occasion.REQUEST_OUT,))
# fmt: on

COUNTERS: tuple[Counter, ...] = (
    *(requests, iterations, grace_calls, tokens, cost, turn_seconds),
    *(sanitizations, credential_refreshes, output_limit_repairs, history_repairs),
    *(media_repairs, parameter_repairs, stream_switches),
    *(continuations, boosts, empty_replies, bad_tool_rounds, compactions, recoveries),
    *(fallbacks, rebuilds, api_retries, stream_retries, slot_waits),
)

Counts = Mapping[str, float]


def refilled(counters: Iterable[Counter], occasions: tuple[Occasion, ...]) -> tuple[Counter, ...]:
    """The counters that these occasions refill."""
    return tuple(each for each in counters if any(occasion in each.refilled_by for occasion in occasions))
