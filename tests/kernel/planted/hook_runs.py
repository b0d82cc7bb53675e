"""Scripted runs with hooks and corrections: each point, each answer, late ones, cancels and restarts meanwhile."""

from collections.abc import Mapping
from types import MappingProxyType

from attrs import evolve
from loopkernel.data.blocks import TextBlock
from loopkernel.data.choices import HookFailure, OnToolFailure
from loopkernel.data.outside_deltas import HookBlock, HookFault, HookModify, HookRetry
from loopkernel.data.policy import CourseCorrection, Hook, Policy
from loopkernel.data.thread_deltas import Forked
from loopkernel.data.user_deltas import CancelAll, Enqueue, Steer
from loopkernel.data.words import ErrorClass, HookPoint, TimerPurpose
from loopkernel.testing.played.player import Player, Script
from loopkernel.testing.played.tools import POLICY, TO_ASK, path_of, read, shell, write

NO = HookBlock("no")
AGAIN = HookRetry()


def hooked(*points: HookPoint, each: int = 2, policy: Policy = POLICY) -> Policy:
    """The policy, with so many gated hooks at each of these points, and one that observes behind them."""
    hooks: list[Hook] = []
    for point in points:
        hooks.extend(Hook(point=point, name=f"{point.value} {number}", gated=True) for number in range(1, each + 1))
        hooks.append(Hook(point=point, name=f"{point.value} watch"))
    return evolve(policy, hooks=(*policy.hooks, *hooks))


def _answers(player: Player, count: int) -> None:
    """So many hooks let go on."""
    for _ in range(count):
        player.answer()


AROUND_TURNS = (HookPoint.BEFORE_INVOCATION, HookPoint.BEFORE_MODEL, HookPoint.AFTER_MODEL, HookPoint.AFTER_INVOCATION)
WATCHING = Hook(point=HookPoint.MESSAGE_ADDED, name="messages")


def gates_of_turns(player: Player) -> None:
    """Two rounds and two turns, through all gates; a hook gives a message; the process dies while one is asked."""
    player.begin(hooked(*AROUND_TURNS, policy=evolve(POLICY, hooks=(WATCHING,))))
    player.say("go")
    player.answer()
    player.answer(HookModify(message="mind the gap"))
    player.answer()
    player.crash()
    _answers(player, 2)
    player.reply(read("a"), text="I")
    _answers(player, 2)
    player.check()
    player.end()
    player.settle()
    player.say("again")
    player.settle()


def blocked_turns(player: Player) -> None:
    """A block before the turn, one before a request, one after a reply with calls, and one after a failure."""
    player.begin(hooked(*AROUND_TURNS, each=1))
    player.say("go")
    player.answer(NO)
    player.settle()
    player.say("on")
    player.answer()
    player.answer(NO)
    player.settle()
    player.say("so")
    _answers(player, 2)
    player.reply(read("a"), text="I")
    player.answer(NO)
    player.settle()
    player.say("well")
    _answers(player, 2)
    player.fail()
    player.answer(NO)
    player.settle()


def repeated_replies(player: Player) -> None:
    """A hook has replies repeated as often as it may, and once more; then a failure; another is too slow."""
    player.begin(hooked(HookPoint.AFTER_MODEL, each=1, policy=evolve(POLICY, hook_failure=HookFailure.CLOSED)))
    player.say("go")
    for _ in range(4):
        player.reply(text="I")
        player.answer(AGAIN)
    player.settle()
    player.say("on")
    player.fail()
    player.answer(AGAIN)
    player.reply(read("a"))
    player.answer()
    player.check()
    player.end()
    player.fail(ErrorClass.AUTH)
    player.answer()
    player.say("so")
    player.reply(text="I")
    player.expire(TimerPurpose.HOOK_TIMEOUT)
    player.settle()


def stop_hooks(player: Player) -> None:
    """Two stop hooks block more often than is honoured; one is too slow; a steer and a queued input come meanwhile."""
    policy = evolve(hooked(HookPoint.STOP, each=2), stop_hook_limit=2, hook_failure=HookFailure.CLOSED)
    player.begin(policy)
    player.say("go")
    for _ in range(3):
        player.reply(text="I")
        player.answer(NO)
    player.settle()
    player.say("on")
    player.reply(text="I")
    player.deliver(Steer(content=(TextBlock("left"),)))
    player.answer()
    player.reply(text="I")
    player.expire(TimerPurpose.HOOK_TIMEOUT)
    player.deliver(Enqueue(content=(TextBlock("next"),)))
    player.answer()
    player.reply(text="I")
    player.settle()


def stop_hooks_at_the_limit(player: Player) -> None:
    """A stop hook wants one reply more than the limit allows, while an input is queued."""
    player.begin(evolve(hooked(HookPoint.STOP, HookPoint.AFTER_INVOCATION, each=1), max_turns=2))
    player.say("go")
    player.reply(text="I")
    player.answer(NO)
    player.reply(text="I")
    player.deliver(Enqueue(content=(TextBlock("next"),)))
    player.answer(NO)
    player.settle()


