"""Plain Python functions as tools: what the model is told of them, what is refused, and what comes back."""

from __future__ import annotations

import enum
import functools
import math
import re
import threading
from typing import Annotated, Literal

import anyio
import pytest

from fsm_loop.core.messages import ToolCall
from fsm_loop.errors import ToolError
from fsm_loop.tools.functions import MAX_RESULT_CHARS, FunctionTools, told
from tests.drive.turns import on_each_backend


class Unit(enum.Enum):
    """A unit of length."""

    METRE = "m"
    FOOT = "ft"


class Measure(enum.IntEnum):
    """A measure."""

    ONE = 1


def convert(length: float, unit: Unit, places: int = 2, note: str | None = None) -> str:
    """Convert a length to metres.

    The rest of the docstring is told too.
    """
    return f"{length * (1 if unit is Unit.METRE else 0.3048):.{places}f}{note or ''}"


async def fetch(url: Annotated[str, "where to look"], how: Literal["head", "get"] = "get") -> dict:
    """Fetch something."""
    return {"url": url, "how": how}


def bare() -> None:
    """Take nothing."""


def run(tools, name, arguments="{}", backend="asyncio"):
    """What a call comes to."""
    return anyio.run(tools.run, ToolCall("c", name, arguments), backend=backend).text


# ---------------------------------------------------------------- what the model is told


def test_a_function_is_told_by_its_hints_and_its_docstring():
    """Name, description and JSON Schema come from the function; parameters without a default are required."""
    spec = FunctionTools([convert]).specs()[0]

    assert "convert" == spec.name
    assert spec.description.startswith("Convert a length to metres.\n\nThe rest")
    assert {"length", "unit", "places", "note"} == set(spec.parameters["properties"])
    assert ["length", "unit"] == spec.parameters["required"]
    assert {"type": "integer", "default": 2} == spec.parameters["properties"]["places"]
    assert "object" == spec.parameters["type"]
    assert not spec.parameters["additionalProperties"]


def test_notes_and_choices_are_told():
    """An annotated word describes the parameter, a Literal names its choices, an enum its values."""
    fetched, converted = (tool.parameters for tool in FunctionTools([fetch, convert]).specs())

    assert "where to look" == fetched["properties"]["url"]["description"]
    assert ["get", "head"] == sorted(fetched["properties"]["how"]["enum"])
    reference = converted["properties"]["unit"]["$ref"]
    assert reference.startswith("#/$defs/")
    assert ["ft", "m"] == sorted(converted["$defs"][reference.rsplit("/", 1)[1]]["enum"])


def test_the_order_is_the_one_given():
    """A stable order keeps a provider's cache warm."""
    assert ["fetch", "bare", "convert"] == [spec.name for spec in FunctionTools([fetch, bare, convert]).specs()]


def test_a_function_without_parameters_takes_none():
    """Its schema is an empty object."""
    assert {} == FunctionTools([bare]).specs()[0].parameters["properties"]


# ---------------------------------------------------------------- what cannot be a tool


def no_hint(number):
    """Lack a hint."""


def anything(*numbers: int):
    """Take any number of numbers."""


def by_place(number: int, /):
    """Take its number by place."""


def odd_hint(number: complex):
    """Have a hint that no model can be told."""


def unknown_hint(number: Nowhere):  # noqa: F821  # that it is nowhere is the point
    """Have a hint that cannot be read."""


REFUSED = [
    (lambda: 1, "a lambda or a partial has none"),
    (functools.partial(convert, 1.0), "a lambda or a partial has none"),
    (no_hint, "tool no_hint: parameter 'number' has no type hint"),
    (anything, r"tool anything: parameter \*numbers.*cannot be given by name"),
    (by_place, "tool by_place: parameter number.*cannot be given by name"),
    (odd_hint, "tool odd_hint: a type hint cannot be told to a model"),
    (unknown_hint, "tool unknown_hint: a type hint cannot be read"),
    (42, "42 cannot be a tool"),
]


@pytest.mark.parametrize(("function", "text"), REFUSED)
def test_what_cannot_be_a_tool_is_refused(function, text):
    """The error says which function, and what is wrong with it."""
    with pytest.raises(ToolError, match=text):
        FunctionTools([function])


def test_two_tools_of_one_name_are_refused():
    """A model could not tell them apart."""
    with pytest.raises(ToolError, match="two tools are named 'bare'"):
        FunctionTools([bare, bare])


# ---------------------------------------------------------------- checking a call

