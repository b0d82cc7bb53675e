"""Scripted runs for judging laws: small, deterministic, and played against any transition, a broken one too."""

from collections.abc import Mapping
from types import MappingProxyType

from attrs import evolve
from loopkernel.data.blocks import OpaqueBlock, TextBlock
from loopkernel.data.choices import EarlyStart, Lifetime, NoProfile, OnBusy, RunCalls, Schedule, TurnLimitCounts
from loopkernel.data.foreign import ForeignCall, ForeignReply, ForeignResult, ForeignResults, ForeignUser
from loopkernel.data.ids import (
    CallId,
    ModelOperation,
    QueueNumber,
    RunOperation,
)
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import (
    ModelOpaque,
    ModelUsage,
)
from loopkernel.data.policy import Policy
from loopkernel.data.thread_deltas import Disposed, Resumed
from loopkernel.data.tool_deltas import ToolSucceeded
from loopkernel.data.usage import Usage
from loopkernel.data.user_deltas import (
    CancelCall,
    ChangePolicy,
    Discard,
    DismissError,
    Enqueue,
    RetryNow,
    Steer,
)
from loopkernel.data.words import CallStatus, ErrorClass, StopReason
from loopkernel.testing.planted.runs import SCRIPTS as SHIPPED
from loopkernel.testing.played.player import (
    Player,
    Script,
)
from loopkernel.testing.played.tools import (
    NOTHING,
    POLICY,
    read,
)

from tests.kernel.planted.call_runs import CALL_SCRIPTS
from tests.kernel.planted.child_runs import CHILD_SCRIPTS
from tests.kernel.planted.compaction_runs import COMPACTION_SCRIPTS
from tests.kernel.planted.endurance_runs import ENDURANCE_SCRIPTS
from tests.kernel.planted.hook_runs import HOOK_SCRIPTS
from tests.kernel.planted.limit_runs import LIMIT_SCRIPTS


def slots(player: Player) -> None:
    """More calls than slots."""
    player.begin(Policy(max_parallel=2, early_start=EarlyStart.NEVER))
    player.say("four")
    player.reply(read("a"), read("b"), read("c"), read("d"))
    player.end(1)
    player.settle()


def in_order(player: Player) -> None:
    """The serial schedule."""
    player.begin(Policy(schedule=Schedule.SERIAL, no_profile=NoProfile.NO_CONFLICT))
    player.say("two")
    player.reply(read("a"), read("b"))
    player.settle()


def failing(player: Player) -> None:
    """One of three runs fails while one is done and one still runs; then a reply fails, and is asked for again."""
    player.begin()
    player.say("try")
    player.reply(read("a"), read("b"), read("c"))
    player.end(0)
    player.end(0, fails=True)
    player.end(0)
    player.stream(text="I")
    player.fail()
    player.deliver(DismissError())
    player.deliver(RetryNow())
    player.fail(ErrorClass.AUTH)
    player.deliver(RetryNow())
    player.settle()


def one_cancelled(player: Player) -> None:
    """One call of two is cancelled while it runs; another while its reply streams, which a restart then drops."""
    player.begin()
    player.say("go")
    player.reply(read("a"), read("b"))
    player.deliver(CancelCall(CallId(ModelOperation(1), 1)))
    player.deliver(CancelCall(CallId(ModelOperation(1), 1)))
    player.settle()
    player.say("next")
    player.stream(read("a"))
    player.deliver(CancelCall(CallId(ModelOperation(2), 1)))
    player.deliver(Resumed())
    player.settle()


def limited(player: Player) -> None:
    """The turn limit stops the loop after two replies."""
    player.begin(Policy(max_turns=2))
    player.say("on and on")
    for _ in range(3):
        player.reply(read("a"))
        player.end()
    player.settle()


def empty(player: Player) -> None:
    """A model that says nothing, and one that pauses without end."""
    player.begin()
    player.say("speak")
    for _ in range(3):
        player.reply()
    player.settle()
    player.say("pause")
    for _ in range(12):
        player.reply(text="...", stop=StopReason.PAUSE)
    player.settle()


