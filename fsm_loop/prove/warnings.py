"""What a person would want to know before a turn runs under a config: numbers that defeat each other, long waits."""

from __future__ import annotations

from collections.abc import Iterator

from fsm_loop.config import LoopConfig
from fsm_loop.core.guards import BASE_OUTPUT_TOKENS
from fsm_loop.prove.terms import evaluated, growths
from fsm_loop.prove.worst import walked_in_silence

LONG_S = 1800.0  # half an hour: longer than most people wait before they look


def warnings_of(config: LoopConfig, chain: int = 0) -> tuple[str, ...]:
    """A sentence for each thing to look at."""
    return tuple(_warnings(config, chain))


def _warnings(config: LoopConfig, chain: int) -> Iterator[str]:
    yield from _silence(config, chain)
    yield from _retries(config, chain)
    yield from _timers(config)
    yield from _waits(config)
    yield from _slots(config)
    yield from _caps(config, chain)
    yield from _cuts(config, chain)


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
    if config.connect_timeout_s >= config.first_token_timeout_s < config.call_deadline_s:
        yield (
            f"connect_timeout_s ({config.connect_timeout_s:g} s) never comes into play: first_token_timeout_s "
            f"({config.first_token_timeout_s:g} s) ends the attempt first"
        )
    if config.tool_timeout_s is None:
        yield "tool_timeout_s is none: a tool that never returns holds the turn until somebody interrupts it"
    elif config.turn_seconds is not None and config.tool_timeout_s > config.turn_seconds > 0:
        yield (
            f"tool_timeout_s ({config.tool_timeout_s:g} s) is above turn_seconds ({config.turn_seconds:g} s): "
            "a tool that has begun is not stopped by the turn's own seconds"
        )
    if config.turn_seconds is not None and config.first_token_timeout_s > config.turn_seconds:
        yield (
            f"first_token_timeout_s ({config.first_token_timeout_s:g} s) is above turn_seconds "
            f"({config.turn_seconds:g} s): one silent provider takes the whole turn, and no other is tried"
        )


def _retries(config: LoopConfig, chain: int) -> Iterator[str]:
    if not (chain or config.api_max_retries or config.recoveries):
        yield "api_max_retries and recoveries are 0 and there is no fallback: the first call that fails ends the turn"
    if 0 < config.max_requests <= config.api_max_retries:
        yield (
            f"api_max_retries ({config.api_max_retries}) can never be used up by requests that fail: "
            f"max_requests is {config.max_requests}"
        )
    if config.api_max_retries and config.max_wait_s < config.base_delay_s:
        yield (
            f"max_wait_s ({config.max_wait_s:g} s) is below base_delay_s ({config.base_delay_s:g} s): a provider that "
            "asks for no more than the first backoff is not waited for, and so not retried"
        )
    if config.api_max_retries and not config.base_delay_s:
        yield "base_delay_s is 0: a failed call is retried at once, and again, while the provider is still down"
    elif config.api_max_retries and not config.jitter:
        yield "jitter is 0: callers who fail together come back together"


def _slots(config: LoopConfig) -> Iterator[str]:
    if config.requests_per_minute is None:
        return
    longest_s = 60 + config.limiter_margin_s
    if longest_s > config.max_wait_s:
        yield (
            f"a slot of requests_per_minute may be {longest_s:g} s away, and max_wait_s is {config.max_wait_s:g} s: "
            "such a slot is not waited for, and no retry is made"
        )
    elif not config.slot_waits:
        yield "slot_waits is 0: where requests_per_minute leaves no slot, the wait for one is one of api_max_retries"


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


def _cuts(config: LoopConfig, chain: int) -> Iterator[str]:
    usable = int(evaluated(config, chain)["larger"])
    if usable < config.boosts:
        begins = "max_output_tokens" if config.max_output_tokens else "the first limit that is taken"
        limit = config.max_output_tokens or BASE_OUTPUT_TOKENS
        times = "once" if growths(config) == 1 else f"{growths(config)} times"
        yield (
            f"boosts ({config.boosts}) cannot all be used: from {begins} ({limit}) to output_ceiling_tokens "
            f"({config.output_ceiling_tokens}) a limit doubles {times}, and less reasoning is "
            "asked for once"
        )
    if not (config.continuations or config.boosts):
        yield "continuations and boosts are 0: the first reply that is cut ends the turn"


def _caps(config: LoopConfig, chain: int) -> Iterator[str]:
    most = int(evaluated(config, chain)["calls"]) - config.grace_calls
    if config.max_requests > most:
        yield f"max_requests ({config.max_requests:,}) can never be reached: the other caps allow {most:,} requests"
    if not config.max_iterations:
        yield "max_iterations is 0: no tool is ever run; a reply that asks for one leads to the last word"
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
    drip = walked_in_silence(config, chain, config.call_deadline_s)
    if drip.noticed_s > 2 * LONG_S and drip.silence_s > silent.silence_s:
        yield (
            f"a provider that trickles without an end is given up after {lasts(drip.noticed_s)}: "
            f"{drip.attempts} attempt{'s' if drip.attempts > 1 else ''} of up to call_deadline_s ({drip.silence_s:g} s)"
        )


def lasts(seconds: float) -> str:
    """The time, for a person."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (rest, "s")]
    return " ".join(f"{number} {unit}" for number, unit in parts if number) or "0 s"
