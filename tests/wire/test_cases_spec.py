"""What the page about cases tells its reader to do, done."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from fsm_loop.testing.wire import case as module
from fsm_loop.testing.wire.case import case_of
from fsm_loop.testing.wire.judge import differences
from fsm_loop.testing.wire.play import play

pytest.importorskip("openai")

PAGE = (Path(__file__).parents[2] / "specs" / "cases.md").read_text(encoding="utf-8")


def test_the_case_that_is_written_from_nothing():
    """It is a case, ends as it says, and does not where another text is expected."""
    value = json.loads(re.search(r"^    \{\n(?:    .*\n)+", PAGE, re.MULTILINE)[0])
    case = case_of(value)
    wrong = case_of({**value, "expect": {**value["expect"], "visible_text": "Goodbye."}})

    assert [] == differences(case, play(case))
    assert 1 == len(differences(wrong, play(wrong)))


def test_every_field_has_a_word():
    """Each part of a case, of a response, of a step and of what is expected is named on the page, and each check too."""
    schema = json.loads(module.schema())
    parts = schema["$defs"]
    names = {*schema["properties"], *schema["properties"]["setup"]["properties"]}
    names |= {
        name
        for part in ("response", "step", "expect_partial", "message", "tool", "action")
        for name in parts[part]["properties"]
    }
    names |= {*parts["check"]["properties"]["check"]["enum"], *parts["text_matcher"]["anyOf"][1]["properties"]}
    names |= {*parts["event"]["enum"], *parts["state"]["enum"], *parts["config"]["properties"]}

    assert [] == sorted(name for name in names if not re.search(rf"\b{name}\b", PAGE))
