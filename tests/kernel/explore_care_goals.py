"""What some step of an exploration must show of hooks, corrections, compactions, sub-agents and handoffs."""

from loopkernel.data.effects import AbortOther, AskHook, CheckCorrection, StartChild, StartTool, Summarise
from loopkernel.data.events import (
    ChildAsked,
    ChildFinished,
    ChildStarted,
    CompactionEnded,
    CompactionStarted,
    CorrectionChecked,
    CorrectionInjected,
    HandoffEnded,
    Refused,
    ThreadRewritten,
    ToolEnded,
    WorkCancelled,
)
from loopkernel.data.ids import OperationKind
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import ChildWait
from loopkernel.data.outside_deltas import (
    ChildAsks,
    ChildEnded,
    CorrectionAnswered,
    FromOutside,
    HookAnswered,
    HookBlock,
    HookModify,
    HookRetry,
    TimerFired,
)
from loopkernel.data.states import (
    AtRest,
    Compacting,
    Confirming,
    Dispatching,
    Done,
    Executing,
    HandingOff,
    Streaming,
    Thinking,
)
from loopkernel.data.thread_deltas import Resumed
from loopkernel.data.user_deltas import CompactNow, EditMessage
from loopkernel.data.words import CallStatus, HookPoint, RequestReason, TurnEndReason
from loopkernel.laws.views import ledger_in
from loopkernel.replaying import StepRecord

from tests.kernel.explore_goals import Goal, commands, ends, prints


def asks_hook(*points: HookPoint) -> Goal:
    return lambda record: any(isinstance(e, AskHook) and e.context.point in points for e in record.effects)


def answered(kind: type) -> Goal:
    """A hook has answered so."""

    def met(record: StepRecord) -> bool:
        delta = record.context.delta
        return isinstance(delta, HookAnswered) and isinstance(delta.answer, kind) and not prints(Refused)(record)

    return met


def both(*goals: Goal) -> Goal:
    return lambda record: all(goal(record) for goal in goals)


def asks_again(record: StepRecord) -> bool:
    """A request that a hook wanted, or a stop hook kept the turn going for."""
    after = record.after
    wanted = RequestReason.HOOK_RETRY, RequestReason.STOP_HOOK_BLOCKING
    return isinstance(after, Thinking | Streaming) and after.turn.reason in wanted


def answers_as(status: CallStatus) -> Goal:
    return lambda record: any(isinstance(e, ToolEnded) and e.result.status is status for e in record.effects)


def starts_changed(record: StepRecord) -> bool:
    return any(isinstance(e, StartTool) and e.input == Json.of({"path": "b"}) for e in record.effects)


def waits_beside_hook(record: StepRecord) -> bool:
    ledger = ledger_in(record.after)
    if ledger is None or not ledger.hooked:
        return False
    return any(e.status is CallStatus.QUEUED and e.hooks.open is None and e.check is None for e in ledger.entries)


def stops(kind: OperationKind) -> Goal:
    return lambda record: any(isinstance(e, AbortOther) and e.kind is kind for e in record.effects)


def ends_compaction(done: bool) -> Goal:
    return lambda record: CompactionEnded(done) in record.effects


def at_rest_in(kind: type) -> Goal:
    return lambda record: (
        isinstance(record.after, kind)
        and isinstance(record.after, Compacting | HandingOff)
        and isinstance(record.after.within, AtRest)
    )


def starts_after_waiting(record: StepRecord) -> bool:
    """What came while something was open at rest starts a turn when that has ended."""
    before = record.before
    waited = isinstance(before, Compacting | HandingOff) and isinstance(before.within, AtRest)
    return waited and isinstance(record.context.delta, FromOutside) and isinstance(record.after, Streaming)


def child_finishes(status: CallStatus) -> Goal:
    return both(prints(ChildFinished), answers_as(status))


def asks_no_more(record: StepRecord) -> bool:
    delta = record.context.delta
    return isinstance(delta, ChildAsks) and not delta.asked and not prints(Refused)(record)


