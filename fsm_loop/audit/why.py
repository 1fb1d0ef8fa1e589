"""Why a turn ended as it did, in plain sentences: what was spent and on what, what was waited for, who said what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from attrs import define, field, frozen

from fsm_loop.config import LoopConfig
from fsm_loop.core.counters import Counter
from fsm_loop.core.faults import FaultKind
from fsm_loop.core.guards import Left
from fsm_loop.core.machine import PAGE
from fsm_loop.core.messages import Finish
from fsm_loop.core.rows import Guard, Page, name_of_guard

Told = Mapping[str, Any]
MOST_TIMES = 8  # spends of a counter, waits, faults that are listed one by one; of more, the first and the last
ENDS = {
    "completed": "The answer is whole",
    "partial": "The answer was cut, and could not be brought to its end",
    "refused": "A provider refused the content, and no other was left",
    "exhausted": "A budget was spent",
    "interrupted": "Someone asked to stop",
    "failed": "Nothing was left to try",
}


@frozen
class Why:
    """Why one turn ended: its outcome ("" where it has no end), the counter that ended it, and the sentences."""

    turn_id: str
    outcome: str
    counter: str
    sentences: tuple[str, ...]


@define
class Turn:
    """The records of one turn."""

    turn_id: str
    opening: Told | None = None
    decided: list[Told] = field(factory=list)
    end: Told | None = None

    @property
    def began(self) -> float:
        """When the first decision was made, in seconds of the turn's clock."""
        return float(self.decided[0]["at"]) if self.decided else 0.0

    def since(self, record: Told) -> str:
        """When the decision was made, from the turn's first one on."""
        return f"{float(record['at']) - self.began:8.1f} s"

    @property
    def lasted_s(self) -> float:
        """Seconds from the first decision to the last."""
        return float(self.decided[-1]["at"]) - self.began if self.decided else 0.0


def turns(records: Iterable[Told]) -> list[Turn]:
    """The records turn by turn, in the order in which the turns began."""
    found: dict[str, Turn] = {}
    for record in records:
        turn = found.setdefault(record["turn"], Turn(record["turn"]))
        match record["is"]:
            case "opening":
                turn.opening = record
            case "decision":
                turn.decided.append(record)
            case _:
                turn.end = record
    return list(found.values())


def why(turn: Turn, page: Page = PAGE) -> Why:
    """Why this turn ended as it did."""
    end = turn.end
    spent = end["exhausted"] if end else None
    counter = str(spent["counter"]) if spent else ""
    return Why(turn.turn_id, end["outcome"] if end else "", counter, tuple(_sentences(turn, page, counter)))


def _sentences(turn: Turn, page: Page, counter: str) -> Iterator[str]:
    yield _headline(turn)
    yield from _how(turn)
    if counter:
        yield from _spent(turn, page, counter)
    yield from _also_spent(turn, page, counter)
    yield from _faults(turn)
    yield from _waits(turn)
    yield from _otherwise(turn, page)


def _headline(turn: Turn) -> str:
    end = turn.end
    rounds = sum(_asked(each, "RunTool") for each in turn.decided)
    calls = sum(_asked(each, "CallModel") for each in turn.decided)
    words = f"{_number(calls, 'call')}, {_number(rounds, 'tool call')}, {turn.lasted_s:.1f} s"
    if end is None:
        return f"Turn {turn.turn_id} has no end: killed, still running, or cut; {words} so far."
    return f"Turn {turn.turn_id} ended as {end['outcome']}: {words}."


