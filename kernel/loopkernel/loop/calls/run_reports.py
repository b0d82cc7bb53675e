"""Reports on the calls of a reply take effect: verdicts, progress, questions, ends, hooks, and time that is over.

While the reply is `streaming`, a call that may not run is not answered yet.
"""

from typing import assert_never

from attrs import evolve

from loopkernel.data.blocks import TextBlock, new_result
from loopkernel.data.choices import OnToolFailure
from loopkernel.data.events import ChildFinished, ToolProgressed
from loopkernel.data.hook_calls import OpenHook, RunEnd
from loopkernel.data.ids import TimerOperation
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import ApprovalWait
from loopkernel.data.outside_deltas import (
    ChildAsks,
    ChildEnded,
    ChildProgress,
    HookAnswer,
    HookAnswered,
    HookBlock,
    HookContinue,
    HookModify,
    HookRetry,
    OutsideDelta,
)
from loopkernel.data.policy import Hook
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
from loopkernel.data.words import NATURAL_ENDS, CallStatus, CancelReason, HookPoint, TimerPurpose
from loopkernel.loop.algorithms.children import end_of
from loopkernel.loop.algorithms.scheduling import unpark
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
from loopkernel.loop.calls.call_hooks import ask_about, close_run_timer, may_repeat, pass_call_hook, repeat_run
from loopkernel.loop.calls.children import child_asks, child_said
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
from loopkernel.loop.calls.stopping import answer_faulty, cancel_others, run_of, stop_call
from loopkernel.loop.draft import CallsDraft
from loopkernel.loop.gates.hooks import TOO_SLOW, abort_gate, answer_of_hook, hooks_at, is_time_of


def tool_report(draft: CallsDraft, delta: ToolDelta, *, streaming: bool = False) -> CallsDraft | None:
    """A report on an open check or run takes effect on its call; None if none of this reply is open."""
    ledger = draft.ledger
    if isinstance(delta, ToolChecked):
        place = open_check(ledger, delta.operation)
        if place is None:
            return None
        wait = ledger.entries[place].person.wait
        if isinstance(wait, ApprovalWait) and wait.edit is not None:
            return take_edit_verdict(draft, place, wait.edit, delta.verdict)
        draft = take_verdict(draft, place, delta.verdict)
        return draft if streaming else answer_faulty(draft, place)
    place = open_run(ledger, delta.operation)
    if place is None or ledger.entries[place].child is not None:
        return None  # a sub-agent does not report as a tool does
    match delta:
        case ToolSucceeded():
            return _succeeded(draft, place, delta.output)
        case ToolFailed():
            return run_ended(draft, place, RunEnd(status=CallStatus.ERROR, output=delta.output))
        case ToolProgress():
            entry = ledger.entries[place]
            draft = draft.put(place, evolve(entry, progress=entry.progress.append(delta.text)))
            return draft.tell(ToolProgressed(entry.call.id, delta.operation, delta.text))
        case ToolAsked():
            return ask_question(draft, place, delta.question)
        case ToolStopped():
            output = ToolOutput(content=(TextBlock(NO_RESULT),))
            return run_ended(draft, place, RunEnd(status=CallStatus.ERROR, output=output))
        case ToolLost():
            end = RunEnd(status=CallStatus.LOST, output=ToolOutput(content=(TextBlock(LOST),)))
            return _answered(draft, place, end)  # there is nothing that a hook could look at
        case _:
            assert_never(delta)


def outside_report(draft: CallsDraft, delta: OutsideDelta, *, streaming: bool = False) -> CallsDraft | None:
    """A report of a hook or a sub-agent takes effect on a call of this reply; None if it is about none that is open."""
    if isinstance(delta, HookAnswered):
        return _hook_report(draft, delta, streaming)
    if not isinstance(delta, ChildProgress | ChildAsks | ChildEnded):
        return None
    place = open_run(draft.ledger, delta.operation)
    child = None if place is None else draft.ledger.entries[place].child
    if place is None or child is None:
        return None
    match delta:
        case ChildProgress():
            return child_said(draft, place, child, delta.text)
        case ChildAsks():
            return child_asks(draft, place, delta)
        case ChildEnded():
            return _child_ended(draft, place, delta)
        case _:
            assert_never(delta)


