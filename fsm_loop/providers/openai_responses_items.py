"""The output items of one Responses reply while they come in: told apart, completed, and kept for the next request.

An item is told several times: as it begins, in pieces, when it is whole, and once more at the end of the reply. Servers
leave out any of these, tell one twice, or give the same item another id each time; so each telling looks for the item
that it is about, and the last whole one is believed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fsm_loop.core.messages import is_cut
from fsm_loop.providers.fields import MOST_ITEMS, arguments_in, index, items, mapping, not_deep, text, too_many, word

MESSAGE, CALL, REASONING = "message", "function_call", "reasoning"
PROTOCOL = "openai-responses"

_BLANK = ("", "{}")  # arguments that say nothing


class Item:
    """One output item as far as it has come."""

    __slots__ = ("arguments", "call_id", "id", "kind", "name", "pieces", "place", "slot", "told", "twin", "whole")

    def __init__(self, kind: str, item_id: str, place: int | None) -> None:
        self.kind = kind
        self.id = item_id
        self.place = place
        self.pieces: list[str] = []  # what was said of it: text, reasoning or arguments
        self.call_id = ""
        self.name = ""
        self.arguments: list[str] = []  # as they were told whole, the last word last
        self.slot: int | None = None  # of a call: its number among the calls of the reply
        self.twin: Item | None = None  # of a call: an earlier one that has its id
        self.told: Mapping[str, Any] | None = None  # the item as it was told when it was whole
        self.whole = False

    @property
    def said(self) -> str:
        """What its pieces come to."""
        return "".join(self.pieces)

    def learn(self, fields: Mapping[str, Any]) -> None:
        """Take in what a telling of the call says of it."""
        self.call_id = self.call_id or word(fields.get("call_id"))
        self.name = text(fields.get("name")) or self.name
        self.arguments.append(arguments_in(fields.get("arguments")))

    def settled(self) -> str:
        """The arguments to be believed: what was told whole before the sum of pieces, what is cut last of all."""
        found = [*reversed(self.arguments), self.said]
        telling = [each for each in found if each.strip() not in _BLANK]
        whole = (each for each in telling if not is_cut(each))
        return next(whole, max(telling or found, key=len))


class Items:
    """The items of one reply, in the order in which they began."""

    def __init__(self) -> None:
        self.all: list[Item] = []
        self._by_id: dict[str, Item] = {}
        self._by_place: dict[int, Item] = {}
        self._slots = 0

    def at(self, event: Mapping[str, Any], kind: str) -> Item:
        """The item that a piece belongs to: the one of its id, at its place, or the last; a new one where none is."""
        item_id, place = text(event.get("item_id")), index(event.get("output_index"))
        found = self._known(item_id, place, kind)
        if found is None and not item_id and place is None:
            found = next((each for each in reversed(self.all) if each.kind == kind and not each.whole), None)
        return self._new(kind, item_id, place) if found is None else found

    def began(self, event: Mapping[str, Any]) -> Item:
        """The item that begins with this event."""
        fields = mapping(event.get("item"))
        kind, item_id, place = text(fields.get("type")), text(fields.get("id")), index(event.get("output_index"))
        found = self._known(item_id, place, kind)
        if found is None or (item_id and found.id and item_id != found.id):
            found = self._new(kind, item_id, place)
        self._identify(found, fields)
        return found

    def ended(self, event: Mapping[str, Any]) -> Item:
        """The item that is whole with this event."""
        fields = mapping(event.get("item"))
        kind, item_id, place = text(fields.get("type")), text(fields.get("id")), index(event.get("output_index"))
        found = self._known(item_id, place, kind)
        if found is None and place is None:
            found = self._unclaimed(fields, None, [each for each in self.all if not each.whole])
        if found is None or (found.whole and found.id != item_id):
            found = self._new(kind, item_id, place)
        self._identify(found, fields)
        found.told, found.whole = fields, True
        return found

    def listed(self, output: Any) -> Iterator[tuple[Item, Mapping[str, Any]]]:
        """Each item of the list that ends a reply, beside the one that it is; each of those is one of the list's."""
        open_items = list(self.all)
        for place, each in enumerate(items(output)):
            fields = mapping(each)
            found = self._unclaimed(fields, place, open_items)
            if found is None:
                found = self._new(text(fields.get("type")), text(fields.get("id")), None)
            else:
                open_items.remove(found)
            self._identify(found, fields)
            found.told, found.whole = found.told or fields, True
            yield found, fields

    def slot_of(self, call: Item) -> int:
        """The call's number among the calls of the reply."""
        if call.slot is None:
            call.slot = self._slots
            self._slots += 1
        return call.slot

    def calls(self) -> list[Item]:
        """The calls of the reply, without those that repeat another in all."""
        distinct: list[Item] = []
        for call in (each for each in self.all if each.kind == CALL):
            twin = call.twin
            if twin is None or (twin.name, twin.settled()) != (call.name, call.settled()):
                distinct.append(call)
        return distinct

    def kept(self) -> list[dict[str, Any]]:
        """The items as they go back to the provider; nothing where their words and their calls are all of them."""
        repeated = {id(each) for each in self.all if each.kind == CALL}.difference(map(id, self.calls()))
        kept = [_kept(each.told) for each in self.all if each.told is not None and id(each) not in repeated]
        sendable = [each for each in kept if each is not None]
        plain = all(each["type"] in (MESSAGE, CALL) and "phase" not in each for each in sendable)
        return [] if plain else not_deep(sendable)

    # ------------------------------------------------------------ telling them apart

    def _known(self, item_id: str, place: int | None, kind: str) -> Item | None:
        found = self._by_id.get(item_id)
        if found is None and place is not None:
            found = self._by_place.get(place)
        return found if found is not None and found.kind == kind else None

    def _unclaimed(self, fields: Mapping[str, Any], place: int | None, among: list[Item]) -> Item | None:
        """Which of these it is: by its id, by the id of the call, by its place, or the first of its kind."""
        kind, item_id, call_id = text(fields.get("type")), text(fields.get("id")), word(fields.get("call_id"))
        own = [each for each in among if each.kind == kind]
        if kind == CALL and call_id:
            alike = [each for each in own if each.call_id == call_id]
            own = alike or [each for each in own if not each.call_id]
        by_id = (each for each in own if item_id and each.id == item_id)
        by_place = (each for each in own if place is not None and each.place == place)
        return next((each for group in (by_id, by_place, own) for each in group), None)

    def _new(self, kind: str, item_id: str, place: int | None) -> Item:
        if len(self.all) >= MOST_ITEMS:
            raise too_many("items")
        item = Item(kind, item_id, place)
        self.all.append(item)
        if item_id:
            self._by_id[item_id] = item
        if place is not None:
            self._by_place[place] = item
        return item

    def _identify(self, item: Item, fields: Mapping[str, Any]) -> None:
        item_id, call_id = text(fields.get("id")), word(fields.get("call_id"))
        if item_id and not item.id:
            item.id = item_id
            self._by_id[item_id] = item
        if call_id and not item.call_id and item.slot is None:
            item.twin = next((each for each in self.all if each is not item and each.call_id == call_id), None)


