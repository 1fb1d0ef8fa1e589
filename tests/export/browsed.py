"""What the tests of the viewer share: scripted trails, and a real browser where there is one."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from fsm_loop import LoopConfig
from fsm_loop.audit.jsonl import JsonLines
from fsm_loop.audit.reading import records
from fsm_loop.core.faults import FaultKind
from fsm_loop.loop import Loop
from fsm_loop.testing.clock import VirtualClock
from fsm_loop.testing.fakes import ScriptedModel, SeededChance, calls, fails, says

HOSTILE = '</script><script>window.ran=1</script><img src=x onerror="window.ran=1"><!-- \u2028 &lt;'


def look(path: str) -> str:
    """Look at something that is not to be trusted."""
    return HOSTILE


def trail(path, script, **config):
    """The records of a scripted turn, with all that was said."""
    clock = VirtualClock()
    model = ScriptedModel(script, clock=clock)
    with JsonLines(path, content="full", wall=lambda: 1_700_000_000 + clock.now()) as kept:
        loop = Loop(
            model=model,
            tools=[look],
            watchers=[kept],
            clock=clock,
            chance=SeededChance(1),
            config=LoopConfig(**config),
        )
        # Playwright keeps an event loop of its own in the tests' thread, so the turn has another thread.
        with ThreadPoolExecutor(1) as apart:
            apart.submit(clock.run, lambda: loop.run("Look around.")).result()
    return list(records([path]))


def hostile(path):
    """A turn that fails once, waits, is told what would run if it could, and says it again."""
    script = [fails(FaultKind.OVERLOADED, HOSTILE), calls(("look", {"path": HOSTILE})), says(HOSTILE)]
    return trail(path, script)


def spent(path, rounds=3):
    """A turn that looks and looks until its rounds are spent."""
    again = calls(("look", {"path": "."}))
    return trail(path, lambda request: again, max_iterations=rounds, max_requests=rounds + 9, grace_calls=0)


@contextmanager
def chromium():
    """Debian's Chromium, driven by Playwright; a test is skipped, with a sentence, where one of them is missing."""
    api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed: pip install playwright")
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("there is no Chromium here; install one with: apt-get install chromium")
    with api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()
