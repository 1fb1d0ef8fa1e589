"""Keep a trail that can be verified later, and that no turn may go on without."""

from fsm_loop import Loop
from fsm_loop.audit.jsonl import JsonLines
from fsm_loop.providers.openai_chat import OpenAIChat

with JsonLines("trail.jsonl", fsync="end", on_sink_failure="stop") as trail:  # or SqliteTrails("trails.sqlite")
    result = Loop(model=OpenAIChat("gpt-4o-mini"), watchers=[trail]).run_sync("What is a trail?")
print(result.outcome, result.turn_id, *result.trail_faults)
