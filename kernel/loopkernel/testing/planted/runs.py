"""Runs played by hand that show the planted bugs: small, deterministic, and played against any transition."""

from collections.abc import Mapping
from types import MappingProxyType

from loopkernel.data.blocks import TextBlock
from loopkernel.data.ids import (
    ModelOperation,
    RunOperation,
    TimerOperation,
)
from loopkernel.data.model_deltas import (
    ModelCompleted,
    ModelReasoning,
    ModelStarted,
    ModelText,
    ModelUsage,
)
from loopkernel.data.outside_deltas import TimerFired
from loopkernel.data.thread_deltas import Acquired
from loopkernel.data.tool_deltas import ToolProgress, ToolStopped, ToolSucceeded
from loopkernel.data.usage import Usage
from loopkernel.data.user_deltas import (
    CancelAll,
    Enqueue,
    RetryNow,
)
from loopkernel.data.words import StopReason
from loopkernel.testing.played.player import (
    Player,
    Script,
)
from loopkernel.testing.played.tools import (
    ALONE_CALL,
    BARE_CALL,
    INVALID,
    TO_ASK,
    TO_DENY,
    UNKNOWN,
    UNPARSED,
    USAGE,
    read,
    write,
)


def reads(player: Player) -> None:
    """Three calls at once, answered in another order than they were made; one answer comes twice."""
    player.begin()
    player.say("read three")
    player.reply(read("a"), read("b"), read("c"), text="reading")
    player.deliver(ToolProgress(RunOperation(1), "half"))
    player.end(2)
    player.end(1)
    player.deliver(ToolSucceeded(RunOperation(3)))
    player.end(0)
    player.reply(read("d"))
    player.settle()


def conflicts(player: Player) -> None:
    """Calls that must not overlap: of tools without a profile, of writers of one file, of a serial tool."""
    player.begin()
    player.say("one after the other")
    player.reply(BARE_CALL, BARE_CALL, read("a"))
    player.end()
    player.end()
    player.end()
    player.reply(write("a"), read("a/b"), read("c"), write("a"))
    for _ in range(4):
        player.end()
    player.reply(read("a"), ALONE_CALL, read("b"))
    player.settle()


def forbidden(player: Player) -> None:
    """Calls that may not run: one to ask a person about, one denied, one invalid, one unknown."""
    player.begin()
    player.say("dare")
    player.reply(TO_ASK, TO_DENY, INVALID, UNPARSED, UNKNOWN, read("a"))
    player.settle()


def cancelled(player: Player) -> None:
    """Everything is cancelled, first amid calls, then amid a reply; queued input waits until the user goes on."""
    player.begin()
    player.say("go")
    player.reply(read("a"), write("b"), write("b"))
    player.deliver(Enqueue(content=(TextBlock("later"),)))
    player.deliver(CancelAll())
    player.deliver(ToolStopped(RunOperation(1)))
    player.deliver(ToolSucceeded(RunOperation(2)))
    player.deliver(CancelAll())
    player.say("go on")
    player.stream(read("a"), text="well")
    player.deliver(CancelAll())
    player.deliver(ModelCompleted(ModelOperation(2), StopReason.END_TURN, USAGE))
    player.deliver(RetryNow())
    player.settle()


def talk(player: Player) -> None:
    """Two turns of words alone, with a clock that goes back, a late report and a timer of nobody."""
    player.deliver(Acquired())
    player.begin()
    player.say("hello", key="k")
    player.say("hello", key="k")
    player.deliver(ModelStarted(ModelOperation(1), "m"))
    player.deliver(ModelReasoning(ModelOperation(1), "hm"))
    player.deliver(ModelUsage(ModelOperation(1), Usage(input=4)))
    player.reply(text="hi")
    player.deliver(ModelText(ModelOperation(1), "late"), earlier_ms=5)
    player.say("again")
    player.deliver(TimerFired(TimerOperation(1)))
    player.deliver(ModelText(ModelOperation(2), "y"), earlier_ms=50)
    player.reply(text="yes")
    player.settle()


SCRIPTS: Mapping[str, Script] = MappingProxyType(
    {script.__name__: script for script in (talk, reads, conflicts, forbidden, cancelled)}
)
