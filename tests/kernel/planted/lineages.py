"""Planted bugs about what is kept over an edit, a fork, a restart and the end: input, timers, runs, the log.

As in `bugs`: each is caught by its own law, and by no other.
"""

from collections.abc import Iterator

from attrs import evolve
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import AbortTool, CancelTimer, Effect, StartTimer, StartTool
from loopkernel.data.events import (
    ErrorShown,
    InputSettled,
    Refused,
    ThreadRepaired,
    TurnEnded,
    WorkCancelled,
)
from loopkernel.data.ids import OperationKind
from loopkernel.data.model_deltas import ModelCompleted
from loopkernel.data.outside_deltas import TimerFired
from loopkernel.data.records import StepRecord
from loopkernel.data.sessions import NO_RECOVERY, ShownError
from loopkernel.data.states import Backoff, Done, Idle, Initial, State, Streaming
from loopkernel.data.steps import Context, Step, is_refused
from loopkernel.data.thread_deltas import Forked, Resumed
from loopkernel.data.user_deltas import EditMessage
from loopkernel.data.vector import Vector
from loopkernel.data.words import (
    CancelReason,
    InputFate,
    RefusalReason,
    TimerPurpose,
    UserAction,
)
from loopkernel.laws.ending_laws import entries_in
from loopkernel.laws.step_laws import pending_timers
from loopkernel.replaying import Transition
from loopkernel.testing.planted.planting import (
    Plant,
    PlantedBug,
    changing_effects,
    changing_states,
    changing_steps,
    with_inbox,
    with_session,
)

UNWRITABLE = "\ud800"


# --- input ----------------------------------------------------------------------------------------------------


def _superseded(effect: Effect) -> bool:
    return isinstance(effect, InputSettled) and effect.fate is InputFate.SUPERSEDED


def _edit_supersedes_nothing(record: StepRecord) -> Iterator[Effect]:
    return (effect for effect in record.effects if not _superseded(effect))


def _edit_supersedes_one(record: StepRecord) -> Iterator[Effect]:
    """Only the message that is edited is told to be superseded, not those that were dropped with it."""
    first = next(filter(_superseded, record.effects), None)
    return (effect for effect in record.effects if effect is first or not _superseded(effect))


def _queue_dropped_by(kind: type[Delta]) -> Plant:
    def change(record: StepRecord) -> State:
        session = record.after.session
        if session is None or not isinstance(record.context.delta, kind) or is_refused(record.effects):
            return record.after
        return with_inbox(record.after, evolve(session.inbox, queue=()))

    return changing_states(change)


def _kept_by_the_end(record: StepRecord) -> Step[State]:
    """A run that an error ends keeps what was queued."""
    if not isinstance(record.after, Done) or record.before.session is None:
        return Step(record.after, record.effects)
    kept = with_inbox(record.after, record.before.session.inbox)
    back = InputFate.HANDED_BACK
    told = (effect for effect in record.effects if not (isinstance(effect, InputSettled) and effect.fate is back))
    return Step(kept, tuple(told))


# --- timers ---------------------------------------------------------------------------------------------------


def _left_behind(purpose: TimerPurpose) -> Plant:
    """Timers of this purpose are never closed."""

    def change(record: StepRecord) -> Iterator[Effect]:
        left = {timer.operation for timer in pending_timers(record.before) if timer.purpose is purpose}
        for effect in record.effects:
            if not (isinstance(effect, CancelTimer) and effect.operation in left):
                yield effect

    return changing_effects(change)


def _countdown_starts_anew(record: StepRecord) -> Step[State]:
    before, after = record.before, record.after
    if not (isinstance(before, Backoff) and isinstance(after, Backoff) and isinstance(record.context.delta, Resumed)):
        return Step(after, record.effects)
    anew_ms = after.timer.deadline_ms + after.stamp.now_ms - before.stamp.now_ms
    told = (
        evolve(effect, deadline_ms=anew_ms) if isinstance(effect, StartTimer) else effect for effect in record.effects
    )
    return Step(evolve(after, timer=evolve(after.timer, deadline_ms=anew_ms)), tuple(told))


def _not_timed_after_restart(record: StepRecord) -> Step[State]:
    """After a restart the old timer of a retry is waited for, which nobody keeps any more."""
    before, after = record.before, record.after
    if not (isinstance(before, Backoff) and isinstance(after, Backoff) and isinstance(record.context.delta, Resumed)):
        return Step(after, record.effects)
    session = evolve(after.session, operations=before.session.operations)
    told = tuple(effect for effect in record.effects if not isinstance(effect, StartTimer))
    return Step(evolve(after, session=session, timer=before.timer), told)


