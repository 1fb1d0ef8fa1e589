"""No secret that litellm sends is told: a key that it found by itself, and a header that it was given."""

from __future__ import annotations

import pytest

from fsm_loop.providers.over_litellm import LiteLLM
from tests.audit.test_canaries import ANSWERS, FEW, HEADER, KEY, PASSWORD, texts
from tests.providers import test_litellm

pytestmark = test_litellm.pytestmark


def litellm(_, url):
    """A model over litellm, whose key is in the environment; it takes no password in an address."""
    address = url.replace(f"user:{PASSWORD}@", "")
    model = LiteLLM("openai/m", api_base=address, extra_headers={"x-proxy-key": HEADER})
    model.aclose = test_litellm.close_pools  # else they stay open
    return model


@pytest.mark.parametrize("answer", FEW)
def test_no_secret_is_told(tmp_path, monkeypatch, answer):
    """The server had both, and nothing that is kept or shown has one."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    asked, lines = texts(tmp_path, "chat", ANSWERS[answer], litellm)

    assert asked
    assert [] == [each for each in asked if HEADER not in str(each) or KEY not in str(each)]
    assert [] == [line for line in lines for canary in (KEY, HEADER) if canary in line]
