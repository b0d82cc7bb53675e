"""Ways through the laws that no other test takes: sound runs that lead there, and steps that are tampered with.

They are about calls and edits that are refused, compactions beside which more happens in one step, the shares of
sub-agents, replies that lack their calls, and what hooks give before a turn and before a request.
"""

from collections.abc import Sequence

import pytest
from attrs import evolve
from loopkernel.data.blocks import TextBlock, ToolResult
from loopkernel.data.choices import CompactionMoment, CompactionStrategy
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import AskHook, CallModel, Effect, StartChild
from loopkernel.data.events import (
    EditRefused,
    LimitReached,
    MessageAdded,
    MessageReplaced,
    ThreadCompacted,
    ToolEnded,
    TurnEnded,
)
from loopkernel.data.ids import CallId
from loopkernel.data.messages import SENT_BY_USER, UserMessage
from loopkernel.data.outside_deltas import HookAnswered, HookModify
from loopkernel.data.policy import Compaction
from loopkernel.data.sessions import Session
from loopkernel.data.states import Idle, State, Thinking
from loopkernel.data.tools import Decision, Tool
from loopkernel.data.user_deltas import CompactNow, Enqueue, RetryNow, Steer, Swap
from loopkernel.data.words import (
    CallStatus,
    ErrorClass,
    HookPoint,
    LimitName,
    RefusalReason,
    RequestReason,
    StopReason,
    UserAction,
)
from loopkernel.judging import KERNEL, check_all
from loopkernel.laws.judging import judge_run
from loopkernel.loop.transition import transition
from loopkernel.replaying import StepRecord
from loopkernel.testing.played.player import Player, play
from loopkernel.testing.played.tools import NOTHING, POLICY, SUB_CALL, USAGE, path_of, read, shell

from tests.kernel.laws.tampering import (
    CALL,
    OTHER,
    after,
    instead,
    less,
    more,
    session_in,
    with_session,
)
from tests.kernel.planted.call_runs import call_at
from tests.kernel.planted.child_runs import LIMITED
from tests.kernel.planted.hook_runs import hooked

WINDOW = Compaction(strategy=CompactionStrategy.WINDOW, keep_turns=None, keep_messages=6, trigger_ratio=None)
WINDOWED = evolve(POLICY, clear_results=None, compaction=WINDOW)
CUT_SHORT = "a window is cut, and nothing of it is to go"


def the_effects(step: StepRecord, *kinds: type[Effect]) -> list[type[Effect]]:
    """Which effects of these kinds the step has, in order."""
    return [type(effect) for effect in step.effects if isinstance(effect, kinds)]


def findings(steps: Sequence[StepRecord], law: str) -> list[str]:
    """What this law, which is one of whole runs, says of the run; the others are not asked."""
    return [breach.detail for breach in judge_run(law, steps, KERNEL)]


# --- calls and edits that are refused -------------------------------------------------------------------------------


def an_edit_is_denied(player: Player) -> None:
    """Two waiting calls are swapped, for a tool that is denied and one that is not, and both edits are checked."""
    player.begin()
    player.say("dare")
    player.reply(shell("a"), shell("b"))
    player.deliver(Swap(call=call_at(1), tool="erase", input=NOTHING))
    player.deliver(Swap(call=call_at(2), tool="read", input=path_of("c")))
    player.check()


def allowing(tool: Tool) -> Tool:
    """The tool, allowed if it has a profile."""
    return tool if tool.profile is None else evolve(tool, profile=evolve(tool.profile, approval=Decision.ALLOW))


def with_all_allowed(session: Session) -> Session:
    """The session, in which no tool is denied."""
    tools = tuple(map(allowing, session.settings.tools))
    return evolve(session, settings=evolve(session.settings, tools=tools))


