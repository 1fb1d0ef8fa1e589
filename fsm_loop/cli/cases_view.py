"""One case as a person wants to see it: what the wire does, what the loop did, and in what that differs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fsm_loop.audit.log import told
from fsm_loop.core.effects import CallModel
from fsm_loop.core.events import CallFailed, ModelReplied
from fsm_loop.drive.result import Entry
from fsm_loop.testing.wire.case import Case, Received
from fsm_loop.testing.wire.play import Played

WIDTH = 110  # characters of a line of the wire
MOST_STEPS = 40  # of one answer; what is more is told by its number


def shown(case: Case, played: Played, differences: Sequence[str]) -> Iterator[str]:
    """The case, line by line: the answers of the server, the requests and decisions in their order, and the verdict."""
    yield f"{case.name}: {case.title}"
    yield f"  {case.protocol}, {'streamed' if case.stream else 'in one body'}; {case.kind}"
    yield from ("", "The wire:")
    for number, response in enumerate(case.exchange, 1):
        yield from _answer(number, response)
    if case.repeats_last:
        yield "  the last answer is given again and again"
    yield from ("", "The loop:")
    yield from _course(played)
    yield ""
    yield f"What came of it: {played.outcome or 'no end'}{f' ({played.reason})' if played.reason else ''}"
    yield f"  shown: {_short(repr(played.text))}"
    for call in played.tool_calls:
        yield f"  ran: {_short(json.dumps(call))}"
    yield "  as expected" if not differences else "  not as expected:"
    yield from (f"    {_short(each)}" for each in differences)


# ---------------------------------------------------------------- the wire


def _answer(number: int, response: Mapping[str, Any]) -> Iterator[str]:
    """One answer of the server: the status, the headers, then the body piece by piece with the time between."""
    facts = {name: value for name, value in response.items() if name not in ("status", "headers", "steps", "body")}
    besides = f"  {_short(json.dumps(facts))}" if facts else ""
    yield f"  {number}. status {response.get('status', '-')}{besides}"
    for name, value in (response.get("headers") or {}).items():
        yield f"       {name}: {_short(str(value))}"
    if "body" in response:
        yield f"       {_short(_said(response['body']))}"
    steps = response.get("steps", ())
    for step in steps[:MOST_STEPS]:
        wait = f"+{step['delay']:g} s" if step.get("delay") else ""
        yield f"    {wait:>8}  {_short(_step(step))}"
    if len(steps) > MOST_STEPS:
        yield f"              and {len(steps) - MOST_STEPS} more"


def _step(step: Mapping[str, Any]) -> str:
    """What the server does in one step, in the words of the case."""
    doing = {name: value for name, value in step.items() if name != "delay"}
    sse = doing.get("sse")
    if len(doing) == 1 and isinstance(sse, Mapping) and set(sse) <= {"event", "data"}:
        name = f"event: {sse['event']}, " if "event" in sse else ""
        return f"{name}data: {_said(sse.get('data', ''))}"
    return json.dumps(doing)


def _said(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


# ---------------------------------------------------------------- the loop


def _course(played: Played) -> Iterator[str]:
    """The decisions in their order, and behind each that sends a request what came of it to the server."""
    began = played.trail[0].at if played.trail else 0.0
    requests = iter(played.requests)
    for each in played.trail:
        yield f"  {each.at - began:9.3f} s  {_decision(each)}"
        if CallModel.__name__ in each.effects and (request := next(requests, None)) is not None:
            yield f"  {request.at:9.3f} s  {_request(request)}"
    for request in requests:
        yield f"  {request.at:9.3f} s  {_request(request)}, which no decision asked for"


def _decision(entry: Entry) -> str:
    counted = ", ".join(map(told, entry.moved))
    return f"{entry.row} -> {entry.after}{f'  [{counted}]' if counted else ''}{_heard(entry)}"


def _heard(entry: Entry) -> str:
    """What the provider's answer was, where the event is one."""
    match entry.event:
        case CallFailed(fault=fault):
            return f"  fault: {_short(fault.sentence)}"
        case ModelReplied(reply=reply):
            finish = reply.finish.value if reply.finish else "no finish"
            return f"  reply: {_short(repr(reply.text))}, {len(reply.tool_calls)} calls, {finish}"
        case _:
            return ""


def _request(request: Received) -> str:
    body = request.body if isinstance(request.body, Mapping) else {}
    said = body.get("messages", body.get("input", ()))
    count = f"{len(said)} messages" if isinstance(said, list) else "one text"
    return f"request {request.number} {request.path}: {body.get('model', 'no model')}, {count}"


def _short(text: str) -> str:
    """The text on a line; of one that is too long the beginning and the end."""
    from fsm_loop.cli.outlet import visible

    line = visible(text.replace("\n", "\\n"))
    half = WIDTH // 2
    return line if len(line) <= WIDTH else f"{line[:half]} ... {line[-half:]}"
