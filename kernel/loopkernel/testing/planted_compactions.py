"""Planted bugs about compaction and handoff. As in `planted`: each is caught by its own law, and by no other."""

from collections.abc import Callable, Iterator

from attrs import evolve

from loopkernel.data.blocks import TextBlock
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import AbortOther, CallModel, Effect, HandOff
from loopkernel.data.events import (
    CompactionEnded,
    HandoffEnded,
    MessageAdded,
    ThreadCompacted,
    ThreadRewritten,
    TurnEnded,
)
from loopkernel.data.ids import OperationKind
from loopkernel.data.messages import Message, UserMessage
from loopkernel.data.outside_deltas import HandoffDone, HandoffFailed, SummaryFailed, SummaryReady
from loopkernel.data.policy import Compaction, Policy
from loopkernel.data.records import StepRecord
from loopkernel.data.states import Compacting, Finishing, State, Streaming, Thinking
from loopkernel.data.steps import Context, Step, is_refused
from loopkernel.data.threads import Thread
from loopkernel.data.usage import NO_USAGE
from loopkernel.data.user_deltas import CancelAll
from loopkernel.data.vector import Vector
from loopkernel.data.words import RequestReason, TurnEndReason
from loopkernel.replay import Transition
from loopkernel.testing.planting import (
    Plant,
    PlantedBug,
    changing_deltas,
    changing_effects,
    changing_states,
    changing_steps,
    under_policy,
    with_inbox,
    with_request_thread,
    with_session,
    with_thread,
)

# --- what is cut --------------------------------------------------------------------------------------------------


def _keeping(change: Callable[[Compaction], Compaction]) -> Plant:
    """More is kept than policy says."""

    def apply(policy: Policy) -> Policy:
        known = policy.compaction
        return policy if known is None else evolve(policy, compaction=change(known))

    return under_policy(apply)


def _keep_more(known: Compaction) -> Compaction:
    return known if known.keep_messages is None else evolve(known, keep_messages=known.keep_messages + 2)


def _with_messages(record: StepRecord, messages: Vector[Message], effects: Iterator[Effect]) -> Step[State]:
    """The step, with other messages in its thread: in the state, and in its request."""
    if record.after.session is None:
        return Step(record.after, record.effects)
    thread = evolve(record.after.session.thread, messages=messages)
    told = (with_request_thread(effect, thread) if isinstance(effect, CallModel) else effect for effect in effects)
    return Step(with_thread(record.after, thread), tuple(told))


def _note_forgotten(record: StepRecord) -> Step[State]:
    """Nothing is said in the place of what was cut, so that a reply comes first."""
    cuts = [effect for effect in record.effects if isinstance(effect, ThreadCompacted)]
    if not cuts or cuts[0].note is None or cuts[0].opening is not None or record.after.session is None:
        return Step(record.after, record.effects)
    note, told = cuts[0].note, evolve(cuts[0], note=None)
    kept = Vector.of(message for message in record.after.session.thread if message.id != note.id)
    return _with_messages(record, kept, (told if effect == cuts[0] else effect for effect in record.effects))


def _note_told_otherwise(record: StepRecord) -> Iterator[Effect]:
    for effect in record.effects:
        if isinstance(effect, ThreadCompacted) and isinstance(effect.note, UserMessage):
            yield evolve(effect, note=evolve(effect.note, content=(TextBlock("(nothing)"),)))
        else:
            yield effect


def _first_put_back_otherwise(record: StepRecord) -> Step[State]:
    """The oldest message that is put back into the thread is not what it was."""
    back = [effect for effect in record.effects if isinstance(effect, ThreadRewritten)]
    if not back or record.after.session is None or len(record.after.session.thread) < 2:
        return Step(record.after, record.effects)
    first = back[0].messages[0]
    if not isinstance(first, UserMessage) or record.after.session.thread.messages[0] != first:
        return Step(record.after, record.effects)
    other = evolve(first, content=(TextBlock("(something)"),))
    told = evolve(back[0], messages=(other, *back[0].messages[1:]))
    messages = record.after.session.thread.messages.replace(0, other)
    return _with_messages(record, messages, (told if effect == back[0] else effect for effect in record.effects))


def _generation_kept(record: StepRecord) -> Step[State]:
    """A thread that was compacted counts as the one that it was."""
    before, after = record.before.session, record.after.session
    compacted = any(isinstance(effect, ThreadCompacted) for effect in record.effects)
    if not compacted or before is None or after is None:
        return Step(record.after, record.effects)
    thread: Thread = evolve(after.thread, generation=before.thread.generation)
    told = (
        with_request_thread(effect, thread) if isinstance(effect, CallModel) else effect for effect in record.effects
    )
    return Step(with_thread(record.after, thread), tuple(told))


# --- when, and how often ------------------------------------------------------------------------------------------


def _never_known(record: StepRecord) -> State:
    """It is never remembered that a reply was too long even so."""
    after = record.after
    if not isinstance(after, Streaming | Thinking | Finishing):
        return after
    return evolve(after, turn=evolve(after.turn, recovery=evolve(after.turn.recovery, compacted=False)))


def _failures_forgotten(record: StepRecord) -> State:
    return with_session(
        record.after,
        lambda session: evolve(session, compactions=evolve(session.compactions, failures=0, again_ms=None)),
    )


def _useless_forgotten(record: StepRecord) -> State:
    return with_session(
        record.after, lambda session: evolve(session, compactions=evolve(session.compactions, useless_at=None))
    )


