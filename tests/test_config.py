"""Settings: their defaults, what each may be, where they come from, and what is said of a wrong one."""

from __future__ import annotations

import ast
import math
import os
import pickle
import sys
from pathlib import Path

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fsm_loop import config as module
from fsm_loop.config import LoopConfig
from fsm_loop.errors import ConfigError

MOST = sys.float_info.max
PLAN = (15.0, 30.0, 60.0, 60.0, 60.0)

# What each may be is told once more here, by hand: what is read from the code would agree with it always.
CAP = {"whole": True, "low": 0}
SIZE = {"whole": True, "low": 1}
DELAY = {"whole": False, "low": 0}
TIMER = {"whole": False, "low": math.nextafter(0, 1)}

# fmt: off
SETTINGS = [
    # name                    default  unit                     what it may be
    ("max_requests",          160,     "requests",              CAP),
    ("max_iterations",        40,      "iterations",            CAP),
    ("grace_calls",           1,       "calls",                 CAP | {"high": 1}),
    ("api_max_retries",       3,       "retries",               CAP),
    ("stream_retries",        2,       "reconnects",            CAP),
    ("continuations",         3,       "prompts",               CAP),
    ("boosts",                3,       "requests",              CAP),
    ("empty_replies",         2,       "nudges",                CAP),
    ("bad_tool_rounds",       3,       "rounds",                CAP),
    ("sanitizations",         2,       "repairs",               CAP),
    ("compactions",           3,       "repairs",               CAP),
    ("credential_refreshes",  2,       "repairs",               CAP),
    ("output_limit_repairs",  2,       "repairs",               CAP),
    ("history_repairs",       2,       "repairs",               CAP),
    ("media_repairs",         1,       "repairs",               CAP),
    ("parameter_repairs",     2,       "repairs",               CAP),
    ("stream_switches",       2,       "repairs",               CAP),
    ("recoveries",            5,       "cycles",                CAP),
    ("rebuilds",              3,       "rebuilds",              CAP),
    ("slot_waits",            1,       "waits",                 CAP),
    ("tokens",                None,    "tokens",                CAP | {"none": True}),
    ("cost",                  None,    "US dollars",            DELAY | {"none": True}),
    ("turn_seconds",          None,    "seconds",               DELAY | {"none": True}),
    ("base_delay_s",          5.0,     "seconds",               DELAY),
    ("max_delay_s",           120.0,   "seconds",               DELAY),
    ("jitter",                0.25,    "fraction of the delay", DELAY | {"high": 1.0}),
    ("max_wait_s",            600.0,   "seconds",               DELAY),
    ("recovery_plan_s",       PLAN,    "seconds",               DELAY | {"many": True}),
    ("connect_timeout_s",     30.0,    "seconds",               TIMER),
    ("first_token_timeout_s", 300.0,   "seconds",               TIMER),
    ("stale_after_s",         90.0,    "seconds",               TIMER),
    ("call_deadline_s",       1800.0,  "seconds",               TIMER),
    ("read_timeout_s",        60.0,    "seconds",               TIMER),
    ("linger_s",              10.0,    "seconds",               TIMER),
    ("tool_timeout_s",        300.0,   "seconds",               TIMER | {"none": True}),
    ("max_output_tokens",     None,    "tokens",                SIZE | {"none": True}),
    ("output_ceiling_tokens", 32768,   "tokens",                SIZE),
    ("tool_workers",          8,       "threads",               SIZE),
    ("requests_per_minute",   None,    "requests a minute",     SIZE | {"none": True}),
    ("limiter_margin_s",      0.5,     "seconds",               DELAY),
]
REFUSALS = [
    ({"stream_retries": -1},     "stream_retries: -1 is too small; allowed: a whole number, 0 or more (reconnects)"),
    ({"stream_retries": 2.0},    "stream_retries: 2.0 is not a whole number; allowed: a whole number, 0 or more (reconnects)"),
    ({"stream_retries": True},   "stream_retries: True is not a whole number; allowed: a whole number, 0 or more (reconnects)"),
    ({"grace_calls": 2},         "grace_calls: 2 is too large; allowed: a whole number, 0 to 1 (calls)"),
    ({"jitter": 1.5},            "jitter: 1.5 is too large; allowed: a finite number, 0 to 1 (fraction of the delay)"),
    ({"stale_after_s": 0},       "stale_after_s: 0 is too small; allowed: a finite number, more than 0 (seconds)"),
    ({"stale_after_s": math.nan}, "stale_after_s: nan is not finite; allowed: a finite number, more than 0 (seconds)"),
    ({"stale_after_s": None},    "stale_after_s: None is not a number; allowed: a finite number, more than 0 (seconds)"),
    ({"tool_timeout_s": "5"},    "tool_timeout_s: '5' is not a number; allowed: a finite number, more than 0 (seconds), or none"),
    ({"recovery_plan_s": 15},    "recovery_plan_s: 15 is not a list of numbers; allowed: a list of finite numbers, each 0 or more (seconds)"),
    ({"recovery_plan_s": (15, -1)}, "recovery_plan_s: (15, -1) holds -1, which is too small; allowed: a list of finite numbers, each 0 or more (seconds)"),
    ({"recovery_plan_s": ()},    "recovery_plan_s: there is no wait for recoveries, 5; allowed: at least one wait (seconds)"),
    ({"base_delay_s": 200},      "base_delay_s: 200.0 is more than max_delay_s, 120.0; allowed: at most that (seconds)"),
    ({"tokens": "9" * 90},       f"tokens: '{'9' * 76}... is not a whole number; allowed: a whole number, 0 or more (tokens), or none"),
    ({"cost": 10**5000},         "cost: a number too long to show is not finite; allowed: a finite number, 0 or more (US dollars), or none"),
    ({"boosts": -1, "jitter": 2, "base_delay_s": 200, "max_delay_s": -1}, (
        "3 settings are not valid:\n"
        "  boosts: -1 is too small; allowed: a whole number, 0 or more (requests)\n"
        "  max_delay_s: -1 is too small; allowed: a finite number, 0 or more (seconds)\n"
        "  jitter: 2 is too large; allowed: a finite number, 0 to 1 (fraction of the delay)"
    )),
]
VARIABLES = [
    ({"FSM_LOOP_STREAM_RETRIES": "high"},   "FSM_LOOP_STREAM_RETRIES: 'high' is not a whole number; allowed: a whole number, 0 or more (reconnects)"),
    ({"HERMES_STREAM_RETRIES": "high"},     "HERMES_STREAM_RETRIES: 'high' is not a whole number; allowed: a whole number, 0 or more (reconnects)"),
    ({"FSM_LOOP_BOOSTS": ""},               "FSM_LOOP_BOOSTS: '' is not a whole number; allowed: a whole number, 0 or more (requests)"),
    ({"FSM_LOOP_BOOSTS": "none"},           "FSM_LOOP_BOOSTS: 'none' is not a whole number; allowed: a whole number, 0 or more (requests)"),
    ({"FSM_LOOP_LINGER_S": "inf"},          "FSM_LOOP_LINGER_S: inf is not finite; allowed: a finite number, more than 0 (seconds)"),
    ({"FSM_LOOP_RECOVERY_PLAN_S": "1,,30"}, "FSM_LOOP_RECOVERY_PLAN_S: '1,,30' is not a list of numbers; allowed: a list of finite numbers, each 0 or more (seconds)"),
    ({"FSM_LOOP_RECOVERY_PLAN_S": ""},      "FSM_LOOP_RECOVERY_PLAN_S: there is no wait for recoveries, 5; allowed: at least one wait (seconds)"),
    ({"FSM_LOOP_MAX_DELAY_S": "2"},         "base_delay_s: 5.0 is more than FSM_LOOP_MAX_DELAY_S, 2.0; allowed: at most that (seconds)"),
    ({"FSM_LOOP_STREAM_RETRY": "3"},        "'FSM_LOOP_STREAM_RETRY' (environment): no such name; near: FSM_LOOP_STREAM_RETRIES"),
    ({"FSM_LOOP_QQQ": "3"},                 "'FSM_LOOP_QQQ' (environment): no such name"),
    ({"FSM_LOOP_JITTER": "2", "FSM_LOOP_TOKEN": "3", "FSM_LOOP_COST": "x"}, (
        "3 settings are not valid:\n"
        "  'FSM_LOOP_TOKEN' (environment): no such name; near: FSM_LOOP_TOKENS\n"
        "  FSM_LOOP_COST: 'x' is not a number; allowed: a finite number, 0 or more (US dollars), or none\n"
        "  FSM_LOOP_JITTER: 2.0 is too large; allowed: a finite number, 0 to 1 (fraction of the delay)"
    )),
]
FILES = [
    ("a.toml",         "stream_retries = 'high'",                  "stream_retries (a.toml): 'high' is not a whole number; allowed: a whole number, 0 or more (reconnects)"),
    ("a.toml",         "[fsm_loop]\nboosts = 1.0",                 "boosts (a.toml): 1.0 is not a whole number; allowed: a whole number, 0 or more (requests)"),
    ("a.toml",         "base_delay_s = 9\nmax_delay_s = 8",        "base_delay_s (a.toml): 9 is more than max_delay_s (a.toml), 8; allowed: at most that (seconds)"),
    ("a.toml",         "base_delay = 9",                           "'base_delay' (a.toml): no such name; near: base_delay_s, max_delay_s"),
    ("a.toml",         "[fsm_lop]\nboosts = 1",                    "'fsm_lop' (a.toml): no such name"),
    ("a.toml",         "boosts = 1\n[fsm_loop]\njitter = 0",       "'boosts' (a.toml): stands outside of [fsm_loop]"),
    ("a.toml",         "fsm_loop = 3",                             "a.toml: there is no table [fsm_loop]"),
    ("a.toml",         "tool = 3",                                 "'tool' (a.toml): no such name"),
    ("pyproject.toml", "[tool.fsm_loop]\nbosts = 1",               "'bosts' (pyproject.toml): no such name; near: boosts, cost"),
    ("pyproject.toml", "[tool.fsm-loop]\nboosts = 1",              "pyproject.toml: there is no table [tool.fsm_loop]"),
    ("pyproject.toml", "boosts = 1",                               "pyproject.toml: there is no table [tool.fsm_loop]"),
    ("a.toml",         "boosts = ",                                "a.toml: is not TOML: Invalid value (at end of document)"),
]
HERMES = [
    ({}, 2), ({"HERMES_STREAM_RETRIES": "5"}, 5), ({"FSM_LOOP_STREAM_RETRIES": "0"}, 0),
    ({"HERMES_STREAM_RETRIES": "5", "FSM_LOOP_STREAM_RETRIES": "7"}, 7),
    ({"HERMES_STREAM_RETRIES": "high", "FSM_LOOP_STREAM_RETRIES": "7"}, 7),
    ({"HERMES_BASE_DELAY_S": "high", "FSM_LOOP_HYPOTHESIS": "long", "FSM_LOOPS": "1"}, 2),
]
LAYOUTS = [
    ("a.toml",         "boosts = 1"),
    ("a.toml",         "\ufeffboosts = 1"),
    ("a.toml",         "[fsm_loop]\nboosts = 1\n[other]\nx = 1"),
    ("a.toml",         "[tool.fsm_loop]\nboosts = 1\n[project]\nname = 'x'"),
    ("pyproject.toml", "[project]\nname = 'x'\n[tool.other]\ny = 1\n[tool.fsm_loop]\nboosts = 1"),
]
DELAYS = [
    (0, 0.0, 3.75), (0, 0.5, 5.0), (0, 1.0, 6.25), (1, 0.5, 10.0), (4, 0.5, 80.0), (5, 0.5, 120.0),
    (9, 0.0, 90.0), (9, 0.5, 120.0), (9, 1.0, 150.0), (1023, 0.5, 120.0), (10**30, 0.5, 120.0),
]
WRONG_CALLS = [
    ("delay_s", -1, 0.5,         "delay_s(-1, 0.5): a retry is 0 or more, a chance is in [0, 1)"),
    ("delay_s", 0, -0.1,         "delay_s(0, -0.1): a retry is 0 or more, a chance is in [0, 1)"),
    ("delay_s", 0, 1.1,          "delay_s(0, 1.1): a retry is 0 or more, a chance is in [0, 1)"),
    ("delay_s", 0, math.nan,     "delay_s(0, nan): a retry is 0 or more, a chance is in [0, 1)"),
    ("recovery_s", -1, 0.5,      "recovery cycles are counted from 0, not from -1"),
]
# fmt: on

