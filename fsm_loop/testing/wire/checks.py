"""The checks that a case makes of a request: one function for each, in one table."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from attrs import frozen

from fsm_loop.testing.wire.case import Received
from fsm_loop.testing.wire.heard import Call, Heard, heard

LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
SHOWN_CHARS = 80
Parts = Mapping[str, Any]


@frozen
class Asked:
    """A request under a check: what was heard in it, the check's own words, and the request it is compared with."""

    request: Received
    protocol: str
    messages: Sequence[Heard]
    check: Parts
    other: Received | None

    @property
    def body(self) -> Any:
        """The body, as JSON."""
        return self.request.body

    @property
    def dump(self) -> str:
        """The body as text, nothing escaped that need not be."""
        return json.dumps(self.body, ensure_ascii=False)

    @property
    def calls(self) -> Iterator[Call]:
        """Every tool call in the request."""
        return (call for message in self.messages for call in message.calls)


def problems_of(requests: Sequence[Received], number: int, checks: Sequence[Parts], protocol: str) -> list[str]:
    """What is wrong with this request (1 is the first) by these checks; one that was never made has no fault."""
    if number > len(requests):
        return []
    request = requests[number - 1]
    if not isinstance(request.body, dict):
        return [f"request {number}: its body is no JSON object"]
    messages = heard(request.body, protocol)
    found = []
    for check in checks:
        place = check.get("request", 0)
        other = requests[place - 1] if 0 < place <= len(requests) else None
        name = check["check"]
        known = CHECKS.get(name)
        try:
            problems = (
                ["no such check"] if known is None else [*known(Asked(request, protocol, messages, check, other))]
            )
        except KeyError as error:
            problems = [f"the check needs the field {error}"]
        found += [f"request {number}: {name}: {problem}" for problem in problems]
    return found


# ---------------------------------------------------------------- calls and their results


def _pairing(asked: Asked) -> Iterator[str]:
    """Every call is answered exactly once, directly behind it, and nothing else is answered."""
    messages, at = asked.messages, 0
    while at < len(messages):
        message = messages[at]
        at += 1
        if message.results:
            yield f"message {at - 1} answers {[each.id for each in message.results]}, which nobody asked for there"
        if not message.calls:
            continue
        answered: list[str] = []
        while at < len(messages) and messages[at].results:
            answered += [each.id for each in messages[at].results]
            at += 1
            if asked.protocol == "anthropic":
                break
        wanted = [call.id for call in message.calls]
        if sorted(wanted) != sorted(answered):
            yield f"the calls {wanted} are answered by {answered}"


def _unique_ids(asked: Asked) -> Iterator[str]:
    for place, message in enumerate(asked.messages):
        ids = [call.id for call in message.calls]
        if len(set(ids)) < len(ids):
            yield f"message {place} has an id twice: {ids}"


def _ids(asked: Asked) -> Iterator[str]:
    yield from (call.id for call in asked.calls)
    yield from (result.id for message in asked.messages for result in message.results)


def _nonempty_ids(asked: Asked) -> Iterator[str]:
    yield from ("an id is empty" for each in _ids(asked) if not each)


def _ids_match(asked: Asked) -> Iterator[str]:
    pattern = re.compile(asked.check["pattern"])
    yield from (f"the id {each!r} is of another form" for each in _ids(asked) if not pattern.search(each))


def _valid_arguments(asked: Asked) -> Iterator[str]:
    for call in asked.calls:
        try:
            value = json.loads(call.arguments) if isinstance(call.arguments, str) else call.arguments
        except ValueError:
            yield f"the arguments of {call.name} are no JSON: {call.arguments!r:.{SHOWN_CHARS}}"
            continue
        if not isinstance(value, dict):
            yield f"the arguments of {call.name} are no object: {call.arguments!r:.{SHOWN_CHARS}}"


def _arguments_are_text(asked: Asked) -> Iterator[str]:
    if asked.protocol != "anthropic":
        wrong = (call for call in asked.calls if not isinstance(call.arguments, str))
        yield from (f"the arguments of {call.name} are {type(call.arguments).__name__}" for call in wrong)


def _in_call_order(asked: Asked) -> Iterator[str]:
    place = next((at for at in reversed(range(len(asked.messages))) if asked.messages[at].calls), None)
    if place is None:
        return
    wanted = [call.id for call in asked.messages[place].calls]
    answered = [result.id for message in asked.messages[place + 1 :] for result in message.results]
    if wanted != answered:
        yield f"the results come as {answered}, the calls were {wanted}"


def _tools_defined(asked: Asked) -> Iterator[str]:
    if any(message.calls or message.results for message in asked.messages) and not asked.body.get("tools"):
        yield "the history holds tool calls, and no tools are defined"


