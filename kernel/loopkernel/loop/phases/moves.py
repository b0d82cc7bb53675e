"""How a phase is left, kept or come back to: session, stamp and effects are those of the draft."""

from typing import TypeVar

from attrs import evolve

from loopkernel.data.endings import Ending, Failure, Settled
from loopkernel.data.events import Refused
from loopkernel.data.hook_calls import OpenCorrection, OpenHook
from loopkernel.data.ids import QueueNumber
from loopkernel.data.ledgers import Ledger
from loopkernel.data.sessions import Turn
from loopkernel.data.states import (
    AtRest,
    Backoff,
    BeforeEnd,
    BeforeRequest,
    Cancelled,
    Compacting,
    Confirming,
    Dispatching,
    Done,
    Executing,
    Finishing,
    HandingOff,
    Idle,
    Initial,
    Live,
    Streaming,
    Thinking,
    new_executing,
)
from loopkernel.data.steps import Context, Step
from loopkernel.data.timers import Timer
from loopkernel.data.user_deltas import CancelAll, CompactNow, EditMessage, Say, StartHandoff
from loopkernel.data.words import CancelReason, RefusalReason, TurnEndReason
from loopkernel.loop.calls.held_runs import abort_held_runs
from loopkernel.loop.calls.late_reports import LateReport
from loopkernel.loop.draft import CallsDraft, Draft, L, new_draft
from loopkernel.loop.gates.refusals import refusal
from loopkernel.loop.history.compaction import OpenSummary, compact, planned_cut
from loopkernel.loop.life.handoff import begin_handoff
from loopkernel.loop.turn.cancelling import reason_of
from loopkernel.loop.turn.failure import Recovered
from loopkernel.loop.turn.inbox import hand_back, requeue_steers
from loopkernel.loop.turn.input import message_at_rest, open_queued_turn

S = TypeVar("S", bound=Live)


def begin(state: Live, ctx: Context) -> Draft[None]:
    """The step begins with the state's session, at the time of the delta."""
    return new_draft(state.session, state.stamp.next(ctx.now_ms), None)


def begin_on_calls(state: Streaming | Executing | Confirming | Dispatching, ctx: Context) -> CallsDraft:
    """As `begin`, in a phase that has calls."""
    return new_draft(state.session, state.stamp.next(ctx.now_ms), state.ledger)


def of_late_report(state: Streaming | Executing | Confirming | Dispatching, late: LateReport[Ledger]) -> CallsDraft:
    """A report that was refused counts for nothing; time goes on where it shows that resources are free."""
    freed = late.draft.session.held is not state.session.held
    return late.draft.as_of(state.stamp.at(late.draft.stamp.now_ms) if freed else state.stamp)


def stay(state: S, taken: Draft[None] | LateReport[None] | Refused) -> Step[S]:
    """The same phase after an input. A refused one changes nothing but usage that was billed late."""
    if isinstance(taken, Refused):
        return Step(state, (taken,))
    if isinstance(taken, LateReport):
        session = taken.draft.session
        return Step(state if session is state.session else evolve(state, session=session), taken.draft.effects)
    return Step(evolve(state, session=taken.session, stamp=taken.stamp), taken.effects)


# --- to another phase -----------------------------------------------------------------------------------


def to_initial(draft: Draft[L], waiting: Ledger | None = None) -> Step[Initial]:
    """The thread is released; `waiting` are the calls that wait for a person."""
    return Step(Initial(session=draft.session, stamp=draft.stamp, ledger=waiting), draft.effects)


def to_idle(draft: Draft[L]) -> Step[Idle]:
    """At rest."""
    return Step(Idle(session=draft.session, stamp=draft.stamp), draft.effects)


def to_cancelled(draft: Draft[L], reason: CancelReason) -> Step[Cancelled]:
    """At rest, since everything was cut short."""
    return Step(Cancelled(session=draft.session, stamp=draft.stamp, reason=reason), draft.effects)


def to_done(draft: Draft[L], reason: TurnEndReason, cancel: CancelReason | None = None) -> Step[Done]:
    """The run is over: its queue is handed back, and nothing is awaited (rule STATE-8)."""
    draft = abort_held_runs(hand_back(draft))
    return Step(Done(session=draft.session, stamp=draft.stamp, reason=reason, cancel=cancel), draft.effects)


