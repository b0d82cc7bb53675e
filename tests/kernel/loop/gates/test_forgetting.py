"""Remembered approvals are taken back: what that lets start no more, what it leaves alone, and who is told."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.codec import effects_to_text
from loopkernel.data.children import ChildRun
from loopkernel.data.effects import TellChild
from loopkernel.data.events import ApprovalAsked, ApprovalForgotten, Refused
from loopkernel.data.json_text import Json
from loopkernel.data.policy import FieldPattern
from loopkernel.data.remembered import Remembered, RememberedCall, RememberedPattern, RememberedTool
from loopkernel.data.states import Dispatching, State
from loopkernel.data.thread_deltas import Resumed
from loopkernel.data.user_deltas import (
    Approve,
    ChangePolicy,
    Forget,
    Remember,
    RememberCall,
    RememberPattern,
    RememberTool,
    Remembrance,
)
from loopkernel.data.words import CallStatus, RefusalReason, UserAction

from tests.kernel.building import (
    ALL_TOOLS,
    ASKING_NOBODY,
    TOOLS,
    a,
    after,
    asked,
    asking,
    at_rest,
    call_id,
    completed,
    effects_of,
    ledger_of,
    made_call,
    of_kind,
    run,
    session_of,
    starts,
    statuses,
    step,
    succeeded,
)
from tests.kernel.gates import AGENT, EARLY_AGENT, agent_call

WAITING, RUNNING, QUEUED = CallStatus.BLOCKED_ON_USER, CallStatus.IN_PROGRESS, CallStatus.QUEUED
FIRST, SECOND, THIRD = call_id(1), call_id(2), call_id(3)
PATH_A, PATH_B = Json.of({"path": "a"}), Json.of({"path": "b"})
ONE_SLOT = evolve(ASKING_NOBODY, max_parallel=1)
ASKS = made_call("asks", call_input=PATH_A)
TOOL: Remembered = RememberedTool("asks")
ALL_THREE: tuple[Remembered, ...] = (
    TOOL,
    RememberedCall("asks", PATH_A),
    RememberedPattern("asks", (FieldPattern("path", "*"),)),
)


def forgotten(state: State, delta: Forget) -> tuple[Remembered, ...]:
    return tuple(event.remembered for event in of_kind(ApprovalForgotten, effects_of(state, delta)))


@pytest.mark.rule("ASK-3")
@given(st.lists(st.sampled_from(ALL_THREE), unique=True), st.none() | st.sampled_from(ALL_THREE))
def test_what_is_named_is_gone_and_told_and_the_others_stay(held: list[Remembered], named: Remembered | None) -> None:
    before = after(at_rest(), *map(Remember, held))
    state, effects = step(before, Forget(named))
    gone = tuple(each for each in held if named in (None, each))
    if named is not None and named not in held:
        assert (effects, state) == ((Refused(UserAction.FORGET, RefusalReason.UNKNOWN),), before)
    else:
        assert session_of(state).settings.remembered == tuple(each for each in held if each not in gone)
        assert forgotten(before, Forget(named)) == gone


@pytest.mark.rule("ASK-3")
@pytest.mark.rule("ASK-5")
@pytest.mark.parametrize(
    "how",
    [RememberCall(), RememberTool(), RememberPattern((FieldPattern("path", "*"),))],
    ids=lambda how: type(how).__name__,
)
def test_what_an_approval_alone_let_through_is_asked_about_when_it_is_taken_back(how: Remembrance) -> None:
    let_through = after(asking(ASKS, ASKS, policy=ONE_SLOT), Approve(call=FIRST, remember=how))
    assert statuses(let_through) == [RUNNING, QUEUED]
    for named in (None, *session_of(let_through).settings.remembered):
        state, effects = step(let_through, Forget(named))
        assert of_kind(ApprovalAsked, effects) == [ApprovalAsked(SECOND)]
        assert statuses(state) == [RUNNING, WAITING]
        assert starts(effects_of(state, succeeded(1))) == []


@pytest.mark.rule("ASK-3")
@pytest.mark.rule("ASK-4")
def test_a_call_that_was_approved_itself_and_one_that_runs_are_left_alone() -> None:
    state = asking(ASKS, ASKS, policy=ONE_SLOT)
    approved = after(state, Approve(call=SECOND), Approve(call=FIRST, remember=RememberTool()))
    following, effects = step(approved, Forget())
    assert [type(effect) for effect in effects] == [ApprovalForgotten]
    assert (statuses(following), starts(effects_of(following, succeeded(1)))) == ([QUEUED, RUNNING], [FIRST])


@pytest.mark.rule("ASK-5")
def test_what_waits_goes_on_waiting_and_a_refusal_leaves_all_as_it_is() -> None:
    other = RememberedTool("danger")
    before = after(asking(ASKS), Remember(other))
    following, effects = step(before, Forget())
    assert (statuses(following), effects) == ([WAITING], (ApprovalForgotten(other),))
    state, effects = step(before, Forget(RememberedTool("read")))
    assert (effects, state) == ((Refused(UserAction.FORGET, RefusalReason.UNKNOWN),), before)


@pytest.mark.rule("ASK-3")
def test_while_a_reply_streams_nothing_starts_early_by_it_any_more() -> None:
    streaming = after(asked(ASKING_NOBODY, tools=ALL_TOOLS), Remember(TOOL))
    assert after(streaming, Forget(RememberedTool("read"))) == streaming
    gone = after(streaming, Forget(TOOL), ASKS, completed())
    assert statuses(gone) == [WAITING]


@pytest.mark.rule("ASK-3")
def test_what_is_told_of_it_holds_no_secret() -> None:
    secret = RememberedCall("asks", Json.of({"path": "a", "password": "hunter2"}))
    told = effects_of(after(at_rest(), Remember(secret)), Forget(secret))
    assert len(told) == 1
    assert "hunter2" not in effects_to_text(told)


# --- sub-agents ---------------------------------------------------------------------------------------------


def with_child(*said: Remember | Forget) -> Dispatching:
    running = after(asked(ASKING_NOBODY, tools=(AGENT, EARLY_AGENT, *TOOLS)), agent_call("agent"), completed())
    return a(Dispatching, after(running, *said))


def told(state: State, *deltas: Forget | Resumed) -> list[object]:
    return [effect.delta for effect in of_kind(TellChild, effects_of(state, *deltas))]


@pytest.mark.rule("ASK-5")
@pytest.mark.rule("CHILD-2")
def test_sub_agents_under_way_are_told_also_while_nothing_is_remembered_here() -> None:
    state = with_child(Remember(TOOL))
    assert told(state, Forget(TOOL)) == [Forget(TOOL)]
    assert told(with_child(), Forget()) == [Forget()]
    assert told(state, Forget(RememberedTool("read"))) == []
    behind = asked(ASKING_NOBODY, made_call(), tools=(AGENT, EARLY_AGENT, *TOOLS))  # another call comes first
    assert told(after(behind, agent_call("agent"), completed(), Remember(TOOL)), Forget(TOOL)) == [Forget(TOOL)]
    early = after(asked(ASKING_NOBODY, tools=(EARLY_AGENT, *TOOLS)), agent_call("early_agent"))
    assert told(early, Forget()) == [Forget()]


@pytest.mark.rule("ASK-3")
@pytest.mark.rule("CHILD-2")
@pytest.mark.rule("RESUME-3")
def test_a_sub_agent_that_may_not_have_heard_of_it_forgets_all_and_is_told_what_holds() -> None:
    """The process may have died between the word of the person and the sub-agent."""
    other = RememberedTool("danger")
    (policy, *unaware) = told(with_child(Remember(TOOL), Remember(other)), Resumed())
    assert (type(policy), unaware) == (ChangePolicy, [Remember(TOOL), Remember(other)])
    aware = with_child(Remember(TOOL), Remember(other), Forget(TOOL))
    for state in (aware, after(aware, Resumed())):
        (_, *again) = told(state, Resumed())
        assert again == [Forget(), Remember(other)]
        assert a(ChildRun, ledger_of(state).entries[0].child).forgets
    assert run(1) == ledger_of(aware).entries[0].operation
