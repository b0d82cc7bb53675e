"""Reports on the calls of a reply take effect: verdicts, progress, questions, ends, hooks, and time that is over."""

from typing import assert_never

from attrs import evolve

from loopkernel.data.blocks import TextBlock, ToolResult
from loopkernel.data.choices import OnToolFailure
from loopkernel.data.events import ToolProgressed
from loopkernel.data.hook_calls import OpenHook, RunEnd
from loopkernel.data.ids import TimerOperation
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import ApprovalWait, Ledger
from loopkernel.data.outside_deltas import HookAnswer, HookAnswered, HookBlock, HookContinue, HookModify, HookRetry
from loopkernel.data.policy import Hook
from loopkernel.data.sessions import Session
from loopkernel.data.tool_deltas import (
    ToolAsked,
    ToolChecked,
    ToolDelta,
    ToolFailed,
    ToolLost,
    ToolProgress,
    ToolStopped,
    ToolSucceeded,
)
from loopkernel.data.tools import ToolOutput
from loopkernel.data.words import CallStatus, CancelReason, HookPoint, TimerPurpose
from loopkernel.loop.algorithms.children import end_of
from loopkernel.loop.algorithms.shortening import shortened
from loopkernel.loop.algorithms.wording import (
    LOST,
    NO_RESULT,
    background_text,
    blocked_text,
    cancelled_text,
    child_end_text,
)
from loopkernel.loop.calls.approvals import approval_is_late, ask_question, take_edit_verdict
from loopkernel.loop.calls.call_hooks import ask_about, may_repeat, release, repeat_run, stop_time
from loopkernel.loop.calls.faults import answer_faulty
from loopkernel.loop.calls.held_runs import Ledgered
from loopkernel.loop.calls.ledger import (
    ask_check,
    close,
    error_result,
    note_on_edit,
    open_check,
    open_run,
    take_verdict,
)
from loopkernel.loop.calls.schedule import forget_plan
from loopkernel.loop.calls.stopping import cancel_others, run_of, stop_call
from loopkernel.loop.gates.hooks import TOO_SLOW, abort_hook, answer_of_hook, hooks_at
from loopkernel.loop.gates.timers import close_timer


def tool_report(
    ledger: Ledger, session: Session, delta: ToolDelta, now_ms: int, *, streaming: bool = False
) -> Ledgered | None:
    """A report on an open check or run takes effect on its call; None if none of this reply is open.

    While the reply is `streaming`, a call that may not run is not answered yet.
    """
    if isinstance(delta, ToolChecked):
        place = open_check(ledger, delta.operation)
        if place is None:
            return None
        wait = ledger.entries[place].person.wait
        if isinstance(wait, ApprovalWait) and wait.edit is not None:
            return take_edit_verdict(ledger, session, place, wait.edit, delta.verdict)
        judged = take_verdict(ledger, session, place, delta.verdict)
        return judged if streaming else answer_faulty(judged.ledger, judged.session, place)
    place = open_run(ledger, delta.operation)
    if place is None or ledger.entries[place].child is not None:
        return None  # a sub-agent does not report as a tool does
    match delta:
        case ToolSucceeded():
            return _succeeded(ledger, session, place, delta.output, now_ms)
        case ToolFailed():
            return _failed(ledger, session, place, delta.output, now_ms)
        case ToolProgress():
            entry = ledger.entries[place]
            ledger = ledger.put(place, evolve(entry, progress=entry.progress.append(delta.text)))
            return Ledgered(ledger, session, (ToolProgressed(entry.call.id, delta.operation, delta.text),))
        case ToolAsked():
            return ask_question(ledger, session, place, delta.question, now_ms)
        case ToolStopped():
            output = ToolOutput(content=(TextBlock(NO_RESULT),))
            return _failed(ledger, session, place, output, now_ms)
        case ToolLost():
            end = RunEnd(status=CallStatus.LOST, output=ToolOutput(content=(TextBlock(LOST),)))
            return _answered(ledger, session, place, end)  # there is nothing that a hook could look at
        case _:
            assert_never(delta)


