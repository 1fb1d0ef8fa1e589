"""What a user asks for, and what comes of it."""

from __future__ import annotations

import io
import sys

import pytest

from fsm_loop.cli.options import (
    DEFAULT_MODEL,
    Endpoint,
    Provider,
    RunOptions,
    fallbacks_of,
    primary_of,
    prompt_of,
    provider_of,
    shown_url,
    tools_of,
)
from fsm_loop.cli.stops import Status, Stop

URL = "http://127.0.0.1:8080/v1"
KEY = "sk-do-not-tell"
KEYED = {"OPENAI_API_KEY": KEY}


@pytest.mark.parametrize(
    ("options", "environ", "expected"),
    [
        ({}, {}, Provider.LOCAL),
        ({}, {"OPENAI_API_KEY": ""}, Provider.LOCAL),
        ({}, KEYED, Provider.OPENAI),
        ({}, {"OPENAI_BASE_URL": URL}, Provider.OPENAI),
        ({"base_url": URL}, {}, Provider.OPENAI),
        ({"api_key_env": "MY_KEY"}, {}, Provider.OPENAI),
        ({"provider": Provider.LOCAL}, KEYED, Provider.LOCAL),
        ({"provider": Provider.OPENAI}, {}, Provider.OPENAI),
    ],
)
def test_the_provider(options, environ, expected):
    """The provider is the one asked for, else openai where a key or an address is known, else the embedded model."""
    assert expected is provider_of(RunOptions(prompt="hi", **options), environ)


@pytest.mark.parametrize(
    ("options", "environ", "expected"),
    [
        ({}, KEYED, Endpoint(DEFAULT_MODEL, None, KEY)),
        ({"model": "m"}, {**KEYED, "OPENAI_BASE_URL": URL}, Endpoint("m", URL, KEY)),
        ({"base_url": "https://a/v1"}, {**KEYED, "OPENAI_BASE_URL": URL}, Endpoint(DEFAULT_MODEL, "https://a/v1", KEY)),
        ({"base_url": URL}, {}, Endpoint(DEFAULT_MODEL, URL, None)),
        ({"api_key_env": "MINE"}, {**KEYED, "MINE": " mine\n"}, Endpoint(DEFAULT_MODEL, None, "mine")),
    ],
)
def test_the_primary(options, environ, expected):
    """The model that is asked first has the address and the key that were given, the option before the environment."""
    assert expected == primary_of(RunOptions(prompt="hi", **options), environ)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("other", Endpoint("other", URL, KEY)),
        ("@cf/meta/llama", Endpoint("@cf/meta/llama", URL, KEY)),
        ("other@https://far.example/v1", Endpoint("other", "https://far.example/v1", None, "other@far.example")),
        ("other@http://127.0.0.1:8080/v2", Endpoint("other", "http://127.0.0.1:8080/v2", KEY, "other@127.0.0.1")),
        ("other@http://127.0.0.1:8081/v1", Endpoint("other", "http://127.0.0.1:8081/v1", None, "other@127.0.0.1")),
        ("a@b@https://far.example/v1#FAR_KEY", Endpoint("a@b", "https://far.example/v1", "far", "a@b@far.example")),
    ],
)
def test_a_fallback(spec, expected):
    """A fallback has its own address where it names one, and another address never gets the primary's key."""
    options = RunOptions(prompt="hi", fallbacks=(spec,))

    assert [expected] == fallbacks_of(options, Endpoint("m", URL, KEY), {**KEYED, "FAR_KEY": "far"})


def test_a_fallback_of_the_embedded_model_has_an_address():
    """Behind the embedded model a fallback is another server's."""
    options = RunOptions(prompt="hi", fallbacks=(f"other@{URL}",))

    assert [Endpoint("other", URL, None, "other@127.0.0.1")] == fallbacks_of(options, None, {})


def stopped(call, *args):
    """The sentence that the call stops with."""
    with pytest.raises(Stop) as stop:
        call(*args)
    assert Status.USAGE is stop.value.status
    return stop.value.sentence


