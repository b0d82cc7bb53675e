"""`Streaming`: the reply grows, its calls are checked, and input waits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import OpaqueBlock, RawInput, ReasoningBlock, ServerCall, TextBlock
from loopkernel.data.choices import OnBusy
from loopkernel.data.effects import CheckCall
from loopkernel.data.events import CallAppeared, MessageAdded, Refused, ReplyGrew, ToolEnded
from loopkernel.data.ids import CheckOperation, ModelOperation
from loopkernel.data.messages import AssistantMessage, ReplyState
from loopkernel.data.model_deltas import (
    ModelCall,
    ModelInput,
    ModelOpaque,
    ModelReasoning,
    ModelServerCall,
    ModelStarted,
    ModelText,
    ModelUsage,
)
from loopkernel.data.policy import Policy
from loopkernel.data.states import Executing, Streaming
from loopkernel.data.tool_deltas import ToolChecked
from loopkernel.data.tools import InvalidCall, UnknownTool, Verdict
from loopkernel.data.usage import Usage
from loopkernel.data.user_deltas import CancelAll, CancelCall
from loopkernel.data.words import CallStatus, CancelReason, ErrorClass, RefusalReason, StopReason, UserAction
from loopkernel.testing.strategies.values import usages

from tests.kernel.building import (
    FREE,
    NOTHING,
    ONE,
    TWO,
    a,
    after,
    asked,
    at_rest,
    call_id,
    completed,
    effects_of,
    failed,
    made_call,
    of_kind,
    say,
    session_of,
    step,
)
from tests.kernel.grids import expected_grid, grid, reports_about

ASKED = asked()
UNCHECKED = made_call(verdict=None)
WAITS = {"Say": "Streaming", "Enqueue": "Streaming", "Steer": "Streaming"}

# --- the grid -------------------------------------------------------------------------------------------


@pytest.mark.rule("DELTA-2")
@pytest.mark.rule("DELTA-3")
@pytest.mark.parametrize("on_busy", OnBusy)
def test_strange_reports_are_refused_and_input_waits(on_busy: OnBusy) -> None:
    said = {OnBusy.QUEUE: "Streaming", OnBusy.REJECT: "refused not-now", OnBusy.INTERRUPT: "Streaming"}[on_busy]
    lives = {"Resumed": "Streaming", "CancelAll": "Cancelled", "Disposed": "Initial", "Forked": "Idle"}
    expected = expected_grid(settings="Streaming", **{**WAITS, "Say": said}, **lives)
    assert grid(asked(Policy(on_busy=on_busy))) == expected


@pytest.mark.rule("DELTA-4")
def test_each_report_of_the_model_call_under_way_is_taken() -> None:
    found = grid(ASKED, 1)
    assert {name: found[name] for name in map(_name, reports_about(1)[:10])} == {
        **dict.fromkeys(("ModelStarted", "ModelText", "ModelReasoning", "ModelOpaque", "ModelInput"), "Streaming"),
        **dict.fromkeys(("ModelCall", "ModelServerCall", "ModelUsage", "ModelCompleted"), "Streaming"),
        "ModelFailed": "Backoff",
    }


def _name(value: object) -> str:
    return type(value).__name__


@pytest.mark.rule("TOOL-15")
@pytest.mark.rule("DELTA-2")
def test_of_the_tools_only_a_check_is_open_while_the_reply_streams() -> None:
    found = grid(after(ASKED, UNCHECKED), 1)
    assert found["ToolChecked"] == "Streaming"
    runs = ("ToolProgress", "ToolSucceeded", "ToolFailed", "ToolAsked", "ToolStopped", "ChildProgress", "ChildEnded")
    assert {found[name] for name in runs} == {"refused unknown"}


# --- the reply grows ------------------------------------------------------------------------------------


@pytest.mark.rule("INFER-3")
def test_every_piece_is_kept_in_order_and_what_is_said_is_shown() -> None:
    pieces = (
        ModelReasoning(ONE, "hm"),
        ModelText(ONE, "a"),
        ModelText(ONE, "b"),
        ModelOpaque(ONE, NOTHING),
        ModelInput(ONE, "{"),
        ModelServerCall(ONE, provider_id="w", tool="search", input=NOTHING),
        made_call(),
    )
    state: Streaming = ASKED
    shown: list[object] = []
    for piece in pieces:
        following, effects = step(state, piece)
        state = a(Streaming, following)
        shown.extend(effects)
    assert tuple(state.pieces) == pieces
    assert shown == [
        ReplyGrew(ONE, "hm", True),
        ReplyGrew(ONE, "a"),
        ReplyGrew(ONE, "b"),
        CallAppeared(call_id(1), "p", "read"),
    ]


@pytest.mark.rule("INFER-3")
@pytest.mark.rule("INFER-15")
@pytest.mark.rule("TOOL-15")
def test_the_whole_reply_goes_into_the_thread_as_it_came() -> None:
    deltas = (
        ModelReasoning(ONE, "hm"),
        ModelText(ONE, "a"),
        ModelText(ONE, "b"),
        ModelOpaque(ONE, NOTHING),
        ModelInput(ONE, "{"),
        ModelServerCall(ONE, provider_id="w", tool="search", input=NOTHING),
    )
    (added,) = of_kind(MessageAdded, effects_of(ASKED, *deltas, completed()))
    reply = a(AssistantMessage, added.message)
    assert reply.content == (
        ReasoningBlock("hm"),
        TextBlock("ab"),
        OpaqueBlock("default", NOTHING),
        ServerCall(provider_id="w", tool="search", input=NOTHING),
    )
    assert (reply.reply, reply.model, reply.state, reply.stop) == (
        ONE,
        "default",
        ReplyState.COMPLETE,
        StopReason.END_TURN,
    )


@pytest.mark.rule("INFER-3")
@given(st.lists(usages, max_size=3), usages)
def test_usage_within_a_reply_merges_by_the_largest_of_each_field(reported: list[Usage], last: Usage) -> None:
    state = after(ASKED, *(ModelUsage(ONE, usage) for usage in reported), ModelText(ONE, "a"))
    session = session_of(after(state, completed(usage=last)))
    every = [*reported, last]
    assert session.usage == Usage(
        max(usage.input for usage in every),
        max(usage.output for usage in every),
        max(usage.cache_read for usage in every),
        max(usage.cache_write for usage in every),
    )


@pytest.mark.rule("INFER-3")
@given(usages, usages, usages)
def test_usage_of_different_replies_adds_up_also_of_failed_and_aborted_ones(
    failing: Usage, aborted: Usage, whole: Usage
) -> None:
    state = after(at_rest(), say(), failed(ErrorClass.AUTH, usage=failing))
    state = after(state, say(), ModelUsage(TWO, aborted), CancelAll(), say())
    state = after(state, ModelText(ModelOperation(3), "a"), completed(reply=3, usage=whole))
    assert session_of(state).usage == failing.plus(aborted).plus(whole)


def test_the_start_of_the_answer_changes_nothing_else() -> None:
    following, effects = step(ASKED, ModelStarted(ONE, "default"))
    assert (a(Streaming, following).pieces, session_of(following), effects) == (ASKED.pieces, ASKED.session, ())


# --- its calls ------------------------------------------------------------------------------------------


@pytest.mark.rule("TOOL-14")
@given(st.lists(st.sampled_from(("same", "other")), min_size=1, max_size=4))
def test_a_call_is_known_by_its_reply_and_place_whatever_the_provider_calls_it(provider_ids: list[str]) -> None:
    calls = [made_call(provider_id=name) for name in provider_ids]
    state = a(Streaming, after(ASKED, *calls))
    assert [entry.call.id for entry in state.ledger.entries] == [call_id(n + 1) for n in range(len(calls))]
    assert [entry.call.provider_id for entry in state.ledger.entries] == provider_ids


@pytest.mark.rule("TOOL-18")
def test_a_complete_call_is_checked_at_once() -> None:
    following, effects = step(ASKED, UNCHECKED)
    assert effects == (
        CallAppeared(call_id(1), "p", "read"),
        CheckCall(operation=CheckOperation(1), call=call_id(1), tool="read", input=NOTHING),
    )
    assert a(Streaming, following).ledger.entries[0].check == 1


@pytest.mark.rule("TOOL-18")
@pytest.mark.parametrize("call", [made_call(), made_call(verdict=None, call_input=RawInput("{"))])
def test_a_verdict_may_come_along_and_what_does_not_parse_needs_none(call: ModelCall) -> None:
    assert effects_of(ASKED, call) == (CallAppeared(call_id(1), "p", "read"),)


@pytest.mark.rule("TOOL-18")
@pytest.mark.rule("TOOL-5")
@pytest.mark.parametrize("verdict", [FREE, UnknownTool(), InvalidCall("no path")])
def test_a_verdict_is_kept_until_the_reply_is_complete(verdict: Verdict) -> None:
    following, effects = step(after(ASKED, UNCHECKED), ToolChecked(CheckOperation(1), verdict))
    (entry,) = a(Streaming, following).ledger.entries
    assert (entry.status, entry.check, entry.verdict, effects) == (CallStatus.QUEUED, None, verdict, ())


@pytest.mark.rule("DELTA-2")
def test_a_second_verdict_is_a_duplicate() -> None:
    state = after(ASKED, UNCHECKED, ToolChecked(CheckOperation(1), FREE))
    assert grid(state, 1)["ToolChecked"] == "refused duplicate"


@pytest.mark.rule("CANCEL-5")
def test_one_call_can_be_cancelled_before_its_reply_is_complete() -> None:
    state = after(ASKED, UNCHECKED, UNCHECKED)
    following, effects = step(state, CancelCall(call_id(1)))
    (ended,) = of_kind(ToolEnded, effects)
    assert (len(effects), ended.result.status, ended.result.reason) == (
        1,
        CallStatus.CANCELLED,
        CancelReason.USER_CANCELLED,
    )
    assert isinstance(following, Streaming)
    assert grid(following, 1)["ToolChecked"] == "refused stale"
    assert effects_of(following, CancelCall(call_id(1))) == (Refused(UserAction.CANCEL, RefusalReason.STALE),)
    assert effects_of(following, CancelCall(call_id(3))) == (Refused(UserAction.CANCEL, RefusalReason.UNKNOWN),)
    finished = after(following, ToolChecked(CheckOperation(2), FREE), completed(StopReason.TOOL_USE))
    assert [entry.status for entry in a(Executing, finished).ledger.entries] == [
        CallStatus.CANCELLED,
        CallStatus.IN_PROGRESS,
    ]
