"""Our words and the words of cases: every table that translates from the one to the other stands here.

A whole kind is translated, never a single case. Where the page takes another way to the same end, the table says so.
"""

from __future__ import annotations

from collections.abc import Mapping

from fsm_loop.core.faults import FaultKind, RepairKind
from fsm_loop.core.messages import Finish, ToolStatus

# fmt: off
# A case's setting, and the fields of LoopConfig that are the same thing here.
CONFIG: Mapping[str, tuple[str, ...]] = {
    "max_iterations":       ("max_iterations",),
    "max_retries":          ("api_max_retries",),
    "stream_retries":       ("stream_retries",),
    "base_delay":           ("base_delay_s",),
    "max_delay":            ("max_delay_s",),
    "max_wait":             ("max_wait_s",),
    "stale_stream":         ("stale_after_s",),
    "first_token_timeout":  ("first_token_timeout_s", "read_timeout_s"),  # unstreamed, the first is the last
    "call_deadline":        ("call_deadline_s",),
    "end_linger":           ("linger_s",),
    "tool_timeout":         ("tool_timeout_s",),
    "continuation_max":     ("continuations",),
    "max_tokens":           ("max_output_tokens",),
    "model_max_tokens":     ("output_ceiling_tokens",),
    "empty_retries":        ("empty_replies",),
    "unicode_retries":      ("sanitizations",),
    "unknown_tool_limit":   ("bad_tool_rounds",),
    "malformed_retries":    ("bad_tool_rounds",),  # one counter for whatever call cannot be run
    "auto_recovery_cycles": ("recoveries",),
}
# Settings of a case that a connection or a compactor is made with, or that our loop finds out by itself.
ELSEWHERE = frozenset({"http_max_connections", "compat", "compat_by_model", "context_window"})

DEFAULTS: Mapping[str, float] = {
    "max_iterations": 10, "max_retries": 3, "stream_retries": 2, "base_delay": 5, "max_delay": 120, "max_wait": 120,
    "stale_stream": 90, "first_token_timeout": 180, "call_deadline": 600, "end_linger": 5, "tool_timeout": 60,
    "continuation_max": 3, "max_tokens": 1024, "model_max_tokens": 4096, "empty_retries": 2, "unicode_retries": 2,
    "unknown_tool_limit": 3, "malformed_retries": 2, "auto_recovery_cycles": 0,
}

OUTCOMES: Mapping[str, str] = {
    "completed":   "done",
    "partial":     "done_partial",
    "refused":     "refused",
    "exhausted":   "budget_exhausted",
    "interrupted": "interrupted",
    "failed":      "failed",
}

STATES: Mapping[str, str] = {
    "calling":    "calling",
    "streaming":  "streaming",
    "truncated":  "truncated",
    "tool_exec":  "tool_exec",
    "backoff":    "backoff",
    "repairing":  "recovering",  # a case recovers by changing its request
    "recovering": "backoff",     # and waits for an outage as for anything else
    "fallback":   "fallback",
    "grace":      "grace",
    "done":       "done",
}

FINISHES: Mapping[Finish | None, str] = {
    Finish.STOP:        "finish_stop",
    Finish.TOOL_CALLS:  "finish_tool_calls",
    Finish.LENGTH:      "finish_length",
    Finish.WINDOW_FULL: "finish_context_window",
    Finish.REFUSED:     "finish_content_filter|finish_refusal",
    Finish.PAUSED:      "finish_pause",
    None:               "finish_unknown",
}

