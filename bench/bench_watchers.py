"""What the watchers that tell a service about its turns cost: CPU per decision, and as a ratio to a turn without one.

Run by `make bench`. The timer is CPU time of this process; each figure is the median over pairs of turns, one watched
and one not, one right after the other. The first watcher is none at all: its ratio shows how far to trust the rest.
A turn has a model in memory and a tool that adds two numbers, so that the ratio is the worst there can be.
"""

from __future__ import annotations

import asyncio
import io
import logging
import statistics
import time

import pytest
import structlog
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

from fsm_loop import Loop, LoopConfig
from fsm_loop.audit.log import LogWatcher
from fsm_loop.audit.otel import OtelWatcher
from fsm_loop.testing.fakes import ScriptedModel, calls, says

pytestmark = pytest.mark.benchmark(timer=time.process_time, disable_gc=False, warmup=False)

ROUNDS = 200
DECISIONS = 4 * (ROUNDS + 1)  # a slot, a sign of life, a reply, and a tool's result or the turn's start


async def add(a: int, b: int) -> int:
    """The sum of two numbers."""
    return a + b


async def turn(watchers) -> None:
    """One turn of so many tool rounds."""
    left = iter([calls(("add", {"a": 1, "b": 2}))] * ROUNDS)
    config = LoopConfig(max_requests=ROUNDS + 1, max_iterations=ROUNDS + 1)
    model = ScriptedModel(lambda _: next(left, says("3")))
    result = await Loop(model=model, tools=[add], config=config, watchers=watchers).run("1 + 2?")
    assert (result.outcome, len(result.trail), result.trail_faults) == ("completed", DECISIONS, ())


def nobody():
    """No watcher: the floor."""
    return []


def log_switched_off():
    """A log whose level is switched off."""
    return logs(logging.WARNING)


def log_as_json():
    """A log of JSON lines, into memory."""
    return logs(logging.INFO)


def logs(level):
    """A log at this level."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(io.StringIO()),
        processors=[structlog.processors.add_log_level, structlog.processors.JSONRenderer()],
    )
    return [LogWatcher()]


def otel_without_sdk():
    """Spans that go nowhere, for no SDK is configured."""
    return [OtelWatcher()]


def otel_with_sdk():
    """Spans and metrics of a real SDK, with a processor that exports nothing."""
    tracing = TracerProvider()
    tracing.add_span_processor(SpanProcessor())
    return [OtelWatcher(tracer_provider=tracing, meter_provider=MeterProvider([InMemoryMetricReader()]))]


@pytest.mark.parametrize(
    "watchers", [nobody, log_switched_off, log_as_json, otel_without_sdk, otel_with_sdk], ids=lambda each: each.__name__
)
def test_watcher(benchmark, watchers):
    """CPU per decision of a turn that is watched, each turn beside one right before it that is not."""
    watching, unwatched = watchers(), []
    with asyncio.Runner() as runner:

        def before() -> None:
            began = time.process_time()
            runner.run(turn(nobody()))
            unwatched.append(time.process_time() - began)

        benchmark.pedantic(lambda: runner.run(turn(watching)), setup=before, rounds=21, iterations=1)
    structlog.reset_defaults()
    pairs = [*zip(benchmark.stats.stats.data, unwatched, strict=True)]
    more_us = statistics.median((with_ - without) / DECISIONS * 1e6 for with_, without in pairs)
    ratio = statistics.median(with_ / without for with_, without in pairs)
    benchmark.extra_info["us_per_decision"] = round(more_us, 1)
    benchmark.extra_info["times_the_unwatched"] = round(ratio, 2)
    print(f"\n{watchers.__name__}: {more_us:.1f} us a decision more, {ratio:.2f} times an unwatched turn")
