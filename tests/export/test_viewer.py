"""The file that the viewer makes: whole, closed to the network, and safe whatever a trail holds."""

from __future__ import annotations

import base64
import hashlib
import json
import re

import pytest

from fsm_loop.core.machine import PAGE
from fsm_loop.export import viewer as made
from fsm_loop.export.viewer import Judged, Shown, ViewerError, viewer
from tests.export.browsed import HOSTILE, hostile
from tests.export.own_page import OWN_PAGE


def data_of(html):
    """What is embedded."""
    return json.loads(re.search(r'<script type="application/json" id="trail">(.*?)</script>', html, re.DOTALL)[1])


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """A turn with hostile text."""
    return hostile(tmp_path_factory.mktemp("viewer") / "hostile.jsonl")


@pytest.fixture(scope="module")
def html(records):
    """Its file."""
    return viewer(Shown(records, Judged(True, "verified"), title=HOSTILE))


def test_every_record_is_there(html, records):
    """The turn stands in the file with its opening, each decision in order, and its end."""
    (turn,) = data_of(html)["turns"]

    assert [each["seq"] for each in records if each["is"] == "decision"] == [each["seq"] for each in turn["decisions"]]
    assert "completed" == turn["end"]["outcome"]
    assert records[0]["config"] == turn["opening"]["config"]


def test_hostile_text_is_data(html):
    """What a tool said comes back letter by letter, and no letter of it could end the block that it stands in."""
    assert HOSTILE in [each["facts"].get("text") for each in data_of(html)["turns"][0]["decisions"]]
    assert HOSTILE == data_of(html)["title"]
    assert "<script>window" not in html
    assert "\u2028" not in html
    assert 2 == html.count("</script>")


def test_nothing_but_its_own_script_runs(html):
    """The policy allows the one script and the one style by their hashes, and no way to the network."""
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)[1]
    for tag, kind in (("script", "script-src"), ("style", "style-src")):
        text = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)[-1]
        allowed = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind} 'sha256-{allowed}'" in policy

    assert "default-src 'none'" in policy
    assert "connect-src 'none'" in policy


def test_every_state_and_row_has_its_place(html):
    """Each state of the page is in both pictures, and each row has its arrow in the full one."""
    words = data_of(html)["page"]
    overview, full = (
        re.search(rf'id="svg-{name}">(.*?)</template>', html, re.DOTALL)[1] for name in ("overview", "full")
    )
    ids = [{each.replace("&#45;", "-") for each in re.findall(r' id="([^"]*)"', svg)} for svg in (overview, full)]

    assert {f"state-{state.name.lower()}" for state in PAGE.states} <= ids[0] & ids[1]
    assert {row.name for row in PAGE.rows} == set(words["arrows"]["full"])
    assert set(words["arrows"]["full"].values()) <= {each.replace("&#43;", "+") for each in ids[1]}
    assert set(words["arrows"]["overview"].values()) <= ids[0]


def test_a_page_of_ones_own_is_shown(records):
    """The states of a user's page stand in the file."""
    names = [each["name"] for each in data_of(viewer(Shown(records), OWN_PAGE))["page"]["states"]]

    assert [state.name.lower() for state in OWN_PAGE.states] == names


def test_nothing_to_show_is_said():
    """No records, and too many of them, are refused with a sentence."""
    with pytest.raises(ViewerError, match="nothing to show"):
        viewer(Shown())


def test_too_much_is_said(records, monkeypatch):
    """More records than one file holds are refused with both numbers."""
    monkeypatch.setattr(made, "MOST_RECORDS", 3)

    with pytest.raises(ViewerError, match=f"{len(records)} records, and one file shows 3"):
        viewer(Shown(records))
