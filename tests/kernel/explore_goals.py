"""What some step of an exploration must show, so that nothing holds only because it never happens."""

from collections.abc import Callable

from loopkernel.data.effects import AbortModel, AbortTool, AnswerTool, CallModel, CheckCall, Command, StartTool
from loopkernel.data.events import (
    ApprovalAsked,
    ApprovalForgotten,
    ApprovalRemembered,
    Dequeued,
    Discarded,
    EditRefused,
    Event,
    LeaseBroken,
    LimitReached,
    QuestionAsked,
    Refused,
    ReplyFailed,
    ReplyRetracted,
    SessionResumed,
    Steered,
    ToolEnded,
    TurnEnded,
)
from loopkernel.data.ledgers import ApprovalWait
from loopkernel.data.outside_deltas import TimerFired
from loopkernel.data.states import Cancelled, Confirming, Done, Executing, Initial, Streaming
from loopkernel.data.thread_deltas import Resumed
from loopkernel.data.tool_deltas import ToolStopped, ToolSucceeded
from loopkernel.data.user_deltas import AnswerAfterCrash, Approve, CancelCall, Correct, Swap
from loopkernel.data.words import CallStatus, CancelReason, RefusalReason, TurnEndReason
from loopkernel.laws.views import ledger_in
from loopkernel.replaying import StepRecord

Goal = Callable[[StepRecord], bool]


def prints(event: type[Event]) -> Goal:
    return lambda record: any(isinstance(effect, event) for effect in record.effects)


def commands(command: type[Command]) -> Goal:
    return lambda record: any(isinstance(effect, command) for effect in record.effects)


def refuses(reason: RefusalReason) -> Goal:
    return lambda record: any(isinstance(effect, Refused) and effect.reason is reason for effect in record.effects)


def ends(reason: TurnEndReason) -> Goal:
    return lambda record: any(isinstance(effect, TurnEnded) and effect.reason is reason for effect in record.effects)


def answers(status: CallStatus, ran: bool) -> Goal:
    def met(record: StepRecord) -> bool:
        results = (effect.result for effect in record.effects if isinstance(effect, ToolEnded))
        return any(result.status is status and result.ran is ran for result in results)

    return met


def closes_for(reason: CancelReason) -> Goal:
    return lambda record: any(
        isinstance(effect, ToolEnded) and effect.result.reason is reason for effect in record.effects
    )


def starts_by(delta: type) -> Goal:
    return lambda record: isinstance(record.context.delta, delta) and commands(StartTool)(record)


def two_wait_for_a_person(record: StepRecord) -> bool:
    return isinstance(record.after, Confirming) and record.after.ledger.waiting == 2


def one_runs_while_one_waits(record: StepRecord) -> bool:
    return isinstance(record.after, Executing) and record.after.ledger.waiting > 0 and record.after.ledger.running > 0


def remembered_for_another(record: StepRecord) -> bool:
    """The approval of one call starts another, which waited for a person too."""
    delta, before = record.context.delta, ledger_in(record.before)
    if not isinstance(delta, Approve) or before is None:
        return False
    waited = {entry.call.id for entry in before.entries if isinstance(entry.person.wait, ApprovalWait)}
    started = {effect.call for effect in record.effects if isinstance(effect, StartTool)}
    return bool((waited & started) - {delta.call})


def an_edit_is_checked(record: StepRecord) -> bool:
    return isinstance(record.context.delta, Correct | Swap) and commands(CheckCall)(record)


def starts_edited(record: StepRecord) -> bool:
    after = ledger_in(record.after)
    edited = {e.call.id for e in after.entries if e.person.edit is not None} if after is not None else set()
    return any(isinstance(effect, StartTool) and effect.call in edited for effect in record.effects)


def timed_out(record: StepRecord) -> bool:
    return isinstance(record.context.delta, TimerFired) and closes_for(CancelReason.TIMEOUT)(record)


def waits_for_a_lease(record: StepRecord) -> bool:
    """Nothing runs, and yet a call waits: an aborted run holds what it needs."""
    after = record.after
    if not isinstance(after, Executing) or after.ledger.running or after.ledger.checking or after.ledger.waiting:
        return False
    return after.ledger.unanswered > 0 and any(not run.background for run in after.session.held)


