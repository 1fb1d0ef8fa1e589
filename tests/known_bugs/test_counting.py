"""Faults of other loops that came of counting wrongly, by the row of the list in which they stand.

Each test says what holds here instead. A turn is driven whole, on virtual time.
"""

from __future__ import annotations

import itertools
import json

import pytest

from fsm_loop.core.faults import FaultKind
from fsm_loop.core.messages import Finish, ToolMessage, UserMessage
from fsm_loop.ports import TextDelta
from fsm_loop.testing.fakes import Fail, Hang, ScriptedModel, calls, fails, says
from tests.drive.turns import assert_paired, drive, on_each_backend, said_by

CUT_CALL = calls(("look", '{"number": 1'), finish=Finish.LENGTH)
LOOK = calls(("look", {"number": 1}))
DEFAULT_REQUESTS = 160


async def look(number: int) -> str:
    """Look at something."""
    return f"seen {number}"


class Halves:
    """A compactor that leaves out as much of each text as it is told to."""

    def __init__(self, less: int = 1) -> None:
        self.less = less

    async def compact(self, messages, fault):
        *kept, last = messages
        return (*kept, UserMessage(last.text[self.less :])) if isinstance(last, UserMessage) else messages


class Same:
    """A compactor that finds nothing to leave out."""

    async def compact(self, messages, fault):
        return messages


# ---------------------------------------------------------------- requests and iterations


@on_each_backend
def test_row_01_every_cancelled_request_is_counted(backend):
    """A call that is abandoned for a steer each time it begins still ends the turn, and the steers are not lost."""
    steers = itertools.count(1)

    def script(request):
        return (TextDelta("well"), Hang())

    def again(turn):
        if turn.state != "done":
            turn.steer(f"no {next(steers)}", now=True)

    model = ScriptedModel(script)
    seconds = [(float(second), again) for second in range(1, 40)]
    driven = drive(model, meanwhile=seconds, max_requests=20, backend=backend)

    assert "exhausted" == driven.result.outcome
    assert ("requests", 20, 20) == _spent(driven)
    assert 21 == driven.result.llm_calls == len(model.requests)
    told = [text for text in said_by(driven.result, "user") if text.startswith("no ")] + list(
        driven.result.pending_steer
    )
    assert [f"no {number}" for number in range(1, next(steers))] == told
    assert_paired(driven.result)


def test_row_01_an_abandoned_request_is_not_given_back():
    """A rebuild that the host asks for costs a request each time, and the host may not ask for ever."""
    rebuilds = [(float(second), lambda turn: turn.rebuild("anew")) for second in range(1, 20)]
    driven = drive(lambda _: (Hang(),), meanwhile=rebuilds, api_max_retries=0, recoveries=0)

    assert (3, 4) == (driven.result.counters["rebuilds"], driven.result.llm_calls)
    assert "failed" == driven.result.outcome


@pytest.mark.parametrize("corrections", [1, 5, 12])
def test_row_02_corrections_of_the_user_spend_no_retry(corrections):
    """However often the user corrects the model, no counter of failures moves and the turn completes."""
    replies = [*[(TextDelta("wrong"), Hang())] * corrections, says("right")]
    meanwhile = [(float(n), lambda turn, n=n: turn.steer(f"no {n}", now=True)) for n in range(1, corrections + 1)]
    driven = drive(replies, meanwhile=meanwhile, api_max_retries=0, stream_retries=0, continuations=0)

    assert "completed" == driven.result.outcome
    assert {"requests": corrections + 1} == _moved(driven)
    assert [f"no {n}" for n in range(1, corrections + 1)] == said_by(driven.result, "user")[1:]


@pytest.mark.parametrize("chain", [0, 1, 3, 6])
@pytest.mark.parametrize("retries", [0, 1, 3])
def test_row_03_a_chain_is_walked_to_its_end_whatever_the_retries(chain, retries):
    """Every provider of the chain is tried, each with all its attempts; a hop spends nothing but a fallback."""
    down = lambda _: fails(FaultKind.OVERLOADED)  # noqa: E731  # a script
    driven = drive(down, fallbacks=[down] * chain, api_max_retries=retries, recoveries=0)

    assert [retries + 1] * (chain + 1) == [len(model.requests) for model in driven.models]
    assert "failed" == driven.result.outcome


# ---------------------------------------------------------------- episodes


def test_row_04_cut_replies_of_different_episodes_do_not_add_up():
    """A tool round ends the episode: what was cut before it does not shorten the patience after it."""
    cut = lambda text: says(text, finish=Finish.LENGTH)  # noqa: E731  # a script
    script = [cut("a"), cut("b"), LOOK, cut("c"), cut("d"), LOOK, cut("e"), cut("f"), cut("g"), says("h")]
    driven = drive(script, tools=[look])

    assert ("completed", "efgh") == (driven.result.outcome, driven.result.text)
    assert_paired(driven.result)


