"""The readers of all protocols, fed with whatever a coverage-guided fuzzer comes up with.

    pip install atheris
    python bench/fuzz_decoders.py --seconds 600

What is tried: a reader, its options, and where the bytes are cut are chosen by the first bytes of an input, the rest is
the body of a reply. A finding is anything that is raised and is no ModelError, or a decoder of events that sees others
once the wire cuts the bytes elsewhere. An input that found something is kept beside the corpus.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

try:
    import atheris
except ImportError:
    raise SystemExit("this needs atheris, which has wheels for Linux alone: pip install atheris") from None

with atheris.instrument_imports(include=["fsm_loop.providers", "fsm_loop.core.messages"]):
    from fsm_loop.providers.anthropic_decode import MessagesDecoder
    from fsm_loop.providers.anthropic_messages import MessagesReader
    from fsm_loop.providers.aws_events import AwsDecoder
    from fsm_loop.providers.chat_decode import ChatDecoder
    from fsm_loop.providers.chat_read import ReplyReader
    from fsm_loop.providers.openai_responses_decode import ResponsesDecoder
    from fsm_loop.providers.sse import EventTooLarge, SseDecoder

from fsm_loop.errors import ModelError  # noqa: E402  # behind what is instrumented
from tests.providers.test_aws_events import WHOLE  # noqa: E402  # behind what is instrumented
from tests.wire.streams import PROTOCOLS, by_hand, of_cases  # noqa: E402  # behind what is instrumented

MOST_CHUNKS = 16
LONGEST_BYTES = 8192
LEAST_BYTES = 8  # of an input; less chooses nothing

READERS: tuple[Callable[[bool], Any], ...] = (
    lambda streamed: ReplyReader(ChatDecoder(), streamed=streamed),
    lambda streamed: ReplyReader(ChatDecoder(cumulative=True), streamed=streamed),
    lambda streamed: MessagesReader(MessagesDecoder("m"), streamed=streamed),
    lambda streamed: ReplyReader(ResponsesDecoder("m", limit=4 if streamed else None), streamed=streamed),
)
EVENTS: tuple[Callable[[], SseDecoder], ...] = (SseDecoder, AwsDecoder)
runs: list[int] = [0] * (len(READERS) + len(EVENTS))


def one(data: bytes) -> None:
    """Read one input."""
    if len(data) < LEAST_BYTES:
        return
    kind, streamed, cuts, body = data[0] % len(runs), bool(data[1] & 1), data[2:6], data[6:]
    runs[kind] += 1
    chunks = pieces(body, cuts)
    if kind < len(READERS):
        read(READERS[kind](streamed), chunks)
    else:
        decoder = EVENTS[kind - len(READERS)]
        whole, cut = seen(decoder(), [body]), seen(decoder(), chunks)
        if whole != cut:
            raise AssertionError(f"cut elsewhere, other events: {whole} {cut}")


def pieces(body: bytes, cuts: bytes) -> list[bytes]:
    """The body, cut after as many bytes as these say, round and round."""
    sizes = [each + 1 for each in cuts]
    chunks, at = [], 0
    while at < len(body) and len(chunks) < MOST_CHUNKS:
        size = sizes[len(chunks) % len(sizes)]
        chunks.append(body[at : at + size])
        at += size
    return [*chunks, body[at:]]


def read(reader: Any, chunks: Iterable[bytes]) -> None:
    """Read a reply to its end, or to the fault that it is."""
    try:
        for chunk in chunks:
            for _ in reader.feed(chunk):
                pass
            if reader.done:
                return
        for _ in reader.end():
            pass
    except ModelError:
        pass


def seen(decoder: SseDecoder, chunks: Iterable[bytes]) -> list[Any]:
    """The events, as far as they are some."""
    found: list[Any] = []
    with suppress(EventTooLarge):
        for chunk in chunks:
            found += decoder.feed(chunk)
        found += decoder.end()
    return found


def seeds(folder: Path) -> None:
    """Good replies, and those of the cases, as inputs."""
    number = 0
    for place, protocol in enumerate(PROTOCOLS):
        for good in (*by_hand(protocol).values(), *of_cases(protocol)):
            lines = (f"event: {name}\ndata: {data}\n\n" if name else f"data: {data}\n\n" for name, data in good.events)
            text = "".join(lines) if good.streamed else good.events[0].data
            for kind in ((0, 1), (2,), (3,))[place] if good.streamed else (place + (place > 0),):
                number += 1
                head = bytes([kind, good.streamed, 255, 7, 63, 200])
                (folder / f"seed{number:04}").write_bytes(head + text.encode("utf-8", "surrogatepass"))
    for kind in (2, len(READERS) + 1):
        (folder / f"aws{kind}").write_bytes(bytes([kind, 1, 255, 7, 63, 200]) + WHOLE)
    (folder / "sse").write_bytes(
        bytes([len(READERS), 1, 255, 7, 63, 200]) + b"\xef\xbb\xbfdata: a\r\ndata: b\r\r: c\n\n"
    )


def main() -> None:
    """Fuzz for as long as was asked, then say how many runs there were."""
    parser = argparse.ArgumentParser(description="Fuzz the readers of all protocols with atheris.")
    parser.add_argument("--seconds", type=int, default=600, help="how long (600)")
    parser.add_argument("--corpus", type=Path, help="where inputs are kept (a new temporary folder)")
    given = parser.parse_args()
    corpus = given.corpus or Path(tempfile.mkdtemp(prefix="fuzz_decoders_"))
    corpus.mkdir(parents=True, exist_ok=True)
    seeds(corpus)
    began = time.monotonic()

    def told(data: bytes) -> None:
        one(data)
        if sum(runs) % 100_000 == 0:
            print(f"{sum(runs)} runs after {time.monotonic() - began:.0f} s; by reader: {runs}", flush=True)

    print(f"corpus: {corpus}", flush=True)
    own = [f"-max_total_time={given.seconds}", f"-max_len={LONGEST_BYTES}", f"-artifact_prefix={corpus}-found-"]
    atheris.Setup([sys.argv[0], *own, "-timeout=20", "-rss_limit_mb=2048", str(corpus)], told)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