def late_report_starts(record: StepRecord) -> bool:
    return starts_by(ToolSucceeded)(record) and refuses(RefusalReason.STALE)(record)


def unreachable(record: StepRecord) -> bool:
    """A call is answered since one that it depends on was not done."""
    before = ledger_in(record.before)
    linked = {entry.call.id for entry in before.entries if entry.links is not None} if before is not None else set()
    failed = [effect.result.call for effect in record.effects if isinstance(effect, ToolEnded)]
    return len(failed) > 1 and any(call in linked for call in failed[1:])


def resolved_now(record: StepRecord) -> bool:
    after = ledger_in(record.after)
    if after is None or not commands(CheckCall)(record):
        return False
    return any(e.links is not None and e.links.resolved is not None for e in after.entries)


def goes_aside(record: StepRecord) -> bool:
    delta = record.context.delta
    return isinstance(delta, ToolSucceeded) and delta.output.background and prints(ToolEnded)(record)


def ends_aside(record: StepRecord) -> bool:
    before, after = record.before.session, record.after.session
    return before is not None and after is not None and len(after.inbox.background) > len(before.inbox.background)


def cancelled_aside(record: StepRecord) -> bool:
    return ends_aside(record) and isinstance(record.context.delta, CancelCall) and commands(AbortTool)(record)


def waits_for_a_slot(record: StepRecord) -> bool:
    after = record.after
    if not isinstance(after, Executing) or after.ledger.plan is None:
        return False
    return after.ledger.plan.allowed > 0


def two_run_at_once(record: StepRecord) -> bool:
    return isinstance(record.after, Executing) and record.after.ledger.running == 2


def one_waits_for_the_other(record: StepRecord) -> bool:
    if not isinstance(record.after, Executing):
        return False
    statuses = [entry.status for entry in record.after.ledger.entries if entry.check is None]
    return statuses == [CallStatus.IN_PROGRESS, CallStatus.QUEUED]


def one_runs_beside_a_check(record: StepRecord) -> bool:
    if not isinstance(record.after, Executing):
        return False
    return any(entry.check is not None for entry in record.after.ledger.entries) and record.after.ledger.running > 0


def the_second_ends_first(record: StepRecord) -> bool:
    if not isinstance(record.after, Executing):
        return False
    return [entry.is_open for entry in record.after.ledger.entries] == [True, False]


