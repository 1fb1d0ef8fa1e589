"""Follow a turn while it runs: show its words, steer it once, and stop it when it has said enough."""

import anyio

from fsm_loop import Loop, StateChanged, TextDelta, Withdrawn
from fsm_loop.providers.openai_chat import OpenAIChat


async def main() -> None:
    """Count in English, then in French, and stop."""
    said = ""
    async with Loop(model=OpenAIChat("gpt-4o-mini")).stream("Count from one to a thousand.") as turn:
        async for note in turn:
            match note:
                case TextDelta(text):
                    print(text, end="", flush=True)
                    if "five" in said + text and "five" not in said:
                        turn.steer("Go on in French.", now=True)  # without now: with the next request
                    said += text
                    if "vingt" in said:
                        turn.interrupt("reader", "enough")
                case Withdrawn():
                    print("\n(what was shown is taken back)")
                case StateChanged(before, row, after):
                    print(f"\n[{before} > {after}: {row}]")
    print(turn.result.why)


anyio.run(main)
