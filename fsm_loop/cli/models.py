"""The models that a run asks: the user's endpoints, or the embedded one, which is started here and stopped again."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from fsm_loop.cli.options import (
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

OPENAI_URL = "https://api.openai.com/v1"
# llama.cpp closes a connection behind each stream without saying so: a request on one that was kept might be lost.
EACH_ITS_OWN = {"Connection": "close"}
LOOK_S = 3.0  # how long a server may take to let itself be found before a turn; then the turn's own patience begins


@contextmanager
def models_for(options: RunOptions, tell: Tell) -> Iterator[tuple[Model, ...]]:
    """The models in the order of the chain, ready to be asked for as long as this lasts."""
    if provider_of(options, os.environ) is Provider.OPENAI:
        primary = primary_of(options, os.environ)
        yield tuple(map(_model, (primary, *fallbacks_of(options, primary, os.environ))))
        return
    for name, value in (("--base-url", options.base_url), ("--api-key-env", options.api_key_env)):
        if value is not None:
            raise Stop(f"{name} does not go with --provider local, which is the embedded model")
    fallbacks = fallbacks_of(options, None, os.environ)
    from fsm_loop.providers.local import start

    server = start(progress=tell)
    try:
        embedded = Endpoint(server.model, server.base_url, None)
        yield (_model(embedded, EACH_ITS_OWN), *map(_model, fallbacks))
    finally:
        server.close()


def _model(endpoint: Endpoint, headers: Mapping[str, str] | None = None) -> Model:
    """The endpoint as a model. All is said to it: what is left unsaid, the SDK would look for in the environment."""
    from fsm_loop.providers.openai_chat import KEYLESS, OpenAIChat

    url = endpoint.base_url or OPENAI_URL
    key = endpoint.key or KEYLESS
    return OpenAIChat(endpoint.model, base_url=url, api_key=key, name=endpoint.name, headers=headers)


def nobody_at(options: RunOptions) -> str:
    """Why no request can reach the only server of this run; empty where one may, or where there are others to ask.

    A turn waits for minutes for a server that goes away. One that was never there is not waited for.
    """
    if options.fallbacks or provider_of(options, os.environ) is Provider.LOCAL:
        return ""
    url = primary_of(options, os.environ).base_url
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
