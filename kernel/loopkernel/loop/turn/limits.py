"""What stands in the way of another request: spent budgets, too many rounds, a model that repeats itself.

Rules LIMIT-1, LIMIT-2 and LIMIT-3.
"""

from typing import assert_never

from loopkernel.data.blocks import RawInput
from loopkernel.data.endings import Ending
from loopkernel.data.events import LoopNoted, LoopStopped, ToolDisabled
from loopkernel.data.ledgers import ApprovalWait, Ledger, LedgerEntry
from loopkernel.data.messages import UserOrigin
from loopkernel.data.sessions import Session, Turn
from loopkernel.data.watches import Watch, WatchedCall
from loopkernel.data.words import CallStatus, CancelReason, LimitName, TurnEndReason
from loopkernel.loop.algorithms.budget import budget_reached, turn_limit_reached
from loopkernel.loop.algorithms.loop_detection import Disabled, Noted, Stopped, assess, watch_call
from loopkernel.loop.algorithms.wording import repetition_text
from loopkernel.loop.calls.stopping import cancel_calls
from loopkernel.loop.draft import CallsDraft, Draft, L
from loopkernel.loop.history.thread import add_note

OUT_OF_BUDGET = Ending(reason=TurnEndReason.BUDGET_EXCEEDED)


def budget_hit(session: Session, turn: Turn, now_ms: int) -> LimitName | None:
    """The budget of the run, or of the turn, that is spent."""
    policy = session.settings.policy
    if policy.max_total_tokens is None and policy.max_wall_ms is None and policy.max_cost_usd is None:
        return None  # at once, since each report on a call asks
    return budget_reached(policy, session.usage, now_ms - turn.opened_ms)


def limit_hit(session: Session, turn: Turn, now_ms: int) -> LimitName | None:
    """What stands in the way of another request."""
    spent = budget_hit(session, turn, now_ms)
    if spent is None and turn_limit_reached(session.settings.policy, turn.replies):
        return LimitName.MAX_TURNS
    return spent


def cancel_for_budget(draft: CallsDraft) -> CallsDraft:
    """A budget is spent: the calls that have not started are answered as cancelled."""
    return cancel_calls(draft, CancelReason.LIMIT, lambda _, entry: _has_to_start(entry))


def _has_to_start(entry: LedgerEntry) -> bool:
    """Whether nothing of the call has run. A run that a crash has interrupted is repeated: it is awaited (RESUME-3)."""
    return entry.runs == 0 and (entry.status is CallStatus.QUEUED or isinstance(entry.person.wait, ApprovalWait))


# --- repetition -----------------------------------------------------------------------------------------


def watch_calls(session: Session, ledger: Ledger) -> Watch:
    """A round has passed: the calls of its reply, which stays, are remembered, as far back as policy looks."""
    tiers, watch = session.settings.policy.loop, session.watch
    if tiers is None:
        return watch
    for entry in ledger.entries:
        given = entry.call.input
        call = WatchedCall(entry.call.tool, None if isinstance(given, RawInput) else given)
        watch = watch_call(watch, call, tiers.window)
    if not watch.due and (watch.calls or watch.disabled):
        watch = watch.marked(due=True)
    return watch


def check_repetition(draft: Draft[L]) -> tuple[Draft[L], bool]:
    """Before a request: a note, a tool that is not offered for some rounds, or (True) the end of the turn.

    Where no round has passed since the last check, as before a retry, nothing is found.
    """
    session = draft.session
    if not session.watch.due:
        return draft, False
    settings = session.settings
    polling: set[str] = {tool.name for tool in settings.tools if tool.profile is not None and tool.profile.polling}
    exempt = polling if settings.policy.output_tool is None else {*polling, settings.policy.output_tool}
    watch, findings = assess(session.watch.marked(due=False), settings.policy.loop, exempt)
    draft = draft.with_session(session.updated(watch=watch))
    stopped = False
    for finding in findings:
        match finding:
            case Noted(tool):
                draft = add_note(draft.tell(LoopNoted(tool)), repetition_text(tool), UserOrigin.LOOP_NOTE)
            case Disabled(tool):
                draft = draft.tell(ToolDisabled(tool))
            case Stopped(tool):
                stopped = True
                draft = draft.tell(LoopStopped(tool))
            case _:
                assert_never(finding)
    return draft, stopped
