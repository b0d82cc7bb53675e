"""What steps of the scopes of endurance must show: failures recovered, limits hit, history changed."""

from loopkernel.data.effects import AbortModel, CallModel, StartTimer
from loopkernel.data.endings import Failure, GoOn
from loopkernel.data.events import (
    Edited,
    ErrorShown,
    InputSettled,
    LimitReached,
    LineageForked,
    LoopNoted,
    LoopStopped,
    MessageAdded,
    ReplyAborted,
    ReplyFailed,
    ReplyRetracted,
    ResultsCleared,
    RetryScheduled,
    SessionResumed,
    ThreadCut,
    ToolDisabled,
    ToolEnded,
)
from loopkernel.data.messages import AssistantMessage, UserMessage, UserOrigin
from loopkernel.data.outside_deltas import TimerFired
from loopkernel.data.states import Backoff, Cancelled, Confirming, Executing, Idle, State, Streaming
from loopkernel.data.thread_deltas import Forked, Resumed
from loopkernel.data.user_deltas import DismissError, EditMessage, Enqueue, RetryNow, Say, Steer
from loopkernel.data.words import (
    CallStatus,
    CancelReason,
    InputFate,
    LimitName,
    RequestReason,
    TimerPurpose,
    TurnEndReason,
)
from loopkernel.loop.turn.limits import OUT_OF_BUDGET
from loopkernel.replaying import StepRecord

from tests.kernel.explore_goals import Goal, closes_for, commands, ends, prints


def requests(record: StepRecord) -> list[CallModel]:
    return [effect for effect in record.effects if isinstance(effect, CallModel)]


def asks_for(reason: RequestReason) -> Goal:
    return lambda record: any(request.request.reason is reason for request in requests(record))


def comes(delta: type, before: type[State] | tuple[type[State], ...]) -> Goal:
    """A delta of the class is taken in a state of one of the classes."""
    return lambda record: (
        isinstance(record.context.delta, delta)
        and isinstance(record.before, before)
        and record.after.stamp.version > record.before.stamp.version
    )


def both(*goals: Goal) -> Goal:
    return lambda record: all(goal(record) for goal in goals)


def adds_note(origin: UserOrigin) -> Goal:
    def met(record: StepRecord) -> bool:
        added = (effect.message for effect in record.effects if isinstance(effect, MessageAdded))
        return any(isinstance(message, UserMessage) and message.origin is origin for message in added)

    return met


def asks_another_model(record: StepRecord) -> bool:
    session = record.before.session
    asked = [request.request.model for request in requests(record)]
    return session is not None and any(model != session.settings.policy.model for model in asked)


def waits_as_asked(record: StepRecord) -> bool:
    return any(isinstance(effect, RetryScheduled) and effect.delay_ms == 7 for effect in record.effects)


def keeps_countdown(record: StepRecord) -> bool:
    before, after = record.before, record.after
    if not isinstance(before, Backoff) or not isinstance(after, Backoff) or before.timer == after.timer:
        return False
    return isinstance(record.context.delta, Resumed) and before.timer.deadline_ms == after.timer.deadline_ms


def looks_again(record: StepRecord) -> bool:
    started = (effect for effect in record.effects if isinstance(effect, StartTimer))
    again = any(effect.purpose is TimerPurpose.SILENCE for effect in started)
    return again and isinstance(record.before, Streaming) and isinstance(record.context.delta, TimerFired)


def recovered_behind_calls(record: StepRecord) -> bool:
    before = record.before
    waited = isinstance(before, Executing | Confirming) and isinstance(before.settled, Failure)
    return waited and (commands(CallModel)(record) or isinstance(record.after, Backoff))


def higher_limit_behind_calls(record: StepRecord) -> bool:
    before = record.before
    waited = isinstance(before, Executing | Confirming) and isinstance(before.settled, GoOn)
    return waited and asks_for(RequestReason.MAX_OUTPUT_TOKENS_ESCALATE)(record)


def answers_cut_call(record: StepRecord) -> bool:
    delta = record.context.delta
    results = [effect.result for effect in record.effects if isinstance(effect, ToolEnded)]
    return getattr(delta, "cut_call", False) and any(result.status is CallStatus.ERROR for result in results)


def notes_calls(record: StepRecord) -> bool:
    """A reply that held calls is stored without them."""
    before = record.before
    if not isinstance(before, Streaming) or not before.ledger.entries.size:
        return False
    added = (effect.message for effect in record.effects if isinstance(effect, MessageAdded))
    return any(isinstance(message, AssistantMessage) and not message.calls for message in added)


def hits(name: LimitName) -> Goal:
    return lambda record: any(isinstance(effect, LimitReached) and effect.limit is name for effect in record.effects)


def awaits_after_budget(record: StepRecord) -> bool:
    after = record.after
    return isinstance(after, Executing) and after.settled == OUT_OF_BUDGET and after.ledger.running > 0


