"""Reports on the calls of a reply take effect: verdicts, progress, questions, ends, and time that has run out."""

from typing import assert_never

from attrs import evolve

from loopkernel.data.blocks import TextBlock, ToolResult
from loopkernel.data.choices import OnToolFailure
from loopkernel.data.events import ToolProgressed
from loopkernel.data.ids import TimerOperation
from loopkernel.data.ledgers import ApprovalWait, Ledger
from loopkernel.data.sessions import Session
from loopkernel.data.tool_deltas import (
    ToolAsked,
    ToolChecked,
    ToolDelta,
    ToolFailed,
    ToolProgress,
    ToolStopped,
    ToolSucceeded,
)
from loopkernel.data.tools import ToolOutput
from loopkernel.data.words import CallStatus, CancelReason, TimerPurpose
from loopkernel.planning.shortening import shortened
from loopkernel.planning.wording import NO_RESULT, background_text, cancelled_text
from loopkernel.regions.approvals import approval_is_late, ask_question, take_edit_verdict
from loopkernel.regions.held_runs import Ledgered
from loopkernel.regions.ledger import (
    answer_faulty,
    close,
    error_result,
    note_on_edit,
    open_check,
    open_run,
    take_verdict,
)
from loopkernel.regions.stops import cancel_others, run_of, stop_call


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
    if place is None:
        return None
    match delta:
        case ToolSucceeded():
            return _succeeded(ledger, session, place, delta.output)
        case ToolFailed():
            return _failed(ledger, session, place, delta.output, now_ms)
        case ToolProgress():
            entry = ledger.entries[place]
            ledger = ledger.put(place, evolve(entry, progress=entry.progress.append(delta.text)))
            return Ledgered(ledger, session, (ToolProgressed(entry.call.id, delta.operation, delta.text),))
        case ToolAsked():
            return ask_question(ledger, session, place, delta.question, now_ms)
        case ToolStopped():
            return _failed(ledger, session, place, ToolOutput(content=(TextBlock(NO_RESULT),)), now_ms)
        case _:
            assert_never(delta)


def timer_fired(ledger: Ledger, session: Session, operation: TimerOperation, now_ms: int) -> Ledgered | None:
    """The time of a run, or of a person, has run out; None if the timer bounds no call of this reply."""
    place = ledger.place_of_timer(operation)
    if place is None:
        return None
    timer = ledger.entries[place].timer
    if timer is None or timer.operation != operation:
        return None
    if timer.purpose is TimerPurpose.APPROVAL_TIMEOUT:
        return approval_is_late(ledger, session, place, now_ms)
    return _timed_out(ledger, session, place, now_ms)


def _timed_out(ledger: Ledger, session: Session, place: int, now_ms: int) -> Ledgered:
    """The run took longer than it may: it is aborted, and the call answered with an error (rule TOOL-10)."""
    entry = evolve(ledger.entries[place], timer=None)
    reason = CancelReason.TIMEOUT
    result = error_result(entry, cancelled_text(reason), reason)
    stopped = stop_call(ledger.put(place, entry), session, place, reason, now_ms, result)
    return _spread(stopped, now_ms)


# --- ends -----------------------------------------------------------------------------------------------


def _succeeded(ledger: Ledger, session: Session, place: int, output: ToolOutput) -> Ledgered:
    """The run returned, or says that it goes on in the background (rule TOOL-20)."""
    entry = ledger.entries[place]
    if not output.background:
        return _ended(ledger, session, place, output, CallStatus.DONE)
    run = run_of(entry, session)
    if run is None:
        return _ended(ledger, session, place, output, CallStatus.DONE)
    handle = evolve(output, content=output.content or (TextBlock(background_text(entry.tool)),))
    session = evolve(session, held=(*session.held, run))
    return _ended(ledger, session, place, handle, CallStatus.DONE, stopped=False)


def _failed(ledger: Ledger, session: Session, place: int, output: ToolOutput, now_ms: int) -> Ledgered:
    """The run failed, which is an observation for the model (rule TOOL-6)."""
    return _spread(_ended(ledger, session, place, output, CallStatus.ERROR), now_ms)


def _spread(failed: Ledgered, now_ms: int) -> Ledgered:
    """A run has ended in an error: by policy its siblings are cancelled."""
    if failed.session.settings.policy.on_tool_failure is not OnToolFailure.CANCEL_SIBLINGS:
        return failed
    others = cancel_others(failed.ledger, failed.session, CancelReason.SIBLING, now_ms, running=True)
    return Ledgered(others.ledger, others.session, (*failed.effects, *others.effects))


def _ended(
    ledger: Ledger, session: Session, place: int, output: ToolOutput, status: CallStatus, *, stopped: bool = True
) -> Ledgered:
    """The open run of the entry reported its end: its output is the answer, cut where it is too large (TOOL-11)."""
    entry = ledger.entries[place]
    call = entry.call
    content = (*note_on_edit(entry), *shortened(output.content, session.settings.policy.result_limit))
    result = ToolResult(
        call=call.id,
        provider_id=call.provider_id,
        tool=call.tool,
        status=status,
        content=content,
        ran=True,
        final=output.final,
        stops_loop=output.stops_loop,
        decided=entry.person.answered,
    )
    raw = None if content == output.content else output.content
    return close(ledger, session, place, result, stopped=stopped, output=raw)
