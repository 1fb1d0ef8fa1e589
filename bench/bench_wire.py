"""What a turn costs on both ways to the wire: CPU of this process, against a server on loopback in another one.

Run by `make bench`. Beside ours stand two loops written by hand, over aiohttp and over the SDK: whatever a machine is
busy with, compare within one run. All replies are streamed, each chunk its own piece of the body, written at once.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import statistics
import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
import msgspec.json
import openai
import pytest

from fsm_loop import Loop
from fsm_loop.providers.openai_chat import OpenAIChat
from fsm_loop.testing.fakes import Recorder

ROUNDS = 3  # tool rounds of a turn
CHUNKS = 2000  # of the long answer
REPEATS = 15
TURNS = 20  # of one repeat, and one of them for the long answer
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "add",
            "description": "The sum of two numbers.",
            "parameters": {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                "required": ["a", "b"],
            },
        },
    }
]
Ask = Callable[[str], Awaitable[str]]

pytestmark = pytest.mark.benchmark(timer=time.process_time)


async def add(a: int, b: int) -> int:
    """The sum of two numbers."""
    return a + b


# ---------------------------------------------------------------- the server


def _events(model: str, asked: int) -> list[dict]:
    base = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": model, "service_tier": "default"}

    def chunk(delta, finish=None):
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**base, "choices": [choice], "usage": None}

    if model == "tools" and asked < ROUNDS:
        function = {"name": "add", "arguments": ""}
        call = {"index": 0, "id": f"call_{asked}", "type": "function", "function": function}
        pieces = ['{"a"', f": {asked}", ', "b"', ": 1", "}"]
        deltas = [{"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in pieces]
        said = [{"role": "assistant", "content": None, "tool_calls": [call]}, *deltas]
        finish = "tool_calls"
    else:
        words = (
            ["The", " result", " is", " 3", "."] if model == "tools" else [f"{n % 1000:03d} " for n in range(CHUNKS)]
        )
        said = [{"role": "assistant", "content": ""}, *({"content": word} for word in words)]
        finish = "stop"
    usage = {"prompt_tokens": 50, "completion_tokens": 20, "total_tokens": 70}
    return [*map(chunk, said), chunk({}, finish), {**base, "choices": [], "usage": usage}]


def _answer(model: str, asked: int) -> bytes:
    texts = [*(json.dumps(each, separators=(",", ":")) for each in _events(model, asked)), "[DONE]"]
    pieces = [f"data: {text}\n\n".encode() for text in texts]
    body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    return b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n" + body


class _Talk(asyncio.Protocol):
    answers: dict = {}  # noqa: RUF012  # made once for all connections

    def connection_made(self, transport):
        self.transport, self.heard = transport, b""

    def data_received(self, data):
        self.heard += data
        head, found, body = self.heard.partition(b"\r\n\r\n")
        if not found:
            return
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        if len(body) >= length:
            self.heard = b""
            key = b'"model":"long"' in body, body.count(b'"tool_call_id"')
            if key not in self.answers:
                self.answers[key] = _answer("long" if key[0] else "tools", key[1])
            self.transport.write(self.answers[key])


def _serve(pipe) -> None:
    async def main():
        server = await asyncio.get_running_loop().create_server(_Talk, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


@pytest.fixture(scope="module")
def base_url():
    """Where the server in the other process is."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there,), daemon=True)
    process.start()
    yield f"http://127.0.0.1:{here.recv()}/v1"
    process.terminate()
    process.join()


# ---------------------------------------------------------------- the four loops


def _request(model: str, messages: list) -> dict:
    return {
        "model": model,
        "messages": messages,
        "stream": True,
        "stream_options": {"include_usage": True},
        **({"tools": TOOLS} if model == "tools" else {}),
    }