def test_row_05_a_tool_call_that_is_cut_later_has_all_its_retries():
    """After ten good rounds a cut tool call is asked for again as often, and from the same limit, as the first."""
    script = [CUT_CALL, CUT_CALL, LOOK, *[LOOK] * 10, CUT_CALL, CUT_CALL, CUT_CALL, LOOK, says("done")]
    driven = drive(script, tools=[look], max_output_tokens=100)
    limits = [request.output_limit for request in driven.requests]

    assert "completed" == driven.result.outcome
    assert [100, 200, 400] == limits[:3]
    assert [100] * 10 == limits[3:13]
    assert [100, 200, 400, 800] == limits[13:17]


def test_row_06_a_loop_of_cuts_and_good_rounds_is_bounded():
    """Cut text and good tool rounds in turn, for ever, end with the iterations: one refills, nothing refills those."""
    words = itertools.count()

    def script(request):
        number = next(words)
        if not request.tools:
            return says("enough")
        return LOOK if number % 2 else says(f"word {number} ", finish=Finish.LENGTH)

    driven = drive(script, tools=[look])

    assert ("exhausted", ("iterations", 40, 40)) == (driven.result.outcome, _spent(driven))
    assert 81 >= driven.calls


def test_row_07_a_larger_output_limit_dies_with_its_episode():
    """The limit that a cut call was given is not carried into the next round, nor into the next turn."""
    model = ScriptedModel([CUT_CALL, LOOK, says("done"), says("again")])
    driven = drive(model, tools=[look], max_output_tokens=100)
    drive(model, tools=[look], max_output_tokens=100)

    assert "completed" == driven.result.outcome
    assert [100, 200, 100, 100] == [request.output_limit for request in model.requests]


# ---------------------------------------------------------------- retries


def test_row_24_nested_retries_do_not_multiply():
    """Reconnects and retries add up for one reply: 1 + 2 + 3 requests, and not 3 times 4, whatever comes in turn."""
    faults = itertools.cycle([FaultKind.DROPPED, FaultKind.OVERLOADED])
    driven = drive(lambda _: fails(next(faults)), recoveries=0)

    assert 6 == driven.calls
    assert {"requests": 6, "api_retries": 3, "stream_retries": 2} == _moved(driven)


def test_row_24_calls_without_a_first_token_are_as_many_as_configured():
    """A provider that never says anything is asked four times, then the turn ends."""
    driven = drive(lambda _: (Hang(),), recoveries=0)

    assert (4, "failed") == (driven.calls, driven.result.outcome)


@on_each_backend
def test_row_25_a_credential_that_is_refreshed_in_vain_ends_in_a_fallback(backend):
    """A refresh that succeeds and changes nothing is had twice; then the next provider is asked."""

    class Refreshed(ScriptedModel):
        async def refresh(self) -> bool:
            return True

    refused = Refreshed(lambda _: fails(FaultKind.CREDENTIAL_EXPIRED))
    driven = drive(refused, fallbacks=[[says("here")]], backend=backend)

    assert ("completed", "here", 3) == (driven.result.outcome, driven.result.text, len(refused.requests))
    assert 2 == driven.result.counters["credential_refreshes"]


@pytest.mark.parametrize("kind", [FaultKind.QUOTA_SPENT, FaultKind.ACCESS_DENIED, FaultKind.MODEL_NOT_FOUND])
def test_row_28_what_waiting_cannot_mend_is_not_waited_for(kind):
    """A spent quota, a denied access, a missing model: one request, no wait, the fault by name."""
    driven = drive(lambda _: fails(kind))

    assert (1, [], 0.0) == (driven.calls, driven.waits, driven.clock.now())
    assert ("failed", kind) == (driven.result.outcome, driven.result.fault.kind)


def test_row_32_one_provider_that_cannot_stream_does_not_silence_the_others():
    """Streaming is switched off for the provider that cannot, and for no other."""
    driven = drive(
        [fails(FaultKind.OVERLOADED), says("streamed")],
        fallbacks=[[fails(FaultKind.STREAMING_UNSUPPORTED), *[fails(FaultKind.OVERLOADED)] * 4]],
        api_max_retries=0,
    )
    primary, fallback = driven.models

    assert [True, False] == [request.stream for request in fallback.requests]
    assert [True, True] == [request.stream for request in primary.requests]
    assert "completed" == driven.result.outcome


# ---------------------------------------------------------------- repairs


def test_row_33_compactions_are_bounded_though_each_makes_it_a_little_shorter():
    """A request that is always too long, however often it is made a little shorter, is compacted three times."""
    driven = drive(lambda _: fails(FaultKind.CONTEXT_TOO_LONG), prompt="x" * 1000, ports={"compactor": Halves(1)})

    assert (4, "failed") == (driven.calls, driven.result.outcome)
    assert ("compactions", 3, 3) == _spent(driven)


