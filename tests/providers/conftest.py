"""What the tests of providers share: both event loops, and no word of the environment."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    """Each asynchronous test runs on both event loops."""
    return request.param


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch):
    """No key and no address of this machine's user reaches a test."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.delenv(name, raising=False)