# --- forks ----------------------------------------------------------------------------------------------------


def _on_fork(record: StepRecord) -> bool:
    return isinstance(record.context.delta, Forked) and not is_refused(record.effects)


def _fork_closes_timers(record: StepRecord) -> Iterator[Effect]:
    yield from record.effects
    if _on_fork(record):
        yield from (CancelTimer(timer.operation) for timer in pending_timers(record.before))


def _fork_aborts(record: StepRecord) -> Iterator[Effect]:
    yield from record.effects
    if _on_fork(record):
        for entry in entries_in(record.before):
            if entry.is_running and entry.operation is not None:
                yield AbortTool(entry.operation, CancelReason.USER_INTERRUPTED)


def _fork_is_told_as_cancel(record: StepRecord) -> Iterator[Effect]:
    for effect in record.effects:
        if _on_fork(record) and isinstance(effect, TurnEnded):
            yield WorkCancelled(CancelReason.USER_INTERRUPTED)
        yield effect


def _fork_keeps_its_number(record: StepRecord) -> State:
    before, after = record.before.session, record.after.session
    if before is None or after is None or not _on_fork(record):
        return record.after
    return with_session(record.after, lambda session: evolve(session, settings=before.settings))


def _reply_of_fork_reported(record: StepRecord) -> State:
    """The model call of the lineage that was forked is taken to have reported."""
    after = record.after.session
    if after is None or not _on_fork(record) or not isinstance(record.before, Streaming):
        return record.after
    forgotten = Vector.of(list(after.operations.abandoned_models)[:-1])
    operations = evolve(after.operations, abandoned_models=forgotten)
    return with_session(record.after, lambda session: session.with_operations(operations))


def _forgotten_by_fork(kind: OperationKind) -> Plant:
    """Operations of this kind that belong to the lineage that was forked are taken to have reported."""

    def change(record: StepRecord) -> State:
        before, after = record.before.session, record.after.session
        if before is None or after is None or not _on_fork(record):
            return record.after
        known, kept = before.operations.abandoned, after.operations.abandoned
        operations = evolve(after.operations, abandoned=(*kept[:kind], known[kind], *kept[kind + 1 :]))
        return with_session(record.after, lambda session: session.with_operations(operations))

    return changing_states(change)


def _timers_unknown_at_rest(record: StepRecord) -> Iterator[Effect]:
    unknown = isinstance(record.context.delta, TimerFired) and isinstance(record.before, Idle)
    for effect in record.effects:
        yield Refused(UserAction.REPORT, RefusalReason.UNKNOWN) if unknown and isinstance(effect, Refused) else effect


# --- the log --------------------------------------------------------------------------------------------------


def _unwatched(record: StepRecord) -> Iterator[Effect]:
    """Nobody is asked to say when a stream has been silent for too long, unless it is one after a restart."""
    restarted = isinstance(record.context.delta, Resumed)
    for effect in record.effects:
        if restarted or not (isinstance(effect, StartTimer) and effect.purpose is TimerPurpose.SILENCE):
            yield effect


def _minted_for_nothing(record: StepRecord) -> State:
    """A retry takes two numbers for its timer."""
    after = record.after
    if not isinstance(after, Backoff) or isinstance(record.before, Backoff):
        return after
    operations, _ = after.session.operations.mint(OperationKind.TIMER)
    return evolve(after, session=after.session.with_operations(operations))


def _message_as_it_came(record: StepRecord) -> Step[State]:
    """The message of an error is shown as the provider sent it, which nobody can write down."""
    if not any(isinstance(effect, ErrorShown) for effect in record.effects) or record.after.session is None:
        return Step(record.after, record.effects)
    shown = record.after.session.error
    error = None if shown is None else ShownError(shown.error, UNWRITABLE)
    state = with_session(record.after, lambda session: evolve(session, error=error))
    told = (evolve(one, message=UNWRITABLE) if isinstance(one, ErrorShown) else one for one in record.effects)
    return Step(state, tuple(told))


def _key_of_each_run(record: StepRecord) -> Iterator[Effect]:
    for effect in record.effects:
        yield evolve(effect, key=f"{effect.key}/{effect.run}") if isinstance(effect, StartTool) else effect


# --- kernels that remember ------------------------------------------------------------------------------------


