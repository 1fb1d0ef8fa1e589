"""What requests say of a turn: the models, the tools and their results, the messages it began with, in a disguise."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fsm_loop.testing.wire.disguise import Disguise
from fsm_loop.testing.wire.heard import Heard, heard

if TYPE_CHECKING:
    from fsm_loop.testing.wire.recorded import Exchange

Parts = Mapping[str, Any]

# One transparent pixel, for an image of somebody's.
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
UNKNOWN = "unknown"
NO_RESULT = "done"  # what a tool returns of which no result was seen
DROPPED_KEYWORDS = ("pattern", "format")  # of a tool's schema: invented values need not be of that form


def told_models(exchanges: Sequence[Exchange]) -> list[str]:
    """The models that were asked, in their order."""
    return list(dict.fromkeys(str(each.body.get("model") or UNKNOWN) for each in exchanges))


def offered(exchanges: Sequence[Exchange]) -> tuple[set[str], set[str]]:
    """The names of the tools that were offered, and all names in their parameters."""
    names: set[str] = set()
    keys: set[str] = set()
    for exchange in exchanges:
        for name, parameters in _tools(exchange.body):
            names.add(name)
            keys.update(_properties(parameters))
    return names, keys


def _tools(body: Parts) -> Iterator[tuple[str, Parts]]:
    given = body.get("tools")
    for each in given if isinstance(given, list) else ():
        function = each.get("function") if isinstance(each, dict) else None
        tool = function if isinstance(function, dict) else each
        name = tool.get("name") if isinstance(tool, dict) else None
        if isinstance(name, str) and name:
            parameters = tool.get("parameters", tool.get("input_schema"))
            yield name, parameters if isinstance(parameters, dict) else {}


def _properties(schema: Any) -> Iterator[str]:
    match schema:
        case dict():
            given = schema.get("properties")
            yield from given if isinstance(given, dict) else ()
            for each in schema.values():
                yield from _properties(each)
        case list():
            for each in schema:
                yield from _properties(each)


def results_in(exchanges: Sequence[Exchange], disguise: Disguise) -> list[dict[str, Any]]:
    """The tools of the first request, each with the results that later requests told of it."""
    scripts: dict[str, list[dict[str, Any]]] = {}
    names: dict[str, str] = {}
    seen = {result.id for said in heard(exchanges[0].body, exchanges[0].protocol) for result in said.results}
    for exchange in exchanges[1:]:
        for said in heard(exchange.body, exchange.protocol):
            names.update({call.id: call.name for call in said.calls})
            for result in said.results:
                if result.id not in seen:
                    seen.add(result.id)
                    scripts.setdefault(names.get(result.id, ""), []).append({"returns": disguise.text(result.text)})
    tools = dict(_tools(exchanges[0].body))
    return [
        {"name": name, "parameters": _schema(given, disguise), "script": scripts.get(name) or [{"returns": NO_RESULT}]}
        for name, given in tools.items()
    ]


def _schema(value: Any, disguise: Disguise, key: str = "") -> Any:
    """A schema of parameters with invented descriptions and values; its keys, its types and its names stay."""
    match value:
        case dict():
            inside = (
                value.items()
                if key == "properties"
                else ((k, v) for k, v in value.items() if k not in DROPPED_KEYWORDS)
            )
            return {name: _schema(each, disguise, name if key != "properties" else "") for name, each in inside}
        case list():
            return [_schema(each, disguise, key) for each in value]
        case str() if key not in ("type", "required", "$ref", "$schema"):
            return disguise.text(value)
        case _:
            return value


# ---------------------------------------------------------------- messages


def said_first(exchange: Exchange, disguise: Disguise, names: Collection[str], keys: Collection[str]) -> list[Parts]:
    """The messages of a request, as a case has them."""
    body = exchange.body
    found: list[Parts] = []
    system = body.get("instructions") if exchange.protocol == "openai-responses" else body.get("system")
    if system:
        found.append({"role": "system", "content": disguise.text(_plain(system))})
    given = body.get("messages")
    raw = given if isinstance(given, list) else []
    for place, said in enumerate(heard(body, exchange.protocol)):
        content = raw[place].get("content") if place < len(raw) else None
        found += _messages(said, content, disguise, names, keys)
    return found or [{"role": "user", "content": ""}]


def _messages(
    said: Heard, content: Any, disguise: Disguise, names: Collection[str], keys: Collection[str]
) -> Iterator[Parts]:
    for result in said.results:
        yield {"role": "tool", "tool_call_id": disguise.id(result.id), "content": disguise.text(result.text)}
    text = disguise.text(_plain(content) if said.results else said.text)
    if said.results and (said.role == "tool" or not text):
        return
    role = {"developer": "system"}.get(said.role, said.role)
    message: dict[str, Any] = {"role": role if role in ("system", "user", "assistant") else "user", "content": text}
    if said.calls:
        message["tool_calls"] = [
            {
                "id": disguise.id(call.id),
                "name": disguise.name(call.name, names),
                "arguments": _arguments(call.arguments, disguise, keys),
            }
            for call in said.calls
        ]
    elif _has_image(content):
        image = {"type": "image", "media_type": "image/png", "data": PIXEL}
        message["content"] = [*([{"type": "text", "text": text}] if text else []), image]
    yield message


def _plain(content: Any) -> str:
    """The text of a message beside its results."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(str(part["text"]) for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def _has_image(content: Any) -> bool:
    parts = content if isinstance(content, list) else []
    return any(isinstance(part, dict) and "image" in str(part.get("type")) for part in parts)


def _arguments(given: Any, disguise: Disguise, keys: Collection[str]) -> Parts:
    text = given if isinstance(given, str) else json.dumps(given)
    try:
        value = json.loads(disguise.json(text, keys))
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