def test_row_34_compactions_that_help_do_not_use_up_a_long_turn():
    """A turn that needs a compaction in each of ten rounds has one each time: a tool round refills them."""

    def script(request):
        rounds = sum(isinstance(message, ToolMessage) for message in request.messages)
        if rounds == 10:
            return says("done")
        too_long = request.messages[0].text == "x" * (20 - rounds)
        return fails(FaultKind.CONTEXT_TOO_LONG) if too_long else LOOK

    class Shortens:
        async def compact(self, messages, fault):
            return (UserMessage(messages[0].text[1:]), *messages[1:])

    driven = drive(script, prompt="x" * 20, tools=[look], ports={"compactor": Shortens()}, compactions=1)

    assert ("completed", "done") == (driven.result.outcome, driven.result.text)
    assert 10 == driven.states.count("repairing")


@pytest.mark.parametrize("compactor", [Same(), None])
def test_row_35_a_compaction_without_progress_ends_the_repair(compactor):
    """A request that did not get shorter is not sent again; the fault stands."""
    driven = drive(lambda _: fails(FaultKind.CONTEXT_TOO_LONG), ports={"compactor": compactor})

    assert (1, "failed") == (driven.calls, driven.result.outcome)
    assert FaultKind.CONTEXT_TOO_LONG is driven.result.fault.kind


def test_row_36_a_refused_output_limit_is_lowered_and_nothing_is_compacted():
    """The repair addresses what was wrong: the output limit becomes the provider's, the conversation stays."""
    script = [fails(FaultKind.OUTPUT_LIMIT_TOO_HIGH, limit=4096), says("ok")]
    driven = drive(script, max_output_tokens=9000, ports={"compactor": Halves()})

    assert [9000, 4096] == [request.output_limit for request in driven.requests]
    assert {"requests": 2, "output_limit_repairs": 1} == _moved(driven)
    assert 1 == len({request.messages for request in driven.requests})


# ---------------------------------------------------------------- faults without end


@on_each_backend
def test_row_44_a_port_that_raises_is_not_asked_again(backend):
    """An exception that is nobody's fault outside ends the turn at once, by name, without a wait."""

    class Broken(ScriptedModel):
        def ask(self, request, tools, config):
            raise ZeroDivisionError("a bug")

    driven = drive(Broken(()), backend=backend)

    assert ("failed", FaultKind.INTERNAL, 1) == (
        driven.result.outcome,
        driven.result.fault.kind,
        driven.result.llm_calls,
    )
    assert "ZeroDivisionError" in driven.result.fault.message


def test_row_45_malformed_arguments_are_bounded():
    """A model whose arguments never are JSON is told so three times; nothing is run."""
    ran = []

    async def act(what: str) -> str:
        """Act."""
        ran.append(what)
        return "acted"

    driven = drive(lambda _: calls(("act", "{what: now}")), tools=[act])

    assert (4, "failed", []) == (driven.calls, driven.result.outcome, ran)
    assert ("bad_tool_rounds", 3, 3) == _spent(driven)
    assert_paired(driven.result)


@pytest.mark.parametrize(("outage_s", "outcome"), [(200, "completed"), (2000, "failed")])
def test_row_51_an_outage_is_outlasted_within_the_plan(outage_s, outcome):
    """A provider that is back within the recovery plan answers; one that is not ends the turn, with the fault."""
    model = ScriptedModel(())
    model.script = lambda _: says("back") if model.clock.now() > outage_s else fails(FaultKind.OVERLOADED)
    driven = drive(model)

    assert outcome == driven.result.outcome
    if outcome == "failed":
        assert ("recoveries", 5, 5) == _spent(driven)
        assert FaultKind.OVERLOADED is driven.result.fault.kind
        assert [15, 30, 60, 60, 60] == [wait for wait in driven.waits if wait in {15, 30, 60}]


def test_row_51_an_outage_after_shown_text_is_not_waited_out():
    """What was shown is not told twice: a failure after it is no outage to recover from."""
    shown = (TextDelta("half"), Fail(fails(FaultKind.SERVER_ERROR)[0].fault))
    driven = drive(lambda _: shown, continuations=0)

    assert ("partial", "half") == (driven.result.outcome, driven.result.text)
    assert 0 == driven.result.counters["recoveries"]


def test_every_turn_is_bounded_by_its_requests():
    """Whatever comes, for ever, a turn makes at most max_requests requests and a grace call."""
    faults = itertools.cycle([*FaultKind])
    words = itertools.count()

    def script(request):
        number = next(words)
        return [LOOK, CUT_CALL, says(""), fails(next(faults)), (TextDelta(json.dumps(number)),)][number % 5]

    driven = drive(script, fallbacks=[script, script], tools=[look], max_iterations=1000)

    assert driven.calls == driven.result.llm_calls <= DEFAULT_REQUESTS + 1


def _spent(driven):
    spent = driven.result.exhausted
    return None if spent is None else (spent.counter, spent.value, spent.cap)


def _moved(driven):
    return {name: value for name, value in driven.result.counters.items() if value and name not in {"tokens", "cost"}}