def hooks_before_calls(player: Player) -> None:
    """Calls with hooks before them, some of which conflict: let go, blocked, changed and asked about, too slow."""
    player.begin(hooked(HookPoint.BEFORE_TOOL))
    player.say("go")
    player.reply(read("a"), read("b"), write("a"), shell("c"))
    _answers(player, 2)
    player.answer(NO)
    _answers(player, 2)
    player.answer(HookModify(input=path_of("d")))
    player.check()
    player.answer(HookFault("broken"))
    player.end()
    player.expire(TimerPurpose.HOOK_TIMEOUT)
    player.settle()
    player.say("on")
    player.reply(TO_ASK, write("e"), read("f"))
    player.answer(HookModify(input=path_of("x")))
    player.check()
    player.crash()
    player.check()
    _answers(player, 2)
    player.settle()


def hooks_closed(player: Player) -> None:
    """Hooks that fail count as a block: one before a call, and one after; others fail the siblings too."""
    policy = evolve(POLICY, hook_failure=HookFailure.CLOSED, on_tool_failure=OnToolFailure.CANCEL_SIBLINGS)
    player.begin(hooked(HookPoint.BEFORE_TOOL, HookPoint.AFTER_TOOL, each=1, policy=policy))
    player.say("go")
    player.reply(read("a"), read("b"), read("c"), read("d"))
    player.answer(HookFault("broken"))
    _answers(player, 3)
    player.end(1)
    player.answer()
    player.end(fails=True)
    player.answer()
    player.settle()


def hooks_after_calls(player: Player) -> None:
    """Runs that hooks look at: let go, told otherwise, blocked, repeated, but for a dangerous one; a call waits."""
    player.begin(hooked(HookPoint.AFTER_TOOL))
    player.say("go")
    player.reply(write("a"), read("a"), read("b"), shell("c"))
    player.end()
    player.answer()
    player.crash()
    player.answer(HookModify(result="told otherwise"))
    player.answer()
    player.settle()
    player.say("on")
    player.reply(read("a"), read("b"), shell("c"))
    for call in tuple(player.asked):
        player.approve(call)
    for _ in range(5):
        player.end()
        player.answer(AGAIN)
    player.settle()
    player.say("so")
    player.reply(read("a"), read("b"))
    player.end()
    player.end()
    player.answer(NO)
    player.settle()
    player.say("more")
    player.reply(read("a"))
    for _ in range(4):
        player.end()
        player.answer(AGAIN)
    player.settle()


def hooks_cut_short(player: Player) -> None:
    """All is cancelled while hooks are asked about calls; then before the model; a fork does the same."""
    player.begin(hooked(HookPoint.BEFORE_TOOL, HookPoint.AFTER_TOOL, HookPoint.BEFORE_MODEL, each=1))
    player.say("go")
    player.answer()
    player.reply(read("a"), read("b"), write("c"))
    _answers(player, 2)
    player.end()
    player.deliver(CancelAll())
    player.stop()
    player.say("on")
    player.deliver(CancelAll())
    player.say("so")
    player.answer()
    player.reply(read("a"), read("b"))
    player.answer()
    player.deliver(Forked(session_id="second"))
    player.others.clear()
    player.runs.clear()
    player.say("well")
    player.settle()


def corrected(player: Player) -> None:
    """Corrections: one goes in, for one the user speaks first, one is billed late, one says nothing; then a fork."""
    player.begin(evolve(POLICY, course_correction=CourseCorrection(after_calls=1, after_writes=1)))
    player.say("go")
    player.reply(write("a"), read("b"))
    player.end()
    player.end()
    player.reply(text="I")
    player.crash()
    player.answer("not so")
    player.reply(write("a"))
    player.end()
    player.reply(text="I")
    player.say("on")
    player.reply(write("a"))
    player.end()
    player.reply(text="I")
    player.deliver(Steer(content=(TextBlock("left"),)))
    player.answer("not so")
    player.reply(write("a"))
    player.end()
    player.reply(text="I")
    asked = dict(player.others)
    player.deliver(CancelAll())
    for _ in range(2):
        player.others = dict(asked)
        player.answer("late")
    player.say("well")
    player.settle()
    player.say("so")
    player.reply(write("a"))
    player.end()
    player.settle()
    player.say("more")
    player.reply(write("a"))
    player.end()
    player.reply(text="I")
    player.deliver(Forked(session_id="second"))
    player.others.clear()
    player.settle()


HOOK_SCRIPTS: Mapping[str, Script] = MappingProxyType(
    {
        script.__name__: script
        for script in (
            gates_of_turns,
            blocked_turns,
            repeated_replies,
            stop_hooks,
            stop_hooks_at_the_limit,
            hooks_before_calls,
            hooks_closed,
            hooks_after_calls,
            hooks_cut_short,
            corrected,
        )
    }
)