@pytest.mark.rule("ASK-1", "ASK-3")
def test_an_edit_that_is_refused_as_denied_is_denied_by_something() -> None:
    *before, refused, _ = play(an_edit_is_denied, transition)
    assert refused.effects == (EditRefused(call_at(1), UserAction.SWAP, RefusalReason.DENIED),)
    assert findings([*before, refused], "ASKED") == []
    told = findings([*before, with_session(with_all_allowed)(refused)], "ASKED")
    assert told == ["an edit of call 1.1 is refused as denied, and nothing denies it"]


@pytest.mark.rule("ASK-1", "ASK-3")
def test_whether_an_edit_is_denied_is_judged_by_the_verdict_on_it_and_by_no_other() -> None:
    """The edit of the second call is told to be refused with the verdict on the first, and with its own."""
    refuse = more(EditRefused(call_at(2), UserAction.SWAP, RefusalReason.DENIED))
    *before, of_the_first, of_the_second = play(an_edit_is_denied, transition)
    told = findings([*before, refuse(of_the_first)], "ASKED")
    assert told == ["an edit of call 1.2 is refused, and no verdict on it has come"]
    told = findings([*before, of_the_first, refuse(of_the_second)], "ASKED")
    assert told == ["an edit of call 1.2 is refused as denied, and nothing denies it"]


def a_call_starts(player: Player) -> None:
    """A call is checked, and starts."""
    player.begin()
    player.say("go")
    player.reply(read("a"))


def answered_as_refused(call: CallId, step: StepRecord) -> StepRecord:
    """The step with one more answer: that this call was refused."""
    refused = ToolResult(call=call, provider_id="p1", tool="read", status=CallStatus.ERROR)
    return more(ToolEnded(refused))(step)


@pytest.mark.rule("ASK-1", "TOOL-4")
def test_of_a_call_that_is_in_no_ledger_nobody_can_say_whether_it_was_to_be_refused() -> None:
    """The answers are told with the verdict on the one call that there is."""
    *before, checked = play(a_call_starts, transition)
    told = findings([*before, answered_as_refused(CALL, checked)], "ASKED")
    assert told == ["call 1.1 (read) is refused, and nothing denies it"]
    of_no_call = answered_as_refused(OTHER, checked)
    assert findings([*before, of_no_call], "ASKED") == []
    told = findings([*before, of_no_call], "ONE-END")
    assert told == [f"call {OTHER} is told to have ended, and there is no such call"]


# --- compactions beside which more happens --------------------------------------------------------------------------


def two_cuts_in_one_step(player: Player) -> None:
    """A prompt is too long; once it is cut the user's steers go in, and they are more than the window holds."""
    player.begin(WINDOWED)
    player.say("go")
    player.reply(read("a"))
    player.end()
    player.reply(text="I", stop=StopReason.PAUSE)
    for place in range(4):
        player.deliver(Steer(content=(TextBlock(f"left {place}"),)))
    player.fail(ErrorClass.PROMPT_TOO_LONG)


@pytest.mark.rule("INFER-8", "COMPACT-2")
def test_only_the_first_cut_of_a_step_answers_a_prompt_that_is_too_long() -> None:
    """Of the second no more is to go than of any window that is full: it begins at the first of the steers."""
    steps = play(two_cuts_in_one_step, transition)
    (failed,) = (step for step in steps if ThreadCompacted in the_effects(step, ThreadCompacted))
    kinds = the_effects(failed, ThreadCompacted, MessageAdded, CallModel)
    assert kinds == [ThreadCompacted, *[MessageAdded] * 4, ThreadCompacted, CallModel]
    (asked,) = (effect.request for effect in failed.effects if isinstance(effect, CallModel))
    assert asked.reason is RequestReason.REACTIVE_COMPACT_RETRY
    steered = [effect.message for effect in failed.effects if isinstance(effect, MessageAdded)]
    assert [*asked.thread.messages][2:] == steered
    assert check_all(steps).held


def too_long_at_the_limit(player: Player) -> None:
    """A prompt is too long, and its failure uses up the budget."""
    player.begin(evolve(WINDOWED, max_total_tokens=3 * USAGE.total))
    player.say("go")
    for path in "ab":
        player.reply(read(path))
        player.end()
    player.fail(ErrorClass.PROMPT_TOO_LONG)


