"""A turn while it runs, as it is shown."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from fsm_loop.cli.outlet import Outlet, visible
from fsm_loop.cli.view import Lines, Progress, Screen, view_on
from fsm_loop.core.effects import Reconnecting, Withdrawn
from fsm_loop.core.messages import ToolCall, ToolStatus
from fsm_loop.core.step import Moved
from fsm_loop.drive.notes import StateChanged, ToolFinished, ToolStarted
from fsm_loop.ports import ReasoningDelta, TextDelta

REQUEST = (Moved("requests", 0, 1, 160),)
CALLING = StateChanged("calling", "calling.slot_granted.budget_left", "calling", REQUEST)
STREAMING = StateChanged("calling", "calling.stream_started", "streaming")
BACKOFF = StateChanged("calling", "calling.model_failed.may_retry", "backoff", (Moved("api_retries", 0, 1, 3),), 5.0)
AGAIN = StateChanged("backoff", "backoff.timer_fired", "calling")


class Hands:
    """A clock that is moved by hand."""

    now = 100.0


@pytest.mark.parametrize(
    ("notes", "later_s", "expected"),
    [
        ([], 0, "ready"),
        ([CALLING], 0, "calling · request 1"),
        ([CALLING, STREAMING], 0, "streaming · request 1"),
        ([CALLING, BACKOFF], 0, "backoff · request 1 · goes on in 5.0 s · api_retries 1/3"),
        ([CALLING, BACKOFF], 2, "backoff · request 1 · goes on in 3.0 s · api_retries 1/3 · waited 2.0 s"),
        ([CALLING, BACKOFF], 9, "backoff · request 1 · goes on in 0.0 s · api_retries 1/3 · waited 9.0 s"),
        (
            [StateChanged("a", "r", "b", (Moved("api_retries", 1, 0, 3), Moved("tokens", 0, 9, None)))],
            0,
            "b · tokens 9",
        ),
        ([STREAMING, ReasoningDelta("abc")], 0, "streaming · 3 characters thought"),
        ([STREAMING, TextDelta("abc"), Withdrawn("abc")], 0, "streaming · 3 characters taken back"),
    ],
)
def test_the_line(notes, later_s, expected):
    """The line tells the state, the request, the counters that are not zero, and the waits, counting down."""
    clock = Hands()
    progress = Progress(lambda: clock.now)
    for note in notes:
        progress.saw(note)
    clock.now += later_s

    assert expected == progress.line()


def test_waits_add_up():
    """The seconds of all waits are told, and no others."""
    clock = Hands()
    progress = Progress(lambda: clock.now)
    for note, seconds in ((BACKOFF, 5.5), (AGAIN, 100), (BACKOFF, 4.5), (AGAIN, 100)):
        progress.saw(note)
        clock.now += seconds

    assert "calling · api_retries 1/3 · waited 10.0 s" == progress.line()


@pytest.mark.parametrize(
    ("texts", "withdrawn", "expected"),
    [(["one ", "two"], "one two", ""), (["kept ", "cut"], "cut", "kept "), (["one"], "another", "")],
)
def test_withdrawn_text_is_gone(texts, withdrawn, expected):
    """What is taken back is shown no longer; where it cannot be told from the rest, nothing is."""
    progress = Progress()
    for text in texts:
        progress.saw(TextDelta(text))
    progress.saw(Withdrawn(withdrawn))

    assert expected == progress.text


def screen(*, with_text=True, height=10, width=30):
    """A screen that draws into a text, and its console."""
    console = Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)
    return Screen(console, with_text=with_text), console


def drawn(view, console):
    """What the region looks like now, line by line."""
    with console.capture() as capture:
        console.print(view, end="")
    return capture.get().splitlines()


def test_the_text_is_drawn_above_the_line():
    """The text stands as it streams, and the line below it."""
    view, console = screen()
    for note in (STREAMING, TextDelta("hello\n"), TextDelta("world")):
        view.saw(note)

    assert ["hello", "world", "streaming"] == drawn(view, console)


def test_a_long_text_is_drawn_from_its_end():
    """The region never grows higher than the terminal: the end of the text is what is seen."""
    view, console = screen(height=6)
    view.saw(TextDelta("\n".join(f"line {n}" for n in range(100))))

    assert ["line 97", "line 98", "line 99", "ready"] == drawn(view, console)


def test_what_is_taken_back_is_drawn_no_longer():
    """The region without the withdrawn text, and a word on it above."""
    view, console = screen(width=80)
    for note in (STREAMING, TextDelta("a wrong word"), Withdrawn("a wrong word"), Reconnecting("it broke off")):
        view.saw(note)

    assert ["streaming · 12 characters taken back"] == drawn(view, console)
    assert "(12 characters are taken back; they are told again)" in console.file.getvalue()
    assert "(asked again: it broke off)" in console.file.getvalue()


def test_tools_and_the_words_before_them_stay_above():
    """What was said before a tool ran, the tool and its result are printed, and the text begins anew."""
    view, console = screen(width=80)
    call = ToolCall("c1", "add", '{"a": 1}')
    for note in (
        TextDelta("let me see"),
        ToolStarted(call),
        ToolFinished(call, "3\n4", ToolStatus.OK),
        TextDelta("it is 3"),
    ):
        view.saw(note)
    above = console.file.getvalue()

    assert ["let me see", '> add {"a": 1}', "< add ok: 3 4"] == above.splitlines()
    assert ["it is 3", "ready"] == drawn(view, console)


def test_without_text_only_the_line_is_drawn():
    """Where the answer goes elsewhere, the terminal shows how the turn stands and nothing of the answer."""
    view, console = screen(with_text=False)
    view.saw(TextDelta("secret"))

    assert ["ready"] == drawn(view, console)
    view.saw(ToolStarted(ToolCall("c1", "add", "{}")))
    assert "secret" not in console.file.getvalue()


def test_nobody_steers_the_terminal():
    """Neither a model nor a tool can send the terminal what moves its cursor."""
    view, console = screen(width=80)
    evil = "\x1b[2J\x9b\x07\ud800\udfff"
    call = ToolCall("c1", "add", evil)
    for note in (ToolStarted(call), ToolFinished(call, evil, ToolStatus.ERROR), Reconnecting(evil), TextDelta(evil)):
        view.saw(note)
    shown = console.file.getvalue() + "".join(drawn(view, console))

    assert [] == [each for each in evil if each in shown and each not in "[2J"]


@pytest.mark.parametrize(("text", "expected"), [("a\tb\nc", "a\tb\nc"), ("a\rb\x00", "a\ufffdb\ufffd"), ("é🙂", "é🙂")])
def test_visible_text(text, expected):
    """Text keeps its lines, its tabs and its letters, and loses what steers."""
    assert expected == visible(text)


@pytest.mark.parametrize(
    ("note", "expected"),
    [
        (CALLING, ""),
        (STREAMING, ""),
        (BACKOFF, "fsm-loop: backoff, goes on in 5.0 s (calling.model_failed.may_retry)\n"),
        (StateChanged("streaming", "r", "truncated"), "fsm-loop: truncated (r)\n"),
        (StateChanged("grace", "r", "grace", (), 3.0), "fsm-loop: grace, goes on in 3.0 s (r)\n"),
        (Withdrawn("abc"), "fsm-loop: 3 characters are taken back; they are told again\n"),
        (TextDelta("abc"), ""),
    ],
)
def test_where_nothing_can_be_drawn_there_are_lines(capsys, note, expected):
    """Without a terminal there is a line for each wait and each turning, and the answer is nowhere in it."""
    with Lines(Outlet(io.StringIO(), as_json=False, screen=False)) as view:
        view.saw(note)
        view.close()

    assert ("", expected) == tuple(capsys.readouterr())


def test_without_a_terminal_nothing_is_drawn(monkeypatch):
    """Where neither channel is a terminal, the view is that of lines."""
    monkeypatch.setattr("sys.stderr", io.StringIO())

    assert isinstance(view_on(Outlet(io.StringIO(), as_json=False, screen=False)), Lines)
