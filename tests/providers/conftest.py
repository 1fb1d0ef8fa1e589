"""What the tests of providers share: both event loops, and no word of the environment."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    """Each asynchronous test runs on both event loops."""
    return request.param


@pytest.fixture(params=["built in", "over the SDK"])
def way(request, monkeypatch):
    """A model that is made here has HTTP of its own; or, where no extra `http` is installed, a client of the SDK."""
    if request.param == "over the SDK":
        for name in ("aiohttp", "httpx"):
            monkeypatch.setitem(sys.modules, name, None)
    return request.param


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch):
    """No key and no address of this machine's user reaches a test."""
    for vendor in ("OPENAI", "ANTHROPIC"):
        for name in ("API_KEY", "AUTH_TOKEN", "BASE_URL", "ORG_ID", "PROJECT_ID"):
            monkeypatch.delenv(f"{vendor}_{name}", raising=False)
