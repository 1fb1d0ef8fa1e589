"""What a user asks for, and what comes of it: keys, addresses, tools. What is wrong stops with a sentence."""

from __future__ import annotations

import importlib
import operator
import re
import sys
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from attrs import field, frozen

from fsm_loop.cli.stops import Stop


class Provider(StrEnum):
    """Where the model is."""

    OPENAI = "openai"
    LOCAL = "local"


@frozen(kw_only=True)
class RunOptions:
    """The options of `fsm-loop run`, as they were given."""

    prompt: str
    provider: Provider | None = None
    model: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    fallbacks: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    config: Path | None = None
    trail: Path | None = None
    view: bool = False
    as_json: bool = False
    max_tokens: int | None = None
    system: str | None = None


@frozen
class Endpoint:
    """One model at one address; None is OpenAI's own. `name` tells it apart in trails; the key is never shown."""

    model: str
    base_url: str | None
    key: str | None = field(repr=False)
    name: str = field()

    @name.default
    def _named(self) -> str:
        return self.model


KEY_NAME = "OPENAI_API_KEY"
BASE_NAME = "OPENAI_BASE_URL"
DEFAULT_MODEL = "gpt-4o-mini"

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FALLBACK = re.compile(r"(?P<model>.+?)(?:@(?P<url>https?://[^#]*)(?:#(?P<key>.*))?)?", re.DOTALL)


def provider_of(options: RunOptions, environ: Mapping[str, str]) -> Provider:
    """The provider asked for; without one, openai where anything speaks for it, else the embedded model."""
    if options.provider is not None:
        return options.provider
    given = (options.base_url, options.api_key_env, environ.get(KEY_NAME), environ.get(BASE_NAME))
    return Provider.OPENAI if any(given) else Provider.LOCAL


def primary_of(options: RunOptions, environ: Mapping[str, str]) -> Endpoint:
    """The model that is asked first, at a server of the OpenAI protocol."""
    url = options.base_url if options.base_url is not None else environ.get(BASE_NAME) or None
    name = "--base-url" if options.base_url is not None else BASE_NAME
    key = _key(options.api_key_env, "--api-key-env", environ) if options.api_key_env else environ.get(KEY_NAME) or None
    if url is not None:
        check_url(url, name)
    elif key is None:
        raise Stop(
            f"there is no key: set {KEY_NAME}, or name another variable with --api-key-env; "
            "a server of your own needs --base-url, and --provider local needs neither"
        )
    return Endpoint(options.model or DEFAULT_MODEL, url, key)


def fallbacks_of(options: RunOptions, primary: Endpoint | None, environ: Mapping[str, str]) -> list[Endpoint]:
    """The models to fall back to; one at the primary's own address shares its key, any other gets none unasked."""
    return [_fallback(spec, primary, environ) for spec in options.fallbacks]


def _fallback(spec: str, primary: Endpoint | None, environ: Mapping[str, str]) -> Endpoint:
    found = _FALLBACK.fullmatch(spec)
    if found is None:
        raise Stop("--fallback: the name of a model is needed, as in MODEL or MODEL@BASE_URL")
    model, url, name = found["model"], found["url"], found["key"]
    if url is None:
        if primary is None:
            raise Stop(f"--fallback {model}: with --provider local, give its address too: {model}@BASE_URL")
        return Endpoint(model, primary.base_url, primary.key)
    check_url(url, "--fallback")
    host = f"{model}@{urlsplit(url).hostname}"
    if name is not None:
        return Endpoint(model, url, _key(name, "--fallback", environ), host)
    same = primary is not None and _origin(url) == _origin(primary.base_url or "")
    return Endpoint(model, url, primary.key if primary is not None and same else None, host)


def _key(name: str, option: str, environ: Mapping[str, str]) -> str:
    if not _VARIABLE.fullmatch(name):  # what was given may be the key itself, so it is not said again
        raise Stop(f"{option}: give the name of the environment variable that holds the key, never the key itself")
    key = environ.get(name, "").strip()
    if not key:
        raise Stop(f"{option}: the environment variable {name} is not set, or is empty")
    return key


def check_url(url: str, option: str) -> None:
    """Stop where this is no address of a server."""
    try:
        parts = urlsplit(url)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        whole = False
    if not whole:
        raise Stop(f"{option}: {shown_url(url)!r} is not an address; one looks like http://127.0.0.1:8080/v1")


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


def shown_url(url: str) -> str:
    """The address without a name and a password that may stand in it."""
    return re.sub(r"//[^/@]*@", "//", url)


def prompt_of(options: RunOptions) -> str:
    """What is asked; `-` stands for standard input."""
    text = options.prompt
    if text == "-":
        text = sys.stdin.buffer.read().decode("utf-8", "replace") if hasattr(sys.stdin, "buffer") else sys.stdin.read()
    if not text.strip():
        raise Stop("the prompt is empty; say what to ask")
    return text


def tools_of(options: RunOptions) -> list[Callable[..., Any]]:
    """The functions named by --tool; modules of the working directory can be imported."""
    if options.tools and "" not in sys.path:
        sys.path.insert(0, "")
    return [_function(spec) for spec in options.tools]


def _function(spec: str) -> Callable[..., Any]:
    module_name, colon, path = spec.partition(":")
    if not (module_name and colon and path):
        raise Stop(f"--tool {spec}: give a module and a function, as in my_tools:add")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # the user's module may raise anything
        raise Stop(f"--tool {spec}: {_why_not(module_name, error)}") from error
    try:
        function = operator.attrgetter(path)(module)
    except AttributeError as error:
        raise Stop(f"--tool {spec}: the module {module_name} has no function {path}") from error
    if not callable(function):
        raise Stop(f"--tool {spec}: {path} is {type(function).__name__}, not a function")
    tool: Callable[..., Any] = function
    return tool


def _why_not(module: str, error: BaseException) -> str:
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing is not None and f"{module}.".startswith(f"{missing}."):
        return f"there is no module {missing}"
    return f"importing {module} failed: {type(error).__name__}: {' '.join(str(error).split())}"