def _how(turn: Turn) -> Iterator[str]:
    end = turn.end
    if end is None:
        if turn.decided:
            last = turn.decided[-1]
            when = datetime.fromtimestamp(float(last["wall"]), UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
            yield f"It stands in {last['after']} since {when} ({turn.since(last).strip()}), after {last['row']}."
        return
    words, deciding = ENDS.get(end["outcome"], "It ended"), _deciding(turn)
    if end["issuer"]:
        words = (
            f"{_text(end['issuer'])} ended it"
            if end["outcome"] == "failed"
            else f"{_text(end['issuer'])} asked to stop"
        )
        words += f" ({_text(end['reason'])})" if end["reason"] else ""
    left_alone = deciding is not None and deciding["after"] == "grace"
    if end["fault"] and not left_alone:
        words += f": {fault_sentence(end['fault'])}"
    yield f"{words}. That was decided in {deciding['state']}, by row {deciding['row']}." if deciding else f"{words}."
    if left_alone:
        came = f"; none came: {fault_sentence(end['fault'])}." if end["fault"] else ", and had it."
        yield f"The model was left its last word, with tools off{came}"


def _spent(turn: Turn, page: Page, name: str) -> Iterator[str]:
    """What the counter is, and each time it was spent."""
    end = turn.end or {}
    counter = next((each for each in page.counters if each.name == name), None)
    value, cap = end["exhausted"]["value"], end["exhausted"]["cap"]
    counts = f" (it counts {counter.counts})" if counter else ""
    yield f"What ended it is the counter {name}, spent at {_figure(value)} of {_figure(cap)}{counts}."
    times = [(each, moved) for each in turn.decided for moved in each["moved"] if moved["counter"] == name]
    if counter is not None and counter.measured:
        times = times[-1:]
    yield from _listed(
        f"  {turn.since(each)}  {_figure(m['before'])} -> {_figure(m['after'])}  {_cause(each)}" for each, m in times
    )


def _also_spent(turn: Turn, page: Page, ended: str) -> Iterator[str]:
    """How far the other counters came, in the page's order."""
    most: dict[str, tuple[float, float | None]] = {}
    for moved in (moved for each in turn.decided for moved in each["moved"] if moved["counter"] != ended):
        most[moved["counter"]] = max(moved["after"], most.get(moved["counter"], (0, None))[0]), moved["cap"]
    order = [each.name for each in page.counters]
    names = sorted(
        (name for name in most if most[name][0]), key=lambda name: (name not in order, [*order, name].index(name))
    )
    if names:
        told = (f"{name} {_of(*most[name])}" for name in names)
        yield f"At their highest, {'other ' if ended else ''}counters stood at: {', '.join(told)}."


def _cause(record: Told) -> str:
    """What a decision answered: its fault in words, or its event and row."""
    fault = record["facts"].get("fault")
    return f"{record['state']}: {fault_sentence(fault)}" if fault else str(record["row"])


def _faults(turn: Turn) -> Iterator[str]:
    failed = [each for each in turn.decided if each["facts"].get("fault") and each["row"] != "late"]
    if not failed:
        return
    yield "What went wrong on the way:"
    providers = list(turn.opening["providers"]) if turn.opening else []
    asked: dict[Any, Any] = {}
    for each in turn.decided:
        for effect in each["effects"]:
            if effect["effect"] in ("CallModel", "ReserveSlot"):
                asked[effect["attempt"]] = effect["provider"]
    lines = []
    for each in failed:
        place = asked.get(each["facts"].get("attempt"))
        who = f"{_text(providers[place])}: " if isinstance(place, int) and place < len(providers) else ""
        lines.append(f"  {turn.since(each)}  {who}{fault_sentence(each['facts']['fault'])} -> {each['after']}")
    yield from _listed(lines)


def _waits(turn: Turn) -> Iterator[str]:
    waits = [(each, effect) for each in turn.decided for effect in each["effects"] if effect["effect"] == "SetTimer"]
    if not waits:
        return
    total = sum(float(effect["delay_s"]) for _, effect in waits)
    yield f"It waited {_number(len(waits), 'time')}, {total:.1f} s in all (a wait may be cut short):"
    yield from _listed(
        f"  {turn.since(each)}  {float(effect['delay_s']):.1f} s, {_text(effect.get('reason', ''))}"
        for each, effect in waits
    )


def _otherwise(turn: Turn, page: Page) -> Iterator[str]:
    """What would have led elsewhere: the limits that kept a row from firing when the end was decided."""
    end, deciding = turn.end, _deciding(turn)
    if end is None or deciding is None or end["outcome"] == "completed":
        return
    if deciding["trigger"] == "interrupt_asked":
        yield "No setting would have changed the end: who asks to stop is obeyed at once."
        return
    yield from _beyond_help(deciding)
    ways = _ways(turn, deciding, page)
    if ways:
        yield "What would have led on:"
        yield from (f"  {way}." for way in ways)
    else:
        yield "No counter and no limit kept it from going on: the page knows nothing that helps against this."


def _beyond_help(deciding: Told) -> Iterator[str]:
    """What is not done about the fault, whatever the settings."""
    facts, answers = deciding["facts"], dict(deciding["guards"])
    if deciding["trigger"] == "request_repaired" and not facts.get("changed"):
        yield "The request was to be changed so that it could succeed, and nothing was found to change."
    kind = str((facts.get("fault") or {}).get("kind", "")).upper()
    if answers.get("may_retry") is False and kind in FaultKind.__members__ and not FaultKind[kind].retryable:
        yield "A fault of this kind is not retried: the same request would fail again."


def _ways(turn: Turn, deciding: Told, page: Page) -> list[str]:
    """For each row that only limits kept from firing, what it would have needed; a row needs all of it."""
    answers, counts, found = dict(deciding["guards"]), _counts_before(turn, deciding), []
    for row in page.rows:
        if (row.source.name.lower(), row.trigger) != (deciding["state"], deciding["trigger"]):
            continue
        lacking = [guard for guard in row.when if answers.get(name_of_guard(guard)) is not True]
        needs = [_needs(guard, turn, deciding, counts) for guard in lacking]
        if all(need is not None for need in needs):
            found.append("; and as well ".join(each for need in needs for each in need or ()))
    return [way for way in dict.fromkeys(found) if way]


def _needs(guard: Guard, turn: Turn, deciding: Told, counts: Mapping[str, float]) -> list[str] | None:
    """What this guard would have needed to say yes; None where no setting helps, or the trail does not tell."""
    config = turn.opening["config"] if turn.opening else {}
    if isinstance(guard, Left):
        return [_more(each, counts, turn) for each in guard.counters if _none_left(each, turn, counts)]
    fault = deciding["facts"].get("fault") or {}
    match name_of_guard(guard), fault.get("retry_after_s"), config.get("max_wait_s"):
        case "room_to_grow", _, _ if _ceiling_hindered(turn):
            more = _setting("output_ceiling_tokens", config)
            return [f"{more}: a cut tool call is asked for with a larger output limit"]
        case ("may_retry" | "waits_soon") as name, asked, most if name == "waits_soon" or _retried(fault):
            if asked is None or most is None or asked <= most:
                return [] if name == "waits_soon" else None
            env = _env("max_wait_s")
            return [f"max_wait_s at {_figure(asked)} or more (now {_figure(most)}; or {env} in the environment)"]
    return None


def _retried(fault: Told) -> bool:
    """Whether faults like this one are retried at all."""
    kind = FaultKind.__members__.get(str(fault.get("kind", "")).upper())
    said = fault.get("should_retry")
    if kind is None or said is None:
        return kind is not None and kind.retryable
    return bool(said) and kind.repair is None and kind is not FaultKind.REFUSED


def _ceiling_hindered(turn: Turn) -> bool:
    """Whether the config's ceiling kept the output limit where it was: neither the model's window nor its own limit."""
    finishes = [each["facts"]["reply"].get("finish") for each in turn.decided if "reply" in each["facts"]]
    lowered = any(moved["counter"] == "output_limit_repairs" for each in turn.decided for moved in each["moved"])
    return bool(finishes) and finishes[-1] != Finish.WINDOW_FULL and not lowered


def _none_left(counter: Counter, turn: Turn, counts: Mapping[str, float]) -> bool:
    opening = turn.opening
    if opening is None:
        return True
    cap = len(opening["providers"]) - 1 if counter.cap is None else counter.cap
    cap = opening["config"].get(cap) if isinstance(cap, str) else cap
    return cap is not None and counts.get(counter.name, 0) >= cap


def _counts_before(turn: Turn, deciding: Told) -> dict[str, float]:
    """The counters as they stood when the decision was made; measured ones as it left them."""
    counts: dict[str, float] = {}
    for each in turn.decided:
        for moved in each["moved"]:
            if each is not deciding or moved["after"] > moved["before"]:
                counts[moved["counter"]] = moved["after"]
        if each is deciding:
            break
    return counts


def _more(counter: Counter, counts: Mapping[str, float], turn: Turn) -> str:
    chain = len(turn.opening["providers"]) - 1 if turn.opening else 0
    if counter.cap is None:
        there = "there is none" if chain == 0 else f"{_number(chain, 'was', 'were')} tried"
        return f"another provider to fall back to: {there} behind the first"
    if isinstance(counter.cap, int):
        return f"{counter.name} above {counter.cap}, which is set on the page: {counter.counts}"
    config = turn.opening["config"] if turn.opening else {}
    return f"{_setting(counter.cap, config, counts.get(counter.name, 0))}: {counter.counts}"


def _setting(name: str, config: Told, above: float = 0) -> str:
    """The setting, with the value that it must exceed: what it was set to, or what was reached beyond that."""
    now = config.get(name) or 0
    if above > now:
        return f"{name} above {_figure(above)} (now {_figure(now)}; or {_env(name)} in the environment)"
    return f"{name} above {_figure(now)} (or {_env(name)} in the environment)"


def _env(name: str) -> str:
    return next(each.env[0] for each in LoopConfig.describe() if each.name == name)


def _figure(value: float) -> str:
    return f"{value:.10g}"


def _of(value: float, cap: float | None) -> str:
    return _figure(value) if cap is None else f"{_figure(value)} of {_figure(cap)}"


def _deciding(turn: Turn) -> Told | None:
    """The decision that settled the end: the one that finished the turn, or that left it its last word."""
    grace = next((each for each in turn.decided if each["after"] == "grace" != each["state"]), None)
    granted = next((each for each in turn.decided if each["after"] == "grace"), None)
    if turn.end is not None and turn.end["outcome"] == "exhausted" and (grace or granted):
        return grace or granted
    return next((each for each in turn.decided if _asked(each, "Finish")), None)


def fault_sentence(fault: Told) -> str:
    """The fault for a person, with what the provider said of it."""
    kind = str(fault.get("kind", "unknown"))
    known = FaultKind.__members__.get(kind.upper())
    words = known.sentence if known else kind
    status = f" (status {fault['status']})" if fault.get("status") is not None else ""
    message = _text(fault.get("message", ""))
    asked = f"; it asked to wait {float(fault['retry_after_s']):g} s" if fault.get("retry_after_s") is not None else ""
    return f"{words}{status}" + (f': "{message}"' if message else "") + asked


def _text(value: Any) -> str:
    """The text on one line, or how long it was where the trail does not keep it."""
    if isinstance(value, Mapping):
        return f"[{value.get('chars', '?')} characters]"
    return " ".join(str(value).split())


def _asked(record: Told, effect: str) -> int:
    return sum(each["effect"] == effect for each in record["effects"])


def _listed(lines: Iterable[str]) -> Iterator[str]:
    all_of_them: Sequence[str] = list(lines)
    if len(all_of_them) <= MOST_TIMES:
        yield from all_of_them
        return
    half = MOST_TIMES // 2
    yield from all_of_them[:half]
    yield f"            ... {len(all_of_them) - 2 * half} more ..."
    yield from all_of_them[-half:]


def _number(count: int, word: str, words: str = "") -> str:
    return f"{count} {word}" if count == 1 else f"{count} {words or word + 's'}"
