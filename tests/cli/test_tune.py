"""The command that searches for caps and delays: the goal, the table, the plot, and what it says when nothing helps."""

from __future__ import annotations

import json
from functools import partial
from xml.etree import ElementTree as ET

import pytest

from fsm_loop.config import LoopConfig
from fsm_loop.prove import bounds
from fsm_loop.prove.bounds import most_waited_s
from fsm_loop.prove.chances import profile_from
from fsm_loop.prove.goals import goal_of
from fsm_loop.prove.odds import odds
from fsm_loop.prove.tune import tune

PROFILE = "retry_after_s = 4.0\n[chances]\nempty = 0.1\nrate_limited = 0.25\n"


@pytest.fixture
def command(command, tmp_path):
    """The command in this process, under a profile and a config of its own, for a goal."""
    profile, config = tmp_path / "mine.toml", tmp_path / "limits.toml"
    profile.write_text(PROFILE, encoding="utf-8")
    config.write_text("max_requests = 12\napi_max_retries = 1\nempty_replies = 1\n", encoding="utf-8")
    return partial(command, "tune", "--profile", profile, "--config", config, "--goal")


def test_a_goal_is_reached(command):
    """The changes, then the table with the config as it is and the best, marked."""
    status, told, _ = command("p(completed) >= 0.99")

    assert 0 == status
    assert told.startswith("Reached under mine: p(completed) >= 0.99.\n")
    assert "  api_max_retries = " in told
    assert ["p(completed)", "calls", "waits", "waits", "at", "most", "change"] == told.split("\n\n")[1].splitlines()[
        0
    ].split()
    assert 1 == sum(line.startswith("*") for line in told.splitlines())
    assert any(line.endswith("  none") for line in told.splitlines())


def test_what_is_printed_is_true(command):
    """The best config, made from what is printed, has the odds that are printed."""
    _, told, _ = command("p(completed) >= 0.99", "--json")
    plain = json.loads(told)
    config = LoopConfig(**{"max_requests": 12, "api_max_retries": 1, "empty_replies": 1, **plain["best"]["changes"]})
    mine = profile_from("mine", {"retry_after_s": 4.0, "chances": {"empty": 0.1, "rate_limited": 0.25}})

    assert plain["reached"]
    assert odds(mine, config).outcomes["completed"] == pytest.approx(plain["best"]["goal"], abs=1e-6)
    assert bounds(config)["waited_s"].value == plain["best"]["worst_wait_s"] == most_waited_s(config, 0)


def test_the_front_is_one(command):
    """No config of the front is beaten by another one in the goal, the calls and the wait."""
    front = json.loads(command("p(completed) >= 0.99", "--json")[1])["front"]

    assert len(front) > 3
    for one in front:
        beaten = [
            other for other in front
            if other["goal"] > one["goal"] and other["calls"] < one["calls"] and other["waited_s"] < one["waited_s"]
        ]  # fmt: skip
        assert [] == beaten


def test_a_goal_that_is_reached_already(command):
    """It is said, and what waits less and reaches it too is shown."""
    status, told, _ = command("p(completed) >= 0.5")

    assert 0 == status
    assert told.startswith("The config as it is reaches p(completed) >= 0.5, under mine.\n")
    assert "this one waits least:\n  api_max_retries = 0\n" in told


def test_a_goal_that_nothing_reaches(command):
    """It says so, shows the nearest and what ends its turns, and exits with 1."""
    status, told, _ = command("p(completed) >= 1")
    short, also, _ = command("p(completed) >= 0.99", "--max-wait", "0.01")

    assert (1, 1) == (status, short)
    assert told.startswith("NOTHING THAT WAS TRIED REACHES p(completed) >= 1")
    assert "end as failed, " in told
    assert "with a mean wait of at most 0.01 s" in also


@pytest.mark.parametrize(
    "goal", ["p(exhausted api_retries) <= 0.01", "calls <= 1.5", "waited <= 1", "p( failed )<=1e-2"]
)
def test_other_goals(command, goal):
    """A counter, the calls, the wait, and another outcome."""
    assert 0 == command(goal)[0]


@pytest.mark.parametrize(
    ("goal", "words"),
    [
        ("be good", ["p(OUTCOME), p(exhausted COUNTER), calls or waited", ">= or <="]),
        ("p(completed) = 0.9", [">= or <="]),
        ("p(fine) >= 0.9", ["'fine' is no outcome", "completed, partial, refused, exhausted, failed"]),
        ("p(api_retries) >= 0.9", ["write p(exhausted api_retries)"]),
        ("p(exhausted patience) <= 0.1", ["takes one of the counters", "api_retries"]),
        ("p(completed) >= 99.9", ["'99.9' is not a number from 0 to 1"]),
        ("calls <= 1e999", ["not a number of 0 or more"]),
    ],
)
def test_a_wrong_goal_is_a_wrong_use(command, goal, words):
    """What was given, and what is allowed."""
    status, told, said = command(goal)

    assert (2, "") == (status, told)
    assert goal in said
    assert [] == [word for word in words if word not in said]


def test_the_plot_is_drawn(command, tmp_path):
    """An SVG that can be parsed, with a point for each config that was tried; a place that is none is told."""
    path = tmp_path / "plot.svg"
    plain = json.loads(command("p(completed) >= 0.99", "--json", "-o", path)[1])
    drawn = ET.fromstring(path.read_text(encoding="utf-8"))
    points = [each for each in drawn.iter("{http://www.w3.org/2000/svg}circle") if each.get("r") == "3.5"]
    texts = {each.text for each in drawn.iter("{http://www.w3.org/2000/svg}text")}

    assert plain["tried"] == len(points)
    assert {"best", "the goal", "mine: p(completed) >= 0.99"} <= texts
    assert 2 == command("calls <= 9", "-o", tmp_path)[0]


def test_the_search_has_a_limit():
    """It tries no more configs than it may, and tells how far it is."""
    told = []
    mine = profile_from("mine", {"chances": {"empty": 0.1, "overloaded": 0.25}})
    found = tune(
        mine, goal_of("p(completed) >= 1"), most_tried=7, progress=lambda *numbers: told.append(numbers)
    )  # fmt: skip

    assert 7 == len(found.tried)
    assert (7, 7) == told[-1]
    assert {} == found.start.changes


def test_the_nearest_is_the_nearest():
    """Where nothing reaches the goal, the best is what is short of it by least, and better than the start."""
    mine = profile_from("mine", {"chances": {"empty": 0.1, "overloaded": 0.25}})
    found = tune(mine, goal_of("p(completed) >= 1"), most_tried=25)

    assert not found.reached
    assert min(each.short_by for each in found.tried) == found.best.short_by < found.start.short_by