PROBLEMS = [
    ("convert", '{"length": 1, "unit": "m"}', ""),
    ("convert", '{"length": 1.5, "unit": "ft", "places": 0, "note": null}', ""),
    ("bare", "", ""),
    ("bare", "  ", ""),
    ("bare", "{}", ""),
    (
        "convert",
        '{"length": "long", "unit": "m"}',
        "invalid arguments for convert: Expected `float`, got `str` - at `[$].length`",
    ),
    ("convert", '{"length": 1, "unit": "mile"}', "invalid arguments for convert: Invalid enum value 'mile'"),
    ("convert", '{"length": 1}', "missing required field `unit`"),
    ("convert", '{"length": 1, "unit": "m", "colour": "red"}', "unknown field `colour`"),
    ("bare", "[]", "they are not a JSON object: '\\[\\]'"),
    ("bare", "{", "they are not a JSON object: '{'"),
    ("bare", "null", "they are not a JSON object: 'null'"),
    ("bear", "{}", r"no such tool: 'bear'; the tools are: convert, bare, fetch\. Did you mean 'bare'\?"),
    ("xyzzy", "{}", r"the tools are: convert, bare, fetch\.$"),
    ("", "{}", "no such tool: ''"),
]


@pytest.mark.parametrize(("name", "arguments", "text"), PROBLEMS)
def test_a_call_is_checked_before_it_is_run(name, arguments, text):
    """A call that cannot be run is told why, in words that a model can act on; one that can has no problem."""
    problem = FunctionTools([convert, bare, fetch]).problem(ToolCall("c", name, arguments))

    assert bool(text) == bool(problem)
    assert re.search(text, problem)


def test_without_tools_every_call_is_a_problem():
    """The model is told that there are none."""
    assert "no such tool: 'x'; there are no tools in this turn" == FunctionTools([]).problem(ToolCall("c", "x"))


def test_deep_arguments_are_a_problem_and_no_crash():
    """JSON that is nested too deep to read is told to the model as such."""
    tools = FunctionTools([bare])
    deep = "[" * 100_000 + "]" * 100_000

    assert "not a JSON object" in tools.problem(ToolCall("c", "bare", deep))


# ---------------------------------------------------------------- running


@on_each_backend
def test_a_function_runs_with_converted_arguments(backend):
    """Enums arrive as enums, what was left out as its default."""
    tools = FunctionTools([convert, fetch])

    assert "3.05" == run(tools, "convert", '{"length": 10, "unit": "ft"}', backend)
    assert '{"url":"x","how":"get"}' == run(tools, "fetch", '{"url": "x"}', backend)


def test_a_function_that_waits_runs_as_a_task_and_others_in_a_thread():
    """Only a function that does not wait needs a thread, and only that cannot be stopped."""
    threads = {}

    def blocks() -> str:
        """Say where it runs."""
        threads["blocks"] = threading.current_thread()
        return ""

    async def waits() -> str:
        """Say where it runs."""
        threads["waits"] = threading.current_thread()
        return ""

    tools = FunctionTools([blocks, waits])
    for name in ("blocks", "waits"):
        run(tools, name)

    assert (True, False, False) == (tools.in_thread("blocks"), tools.in_thread("waits"), tools.in_thread("nothing"))
    assert threads["waits"] is threading.main_thread()
    assert threads["blocks"] is not threading.main_thread()


def test_defaults_that_can_change_are_made_anew():
    """A list that one call filled is empty for the next."""

    def collect(word: str, words: list[str] = []) -> list[str]:  # noqa: B006  # this is what is tested
        """Collect words."""
        words.append(word)
        return words

    tools = FunctionTools([collect])

    assert ['["a"]', '["b"]'] == [run(tools, "collect", f'{{"word": "{word}"}}') for word in "ab"]


def test_what_a_function_raises_is_raised():
    """The driver makes a result of it."""

    def fails() -> None:
        """Fail."""
        raise KeyError("gone")

    with pytest.raises(KeyError):
        run(FunctionTools([fails]), "fails")


VALUES = [
    ("text as it is", "text as it is"),
    ("", ""),
    (None, "null"),
    (42, "42"),
    (0.5, "0.5"),
    ([1, "a"], '[1,"a"]'),
    ({"a": {"b": None}}, '{"a":{"b":null}}'),
    (Unit.FOOT, '"ft"'),
    (Measure.ONE, "1"),
    (math.nan, "null"),
    (b"ab", '"YWI="'),
    (complex(1, 2), "(1+2j)"),
    ("a\ud800b\x00", "a\ufffdb\ufffd"),
    (["a\ud800"], "['a\\ud800']"),
]


@pytest.mark.parametrize(("value", "text"), VALUES)
def test_a_value_is_told_as_a_model_reads_it(value, text):
    """Text as it is, anything else as JSON where it can be, and nothing that UTF-8 cannot carry."""
    assert text == told(value)


@pytest.mark.parametrize("more", [0, 1, 1000])
def test_a_long_result_is_cut_and_says_so(more):
    """A result of more than the limit ends with a word on what is missing."""
    text = told("x" * (MAX_RESULT_CHARS + more))

    if more == 0:
        assert "x" * MAX_RESULT_CHARS == text
    else:
        assert text.startswith("x" * MAX_RESULT_CHARS + "\n[cut: ")
        assert f"{MAX_RESULT_CHARS + more} characters, of which {MAX_RESULT_CHARS} are shown" in text