def timer_fired(draft: CallsDraft, operation: TimerOperation, *, streaming: bool = False) -> CallsDraft | None:
    """The time of a run, of a hook or of a person has run out; None if the timer bounds no call of this reply."""
    place = draft.ledger.place_of_timer(operation)
    if place is None:
        return None
    entry = draft.ledger.entries[place]
    gate, timer = entry.hooks.open, entry.timer
    if gate is not None and is_time_of(gate, operation):
        return _take_hook_answer(abort_gate(draft, gate, fired=True), place, gate, TOO_SLOW, streaming)
    if timer is None or timer.operation != operation:
        return None
    if timer.purpose is TimerPurpose.APPROVAL_TIMEOUT:
        return approval_is_late(draft, place)
    return _timed_out(draft, place)


def _timed_out(draft: CallsDraft, place: int) -> CallsDraft:
    """The run took longer than it may: it is aborted, and the call answered with an error (TOOL-10 and CHILD-2)."""
    entry = evolve(draft.ledger.entries[place], timer=None)
    reason = CancelReason.TIMEOUT
    why = cancelled_text(reason)
    if entry.child is not None:
        why = child_end_text(end_of(reason), entry.child.text)
    return _spread(stop_call(draft.put(place, entry), place, reason, error_result(entry, why, reason)))


# --- ends -----------------------------------------------------------------------------------------------


def _succeeded(draft: CallsDraft, place: int, output: ToolOutput) -> CallsDraft:
    """The run returned, or says that it goes on in the background (rule TOOL-20)."""
    entry, session = draft.ledger.entries[place], draft.session
    run = run_of(entry, session, draft.ledger.nonce) if output.background else None
    if run is None:
        return run_ended(draft, place, RunEnd(status=CallStatus.DONE, output=output))
    handle = evolve(output, content=output.content or (TextBlock(background_text(entry.tool)),))
    run = evolve(run, approved=entry.person.approved)
    draft = draft.with_session(evolve(session, held=(*session.held, run)))
    return _answered(draft, place, RunEnd(status=CallStatus.DONE, output=handle), stopped=False)


def _child_ended(draft: CallsDraft, place: int, delta: ChildEnded) -> CallsDraft:
    """The sub-agent has come to its end, natural or not; what it has used is its parent's (rule CHILD-2)."""
    session = draft.session
    started = session.started + delta.tool_calls
    draft = draft.with_session(session.updated(usage=session.usage.plus(delta.usage), started=started))
    draft = draft.tell(ChildFinished(draft.ledger.entries[place].call.id, delta.reason))
    natural = delta.reason in NATURAL_ENDS
    text = delta.text if natural else child_end_text(delta.reason, delta.text)
    output = ToolOutput(content=(TextBlock(text),) if text else ())
    draft = run_ended(draft, place, RunEnd(status=CallStatus.DONE if natural else CallStatus.ERROR, output=output))
    plan = draft.ledger.plan  # what was reserved for it is there for others, whatever hooks say of its end
    return draft if plan is None else draft.with_ledger(evolve(draft.ledger, plan=unpark(plan)))


def run_ended(draft: CallsDraft, place: int, end: RunEnd) -> CallsDraft:
    """The run, or the sub-agent, has reported its end: hooks look at it, and then it is the answer."""
    policy = draft.session.settings.policy
    hooks = hooks_at(policy, HookPoint.AFTER_TOOL) if policy.hooks else ()
    if not hooks:
        return _end_stands(draft, place, end)
    return _ask_about_end(close_run_timer(draft, place), place, end, hooks)


