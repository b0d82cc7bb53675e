"""The runs of the state machine reach everything: states, edges of the table, ends, reasons, hooks, what cuts them."""

from collections.abc import Iterator
from random import Random

from attrs import evolve
from loopkernel.data.choices import CompactionStrategy, Lifetime, OnBrokenStream, OnReject
from loopkernel.data.effects import CallModel
from loopkernel.data.events import LimitReached, ReplyFailed, TurnEnded
from loopkernel.data.hook_calls import OpenHook
from loopkernel.data.model_deltas import ModelCompleted, ModelFailed, ModelText
from loopkernel.data.outside_deltas import HookAnswered, TimerFired
from loopkernel.data.policy import (
    ChildLimits,
    ClearResults,
    Compaction,
    CourseCorrection,
    Hook,
    LoopTiers,
    Policy,
    Prices,
    Truncation,
)
from loopkernel.data.states import Done, Streaming
from loopkernel.data.steps import is_refused
from loopkernel.data.thread_deltas import Acquired, Created, Resumed
from loopkernel.data.words import ErrorClass, HookPoint, LimitName, RequestReason, StopReason, TurnEndReason
from loopkernel.laws.gates import gates_in
from loopkernel.replaying import StepRecord
from loopkernel.testing.stateful.machine import KernelMachine
from loopkernel.testing.strategies.walks import OFFERED
from loopkernel.views.table import rows
from typing_extensions import override

GATED = tuple(point for point in HookPoint if point.can_be_gated)
BUSY = (
    *("Streaming", "Executing", "Confirming", "Dispatching", "Backoff"),
    *("Thinking", "Compacting", "Finishing", "HandingOff"),
)
# What the types of the handlers allow, and no run can do: `Executing` and `Finishing` are passed through on these ways.
ONE_WAITS = "a call of a released thread waits for a person, so that the ledger which is taken up again is Confirming"
NOT_CUT = "at rest nothing is open that could be cut short, so that no turn which begins there ends as cut in that step"
IMPOSSIBLE: dict[str, str] = {
    **{
        f"Initial to {phase}": ONE_WAITS
        for phase in ("Executing", "Dispatching", "Thinking", "Streaming", "Compacting", "Backoff", "Finishing")
    },
    **{f"Initial to {phase}": ONE_WAITS for phase in ("Cancelled", "Done")},
    "Idle to Cancelled": NOT_CUT,
}
EDGES = {f"{row.state} to {other}" for row in rows() for other in row.seen}
CHANGES = {
    f"{delta} in {phase}" for delta in ("Forked", "EditMessage", "Resumed", "CancelAll", "Disposed") for phase in BUSY
}
IN_BACKOFF = {f"{delta} in Backoff" for delta in ("Say", "Enqueue", "Steer", "RetryNow", "DismissError", "TimerFired")}
ANSWERS = {
    f"{answer} at {point.value}"
    for answer in ("HookContinue", "HookBlock", "HookModify", "HookRetry", "HookFault", "TimerFired")
    for point in GATED
}
OUTSIDE = {
    *("CorrectionAnswered in Finishing", "SummaryReady in Compacting", "SummaryFailed in Compacting"),
    *("HandoffDone in HandingOff", "HandoffFailed in HandingOff"),
    *(f"ChildEnded in {phase}" for phase in ("Executing", "Confirming", "Dispatching")),
    *(f"ChildAsks in {phase}" for phase in ("Executing", "Confirming", "Dispatching")),
    "ChildProgress in Dispatching",
}
SOMETIMES = frozenset[object](
    {
        *(*TurnEndReason, *RequestReason, *LimitName),
        *(edge for edge in EDGES if edge not in IMPOSSIBLE),
        *(*CHANGES, *IN_BACKOFF, *ANSWERS, *OUTSIDE, "silence", "a clock gone back"),
    }
)


def shown(record: StepRecord) -> Iterator[object]:
    """What a step shows of all that is to happen sometimes."""
    delta, before, after = record.context.delta, record.before, record.after
    yield f"{type(before).__name__} to {type(after).__name__}"
    for effect in record.effects:
        if isinstance(effect, TurnEnded):
            yield effect.reason
        elif isinstance(effect, CallModel):
            yield effect.request.reason
        elif isinstance(effect, LimitReached):
            yield effect.limit
        elif isinstance(effect, ReplyFailed) and isinstance(delta, TimerFired):
            yield "silence"
    if isinstance(after, Done):
        yield after.reason
    if not is_refused(record.effects):
        yield f"{type(delta).__name__} in {type(before).__name__}"
        yield from answers_of_hooks(record)
        if record.context.now_ms < before.stamp.now_ms:
            yield "a clock gone back"


def answers_of_hooks(record: StepRecord) -> Iterator[str]:
    """How the hooks of a point have answered, or that one took too long."""
    delta = record.context.delta
    for gate in gates_in(record.before):
        if not isinstance(gate, OpenHook):
            continue
        if isinstance(delta, HookAnswered) and gate.operation == delta.operation:
            yield f"{type(delta.answer).__name__} at {gate.hook.point.value}"
        elif isinstance(delta, TimerFired) and gate.timer is not None and gate.timer.operation == delta.operation:
            yield f"TimerFired at {gate.hook.point.value}"