def timer_fired(
    ledger: Ledger, session: Session, operation: TimerOperation, now_ms: int, *, streaming: bool = False
) -> Ledgered | None:
    """The time of a run, of a hook or of a person has run out; None if the timer bounds no call of this reply."""
    place = ledger.place_of_timer(operation)
    if place is None:
        return None
    entry = ledger.entries[place]
    gate, timer = entry.hooks.open, entry.timer
    if gate is not None and gate.timer is not None and gate.timer.operation == operation:
        session, aborted = abort_hook(session, gate, fired=True)
        late = take_hook_answer(ledger, session, place, gate, TOO_SLOW, now_ms, streaming=streaming)
        return evolve(late, effects=(*aborted, *late.effects))
    if timer is None or timer.operation != operation:
        return None
    if timer.purpose is TimerPurpose.APPROVAL_TIMEOUT:
        return approval_is_late(ledger, session, place, now_ms)
    return _timed_out(ledger, session, place, now_ms)


def _timed_out(ledger: Ledger, session: Session, place: int, now_ms: int) -> Ledgered:
    """The run took longer than it may: it is aborted, and the call answered with an error (TOOL-10 and CHILD-2)."""
    entry = evolve(ledger.entries[place], timer=None)
    reason = CancelReason.TIMEOUT
    why = cancelled_text(reason)
    if entry.child is not None:
        why = child_end_text(end_of(reason), entry.child.text)
    stopped = stop_call(ledger.put(place, entry), session, place, reason, now_ms, error_result(entry, why, reason))
    return _spread(stopped, now_ms)


# --- ends -----------------------------------------------------------------------------------------------


def _succeeded(ledger: Ledger, session: Session, place: int, output: ToolOutput, now_ms: int) -> Ledgered:
    """The run returned, or says that it goes on in the background (rule TOOL-20)."""
    entry = ledger.entries[place]
    run = run_of(entry, session, ledger.nonce) if output.background else None
    if run is None:
        return run_ended(ledger, session, place, RunEnd(status=CallStatus.DONE, output=output), now_ms)
    handle = evolve(output, content=output.content or (TextBlock(background_text(entry.tool)),))
    session = evolve(session, held=(*session.held, evolve(run, approved=entry.person.approved)))
    return _answered(ledger, session, place, RunEnd(status=CallStatus.DONE, output=handle), stopped=False)


def _failed(ledger: Ledger, session: Session, place: int, output: ToolOutput, now_ms: int) -> Ledgered:
    """The run failed, which is an observation for the model (rule TOOL-6)."""
    return run_ended(ledger, session, place, RunEnd(status=CallStatus.ERROR, output=output), now_ms)


def run_ended(ledger: Ledger, session: Session, place: int, end: RunEnd, now_ms: int) -> Ledgered:
    """The run, or the sub-agent, has reported its end: hooks look at it, and then it is the answer."""
    hooks = hooks_at(session.settings.policy, HookPoint.AFTER_TOOL)
    if not hooks:
        return _end_stands(ledger, session, place, end, now_ms)
    ledger, closed = stop_time(ledger, place)
    looked_at = _asked_about_end(ledger, session, place, end, hooks, now_ms)
    return evolve(looked_at, effects=(*closed, *looked_at.effects))


def _asked_about_end(
    ledger: Ledger, session: Session, place: int, end: RunEnd, hooks: tuple[Hook, ...], now_ms: int
) -> Ledgered:
    """The hooks are asked about the end of the run; once none is left, it is the answer."""
    entry = ledger.entries[place]
    ledger = ledger.put(place, entry.with_hooks(evolve(entry.hooks, end=end)))
    asked = ask_about(ledger, session, place, hooks, HookPoint.AFTER_TOOL, now_ms)
    if asked.ledger.entries[place].hooks.open is not None:
        return asked
    answered = _end_stands(asked.ledger, asked.session, place, end, now_ms)
    return evolve(answered, effects=(*asked.effects, *answered.effects))


def _end_stands(ledger: Ledger, session: Session, place: int, end: RunEnd, now_ms: int) -> Ledgered:
    answered = _answered(ledger, session, place, end)
    return _spread(answered, now_ms) if end.status is CallStatus.ERROR else answered