def _result_of(asked: Asked) -> Iterator[str]:
    """What the one result in question says; that the call was dropped together with its result is a repair too."""
    wanted = asked.check["tool_call_id"]
    results = [result for message in asked.messages for result in message.results if result.id == wanted]
    if not results:
        if any(call.id == wanted for call in asked.calls):
            yield f"{wanted} has no result"
        return
    last = results[-1]
    if asked.check["check"] == "tool_result_is_error":
        if not last.is_error:
            yield f"the result of {wanted} does not look like an error: {last.text!r:.{SHOWN_CHARS}}"
    elif asked.check["text"] not in last.text:
        yield f"the result of {wanted} is {last.text!r:.{SHOWN_CHARS}}"


# ---------------------------------------------------------------- messages


def _no_empty(asked: Asked) -> Iterator[str]:
    for place, message in enumerate(asked.messages):
        if message.empty:
            yield f"message {place} ({message.role}) is empty"


def _ends_well(asked: Asked) -> Iterator[str]:
    last = asked.messages[-1].role if asked.messages else "nobody"
    if last not in ("user", "tool"):
        yield f"the last word is of {last}"


def _alternate(asked: Asked) -> Iterator[str]:
    kept = [message for message in asked.messages if message.role not in ("system", "developer")]
    for one, two in pairwise(kept):
        if one.role != two.role or one.role not in ("user", "assistant"):
            continue
        strict = asked.protocol == "anthropic"
        if strict or (asked.protocol == "openai-chat" and not one.calls and not two.results):
            yield f"two messages of {one.role} in a row"


def _utf8(asked: Asked) -> Iterator[str]:
    try:
        asked.dump.encode()
    except UnicodeEncodeError as error:
        yield str(error)


def _contains(asked: Asked) -> Iterator[str]:
    text = asked.check["text"]
    if text not in asked.dump and json.dumps(text)[1:-1] not in asked.dump:
        yield f"{text!r} is missing"


def _lacks(asked: Asked) -> Iterator[str]:
    if asked.check["text"] in asked.dump:
        yield f"{asked.check['text']!r} is there"


def _count(asked: Asked) -> Iterator[str]:
    text, times = asked.check["text"], asked.dump.count(asked.check["text"])
    exact = asked.check["check"] == "count_text"
    if times > asked.check["value"] or (exact and times != asked.check["value"]):
        yield f"{text!r} is there {times} times"


# ---------------------------------------------------------------- the request as a whole


def _limit(body: Any) -> int | None:
    return next((body[name] for name in LIMITS if isinstance(body.get(name), int)), None)


def _larger_limit(asked: Asked) -> Iterator[str]:
    if asked.other is None:
        return
    here, there = _limit(asked.body), _limit(asked.other.body)
    if here is not None and here <= (there or 0):
        yield f"the output limit is {here}, and was {there}"


def _small_limit(asked: Asked) -> Iterator[str]:
    here = _limit(asked.body)
    if here is None or here > asked.check["value"]:
        yield f"the output limit is {here}"


def _spoken(body: Any, protocol: str) -> Any:
    return body.get("input" if protocol == "openai-responses" else "messages")


def _same_messages(asked: Asked) -> Iterator[str]:
    if asked.other is not None and _spoken(asked.body, asked.protocol) != _spoken(asked.other.body, asked.protocol):
        yield "the messages have changed"


def _differs(asked: Asked) -> Iterator[str]:
    if asked.other is not None and asked.body == asked.other.body:
        yield "it is the same request"


def _smaller(asked: Asked) -> Iterator[str]:
    if asked.other is not None and len(asked.dump) >= len(json.dumps(asked.other.body, ensure_ascii=False)):
        yield f"it is not smaller ({len(asked.dump)} characters)"


def _other_credential(asked: Asked) -> Iterator[str]:
    def credential(request: Received) -> tuple[str | None, ...]:
        return tuple(request.headers.get(name) for name in ("authorization", "x-api-key"))

    if asked.other is not None and credential(asked.request) == credential(asked.other):
        yield "the credential is the same"


CHECKS: Mapping[str, Callable[[Asked], Iterator[str]]] = {
    "tool_pairing": _pairing,
    "unique_tool_ids": _unique_ids,
    "nonempty_tool_ids": _nonempty_ids,
    "tool_ids_match": _ids_match,
    "arguments_valid_json": _valid_arguments,
    "arguments_are_strings": _arguments_are_text,
    "tool_results_in_call_order": _in_call_order,
    "tools_defined_if_tool_blocks": _tools_defined,
    "tool_result_is_error": _result_of,
    "result_text_for": _result_of,
    "no_empty_messages": _no_empty,
    "ends_with_user_or_tool": _ends_well,
    "roles_alternate": _alternate,
    "utf8_clean": _utf8,
    "contains": _contains,
    "not_contains": _lacks,
    "count_text": _count,
    "count_text_at_most": _count,
    "max_tokens_greater_than": _larger_limit,
    "max_tokens_at_most": _small_limit,
    "same_messages_as": _same_messages,
    "differs_from": _differs,
    "smaller_than": _smaller,
    "auth_differs_from": _other_credential,
}
