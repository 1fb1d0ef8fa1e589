"""The models that a run asks: the user's endpoints, or the embedded one, which is started here and stopped again."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import attrs

from fsm_loop.cli.options import (
    BASE_NAME,
    KEY_NAME,
    Endpoint,
    Provider,
    RunOptions,
    fallbacks_of,
    primary_of,
    provider_of,
    shown_url,
)
from fsm_loop.cli.stops import Stop
from fsm_loop.ports import Model

Tell = Callable[[str], None]

LITELLM = "litellm/"  # before a model's name: litellm asks it
OPENAI_URL = "https://api.openai.com/v1"
# llama.cpp closes a connection behind each stream without saying so: a request on one that was kept might be lost.
EACH_ITS_OWN = {"Connection": "close"}
LOOK_S = 3.0  # how long a server may take to let itself be found before a turn; then the turn's own patience begins


@contextmanager
def models_for(options: RunOptions, tell: Tell) -> Iterator[tuple[Model, ...]]:
    """The models in the order of the chain, ready to be asked for as long as this lasts."""
    if _by_litellm(options.model) or provider_of(options, os.environ) is Provider.OPENAI:
        primary = _primary(options)
        yield tuple(map(_model, (primary, *_fallbacks(options, primary))))
        return
    for name, value in (("--base-url", options.base_url), ("--api-key-env", options.api_key_env)):
        if value is not None:
            raise Stop(f"{name} does not go with --provider local, which is the embedded model")
    fallbacks = _fallbacks(options, None)
    from fsm_loop.providers.local import start

    server = start(progress=tell)
    try:
        embedded = Endpoint(server.model, server.base_url, None)
        yield (_model(embedded, EACH_ITS_OWN), *map(_model, fallbacks))
    finally:
        server.close()


def _by_litellm(model: str | None) -> bool:
    """Whether this model is to be asked through litellm, as `litellm/VENDOR/NAME`."""
    return (model or "").startswith(LITELLM)


def _primary(options: RunOptions) -> Endpoint:
    """The model that is asked first; the keys of litellm's vendors are in variables that it knows, OpenAI's is none."""
    if not _by_litellm(options.model):
        return primary_of(options, os.environ)
    if options.provider is Provider.LOCAL:
        raise Stop(f"--model {options.model} does not go with --provider local, which is the embedded model")
    if options.base_url is None and options.api_key_env is None:
        return Endpoint(str(options.model), None, None)
    return primary_of(options, {name: value for name, value in os.environ.items() if name not in (KEY_NAME, BASE_NAME)})


def _fallbacks(options: RunOptions, primary: Endpoint | None) -> list[Endpoint]:
    """The models to fall back to; between litellm's vendors and other servers no key and no address is shared."""
    found: list[Endpoint] = []
    for spec in options.fallbacks:
        if _by_litellm(spec) and "@http" not in spec:
            found.append(Endpoint(spec, None, None))
        elif primary is not None and _by_litellm(primary.model) and "@http" not in spec:
            raise Stop(f"--fallback {spec}: beside a model of litellm's, give its address too: {spec}@BASE_URL")
        else:
            found += fallbacks_of(attrs.evolve(options, fallbacks=(spec,)), primary, os.environ)
    return found


def _model(endpoint: Endpoint, headers: Mapping[str, str] | None = None) -> Model:
    """The endpoint as a model. All is said to it: what is left unsaid, the SDK would look for in the environment."""
    from fsm_loop.providers.openai_chat import KEYLESS, OpenAIChat

    if _by_litellm(endpoint.model):
        from fsm_loop.providers.over_litellm import LiteLLM

        address: dict[str, Any] = {} if endpoint.base_url is None else {"api_base": endpoint.base_url}
        # A server that is named gets no vendor's key out of the environment.
        secret = endpoint.key or (KEYLESS if address else None)
        return LiteLLM(endpoint.model.removeprefix(LITELLM), api_key=secret, name=endpoint.name, **address)
    url = endpoint.base_url or OPENAI_URL
    key = endpoint.key or KEYLESS
    return OpenAIChat(endpoint.model, base_url=url, api_key=key, name=endpoint.name, headers=headers)


def nobody_at(options: RunOptions) -> str:
    """Why no request can reach the only server of this run; empty where one may, or where there are others to ask.

    A turn waits for minutes for a server that goes away. One that was never there is not waited for.
    """
    embedded = not _by_litellm(options.model) and provider_of(options, os.environ) is Provider.LOCAL
    if options.fallbacks or embedded:
        return ""
    url = _primary(options).base_url
    if url is None:
        return ""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    if parts.scheme in getproxies() and not proxy_bypass(host):
        return ""
    try:
        socket.create_connection((host, port), timeout=LOOK_S).close()
    except TimeoutError:
        return ""  # it may be slow; the turn has its own timer for that
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return f"{shown_url(url)} cannot be reached ({reason})"
    return ""