def _spread(failed: Ledgered, now_ms: int) -> Ledgered:
    """A run has ended in an error: by policy its siblings are cancelled."""
    if failed.session.settings.policy.on_tool_failure is not OnToolFailure.CANCEL_SIBLINGS:
        return failed
    others = cancel_others(failed.ledger, failed.session, CancelReason.SIBLING, now_ms, running=True)
    return Ledgered(others.ledger, others.session, (*failed.effects, *others.effects))


def _answered(ledger: Ledger, session: Session, place: int, end: RunEnd, *, stopped: bool = True) -> Ledgered:
    """The end of the run is the answer, cut where it is too large (TOOL-11)."""
    entry, output = ledger.entries[place], end.output
    call = entry.call
    content = (*note_on_edit(entry), *shortened(output.content, session.settings.policy.result_limit))
    result = ToolResult(
        call=call.id,
        provider_id=call.provider_id,
        tool=call.tool,
        status=end.status,
        content=content,
        ran=True,
        final=output.final,
        stops_loop=output.stops_loop,
        decided=entry.person.answered,
    )
    raw = None if content == output.content else output.content
    return close(ledger, session, place, result, stopped=stopped, output=raw)


# --- hooks ----------------------------------------------------------------------------------------------


def hook_report(
    ledger: Ledger, session: Session, delta: HookAnswered, now_ms: int, *, streaming: bool = False
) -> Ledgered | None:
    """A hook about a call has answered; None if it is none of this reply that is being asked."""
    place = ledger.place_of_hook(delta.operation)
    gate = None if place is None else ledger.entries[place].hooks.open
    if place is None or gate is None or gate.operation != delta.operation:
        return None
    taken = take_hook_answer(ledger, session, place, gate, delta.answer, now_ms, streaming=streaming)
    return evolve(taken, effects=(*close_timer(gate.timer), *taken.effects))


def take_hook_answer(
    ledger: Ledger,
    session: Session,
    place: int,
    gate: OpenHook,
    answer: HookAnswer,
    now_ms: int,
    *,
    streaming: bool = False,
) -> Ledgered:
    """What the hook says of the call, before or after its run (rule HOOK-2)."""
    ledger = release(ledger, place, gate)
    entry = ledger.entries[place]
    said = answer_of_hook(session.settings.policy, gate, answer)
    if entry.hooks.end is not None:
        return _after_run(ledger, session, place, gate, entry.hooks.end, said, now_ms)
    if isinstance(said, HookBlock):
        blocked = evolve(entry, hooks=evolve(entry.hooks, blocked=said.why))
        ledger = forget_plan(ledger.put(place, blocked))
        return Ledgered(ledger, session) if streaming else answer_faulty(ledger, session, place)
    if not isinstance(said, HookModify) or said.input is None:
        return Ledgered(ledger, session)  # the next hook is asked when the schedule looks at the call again
    changed = evolve(entry.hooks, input=said.input)
    entry = evolve(entry, hooks=changed, person=evolve(entry.person, approved=False))
    return ask_check(forget_plan(ledger.put(place, entry)), session, place, entry.tool, said.input)


def _after_run(
    ledger: Ledger,
    session: Session,
    place: int,
    gate: OpenHook,
    end: RunEnd,
    said: HookContinue | HookBlock | HookModify | HookRetry,
    now_ms: int,
) -> Ledgered:
    """A hook has looked at the end of a run: it stands, reads otherwise, is void, or the call runs once more."""
    if isinstance(said, HookBlock):
        entry = ledger.entries[place]
        closed = close(ledger, session, place, error_result(entry, blocked_text(entry.tool, said.why)))
        return _spread(closed, now_ms)
    given = ledger.entries[place].given
    if isinstance(said, HookRetry) and isinstance(given, Json) and may_repeat(ledger, session, place, now_ms):
        return repeat_run(ledger, session, place, given, now_ms)
    if isinstance(said, HookModify) and said.result is not None:
        end = evolve(end, output=evolve(end.output, content=(TextBlock(said.result),)))
    return _asked_about_end(ledger, session, place, end, gate.left, now_ms)