# So that the two delays can go to their own ends, the other one is out of the way.
BESIDE = {"base_delay_s": {"max_delay_s": MOST}, "max_delay_s": {"base_delay_s": 0.0}}


def edges(whole, low, high=None, none=False):
    """Values on both sides of each end, and whether they are allowed."""
    before, after = (low - 1, low + 1) if whole else (math.nextafter(low, -math.inf), low * 2 + 0.5)
    yield from [(before, False), (low, True), (None, none), (True, False), ("high", False)]
    yield from [(math.nan, False), (math.inf, False), (-math.inf, False), (-1 if whole else -1.0, False)]
    yield from [(1.5, False)] if whole else [(10**400, False)]
    if high is None:
        yield from [(after, True), (10**400 if whole else MOST, True)]
    else:
        yield from [(high, True), (high + 1 if whole else math.nextafter(high, 2), False)]


def cases(may):
    """The edges of one setting, as its values; a plan is given as one wait."""
    plan = may.get("many")
    may = {key: end for key, end in may.items() if key != "many"}
    return [((value,) if plan and value is not None else value, allowed) for value, allowed in edges(**may)]


def as_python(name, value):
    """The config that comes of an argument."""
    return LoopConfig(**{name: value}, **BESIDE.get(name, {}))


def as_variable(name, value):
    """The config that comes of an environment variable."""
    shown = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return LoopConfig.from_env({f"FSM_LOOP_{name.upper()}": shown}, base=LoopConfig(**BESIDE.get(name, {})))