def _ask_about_end(draft: CallsDraft, place: int, end: RunEnd, hooks: tuple[Hook, ...]) -> CallsDraft:
    """The hooks are asked about the end of the run; once none is left, it is the answer."""
    entry = draft.ledger.entries[place]
    draft = draft.put(place, entry.with_hooks(evolve(entry.hooks, end=end)))
    draft = ask_about(draft, place, hooks, HookPoint.AFTER_TOOL)
    return _end_stands(draft, place, end) if draft.ledger.entries[place].hooks.open is None else draft


def _end_stands(draft: CallsDraft, place: int, end: RunEnd) -> CallsDraft:
    draft = _answered(draft, place, end)
    return _spread(draft) if end.status is CallStatus.ERROR else draft


def _spread(draft: CallsDraft) -> CallsDraft:
    """A run has ended in an error: by policy its siblings are cancelled."""
    if draft.session.settings.policy.on_tool_failure is not OnToolFailure.CANCEL_SIBLINGS:
        return draft
    return cancel_others(draft, CancelReason.SIBLING)


def _answered(draft: CallsDraft, place: int, end: RunEnd, *, stopped: bool = True) -> CallsDraft:
    """The end of the run is the answer, cut where it is too large (TOOL-11)."""
    entry, output = draft.ledger.entries[place], end.output
    call = entry.call
    content = (*note_on_edit(entry), *shortened(output.content, draft.session.settings.policy.result_limit))
    result = new_result(
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
    return close(draft, place, result, stopped=stopped, output=raw)


# --- hooks ----------------------------------------------------------------------------------------------


def _hook_report(draft: CallsDraft, delta: HookAnswered, streaming: bool) -> CallsDraft | None:
    """A hook about a call has answered; None if it is none of this reply that is being asked."""
    place = draft.ledger.place_of_hook(delta.operation)
    gate = None if place is None else draft.ledger.entries[place].hooks.open
    if place is None or gate is None or gate.operation != delta.operation:
        return None
    return _take_hook_answer(draft.close_timer(gate.timer), place, gate, delta.answer, streaming)


def _take_hook_answer(draft: CallsDraft, place: int, gate: OpenHook, answer: HookAnswer, streaming: bool) -> CallsDraft:
    """What the hook says of the call, before or after its run (rule HOOK-2)."""
    draft = pass_call_hook(draft, place, gate)
    entry = draft.ledger.entries[place]
    said = answer_of_hook(draft.session.settings.policy, gate, answer)
    if entry.hooks.end is not None:
        return _after_run(draft, place, gate, entry.hooks.end, said)
    if isinstance(said, HookBlock):
        entry = evolve(entry, hooks=evolve(entry.hooks, blocked=said.why))
    elif isinstance(said, HookModify) and said.input is not None:
        changed = evolve(entry.hooks, input=said.input)
        entry = evolve(entry, hooks=changed, person=evolve(entry.person, approved=False))
    else:
        return draft  # the next hook is asked when the schedule looks at the call again
    draft = draft.with_ledger(forget_plan(draft.ledger.put(place, entry)))
    if isinstance(said, HookModify) and said.input is not None:
        return ask_check(draft, place, entry.tool, said.input)
    return draft if streaming else answer_faulty(draft, place)


def _after_run(
    draft: CallsDraft,
    place: int,
    gate: OpenHook,
    end: RunEnd,
    said: HookContinue | HookBlock | HookModify | HookRetry,
) -> CallsDraft:
    """A hook has looked at the end of a run: it stands, reads otherwise, is void, or the call runs once more."""
    entry = draft.ledger.entries[place]
    given = entry.given
    if isinstance(said, HookBlock):
        return _spread(close(draft, place, error_result(entry, blocked_text(entry.tool, said.why))))
    if isinstance(said, HookRetry) and isinstance(given, Json) and may_repeat(draft, place):
        return repeat_run(draft, place, given)
    if isinstance(said, HookModify) and said.result is not None:
        end = evolve(end, output=evolve(end.output, content=(TextBlock(said.result),)))
    return _ask_about_end(draft, place, end, gate.left)