def _as_if_cleared(record: StepRecord) -> Step[State]:
    """A request after a compaction is said to be made since results were cleared."""
    reason, other = RequestReason.REACTIVE_COMPACT_RETRY, RequestReason.COLLAPSE_DRAIN_RETRY
    told = (
        evolve(effect, request=evolve(effect.request, reason=other))
        if isinstance(effect, CallModel) and effect.request.reason is reason
        else effect
        for effect in record.effects
    )
    return Step(record.after, tuple(told))


# --- what is told, stopped and billed -----------------------------------------------------------------------------


def _untold(kind: type[Effect], *reports: type[Delta]) -> Plant:
    """Events of this kind are not told where such a report brings them."""

    def change(record: StepRecord) -> Iterator[Effect]:
        silent = isinstance(record.context.delta, reports)
        for effect in record.effects:
            if not (silent and isinstance(effect, kind)):
                yield effect

    return changing_effects(change)


def _goes_on(kind: OperationKind) -> Plant:
    """What is under way at rest is not stopped by a cancel."""

    def change(record: StepRecord) -> Iterator[Effect]:
        cancelled = isinstance(record.context.delta, CancelAll)
        for effect in record.effects:
            if not (cancelled and isinstance(effect, AbortOther) and effect.kind is kind):
                yield effect

    return changing_effects(change)


def _ends_a_turn(record: StepRecord) -> Iterator[Effect]:
    yield from record.effects
    handed_off = isinstance(record.context.delta, HandoffDone) and not is_refused(record.effects)
    if handed_off and record.after.session is not None:
        yield TurnEnded(TurnEndReason.HANDED_OFF, record.after.session.usage)


def _without_queue(record: StepRecord) -> Iterator[Effect]:
    return (evolve(effect, queue=()) if isinstance(effect, HandOff) else effect for effect in record.effects)


def _queue_unseen(transition: Transition) -> Transition:
    """What was queued while a summary was made at rest waits on when it is there."""

    def broken(state: State, ctx: Context) -> Step[State]:
        waits = isinstance(state, Compacting) and isinstance(ctx.delta, SummaryReady)
        if not waits or state.session is None or not state.session.inbox.queue:
            return transition(state, ctx)
        inbox = state.session.inbox
        after, effects = transition(with_inbox(state, evolve(inbox, queue=())), ctx)
        if is_refused(effects) or any(isinstance(effect, MessageAdded) for effect in effects):
            return transition(state, ctx)
        return Step(with_inbox(after, inbox), effects)

    return broken


def _summaries_unbilled(_: State, delta: Delta) -> Delta:
    return evolve(delta, usage=NO_USAGE) if isinstance(delta, SummaryReady | SummaryFailed) else delta


def _summaries_billed_again(record: StepRecord) -> State:
    """A summary that reports late a second time is counted a second time."""
    delta, before, after = record.context.delta, record.before.session, record.after.session
    late = isinstance(delta, SummaryReady | SummaryFailed) and is_refused(record.effects)
    if not late or before is None or after is None or before.usage != after.usage:
        return record.after
    used = delta.usage if isinstance(delta, SummaryReady | SummaryFailed) else NO_USAGE
    return with_session(record.after, lambda session: evolve(session, usage=session.usage.plus(used)))


PLANTED_COMPACTIONS = (
    PlantedBug(name="cut-without-a-note", law="CUT-SAFE", plant=changing_steps(_note_forgotten)),
    PlantedBug(name="cut-keeps-more", law="CUT-SAFE", plant=_keeping(_keep_more)),
    PlantedBug(name="put-back-otherwise", law="CUT-SAFE", plant=changing_steps(_first_put_back_otherwise)),
    PlantedBug(name="summary-told-otherwise", law="MIRROR", plant=changing_effects(_note_told_otherwise)),
    PlantedBug(name="compacted-in-silence", law="PREFIX", plant=changing_steps(_generation_kept)),
    PlantedBug(name="compacted-without-end", law="PROGRESS", plant=changing_states(_never_known)),
    PlantedBug(name="cool-down-forgotten", law="PROGRESS", plant=changing_states(_failures_forgotten)),
    PlantedBug(name="useless-cut-repeated", law="PROGRESS", plant=changing_states(_useless_forgotten)),
    PlantedBug(name="compacted-as-if-cleared", law="RETRY-LAW", plant=changing_steps(_as_if_cleared)),
    PlantedBug(
        name="end-of-compaction-untold", law="PROGRESS", plant=_untold(CompactionEnded, SummaryFailed, CancelAll)
    ),
    PlantedBug(name="end-of-handoff-untold", law="PROGRESS", plant=_untold(HandoffEnded, HandoffFailed, CancelAll)),
    PlantedBug(name="summary-not-aborted", law="CANCEL-STOP", plant=_goes_on(OperationKind.SUMMARY)),
    PlantedBug(name="handoff-not-aborted", law="CANCEL-STOP", plant=_goes_on(OperationKind.HANDOFF)),
    PlantedBug(name="handoff-ends-a-turn", law="PROGRESS", plant=changing_effects(_ends_a_turn)),
    PlantedBug(name="handed-over-without-queue", law="CONSERVE", plant=changing_effects(_without_queue)),
    PlantedBug(name="said-meanwhile-waits-on", law="CONSERVE", plant=_queue_unseen),
    PlantedBug(name="summaries-unbilled", law="BUDGET", plant=changing_deltas(_summaries_unbilled)),
    PlantedBug(name="summary-billed-again", law="BUDGET", plant=changing_states(_summaries_billed_again)),
)
