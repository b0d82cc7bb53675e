"""Where rules meet that seldom do: a hook and a truncation, a change of policy and a call on its way."""

import pytest
from attrs import evolve
from loopkernel.data.choices import OutputCalls, Schedule
from loopkernel.data.effects import CallModel
from loopkernel.data.events import Refused, TurnEnded
from loopkernel.data.ids import HookOperation, SummaryOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelText
from loopkernel.data.outside_deltas import HookAnswered, HookBlock, HookModify, SummaryReady
from loopkernel.data.policy import Compaction, Hook, Truncation
from loopkernel.data.states import Compacting, Idle, Streaming
from loopkernel.data.user_deltas import Approve, ChangePolicy, Correct
from loopkernel.data.words import (
    CallStatus,
    CancelReason,
    ErrorClass,
    HookPoint,
    RefusalReason,
    StopReason,
    TurnEndReason,
    UserAction,
)

from tests.kernel.building import (
    ALL_TOOLS,
    ASKING_NOBODY,
    ONE,
    THREE,
    after,
    asked,
    call_id,
    checked,
    completed,
    effects_of,
    ends,
    failed,
    made_call,
    named,
    of_kind,
    say,
    starts,
    step,
    succeeded,
    working,
    writes,
)

CHANGED = Json.of({"path": "changed"})


def hooked(point: HookPoint) -> Hook:
    return Hook(point=point, name="gate", gated=True)


@pytest.mark.rule("HOOK-2")
@pytest.mark.rule("INFER-7")
@pytest.mark.rule("INFER-13")
@pytest.mark.parametrize("stop", [StopReason.MAX_TOKENS, StopReason.TOOL_USE], ids=["truncated", "without its calls"])
def test_a_reply_that_a_hook_blocks_is_not_asked_again(stop: StopReason) -> None:
    policy = evolve(ASKING_NOBODY, missing_call_retries=2, hooks=(hooked(HookPoint.AFTER_MODEL),))
    gated = after(asked(policy), ModelText(ONE, "half"), completed(stop))
    following, effects = step(gated, HookAnswered(HookOperation(1), HookBlock("no")))
    assert isinstance(following, Idle)
    assert [ended.reason for ended in of_kind(TurnEnded, effects)] == [TurnEndReason.GUARDRAIL]
    assert of_kind(CallModel, effects) == []


@pytest.mark.rule("INFER-7")
def test_a_limit_that_the_policy_has_since_passed_is_not_tried() -> None:
    policy = evolve(ASKING_NOBODY, max_output_tokens=1_000, on_truncation=Truncation(escalate_to=(3_000, 9_000)))
    state = after(asked(policy), ChangePolicy(evolve(policy, max_output_tokens=5_000)), ModelText(ONE, "half"))
    (again,) = of_kind(CallModel, effects_of(state, completed(StopReason.MAX_TOKENS)))
    assert again.request.max_output_tokens == 9_000


@pytest.mark.rule("INFER-8")
@pytest.mark.rule("INFER-7")
def test_behind_a_truncated_reply_that_stays_a_prompt_may_be_too_long_again() -> None:
    policy = evolve(
        ASKING_NOBODY,
        compaction=Compaction(keep_turns=None, keep_messages=1),
        on_truncation=Truncation(escalate_to=(), continuations=3),
    )
    first = after(asked(policy), ModelText(ONE, "a long answer " * 50), completed())
    too_long = after(first, say("more " * 50), failed(ErrorClass.PROMPT_TOO_LONG, 2))
    assert isinstance(too_long, Compacting)
    asked_again = after(too_long, SummaryReady(SummaryOperation(1), "short"))
    kept = after(asked_again, ModelText(THREE, "half"), completed(StopReason.MAX_TOKENS, 3))
    assert isinstance(kept, Streaming)
    assert isinstance(after(kept, failed(ErrorClass.PROMPT_TOO_LONG, 4)), Compacting)


