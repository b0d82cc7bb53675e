"""Small things that a turn leaves behind: what is counted anew, what is shown, what a text says without a reason."""

import pytest
from attrs import evolve
from loopkernel.data.blocks import text_of
from loopkernel.data.choices import ErrorDisplay
from loopkernel.data.effects import AbortTool, CancelTimer, StartChild
from loopkernel.data.events import CompactionStarted, EditRefused, ErrorCleared, ErrorShown, ToolEnded
from loopkernel.data.ids import ReceiptId
from loopkernel.data.messages import UserOrigin
from loopkernel.data.model_deltas import ModelText, Redaction
from loopkernel.data.policy import ChildLimits, Policy
from loopkernel.data.sessions import NO_COURSE, Course
from loopkernel.data.states import Cancelled
from loopkernel.data.thread_deltas import Disposed
from loopkernel.data.user_deltas import CancelCall, DismissError, Swap
from loopkernel.data.words import CancelReason, ErrorClass, StopReason
from loopkernel.loop.algorithms.clearing import CLEARED
from loopkernel.loop.algorithms.compaction import characters_of
from loopkernel.loop.algorithms.wording import OUTPUT_TAKEN, blocked_text, failure_text
from loopkernel.loop.history.thread import add_input
from loopkernel.loop.turn.editing import redact_input
from loopkernel.loop.turn.input import input_while_busy

from tests.kernel.building import (
    ALL_TOOLS,
    ASKING_NOBODY,
    ONE,
    after,
    asked,
    asking,
    at_rest,
    broken,
    call_id,
    checked,
    completed,
    effects_of,
    ends,
    failed,
    made_call,
    of_kind,
    pending_timers,
    run,
    say,
    session_of,
    starts,
    step,
    succeeded,
    text,
    working,
)
from tests.kernel.drafts import drafted, outcome
from tests.kernel.gates import AGENT, BEFORE_TOOL, TASK_INPUT, agent_call, child_ended, compacting, gated, hooked, says

FIRST = call_id(1)


@pytest.mark.rule("INFER-10")
@pytest.mark.parametrize("words", ["x", "a far longer text than the one before"])
def test_a_message_that_a_guardrail_replaces_is_counted_with_its_new_text(words: str) -> None:
    session, _ = outcome(redact_input(drafted(asked().session), Redaction(user_text=words)))
    assert session.size.total == sum(characters_of(message) for message in session.thread)


@pytest.mark.rule("HOOK-3")
def test_what_happened_before_a_new_message_counts_for_no_correction() -> None:
    session = evolve(at_rest().session, course=Course(calls=1, checked=True))
    session, _ = outcome(add_input(drafted(session), text("on"), UserOrigin.SAID, ReceiptId(1)))
    assert session.course == NO_COURSE


@pytest.mark.rule("DELTA-5")
def test_an_error_that_is_dismissed_is_gone() -> None:
    session = drafted(at_rest().session).show_error(ErrorClass.AUTH, "no key").session
    session, effects = outcome(input_while_busy(drafted(session, 5), DismissError()), session)
    assert (session.error, effects) == (None, (ErrorCleared(),))


@pytest.mark.rule("INFER-8")
@pytest.mark.rule("INFER-9")
@pytest.mark.parametrize("display", ErrorDisplay)
def test_that_a_prompt_was_too_long_is_shown_before_the_compaction_where_the_policy_says_so(
    display: ErrorDisplay,
) -> None:
    policy: Policy = evolve(compacting(messages=1, tokens=None), errors=display)
    talked = (say("hello"), ModelText(ONE, "done"), completed(), say("and on"))
    effects = effects_of(after(at_rest(policy), *talked), failed(ErrorClass.PROMPT_TOO_LONG, reply=2))
    assert CompactionStarted() in effects
    assert len(of_kind(ErrorShown, effects)) == (display is ErrorDisplay.SHOWN)


@pytest.mark.rule("HOOK-2")
@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 3, 1)], ids=str)
def test_each_call_starts_as_its_own_hook_lets_it(order: tuple[int, ...]) -> None:
    state = after(asked(hooked(gated(BEFORE_TOOL))), *[made_call()] * 3, completed(StopReason.TOOL_USE))
    for number in order:
        state, effects = step(state, says(number))
        assert starts(effects) == [call_id(number)]


@pytest.mark.rule("CALL-3")
def test_a_dependent_that_has_ended_does_not_keep_the_others_from_their_answers() -> None:
    calls = (made_call(provider_id="a"), *[made_call(provider_id=name, needs=("a",)) for name in "bc"])
    state = after(working(*calls), CancelCall(call=call_id(2)))
    assert starts(effects_of(state, succeeded(1))) == [call_id(3)]
    assert [position for position, *_ in ends(effects_of(state, broken(1)))] == [1, 3]


@pytest.mark.rule("TOOL-5")
@pytest.mark.rule("CHILD-1")
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_call_may_be_swapped_for_a_sub_agent_where_one_may_still_start(depth: int) -> None:
    policy = evolve(ASKING_NOBODY, child=ChildLimits(depth=depth))
    state = asking(made_call("asks"), policy=policy, tools=(*ALL_TOOLS, AGENT))
    effects = effects_of(state, Swap(call=FIRST, tool="agent", input=TASK_INPUT), checked(1))
    assert len(of_kind(StartChild, effects)) == (depth > 0)
    assert len(of_kind(EditRefused, effects)) == (depth == 0)


@pytest.mark.rule("CALL-1")
def test_the_call_that_gives_the_output_is_answered_with_words() -> None:
    policy = evolve(ASKING_NOBODY, output_tool="read")
    effects = effects_of(asked(policy), made_call(), completed(StopReason.TOOL_USE))
    assert [text_of(ended.result.content) for ended in of_kind(ToolEnded, effects)] == [OUTPUT_TAKEN]


@pytest.mark.rule("CHILD-2")
@pytest.mark.rule("TOOL-17")
def test_the_end_of_an_aborted_sub_agent_closes_the_time_that_it_had_to_stop() -> None:
    state = after(working(agent_call(), made_call(), tools=(*ALL_TOOLS, AGENT)), CancelCall(call=FIRST))
    (held,) = session_of(state).held
    assert held.grace is not None
    assert held.grace in pending_timers(state)
    assert of_kind(CancelTimer, effects_of(state, child_ended(1))) == [CancelTimer(held.grace.operation)]


@pytest.mark.rule("CANCEL-2")
def test_a_release_after_a_cancel_stops_what_is_in_the_background_as_disposed() -> None:
    idle = after(working(made_call("write")), succeeded(1, background=True))
    state = Cancelled(session=session_of(idle), stamp=idle.stamp, reason=CancelReason.USER_CANCELLED)
    assert of_kind(AbortTool, effects_of(state, Disposed())) == [AbortTool(run(1), CancelReason.DISPOSED)]


def test_texts_say_what_they_know_and_no_more() -> None:
    assert "removed" in CLEARED
    for blank in ("", " "):
        assert ":" not in blocked_text("read", blank)
        assert failure_text(ErrorClass.SERVER, blank).endswith("the error was server. Go on with the task.")
    assert ": why." in blocked_text("read", "why")
    assert "server: down." in failure_text(ErrorClass.SERVER, "down")
