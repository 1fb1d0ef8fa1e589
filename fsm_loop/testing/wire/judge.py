"""What a case expects beside what came of it: each field of `expect` is one small comparison here."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fsm_loop.testing.wire.case import Case
from fsm_loop.testing.wire.checks import problems_of
from fsm_loop.testing.wire.play import Played
from fsm_loop.testing.wire.words import same

Expect = Mapping[str, Any]
SHOWN_CHARS = 200
EARLY, LATE = 0.98, 1.05  # how far a wait may be off, for clocks of servers are not ours


def differences(case: Case, played: Played) -> list[str]:
    """Everything in which the two differ, in words; empty where all is as expected."""
    found = [f"the wire: {each}" for each in played.violations]
    for judge in JUDGES:
        found += judge(case.expect, played)
    for each in case.expect.get("requests", ()):
        found += problems_of(played.requests, each["n"], each["checks"], case.protocol)
    return found


def _outcome(expect: Expect, played: Played) -> Iterator[str]:
    wanted = expect["outcome"] if isinstance(expect["outcome"], list) else [expect["outcome"]]
    if not played.outcome:
        yield "the turn had no end"
    elif played.outcome not in wanted:
        yield f"outcome: {played.outcome}, expected {' or '.join(wanted)}"


def _reason(expect: Expect, played: Played) -> Iterator[str]:
    wanted = expect.get("reason")
    if wanted and played.outcome in ("failed", "refused", "done_partial") and not same("|".join(wanted), played.reason):
        yield f"reason: {played.reason or 'none'}, expected {' or '.join(wanted)}"


def _text(expect: Expect, played: Played) -> Iterator[str]:
    for problem in _unlike(expect["visible_text"], played.text):
        yield f"visible text: {problem}"
    if played.outcome == "done" and "visible_text_if_done" in expect:
        for problem in _unlike(expect["visible_text_if_done"], played.text):
            yield f"visible text when done: {problem}"


def _unlike(matcher: Any, text: str) -> Iterator[str]:
    shown = f"{text!r:.{SHOWN_CHARS}}"
    if isinstance(matcher, str):
        matcher = {"one_of": [matcher]}
    if "one_of" in matcher and text not in matcher["one_of"]:
        yield f"{shown}, expected {' or '.join(map(repr, matcher['one_of']))}"
    yield from (f"{shown} lacks {each!r}" for each in matcher.get("contains", ()) if each not in text)
    yield from (f"{shown} has {each!r}" for each in matcher.get("not_contains", ()) if each in text)
    if "regex" in matcher and not re.search(matcher["regex"], text):
        yield f"{shown} does not match {matcher['regex']!r}"
    for part, (least, most) in matcher.get("occurrences", {}).items():
        if not least <= text.count(part) <= most:
            yield f"{shown} has {part!r} {text.count(part)} times, expected {least} to {most}"


def _tool_calls(expect: Expect, played: Played) -> Iterator[str]:
    wanted, calls = expect["tool_calls"], list(played.tool_calls)
    if isinstance(wanted, list):
        wanted = {"one_of": [wanted]}
    if "one_of" in wanted and calls not in wanted["one_of"]:
        yield f"tool calls: {calls}, expected {' or '.join(map(str, wanted['one_of']))}"
    if "max_count" in wanted and len(calls) > wanted["max_count"]:
        yield f"tool calls: {len(calls)}, expected at most {wanted['max_count']}"


def _counts(expect: Expect, played: Played) -> Iterator[str]:
    least, most = expect.get("min_llm_calls", 1), expect["max_llm_calls"]
    if not least <= played.llm_calls <= most:
        yield f"model calls: {played.llm_calls}, expected {least} to {most}"
    if len(played.requests) > expect.get("max_http_requests", most):
        yield f"requests: {len(played.requests)}, expected at most {expect.get('max_http_requests', most)}"


def _events(expect: Expect, played: Played) -> Iterator[str]:
    missing = _first_missing(expect["events"], played.events)
    if missing:
        yield f"events: {missing} is not where it should be: {' '.join(played.events)}"
    for each in expect.get("forbid_events", ()):
        if each in played.events:
            yield f"events: {each} must not be"
    missing = _first_missing(expect.get("states", ()), played.states)
    if missing:
        yield f"states: {missing} is not where it should be: {' '.join(played.states)}"


def _first_missing(wanted: Sequence[str], told: Sequence[str]) -> str:
    """The first of the wanted words that does not come, in their order, among those that were told."""
    left = iter(told)
    return next((each for each in wanted if not any(same(each, word) for word in left)), "")


def _seconds(expect: Expect, played: Played) -> Iterator[str]:
    most = expect.get("max_virtual_seconds")
    if most is not None and played.seconds > most:
        yield f"time: {played.seconds:.1f} s, expected at most {most} s"
    for wait in expect.get("waits", ()):
        number = wait["after_request"]
        if number >= len(played.requests) or number > len(played.ends):
            continue
        took = played.requests[number].at - played.ends[number - 1]
        least, longest = wait.get("min", 0), wait.get("max", float("inf"))
        if not least * EARLY <= took <= longest * LATE:
            yield f"wait after request {number}: {took:.2f} s, expected {least} to {longest} s"


def _remains(expect: Expect, played: Played) -> Iterator[str]:
    """What is left when all is over: usage, connections, the transcript."""
    for name, value in (expect.get("usage") or {}).items():
        if played.usage.get(name) != value:
            yield f"usage: {name} is {played.usage.get(name)}, expected {value}"
    most = expect.get("open_connections_after")
    if most is not None and played.open_connections > most:
        yield f"connections: {played.open_connections} are open, expected at most {most}"
    if expect.get("transcript_utf8_clean"):
        try:
            json.dumps(played.messages, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            yield f"transcript: {error}"
    roles = expect.get("final_transcript")
    if roles is not None and [each["role"] for each in played.messages] != list(roles):
        yield f"transcript: {[each['role'] for each in played.messages]}, expected {list(roles)}"


JUDGES: tuple[Callable[[Expect, Played], Iterator[str]], ...] = (
    _outcome,
    _reason,
    _text,
    _tool_calls,
    _counts,
    _events,
    _seconds,
    _remains,
)
