"""Step laws about a transition as such: TOTAL, FINAL-ARGS, TIMER-DATA and WHY."""

import re
from collections.abc import Iterator

from attrs import evolve

from loopkernel.data.blocks import RawInput
from loopkernel.data.effects import CancelTimer, Effect, StartTimer, StartTool
from loopkernel.data.events import Refused
from loopkernel.data.ids import TimerOperation
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.outside_deltas import TimerFired
from loopkernel.data.states import Backoff, State, Streaming
from loopkernel.data.tool_deltas import ToolChecked
from loopkernel.data.tools import ValidCall
from loopkernel.data.words import CallStatus, RefusalReason
from loopkernel.laws.reports import Findings, Judged
from loopkernel.laws.views import entry_of_call, ledger_in, named, refuses, taken_again
from loopkernel.replay import StepRecord

_REFERENCE = '"$result"'
_RULE_ID = re.compile(r"[A-Z]+-[0-9]+")


def total(record: StepRecord, judged: Judged) -> Findings:
    """The step, taken again, gives a state and effects; it takes effect, or changes nothing and says why."""
    try:
        again: object = judged.transition(record.before, record.context)
    except Exception as error:  # whatever it is: raising is the breach
        return [f"{_met(record)} raises {type(error).__name__}: {error}"]
    if not (isinstance(again, tuple) and len(again) == 2 and isinstance(again[0], State)):
        return [f"{_met(record)} gives no state"]
    if not (isinstance(again[1], tuple) and all(isinstance(effect, Effect) for effect in again[1])):
        return [f"{_met(record)} gives something that is no effect"]
    return list(_refused_in_full(record) if refuses(record) else _accepted(record))


def _met(record: StepRecord) -> str:
    return f"{type(record.context.delta).__name__} in {type(record.before).__name__}"


def _accepted(record: StepRecord) -> Iterator[str]:
    """DELTA-7: an accepted delta is counted, so one that is not counted was dropped in silence."""
    grown = record.after.stamp.version - record.before.stamp.version
    if grown == 0:
        yield f"{_met(record)} is neither counted as accepted nor refused with a reason"
    elif grown != 1:
        yield f"{_met(record)} moves the version by {grown}, not by 1"


def _refused_in_full(record: StepRecord) -> Iterator[str]:
    """DELTA-2: what is refused changes nothing, but that the usage of a stale report is counted."""
    after, before = record.after, record.before
    if after is before:
        return
    stale = any(isinstance(effect, Refused) and effect.reason is RefusalReason.STALE for effect in record.effects)
    if stale and type(after) is type(before) and after.session is not None and before.session is not None:
        billed = evolve(after.session, usage=before.session.usage, operations=before.session.operations)
        unbilled: State = evolve(after, session=billed)
        counts = after.session.operations.minted == before.session.operations.minted
        if counts and unbilled == before:
            return
    elif after == before:
        return
    yield f"{_met(record)} is refused, and yet it changes the state"


def final_args(record: StepRecord) -> Findings:
    """What starts is a complete call of a complete reply, found valid, with the input that the model gave."""
    starts = [effect for effect in record.effects if isinstance(effect, StartTool)]
    checked = isinstance(record.context.delta, ToolChecked) and not refuses(record)
    if not starts and not checked:
        return None
    found = list(_verdict_kept(record))
    for start in starts:
        found.extend(f"call {start.call} starts, {wrong}" for wrong in _not_final(start, record.after))
    return found


def _verdict_kept(record: StepRecord) -> Iterator[str]:
    """The ledger keeps the verdict that came, for the call that it was asked about."""
    delta, before = record.context.delta, ledger_in(record.before)
    if not isinstance(delta, ToolChecked) or before is None:
        return
    for entry in before.entries:
        if entry.check == delta.operation:
            now = entry_of_call(ledger_in(record.after), entry.call.id)
            if now is not None and (now.check, now.verdict) != (None, delta.verdict):
                yield f"the verdict on {named(entry.call)} is not the one that came"