def to_thinking(
    draft: Draft[L], turn: Turn, passed: BeforeRequest = BeforeRequest.NOTHING, gate: OpenHook | None = None
) -> Step[Thinking]:
    """On to the next request; `passed` are the gates before it, and `gate` is one that waits."""
    thinking = Thinking(session=draft.session, stamp=draft.stamp, turn=turn, gate=gate, passed=passed)
    return Step(thinking, draft.effects)


def to_executing(draft: CallsDraft, turn: Turn, settled: Settled | None = None) -> Step[Executing]:
    """On to the calls of the reply, and then to what is settled."""
    executing = new_executing(session=draft.session, stamp=draft.stamp, turn=turn, ledger=draft.ledger, settled=settled)
    return Step(executing, draft.effects)


def to_finishing(
    draft: Draft[L],
    turn: Turn,
    ending: Ending,
    passed: BeforeEnd = BeforeEnd.NOTHING,
    gate: OpenHook | OpenCorrection | None = None,
) -> Step[Finishing]:
    """On to the end of the turn; `passed` are the gates before it, and `gate` is one that waits."""
    finishing = Finishing(session=draft.session, stamp=draft.stamp, turn=turn, ending=ending, gate=gate, passed=passed)
    return Step(finishing, draft.effects)


def to_compacting(
    draft: Draft[L], within: Turn | AtRest, summary: OpenSummary, failure: Failure | None = None
) -> Step[Compacting]:
    """A summary is awaited; in a turn it may be for a failure."""
    compacting = Compacting(
        session=draft.session,
        stamp=draft.stamp,
        within=within,
        operation=summary.operation,
        cut=summary.cut,
        failure=failure,
    )
    return Step(compacting, draft.effects)


def to_recovery(after: Recovered[L], failure: Failure) -> Step[Thinking | Backoff | Compacting | Finishing]:
    """Where the failure of a model call leads: to the end of the turn, a summary, a wait, or the next request."""
    draft, turn = after.draft, after.turn
    if isinstance(after.way, Ending):
        return to_finishing(draft, turn, after.way)
    if isinstance(after.way, OpenSummary):
        return to_compacting(draft, turn, after.way, failure)
    if isinstance(after.way, Timer):
        backoff = Backoff(session=draft.session, stamp=draft.stamp, turn=turn, timer=after.way, error=failure.error)
        return Step(backoff, draft.effects)
    return to_thinking(draft, turn)


# --- at rest --------------------------------------------------------------------------------------------


def back_at_rest(draft: Draft[None], within: AtRest) -> Step[Idle | Cancelled | Thinking]:
    """What was done at rest is over: what the user has said meanwhile starts a turn, else the session rests again."""
    inbox = draft.session.inbox
    spoken = bool(inbox.steers) or any(waiting.number > within.queued for waiting in inbox.queue)
    draft = requeue_steers(draft)
    if spoken:
        draft, turn = open_queued_turn(draft)
        return to_thinking(draft, turn)
    return to_rest(draft, within)


def to_rest(draft: Draft[None], within: AtRest) -> Step[Idle | Cancelled]:
    """The state at rest in which the session was."""
    return to_idle(draft) if within.cancel is None else to_cancelled(draft, within.cancel)


R = TypeVar("R", Idle, Cancelled)


def start_at_rest(
    state: R, ctx: Context, delta: CompactNow | StartHandoff, cancel: CancelReason | None
) -> Step[R | Compacting | HandingOff]:
    """The user wants the thread made smaller, or the work carried over, while nothing is open."""
    draft = begin(state, ctx)
    within = AtRest(queued=QueueNumber(state.session.counters.queued), cancel=cancel)
    if isinstance(delta, StartHandoff):
        draft, operation = begin_handoff(draft, delta.goal)
        handing_off = HandingOff(
            session=draft.session, stamp=draft.stamp, within=within, operation=operation, goal=delta.goal
        )
        return Step(handing_off, draft.effects)
    cut = planned_cut(draft.session)
    if cut is None:
        return Step(state, (refusal(delta, RefusalReason.NOT_NOW),))
    draft, summary = compact(draft, cut)
    return stay(state, draft) if summary is None else to_compacting(draft, within, summary)


def cut_at_rest(draft: Draft[None], cause: CancelAll | Say | EditMessage) -> Step[Cancelled | Thinking]:
    """What was done at rest is cut short already: by a cancel, or by a message that starts a turn."""
    if isinstance(cause, CancelAll):
        return to_cancelled(requeue_steers(draft), reason_of(cause))
    draft, turn = message_at_rest(requeue_steers(draft), cause)
    return to_thinking(draft, turn)
