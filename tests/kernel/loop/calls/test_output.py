"""Calls that give the output of the run: taken when the others have ended, or instead of them, and never run."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import text_of
from loopkernel.data.choices import NoProfile, OutputCalls, Schedule
from loopkernel.data.events import ToolEnded, TurnEnded
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import Ledger, LedgerEntry
from loopkernel.data.model_deltas import ModelCall
from loopkernel.data.policy import Policy
from loopkernel.data.sessions import Session
from loopkernel.data.states import Confirming, Executing, Idle, State, Streaming
from loopkernel.data.tools import EffectClass, InvalidCall, Tool, ToolProfile, ValidCall
from loopkernel.data.user_deltas import ChangePolicy, Swap
from loopkernel.data.vector import Vector
from loopkernel.data.words import CallStatus, CancelReason, StopReason, TurnEndReason
from loopkernel.loop.calls.schedule import gives_output, others_open, skip_for_output, take_output, unjudged_output

from tests.kernel.building import (
    ALL_TOOLS,
    ASKING_NOBODY,
    FREE,
    ONE,
    a,
    after,
    asked,
    at_rest,
    broken,
    call_id,
    checked,
    completed,
    effects_of,
    ends,
    entries_of,
    made_call,
    of_kind,
    recorded_call,
    results_of,
    session_of,
    starts,
    statuses,
    step,
    succeeded,
    writes,
)
from tests.kernel.drafts import drafted

DONE, QUEUED, RUNNING, ERROR, CANCELLED = (
    CallStatus.DONE,
    CallStatus.QUEUED,
    CallStatus.IN_PROGRESS,
    CallStatus.ERROR,
    CallStatus.CANCELLED,
)
FINISH = Tool(name="finish", profile=ToolProfile(effect=EffectClass.DANGEROUS, serial=True))
TOOLS = (*ALL_TOOLS, FINISH)
RUN = evolve(ASKING_NOBODY, output_tool="finish")
SKIP = evolve(RUN, output_calls=OutputCalls.SKIP)
both = pytest.mark.parametrize("policy", [RUN, SKIP], ids=["run", "skip"])


def finish(name: str = "out", *needs: str, verdict: ValidCall | InvalidCall | None = FREE) -> ModelCall:
    """The model gives its output."""
    return made_call("finish", verdict, provider_id=name, needs=needs)


def reply(*calls: ModelCall, policy: Policy = RUN) -> State:
    """The model has made these calls."""
    return after(asked(policy, tools=TOOLS), *calls, completed(StopReason.TOOL_USE))


def session(policy: Policy) -> Session:
    return at_rest(policy, TOOLS).session


def ledger_of_entries(*entries: LedgerEntry) -> Ledger:
    return Ledger(
        reply=ONE,
        entries=Vector.of(entries),
        unanswered=sum(entry.is_open for entry in entries),
        linked=any(entry.links is not None for entry in entries),
    )


def entry(position: int, tool: str = "read", verdict: ValidCall | None = FREE) -> LedgerEntry:
    return LedgerEntry(call=recorded_call(position, tool=tool), verdict=verdict)


# --- the output is taken ----------------------------------------------------------------------------------


@both
@pytest.mark.rule("CALL-5")
@pytest.mark.rule("TOOL-7")
def test_an_output_alone_ends_the_turn_and_nothing_runs(policy: Policy) -> None:
    following, effects = step(asked(policy, finish(), tools=TOOLS), completed(StopReason.TOOL_USE))
    assert starts(effects) == []
    assert ends(effects) == [(1, DONE, None)]
    assert [ended.reason for ended in of_kind(TurnEnded, effects)] == [TurnEndReason.OUTPUT]
    (result,) = results_of(a(Idle, following))
    assert (result.ran, result.tool) == (False, "finish")


@both
@pytest.mark.rule("CALL-5")
def test_a_call_that_runs_is_no_output_though_a_later_policy_names_its_tool(policy: Policy) -> None:
    running = reply(finish(), policy=ASKING_NOBODY)
    following, effects = step(running, ChangePolicy(policy))
    assert (statuses(following), ends(effects)) == ([RUNNING], [])
    following, effects = step(following, succeeded(1))
    assert ends(effects) == [(1, DONE, None)]
    assert isinstance(following, Streaming)


@both
@pytest.mark.rule("CALL-5")
@pytest.mark.rule("ASK-2")
def test_an_output_is_never_asked_about_nor_denied(policy: Policy) -> None:
    for name in ("asks", "denied"):
        named_so = evolve(policy, output_tool=name)
        state = after(asked(named_so, tools=TOOLS), made_call(name), completed(StopReason.TOOL_USE))
        assert session_of(state).last_end is TurnEndReason.OUTPUT


@pytest.mark.rule("CALL-5")
@pytest.mark.rule("TOOL-3")
@given(
    st.sampled_from(Schedule),
    st.sampled_from((None, 1)),
    st.sampled_from(NoProfile),
    st.lists(st.sampled_from(("read", "write", "bare", "serial")), min_size=1, max_size=4),
    st.integers(0, 4),
    st.data(),
)
def test_the_others_run_first_wherever_the_output_stands(
    schedule: Schedule,
    slots: int | None,
    no_profile: NoProfile,
    names: list[str],
    place: int,
    data: st.DataObject,
) -> None:
    """It holds nothing back, whatever its tool is said to use, and nothing waits for it."""
    policy = evolve(RUN, schedule=schedule, max_parallel=slots, no_profile=no_profile)
    calls = [made_call(name, writes("a")) for name in names]
    calls.insert(min(place, len(calls)), finish(verdict=writes("a")))
    output = next(position for position, call in enumerate(calls) if call.tool == "finish")
    state = reply(*calls, policy=policy)
    for _ in names:
        entries = entries_of(a(Executing, state))
        assert entries[output].status is QUEUED
        running = [found.operation for found in entries if found.status is RUNNING and found.operation is not None]
        state = after(state, succeeded(data.draw(st.sampled_from(running))))
    assert session_of(a(Idle, state)).last_end is TurnEndReason.OUTPUT
    assert [result.status for result in results_of(state)] == [DONE] * len(calls)


@pytest.mark.rule("CALL-5")
@pytest.mark.rule("TOOL-6")
def test_the_output_ends_the_loop_also_when_another_call_has_failed() -> None:
    state = after(reply(made_call(), finish()), broken(1))
    assert session_of(state).last_end is TurnEndReason.OUTPUT
    assert [result.status for result in results_of(state)] == [ERROR, DONE]


@both
@pytest.mark.rule("CALL-5")
def test_several_outputs_are_all_taken(policy: Policy) -> None:
    state = reply(finish("x"), finish("y"), policy=policy)
    assert [result.status for result in results_of(state)] == [DONE, DONE]
    assert session_of(state).last_end is TurnEndReason.OUTPUT


@both
@pytest.mark.rule("CALL-5")
@pytest.mark.rule("TOOL-5")
def test_an_invalid_output_is_an_error_and_the_loop_goes_on(policy: Policy) -> None:
    state = reply(finish(verdict=InvalidCall("no answer")), policy=policy)
    (result,) = results_of(a(Streaming, state))
    assert (result.status, result.ran) == (ERROR, False)
    assert "no answer" in text_of(result.content)
    beside = reply(made_call(), finish(verdict=InvalidCall("no answer")), policy=policy)
    assert statuses(beside) == [RUNNING, ERROR]


@pytest.mark.rule("CALL-5")
@pytest.mark.rule("CALL-1")
def test_what_depends_on_the_output_runs_behind_it() -> None:
    state = reply(finish("x"), made_call(provider_id="y", needs=("x",)), made_call(provider_id="z"))
    assert statuses(state) == [QUEUED, QUEUED, RUNNING]
    following, effects = step(state, succeeded(1))
    assert ends(effects) == [(3, DONE, None), (1, DONE, None)]
    assert starts(effects) == [call_id(2)]
    assert session_of(after(following, succeeded(2))).last_end is TurnEndReason.OUTPUT


@both
@pytest.mark.rule("CALL-5")
@pytest.mark.rule("CALL-3")
@pytest.mark.parametrize("refers", [False, True])
def test_an_output_waits_for_what_it_depends_on(policy: Policy, refers: bool) -> None:
    needs = () if refers else ("p",)
    given_input = Json.of({"text": {"$result": "p"}} if refers else {"text": "x"})
    call = made_call("finish", provider_id="out", needs=needs, call_input=given_input)
    state = reply(made_call(), call, policy=policy)
    assert statuses(state) == [RUNNING, QUEUED]
    failed = after(state, broken(1))
    assert [result.status for result in results_of(a(Streaming, failed))] == [ERROR, ERROR]
    done = after(state, succeeded(1), *([checked(1)] if refers else []))
    assert session_of(a(Idle, done)).last_end is TurnEndReason.OUTPUT


@pytest.mark.rule("CALL-5")
@pytest.mark.rule("ASK-3")
def test_a_call_that_is_swapped_for_the_output_gives_it() -> None:
    state = a(Confirming, reply(made_call("asks")))
    swapped = after(state, Swap(call=call_id(1), tool="finish", input=Json.of({"text": "x"})))
    following, effects = step(swapped, checked(1))
    assert starts(effects) == []
    assert session_of(following).last_end is TurnEndReason.OUTPUT


# --- the others are skipped -------------------------------------------------------------------------------


@pytest.mark.rule("CALL-5")
@pytest.mark.parametrize("first", [False, True])
def test_the_others_are_answered_instead_of_run(first: bool) -> None:
    others = (made_call(), made_call("asks"))
    calls = (finish(), *others) if first else (*others, finish())
    state, effects = step(asked(SKIP, *calls, tools=TOOLS), completed(StopReason.TOOL_USE))
    assert starts(effects) == []
    assert session_of(state).last_end is TurnEndReason.OUTPUT
    skipped = [found.result for found in of_kind(ToolEnded, effects) if found.result.status is CANCELLED]
    assert [(result.reason, result.ran) for result in skipped] == [(CancelReason.SUPERSEDED, False)] * 2


@pytest.mark.rule("CALL-5")
@pytest.mark.rule("TOOL-18")
def test_nothing_starts_before_it_is_known_whether_the_output_is_valid() -> None:
    calls = (made_call("danger"), finish(verdict=None))
    state, effects = step(asked(SKIP, *calls, tools=TOOLS), completed(StopReason.TOOL_USE))
    assert starts(effects) == []
    assert statuses(state) == [QUEUED, QUEUED]
    assert ends(effects_of(state, checked(1))) == [(1, CANCELLED, CancelReason.SUPERSEDED), (2, DONE, None)]
    invalid = effects_of(state, checked(1, InvalidCall("no")))
    assert (ends(invalid), starts(invalid)) == ([(2, ERROR, None)], [call_id(1)])
    by_run = effects_of(asked(RUN, *calls, tools=TOOLS), completed(StopReason.TOOL_USE))
    assert starts(by_run) == [call_id(1)]


@pytest.mark.rule("CALL-5")
@pytest.mark.rule("CALL-1")
def test_what_the_output_needs_is_not_skipped() -> None:
    calls = (
        made_call(provider_id="a"),
        made_call(provider_id="b", needs=("a",)),
        made_call(provider_id="c"),
        finish("out", "b"),
    )
    state: State = reply(*calls, policy=SKIP)
    assert statuses(state)[:2] == [RUNNING, QUEUED]
    assert not entries_of(state)[2].runs
    state = after(state, succeeded(1), succeeded(2))
    assert session_of(a(Idle, state)).last_end is TurnEndReason.OUTPUT
    assert [result.status for result in results_of(state)] == [DONE, DONE, CANCELLED, DONE]


# --- by parts ---------------------------------------------------------------------------------------------


@pytest.mark.rule("CALL-5")
def test_only_an_output_call_that_never_ran_gives_the_output() -> None:
    settings = session(RUN).settings
    done = evolve(entry(1, "finish"), status=DONE)
    assert gives_output(done, settings)
    assert not gives_output(entry(1, "finish"), settings)
    assert not gives_output(evolve(done, status=ERROR), settings)
    assert not gives_output(evolve(done, runs=1), settings)
    assert not gives_output(evolve(entry(1), status=DONE), settings)
    assert not gives_output(done, session(ASKING_NOBODY).settings)


@pytest.mark.rule("CALL-5")
def test_only_an_open_output_that_was_not_judged_yet_holds_the_others() -> None:
    unjudged = entry(2, "finish", None)
    ledger = ledger_of_entries(entry(1, verdict=None), unjudged)
    assert unjudged_output(ledger, session(SKIP).settings) == unjudged
    for policy in (RUN, ASKING_NOBODY, evolve(SKIP, output_tool=None)):
        assert unjudged_output(ledger, session(policy).settings) is None
    for other in (entry(2, "finish"), evolve(unjudged, status=ERROR)):
        assert unjudged_output(ledger_of_entries(other), session(SKIP).settings) is None


@pytest.mark.rule("CALL-5")
def test_without_an_output_nothing_is_taken_or_skipped() -> None:
    ledger = ledger_of_entries(entry(1), entry(2))
    for policy in (ASKING_NOBODY, RUN, SKIP):
        assert take_output(drafted(session(policy), ledger=ledger)) is None
        assert skip_for_output(drafted(session(policy), ledger=ledger)).ledger is ledger
    outputs = ledger_of_entries(entry(1), entry(2, "finish"))
    assert skip_for_output(drafted(session(RUN), ledger=outputs)).ledger is outputs


@pytest.mark.rule("CALL-5")
def test_the_others_are_those_that_do_not_wait_for_an_output() -> None:
    settings = session(RUN).settings
    assert others_open(ledger_of_entries(entry(1), entry(2, "finish")), settings)
    assert not others_open(ledger_of_entries(evolve(entry(1), status=DONE), entry(2, "finish")), settings)
    assert others_open(ledger_of_entries(evolve(entry(1), status=DONE), entry(2)), settings)
    assert not others_open(ledger_of_entries(entry(1, "finish"), entry(2, "finish")), settings)