def _not_final(start: StartTool, state: State) -> Iterator[str]:
    entry = entry_of_call(ledger_in(state), start.call)
    if entry is None:
        yield "but the ledger has no such call"
        return
    if isinstance(state, Streaming):
        yield "but its reply still streams"
    if isinstance(entry.call.input, RawInput):
        yield "but its arguments do not parse"
    elif (entry.call.tool, entry.call.input) != (start.tool, start.input):
        yield f"but with other arguments than {named(entry.call)} has"
    if refers(start.input):
        yield "but its input still refers to the output of another call"
    if not isinstance(entry.verdict, ValidCall):
        found = "not checked" if entry.verdict is None else f"checked as {type(entry.verdict).__name__}"
        yield f"but it is {found}"


def refers(call_input: Json) -> bool:
    """Whether the input holds a reference that nothing has resolved: an object whose only key is `$result`."""
    if _REFERENCE not in call_input.text:
        return False
    waiting: list[JsonValue] = [call_input.value()]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if set(value) == {"$result"}:
                return True
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    return False


def timer_data(record: StepRecord) -> Findings:
    """A delay that is pending stands in state with its deadline, one per purpose; any other timer is stale."""
    delta, found = record.context.delta, list[str]()
    timers = [effect for effect in record.effects if isinstance(effect, StartTimer | CancelTimer)]
    if not isinstance(delta, TimerFired) and not timers and pending_timer(record.after) is None:
        return None
    if isinstance(delta, TimerFired) and not refuses(record):
        due = pending_timer(record.before)
        if due is None or due[0] != delta.operation:
            found.append(f"timer {delta.operation} is not pending, and yet it does something")
    pending = pending_timer(record.after)
    started = [effect for effect in timers if isinstance(effect, StartTimer)]
    for timer in started:
        if pending != (timer.operation, timer.deadline_ms):
            found.append(
                f"timer {timer.operation} ({timer.purpose.value}) is started, but the state has no such deadline"
            )
    purposes = [timer.purpose for timer in started]
    if len(set(purposes)) != len(purposes):
        found.append("two timers are started for one purpose")
    return found


def pending_timer(state: State) -> tuple[TimerOperation, int] | None:
    """The timer that the state waits for, and its deadline. Only a retry has one yet."""
    return (state.timer, state.deadline_ms) if isinstance(state, Backoff) else None


def why(record: StepRecord, judged: Judged) -> Findings:
    """`explain` names delta and rule of every effect, in order, and what every waiting call waits for."""
    try:
        told = judged.explain(record.before, record.context)
    except Exception as error:  # whatever it is: an explanation that raises explains nothing
        if taken_again(record.before, record.context, judged.transition) is None:
            return None  # there is no such step to explain, which TOTAL says
        return [f"explain raises {type(error).__name__} for {_met(record)}: {error}"]
    found: list[str] = []
    if tuple(cause.effect for cause in told.causes) != record.effects:
        names = ", ".join(type(cause.effect).__name__ for cause in told.causes)
        found.append(f"the effects of {_met(record)} are not those explained: {names or 'none'}")
    for cause in told.causes:
        if cause.delta != record.context.delta:
            found.append(f"{type(cause.effect).__name__} is put down to another delta")
        if not (_RULE_ID.fullmatch(cause.rule) and cause.because.strip()):
            found.append(f"{type(cause.effect).__name__} is explained by no rule")
    reasons = {wait.call: wait.reasons for wait in told.waits}
    ledger = ledger_in(record.after)
    for entry in () if ledger is None else ledger.entries:
        waits = entry.status in (CallStatus.QUEUED, CallStatus.BLOCKED_ON_USER)
        if waits and not any(reason.strip() for reason in reasons.get(entry.call.id, ())):
            found.append(f"{named(entry.call)} waits, and nothing says for what")
    return found
