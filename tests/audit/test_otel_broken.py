"""Whatever breaks on the way of spans, or is not there, changes nothing of the turn."""

from __future__ import annotations

import subprocess
import sys

import pytest
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter

from fsm_loop.audit.otel import OtelWatcher
from fsm_loop.loop import Loop
from fsm_loop.testing.fakes import ScriptedModel, calls, says
from tests.audit.spans import SECRET, Seen, f
from tests.drive.turns import drive, on_each_backend


class Failing(SpanExporter):
    """An exporter that cannot be reached."""

    def export(self, spans):
        raise ConnectionError("no collector")


class Broken(SpanProcessor):
    """A processor that breaks as soon as a span of this name begins, or ends."""

    def __init__(self, name, *, at):
        self.name, self.at = name, at

    def on_start(self, span, parent_context=None):
        self.breaks(span, "start")

    def on_end(self, span):
        self.breaks(span, "end")

    def breaks(self, span, at):
        if (self.name, self.at) == (span.name, at):
            raise RuntimeError("broken")


def test_an_exporter_that_fails():
    """What the exporter raises reaches neither the turn nor its faults: it is the SDK's affair."""
    seen = Seen(SimpleSpanProcessor(Failing()))
    driven = seen.drive([calls(("f", {})), says("ok")], tools=[f])

    assert ("completed", "ok", ()) == (driven.result.outcome, driven.result.text, driven.result.trail_faults)


@pytest.mark.parametrize("at", ["start", "end"])
@pytest.mark.parametrize("name", ["invoke_agent", "chat scripted", "execute_tool f"])
@on_each_backend
def test_a_processor_that_breaks(name, at, backend):
    """What breaks while a span begins or ends changes nothing of the turn, is told once, and leaves nothing behind."""
    seen = Seen(Broken(name, at=at))
    model = ScriptedModel([calls(("f", {})), says("ok")])
    loop = Loop(model=model, tools=[f], watchers=[seen.watcher], clock=seen.clock)
    result = seen.clock.run(lambda: loop.run("hi"), backend)

    assert ("completed", "ok") == (result.outcome, result.text)
    assert ("OtelWatcher: RuntimeError: broken",) == result.trail_faults
    assert {} == seen.watcher._turns


@pytest.mark.parametrize("place", ["input.messages", "output.messages", "tool.call.arguments", "tool.call.result"])
def test_a_redaction_that_breaks(place):
    """Where a text cannot be redacted it is not told, nothing more is, and the turn is as it is."""

    def redact(name, text):
        if name == f"gen_ai.{place}":
            raise ValueError
        return ""

    seen = Seen(content="full", redact=redact)
    driven = seen.drive([calls(("f", {})), says(SECRET)], tools=[f], prompt=SECRET)

    assert ("completed", 1) == (driven.result.outcome, len(driven.result.trail_faults))
    assert {} == seen.watcher._turns
    assert SECRET not in "".join(span.to_json() for span in seen.exporter.get_finished_spans())


def test_a_service_without_an_sdk():
    """Where nothing is configured nothing is made, and the turn is as it is."""
    driven = drive([calls(("f", {})), says("ok")], tools=[f], ports={"watchers": [OtelWatcher(content="full")]})

    assert ("completed", ()) == (driven.result.outcome, driven.result.trail_faults)


def test_wrong_content_is_refused():
    """What is neither digests nor full is an error at once."""
    with pytest.raises(ValueError, match="must be 'digests' or 'full'"):
        OtelWatcher(content="some")


def test_without_the_extra():
    """Where OpenTelemetry is not installed the import says which extra brings it; the door needs none."""
    program = "import sys; sys.modules['opentelemetry'] = None; import fsm_loop; import fsm_loop.audit.otel"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)

    assert 1 == done.returncode
    assert "OpenTelemetry needs the extra `otel`: pip install 'fsm-loop[otel]'" in done.stderr.splitlines()[-1]