@pytest.mark.rule("INFER-8", "LIMIT-2")
def test_a_prompt_that_is_too_long_is_cut_for_a_request_that_a_limit_is_in_the_way_of() -> None:
    """More goes than of a window that is not full, though the request is not made."""
    steps = play(too_long_at_the_limit, transition)
    assert the_effects(steps[-1], ThreadCompacted, LimitReached, CallModel) == [ThreadCompacted, LimitReached]
    assert LimitReached(LimitName.TOKENS) in steps[-1].effects
    assert check_all(steps).held
    without_limit = findings([*steps[:-1], less(LimitReached)(steps[-1])], "CUT-SAFE")
    assert CUT_SHORT in without_limit


def too_long_behind_a_gate(player: Player) -> None:
    """A prompt is too long, and a hook is asked before the request that is made again."""
    player.begin(hooked(HookPoint.BEFORE_MODEL, each=1, policy=WINDOWED))
    player.say("go")
    player.answer()
    for path in "ab":
        player.reply(read(path))
        player.end()
        player.answer()
    player.fail(ErrorClass.PROMPT_TOO_LONG)
    player.settle()


def made_for_the_next_round(state: State) -> State:
    """The state, waiting with a request that is made for another reason."""
    assert isinstance(state, Thinking)
    return evolve(state, turn=evolve(state.turn, reason=RequestReason.NEXT_TURN))


@pytest.mark.rule("INFER-8", "HOOK-1")
def test_a_prompt_that_is_too_long_is_cut_for_a_request_that_waits_for_a_hook() -> None:
    """More goes than of a window that is not full, and the state says what the request is made for."""
    steps = play(too_long_behind_a_gate, transition)
    assert check_all(steps).held
    (place,) = (place for place, step in enumerate(steps) if the_effects(step, ThreadCompacted))
    assert the_effects(steps[place], ThreadCompacted, AskHook, CallModel) == [ThreadCompacted, AskHook]
    assert isinstance(steps[place].after, Thinking)
    for_another = findings([*steps[:place], after(made_for_the_next_round)(steps[place])], "CUT-SAFE")
    assert CUT_SHORT in for_another


def a_turn_ends_and_the_next_begins(player: Player) -> None:
    """A turn ends with as many messages as its window holds, and what is queued opens the next with one more."""
    at_end = evolve(WINDOW, when=CompactionMoment.TURN_END, keep_messages=2)
    player.begin(evolve(WINDOWED, compaction=at_end))
    player.say("go")
    player.deliver(Enqueue(content=(TextBlock("next"),)))
    player.reply(text="I")
    player.reply(text="I")


@pytest.mark.rule("COMPACT-1")
def test_what_follows_the_end_of_a_turn_is_not_counted_where_a_compaction_at_its_end_is_judged() -> None:
    steps = play(a_turn_ends_and_the_next_begins, transition)
    ended, ended_too_long = (step for step in steps if the_effects(step, TurnEnded))
    kinds = (TurnEnded, MessageAdded, ThreadCompacted)
    assert the_effects(ended, *kinds) == [MessageAdded, TurnEnded, MessageAdded]
    assert the_effects(ended_too_long, *kinds) == [MessageAdded, ThreadCompacted, TurnEnded]
    assert findings(steps, "CUT-SAFE") == []


# --- replies that lack their calls, and sub-agents ------------------------------------------------------------------


def calls_are_missing_twice(player: Player) -> None:
    """Two replies in a row stop for calls that they do not have, and both are asked again."""
    player.begin(evolve(POLICY, missing_call_retries=2))
    player.say("go")
    for _ in range(2):
        player.reply(text="I", stop=StopReason.TOOL_USE)


def asked_again_once(session: Session) -> Session:
    """The session, whose policy has a reply that lacks its calls asked again once."""
    policy = evolve(session.settings.policy, missing_call_retries=1)
    return evolve(session, settings=evolve(session.settings, policy=policy))