FAULTS: Mapping[FaultKind, str] = {
    FaultKind.CONNECT_FAILED:        "connect_failed",
    FaultKind.DROPPED:               "stream_dropped",
    FaultKind.INCOMPLETE:            "stream_incomplete",
    FaultKind.STALLED:               "stale_stream",
    FaultKind.TIMEOUT:               "call_deadline",
    FaultKind.OVERLOADED:            "overloaded",
    FaultKind.SERVER_ERROR:          "server_error",
    FaultKind.RATE_LIMITED:          "rate_limited",
    FaultKind.NO_SLOT:               "rate_limited",
    FaultKind.MALFORMED:             "invalid_response",
    FaultKind.MISSPOKE:              "malformed_tool_call",
    FaultKind.UNKNOWN:               "stream_error",
    FaultKind.QUOTA_SPENT:           "quota_exhausted",
    FaultKind.ACCESS_DENIED:         "auth_failed",
    FaultKind.MODEL_NOT_FOUND:       "bad_request",
    FaultKind.REFUSED:               "content_blocked",
    FaultKind.BAD_REQUEST:           "bad_request",
    FaultKind.UNTRUSTED:             "connect_failed",
    FaultKind.NOT_READY:             "connect_failed",
    FaultKind.BAD_UNICODE:           "bad_request",
    FaultKind.CONTEXT_TOO_LONG:      "context_overflow",
    FaultKind.OUTPUT_LIMIT_TOO_HIGH: "bad_request",
    FaultKind.HISTORY_REFUSED:       "history_rejected",
    FaultKind.MEDIA_REFUSED:         "bad_request",
    FaultKind.PARAMETER_UNSUPPORTED: "bad_request",
    FaultKind.CREDENTIAL_EXPIRED:    "auth_failed",
    FaultKind.STREAMING_UNSUPPORTED: "bad_request",
    FaultKind.CUT:                   "truncated_text|truncated_reasoning|truncated_tool_call",
    FaultKind.EMPTY:                 "empty_response",
    FaultKind.BAD_TOOL_CALLS:        "malformed_tool_call|unknown_tool",
    FaultKind.TOOL_LOOP:             "runaway",
    FaultKind.INTERNAL:              "stream_error",
}
# Kinds that no provider tells: any other one that comes without a status was told inside a reply.
NOT_TOLD = frozenset(
    {
        FaultKind.CONNECT_FAILED, FaultKind.DROPPED, FaultKind.INCOMPLETE, FaultKind.STALLED, FaultKind.NO_SLOT,
        FaultKind.UNTRUSTED, FaultKind.NOT_READY, FaultKind.EMPTY, FaultKind.BAD_TOOL_CALLS, FaultKind.TOOL_LOOP,
        FaultKind.MALFORMED, FaultKind.MISSPOKE, FaultKind.CUT, FaultKind.TIMEOUT,
    }
)
TOO_LARGE = 413  # the status under which a request is too large, whatever else it is
TOO_LARGE_WORD = "request_too_large"

# What a case may call the reason of an end, beside the word of the fault itself.
REASONS: Mapping[FaultKind, str] = {
    FaultKind.STALLED:     "stale|timeout|first_token_timeout",
    FaultKind.CUT:         "truncated|reasoning_exhausted",
    FaultKind.TIMEOUT:     "timeout",
    FaultKind.REFUSED:     "content_filter|refusal",
    FaultKind.QUOTA_SPENT: "billing",
}

REPAIRS: Mapping[RepairKind, str] = {
    RepairKind.SANITIZE:           "unicode_sanitized",
    RepairKind.COMPACT:            "context_compressed",
    RepairKind.LOWER_OUTPUT_LIMIT: "max_tokens_lowered",
    RepairKind.MEND_HISTORY:       "history_repaired",
    RepairKind.STRIP_MEDIA:        "media_stripped",
    RepairKind.REFRESH_CREDENTIAL: "auth_refreshed",
    RepairKind.DROP_PARAMETER:     "",
    RepairKind.STREAM_OFF:         "",
}

# What a row does, told by the name of its action. A silent reconnect is a backoff that takes no time.
ACTIONS: Mapping[str, tuple[str, ...]] = {
    "reconnect":          ("backoff_started", "backoff_elapsed"),
    "back_off":           ("backoff_started",),
    "recover":            ("backoff_started",),
    "switch":             ("fallback_selected",),
    "switch_unrepaired":  ("fallback_selected",),
    "go_on":              ("continued",),
    "resume_paused":      ("continued",),
    "grace_after_tools":  ("budget_exhausted", "grace_started"),
    "grace_after_reply":  ("budget_exhausted", "tool_skipped", "grace_started"),
    "grace_at_once":      ("budget_exhausted", "grace_started"),
    "exhausted":          ("budget_exhausted",),
    "stopped":            ("interrupted",),
    "tool_loop":          ("runaway",),
}
RAISES = frozenset({"boost", "think_less"})  # actions that ask for a larger output limit, where there is one
SILENT_WAITS = frozenset({"reconnect"})  # actions that stand for a stay in the state of a backoff

TOOLS: Mapping[ToolStatus, str] = {
    ToolStatus.OK:          "tool_finished",
    ToolStatus.ERROR:       "tool_failed",
    ToolStatus.UNKNOWN:     "tool_failed",
    ToolStatus.NOT_RUN:     "tool_skipped",
    ToolStatus.INTERRUPTED: "tool_skipped",
}
# fmt: on


def same(wanted: str, told: str) -> bool:
    """Whether two words mean the same; `a|b` is either."""
    return not set(wanted.split("|")).isdisjoint(told.split("|"))
