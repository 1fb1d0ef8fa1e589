"""The machine, on one page.

Read a line of the table as a sentence: *in* this state, *on* this event, *when* these guards all hold, *go to* that
state and *do* this; it *spends* one of this counter, and *brings about* what refills others. Lines for one state
and event are tried from the top, and the last of them has no guard, so that one always fires.

Four rules keep the page whole; `checks` refuses a page that breaks one.

1. A state is something that the turn waits for (`truncated` alone waits for nothing: it is a decision by name).
2. Nothing but a line of this table changes the state.
3. `left(counter)` stands last among the guards of its line: a line that misses there misses for that counter
   alone, and so the end can name it.
4. A port's event whose attempt is no longer current is late: it changes nothing. Any other event that the table does
   not list is a fault of the driver, and raises.
"""

from __future__ import annotations

from enum import Enum

from fsm_loop.core import actions as do
from fsm_loop.core import counters as c
from fsm_loop.core import ends as end
from fsm_loop.core import guards as g
from fsm_loop.core.counters import Occasion
from fsm_loop.core.events import (
    CutJudged,
    InterruptAsked,
    ModelFailed,
    ModelReplied,
    ProviderFailed,
    ProviderReady,
    RebuildAsked,
    RequestRepaired,
    SlotGranted,
    SlotRefused,
    SteerGiven,
    StreamDropped,
    StreamStalled,
    StreamStarted,
    TimerFired,
    ToolReturned,
    TurnStarted,
)
from fsm_loop.core.faults import RepairKind
from fsm_loop.core.guards import budget, left, needs
from fsm_loop.core.rows import Page, line


class State(Enum):
    """What the turn waits for."""

    READY = "to be started"
    CALLING = "the model's first sign of life: the request is out, or waits for its slot; nothing is shown yet"
    STREAMING = "the rest of the reply"
    TRUNCATED = "nothing: a reply was cut, and the next row decides how it goes on"
    TOOL_EXEC = "every pending tool call to return"
    BACKOFF = "the time to try again, or the local limiter's slot"
    REPAIRING = "the request to be changed so that it can succeed"
    FALLBACK = "another provider to be ready"
    RECOVERING = "the outage to pass: retries and the fallback chain are spent"
    GRACE = "the model's one last reply, with tools off"
    DONE = "nothing: the turn is over"


# fmt: off
(SANITIZE, COMPACT, LOWER_OUTPUT_LIMIT, MEND_HISTORY, STRIP_MEDIA, DROP_PARAMETER, REFRESH_CREDENTIAL, STREAM_OFF) = RepairKind
(READY, CALLING, STREAMING, TRUNCATED, TOOL_EXEC, BACKOFF, REPAIRING, FALLBACK, RECOVERING, GRACE, DONE) = State
ASKING  = (CALLING, STREAMING)
WAITING = (READY, TRUNCATED, TOOL_EXEC, BACKOFF, FALLBACK, RECOVERING, GRACE)
ALIVE   = (*ASKING, REPAIRING, *WAITING)
BUDGET  = budget(c.requests, c.tokens, c.cost, c.turn_seconds)

TOOL_ROUND      = (Occasion.TOOL_ROUND, Occasion.REPLY)
PROVIDER_SWITCH = (Occasion.PROVIDER_SWITCH,)
RECOVERY_CYCLE  = (Occasion.RECOVERY_CYCLE,)
CUT_REPLY       = (Occasion.CUT_REPLY,)
REPLY           = (Occasion.REPLY,)
STEER           = (Occasion.REPLY, Occasion.WORD)
STEER_NOW       = (Occasion.WORD,)
REQUEST_OUT     = (Occasion.REQUEST_OUT,)