@pytest.mark.rule("CALL-1")
@pytest.mark.rule("ASK-3")
def test_an_edit_that_refers_to_two_outputs_is_refused_while_one_is_not_there() -> None:
    calls = [made_call(provider_id=name) for name in ("p", "q")]
    waiting = after(working(*calls, made_call("asks", provider_id="r"), tools=ALL_TOOLS), succeeded(1))
    both = Correct(call=call_id(3), input=Json.of({"a": {"$result": "p"}, "b": {"$result": "q"}}))
    refused = Refused(UserAction.CORRECT, RefusalReason.INVALID)
    assert effects_of(waiting, both) == (refused,)
    assert named(effects_of(after(waiting, succeeded(2)), both)) == ["CheckCall"]


@pytest.mark.rule("CALL-5")
@pytest.mark.rule("TOOL-5")
def test_a_call_that_a_later_policy_makes_the_output_gives_it_only_when_its_changed_input_is_checked() -> None:
    policy = evolve(ASKING_NOBODY, hooks=(hooked(HookPoint.BEFORE_TOOL),))
    gated = working(made_call("write"), policy=policy)
    checking = after(gated, HookAnswered(HookOperation(1), HookModify(input=CHANGED)))
    following, effects = step(checking, ChangePolicy(evolve(policy, output_tool="write")))
    assert ends(effects) == []
    assert ends(effects_of(following, checked(1))) == [(1, CallStatus.DONE, None)]


@pytest.mark.rule("ASK-1")
@pytest.mark.rule("TOOL-5")
def test_a_hook_that_comes_after_an_approval_and_changes_the_input_makes_the_person_be_asked_again() -> None:
    calls = (made_call("write", writes("a")), made_call("asks", writes("b"), provider_id="q"))
    policy = evolve(ASKING_NOBODY, max_parallel=1)
    approved = after(working(*calls, policy=policy, tools=ALL_TOOLS), Approve(call_id(2)))
    later = evolve(policy, hooks=(hooked(HookPoint.BEFORE_TOOL),))
    gated, effects = step(approved, ChangePolicy(later))
    assert named(effects) == ["AskHook", "StartTimer"]
    modified = after(gated, HookAnswered(HookOperation(1), HookModify(input=CHANGED)))
    assert named(effects_of(modified, checked(1))) == ["ApprovalAsked"]


@pytest.mark.rule("TOOL-3")
def test_batches_that_are_planned_anew_keep_their_members_and_a_call_that_conflicts_with_one_begins_another() -> None:
    policy = evolve(ASKING_NOBODY, schedule=Schedule.BATCHES)
    others = [made_call(provider_id=f"q{number}") for number in range(8)]
    state = working(made_call("write", writes("a")), *others, made_call("write", None, provider_id="s"), policy=policy)
    again = after(state, succeeded(1), ChangePolicy(evolve(policy, max_parallel=9)))
    following, effects = step(again, checked(1, writes("a")))
    assert starts(effects) == []
    for number in range(2, 10):
        assert starts(effects) == []
        following, effects = step(following, succeeded(number))
    assert starts(effects) == [call_id(10)]


@pytest.mark.rule("CALL-5")
def test_what_two_sources_of_the_output_both_need_is_not_skipped() -> None:
    policy = evolve(ASKING_NOBODY, output_tool="write", output_calls=OutputCalls.SKIP)
    calls = (
        made_call(provider_id="a"),
        *(made_call(provider_id=name, needs=("a",)) for name in ("b", "c")),
        made_call(provider_id="z"),
        made_call("write", provider_id="out", needs=("b", "c")),
    )
    state, effects = step(asked(policy, *calls), completed(StopReason.TOOL_USE))
    assert starts(effects) == [call_id(1)]
    assert ends(effects) == [(4, CallStatus.CANCELLED, CancelReason.SUPERSEDED)]
    done = after(state, succeeded(1), succeeded(2))
    assert ends(effects_of(done, succeeded(3))) == [(3, CallStatus.DONE, None), (5, CallStatus.DONE, None)]