def _restored_without(forget_retries: bool) -> Plant:
    """A state that this very kernel has not made, as one that was restored, has lost something."""

    def plant(transition: Transition) -> Transition:
        made: dict[int, State] = {}

        def broken(state: State, ctx: Context) -> Step[State]:
            known = id(state) in made or isinstance(state, Initial)
            after, effects = transition(state if known else lost(state), ctx)
            made[id(after)] = after
            return Step(after, effects)

        return broken

    def lost(state: State) -> State:
        if not forget_retries:
            return with_session(state, lambda session: evolve(session, started=0))
        return evolve(state, turn=evolve(state.turn, recovery=NO_RECOVERY)) if isinstance(state, Backoff) else state

    return plant


def _error_of_reply_untold(record: StepRecord) -> Iterator[Effect]:
    """The error for which a whole reply ends the turn is not told."""
    whole = isinstance(record.context.delta, ModelCompleted)
    return (effect for effect in record.effects if not (whole and isinstance(effect, ErrorShown)))


def _last_repair_untold(record: StepRecord) -> Iterator[Effect]:
    for effect in record.effects:
        if isinstance(effect, ThreadRepaired) and len(effect.repairs) > 1:
            yield ThreadRepaired(effect.repairs[:-1])
        else:
            yield effect


PLANTED_LINEAGES = (
    PlantedBug(name="edit-supersedes-nothing", law="CONSERVE", plant=changing_effects(_edit_supersedes_nothing)),
    PlantedBug(name="edit-supersedes-one", law="CONSERVE", plant=changing_effects(_edit_supersedes_one)),
    PlantedBug(name="edit-drops-the-queue", law="CONSERVE", plant=_queue_dropped_by(EditMessage)),
    PlantedBug(name="fork-drops-the-queue", law="CONSERVE", plant=_queue_dropped_by(Forked)),
    PlantedBug(name="queue-kept-by-the-end", law="CONSERVE", plant=changing_steps(_kept_by_the_end)),
    PlantedBug(name="silence-timer-left", law="TIMER-DATA", plant=_left_behind(TimerPurpose.SILENCE)),
    PlantedBug(name="retry-timer-left", law="TIMER-DATA", plant=_left_behind(TimerPurpose.RETRY)),
    PlantedBug(name="countdown-starts-anew", law="TIMER-DATA", plant=changing_steps(_countdown_starts_anew)),
    PlantedBug(name="retry-untimed-after-restart", law="TIMER-DATA", plant=changing_steps(_not_timed_after_restart)),
    PlantedBug(name="fork-closes-timers", law="TIMER-DATA", plant=changing_effects(_fork_closes_timers)),
    PlantedBug(name="fork-aborts-runs", law="CANCEL-STOP", plant=changing_effects(_fork_aborts)),
    PlantedBug(name="fork-told-as-cancel", law="CANCEL-STOP", plant=changing_effects(_fork_is_told_as_cancel)),
    PlantedBug(name="fork-keeps-its-number", law="AT-MOST-ONCE", plant=changing_states(_fork_keeps_its_number)),
    PlantedBug(name="key-of-each-run", law="AT-MOST-ONCE", plant=changing_effects(_key_of_each_run)),
    PlantedBug(name="fork-forgets-open-reply", law="FORK-EQ", plant=changing_states(_reply_of_fork_reported)),
    *(
        PlantedBug(name=f"fork-forgets-open-{kind.name.lower()}", law="FORK-EQ", plant=_forgotten_by_fork(kind))
        for kind in (
            OperationKind.CHECK,
            OperationKind.RUN,
            OperationKind.HOOK,
            OperationKind.CORRECTION,
            OperationKind.SUMMARY,
            OperationKind.HANDOFF,
        )
    ),
    PlantedBug(name="timers-unknown-at-rest", law="FORK-EQ", plant=changing_effects(_timers_unknown_at_rest)),
    PlantedBug(name="restored-retries-whole", law="FORK-EQ", plant=_restored_without(True), hidden=True),
    PlantedBug(name="restored-calls-uncounted", law="FORK-EQ", plant=_restored_without(False), hidden=True),
    PlantedBug(name="silence-unwatched", law="WRITE-AHEAD", plant=changing_effects(_unwatched)),
    PlantedBug(name="minted-for-nothing", law="WRITE-AHEAD", plant=changing_states(_minted_for_nothing)),
    PlantedBug(name="error-as-it-came", law="WRITE-AHEAD", plant=changing_steps(_message_as_it_came)),
    PlantedBug(name="error-untold", law="MIRROR", plant=changing_effects(_error_of_reply_untold)),
    PlantedBug(name="last-repair-untold", law="REPAIR-FIX", plant=changing_effects(_last_repair_untold)),
)