GOALS: dict[str, Goal] = {
    "the turn ends naturally": ends(TurnEndReason.MODEL_STOP),
    "the turn ends at its limit": lambda record: ends(TurnEndReason.MAX_TURNS)(record) and prints(LimitReached)(record),
    "the turn is aborted": ends(TurnEndReason.USER_ABORT),
    "the turn ends by an error": ends(TurnEndReason.ERROR),
    "the model stays silent": ends(TurnEndReason.STUCK),
    "the turn is interrupted": ends(TurnEndReason.INTERRUPTED),
    "the run is over": lambda record: isinstance(record.after, Done) and prints(TurnEnded)(record),
    "the turn is disposed of": ends(TurnEndReason.DISPOSED),
    "a cancel leads to rest": lambda record: isinstance(record.after, Cancelled) and prints(TurnEnded)(record),
    "a steer goes in": prints(Steered),
    "a queued input is taken": prints(Dequeued),
    "a queued input is discarded": prints(Discarded),
    "a reply is aborted": commands(AbortModel),
    "a reply is retracted": prints(ReplyRetracted),
    "a run is aborted": commands(AbortTool),
    "two calls run at once": two_run_at_once,
    "a call waits for another": one_waits_for_the_other,
    "a call runs beside a check": one_runs_beside_a_check,
    "the second call ends first": the_second_ends_first,
    "a call is done": answers(CallStatus.DONE, ran=True),
    "a call fails": answers(CallStatus.ERROR, ran=True),
    "a call is lost": answers(CallStatus.LOST, ran=True),
    "a call is answered without a run": answers(CallStatus.ERROR, ran=False),
    "a running call is cancelled": answers(CallStatus.CANCELLED, ran=True),
    "a waiting call is cancelled": answers(CallStatus.CANCELLED, ran=False),
    "a run is begun again": lambda record: any(isinstance(e, StartTool) and e.run > 1 for e in record.effects),
    "a check is made again": lambda record: prints(SessionResumed)(record) and commands(CheckCall)(record),
    "a reply is asked again": lambda record: prints(SessionResumed)(record) and commands(CallModel)(record),
    "a call is cancelled for safety": lambda record: any(
        isinstance(effect, ToolEnded) and effect.result.reason is CancelReason.SAFETY for effect in record.effects
    ),
    "a call waits for a person": prints(ApprovalAsked),
    "two calls wait for a person": two_wait_for_a_person,
    "a call runs while another waits for a person": one_runs_while_one_waits,
    "a call starts by an approval": starts_by(Approve),
    "an approval is remembered": prints(ApprovalRemembered),
    "an approval is taken back": prints(ApprovalForgotten),
    "an approval lets another call run": remembered_for_another,
    "a call is rejected": answers(CallStatus.REJECTED_BY_USER, ran=False),
    "the rest is skipped": closes_for(CancelReason.REJECTED),
    "the turn ends by a rejection": ends(TurnEndReason.TOOL_REJECTED),
    "an edit is being checked": an_edit_is_checked,
    "an edit is refused": prints(EditRefused),
    "a call starts edited": starts_edited,
    "time runs out for an approval": lambda record: (
        timed_out(record) and answers(CallStatus.REJECTED_BY_USER, ran=False)(record)
    ),
    "time runs out for a run": lambda record: timed_out(record) and answers(CallStatus.ERROR, ran=True)(record),
    "a call waits for a run that has not stopped": waits_for_a_lease,
    "a call starts since an aborted run has stopped": starts_by(ToolStopped),
    "a call starts since an aborted run has reported late": late_report_starts,
    "an aborted run does not stop in time": prints(LeaseBroken),
    "a failing call cancels its siblings": closes_for(CancelReason.SIBLING),
    "a call cannot be reached": unreachable,
    "references are resolved": resolved_now,
    "a tool asks": prints(QuestionAsked),
    "a question is answered": lambda record: any(
        isinstance(e, AnswerTool) and e.value is not None for e in record.effects
    ),
    "a question is declined": lambda record: any(isinstance(e, AnswerTool) and e.value is None for e in record.effects),
    "a call waits for a word after a crash": lambda record: (
        isinstance(record.context.delta, Resumed) and prints(ApprovalAsked)(record)
    ),
    "a person has a run begun again": starts_by(AnswerAfterCrash),
    "a call starts early": lambda record: isinstance(record.after, Streaming) and commands(StartTool)(record),
    "an early run is closed with its reply": lambda record: (
        prints(ReplyFailed)(record) and closes_for(CancelReason.SUPERSEDED)(record) and prints(ReplyRetracted)(record)
    ),
    "a failed reply is kept": lambda record: isinstance(record.after, Executing) and record.after.settled is not None,
    "a run goes on in the background": goes_aside,
    "a run ends in the background": ends_aside,
    "a run in the background is cancelled": cancelled_aside,
    "a thread is released with a call that waits": lambda record: (
        isinstance(record.after, Initial) and record.after.ledger is not None
    ),
    "a released call is shown again": lambda record: (
        isinstance(record.before, Initial) and prints(ApprovalAsked)(record)
    ),
    "the turn ends by its output": ends(TurnEndReason.OUTPUT),
    "other calls are skipped for the output": lambda record: (
        isinstance(record.after, Executing | Streaming) is False and closes_for(CancelReason.SUPERSEDED)(record)
    ),
    "the output is demanded": lambda record: any(
        isinstance(e, CallModel) and e.request.forced_tool is not None for e in record.effects
    ),
    "three calls run at once": lambda record: isinstance(record.after, Executing) and record.after.ledger.running == 3,
    "a call waits for a slot": waits_for_a_slot,
    **{f"refused as {reason.value}": refuses(reason) for reason in RefusalReason},
}
