"""A page as a statechart that other engines run: SCXML, and the config of XState 5.

Neither knows our guards, so who runs one says with each event what they answer: in SCXML the event's data holds them
by their names, in XState the guards are given by name. What the last state still hears is left out: it changes
nothing, and a final state of a statechart has no way on.
"""

from __future__ import annotations

import json
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from fsm_loop.export.mermaid import WRITTEN_BY
from fsm_loop.export.model import Outline, Row, State

SCXML = "http://www.w3.org/2005/07/scxml"


def scxml(outline: Outline) -> str:
    """The page as SCXML (W3C, 1 September 2015); before each transition a comment names the row that it stands for."""
    start = next(state.name for state in outline.states if state.start)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f"<!-- {_comment(WRITTEN_BY)} -->",
        f'<scxml xmlns="{SCXML}" version="1.0" datamodel="ecmascript" initial={quoteattr(start)}>',
        *(line for state in outline.states for line in _state(outline, state)),
        "</scxml>",
    ]
    return "\n".join(lines) + "\n"


def _state(outline: Outline, state: State) -> list[str]:
    said = f"    <!-- it waits for {_comment(state.sentence)} -->"
    if state.done:
        return [said, f"    <final id={quoteattr(state.name)}/>"]
    rows = [line for row in outline.rows_of(state.name) for line in _transition(row)]
    return [said, f"    <state id={quoteattr(state.name)}>", *rows, "    </state>"]


def _transition(row: Row) -> list[str]:
    asked = " && ".join(f"_event.data.{guard.name}" for guard in row.guards)
    cond = f" cond={quoteattr(asked)}" if asked else ""
    way = f"event={quoteattr(row.event)}{cond} target={quoteattr(row.target)}"
    done = [row.action, *([f"spends {row.spends}"] if row.spends else []), *(f"refills {each}" for each in row.refills)]
    inner = "".join(f"<log label={quoteattr(each)}/>" for each in done)
    return [f"        <!-- {_comment(row.name)} -->", f"        <transition {way}>{inner}</transition>"]


def _comment(text: str) -> str:
    return escape(text).replace("--", "- -")


def xstate(outline: Outline) -> str:
    """The page as the config of XState 5, for `createMachine`.

    A guard's `params.all` names what must hold; the actions `spend` and `refill` name their counters.
    """
    start = next(state.name for state in outline.states if state.start)
    made = {
        "id": "turn",
        "description": WRITTEN_BY,
        "initial": start,
        "states": {state.name: _node(outline, state) for state in outline.states},
    }
    return json.dumps(made, indent=2, ensure_ascii=False) + "\n"


def _node(outline: Outline, state: State) -> dict[str, Any]:
    said = f"it waits for {state.sentence}"
    if state.done:
        return {"type": "final", "description": said}
    on: dict[str, list[dict[str, Any]]] = {}
    for row in outline.rows_of(state.name):
        on.setdefault(row.event, []).append(_way(row))
    return {"description": said, "on": on}


def _way(row: Row) -> dict[str, Any]:
    names = [guard.name for guard in row.guards]
    guard = {"guard": {"type": " and ".join(names), "params": {"all": names}}} if names else {}
    actions: list[Any] = [{"type": row.action}]
    if row.spends:
        actions.append({"type": "spend", "params": {"counter": row.spends}})
    if row.refills:
        actions.append({"type": "refill", "params": {"counters": list(row.refills)}})
    return {"target": row.target, **guard, "actions": actions, "description": row.name}