def supersedes(record: StepRecord) -> bool:
    settled = [effect for effect in record.effects if isinstance(effect, InputSettled)]
    return prints(Edited)(record) and sum(effect.fate is InputFate.SUPERSEDED for effect in settled) > 1


def unknown_after_fork(record: StepRecord) -> bool:
    results = [effect.result for effect in record.effects if isinstance(effect, ToolEnded)]
    return prints(LineageForked)(record) and any(result.status is CallStatus.UNKNOWN for result in results)


def offers_again(record: StepRecord) -> bool:
    before, after = record.before.session, record.after.session
    if before is None or after is None or not requests(record):
        return False
    return {one.tool for one in before.watch.disabled} > {one.tool for one in after.watch.disabled}


def calls_disabled(record: StepRecord) -> bool:
    before = record.before
    if not isinstance(before, Streaming) or isinstance(record.after, Streaming):
        return False
    disabled = {one.tool for one in before.session.watch.disabled}
    return any(entry.call.tool in disabled for entry in before.ledger.entries)


GOALS_OF_ENDURANCE: dict[str, Goal] = {
    "a retry is waited for": prints(RetryScheduled),
    "a retry is made in time": both(comes(TimerFired, Backoff), asks_for(RequestReason.ERROR_RETRY)),
    "a retry is made by the user": both(comes(RetryNow, Backoff), asks_for(RequestReason.ERROR_RETRY)),
    "a retry waits as long as the server asks": waits_as_asked,
    "another model is asked": asks_another_model,
    "a message does not wait for a retry": both(comes(Say, Backoff), commands(CallModel)),
    "a queued message does not wait for a retry": both(comes(Enqueue, Backoff), commands(CallModel)),
    "an error is dismissed during a retry": comes(DismissError, Backoff),
    "a retry is cancelled": lambda record: isinstance(record.before, Backoff) and isinstance(record.after, Cancelled),
    "a steer waits for a retry": comes(Steer, Backoff),
    "a restart keeps a countdown": keeps_countdown,
    "a fork ends a countdown": comes(Forked, Backoff),
    "the stream is silent": both(comes(TimerFired, Streaming), commands(AbortModel), prints(ReplyFailed)),
    "a silence is looked at again": looks_again,
    "an error is fed back": adds_note(UserOrigin.ERROR_FEEDBACK),
    "an error is shown, and the model asked again": both(prints(ErrorShown), commands(CallModel)),
    "results are cleared to be tried again": both(prints(ResultsCleared), asks_for(RequestReason.COLLAPSE_DRAIN_RETRY)),
    "the turn ends by a refusal": ends(TurnEndReason.REFUSAL),
    "a refused reply is dropped": both(comes(RetryNow, Idle), prints(ThreadCut)),
    "a failure is recovered behind calls": recovered_behind_calls,
    "a truncated reply is asked again": both(
        prints(ReplyRetracted), asks_for(RequestReason.MAX_OUTPUT_TOKENS_ESCALATE)
    ),
    "a truncated reply is continued": asks_for(RequestReason.MAX_OUTPUT_TOKENS_RECOVERY),
    "a truncated reply is kept, and a higher limit follows": higher_limit_behind_calls,
    "the turn ends by its output limit": ends(TurnEndReason.MAX_TOKENS),
    "a cut call is answered": answers_cut_call,
    "calls are replaced by notes": notes_calls,
    "a budget of tokens is spent": hits(LimitName.TOKENS),
    "a budget of calls is spent": hits(LimitName.TOOL_CALLS),
    "a budget of time is spent": hits(LimitName.WALL_TIME),
    "calls are left out for a budget": closes_for(CancelReason.LIMIT),
    "a run is awaited after a budget": awaits_after_budget,
    "the turn ends by a budget": ends(TurnEndReason.BUDGET_EXCEEDED),
    "a message is edited at rest": comes(EditMessage, Idle),
    "a message is edited while the model answers": comes(EditMessage, Streaming),
    "a message is edited while calls run": comes(EditMessage, (Executing, Confirming)),
    "a message is edited during a retry": comes(EditMessage, Backoff),
    "an edit supersedes other messages": supersedes,
    "the turn is edited away": ends(TurnEndReason.EDITED),
    "a fork at rest": comes(Forked, Idle),
    "a fork keeps a cut reply": both(comes(Forked, Streaming), prints(ReplyAborted)),
    "a fork does not know of a dangerous run": unknown_after_fork,
    "repetition is noted": prints(LoopNoted),
    "a tool is disabled": prints(ToolDisabled),
    "a disabled tool is offered again": offers_again,
    "a disabled tool is called": calls_disabled,
    "the turn ends by repetition": both(prints(LoopStopped), ends(TurnEndReason.LOOP_DETECTED)),
    "a restart is told": prints(SessionResumed),
}