async def _by_hand(model: str, deltas: Callable) -> str:
    """The least that a loop must do: join the deltas, run the tool, send the result."""
    messages: list = [{"role": "user", "content": "1 + 2?"}]
    while True:
        text, calls = [], {}
        async for content, pieces in deltas(_request(model, messages)):
            if content:
                text.append(content)
            for index, call_id, name, arguments in pieces:
                call = calls.setdefault(index, [call_id, name, []])
                call[2].append(arguments)
        if not calls:
            return "".join(text)
        shown = [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": "".join(arguments)}}
            for call_id, name, arguments in calls.values()
        ]
        messages.append({"role": "assistant", "content": None, "tool_calls": shown})
        for call in shown:
            result = await add(**json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": str(result)})


@asynccontextmanager
async def aiohttp_by_hand(base_url: str):
    """The floor: aiohttp, a split at the blank lines, msgspec."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        headers = {"content-type": "application/json", "authorization": "Bearer k"}

        async def deltas(body):
            rest = b""
            async with session.post(
                f"{base_url}/chat/completions", data=msgspec.json.encode(body), headers=headers
            ) as response:
                async for data in response.content.iter_any():
                    *blocks, rest = (rest + data).split(b"\n\n")
                    for block in blocks:
                        if block == b"data: [DONE]":
                            continue
                        choices = msgspec.json.decode(block[6:])["choices"]
                        if choices:
                            delta = choices[0]["delta"]
                            pieces = [
                                (
                                    each["index"],
                                    each.get("id"),
                                    each["function"].get("name"),
                                    each["function"]["arguments"],
                                )
                                for each in delta.get("tool_calls", ())
                            ]
                            yield delta.get("content"), pieces

        yield lambda model: _by_hand(model, deltas)


@asynccontextmanager
async def sdk_by_hand(base_url: str):
    """The bare SDK, as its users write it."""
    async with openai.AsyncOpenAI(api_key="k", base_url=base_url) as client:

        async def deltas(body):
            async for chunk in await client.chat.completions.create(**body):
                if chunk.choices:
                    delta = chunk.choices[0].delta
                    pieces = [
                        (each.index, each.id, each.function.name, each.function.arguments)
                        for each in delta.tool_calls or ()
                    ]
                    yield delta.content, pieces

        yield lambda model: _by_hand(model, deltas)


@asynccontextmanager
async def built_in(base_url: str):
    """Ours, on HTTP of our own."""
    async with _ours(lambda model: OpenAIChat(model, base_url=base_url, api_key="k")) as ask:
        yield ask


@asynccontextmanager
async def over_the_sdk(base_url: str):
    """Ours, over the user's client."""
    async with (
        openai.AsyncOpenAI(api_key="k", base_url=base_url) as client,
        _ours(lambda model: OpenAIChat(model, client=client)) as ask,
    ):
        yield ask


@asynccontextmanager
async def _ours(make: Callable[[str], OpenAIChat]):
    async with make("tools") as tools, make("long") as long:
        loops = {
            "tools": Loop(model=tools, tools=[add], watchers=[Recorder()]),
            "long": Loop(model=long, watchers=[Recorder()]),
        }

        async def ask(model: str) -> str:
            return (await loops[model].run("1 + 2?")).text

        yield ask


LOOPS = (aiohttp_by_hand, sdk_by_hand, built_in, over_the_sdk)


# ---------------------------------------------------------------- the measure


async def _measured(base_url: str) -> dict:
    """CPU seconds of each loop, a turn with tools and the long answer: all repeats, one loop after the other."""
    found: dict = {loop.__name__: {"tools": [], "long": []} for loop in LOOPS}
    for repeat in range(REPEATS + 1):
        for loop in LOOPS:
            async with loop(base_url) as ask:
                for model, turns in (("tools", TURNS), ("long", 1)):
                    assert await ask(model) == ("The result is 3." if model == "tools" else LONG)
                    began = time.process_time()
                    for _ in range(turns):
                        await ask(model)
                    if repeat:  # the first one is for warmth
                        found[loop.__name__][model].append((time.process_time() - began) / turns)
    return found


LONG = "".join(f"{n % 1000:03d} " for n in range(CHUNKS))


def test_wire(benchmark, base_url):
    """CPU per turn with three tool rounds, and per chunk of a long answer, on both ways and by hand."""
    found = asyncio.run(_measured(base_url))
    benchmark.pedantic(lambda: None, rounds=1)
    for model, unit, scale in (("tools", "ms a turn", 1e3), ("long", "us a chunk", 1e6 / CHUNKS)):
        cost = {name: statistics.median(each[model]) * scale for name, each in found.items()}
        least = {name: min(each[model]) * scale for name, each in found.items()}
        print(f"\n{unit}, median and least of {REPEATS}, x aiohttp by hand, x SDK by hand (of the medians):")
        for name, value in cost.items():
            floor, sdk = value / cost["aiohttp_by_hand"], value / cost["sdk_by_hand"]
            print(f"  {name:16} {value:8.2f} {least[name]:8.2f}   {floor:6.2f} {sdk:6.2f}")
