"""Ask a model that may use a Python function, and see how the turn ended."""

from fsm_loop import Loop, LoopConfig
from fsm_loop.providers.openai_chat import OpenAIChat


def add(a: int, b: int) -> int:
    """The sum of two whole numbers."""
    return a + b


model = OpenAIChat("gpt-4o-mini")  # api_key= and base_url=, or OPENAI_API_KEY and OPENAI_BASE_URL
loop = Loop(model=model, tools=[add], config=LoopConfig(max_iterations=10, stale_after_s=30.0))
result = loop.run_sync("What is 19 + 23?")  # where an event loop runs: await loop.run(...)
print(result.outcome, result.text, sep=": ")
print("spent:", result.exhausted)  # the counter that was spent, its value, its cap; None if none was
print("messages:", len(result.messages))  # OpenAI-shaped, always valid to send on