def text_of(fields: Mapping[str, Any]) -> str:
    """All that a message says, the words of a refusal among it."""
    content = fields.get("content")
    if isinstance(content, str):
        return content
    parts = map(mapping, items(content))
    return "".join(text(part.get("text")) or text(part.get("refusal")) for part in parts)


def refuses(fields: Mapping[str, Any]) -> bool:
    """Whether the message holds a refusal."""
    return any(mapping(part).get("type") == "refusal" for part in items(fields.get("content")))


def reasoning_of(fields: Mapping[str, Any]) -> str:
    """What a reasoning item tells of the model's thoughts: their text, or a summary of it."""
    for name, joint in (("content", ""), ("summary", "\n\n")):
        told = joint.join(text(mapping(part).get("text")) for part in items(fields.get(name)))
        if told:
            return told
    return ""


def _kept(fields: Mapping[str, Any]) -> dict[str, Any] | None:
    """What of the item goes back to the provider, None where it is nothing."""
    item_id, kind = text(fields.get("id")), text(fields.get("type"))
    match kind:
        case "reasoning":  # whatever is not sealed is looked for where nothing was stored, and not found
            sealed = text(fields.get("encrypted_content"))
            summary = items(fields.get("summary"))
            return {"type": kind, "id": item_id, "summary": summary, "encrypted_content": sealed} if sealed else None
        case "message":
            kept = {"type": kind, "id": item_id, "text": text_of(fields)}
            phase = text(fields.get("phase"))
            return {**kept, "phase": phase} if phase else kept
        case "function_call":
            call_id = word(fields.get("call_id"))
            return {"type": kind, "id": item_id, "call_id": call_id, "name": text(fields.get("name"))}
    own = {name: value for name, value in fields.items() if value is not None}
    return own if kind.endswith("_call") and "call_id" not in fields else None