TABLE = (
    #    in          on               when                                                              go to       do                    spends                  brings about
    line(READY,      TurnStarted,     [],                                                               CALLING,    do.begin_turn),

    # The limiter's slot, and the budget: every request passes here.
    line(CALLING,    SlotGranted,     [BUDGET],                                                         CALLING,    do.send,              c.requests,             REQUEST_OUT),
    line(CALLING,    SlotGranted,     [left(c.grace_calls)],                                            GRACE,      do.grace_at_once,     c.grace_calls),
    line(CALLING,    SlotGranted,     [],                                                               DONE,       end.exhausted),
    line(CALLING,    SlotRefused,     [g.waits_soon, left(c.slot_waits)],                               BACKOFF,    do.wait_for_slot,     c.slot_waits),
    line(CALLING,    SlotRefused,     [g.may_retry, left(c.api_retries)],                               BACKOFF,    do.back_off,          c.api_retries),
    line(CALLING,    SlotRefused,     [left(c.fallbacks)],                                              FALLBACK,   do.switch,            c.fallbacks,            PROVIDER_SWITCH),
    line(CALLING,    SlotRefused,     [],                                                               DONE,       end.failed),

    # The reply.
    line(CALLING,    StreamStarted,   [],                                                               STREAMING,  do.keep),
    line(ASKING,     ModelReplied,    [g.was_refused, left(c.fallbacks)],                               FALLBACK,   do.switch,            c.fallbacks,            PROVIDER_SWITCH),
    line(ASKING,     ModelReplied,    [g.was_refused],                                                  DONE,       end.refused),
    line(ASKING,     ModelReplied,    [g.is_paused, left(c.iterations)],                                CALLING,    do.resume_paused,     c.iterations,           REPLY),
    line(ASKING,     ModelReplied,    [g.is_paused, left(c.grace_calls)],                               GRACE,      do.grace_after_reply, c.grace_calls),
    line(ASKING,     ModelReplied,    [g.is_paused],                                                    DONE,       end.exhausted),
    line(ASKING,     ModelReplied,    [g.was_cut],                                                      TRUNCATED,  do.keep_cut),
    line(ASKING,     ModelReplied,    [g.has_valid_call, left(c.iterations)],                           TOOL_EXEC,  do.run_tools,         c.iterations,           TOOL_ROUND),
    line(ASKING,     ModelReplied,    [g.has_valid_call, left(c.grace_calls)],                          GRACE,      do.grace_after_reply, c.grace_calls),
    line(ASKING,     ModelReplied,    [g.has_valid_call],                                               DONE,       end.exhausted),
    line(ASKING,     ModelReplied,    [g.wants_tools, left(c.bad_tool_rounds)],                         CALLING,    do.tell_bad_calls,    c.bad_tool_rounds,      REPLY),
    line(ASKING,     ModelReplied,    [g.wants_tools],                                                  DONE,       end.bad_calls),
    line(ASKING,     ModelReplied,    [g.is_empty, left(c.empty_replies)],                              CALLING,    do.nudge,             c.empty_replies,        REPLY),
    line(ASKING,     ModelReplied,    [g.is_empty, left(c.fallbacks)],                                  FALLBACK,   do.switch,            c.fallbacks,            PROVIDER_SWITCH),
    line(ASKING,     ModelReplied,    [g.is_empty],                                                     DONE,       end.empty),
    line(ASKING,     ModelReplied,    [g.steer_waiting],                                                CALLING,    do.answer_steer,      None,                   STEER),
    line(ASKING,     ModelReplied,    [],                                                               DONE,       end.completed),

    # The stream breaks off, or falls silent.
    line(ASKING,     StreamDropped,   [g.nothing_shown, left(c.stream_retries)],                        CALLING,    do.reconnect,         c.stream_retries),
    line(ASKING,     StreamDropped,   [g.tool_in_flight, left(c.stream_retries)],                       CALLING,    do.reconnect,         c.stream_retries),
    line(ASKING,     StreamDropped,   [g.text_shown, left(c.stream_retries)],                           TRUNCATED,  do.keep_partial,      c.stream_retries),
    line(ASKING,     StreamDropped,   [g.text_shown, g.falls_back, left(c.fallbacks)],                  FALLBACK,   do.switch,            c.fallbacks,            PROVIDER_SWITCH),
    line(ASKING,     StreamDropped,   [g.text_shown],                                                   TRUNCATED,  do.keep_partial),
    line(ASKING,     StreamDropped,   [g.may_retry, left(c.api_retries)],                               BACKOFF,    do.back_off,          c.api_retries),
    line(ASKING,     StreamDropped,   [g.falls_back, left(c.fallbacks)],                                FALLBACK,   do.switch,            c.fallbacks,            PROVIDER_SWITCH),
    line(ASKING,     StreamDropped,   [g.is_outage, g.waits_soon, left(c.recoveries)],                  RECOVERING, do.recover,           c.recoveries,           RECOVERY_CYCLE),
    line(ASKING,     StreamDropped,   [],                                                               DONE,       end.failed),
    line(ASKING,     StreamStalled,   [g.text_shown, g.tool_in_flight, left(c.stream_retries)],         CALLING,    do.reconnect,         c.stream_retries),
    line(ASKING,     StreamStalled,   [g.text_shown, left(c.api_retries)],                              TRUNCATED,  do.keep_partial,      c.api_retries),
    line(ASKING,     StreamStalled,   [g.text_shown, g.falls_back, left(c.fallbacks)],                  FALLBACK,   do.switch,            c.fallbacks,            PROVIDER_SWITCH),
    line(ASKING,     StreamStalled,   [g.text_shown],                                                   TRUNCATED,  do.keep_partial),
    line(ASKING,     StreamStalled,   [g.may_retry, left(c.api_retries)],                               BACKOFF,    do.back_off,          c.api_retries),
    line(ASKING,     StreamStalled,   [g.falls_back, left(c.fallbacks)],                                FALLBACK,   do.switch,            c.fallbacks,            PROVIDER_SWITCH),
    line(ASKING,     StreamStalled,   [g.is_outage, g.waits_soon, left(c.recoveries)],                  RECOVERING, do.recover,           c.recoveries,           RECOVERY_CYCLE),
    line(ASKING,     StreamStalled,   [],                                                               DONE,       end.failed),

    # The call fails. First what a changed request can mend; each kind of repair has its own counter.
    line(ASKING,     ModelFailed,     [needs(SANITIZE), left(c.sanitizations)],                         REPAIRING,  do.repair,            c.sanitizations),
    line(ASKING,     ModelFailed,     [needs(COMPACT), left(c.compactions)],                            REPAIRING,  do.repair,            c.compactions),
    line(ASKING,     ModelFailed,     [needs(LOWER_OUTPUT_LIMIT), left(c.output_limit_repairs)],        REPAIRING,  do.repair,            c.output_limit_repairs),
    line(ASKING,     ModelFailed,     [needs(MEND_HISTORY), left(c.history_repairs)],                   REPAIRING,  do.repair,            c.history_repairs),
    line(ASKING,     ModelFailed,     [needs(STRIP_MEDIA), left(c.media_repairs)],                      REPAIRING,  do.repair,            c.media_repairs),
    line(ASKING,     ModelFailed,     [needs(DROP_PARAMETER), left(c.parameter_repairs)],               REPAIRING,  do.repair,            c.parameter_repairs),
    line(ASKING,     ModelFailed,     [needs(REFRESH_CREDENTIAL), left(c.credential_refreshes)],        REPAIRING,  do.repair,            c.credential_refreshes),
    line(ASKING,     ModelFailed,     [needs(STREAM_OFF), left(c.stream_switches)],                     REPAIRING,  do.repair,            c.stream_switches),
    line(ASKING,     ModelFailed,     [g.misspoke, left(c.bad_tool_rounds)],                            CALLING,    do.ask_for_call,      c.bad_tool_rounds),
    line(ASKING,     ModelFailed,     [g.is_malformed, left(c.fallbacks)],                              FALLBACK,   do.switch,            c.fallbacks,            PROVIDER_SWITCH),
    line(ASKING,     ModelFailed,     [g.may_retry, left(c.api_retries)],                               BACKOFF,    do.back_off,          c.api_retries),
    line(ASKING,     ModelFailed,     [g.falls_back, left(c.fallbacks)],                                FALLBACK,   do.switch,            c.fallbacks,            PROVIDER_SWITCH),
    line(ASKING,     ModelFailed,     [g.is_outage, g.waits_soon, g.nothing_shown, left(c.recoveries)], RECOVERING, do.recover,           c.recoveries,           RECOVERY_CYCLE),
    line(ASKING,     ModelFailed,     [g.is_refusal],                                                   DONE,       end.refused),
    line(ASKING,     ModelFailed,     [],                                                               DONE,       end.failed),

    # A reply was cut.
    line(TRUNCATED,  CutJudged,       [g.call_was_cut, g.room_to_grow, left(c.boosts)],                 CALLING,    do.boost,             c.boosts,               CUT_REPLY),
    line(TRUNCATED,  CutJudged,       [g.text_was_cut, g.makes_progress, left(c.continuations)],        CALLING,    do.go_on,             c.continuations,        CUT_REPLY),
    line(TRUNCATED,  CutJudged,       [g.only_reasoned, left(c.boosts)],                                CALLING,    do.think_less,        c.boosts,               CUT_REPLY),
    line(TRUNCATED,  CutJudged,       [],                                                               DONE,       end.cut),

    # Tools.
    line(TOOL_EXEC,  ToolReturned,    [g.must_stop],                                                    DONE,       end.tool_loop),
    line(TOOL_EXEC,  ToolReturned,    [g.all_back, left(c.iterations), BUDGET],                         CALLING,    do.answer_tools),
    line(TOOL_EXEC,  ToolReturned,    [g.all_back, left(c.grace_calls)],                                GRACE,      do.grace_after_tools, c.grace_calls),
    line(TOOL_EXEC,  ToolReturned,    [g.all_back],                                                     DONE,       end.exhausted),
    line(TOOL_EXEC,  ToolReturned,    [],                                                               TOOL_EXEC,  do.keep),

    # Waits.
    line(BACKOFF,    TimerFired,      [],                                                               CALLING,    do.ask),
    line(RECOVERING, TimerFired,      [],                                                               CALLING,    do.ask),
    line(REPAIRING,  RequestRepaired, [g.has_changed],                                                  CALLING,    do.apply_repair),
    line(REPAIRING,  RequestRepaired, [g.fault_falls_back, left(c.fallbacks)],                          FALLBACK,   do.switch_unrepaired, c.fallbacks,            PROVIDER_SWITCH),
    line(REPAIRING,  RequestRepaired, [],                                                               DONE,       end.unrepaired),
    line(FALLBACK,   ProviderReady,   [],                                                               CALLING,    do.ask),
    line(FALLBACK,   ProviderFailed,  [left(c.fallbacks)],                                              FALLBACK,   do.switch,            c.fallbacks,            PROVIDER_SWITCH),
    line(FALLBACK,   ProviderFailed,  [g.is_outage, g.waits_soon, left(c.recoveries)],                  RECOVERING, do.recover,           c.recoveries,           RECOVERY_CYCLE),
    line(FALLBACK,   ProviderFailed,  [],                                                               DONE,       end.failed),

    # The last word: one request, tools off.
    line(GRACE,      SlotGranted,     [],                                                               GRACE,      do.send_grace),
    line(GRACE,      SlotRefused,     [g.waits_soon, left(c.slot_waits)],                               GRACE,      do.wait_for_slot,     c.slot_waits),
    line(GRACE,      SlotRefused,     [],                                                               DONE,       end.grace),
    line(GRACE,      TimerFired,      [],                                                               GRACE,      do.ask),
    line(GRACE,      StreamStarted,   [],                                                               GRACE,      do.keep),
    line(GRACE,      ModelReplied,    [g.has_text],                                                     DONE,       end.grace_text),
    line(GRACE,      ModelReplied,    [],                                                               DONE,       end.grace),
    line(GRACE,      StreamDropped,   [],                                                               DONE,       end.grace),
    line(GRACE,      StreamStalled,   [],                                                               DONE,       end.grace),
    line(GRACE,      ModelFailed,     [],                                                               DONE,       end.grace),

    # Words of the user and of the host, at any moment.
    line(ALIVE,      InterruptAsked,  [],                                                               DONE,       end.stopped),
    line(ASKING,     SteerGiven,      [g.is_now],                                                       CALLING,    do.ask_now,           None,                   STEER_NOW),
    line(ASKING,     SteerGiven,      [],                                                               None,       do.keep),
    line(REPAIRING,  SteerGiven,      [],                                                               None,       do.keep),
    line(WAITING,    SteerGiven,      [],                                                               None,       do.keep),
    line(ASKING,     RebuildAsked,    [left(c.rebuilds)],                                               CALLING,    do.rebuild,           c.rebuilds),
    line(ASKING,     RebuildAsked,    [],                                                               None,       do.take_prompt),
    line(REPAIRING,  RebuildAsked,    [left(c.rebuilds)],                                               CALLING,    do.rebuild,           c.rebuilds),
    line(REPAIRING,  RebuildAsked,    [],                                                               None,       do.take_prompt),
    line(WAITING,    RebuildAsked,    [],                                                               None,       do.take_prompt),

    # When it is over, words are heard and change nothing; a steer is handed back with the result.
    line(DONE,       InterruptAsked,  [],                                                               DONE,       do.keep),
    line(DONE,       SteerGiven,      [],                                                               DONE,       do.keep),
    line(DONE,       RebuildAsked,    [],                                                               DONE,       do.keep),
)
# fmt: on

PAGE = Page(states=tuple(State), start=READY, done=DONE, lines=TABLE, counters=c.COUNTERS, version="1")
