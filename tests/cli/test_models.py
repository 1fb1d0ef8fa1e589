"""The models that a run asks, and whether anybody is there."""

from __future__ import annotations

import socket
import sys
from types import SimpleNamespace

import pytest

from fsm_loop.cli.models import models_for, nobody_at
from fsm_loop.cli.options import Provider, RunOptions
from fsm_loop.cli.stops import Stop
from fsm_loop.loop import Loop
from fsm_loop.testing.server import ChatServer, completion

FAR = "http://127.0.0.1:9/v1"


@pytest.fixture(autouse=True)
def nothing_in_the_environment(monkeypatch):
    """No key, no address and no proxy of whoever runs the tests."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "http_proxy", "HTTP_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def embedded(monkeypatch):
    """A stand-in for the embedded server, which says when it is closed."""
    closed = []
    server = SimpleNamespace(base_url=FAR, model="small", close=lambda: closed.append(True))

    def start(progress):
        progress("loading")
        return server

    monkeypatch.setitem(sys.modules, "fsm_loop.providers.local", SimpleNamespace(start=start))
    return closed


def test_the_models_stand_in_the_order_of_the_chain():
    """The primary comes first, the fallbacks after it, each by a name that tells it apart."""
    options = RunOptions(prompt="hi", base_url=FAR, model="a", fallbacks=("b", "a@http://far.example/v1"))
    with models_for(options, print) as models:
        names = [model.name for model in models]

    assert ["a", "b", "a@far.example"] == names


def test_the_embedded_model_is_started_and_stopped(embedded):
    """The embedded server runs as long as its models are in use, and says what it does meanwhile."""
    told = []
    with models_for(RunOptions(prompt="hi", fallbacks=(f"b@{FAR}",)), told.append) as models:
        names, running = [model.name for model in models], not embedded

    assert (["small", "b@127.0.0.1"], True) == (names, running)
    assert (["loading"], [True]) == (told, embedded)


def test_no_connection_to_the_embedded_model_is_kept(monkeypatch):
    """The embedded server closes its connections unsaid, so each request has one of its own; others are kept."""
    with ChatServer([completion("one"), completion("two")]) as server:
        embedded = SimpleNamespace(base_url=server.base_url, model="small", close=lambda: None)
        here = SimpleNamespace(start=lambda progress: embedded)
        monkeypatch.setitem(sys.modules, "fsm_loop.providers.local", here)
        for options in (RunOptions(prompt="hi"), RunOptions(prompt="hi", base_url=server.base_url)):
            with models_for(options, print) as (model,):
                assert "completed" == Loop(model=model).run_sync("hi").outcome
        kept = [request.headers.get("connection") for request in server.requests]

    assert "close" == kept[0]
    assert "close" != kept[1]


def test_the_embedded_server_is_stopped_whatever_happens(embedded):
    """A run that fails leaves no server behind."""
    with pytest.raises(ZeroDivisionError), models_for(RunOptions(prompt="hi"), print):
        1 / 0  # noqa: B018  # it is there to raise

    assert [True] == embedded


@pytest.mark.parametrize("options", [{"base_url": FAR}, {"api_key_env": "MY_KEY"}])
def test_the_embedded_model_has_no_address_and_no_key(embedded, options):
    """An option that the embedded model cannot follow is refused, before anything is started."""
    with pytest.raises(Stop, match="does not go with --provider local"):
        models_for(RunOptions(prompt="hi", provider=Provider.LOCAL, **options), print).__enter__()

    assert [] == embedded


@pytest.fixture
def refused():
    """An address of this machine at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    return f"http://127.0.0.1:{port}/v1"


def test_a_server_that_is_there():
    """A server that takes the connection may be asked."""
    with ChatServer() as server:
        assert "" == nobody_at(RunOptions(prompt="hi", base_url=server.base_url))


def test_a_server_that_is_not_there(refused):
    """A server that refuses the connection is told with the reason."""
    found = nobody_at(RunOptions(prompt="hi", base_url=refused))

    assert f"{refused} cannot be reached (Connection refused)" == found


def test_a_host_that_is_none():
    """A name that no host has is told too."""
    found = nobody_at(RunOptions(prompt="hi", base_url="http://no-such-host.invalid/v1"))

    assert found.startswith("http://no-such-host.invalid/v1 cannot be reached (")


def test_whoever_has_others_to_ask_is_not_stopped(refused):
    """With a fallback, with a proxy, without an address, and with the embedded model, nobody is looked for."""
    given = [{"base_url": refused, "fallbacks": ("b",)}, {"provider": Provider.LOCAL}]

    assert ["", ""] == [nobody_at(RunOptions(prompt="hi", **each)) for each in given]


def test_openai_itself_is_not_looked_for(monkeypatch):
    """Without an address the turn finds out by itself."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")

    assert "" == nobody_at(RunOptions(prompt="hi"))


def test_behind_a_proxy_nobody_is_looked_for(monkeypatch):
    """A server that only a proxy reaches is not looked for from here."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")

    assert "" == nobody_at(RunOptions(prompt="hi", base_url="http://no-such-host.invalid/v1"))


@pytest.fixture
def litellm(monkeypatch):
    """A stand-in for litellm's models: how each was made."""
    made = []

    def make(model, **given):
        made.append((model, given["api_key"], given.get("api_base")))
        return SimpleNamespace(name=given["name"])

    monkeypatch.setitem(sys.modules, "fsm_loop.providers.over_litellm", SimpleNamespace(LiteLLM=make))
    return made


def test_a_model_of_litellms(litellm, monkeypatch):
    """A name that begins so is litellm's affair, as primary and as fallback; OpenAI's key is not for its vendors."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    options = RunOptions(prompt="hi", model="litellm/anthropic/a", fallbacks=("litellm/groq/b", f"c@{FAR}"))
    with models_for(options, print) as models:
        names = [model.name for model in models]

    assert ["litellm/anthropic/a", "litellm/groq/b", "c@127.0.0.1"] == names
    assert [("anthropic/a", None, None), ("groq/b", None, None)] == litellm


def test_a_model_of_litellms_at_an_address_with_a_key(litellm, monkeypatch):
    """An address and a variable that are named go along."""
    monkeypatch.setenv("MY_KEY", "k")
    with models_for(RunOptions(prompt="hi", model="litellm/openai/a", base_url=FAR, api_key_env="MY_KEY"), print):
        pass

    assert [("openai/a", "k", FAR)] == litellm


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"fallbacks": ("b",)}, "give its address too: b@BASE_URL"),
        ({"provider": Provider.LOCAL}, "does not go with --provider local"),
    ],
)
def test_what_does_not_go_with_a_model_of_litellms(litellm, options, sentence):
    """A fallback that would get another vendor's key, and the embedded model, are refused."""
    with pytest.raises(Stop, match=sentence):
        models_for(RunOptions(prompt="hi", model="litellm/x/a", **options), print).__enter__()


def test_nobody_is_looked_for_at_a_vendor_of_litellms():
    """Without an address litellm knows where its vendor is."""
    assert "" == nobody_at(RunOptions(prompt="hi", model="litellm/anthropic/a"))


def test_a_named_server_gets_no_key_of_the_environment(litellm, monkeypatch):
    """Behind litellm too, OpenAI's key goes to nobody else."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    with models_for(RunOptions(prompt="hi", model="litellm/openai/a", base_url=FAR), print):
        pass

    assert [("openai/a", "none", FAR)] == litellm
