"""Every limit and delay of a turn, each with its unit, its default and the names it is set by.

A value comes from Python, from a TOML file or from the environment, and is refused alike wherever it comes from:
never replaced by a default in silence. Everything that is wrong is said at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

import attrs

from fsm_loop.errors import ConfigError

if TYPE_CHECKING:
    import os

PREFIX = "FSM_LOOP_"
TABLE = "fsm_loop"
# Variables with the prefix that other parts of the project read; they set nothing here.
OTHER_VARIABLES = frozenset({"FSM_LOOP_HYPOTHESIS"})


@attrs.frozen(kw_only=True)
class Allowed:
    """What a value may be: a number from `low` to `high`, whole or not, perhaps none, perhaps several."""

    whole: bool = False
    low: float = 0
    above: bool = False  # low itself is not allowed
    high: float | None = None
    none: bool = False
    many: bool = False

    def refusal(self, value: object) -> str | None:
        """Why *value* is not allowed; None where it is."""
        if value is None and self.none:
            return None
        return self._refusal_of_many(value) if self.many else self._refusal_of_one(value)

    def _refusal_of_many(self, value: object) -> str | None:
        if not isinstance(value, tuple):
            return "is not a list of numbers"
        refused = ((entry, self._refusal_of_one(entry)) for entry in value)
        return next((f"holds {_shown(entry)}, which {why}" for entry, why in refused if why), None)

    def _refusal_of_one(self, value: object) -> str | None:
        # True is an int to Python, but nobody who writes it means one.
        if isinstance(value, bool) or not isinstance(value, int if self.whole else int | float):
            return "is not a whole number" if self.whole else "is not a number"
        if not self.whole and not _finite(value):
            return "is not finite"
        if value < self.low or (self.above and value == self.low):
            return "is too small"
        return "is too large" if self.high is not None and value > self.high else None

    def words(self, unit: str) -> str:
        """What is allowed, for the one who has to choose another value."""
        kind = "whole number" if self.whole else "finite number"
        if self.many:
            return f"a list of {kind}s, each {self._range()} ({unit})"
        return f"a {kind}, {self._range()} ({unit})" + (", or none" if self.none else "")

    def _range(self) -> str:
        if self.high is not None:
            return f"{self.low:g} to {self.high:g}"
        return f"more than {self.low:g}" if self.above else f"{self.low:g} or more"

    def tidy(self, value: object) -> object:
        """The value in the one type of its field, so that equal configs look alike; what is not allowed, unchanged."""
        same = tuple(value) if self.many and isinstance(value, list) else value
        if same is None or self.refusal(same):
            return same
        kind = int if self.whole else float
        return tuple(map(kind, cast("tuple[float, ...]", same))) if self.many else kind(cast("float", same))

    def parse(self, text: str) -> object:
        """The value that the text of a variable stands for; the text itself where it stands for none."""
        if self.many and not text.strip():
            return ()
        try:
            return tuple(map(float, text.split(","))) if self.many else self._parse_one(text)
        except ValueError:
            return self.parse_none(text)

    def _parse_one(self, text: str) -> float:
        return int(text) if self.whole else float(text)

    def parse_none(self, value: object) -> object:
        """None for the word "none", where none is allowed: a file and a variable have no other way to say it."""
        said = isinstance(value, str) and value.strip().lower() == "none"
        return None if self.none and said else value


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that no float can hold
        return False


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python writes out no whole number of more than some thousand digits
        text = "a number too long to show"
    return text if len(text) <= 80 else f"{text[:77]}..."  # noqa: PLR2004  # one line of a terminal


def _setting(default: object, allowed: Allowed, unit: str, sentence: str, *aliases: str) -> Any:
    """One field of LoopConfig, and all that is to be said of it."""
    said = {"unit": unit, "sentence": sentence, "aliases": aliases, "allowed": allowed}
    return attrs.field(default=default, converter=allowed.tidy, metadata=said)


def _name_variables(_: type, fields: list[attrs.Attribute[Any]]) -> list[attrs.Attribute[Any]]:
    """The fields, each with the environment variables that set it; the first that is set wins."""
    named = ((each, (PREFIX + each.name.upper(), *each.metadata["aliases"])) for each in fields)
    return [each.evolve(metadata={**each.metadata, "env": env}) for each, env in named]


class Row(NamedTuple):
    """One line of the table of settings."""

    name: str
    default: object
    unit: str
    env: tuple[str, ...]
    sentence: str


_CAP = Allowed(whole=True)
_SWITCH = Allowed(whole=True, high=1)
_LIMIT = Allowed(whole=True, none=True)
_MEASURE = Allowed(none=True)
_DELAY = Allowed()
_PLAN = Allowed(many=True)
_FRACTION = Allowed(high=1)
_TIMER = Allowed(above=True)
_TIMER_OR_NONE = Allowed(above=True, none=True)
_SIZE = Allowed(whole=True, low=1)
_SIZE_OR_NONE = Allowed(whole=True, low=1, none=True)


@attrs.frozen(kw_only=True, field_transformer=_name_variables)
class LoopConfig:
    """Every limit and delay of a turn. Of whatever is counted, 0 allows none; None, where it may stand, is no limit."""

    # fmt: off
    # What is counted.
    max_requests: int             = _setting(160, _CAP, "requests", "Requests on the wire in one turn, all but the grace call.")
    max_iterations: int           = _setting(40, _CAP, "iterations", "Replies whose tools are run, and paused replies, in one turn.")
    grace_calls: int              = _setting(1, _SWITCH, "calls", "The one last request, with tools off, when the budget is spent.")
    api_max_retries: int          = _setting(3, _CAP, "retries", "Failed calls retried after backoff; one more attempt than this is made.")
    stream_retries: int           = _setting(2, _CAP, "reconnects", "Silent reconnects after a dropped stream; one more attempt than this is made.", "HERMES_STREAM_RETRIES")
    continuations: int            = _setting(3, _CAP, "prompts", "Prompts to go on after text that was cut.")
    boosts: int                   = _setting(3, _CAP, "requests", "Requests made again with a larger output limit, or with less reasoning.")
    empty_replies: int            = _setting(2, _CAP, "nudges", "Nudges after an empty reply.")
    bad_tool_rounds: int          = _setting(3, _CAP, "rounds", "Rounds in which no tool call was valid.")
    sanitizations: int            = _setting(2, _CAP, "repairs", "Repairs of text that UTF-8 cannot carry.")
    compactions: int              = _setting(3, _CAP, "repairs", "Compactions of a request that is too long.")
    credential_refreshes: int     = _setting(2, _CAP, "repairs", "Refreshes of an expired credential.")
    output_limit_repairs: int     = _setting(2, _CAP, "repairs", "Lowerings of an output limit that the provider refused.")
    history_repairs: int          = _setting(2, _CAP, "repairs", "Mendings of a message history that the provider refused.")
    media_repairs: int            = _setting(1, _CAP, "repairs", "Removals of media that the provider refused.")
    parameter_repairs: int        = _setting(2, _CAP, "repairs", "Parameters left out because the provider does not know them.")
    stream_switches: int          = _setting(2, _CAP, "repairs", "Providers asked without streaming because they cannot stream.")
    recoveries: int               = _setting(5, _CAP, "cycles", "Waits for an outage to pass, once retries and fallbacks are spent.")
    rebuilds: int                 = _setting(3, _CAP, "rebuilds", "Rebuilds of the request that the host asked for; a reply refills them.")
    slot_waits: int               = _setting(1, _CAP, "waits", "Waits for the local limiter's slot before one request.")
    tokens: int | None            = _setting(None, _LIMIT, "tokens", "Tokens read and written in one turn.")
    cost: float | None            = _setting(None, _MEASURE, "US dollars", "Money spent in one turn.")
    turn_seconds: float | None    = _setting(None, _MEASURE, "seconds", "Time from the user's word to the end of the turn.")
    # How long is waited.
    base_delay_s: float           = _setting(5.0, _DELAY, "seconds", "The first backoff; each further one is twice the last.")
    max_delay_s: float            = _setting(120.0, _DELAY, "seconds", "The backoff that doubling stops at, before jitter.")
    jitter: float                 = _setting(0.25, _FRACTION, "fraction of the delay", "How far chance moves a backoff, either way.")
    max_wait_s: float             = _setting(600.0, _DELAY, "seconds", "The longest single wait that a provider may ask for.")
    recovery_plan_s: tuple[float, ...] = _setting((15.0, 30.0, 60.0, 60.0, 60.0), _PLAN, "seconds", "The wait of each recovery cycle in turn; the last one repeats.")
    # How long silence is borne.
    connect_timeout_s: float      = _setting(30.0, _TIMER, "seconds", "Time for a connection to stand.")
    first_token_timeout_s: float  = _setting(300.0, _TIMER, "seconds", "Time until the first sign of life; a long prefill is healthy.")
    stale_after_s: float          = _setting(90.0, _TIMER, "seconds", "Silence since the last progress after which a stream has stalled.")
    call_deadline_s: float        = _setting(1800.0, _TIMER, "seconds", "Time for one attempt, however steadily it drips.")
    read_timeout_s: float         = _setting(60.0, _TIMER, "seconds", "Time to read whatever is not a stream.")
    linger_s: float               = _setting(10.0, _TIMER, "seconds", "Time that a reply which has ended may keep its connection open.")
    tool_timeout_s: float | None  = _setting(300.0, _TIMER_OR_NONE, "seconds", "Time for one tool call.")
    # How large, and how many at once.
    max_output_tokens: int | None = _setting(None, _SIZE_OR_NONE, "tokens", "The output limit that a request begins with; none is the provider's own.")
    output_ceiling_tokens: int    = _setting(32768, _SIZE, "tokens", "The output limit that boosts never go above.")
    tool_workers: int             = _setting(8, _SIZE, "threads", "Tools that run at the same time.")
    requests_per_minute: int | None = _setting(None, _SIZE_OR_NONE, "requests a minute", "The local rate limit of one provider.")
    limiter_margin_s: float       = _setting(0.5, _DELAY, "seconds", "Time added to each wait for the local rate limit.")
    # fmt: on

    def __attrs_post_init__(self) -> None:
        """Refuse what is not allowed, all of it at once."""
        given = [_Given(name, name, getattr(self, name)) for name in _fields()]
        _refuse([*_refusals(given), *_at_odds(given)])

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Self:
        """The defaults, but for what a TOML file sets: at its top, in [fsm_loop], or in [tool.fsm_loop]."""
        return cls._of(None, _said_by_file(path))

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None, base: LoopConfig | None = None) -> Self:
        """*base* or the defaults, but for what environment variables set."""
        return cls._of(base, _said_by_environment(environ))

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str] | None = None,
        environ: Mapping[str, str] | None = None,
        **overrides: object,
    ) -> Self:
        """Overrides before the environment, that before the file, that before the defaults."""
        said = () if path is None else (_said_by_file(path),)
        return cls._of(None, *said, _said_by_environment(environ), _said_by_arguments(overrides))

    @classmethod
    def _of(cls, base: LoopConfig | None, *said: _Said) -> Self:
        """*base*, then each source in turn; a bad value is refused even where a later source says better."""
        given = [each for one in said for each in one.given]
        start = base or cls()
        merged = {name: _Given(name, name, getattr(start, name)) for name in _fields()}
        merged.update((each.name, each) for each in given)
        problems = [problem for one in said for problem in one.problems]
        _refuse([*problems, *_refusals(given), *_at_odds(merged.values())])
        values: dict[str, Any] = {name: each.value for name, each in merged.items()}
        return cls(**values)

    @staticmethod
    def describe() -> tuple[Row, ...]:
        """One row for each setting, in the order in which they are declared."""
        return tuple(
            Row(name, each.default, *(each.metadata[key] for key in ("unit", "env", "sentence")))
            for name, each in _fields().items()
        )

    def delay_s(self, retry: int, chance: float) -> float:
        """The wait before this retry, 0 being the first: doubled up to max_delay_s, then moved by the jitter."""
        if retry < 0 or not 0 <= chance <= 1:
            raise ValueError(f"delay_s({retry}, {chance}): a retry is 0 or more, a chance is in [0, 1)")
        try:
            grown = min(math.ldexp(self.base_delay_s, retry), self.max_delay_s)
        except OverflowError:
            grown = self.max_delay_s
        return grown * (1 - self.jitter + 2 * self.jitter * chance)

    def recovery_s(self, cycle: int, chance: float) -> float:  # noqa: ARG002  # asked as delay_s is; the plan leaves nothing to chance
        """The planned wait of this recovery cycle, 0 being the first; no wait where there is no plan."""
        if cycle < 0:
            raise ValueError(f"recovery cycles are counted from 0, not from {cycle}")
        plan = self.recovery_plan_s or (0.0,)
        return plan[min(cycle, len(plan) - 1)]


class _Given(NamedTuple):
    """What one source says of one field; `label` is what the user knows it by."""

    name: str
    label: str
    value: object


class _Said(NamedTuple):
    """All that one source says, and what in it cannot be understood."""

    given: list[_Given]
    problems: list[str]


@cache
def _fields() -> dict[str, attrs.Attribute[Any]]:
    return attrs.fields_dict(LoopConfig)


def _allowed(name: str) -> Allowed:
    return cast("Allowed", _fields()[name].metadata["allowed"])


def _refuse(problems: list[str]) -> None:
    if len(problems) == 1:
        raise ConfigError(problems[0])
    if problems:
        raise ConfigError("\n  ".join([f"{len(problems)} settings are not valid:", *problems]))


def _refusals(given: Iterable[_Given]) -> Iterable[str]:
    for name, label, value in given:
        why = _allowed(name).refusal(_allowed(name).tidy(value))
        if why:
            unit = _fields()[name].metadata["unit"]
            yield f"{label}: {_shown(value)} {why}; allowed: {_allowed(name).words(unit)}"


def _at_odds(given: Iterable[_Given]) -> Iterable[str]:
    """What is allowed by itself, but not together; values that are refused anyway are left out."""
    good = {each.name: each for each in given if not any(_refusals([each]))}
    yield from _base_above_max(good)
    yield from _no_plan(good)


def _base_above_max(good: Mapping[str, _Given]) -> Iterable[str]:
    base, most = good.get("base_delay_s"), good.get("max_delay_s")
    if base and most and cast("float", base.value) > cast("float", most.value):
        yield f"{base.label}: {base.value} is more than {most.label}, {most.value}; allowed: at most that (seconds)"


def _no_plan(good: Mapping[str, _Given]) -> Iterable[str]:
    plan, cycles = good.get("recovery_plan_s"), good.get("recoveries")
    if plan and cycles and cycles.value and not plan.value:
        yield f"{plan.label}: there is no wait for {cycles.label}, {cycles.value}; allowed: at least one wait (seconds)"


def _unknown(name: str, source: str, known: Mapping[str, str]) -> str:
    """That a name means nothing here, and what may have been meant; *known* maps what is compared to what is shown."""
    from difflib import get_close_matches

    near = [known[match] for match in get_close_matches(name.removeprefix(PREFIX), known)]
    return f"{name!r} ({source}): no such name" + (f"; near: {', '.join(near)}" if near else "")


def _said_by_environment(environ: Mapping[str, str] | None) -> _Said:
    import os

    # Read once: the real environment may change while it is looked through.
    variables = dict(os.environ if environ is None else environ)
    env = {name: each.metadata["env"] for name, each in _fields().items()}
    first = ((name, next((one for one in names if one in variables), None)) for name, names in env.items())
    given = [_Given(name, one, _allowed(name).parse(variables[one])) for name, one in first if one]
    # Compared without the prefix, which would make every name look near.
    known = {names[0].removeprefix(PREFIX): names[0] for names in env.values()}
    strange = sorted(each for each in variables if each.startswith(PREFIX) and each not in OTHER_VARIABLES)
    unknown = [each for each in strange if each.removeprefix(PREFIX) not in known]
    return _Said(given, [_unknown(each, "environment", known) for each in unknown])


def _said_by_arguments(overrides: Mapping[str, object]) -> _Said:
    known = {name: name for name in _fields()}
    given = [_Given(name, name, value) for name, value in overrides.items() if name in known]
    return _Said(given, [_unknown(name, "argument", known) for name in overrides if name not in known])


def _said_by_file(path: str | os.PathLike[str]) -> _Said:
    """All that a TOML file says; a file that cannot be read says nothing, and that is a problem too."""
    import tomllib
    from pathlib import Path

    try:
        # An editor's byte order mark is not the user's fault.
        document = tomllib.loads(Path(path).read_bytes().decode("utf-8-sig"))
    except OSError as error:
        return _Said([], [f"{path}: cannot be read: {error.strerror}"])
    except ValueError as error:
        return _Said([], [f"{path}: is not TOML: {error}"])
    return _said_by_document(document, Path(path).name == "pyproject.toml", str(path))


def _said_by_document(document: Mapping[str, Any], pyproject: bool, source: str) -> _Said:  # noqa: FBT001  # two layouts
    """What the table that is ours says; in a file without one, the whole file is ours."""
    tool = document.get("tool")
    tools = tool if isinstance(tool, dict) else {}
    if pyproject or TABLE in tools:
        return _said_by_table(tools.get(TABLE), f"[tool.{TABLE}]", source)
    if TABLE not in document:
        return _said_by_table(document, "", source)
    said = _said_by_table(document[TABLE], f"[{TABLE}]", source)
    # Other tables may be other programs'; a value that stands alone is nobody's, and would be lost in silence.
    stray = [key for key, value in document.items() if key != TABLE and not isinstance(value, dict)]
    outside = [f"{key!r} ({source}): stands outside of [{TABLE}]" for key in stray]
    return _Said(said.given, said.problems + outside)


def _said_by_table(table: object, title: str, source: str) -> _Said:
    """What one table says, its keys being names of fields."""
    if not isinstance(table, dict):
        return _Said([], [f"{source}: there is no table {title}"])
    known = {name: name for name in _fields()}
    given = [
        _Given(key, f"{key} ({source})", _allowed(key).parse_none(value))
        for key, value in table.items()
        if key in known
    ]
    return _Said(given, [_unknown(key, source, known) for key in table if key not in known])
