"""Sound runs of which the laws must say nothing, where what is rare meets: a hook, a failure, a cancel, a fallback."""

from collections.abc import Sequence

import pytest
from attrs import evolve
from loopkernel.data.blocks import TextBlock
from loopkernel.data.choices import HookFailure, OnToolFailure, TruncatedCalls
from loopkernel.data.ids import MessageId
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCompleted, Redaction
from loopkernel.data.policy import Compaction, Retry, Truncation
from loopkernel.data.user_deltas import CancelAll, CompactNow, Correct, EditMessage
from loopkernel.data.words import HookPoint, StopReason, TimerPurpose
from loopkernel.judging import check_pairs, check_trace
from loopkernel.loop.transition import transition
from loopkernel.replaying import StepRecord
from loopkernel.testing.played.player import Player, Script, play
from loopkernel.testing.played.tools import (
    POLICY,
    TOOLS,
    USAGE,
    Call,
    path_of,
    read,
    shell,
    write,
    write_to_result,
)

from tests.kernel.planted.call_runs import call_at
from tests.kernel.planted.hook_runs import hooked


def a_failure_looked_at_is_cancelled(player: Player) -> None:
    """A reply with a call fails; everything is cancelled while a hook is asked about that."""
    player.begin(hooked(HookPoint.AFTER_MODEL, each=1))
    player.say("go")
    player.stream(read("a"), text="I")
    player.fail()
    player.deliver(CancelAll())
    player.settle()


def another_model_is_waited_for_at_a_gate(player: Player) -> None:
    """The model fails for good, and a hook is asked before the request to the next one."""
    player.begin(
        hooked(
            HookPoint.BEFORE_MODEL, each=1, policy=evolve(POLICY, retry=Retry(retries=0), fallback_models=("second",))
        )
    )
    player.say("go")
    player.answer()
    player.fail()
    player.answer()
    player.settle()


def a_failure_comes_before_the_end_of_the_reply(player: Player) -> None:
    """A call that started early fails while the reply goes on, and takes with it those that come after."""
    early = tuple(
        tool if tool.profile is None else evolve(tool, profile=evolve(tool.profile, early=True)) for tool in TOOLS
    )
    player.begin(evolve(POLICY, on_tool_failure=OnToolFailure.CANCEL_SIBLINGS), early)
    player.say("go")
    player.stream(read("a"))
    player.check()
    player.end(fails=True)
    player.stream(write("b"))
    player.check()
    player.complete()
    player.settle()


def a_run_is_late_while_a_hook_is_asked(player: Player) -> None:
    """The time of one run is over while a hook is asked about another call."""
    player.begin(hooked(HookPoint.BEFORE_TOOL, each=1, policy=evolve(POLICY, hook_failure=HookFailure.CLOSED)))
    player.say("go")
    player.reply(read("a"), read("b"))
    player.answer()
    player.expire(TimerPurpose.TOOL_TIMEOUT)
    player.settle()


def a_guardrail_speaks_while_calls_run(player: Player) -> None:
    """The input is replaced with the end of a reply whose call is then answered."""
    player.begin()
    player.say("go")
    player.stream(read("a"))
    if player.model is not None:
        player.deliver(ModelCompleted(player.model, StopReason.TOOL_USE, USAGE, Redaction(user_text="***")))
    player.check()
    player.settle()


def a_reply_is_cut_whose_call_has_ended_behind_it(player: Player) -> None:
    """A call goes on in the background and ends while its reply streams, which stays without it."""
    player.begin(evolve(POLICY, on_truncation=Truncation(escalate_to=(), calls=TruncatedCalls.NOTE)))
    player.say("go")
    player.stream(Call("glance", path_of("a")), text="I")
    player.check()
    player.end(background=True)
    player.end()
    player.complete(StopReason.MAX_TOKENS)
    player.settle()


def an_edit_takes_back_what_has_ended_behind_it(player: Player) -> None:
    """Three runs have ended behind their turns; the second turn, which a compaction has taken out, is edited."""
    player.begin(evolve(POLICY, compaction=Compaction(trigger_ratio=None, keep_turns=1)))
    for _ in range(3):
        player.say("go")
        player.reply(read("a"))
        player.end(len(player.runs) - 1, background=True)
        player.reply(text="so")
    player.deliver(CompactNow())
    player.answer("so far")
    for _ in range(3):
        player.end()
    player.deliver(EditMessage(message=MessageId(5), content=(TextBlock("other"),)))
    player.settle()


def nobody_has_begun(player: Player) -> None:
    """The user speaks before there is a session."""
    player.say("go")
    player.fail()
    player.begin()


def a_correction_names_what_is_not_there(player: Player) -> None:
    """A waiting call is corrected to use the output of another, which waits as well."""
    player.begin()
    player.say("dare")
    player.reply(shell("a"), shell("b"))
    given = write_to_result("p1").input
    if isinstance(given, Json):
        player.deliver(Correct(call=call_at(2), input=given))
    player.check()
    player.settle()


def judged(steps: Sequence[StepRecord]) -> tuple[object, ...]:
    """What the laws say of the run."""
    return (*check_trace(steps).breaches, *check_pairs(steps).breaches)


@pytest.mark.parametrize(
    "script",
    [
        a_failure_looked_at_is_cancelled,
        another_model_is_waited_for_at_a_gate,
        a_failure_comes_before_the_end_of_the_reply,
        a_run_is_late_while_a_hook_is_asked,
        a_guardrail_speaks_while_calls_run,
        a_reply_is_cut_whose_call_has_ended_behind_it,
        an_edit_takes_back_what_has_ended_behind_it,
        nobody_has_begun,
        a_correction_names_what_is_not_there,
    ],
)
def test_a_run_where_rare_things_meet_breaks_no_law(script: Script) -> None:
    steps = play(script, transition)
    assert len(steps) > 2
    assert judged(steps) == ()


def test_a_run_without_steps_breaks_no_law() -> None:
    assert judged(()) == ()
