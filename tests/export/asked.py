"""Every row of the page, asked one by one of engines nobody here wrote: which transition is taken, and where it leads.

A walk tells only the state that it comes to, and comes to half of the rows. Here each row is asked for in its own state:
once with its guards alone holding, then without each one of them. The row that must be taken is the first whose guards hold.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from statemachine.io.scxml.processor import SCXMLProcessor

from fsm_loop.export.model import outline

HERE = Path(__file__).parent
RUN_WITHIN_S = 60.0


def asked(page):
    """State, event and answers of every question, with the row that the page takes then."""
    words, found = outline(page), []
    every = {guard.name for row in words.rows for guard in row.guards}
    for row in (row for row in words.rows if row.source in words.alive):
        own = [guard.name for guard in row.guards]
        for yes in (own, *([name for name in own if name != without] for without in own)):
            answers = {name: name in yes for name in sorted(every)}
            here = (each for each in words.rows_of(row.source) if each.event == row.event)
            next_one = next(each for each in here if all(guard.name in yes for guard in each.guards))
            found.append((row.source, row.event, answers, (next_one.name, next_one.target)))
    return found


def right(page):
    """What the page does with each question; every row of a state that goes on is among them."""
    told = [row for *_, row in asked(page)]
    assert {row.name for row in outline(page).rows if row.source != "done"} == {name for name, _ in told}
    return told


class Heard:
    """A listener that keeps what was taken."""

    taken = None

    def on_transition(self, transition):
        self.taken = transition


def scxml_takes(text, page):
    """What the engine of python-statemachine does with each question: the row that it takes, and the state after it.

    Its transitions stand in the order of the text, so the place of one among those of its state names its row.
    """
    words, found = outline(page), []
    processor = SCXMLProcessor()
    processor.parse_scxml("turn", text)
    machine = None
    for source, event, answers, _ in asked(page):
        if machine is None or machine.is_terminated:  # a new one is dear, so each serves until it ends
            machine, heard = processor.start(), Heard()
            machine.add_listener(heard)
        machine.current_state_value, heard.taken = source, None
        machine.send(event, **answers)
        (after,) = machine.configuration
        place = list(heard.taken.source.transitions).index(heard.taken) if heard.taken else None
        found.append((None if place is None else words.rows_of(source)[place].name, after.id))
    return found


def xstate_takes(library, folder, text, page):
    """What the real xstate does with each question."""
    (folder / "config.json").write_text(text, encoding="utf-8")
    (folder / "asked.json").write_text(json.dumps([question[:3] for question in asked(page)]))
    done = subprocess.run(
        ["node", HERE / "rows.mjs", library, folder / "config.json", folder / "asked.json"],
        capture_output=True, text=True, timeout=RUN_WITHIN_S, check=False,
    )  # fmt: skip
    assert "" == done.stderr
    return [tuple(each) for each in json.loads(done.stdout)]
