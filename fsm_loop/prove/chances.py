"""What may come of a call, and how likely it is: a profile, and the events that each thing in it stands for.

Chances are per call and independent of each other; what they leave is an answer. Whatever else a turn waits for has
one answer (the limiter grants, a timer fires, a cut is judged), but for the three that a profile may give a chance.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

from attrs import field, fields_dict, frozen

from fsm_loop.core import events as e
from fsm_loop.core.events import PortEvent
from fsm_loop.core.faults import Fault, FaultKind
from fsm_loop.core.messages import Finish, Reply, ToolCall, Usage
from fsm_loop.errors import ConfigError

PROFILES = ("calm", "flaky_network", "rate_limited", "long_answers", "outage")
ANSWER = "answer"
ROUNDING = 1e-9  # by how much chances may add up to more than 1

Facts = tuple[type[PortEvent], dict[str, Any]]


@frozen
class Asked:
    """A call that is out: whose attempt it is, whether it streams, and what a reply to it costs."""

    attempt: int
    stream: bool
    usage: Usage
    retry_after_s: float | None


@frozen
class Thing:
    """Something that may come of a call: a sentence, what it is in events, and which time it takes.

    `began` says that the model gave a sign of life first; `lasts` names the setting that says how long it takes,
    empty where it takes the profile's `call_s`.
    """

    says: str
    comes: Callable[[Asked], Facts]
    began: bool = True
    lasts: str = ""


def _call(asked: Asked, **facts: str) -> ToolCall:
    return ToolCall(f"call_{asked.attempt}", "look", **facts)


def _replied(finish: Finish, text: str = "", reasoning: str = "", **call: str) -> Callable[[Asked], Facts]:
    def comes(asked: Asked) -> Facts:
        calls = (_call(asked, **call),) if call else ()
        told = text.format(asked.attempt)
        return e.ModelReplied, {"reply": Reply(told, calls, reasoning, finish, asked.usage)}

    return comes


def _failed(kind: FaultKind, *, waits: bool = False) -> Callable[[Asked], Facts]:
    def comes(asked: Asked) -> Facts:
        return e.ModelFailed, {"fault": Fault(kind, retry_after_s=asked.retry_after_s if waits else None)}

    return comes


def _broke_off(kind: FaultKind, text: str = "", *, in_call: bool = False) -> Callable[[Asked], Facts]:
    """A stream that drops or stalls; what is not a stream can only fail."""

    def comes(asked: Asked) -> Facts:
        if not asked.stream:
            return e.ModelFailed, {"fault": Fault(kind)}
        calls = (_call(asked, arguments='{"'),) if in_call else ()
        event = e.StreamStalled if kind is FaultKind.STALLED else e.StreamDropped
        return event, {"fault": Fault(kind), "partial": Reply(text.format(asked.attempt), calls)}

    return comes


# fmt: off
PIECE = "piece {} of it "  # a text that has not been said before
THINGS: Mapping[str, Thing] = {
    "tool_round":         Thing("the reply asks for a tool that can be run",              _replied(Finish.TOOL_CALLS, arguments="{}")),
    "bad_tool_calls":     Thing("none of the tool calls of the reply can be run",         _replied(Finish.TOOL_CALLS, arguments="{}", problem="there is no such tool")),
    "paused":             Thing("the provider pauses the reply",                          _replied(Finish.PAUSED, PIECE)),
    "cut_text":           Thing("text is cut at the output limit",                        _replied(Finish.LENGTH, PIECE)),
    "cut_call":           Thing("a tool call is cut at the output limit",                 _replied(Finish.LENGTH, arguments='{"')),
    "only_reasoned":      Thing("the reply is cut before any text of it",                 _replied(Finish.LENGTH, reasoning="Hm.")),
    "repeats":            Thing("text is cut that says one thing over and over",          _replied(Finish.LENGTH, "round and " * 40)),
    "window_full":        Thing("text is cut because the model's window is full",         _replied(Finish.WINDOW_FULL, PIECE)),
    "empty":              Thing("the reply says nothing",                                 _replied(Finish.STOP)),
    "refusal":            Thing("the provider refuses the content",                       _replied(Finish.REFUSED, "No.")),
    "drop_before_text":   Thing("the stream breaks off before any text",                  _broke_off(FaultKind.DROPPED)),
    "drop_after_text":    Thing("the stream breaks off in the text",                      _broke_off(FaultKind.DROPPED, PIECE)),
    "drop_in_call":       Thing("the stream breaks off in a tool call, behind text",      _broke_off(FaultKind.DROPPED, PIECE, in_call=True)),
    "stall_before_text":  Thing("nothing comes for first_token_timeout_s",                _broke_off(FaultKind.STALLED), began=False, lasts="first_token_timeout_s"),
    "stall_after_text":   Thing("nothing more comes for stale_after_s",                   _broke_off(FaultKind.STALLED, PIECE), lasts="stale_after_s"),
    "connect_failed":     Thing("the connection cannot be made",                          _failed(FaultKind.CONNECT_FAILED), began=False),
    "rate_limited":       Thing("429, with Retry-After of retry_after_s",                 _failed(FaultKind.RATE_LIMITED, waits=True), began=False),
    "overloaded":         Thing("the provider is overloaded (503, 529)",                  _failed(FaultKind.OVERLOADED), began=False),
    "server_error":       Thing("another 5xx",                                            _failed(FaultKind.SERVER_ERROR), began=False),
    "malformed":          Thing("the reply has no shape that can be read",                _failed(FaultKind.MALFORMED), began=False),
    "misspoke":           Thing("the model writes a tool call that cannot be read",       _failed(FaultKind.MISSPOKE)),
    "quota_spent":        Thing("the account's quota or credit is spent",                 _failed(FaultKind.QUOTA_SPENT), began=False),
    "too_long":           Thing("the request is longer than the model can read",          _failed(FaultKind.CONTEXT_TOO_LONG), began=False),
    "credential_expired": Thing("the credential is no longer accepted",                   _failed(FaultKind.CREDENTIAL_EXPIRED), began=False),
    "bad_unicode":        Thing("the request holds text that UTF-8 cannot carry",         _failed(FaultKind.BAD_UNICODE), began=False),
    "bad_request":        Thing("the provider cannot accept the request",                 _failed(FaultKind.BAD_REQUEST), began=False),
}
ANSWERED = Thing("the model answers", _replied(Finish.STOP, "It is a door."))
# fmt: on


def _number(low: float, high: float | None, sentence: str, default: float) -> Any:
    return field(default=default, metadata={"low": low, "high": high, "says": sentence})


@frozen(slots=False)
class Profile:
    """How likely each thing is, per call, and what a call takes.

    `fallback_chances` are those of the providers behind the first, None where they are the same. A reply is taken to read `input_tokens` and to write `output_tokens`; a call that fails reports none.
    """

    name: str
    says: str = ""
    chances: Mapping[str, float] = field(factory=dict)
    fallback_chances: Mapping[str, float] | None = None
    input_tokens: int = _number(0, None, "tokens that a request is long", 1000)
    output_tokens: int = _number(0, None, "tokens that a reply is long", 300)
    call_s: float = _number(0, None, "seconds that a call takes, but for one that stalls", 5.0)
    tool_s: float = _number(0, None, "seconds that a round of tools takes", 1.0)
    retry_after_s: float = _number(0, None, "seconds that a 429 asks to wait; 0 asks for none", 0.0)
    repair_fails: float = _number(0, 1, "chance that a repair cannot change the request", 0.0)
    provider_not_ready: float = _number(0, 1, "chance that the next provider cannot be made ready", 0.0)
    tool_loop: float = _number(0, 1, "chance that a round of tools is stopped for going round and round", 0.0)

    @cached_property
    def of_each(self) -> tuple[tuple[tuple[str, float], ...], ...]:
        """What may come of a call and how likely it is: of the first provider, and of the others."""
        first = _with_answer(self.chances)
        return first, first if self.fallback_chances is None else _with_answer(self.fallback_chances)

    def of(self, provider: int) -> tuple[tuple[str, float], ...]:
        """What may come of a call to the provider at this place of the chain, and how likely each thing is."""
        return self.of_each[min(provider, 1)]


def _with_answer(chances: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    given = [(name, chance) for name, chance in chances.items() if chance]
    rest = 1 - sum(chance for _, chance in given)
    return (*given, *([(ANSWER, rest)] if rest > ROUNDING else []))


# ---------------------------------------------------------------- from a file

NUMBERS = {name: each.metadata for name, each in fields_dict(Profile).items() if each.metadata}
TABLES = ("chances", "fallback_chances")


def profile_of(named: str) -> Profile:
    """A profile that comes with the package, by its name, or the one in a TOML file.

    Raises ConfigError where there is none, or what it says is not valid: everything that is wrong, at once.
    """
    if named in PROFILES:
        text = resources.files("fsm_loop.prove").joinpath("profiles", f"{named}.toml").read_text(encoding="utf-8")
        return profile_from(named, tomllib.loads(text))
    if not Path(named).is_file():
        raise ConfigError(f"profile {named}: there is no such file, and the profiles here are {', '.join(PROFILES)}")
    try:
        document = tomllib.loads(Path(named).read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"profile {named}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"profile {named}: is not TOML: {error}") from error
    return profile_from(Path(named).stem, document, named)


def profile_from(name: str, document: Mapping[str, Any], source: str = "") -> Profile:
    """The profile that a document stands for; raises ConfigError with all that is wrong in it."""
    wrong = list(_wrong(document))
    if wrong:
        raise ConfigError(
            f"profile {source or name}: " + ("\n  ".join(["", *wrong]).strip() if wrong[1:] else wrong[0])
        )
    return Profile(name, **document)


def _wrong(document: Mapping[str, Any]) -> Iterator[str]:
    allowed = ("says", *NUMBERS, *TABLES)
    for key in document.keys() - set(allowed):
        where = "; did you mean it to stand under [chances]?" if key in THINGS else ""
        yield f"{key!r} is no key of a profile: allowed are {', '.join(allowed)}{where}"
    if not isinstance(document.get("says", ""), str):
        yield f"says = {document['says']!r} is not a text"
    for key, facts in NUMBERS.items():
        yield from _wrong_number(key, document.get(key, 0), facts["low"], facts["high"], facts["says"])
    for title in TABLES:
        yield from _wrong_table(title, document.get(title, {}))


def _wrong_table(title: str, table: object) -> Iterator[str]:
    if not isinstance(table, dict):
        yield f"{title} is no table: write [{title}], and a line for each thing under it"
        return
    for key in table.keys() - THINGS.keys():
        hint = "; an answer is what the other chances leave" if key == ANSWER else ""
        yield f"{key!r} under [{title}] is nothing that comes of a call: allowed are {', '.join(THINGS)}{hint}"
    wrong = [said for key in table.keys() & THINGS.keys() for said in _wrong_number(key, table[key], 0, 1, "a chance")]
    yield from wrong
    if not wrong and (total := sum(table[key] for key in table.keys() & THINGS.keys())) > 1 + ROUNDING:
        yield f"the chances under [{title}] add up to {total:g}: lower them to 1 or less; what they leave is an answer"


def _wrong_number(key: str, value: object, low: float, high: float | None, says: str) -> Iterator[str]:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not low <= value < float("inf") or (high is not None and value > high):  # type: ignore[operator]
        allowed = f"{low:g} or more" if high is None else f"from {low:g} to {high:g}"
        yield f"{key} = {value!r} is not allowed: it must be a number {allowed} ({says})"
