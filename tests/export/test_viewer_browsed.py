"""The viewer in a real browser: it is stepped, searched and clicked, and it shows what it must never run."""

from __future__ import annotations

from importlib.resources import files

import pytest

from fsm_loop.export.viewer import Judged, Shown, viewer
from tests.export.browsed import HOSTILE, chromium, hostile, spent

MANY = 10_000


@pytest.fixture(scope="module")
def browser():
    """A browser for all of these tests."""
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three files: a turn with hostile text, one that spent a counter, one that was cut off."""
    at = tmp_path_factory.mktemp("browsed")
    bad, short = hostile(at / "hostile.jsonl"), spent(at / "spent.jsonl")
    for name, shown in (
        ("hostile", Shown(bad, Judged(True, "verified"), {bad[0]["turn"]: (HOSTILE,)}, HOSTILE)),
        ("spent", Shown(short, Judged(False, "not verified: it was edited"))),
        ("cut", Shown(short[:8])),
        ("both", Shown([*bad, *short])),
    ):
        (at / f"{name}.html").write_text(viewer(shown), encoding="utf-8")
    return at


@pytest.fixture
def opened(browser, folder):
    """A page of one of the files; whatever it complains of or asks the network for fails the test."""
    wrong, contexts = [], []

    def open_(name, scheme="light", width=1280, at=folder):
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: wrong.append(said.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on(
            "request", lambda asked: wrong.append(asked.url) if not asked.url.startswith(("file:", "data:")) else None
        )
        page.goto((at / f"{name}.html").as_uri())
        page.wait_for_selector("html[data-ready=yes]")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert [] == wrong


def test_it_shows_the_end(opened):
    """The banner names the outcome and the counter; the gauge of that counter says so too; the state is marked."""
    page = opened("spent")

    assert "Exhausted: iterations spent, 3 of 3" == page.inner_text("#outcome")
    assert "ended it · 3 / 3" in page.inner_text("#gauges .ended")
    assert ["state-done"] == page.eval_on_selector_all("#diagram .now", "all => all.map(each => each.id)")
    assert "✗ not verified: it was edited" == page.inner_text("#verdict")


def test_it_is_stepped_with_keys(opened):
    """Home, End and the arrows move the slider, the marked state and the decision that is shown, together."""
    page = opened("spent")
    page.keyboard.press("Home")
    assert "#0 " in page.inner_text("#step .num")
    assert 0 == page.locator("#diagram .edge.lit").count() - 1
    for _ in range(3):
        page.keyboard.press("ArrowRight")

    assert "3" == page.input_value("#slider")
    assert "#3 " in page.inner_text("#step .num")
    assert "3" == page.inner_text("#tall .here .num >> nth=0")
    page.keyboard.press("ArrowLeft")
    assert "2" == page.input_value("#slider")
    page.keyboard.press("End")
    assert page.is_disabled("#next")


def test_hostile_text_is_shown_and_never_run(opened):
    """Script tags of a tool, a model, a provider and a file's name stand there as text."""
    page = opened("hostile")
    page.fill("#search", "tool_returned")
    page.click("#tall .row")

    assert "</script><script>window.ran=1</script>" in page.inner_text("#step pre")
    assert HOSTILE[:20] in page.inner_text("#title")
    assert page.evaluate("window.ran === undefined")
    assert 0 == page.locator("img").count()
    assert 2 == page.locator("script").count()


def test_a_cut_trail_says_so(opened):
    """A turn without an end is not shown as one that ended."""
    assert "No end" == opened("cut").inner_text("#outcome")


def test_a_state_leads_to_its_decisions(opened):
    """A click on a state, and Enter on it, leave the decisions of that state alone in the table."""
    page = opened("hostile")
    page.locator("#state-backoff").focus()
    page.keyboard.press("Enter")

    assert "2 of " in page.inner_text("#found")
    assert {"calling → backoff", "backoff → calling"} == set(
        page.locator("#tall .row > :nth-child(3)").all_inner_texts()
    )
    page.keyboard.press("Escape")
    assert "of" not in page.inner_text("#found")


def test_it_is_searched_and_filtered(opened):
    """A word and a filter narrow the table; what nothing matches is said."""
    page = opened("hostile")
    page.keyboard.press("/")
    page.keyboard.type("no such thing")
    assert page.is_visible("#none")
    page.fill("#search", "")
    page.select_option("#filter", "faults")

    assert "1 of " in page.inner_text("#found")
    assert "overloaded" in page.inner_text("#tall .row")


def test_turns_are_chosen(opened):
    """Of several turns each can be seen."""
    page = opened("both")
    page.select_option("#turns", "1")

    assert "Exhausted: iterations spent, 3 of 3" == page.inner_text("#outcome")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 420)])
def test_it_is_for_everyone(opened, scheme, width):
    """axe-core finds no serious and no critical fault, in light and in dark, wide and narrow."""
    pytest.importorskip("axe_core_python", reason="axe-core is not installed: pip install axe-core-python")
    page = opened("spent", scheme, width)
    page.evaluate(files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run()")
    grave = [
        (one["id"], one["nodes"][0]["html"]) for one in found["violations"] if one["impact"] in ("serious", "critical")
    ]

    assert [] == grave
    assert len(found["passes"]) > 20
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_keyboard_reaches_everything(opened):
    """Tab alone comes to the diagram's states, the slider, the search and the table."""
    page, seen = opened("spent"), set()
    for _ in range(45):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.id"))

    assert {"state-calling", "slider", "search", "filter", "rows", "step", "gauges", "back"} <= seen


def test_ten_thousand_decisions(opened, tmp_path, capsys):
    """A turn of ten thousand decisions opens, is stepped, and holds but a few rows of its table at a time."""
    opening, *rest = spent(tmp_path / "seed.jsonl", 8)
    some, end = [each for each in rest if each["is"] == "decision"], rest[-1]
    last = some[-1]["at"] + 1
    many = [
        {**some[i % len(some)], "seq": i, "at": some[i % len(some)]["at"] + last * (i // len(some))}
        for i in range(MANY)
    ]
    (tmp_path / "many.html").write_text(viewer(Shown([opening, *many, end])), encoding="utf-8")
    page = opened("many", at=tmp_path)
    paint_ms = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    step_ms = page.evaluate(
        "(() => { const t = performance.now(); for (let i = 0; i < 20; i++) go(here - 1); return (performance.now() - t) / 20; })()"
    )
    with capsys.disabled():
        print(  # noqa: T201  # told, and asserted of nothing: a machine may be busy
            f"\n{MANY} decisions: first paint after {paint_ms:.0f} ms, a step in {step_ms:.1f} ms"
        )

    assert f"{MANY - 20:,} / {MANY:,}" in page.inner_text("#where")
    assert page.locator("#tall .row").count() < 60
    page.keyboard.press("Home")
    assert "#0 " in page.inner_text("#step .num")
