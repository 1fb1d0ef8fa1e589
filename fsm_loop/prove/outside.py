"""What answers the effects of a turn where a profile gives the chances: which answers there are, and their events."""

from __future__ import annotations

from typing import Any

from attrs import define

from fsm_loop.config import LoopConfig
from fsm_loop.core import events as e
from fsm_loop.core.effects import CallModel, Effect, JudgeCut, Repair, ReserveSlot, RunTool, SetTimer, SwitchProvider
from fsm_loop.core.events import PortEvent
from fsm_loop.core.faults import Fault, FaultKind
from fsm_loop.core.messages import Usage
from fsm_loop.core.step import Turn
from fsm_loop.errors import FsmLoopError
from fsm_loop.prove.chances import ANSWERED, THINGS, Asked, Facts, Profile

Answers = tuple[tuple[str, float], ...]
ANSWERABLE = (CallModel, ReserveSlot, JudgeCut, RunTool, SetTimer, Repair, SwitchProvider)


@define
class Outside:
    """The models, the tools and the time, as a profile has them under a config."""

    profile: Profile
    config: LoopConfig

    def answers(self, effects: tuple[Effect, ...], turn: Turn) -> Answers:
        """The names of what may answer these effects, and how likely each is; raises FsmLoopError where nothing may."""
        profile = self.profile
        match asked_of(effects):
            case CallModel(request=request):
                return profile.of(request.provider)
            case Repair():
                return _either("repaired", "not repaired", profile.repair_fails)
            case SwitchProvider():
                return _either("ready", "not ready", profile.provider_not_ready)
            case RunTool():
                return _either("returned", "stopped", profile.tool_loop)
            case None:
                raise FsmLoopError(f"odds: nothing in a profile answers what {turn.state.name.lower()} waits for")
        return (("", 1.0),)

    def events(self, name: str, effects: tuple[Effect, ...], turn: Turn, at: float, chance: float) -> list[PortEvent]:
        """The events of this answer, from the time *at* on, in seconds."""
        attempt, effect = turn.record.attempt, asked_of(effects)
        kind, facts = self._facts(name, effect, attempt)
        last = kind(attempt=attempt, at=at + self.took_s(name, effects), chance=chance, **facts)
        if isinstance(effect, CallModel) and THINGS.get(name, ANSWERED).began:
            return [e.StreamStarted(attempt=attempt, at=at, chance=chance), last]
        return [last]

    def took_s(self, name: str, effects: tuple[Effect, ...]) -> float:
        """How long this answer takes, in seconds."""
        match asked_of(effects):
            case SetTimer(delay_s=delay_s):
                return delay_s
            case RunTool():
                return self.profile.tool_s
            case CallModel():
                lasts = THINGS.get(name, ANSWERED).lasts
                return getattr(self.config, lasts) if lasts else self.profile.call_s
        return 0.0

    def _facts(self, name: str, effect: Effect | None, attempt: int) -> Facts:
        kind: type[PortEvent]
        facts: dict[str, Any] = {}
        match effect:
            case CallModel(request=request):
                profile = self.profile
                usage = Usage(profile.input_tokens, profile.output_tokens)
                asked = Asked(attempt, request.stream, usage, profile.retry_after_s or None)
                kind, facts = THINGS.get(name, ANSWERED).comes(asked)
            case RunTool(call=call):
                stop = "the same again" if name == "stopped" else ""
                kind, facts = e.ToolReturned, {"call_id": call.id, "text": "seen", "stop": stop}
            case Repair():
                kind, facts = e.RequestRepaired, {"changed": name == "repaired"}
            case SwitchProvider() if name != "ready":
                kind, facts = e.ProviderFailed, {"fault": Fault(FaultKind.NOT_READY)}
            case _:
                kind = AT_ONCE[type(effect)]
        return kind, facts


AT_ONCE: dict[type[Any], type[PortEvent]] = {
    ReserveSlot: e.SlotGranted,
    JudgeCut: e.CutJudged,
    SetTimer: e.TimerFired,
    SwitchProvider: e.ProviderReady,
}


def asked_of(effects: tuple[Effect, ...]) -> Effect | None:
    """The effect that an answer is waited for; None where there is none."""
    return next((each for each in effects if isinstance(each, ANSWERABLE)), None)


def _either(well: str, badly: str, chance: float) -> Answers:
    return tuple((name, each) for name, each in ((well, 1 - chance), (badly, chance)) if each)
