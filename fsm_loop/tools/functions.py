"""Plain Python functions as tools: the schema and the check of the arguments come from their type hints.

Hints, schema and validation are msgspec's. A function that waits runs as a task; any other runs in a thread, which
nobody can stop: when the turn lets it go, its outcome is unknown.
"""

from __future__ import annotations

import difflib
import inspect
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import anyio.to_thread
from attrs import frozen

from fsm_loop.core.messages import ToolCall, arguments_of, clean
from fsm_loop.errors import ToolError
from fsm_loop.ports import ToolOutcome, ToolSpec

MAX_RESULT_CHARS = 100_000  # longer results are cut, and say so


@frozen(eq=False)
class FunctionTool:
    """One function, with the type that its arguments must have."""

    function: Callable[..., Any]
    spec: ToolSpec
    arguments: type
    waits: bool


class FunctionTools:
    """The functions that a model may call, by name.

    Raises ToolError where a function cannot be offered: no name, a parameter without a type hint, a name twice.
    """

    def __init__(self, functions: Iterable[Callable[..., Any]]) -> None:
        self._tools: dict[str, FunctionTool] = {}
        for function in functions:
            tool = tool_of(function)
            if tool.spec.name in self._tools:
                msg = f"two tools are named {tool.spec.name!r}; give one of them another name"
                raise ToolError(msg)
            self._tools[tool.spec.name] = tool

    def specs(self) -> Sequence[ToolSpec]:
        """The tools on offer, in the order given."""
        return tuple(tool.spec for tool in self._tools.values())

    def problem(self, call: ToolCall) -> str:
        """Why this call cannot be run, for the model to read; empty when it can."""
        tool = self._tools.get(call.name)
        if tool is None:
            return self._no_such(call.name)
        try:
            _converted(tool, call)
        except ValueError as error:
            return f"invalid arguments for {call.name}: {error}"
        return ""

    def in_thread(self, name: str) -> bool:
        """Whether the tool runs in a thread, so that it cannot be stopped."""
        tool = self._tools.get(name)
        return tool is not None and not tool.waits

    async def run(self, call: ToolCall) -> ToolOutcome:
        """Call the function. What it raises is raised."""
        tool = self._tools[call.name]
        arguments = _converted(tool, call)
        if tool.waits:
            return ToolOutcome(told(await tool.function(**arguments)))

        def work() -> Any:
            return tool.function(**arguments)

        return ToolOutcome(told(await anyio.to_thread.run_sync(work, abandon_on_cancel=True)))

    def _no_such(self, name: str) -> str:
        if not self._tools:
            return f"no such tool: {name!r}; there are no tools in this turn"
        near = difflib.get_close_matches(name, self._tools, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        return f"no such tool: {name!r}; the tools are: {', '.join(self._tools)}.{hint}"


def tool_of(function: Callable[..., Any]) -> FunctionTool:
    """The function as a tool; raises ToolError where it cannot be one."""
    import msgspec  # only those who offer functions pay for it

    name = str(getattr(function, "__name__", ""))
    if not name.isidentifier():
        msg = f"{function!r} cannot be a tool: a tool is a function with a name (a lambda or a partial has none)"
        raise ToolError(msg)
    fields = [_field(parameter, hint) for parameter, hint in _parameters(function, name)]
    try:
        arguments = msgspec.defstruct(f"{name}_arguments", fields, kw_only=True, forbid_unknown_fields=True)
        schema = _schema(arguments)
    except TypeError as error:
        msg = f"tool {name}: a type hint cannot be told to a model: {error}"
        raise ToolError(msg) from error
    spec = ToolSpec(name, inspect.getdoc(function) or "", schema)
    return FunctionTool(function, spec, arguments, inspect.iscoroutinefunction(function))


def _parameters(function: Callable[..., Any], name: str) -> list[tuple[inspect.Parameter, Any]]:
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        msg = f"tool {name}: a type hint cannot be read: {error}"
        raise ToolError(msg) from error
    found = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            msg = f"tool {name}: parameter {parameter} cannot be given by name; a model gives all arguments by name"
            raise ToolError(msg)
        if parameter.name not in hints:
            msg = f"tool {name}: parameter {parameter.name!r} has no type hint; the model is told the type"
            raise ToolError(msg)
        found.append((parameter, hints[parameter.name]))
    return found


def _field(parameter: inspect.Parameter, hint: Any) -> Any:
    import msgspec

    if typing.get_origin(hint) is typing.Annotated:
        base, *notes = typing.get_args(hint)
        notes = [msgspec.Meta(description=note) if isinstance(note, str) else note for note in notes]
        hint = typing.Annotated[(base, *notes)]
    if parameter.default is parameter.empty:
        return parameter.name, hint
    default = parameter.default
    if isinstance(default, (list, dict, set)):
        return parameter.name, hint, msgspec.field(default_factory=lambda: type(default)(default))
    return parameter.name, hint, default


def _schema(arguments: type) -> dict[str, Any]:
    """The JSON Schema of the arguments, with what it refers to inside it."""
    import msgspec

    (_, *_), components = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
    schema = components.pop(arguments.__name__)
    schema.pop("title", None)
    return {**schema, "$defs": components} if components else schema


def _converted(tool: FunctionTool, call: ToolCall) -> dict[str, Any]:
    """The arguments as the function wants them; raises ValueError where they do not fit."""
    import msgspec

    given = arguments_of(call)
    if given is None:
        msg = f"they are not a JSON object: {call.arguments[:80]!r}"
        raise ValueError(msg)
    fitted: Any = msgspec.convert(given, tool.arguments)
    return {name: getattr(fitted, name) for name in tool.arguments.__struct_fields__}  # type: ignore[attr-defined]


def told(value: Any) -> str:
    """A tool's value as a model reads it: text as it is, anything else as JSON where it can be."""
    import msgspec

    if isinstance(value, str):
        text = value
    else:
        try:
            text = msgspec.json.encode(value).decode()
        except (TypeError, ValueError):
            text = str(value)
    text = clean(text)
    if len(text) > MAX_RESULT_CHARS:
        return f"{text[:MAX_RESULT_CHARS]}\n[cut: {len(text)} characters, of which {MAX_RESULT_CHARS} are shown]"
    return text