def as_toml(value):
    """The value as TOML writes it."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(as_toml, value))}]"
    return f'"{value}"' if isinstance(value, str) or value is None else repr(value).lower()


def as_file(name, value):
    """The config that comes of a TOML file in the working directory."""
    beside = [f"{key} = {as_toml(other)}" for key, other in BESIDE.get(name, {}).items()]
    Path("loop.toml").write_text("\n".join([f"{name} = {as_toml(value)}", *beside]), "utf-8")
    return LoopConfig.from_toml("loop.toml")


def refusal(make, *args, **kwargs):
    """What the error says, whole."""
    with pytest.raises(ConfigError) as refused:
        make(*args, **kwargs)
    return str(refused.value)


@pytest.fixture(autouse=True)
def _alone(tmp_path, monkeypatch):
    """Each test works in a folder of its own, and no variable of the machine it runs on is seen."""
    monkeypatch.chdir(tmp_path)
    for name in [each for each in os.environ if each.startswith(("FSM_LOOP_", "HERMES_"))]:
        monkeypatch.delenv(name)


def test_the_settings_are_these():
    """Names, defaults, units and variables are a contract; a sentence says what each is for."""
    rows = LoopConfig.describe()
    expected = [(name, default, unit, f"FSM_LOOP_{name.upper()}") for name, default, unit, _ in SETTINGS]

    assert [(row.name, row.default, row.unit, row.env[0]) for row in rows] == expected
    assert {row.name: row.env[1:] for row in rows if row.env[1:]} == {"stream_retries": ("HERMES_STREAM_RETRIES",)}
    assert all(row.sentence[0].isupper() and row.sentence.count(".") == 1 and row.sentence[-1] == "." for row in rows)
    assert all(getattr(LoopConfig(), row.name) == row.default for row in rows)


@pytest.mark.parametrize(("name", "may"), [(name, may) for name, _, _, may in SETTINGS])
def test_each_setting_keeps_to_its_ends_wherever_it_is_said(name, may):
    """On either side of each end, all three sources take the value as it is, or say alike what is allowed."""
    sources = (as_python, as_variable, as_file)
    labels = [name, f"FSM_LOOP_{name.upper()}", f"{name} (loop.toml)"]
    values = cases(may)
    taken = [value for value, allowed in values if allowed]
    said = [[refusal(make, name, value) for make in sources] for value, allowed in values if not allowed]

    assert [[getattr(make(name, value), name) for make in sources] for value in taken] == [[each] * 3 for each in taken]
    assert all(len({repr(make(name, value)) for make in sources}) == 1 for value in taken)
    assert all([each.split(":")[0] for each in three] == labels for three in said)
    assert len({each.rpartition("; allowed: ")[2] for three in said for each in three}) == 1


@pytest.mark.parametrize(("given_", "message"), REFUSALS)
def test_a_refusal_says_what_is_wrong_and_what_is_allowed(given_, message):
    """The error names each setting, its value, the reason and what would do: all of them at once."""
    assert refusal(LoopConfig, **given_) == message


@pytest.mark.parametrize(("environ", "message"), VARIABLES)
def test_a_wrong_variable_is_named(environ, message):
    """A variable that is not valid, or that nothing reads, is an error and never a silent default."""
    assert refusal(LoopConfig.from_env, environ) == message


@pytest.mark.parametrize(("name", "text", "message"), FILES)
def test_a_wrong_key_is_named_with_its_file(name, text, message):
    """A key that is not valid, or that nothing reads, is an error that names the file."""
    Path(name).write_text(text, "utf-8")

    assert refusal(LoopConfig.from_toml, name) == message


def test_a_file_that_cannot_be_read_is_named():
    """A file that is missing, is a folder or is not text is an error of the configuration."""
    Path("folder").mkdir()
    Path("bytes.toml").write_bytes(b"boosts = \xff")

    assert refusal(LoopConfig.from_toml, "none.toml") == "none.toml: cannot be read: No such file or directory"
    assert refusal(LoopConfig.from_toml, Path("folder")).startswith("folder: cannot be read: ")
    assert refusal(LoopConfig.from_toml, "bytes.toml").startswith("bytes.toml: is not TOML: 'utf-8' codec")


@pytest.mark.parametrize(("name", "text"), LAYOUTS)
def test_a_file_says_it_at_its_top_or_in_a_table(name, text):
    """Keys stand alone in a file of their own, or in a table of a file that is shared."""
    Path(name).write_text(text, "utf-8")

    assert LoopConfig.from_toml(name) == LoopConfig(boosts=1)


@pytest.mark.parametrize("text", ["none", "None", " NONE "])
def test_none_is_said_with_a_word(text):
    """Files and variables have no None, so that the word stands for it, where it may."""
    Path("a.toml").write_text(f"tool_timeout_s = '{text}'", "utf-8")

    assert LoopConfig.from_toml("a.toml").tool_timeout_s is None
    assert LoopConfig.from_env({"FSM_LOOP_TOOL_TIMEOUT_S": text}).tool_timeout_s is None


@pytest.mark.parametrize(("text", "expected"), [("15,30", (15, 30)), (" 1 , 2.5 ", (1, 2.5)), ("7", (7,))])
def test_a_plan_is_said_with_commas(text, expected):
    """The waits of the recovery plan stand in one variable."""
    assert LoopConfig.from_env({"FSM_LOOP_RECOVERY_PLAN_S": text}).recovery_plan_s == expected


@pytest.mark.parametrize(("environ", "expected"), HERMES)
def test_the_variable_of_hermes_is_honoured_unless_ours_is_set(environ, expected):
    """The alias sets stream_retries, our own variable wins, and what others read is left to them."""
    assert LoopConfig.from_env(environ) == LoopConfig(stream_retries=expected)


def test_the_real_environment_is_read_when_none_is_given(monkeypatch):
    """Without a mapping the variables of the process are read, for from_env and for load."""
    monkeypatch.setenv("FSM_LOOP_BOOSTS", "1")

    assert LoopConfig.from_env() == LoopConfig.load() == LoopConfig(boosts=1)
    assert LoopConfig.from_env({}) == LoopConfig.load(environ={}) == LoopConfig()


def test_sources_win_in_order():
    """Arguments win over variables, these over the file, that over the defaults."""
    Path("a.toml").write_text("boosts = 1\nrebuilds = 1\nrecoveries = 1", "utf-8")
    environ = {"FSM_LOOP_BOOSTS": "2", "FSM_LOOP_REBUILDS": "2"}

    assert LoopConfig.load("a.toml", environ, boosts=4) == LoopConfig(boosts=4, rebuilds=2, recoveries=1)
    base = LoopConfig(boosts=9, recoveries=9)
    assert LoopConfig.from_env(environ, base) == LoopConfig(boosts=2, rebuilds=2, recoveries=9)


def test_every_source_is_judged_together():
    """What is wrong in any source is said, even where a better source says it rightly."""
    Path("a.toml").write_text("boosts = 'high'\nbase_delay_s = 8", "utf-8")
    environ = {"FSM_LOOP_MAX_DELAY_S": "7", "FSM_LOOP_X": ""}

    assert refusal(LoopConfig.load, "a.toml", environ, boosts=4, grace_calls=2, tokns=1) == (
        "5 settings are not valid:\n"
        "  'FSM_LOOP_X' (environment): no such name\n"
        "  'tokns' (argument): no such name; near: tokens\n"
        "  boosts (a.toml): 'high' is not a whole number; allowed: a whole number, 0 or more (requests)\n"
        "  grace_calls: 2 is too large; allowed: a whole number, 0 to 1 (calls)\n"
        "  base_delay_s (a.toml): 8 is more than FSM_LOOP_MAX_DELAY_S, 7.0; allowed: at most that (seconds)"
    )


def test_an_empty_plan_is_enough_for_no_recoveries():
    """A plan is asked for only where there are recoveries to plan."""
    assert LoopConfig(recoveries=0, recovery_plan_s=()).recovery_s(0, 0.5) == 0.0


def test_a_config_is_a_value():
    """Equal configs are equal, hash alike, look alike, cannot be changed and survive a journey."""
    config = LoopConfig(stale_after_s=90, cost=1, recovery_plan_s=[15, 30, 60, 60, 60])
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        config.boosts = 1

    assert repr(config) == repr(LoopConfig(cost=1.0))
    assert {config: 1}[LoopConfig(cost=1.0)] == 1
    assert pickle.loads(pickle.dumps(config)) == config
    assert LoopConfig(**attrs.asdict(config)) == config
    assert attrs.evolve(config, cost=None) == LoopConfig()


@pytest.mark.parametrize(("retry", "chance", "expected"), DELAYS)
def test_a_backoff_doubles_up_to_its_cap_and_is_moved_by_chance(retry, chance, expected):
    """A backoff is 5 s doubled each time, 120 s at most, and then a quarter more or less."""
    assert LoopConfig().delay_s(retry, chance) == expected


@given(st.integers(0, 2000), st.floats(0, 1, exclude_max=True), st.floats(0, 1e9), st.floats(0, 1e9), st.floats(0, 1))
@example(2000, 0.5, 5e-324, 1e9, 0.25)
@example(2000, 0.5, 0.0, 0.0, 1.0)
def test_a_backoff_keeps_to_its_bounds(retry, chance, one, other, jitter):
    """For every config, retry and chance the delay is within the jitter of the doubled base, and of the cap."""
    base, most = sorted((one, other))
    delay_s = LoopConfig(base_delay_s=base, max_delay_s=most, jitter=jitter).delay_s(retry, chance)
    doubled = min(base * 2**retry if retry < 900 else most if base > 1e-200 else delay_s / (1 + jitter), most)

    assert 0 <= delay_s <= most * (1 + jitter) * (1 + 1e-9)
    assert doubled * (1 - jitter) * (1 - 1e-9) <= delay_s <= doubled * (1 + jitter) * (1 + 1e-9)


@pytest.mark.parametrize(("cycle", "expected"), [*enumerate(PLAN), (5, 60.0), (10**30, 60.0)])
@pytest.mark.parametrize("chance", [0.0, 0.5, 0.999])
def test_a_recovery_waits_as_planned(cycle, chance, expected):
    """Each cycle waits for its entry of the plan, the last entry repeats, and chance moves nothing."""
    assert LoopConfig().recovery_s(cycle, chance) == expected


@pytest.mark.parametrize(("method", "index", "chance", "message"), WRONG_CALLS)
def test_what_cannot_be_a_retry_or_a_chance_is_refused(method, index, chance, message):
    """A caller that counts or draws wrongly is told, and nobody waits for a time that is none."""
    with pytest.raises(ValueError) as refused:  # noqa: PT011  # the whole sentence is compared
        getattr(LoopConfig(), method)(index, chance)

    assert str(refused.value) == message


def test_the_module_is_a_light_leaf():
    """On import nothing is loaded but attrs, the errors and a few light modules of Python."""
    body = ast.parse(Path(module.__file__).read_text("utf-8")).body
    froms = {each.module for each in body if isinstance(each, ast.ImportFrom)}
    plain = {name.name for each in body if isinstance(each, ast.Import) for name in each.names}

    assert froms | plain == {"__future__", "math", "collections.abc", "functools", "typing", "attrs", "fsm_loop.errors"}
