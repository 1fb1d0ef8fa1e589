"""The page that follows a turn: to whom it is shown, what it brings, and that it ends with the turn."""

from __future__ import annotations

import http.client
import json
import threading

import pytest

from fsm_loop.loop import Loop
from fsm_loop.testing.clock import VirtualClock
from fsm_loop.testing.fakes import ScriptedModel, SeededChance, says
from fsm_loop.web.live import Live


@pytest.fixture
def live():
    """A page that waits for no browser when it closes."""
    with Live(waits_s=0.0) as made:
        yield made


def ask(live, path, host=None, **headers):
    """The answer to one request."""
    there = http.client.HTTPConnection(*live.authority.split(":"), timeout=10)
    there.request("GET", path, headers={"Host": host or live.authority, **headers})
    return there.getresponse()


def run(live):
    """A turn, followed by the page."""
    clock = VirtualClock()
    loop = Loop(model=ScriptedModel([says("done")], clock=clock), watchers=[live], clock=clock, chance=SeededChance(1))
    return clock.run(lambda: loop.run("Go."))


def events(text):
    """The records that a stream brought, and the names of its other events."""
    blocks = [
        dict(line.split(": ", 1) for line in block.splitlines()) for block in text.split("\n\n") if "event: " in block
    ]
    return [json.loads(each["data"]) for each in blocks if each["event"] == "record"], [
        each["event"] for each in blocks
    ]


def test_the_page_is_for_who_knows_the_token(live):
    """The page is at its address alone; without the token, or under another host's name, there is nothing."""
    assert b"<title>fsm-loop" in ask(live, live.path).read()
    assert 404 == ask(live, "/").status
    assert 404 == ask(live, "/events").status
    assert 404 == ask(live, live.path.replace(live.path[3:6], "---") + "events").status
    assert 403 == ask(live, live.path, host="somewhere.example").status
    assert 403 == ask(live, f"{live.path}events", host="somewhere.example").status
    assert len(live.path) > 30
    assert live.url.startswith("http://127.0.0.1:")


def test_it_brings_every_record_and_the_end(live):
    """Who comes first and who comes late are told the same, in order, and then that it is over."""
    told = []
    first = ask(live, f"{live.path}events")
    reader = threading.Thread(target=lambda: told.append(first.read().decode()))
    reader.start()
    result = run(live)
    live.close()
    reader.join(10)
    records, names = events(told[0])

    assert "completed" == result.outcome
    assert () == result.trail_faults
    assert "over" == names[-1]
    assert "opening" == records[0]["kind"]
    assert list(range(len(records) - 2)) == [each["record"]["seq"] for each in records if each["kind"] == "decision"]
    assert "completed" == records[-1]["record"]["outcome"]


def test_it_goes_on_where_it_broke_off(live):
    """A browser that comes back is told what it has not heard; one that claims to know more than there is waits."""
    run(live)
    live._over = True
    whole, _ = events(ask(live, f"{live.path}events").read().decode())
    rest, _ = events(ask(live, f"{live.path}events", **{"Last-Event-ID": "2"}).read().decode())
    none, names = events(ask(live, f"{live.path}events", **{"Last-Event-ID": "99999"}).read().decode())
    live._over = False

    assert whole[2:] == rest
    assert [] == none
    assert ["over"] == names


def test_it_ends():
    """Once closed, nobody listens there, and closing again is no fault."""
    live = Live(waits_s=0.0)
    live.close()
    live.close()

    with pytest.raises(ConnectionRefusedError):
        ask(live, live.path)