def waiting(player: Player) -> None:
    """Input while the loop is busy: queued, steered, discarded; the queue goes on by itself after a natural end."""
    player.begin()
    player.say("first")
    for word in ("second", "third", "fourth"):
        player.deliver(Enqueue(content=(TextBlock(word),), key=word))
    player.deliver(Steer(content=(TextBlock("this way"),)))
    player.deliver(Discard(QueueNumber(2)))
    player.deliver(Discard(QueueNumber(2)))
    player.reply(read("a"))
    player.end()
    player.reply(text="one")
    player.deliver(Steer(content=(TextBlock("that way"),)))
    player.fail()
    player.deliver(Enqueue(content=(TextBlock("fifth"),)))
    player.settle()


def task(player: Player) -> None:
    """A task ends after its turn; what was queued is handed back, and nothing moves it any more."""
    player.begin(Policy(lifetime=Lifetime.TASK, run_calls=RunCalls.STOP_REASON))
    player.say("do it")
    player.deliver(Enqueue(content=(TextBlock("and then"),)))
    player.reply(read("a"), text="no", stop=StopReason.END_TURN)
    player.say("more")
    player.deliver(ModelUsage(ModelOperation(1), Usage(input=99)))
    player.settle()


def released(player: Player) -> None:
    """The session is let go amid a run and taken up again."""
    player.begin()
    player.say("go")
    player.reply(read("a"), read("b"))
    player.end()
    player.deliver(Disposed())
    player.say("anyone?")
    player.deliver(ToolSucceeded(RunOperation(2)))
    player.deliver(Resumed())
    player.say("again")
    player.settle()


def other_model(player: Player) -> None:
    """A model leaves an opaque block, and another one is asked next."""
    player.begin()
    player.say("think")
    if player.model is not None:
        player.deliver(ModelOpaque(player.model, Json.of({"signed": True})))
    player.reply(read("a"), text="so")
    player.end()
    player.deliver(ChangePolicy(evolve(POLICY, model="other")))
    player.reply(text="done")
    player.say("and you?")
    player.settle()


def unfinished(player: Player) -> None:
    """Replies that end neither by themselves nor with calls that run: refused, filtered, cut at the limit."""
    player.begin()
    for stop in (StopReason.REFUSAL, StopReason.CONTENT_FILTERED, StopReason.MAX_TOKENS):
        player.say("go")
        player.reply(read("a"), text="I", stop=stop)
    player.settle()


def interrupted(player: Player) -> None:
    """New words stop what is under way and start a turn of their own; replies without calls do not count."""
    player.begin(Policy(on_busy=OnBusy.INTERRUPT, turn_limit_counts=TurnLimitCounts.TOOL_REPLIES, max_turns=1))
    player.say("go")
    player.reply(read("a"))
    player.say("stop, go there")
    player.stream(text="going")
    player.say("no, here")
    player.reply()
    player.settle()


def imported(player: Player) -> None:
    """A conversation from elsewhere, broken in several ways, is gone on with."""
    told = ForeignResult(provider_id="p1", status=CallStatus.DONE, content=(TextBlock("found"),))
    calls = tuple(ForeignCall(provider_id=name, tool="read", input=NOTHING) for name in ("p1", "p2", "p1"))
    player.begin(
        start=(
            ForeignResults((told,)),
            ForeignUser((TextBlock("look"),)),
            ForeignReply(content=(TextBlock("looking"), *calls), model="elsewhere"),
            ForeignUser((TextBlock(" "),)),
            ForeignResults((told, evolve(told, provider_id="nobody"))),
            ForeignReply(content=(OpaqueBlock("elsewhere", NOTHING), TextBlock("well")), model="elsewhere"),
        )
    )
    player.say("go on")
    player.reply(read("a"))
    player.settle()


SCRIPTS: Mapping[str, Script] = MappingProxyType(
    dict(SHIPPED)
    | dict(CALL_SCRIPTS)
    | dict(ENDURANCE_SCRIPTS)
    | dict(LIMIT_SCRIPTS)
    | dict(HOOK_SCRIPTS)
    | dict(COMPACTION_SCRIPTS)
    | dict(CHILD_SCRIPTS)
    | {
        script.__name__: script
        for script in (
            slots,
            in_order,
            failing,
            one_cancelled,
            limited,
            empty,
            waiting,
            task,
            released,
            other_model,
            unfinished,
            interrupted,
            imported,
        )
    }
)