@pytest.mark.parametrize(
    ("options", "environ", "expected"),
    [
        ({}, {}, "there is no key: set OPENAI_API_KEY"),
        ({"base_url": "far.example/v1"}, {}, "--base-url: 'far.example/v1' is not an address"),
        ({"base_url": ""}, {}, "--base-url: '' is not an address"),
        ({"base_url": "http://"}, {}, "--base-url: 'http://' is not an address"),
        ({"base_url": "http://a:port"}, {}, "--base-url: 'http://a:port' is not an address"),
        ({"base_url": f"ftp://me:{KEY}@far"}, {}, "--base-url: 'ftp://far' is not an address"),
        ({}, {"OPENAI_BASE_URL": "far"}, "OPENAI_BASE_URL: 'far' is not an address"),
        ({"api_key_env": "MINE"}, {}, "--api-key-env: the environment variable MINE is not set"),
        ({"api_key_env": KEY}, {}, "--api-key-env: give the name of the environment variable"),
    ],
)
def test_a_primary_that_is_none(options, environ, expected):
    """What is missing or wrong is said in a sentence, without any secret."""
    sentence = stopped(primary_of, RunOptions(prompt="hi", **options), environ)

    assert sentence.startswith(expected)
    assert KEY not in sentence


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("", "--fallback: the name of a model is needed"),
        ("other", "--fallback other: with --provider local, give its address too: other@BASE_URL"),
        ("other@http://", "--fallback: 'http://' is not an address"),
        (f"other@http://a#{KEY}", "--fallback: give the name of the environment variable"),
        ("other@http://a#NO_KEY", "--fallback: the environment variable NO_KEY is not set"),
    ],
)
def test_a_fallback_that_is_none(spec, expected):
    """A fallback that cannot be asked is said in a sentence."""
    sentence = stopped(fallbacks_of, RunOptions(prompt="hi", fallbacks=(spec,)), None, {})

    assert sentence.startswith(expected)
    assert KEY not in sentence


def test_a_key_is_not_in_the_words_of_an_endpoint():
    """An endpoint that is printed by mistake keeps its key."""
    assert KEY not in repr(Endpoint("m", URL, KEY))


@pytest.mark.parametrize(
    ("url", "expected"),
    [("http://me:secret@far/v1", "http://far/v1"), (URL, URL), ("https://far/a@b", "https://far/a@b")],
)
def test_an_address_is_shown_without_its_password(url, expected):
    """An address is told as it is, but for a name and password in it."""
    assert expected == shown_url(url)


@pytest.mark.parametrize(
    ("read", "expected"), [(b"hello\n", "hello\n"), ("grüße".encode(), "grüße"), (b"a\xffb", "a\ufffdb")]
)
def test_a_prompt_can_come_from_standard_input(monkeypatch, read, expected):
    """A dash stands for standard input, whatever bytes it holds."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(read), encoding="ascii"))

    assert expected == prompt_of(RunOptions(prompt="-"))


@pytest.mark.parametrize("prompt", ["", " \n"])
def test_an_empty_prompt_is_refused(prompt):
    """There must be something to ask."""
    assert "the prompt is empty; say what to ask" == stopped(prompt_of, RunOptions(prompt=prompt))


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working directory of one's own, with a module in it; what is imported from there is forgotten."""
    (tmp_path / "my_tools_.py").write_text("class Group:\n    def add(a: int): ...\nadd = Group.add\nnumber = 3\n")
    (tmp_path / "broken_.py").write_text("1 / 0\n")
    (tmp_path / "leaves_.py").write_text("raise SystemExit('bye')\n")
    (tmp_path / "needs_.py").write_text("import nowhere_\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])
    yield tmp_path
    for name in ("my_tools_", "broken_", "leaves_", "needs_"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("spec", ["my_tools_:add", "my_tools_:Group.add"])
def test_a_tool_of_the_working_directory(here, spec):
    """A function is found by its module, which may stand in the working directory."""
    (tool,) = tools_of(RunOptions(prompt="hi", tools=(spec,)))

    assert "add" == tool.__name__


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("my_tools_", "give a module and a function, as in my_tools:add"),
        (":add", "give a module and a function, as in my_tools:add"),
        ("my_tools_:", "give a module and a function, as in my_tools:add"),
        ("nowhere_:add", "there is no module nowhere_"),
        ("nowhere_.inner:add", "there is no module nowhere_"),
        ("needs_:add", "importing needs_ failed: ModuleNotFoundError: No module named 'nowhere_'"),
        ("broken_:add", "importing broken_ failed: ZeroDivisionError: division by zero"),
        ("leaves_:add", "importing leaves_ failed: SystemExit: bye"),
        ("my_tools_:sub", "the module my_tools_ has no function sub"),
        ("my_tools_:number", "number is int, not a function"),
        (".relative:add", "importing .relative failed: TypeError: the 'package' argument is required to perform a relative import for '.relative'"),
    ],
)  # fmt: skip
def test_a_tool_that_is_none(here, spec, expected):
    """A tool that cannot be had is said in a sentence, with the option that named it."""
    assert f"--tool {spec}: {expected}" == stopped(tools_of, RunOptions(prompt="hi", tools=(spec,)))
