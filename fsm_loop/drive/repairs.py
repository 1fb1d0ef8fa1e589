"""How a request is changed so that it can succeed: one plain function for each kind of repair.

A repair that changes nothing has failed, and says so: the page never sends the same request again for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import evolve

from fsm_loop.core.conversation import joined
from fsm_loop.core.effects import Repair
from fsm_loop.core.faults import RepairKind
from fsm_loop.core.guards import BASE_OUTPUT_TOKENS
from fsm_loop.core.messages import (
    AssistantMessage,
    MediaPart,
    Message,
    SystemMessage,
    TextPart,
    UserMessage,
    cleaned,
)
from fsm_loop.drive.edge import paired
from fsm_loop.ports import Compactor, Model, Refreshes

Facts = dict[str, Any]  # the fields of RequestRepaired that a repair fills in
NO_CHANGE: Facts = {"changed": False}
REMOVED_MEDIA = TextPart("[an image was here; the provider does not accept it]")


def sanitize(effect: Repair) -> Facts:
    """Every text of the request becomes one that UTF-8 can carry."""
    dirty = any(cleaned(message) is not message for message in effect.request.messages)
    return {"changed": dirty, "prompt": _each(cleaned, effect.prompt), "said": _each(cleaned, effect.said)}


def strip_media(effect: Repair) -> Facts:
    """Images give way to a word that they were there."""
    prompt, said = _each(_without_media, effect.prompt), _each(_without_media, effect.said)
    return {"changed": (prompt, said) != (effect.prompt, effect.said), "prompt": prompt, "said": said}


def mend_history(effect: Repair) -> Facts:
    """Every tool call gets exactly one result behind it; what is empty, orphaned or signed by others goes."""
    prompt, said = mended(effect.prompt), mended(effect.said)
    whole = mended(prompt + said)
    if whole != prompt + said:  # where the one ends and the other begins, the same speaks twice
        prompt, said = whole, ()
    return {"changed": (prompt, said) != (effect.prompt, effect.said), "prompt": prompt, "said": said}


def drop_parameter(effect: Repair) -> Facts:
    """The parameter that the provider does not know is left out from now on."""
    name = effect.fault.parameter
    return {"changed": bool(name) and name not in effect.request.without, "parameter": name}


def lower_output_limit(effect: Repair) -> Facts:
    """The output limit becomes the one that the provider names, or half of the one that was refused."""
    asked = effect.request.output_limit
    limit = effect.fault.limit or (BASE_OUTPUT_TOKENS if asked is None else asked // 2)
    return {"changed": limit > 0 and (asked is None or limit < asked), "limit": limit}


def stream_off(effect: Repair) -> Facts:
    """This provider is asked without streaming from now on."""
    return {"changed": effect.request.stream}


PLAIN: Mapping[RepairKind, Callable[[Repair], Facts]] = {
    RepairKind.SANITIZE: sanitize,
    RepairKind.STRIP_MEDIA: strip_media,
    RepairKind.MEND_HISTORY: mend_history,
    RepairKind.DROP_PARAMETER: drop_parameter,
    RepairKind.LOWER_OUTPUT_LIMIT: lower_output_limit,
    RepairKind.STREAM_OFF: stream_off,
}


async def compact(effect: Repair, compactor: Compactor | None) -> Facts:
    """The conversation is made shorter; one that does not shrink has failed."""
    if compactor is None:
        return NO_CHANGE
    before = effect.prompt + effect.said
    after = tuple(await compactor.compact(before, effect.fault))
    return {"changed": size_of(after) < size_of(before), "prompt": after, "said": ()}


async def refresh_credential(model: Model) -> Facts:
    """The model takes a fresh credential, if it has another one to take."""
    return {"changed": isinstance(model, Refreshes) and await model.refresh()}


def size_of(messages: Sequence[Message]) -> int:
    """How much the messages say, in characters."""
    return sum(_size(message) for message in messages)


def _size(message: Message) -> int:
    match message:
        case UserMessage(content=tuple() as parts):
            return sum(len(part.text) if isinstance(part, TextPart) else len(part.url) for part in parts)
        case AssistantMessage(text=text, tool_calls=calls, reasoning=reasoning):
            return len(text) + len(reasoning) + sum(len(call.name) + len(call.arguments) for call in calls)
        case _:
            return len(message.text)


def _each(change: Any, messages: tuple[Message, ...]) -> tuple[Message, ...]:
    return tuple(change(message) for message in messages)


def _without_media(message: Message) -> Message:
    if not isinstance(message, UserMessage) or isinstance(message.content, str):
        return message
    parts = (REMOVED_MEDIA if isinstance(part, MediaPart) else part for part in message.content)
    return UserMessage(tuple(parts))


def mended(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """The messages with each tool call answered exactly once, right behind it, nothing empty, and no speaker twice."""
    fresh: list[Message] = []
    for message in paired(messages):
        match message:
            case AssistantMessage():
                if message.text.strip() or message.tool_calls:
                    fresh.append(evolve(message, replay=(), reasoning=""))
            case _:
                fresh.append(message)
    return tuple(_told_together(fresh))


def _told_together(messages: Sequence[Message]) -> list[Message]:
    """The messages with neighbours of one speaker made one, for there are servers that want them to alternate."""
    fresh: list[Message] = []
    for message in messages:
        match fresh[-1:], message:
            case [UserMessage() as before], UserMessage():
                fresh[-1] = joined(before, message)
            case [AssistantMessage(tool_calls=()) as before], AssistantMessage():
                text = "\n\n".join(filter(None, (before.text, message.text)))
                fresh[-1] = evolve(message, text=text)
            case [SystemMessage() as before], SystemMessage():
                fresh[-1] = SystemMessage(f"{before.text}\n\n{message.text}")
            case _:
                fresh.append(message)
    return fresh
