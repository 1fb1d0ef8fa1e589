"""The fixtures that pytest finds in the package, used as a service's own tests use them."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import entry_points

import anyio
import pytest

from fsm_loop import Loop, LoopConfig
from fsm_loop.providers.openai_chat import OpenAIChat
from fsm_loop.testing.wire.case import CaseError
from tests.wire.parts import case, raw, says

BUSY = {"status": 503, "headers": {}, "body": "busy"}
QUICK = LoopConfig(base_delay_s=0.001, max_delay_s=0.001)


def ask(server):
    """A turn of a loop of one's own, at this server."""
    loop = Loop(model=OpenAIChat("m", base_url=server.base_url, api_key="k"), config=QUICK)
    return loop.run_sync("Hi")


def test_a_case_is_served_to_a_loop_of_ones_own(fault_server):
    """The server says that it is busy, then answers; the requests can be looked at."""
    server = fault_server(raw(BUSY, says("Hi.")))
    result = ask(server)

    assert ("completed", "Hi.") == (result.outcome, result.text)
    assert ["m", "m"] == [request.body["model"] for request in server.requests]
    assert [] == list(server.violations)


@pytest.mark.parametrize("given", ["path", "text", "mapping", "case"])
def test_a_case_may_be_given_in_any_shape(fault_server, tmp_path, given):
    """A file, its name, its JSON and a Case are the same to the fixture."""
    path = tmp_path / "small.json"
    path.write_text(json.dumps(raw(says("Hi."))), encoding="utf-8")
    shapes = {"path": path, "text": str(path), "mapping": raw(says("Hi.")), "case": case(says("Hi."))}

    assert "Hi." == ask(fault_server(shapes[given])).text


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_it_serves_tests_that_are_asynchronous(fault_server, backend):
    """The server is in a thread of its own, so that it minds no event loop."""
    server = fault_server(raw(BUSY, says("Hi.")))

    async def asking():
        model = OpenAIChat("m", base_url=server.base_url, api_key="k")
        try:
            return await Loop(model=model, config=QUICK).run("Hi")
        finally:
            await model.aclose()

    result = anyio.run(asking, backend=backend)

    assert ("completed", "Hi.", 2) == (result.outcome, result.text, len(server.requests))


def test_several_are_served_at_once(fault_server):
    """Each has an address of its own."""
    one, two = fault_server(raw(says("One."))), fault_server(raw(says("Two.")))

    assert ["One.", "Two."] == [ask(one).text, ask(two).text]
    assert one.base_url != two.base_url


def test_what_is_no_case_is_said(fault_server, tmp_path):
    """A wrong case is an error of its own kind, in the test that gave it."""
    with pytest.raises(CaseError, match="is no case"):
        fault_server({"schema_version": 2})
    with pytest.raises(CaseError, match="cannot be read"):
        fault_server(tmp_path / "nowhere.json")


OWN_TEST = """
import threading

import pytest


@pytest.fixture(autouse=True, scope="module")
def gone():
    before = threading.active_count()
    yield
    assert threading.active_count() == before


def test_own(fault_server):
    assert fault_server({case!r}).base_url.startswith("http://127.0.0.1:")
"""


def test_it_works_in_a_project_of_ones_own(tmp_path):
    """The fixture is found by the package alone; the server's thread is gone when the test is over."""
    (tmp_path / "test_own.py").write_text(OWN_TEST.format(case=raw(says("Hi."))), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", tmp_path, tmp_path],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=120,
    )

    assert 0 == done.returncode, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_the_plugin_is_named_where_pytest_looks():
    """The entry point is there, and importing it brings in nothing but pytest."""
    (found,) = entry_points(group="pytest11", name="fsm_loop")
    code = f"import sys, pytest; before = set(sys.modules); import {found.value}; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)

    assert "fsm_loop.testing.plugin" == found.value
    assert not {"hypothesis", "aiohttp", "httpx", "openai"} & set(done.stdout.split())
