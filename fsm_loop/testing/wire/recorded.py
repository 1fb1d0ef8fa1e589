"""What was heard of live traffic, as a case: requests give its setup, answers its exchange, both in a disguise."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any

from attrs import define, field

from fsm_loop.testing.wire.checks import LIMITS
from fsm_loop.testing.wire.disguise import Disguise
from fsm_loop.testing.wire.disguised_body import Bodies
from fsm_loop.testing.wire.payload import json_bytes, step_bytes
from fsm_loop.testing.wire.replied import Replied, replied
from fsm_loop.testing.wire.spoken import offered, results_in, said_first, told_models

Parts = Mapping[str, Any]

SHORTEST_DELAY_S = 0.005  # of silence between two pieces; what is shorter is added to the next
MOST_ANSWER_BYTES = 16 * 2**20  # that are written down; what is larger is passed on, and its turn is not recorded
AWAY_S = 600.0  # how long a server is away that was not seen to come back
ALL_OUTCOMES = ("done", "done_partial", "failed", "interrupted", "refused", "budget_exhausted")
# Headers of an answer that a loop may read; all others are left out.
KEPT_HEADERS = ("content-type", "retry-after", "retry-after-ms", "x-should-retry")
KEPT_BEGINNINGS = ("x-ratelimit-", "anthropic-ratelimit-")
REQUEST_IDS = ("request-id", "x-request-id")
LONGEST_HEADER = 200
KINDS = {401: "auth", 403: "auth", 413: "request_size", 429: "rate_limit"}
LOWEST_ERROR, LOWEST_SERVER_ERROR = 400, 500


@define(eq=False)
class Exchange:
    """One request and what came for it; times are seconds, `end` is how the answer ended, empty while it goes on.

    `connect` is not ok where not one byte was answered. `left` says that the client went away before the end.
    """

    protocol: str
    body: Mapping[str, Any] = field(repr=False)
    credential: str = field(repr=False)
    at: float
    secrets: tuple[str, ...] = field(default=(), repr=False)
    connect: str = "ok"
    status: int = 0
    headers: Sequence[tuple[str, str]] = ()
    opened_at: float = 0.0
    pieces: list[tuple[float, bytes]] = field(factory=list, repr=False)
    end: str = ""
    ended_at: float = 0.0
    left: bool = False
    size: int = 0

    def take(self, at: float, piece: bytes) -> None:
        """One more piece of the body."""
        self.size += len(piece)
        if not self.is_too_large:
            self.pieces.append((at, piece))

    @property
    def is_too_large(self) -> bool:
        """Whether the answer is larger than what is written down."""
        return self.size > MOST_ANSWER_BYTES

    @property
    def raw(self) -> bytes:
        """The whole body, as far as it came."""
        return b"".join(piece for _, piece in self.pieces)

    @property
    def is_events(self) -> bool:
        """Whether the body is one of server-sent events."""
        kind = self.header("content-type").partition(";")[0].strip()
        return kind == "text/event-stream" or self.raw.lstrip(b"\xef\xbb\xbf").startswith((b"data:", b"event:", b": "))

    def header(self, name: str) -> str:
        """The header of the answer by this name; empty where there is none."""
        return next((value for each, value in self.headers if each.lower() == name), "")

    def reply(self) -> Replied:
        """What the model replied in it."""
        return replied(self.raw, self.protocol, events=self.is_events) if self.status else Replied()

    @property
    def outcome(self) -> str:
        """What came, in a word or two."""
        if self.connect != "ok":
            return f"connection: {self.connect}"
        return f"status {self.status}" if self.end == "clean" else f"status {self.status}, then {self.end}"


def case_of_recording(exchanges: Sequence[Exchange], case_id: str, disguise: Disguise) -> dict[str, Any]:
    """The case that these exchanges are, one turn; what cannot be known is left open, and `notes` says what it is."""
    names, keys = offered(exchanges)
    models = told_models(exchanges)
    bodies = Bodies(disguise, names, keys, models)
    last = exchanges[-1].reply()
    is_over = last.is_over and exchanges[-1].end == "clean"
    credentials = list(dict.fromkeys(each.credential for each in exchanges))
    first = exchanges[0]
    limit = next((first.body[name] for name in LIMITS if isinstance(first.body.get(name), int)), None)
    setup: dict[str, Any] = {
        "models": models,
        "messages": said_first(first, disguise, names, keys),
        "tools": results_in(exchanges, disguise),
        "actions": [],
        "config": {} if limit is None else {"max_tokens": limit},
    }
    if len(credentials) > 1:
        setup["credentials"] = [f"key-{number}" for number, _ in enumerate(credentials, 1)]
    return {
        "schema_version": 1,
        "id": case_id,
        "title": f"Recorded: {', then '.join(each.outcome for each in exchanges[-4:])}",
        "kind": next(filter(None, map(_kind, exchanges)), "sse_shape"),
        "protocol": first.protocol,
        "stream": bool(first.body.get("stream")),
        "facts": "Recorded from a live server; texts, names and ids are invented, in the shape of what they were."
        if not disguise.keep_text
        else "Recorded from a live server; texts are kept, credentials are invented.",
        "notes": _notes(exchanges, is_over=is_over),
        "setup": setup,
        "exchange": [*_responses(exchanges, bodies)],
        "expect": _expected(exchanges, bodies, is_over=is_over),
    }


def _kind(exchange: Exchange) -> str:
    status = exchange.status
    if exchange.connect in ("refuse", "close", "reset") or exchange.end in ("abrupt", "reset"):
        return "transport_drop"
    if exchange.connect == "hang" or exchange.end == "hang":
        return "stall"
    if status >= LOWEST_ERROR:
        return KINDS.get(status, "server_error" if status >= LOWEST_SERVER_ERROR else "invalid_response")
    return ""


def _notes(exchanges: Sequence[Exchange], *, is_over: bool) -> str:
    left = [str(number) for number, each in enumerate(exchanges, 1) if each.left]
    open_fields = ["title, kind, facts and right: what this case is about"]
    if not is_over:
        open_fields.append("expect.outcome and expect.visible_text: how a right loop ends, and what its user sees")
    open_fields += [
        "expect.tool_calls, events, states, waits and requests: what else a right loop does",
        "setup.actions and setup.config: what the user did meanwhile, and the limits of the loop",
    ]
    gone = f" The client left before answer {', '.join(left)} was over; what follows there is silence." if left else ""
    return f"To be completed by a person: {'; '.join(open_fields)}.{gone}"


def _expected(exchanges: Sequence[Exchange], bodies: Bodies, *, is_over: bool) -> dict[str, Any]:
    calls = sum(len(each.reply().calls) for each in exchanges)
    disguised = bodies.disguised(exchanges[-1].raw, events=exchanges[-1].is_events) if is_over else b""
    text = replied(disguised, exchanges[-1].protocol, events=exchanges[-1].is_events).text.strip()
    last = exchanges[-1].body
    is_grace = last.get("tool_choice") in ("none", {"type": "none"}) or bool(exchanges[0].body.get("tools")) > bool(
        last.get("tools")
    )
    over = ["done", "budget_exhausted"] if is_grace else "done"
    return {
        "events": [],
        "outcome": over if is_over else list(ALL_OUTCOMES),
        "max_llm_calls": len(exchanges),
        "visible_text": {"contains": [text] if text else []},
        "tool_calls": {"max_count": calls},
    }


# ---------------------------------------------------------------- answers


def _responses(exchanges: Sequence[Exchange], bodies: Bodies) -> Iterator[dict[str, Any]]:
    """What the server answers, in order; that it was away is one answer, however often it was asked meanwhile."""
    away_since: float | None = None
    before: Exchange | None = None
    for place, each in enumerate(exchanges):
        if each.connect == "refuse":
            away_since = away_since if away_since is not None else before.ended_at if before else each.at
            following = exchanges[place + 1] if place + 1 < len(exchanges) else None
            if following is None or following.connect != "refuse":
                until = (each.at + following.at) / 2 if following else each.at + AWAY_S
                yield {"connect": "refuse", "down_for": round(until - away_since, 3)}
                away_since = None
        else:
            yield _response(each, bodies)
        before = each


def _response(exchange: Exchange, bodies: Bodies) -> dict[str, Any]:
    waited = {"headers_delay": round((exchange.opened_at if exchange.status else exchange.ended_at) - exchange.at, 3)}
    if waited["headers_delay"] < SHORTEST_DELAY_S or exchange.connect == "hang":
        waited = {}
    if exchange.connect != "ok":
        return {**waited, "connect": exchange.connect}
    raw = exchange.raw
    body = bodies.disguised(raw, events=exchange.is_events)
    headers = _headers(exchange, bodies.disguise)
    told = exchange.header("content-length")
    if told.isdigit() and int(told) != len(raw):
        headers["content-length"] = told
    answer = {**waited, "status": exchange.status, "headers": headers}
    late = exchange.pieces and exchange.pieces[-1][0] - exchange.opened_at >= SHORTEST_DELAY_S
    if told and not late and exchange.end in ("clean", "abrupt"):
        return {**answer, **_whole(body)}
    if told:
        headers["content-length"] = told
    return {**answer, "steps": [*_steps(exchange, body)]}


def _headers(exchange: Exchange, disguise: Disguise) -> dict[str, str]:
    kept = {}
    for name, value in ((name.lower(), value) for name, value in exchange.headers):
        if name in REQUEST_IDS:
            kept[name] = disguise.id(value[:LONGEST_HEADER])
        elif name in KEPT_HEADERS or name.startswith(KEPT_BEGINNINGS):
            kept[name] = disguise.error(value[:LONGEST_HEADER], _HEADER_WORDS)
    wait = _seconds_of_date(exchange.header("retry-after"), exchange.header("date"))
    if wait:
        kept["retry-after"] = wait
    return kept


# fmt: off
_HEADER_WORDS = frozenset({
    "text", "event", "stream", "application", "json", "plain", "html", "x", "ndjson", "charset", "utf", "GMT", "UTC",
    "T", "Z", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun", "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug",
    "Sep", "Oct", "Nov", "Dec",
})
# fmt: on


def _seconds_of_date(until: str, now: str) -> str:
    """A wait that was told as a date, in seconds: when the case is played, the date is long past."""
    try:
        return str(max(0, round((parsedate_to_datetime(until) - parsedate_to_datetime(now)).total_seconds())))
    except (TypeError, ValueError):
        return ""


def _whole(body: bytes) -> dict[str, Any]:
    """A body that came in one piece."""
    text = _text(body)
    if text is None:
        return {"body_b64": base64.b64encode(body).decode()}
    try:
        value = json.loads(text)
        if json_bytes(value) == body:
            return {"body": value}
    except (ValueError, RecursionError):
        pass
    return {"body_text": text}


def _steps(exchange: Exchange, body: bytes) -> Iterator[dict[str, Any]]:
    """The body piece by piece as it came, with the silence between; *body* is what the pieces have become."""
    at, told = 0, exchange.opened_at
    for moment, piece in exchange.pieces:
        delay = moment - told
        step = {"delay": round(delay, 3)} if delay >= SHORTEST_DELAY_S else {}
        told = moment if step else told
        yield {**step, **_step(body[at : at + len(piece)])}
        at += len(piece)
    delay = exchange.ended_at - told
    is_late = delay >= SHORTEST_DELAY_S and exchange.end != "hang"
    if exchange.end != "clean" or is_late:
        yield {**({"delay": round(delay, 3)} if is_late else {}), "end": exchange.end}


def _step(piece: bytes) -> dict[str, Any]:
    text = _text(piece)
    if text is None:
        return {"b64": base64.b64encode(piece).decode()}
    return _record(text) or {"text": text}


def _record(text: str) -> dict[str, Any] | None:
    """The piece as one record, where it is one to the byte."""
    record: dict[str, Any] = {}
    for line in text.rstrip("\n").split("\n"):
        name, _, value = line.partition(": ")
        if name not in ("event", "id", "data") or name in record:
            return None
        record[name] = value
    for data in _readings(record.get("data")):
        step = {"sse": {**record, **data}}
        if step_bytes(step) == text.encode():
            return step
    return None


def _readings(data: str | None) -> Iterator[dict[str, Any]]:
    """The data as JSON, where it is, and as the string that goes out as it is."""
    if data is None:
        return
    try:
        value = json.loads(data)
        if not isinstance(value, str):
            yield {"data": value}
    except (ValueError, RecursionError):
        pass
    yield {"data": data}


def _text(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None