def waits_below(record: StepRecord) -> bool:
    after = record.after
    waits = [e.person.wait for e in after.ledger.entries if e.is_open] if isinstance(after, Confirming) else []
    return any(isinstance(wait, ChildWait) for wait in waits)


def came(delta: type) -> Goal:
    return lambda record: isinstance(record.context.delta, delta)


GOALS_OF_CARE: dict[str, Goal] = {
    "a hook is asked about a call": asks_hook(HookPoint.BEFORE_TOOL),
    "a hook is asked about the end of a run": asks_hook(HookPoint.AFTER_TOOL),
    "a hook blocks a call": both(answered(HookBlock), answers_as(CallStatus.ERROR)),
    "a hook changes an input": starts_changed,
    "a hook changes a result": both(answered(HookModify), answers_as(CallStatus.DONE)),
    "a hook has a run repeated": both(answered(HookRetry), commands(StartTool)),
    "a hook is stopped by a cancel": both(stops(OperationKind.HOOK), prints(WorkCancelled)),
    "a hook is asked again after a restart": lambda record: (
        isinstance(record.context.delta, Resumed) and commands(AskHook)(record)
    ),
    "a call waits for the hook of another": waits_beside_hook,
    "a hook ends the turn": ends(TurnEndReason.GUARDRAIL),
    "a stop hook keeps the turn going": both(answered(HookBlock), asks_again),
    "a hook has a reply repeated": both(answered(HookRetry), asks_again),
    "a hook is asked at the end of a turn": asks_hook(HookPoint.AFTER_INVOCATION),
    "a correction is asked for": commands(CheckCorrection),
    "a correction goes in": prints(CorrectionInjected),
    "a correction finds nothing": both(
        came(CorrectionAnswered), prints(CorrectionChecked), lambda record: not prints(CorrectionInjected)(record)
    ),
    "a correction takes too long": both(came(TimerFired), stops(OperationKind.CORRECTION)),
    "a compaction at rest": at_rest_in(Compacting),
    "a compaction in a turn": lambda record: prints(CompactionStarted)(record) and not at_rest_in(Compacting)(record),
    "a compaction is done": ends_compaction(True),
    "a compaction fails": ends_compaction(False),
    "a compaction is cancelled": both(stops(OperationKind.SUMMARY), prints(WorkCancelled)),
    "a summary is asked for again": lambda record: (
        isinstance(record.context.delta, Resumed) and commands(Summarise)(record)
    ),
    "what was said meanwhile starts a turn": starts_after_waiting,
    "there is nothing to compact": both(came(CompactNow), prints(Refused)),
    "a message that was taken out is edited": both(came(EditMessage), prints(ThreadRewritten)),
    "a sub-agent runs": prints(ChildStarted),
    "only sub-agents run": lambda record: isinstance(record.after, Dispatching),
    "a sub-agent asks": prints(ChildAsked),
    "all waits for whom a sub-agent asks": waits_below,
    "a sub-agent goes on": asks_no_more,
    "a sub-agent is done": child_finishes(CallStatus.DONE),
    "a sub-agent fails": both(came(ChildEnded), child_finishes(CallStatus.ERROR)),
    "a sub-agent takes too long": both(came(TimerFired), child_finishes(CallStatus.ERROR)),
    "a sub-agent is cancelled": child_finishes(CallStatus.CANCELLED),
    "a sub-agent is taken up again": lambda record: any(
        isinstance(e, StartChild) and e.resumed for e in record.effects
    ),
    "a handoff is done": lambda record: any(isinstance(e, HandoffEnded) and e.thread for e in record.effects),
    "a handoff fails": lambda record: HandoffEnded(None) in record.effects,
    "a handoff is cancelled": both(stops(OperationKind.HANDOFF), prints(WorkCancelled)),
    "the run is handed off": lambda record: (
        isinstance(record.after, Done) and record.after.reason is TurnEndReason.HANDED_OFF
    ),
    "a sub-agent runs beside a tool": lambda record: (
        isinstance(record.after, Executing) and record.after.ledger.children > 0
    ),
}