# Under each of these, something comes soon that hardly comes under others.
NO_MORE = Truncation(escalate_to=(), continuations=0)
TIGHT = LoopTiers(note=2, disable=3, stop=3)
HOOKS = tuple(Hook(point=point, name="h", gated=True) for point in GATED)
SMALL = Compaction(trigger_ratio=None, trigger_tokens=1, keep_turns=None, keep_messages=1, failures=2, cooldown_ms=2)
LATE = (HookPoint.STOP, HookPoint.AFTER_INVOCATION)
WATCHED = CourseCorrection(after_calls=1, after_writes=0)
SOON = (
    Policy(max_wall_ms=5, max_reply_chars=2, on_reject=OnReject.HALT, clear_results=ClearResults(keep=0)),
    Policy(max_tool_calls=1, clear_results=ClearResults(keep=0)),
    Policy(max_total_tokens=3, on_truncation=NO_MORE, on_reject=OnReject.HALT),
    Policy(max_cost_usd=1, prices=Prices(input=1_000_000), on_truncation=NO_MORE),
    Policy(max_turns=1, output_tool="read", on_reject=OnReject.HALT),
    Policy(loop=TIGHT, output_tool="write", clear_results=ClearResults(keep=0)),
    *(Policy(hooks=tuple(hook for hook in HOOKS if hook.point is point), hook_timeout_ms=2) for point in GATED),
    Policy(hooks=HOOKS, course_correction=WATCHED),
    Policy(course_correction=WATCHED, hook_timeout_ms=2),
    Policy(compaction=SMALL, max_turns=2),
    Policy(compaction=evolve(SMALL, trigger_tokens=None), clear_results=None),
    Policy(compaction=evolve(SMALL, strategy=CompactionStrategy.WINDOW), max_total_tokens=9),
    Policy(child=ChildLimits(timeout_ms=3), on_reject=OnReject.HALT),
    Policy(hooks=HOOKS, compaction=SMALL),
    Policy(hooks=tuple(hook for hook in HOOKS if hook.point in LATE), max_total_tokens=3),
    Policy(hooks=tuple(hook for hook in HOOKS if hook.point in LATE), compaction=SMALL, max_turns=2),
    Policy(compaction=SMALL, max_total_tokens=9),
    Policy(empty_reply_nudges=1, on_truncation=NO_MORE),
)
# Replies that are not taken as they are: asked for again, told of, or kept in part.
SECOND_TRY = Policy(missing_call_retries=2, refusal_notes=1, on_broken_stream=OnBrokenStream.KEEP)
POLICIES = tuple(
    evolve(policy, lifetime=lifetime)
    for policy in (*SOON, SECOND_TRY)
    for lifetime in (Lifetime.SESSION, Lifetime.SESSION, Lifetime.TASK)
)
MOST_RUNS = 12_000  # far fewer do
MOST_DELTAS = 100
SOON_ALL = 8  # dice that show everything within some 1,300 runs; others do too, and take longer


class Watched(KernelMachine):
    """A run of the machine, driven by dice: each step is foreseen, and noted instead of judged by the laws."""

    def __init__(self, missing: set[object]) -> None:
        super().__init__()
        self.missing = missing

    @override
    def judge_step(self, step: StepRecord) -> None:
        self.missing.difference_update(shown(step))

    def play_at_random(self, policy: Policy, dice: Random) -> None:
        """A run under the policy, until it is over, or long enough."""
        self.deliver(Created(session_id="s", policy=policy, tools=OFFERED))
        self.deliver(Acquired())
        while len(self.steps) < MOST_DELTAS:
            self.now_ms += dice.choice((0, 0, 1, 1, -1))
            length = len(self.steps)
            if policy.missing_call_retries is not None and dice.random() < 0.2:
                self.end_the_reply_oddly(dice)
            self.go(dice.choice, 1, dice.choice((self.moves, self.answers, self.answers, self.answers)))
            if len(self.steps) == length:
                self.go(dice.choice, 1, self.wishes)
            if isinstance(self.state, Done):
                self.deliver(Resumed())
                return

    def end_the_reply_oddly(self, dice: Random) -> None:
        """A reply that stopped for calls and has none, or whose stream broke behind a whole text."""
        if isinstance(self.state, Streaming):
            operation = self.state.reply.operation
            if dice.random() < 0.5:
                self.deliver(ModelCompleted(operation, StopReason.TOOL_USE))
            else:
                self.deliver(ModelText(operation, "so"))
                self.deliver(ModelFailed(operation, error=ErrorClass.NETWORK, unfinished=0))


def test_everything_happens_sometimes() -> None:
    missing, dice = set(SOMETIMES), Random(SOON_ALL)
    for number in range(MOST_RUNS):
        Watched(missing).play_at_random(POLICIES[number % len(POLICIES)], dice)
        if not missing:
            break
    assert missing == set()


def test_what_cannot_happen_is_in_the_table() -> None:
    assert IMPOSSIBLE.keys() <= EDGES