@pytest.mark.rule("INFER-13")
def test_a_reply_that_lacks_its_calls_is_asked_again_so_often_and_no_more() -> None:
    *before, again = play(calls_are_missing_twice, transition)
    asked = [effect.request.reason for effect in again.effects if isinstance(effect, CallModel)]
    assert asked == [RequestReason.MISSING_CALLS]
    assert findings([*before, again], "PROGRESS") == []
    told = findings([*before, with_session(asked_again_once)(again)], "PROGRESS")
    assert told == ["reply 2 lacks its calls once too often, and is asked again"]


def two_sub_agents_begin(player: Player) -> None:
    """Two sub-agents begin, one with each verdict, and share what is left."""
    player.begin(LIMITED)
    player.say("go")
    player.reply(SUB_CALL, SUB_CALL)


def given_one_token(effect: Effect) -> Effect:
    """A sub-agent is given one token."""
    if not isinstance(effect, StartChild):
        return effect
    return evolve(effect, created=evolve(effect.created, policy=evolve(effect.created.policy, max_total_tokens=1)))


@pytest.mark.rule("LIMIT-2", "CHILD-1")
def test_a_sub_agent_that_begins_where_no_reply_is_open_is_given_all_that_is_left() -> None:
    """Where there is no ledger there is no other call to share with."""
    *before, begins, _ = play(two_sub_agents_begin, transition)
    begins = instead(given_one_token)(begins)
    given = "the sub-agent of call 1.1 is given 1 of the 288 tokens that are left for"
    assert findings([*before, begins], "BUDGET") == [f"{given} 2"]
    without_ledger = after(lambda state: Idle(session=session_in(state), stamp=state.stamp))(begins)
    assert f"{given} 1" in findings([*before, without_ledger], "BUDGET")


# --- what hooks give ------------------------------------------------------------------------------------------------


def a_hook_gives_a_message(player: Player) -> None:
    """The hook before a request gives a message."""
    player.begin(hooked(HookPoint.BEFORE_MODEL, each=1))
    player.say("go")
    player.answer(HookModify(message="mind the gap"))


@pytest.mark.rule("HOOK-2")
def test_a_message_that_a_hook_gives_before_a_request_goes_into_the_thread() -> None:
    *before, answered = play(a_hook_gives_a_message, transition)
    assert the_effects(answered, MessageAdded, CallModel) == [MessageAdded, CallModel]
    assert findings([*before, answered], "PROGRESS") == []
    told = findings([*before, less(MessageAdded)(answered)], "PROGRESS")
    assert told == ["a hook at before_model gives a message, and it is not in the thread"]


def reworded_beyond_a_cut(player: Player) -> None:
    """A turn fails, a summary takes out what the user said, and the hook before the next try gives it other words."""
    summarised = Compaction(trigger_ratio=None, keep_turns=None, keep_messages=2)
    policy = evolve(POLICY, clear_results=None, compaction=summarised)
    player.begin(hooked(HookPoint.BEFORE_INVOCATION, each=1, policy=policy))
    player.say("go")
    player.answer()
    player.reply(read("a"))
    player.end()
    player.fail(ErrorClass.AUTH)
    player.deliver(CompactNow())
    player.answer("so far")
    player.deliver(RetryNow())
    player.answer(HookModify(message="other words"))


def gives_other_words(delta: Delta) -> bool:
    """Whether a hook answers with other words."""
    return isinstance(delta, HookAnswered) and isinstance(delta.answer, HookModify)


@pytest.mark.rule("HOOK-2", "COMPACT-2")
def test_a_hook_gives_other_words_for_a_message_that_a_compaction_has_taken_out() -> None:
    steps = play(reworded_beyond_a_cut, transition)
    assert check_all(steps).held
    modified = [step for step in steps if gives_other_words(step.context.delta)]
    assert len(modified) == 1
    messages = session_in(modified[0].before).thread.messages
    assert not any(isinstance(message, UserMessage) and message.origin in SENT_BY_USER for message in messages)
    assert the_effects(modified[0], MessageReplaced, CallModel) == [CallModel]
