"""Scripted runs with sub-agents: natural and other ends, questions, time, budgets, cancels, crashes and forks."""

from collections.abc import Mapping
from types import MappingProxyType

from attrs import evolve
from loopkernel.data.choices import OnToolFailure
from loopkernel.data.outside_deltas import ChildAsks, ChildProgress, HookBlock
from loopkernel.data.policy import ChildLimits, Hook, Prices
from loopkernel.data.thread_deltas import Disposed, Forked, Resumed
from loopkernel.data.user_deltas import CancelAll, CancelCall, ChangePolicy
from loopkernel.data.words import HookPoint, TimerPurpose, TurnEndReason
from loopkernel.testing.played.player import Player, Script
from loopkernel.testing.played.tools import POLICY, SUB, SUB_CALL, TO_ASK, TOOLS, USAGE, read, write

TIMED = evolve(POLICY, child=ChildLimits(timeout_ms=500))
LIMITED = evolve(
    POLICY, max_total_tokens=300, max_tool_calls=9, max_cost_usd=0.01, prices=Prices(input=1.0, output=10.0)
)


def delegated(player: Player) -> None:
    """Two sub-agents beside a call and an approval: one asks and ends, the other ends with an error; then a third."""
    player.begin(TIMED)
    player.say("go")
    player.reply(SUB_CALL, read("a"), SUB_CALL, TO_ASK)
    operation = next(iter(player.children), None)
    if operation is not None:
        player.deliver(ChildProgress(operation, "so far"))
    player.child_asks(1)
    player.end()
    player.child_asks(1, 2)
    player.child_ends(TurnEndReason.MAX_TURNS, place=1)
    player.child_asks()
    player.child_ends()
    player.settle()
    player.say("on")
    player.reply(SUB_CALL)
    player.child_asks(1)
    player.settle()


def out_of_time(player: Player) -> None:
    """A sub-agent has no more time, and reports late; the turn has less left than another may take."""
    player.begin(evolve(TIMED, max_wall_ms=1_000))
    player.say("go")
    player.reply(SUB_CALL, SUB_CALL)
    player.child_asks(1)
    player.child_asks()
    player.expire(TimerPurpose.CHILD_TIMEOUT)
    player.stop(child=True)
    player.child_ends()
    player.reply(SUB_CALL)
    player.child_ends()
    player.settle()


def shared(player: Player) -> None:
    """What is left of the budgets is shared; one sub-agent ends within its share, the last calls find nothing left."""
    player.begin(LIMITED)
    player.say("go")
    player.reply(SUB_CALL, SUB_CALL, text="I")
    player.child_ends(calls=2)
    player.child_ends(calls=2)
    player.reply(read("a"), SUB_CALL)
    player.end()
    player.child_ends(calls=2)
    player.reply(read("b"), read("c"))
    player.settle()


def reserved(player: Player) -> None:
    """All that is left is reserved, so that other calls wait: tool calls, tokens, money; then there is enough."""
    early = tuple(
        evolve(tool, profile=evolve(tool.profile, early=True)) if tool == SUB and tool.profile else tool
        for tool in TOOLS
    )
    policy = evolve(POLICY, max_tool_calls=4)
    player.begin(policy, early)
    player.say("go")
    player.reply(SUB_CALL, read("a"), read("b"), text="I")
    player.child_ends()
    player.settle()
    player.deliver(ChangePolicy(evolve(POLICY, max_total_tokens=USAGE.total * 4 + 1)))
    player.say("on")
    player.reply(SUB_CALL, SUB_CALL, read("b"))
    player.child_ends()
    player.settle()
    player.deliver(ChangePolicy(evolve(POLICY, max_cost_usd=1.0, prices=LIMITED.prices)))
    player.say("so")
    for _ in range(2):
        player.stream(SUB_CALL)
        player.check()
    player.complete()
    player.settle()
    player.deliver(ChangePolicy(evolve(POLICY, max_tool_calls=40)))
    player.say("well")
    player.reply(SUB_CALL, read("a"), SUB_CALL, read("b"))
    player.settle()


def children_cancelled(player: Player) -> None:
    """One call is cancelled, then all; the sub-agents stop, or report late, once and again; then a disposal."""
    player.begin(TIMED)
    player.say("go")
    player.reply(SUB_CALL, SUB_CALL, SUB_CALL, write("a"))
    call = next(iter(player.children.values()), None)
    if call is not None:
        player.deliver(CancelCall(call=call))
    player.child_asks(1)
    player.deliver(CancelAll())
    aborted = list(player.aborted)
    player.stop(child=True)
    player.aborted = aborted
    player.stop(child=True)
    player.stop()
    player.stop(child=True)
    player.stop()
    player.say("on")
    player.reply(SUB_CALL, TO_ASK)
    player.deliver(Disposed())
    player.stop()
    player.timers.clear()
    player.deliver(Resumed())
    player.settle()


def children_resumed(player: Player) -> None:
    """The process dies with one sub-agent under way, one that asks and one that hooks look at; a fork follows."""
    hook = Hook(point=HookPoint.AFTER_TOOL, name="after", gated=True)
    player.begin(evolve(TIMED, hooks=(hook,)))
    player.say("go")
    player.reply(SUB_CALL, SUB_CALL, SUB_CALL)
    player.child_asks(1)
    player.child_ends(place=1)
    player.crash()
    for operation in tuple(player.children):
        player.deliver(ChildAsks(operation))
    player.child_ends()
    player.answer()
    player.answer(HookBlock("no"))
    player.settle()
    player.say("on")
    player.reply(SUB_CALL)
    player.deliver(Forked(session_id="second"))
    player.children.clear()
    player.say("so")
    player.settle()


def children_fail(player: Player) -> None:
    """A sub-agent that ends with an error cancels its siblings, by policy."""
    player.begin(evolve(TIMED, on_tool_failure=OnToolFailure.CANCEL_SIBLINGS))
    player.say("go")
    player.reply(SUB_CALL, SUB_CALL, read("a"))
    player.child_ends(TurnEndReason.ERROR)
    player.stop()
    player.stop()
    player.settle()


CHILD_SCRIPTS: Mapping[str, Script] = MappingProxyType(
    {
        script.__name__: script
        for script in (
            delegated,
            out_of_time,
            shared,
            reserved,
            children_cancelled,
            children_resumed,
            children_fail,
        )
    }
)
