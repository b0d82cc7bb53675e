"""The scopes of the explorer with hooks, course corrections, compactions, sub-agents and handoffs."""

from attrs import evolve
from loopkernel.data.choices import HookFailure, OnBusy
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCompleted
from loopkernel.data.outside_deltas import HookBlock, HookContinue, HookModify, HookRetry
from loopkernel.data.policy import Compaction, CourseCorrection, Hook
from loopkernel.data.usage import Usage
from loopkernel.data.user_deltas import CompactNow, StartHandoff
from loopkernel.data.words import HookPoint, StopReason
from loopkernel.testing.explorer.scope import ANY_REPLY, EndOfRun, OfferedCall, Scope

from tests.kernel.explore_world import ONE_TURN, Case, plain


def gated(*points: HookPoint) -> tuple[Hook, ...]:
    """A hook at each point, for whose answer the loop waits."""
    return tuple(Hook(point=point, name="h", gated=True) for point in points)


TOOL_HOOKS = Case(
    name="hooks around calls",
    policy=plain(
        hooks=gated(HookPoint.BEFORE_TOOL, HookPoint.AFTER_TOOL),
        hook_failure=HookFailure.CLOSED,
        queue_limit=0,
        on_busy=OnBusy.REJECT,
    ),
    scope=evolve(
        ONE_TURN,
        offers=((OfferedCall(tool="wa"),), (OfferedCall(tool="qwa"),)),
        ends=(EndOfRun.RETURNS,),
        hook_answers=(HookContinue(), HookBlock("a"), HookRetry(), HookModify(Json.of({"path": "b"}), "b")),
        cancels=1,
        crashes=True,
        strays=False,
    ),
    goals=(
        "a hook is asked about a call",
        "a hook is asked about the end of a run",
        "a hook blocks a call",
        "a hook changes an input",
        "a hook changes a result",
        "a hook has a run repeated",
        "a hook is stopped by a cancel",
        "a hook is asked again after a restart",
        "a call waits for the hook of another",
    ),
)
TURN_HOOKS = Case(
    name="hooks around requests and turns",
    policy=plain(
        hooks=gated(
            HookPoint.BEFORE_INVOCATION,
            HookPoint.BEFORE_MODEL,
            HookPoint.AFTER_MODEL,
            HookPoint.STOP,
            HookPoint.AFTER_INVOCATION,
        ),
        stop_hook_limit=1,
        queue_limit=1,
        max_turns=2,
        empty_reply_nudges=0,
        hook_timeout_ms=5,
    ),
    scope=Scope(
        calls=0,
        rounds=0,
        turns=2,
        waiting=1,
        texts=False,
        failures=(),
        hook_answers=(HookContinue(), HookBlock("a"), HookRetry()),
        crashes=True,
        strays=False,
    ),
    goals=(
        "a hook ends the turn",
        "a stop hook keeps the turn going",
        "a hook has a reply repeated",
        "a hook is asked at the end of a turn",
        "a hook is stopped by a cancel",
        "a hook is asked again after a restart",
        "a steer goes in",
        "a queued input is taken",
    ),
)
CORRECTIONS = Case(
    name="corrections",
    policy=plain(
        course_correction=CourseCorrection(after_calls=1, after_writes=1),
        queue_limit=1,
        hook_timeout_ms=5,
        empty_reply_nudges=0,
        max_turns=3,
    ),
    scope=Scope(
        calls=1,
        rounds=1,
        turns=2,
        waiting=1,
        texts=False,
        tools=("w",),
        ends=(EndOfRun.RETURNS,),
        times=True,
        crashes=True,
        strays=False,
    ),
    goals=(
        "a correction is asked for",
        "a correction goes in",
        "a correction finds nothing",
        "a correction takes too long",
        "a steer goes in",
    ),
)
BILLED = ModelCompleted(ANY_REPLY, StopReason.END_TURN, Usage(input=2))
COMPACTION = Case(
    name="compaction at rest",
    policy=plain(
        compaction=Compaction(trigger_ratio=None, keep_turns=None, keep_messages=1),
        queue_limit=1,
        max_turns=1,
        empty_reply_nudges=0,
    ),
    scope=Scope(
        calls=0,
        rounds=0,
        turns=2,
        waiting=1,
        steers=False,
        texts=False,
        failures=(),
        crashes=True,
        also=(CompactNow(),),
    ),
    goals=(
        "a compaction at rest",
        "a compaction is done",
        "a compaction fails",
        "a compaction is cancelled",
        "a summary is asked for again",
        "what was said meanwhile starts a turn",
        "there is nothing to compact",
    ),
)
IN_A_TURN = Case(
    name="compaction in a turn",
    policy=plain(
        compaction=Compaction(
            trigger_ratio=None, trigger_tokens=1, keep_turns=None, keep_messages=1, failures=1, cooldown_ms=3
        ),
        queue_limit=1,
        empty_reply_nudges=0,
        max_turns=1,
    ),
    scope=Scope(
        calls=0,
        rounds=0,
        turns=3,
        waiting=1,
        steers=False,
        texts=False,
        edits=True,
        crashes=True,
        failures=(),
        stops=(),
        completions=(BILLED,),
    ),
    goals=(
        "a compaction in a turn",
        "a compaction is done",
        "a compaction fails",
        "a compaction is cancelled",
        "a message that was taken out is edited",
    ),
)
CHILD = Case(
    name="a sub-agent",
    policy=plain(queue_limit=0, on_busy=OnBusy.REJECT),
    scope=evolve(
        ONE_TURN,
        offers=((OfferedCall(tool="k"),), (OfferedCall(tool="w"), OfferedCall(tool="k"))),
        ends=(EndOfRun.RETURNS,),
        child_asks=True,
        progress=True,
        times=True,
        crashes=True,
    ),
    goals=(
        "a sub-agent runs",
        "a sub-agent runs beside a tool",
        "only sub-agents run",
        "a sub-agent asks",
        "all waits for whom a sub-agent asks",
        "a sub-agent goes on",
        "a sub-agent is done",
        "a sub-agent fails",
        "a sub-agent takes too long",
        "a sub-agent is cancelled",
        "a sub-agent is taken up again",
    ),
)
HANDOFF = Case(
    name="handoff",
    policy=plain(queue_limit=1, max_turns=1, empty_reply_nudges=0),
    scope=Scope(
        calls=0,
        rounds=0,
        turns=2,
        waiting=1,
        texts=False,
        failures=(),
        lives=True,
        forks=True,
        crashes=True,
        also=(StartHandoff("a"),),
    ),
    goals=(
        "a handoff is done",
        "a handoff fails",
        "a handoff is cancelled",
        "what was said meanwhile starts a turn",
        "the run is handed off",
        "the turn is disposed of",
    ),
)
QUICK_CARE = (TOOL_HOOKS, IN_A_TURN, CHILD, HANDOFF)
OTHER_CARE = (TURN_HOOKS, CORRECTIONS, COMPACTION)
