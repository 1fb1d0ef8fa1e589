"""What a person would want to know before a turn runs under a config: numbers that defeat each other, long waits."""

from __future__ import annotations

from collections.abc import Iterator

from fsm_loop.config import LoopConfig
from fsm_loop.prove.worst import walked_in_silence

LONG_S = 1800.0  # half an hour: longer than most people wait before they look


def warnings_of(config: LoopConfig, chain: int = 0) -> tuple[str, ...]:
    """A sentence for each thing to look at."""
    return tuple(_warnings(config, chain))


def _warnings(config: LoopConfig, chain: int) -> Iterator[str]:
    yield from _timers(config)
    yield from _waits(config)
    yield from _caps(config)
    yield from _silence(config, chain)


def _timers(config: LoopConfig) -> Iterator[str]:
    if config.read_timeout_s > config.stale_after_s:
        yield (
            f"read_timeout_s ({config.read_timeout_s:g} s) is above stale_after_s ({config.stale_after_s:g} s): "
            "a request that does not stream is waited for longer than a stream that has fallen silent"
        )
    for name in ("first_token_timeout_s", "stale_after_s", "connect_timeout_s"):
        if getattr(config, name) >= config.call_deadline_s:
            yield (
                f"{name} ({getattr(config, name):g} s) never comes into play: "
                f"call_deadline_s ({config.call_deadline_s:g} s) ends the attempt first"
            )
    if config.turn_seconds is not None and config.first_token_timeout_s > config.turn_seconds:
        yield (
            f"first_token_timeout_s ({config.first_token_timeout_s:g} s) is above turn_seconds "
            f"({config.turn_seconds:g} s): one silent provider takes the whole turn, and no other is tried"
        )


def _waits(config: LoopConfig) -> Iterator[str]:
    if config.turn_seconds is not None and config.max_wait_s > config.turn_seconds:
        yield (
            f"max_wait_s ({config.max_wait_s:g} s) is above turn_seconds ({config.turn_seconds:g} s): "
            "one Retry-After can take the whole turn"
        )
    used = config.recovery_plan_s[: config.recoveries]
    if config.turn_seconds is not None and sum(used) > config.turn_seconds:
        yield (
            f"the waits of recovery_plan_s ({sum(used):g} s together) are above turn_seconds "
            f"({config.turn_seconds:g} s): the last of them can never be waited for"
        )
    if len(config.recovery_plan_s) > config.recoveries > 0:
        yield (
            f"recovery_plan_s holds {len(config.recovery_plan_s)} waits, and recoveries allows {config.recoveries}: "
            "the last ones are never used"
        )


def _caps(config: LoopConfig) -> Iterator[str]:
    if 0 < config.max_requests < config.max_iterations:
        yield (
            f"max_iterations ({config.max_iterations}) can never be reached: "
            f"each tool round takes a request, and max_requests is {config.max_requests}"
        )
    for name in ("max_requests", "tokens", "cost", "turn_seconds"):
        if getattr(config, name) == 0:
            then = "only the grace call is made" if config.grace_calls else "no call is made"
            yield f"{name} is 0, so that nothing may be spent: {then}"
    if not config.grace_calls:
        yield "grace_calls is 0: a turn whose budget is spent ends without a last answer"


def _silence(config: LoopConfig, chain: int) -> Iterator[str]:
    silent = walked_in_silence(config, chain)
    if config.recoveries and not silent.recovered and silent.calls:
        yield (
            "recoveries can never be reached by calls that fail, because retries and fallbacks come first: "
            f"the turn is over after {silent.calls} calls"
        )
    each_s = f"{silent.attempts} attempt{'s' if silent.attempts > 1 else ''} of up to {silent.silence_s:g} s"
    if silent.noticed_s > LONG_S / 3:
        yield (
            f"a provider that takes requests and says nothing is given up after {lasts(silent.noticed_s)}: "
            f"{each_s}, and the backoff between"
        )
    if silent.ended_s > LONG_S:
        whose = "every provider does" if chain else "it does"
        yield f"where {whose} so to the end, the turn is over after {lasts(silent.ended_s)}"


def lasts(seconds: float) -> str:
    """The time, for a person."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [f"{hours} h" if hours else "", f"{minutes} min" if minutes else "", f"{rest} s" if rest else ""]
    return " ".join(filter(None, parts)) or "0 s"
