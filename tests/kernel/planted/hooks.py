"""Planted bugs about hooks and corrections. As in `bugs`: each is caught by its own law, and by no other."""

from collections.abc import Callable, Iterator
from itertools import chain

from attrs import evolve
from loopkernel.data.choices import HookFailure, OnToolFailure, Schedule
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import AbortModel, AbortOther, AbortTool, CheckCall, Effect, StartTool, TellHook
from loopkernel.data.events import CorrectionChecked, CorrectionInjected
from loopkernel.data.hook_calls import CallHooks, OpenHook
from loopkernel.data.ids import OperationKind
from loopkernel.data.ledgers import LedgerEntry
from loopkernel.data.outside_deltas import (
    CorrectionAnswered,
    HookAnswer,
    HookAnswered,
    HookBlock,
    HookContinue,
    HookFault,
    HookModify,
    HookRetry,
    TimerFired,
)
from loopkernel.data.policy import CourseCorrection, Hook, Policy
from loopkernel.data.records import StepRecord
from loopkernel.data.sessions import Settings, Turn
from loopkernel.data.states import Finishing, State, Streaming, Thinking
from loopkernel.data.steps import Context, Step, is_refused
from loopkernel.data.tools import EffectClass, Tool
from loopkernel.data.usage import NO_USAGE
from loopkernel.data.user_deltas import CancelAll
from loopkernel.data.waits import ForHook, ForOwnResult, Reason, Wait
from loopkernel.data.words import HookPoint
from loopkernel.laws.gates import call_of_hook, gated_calls
from loopkernel.laws.hook_order import CALL_POINTS
from loopkernel.replaying import Transition
from loopkernel.testing.planted.planting import (
    Explain,
    Plant,
    PlantedBug,
    changing_deltas,
    changing_effects,
    changing_states,
    under_policy,
    under_settings,
    with_entries,
    with_inbox,
    with_session,
    with_settings,
)
from loopkernel.views.explain import Explanation
from loopkernel.views.explain import explain as explain_kernel

# --- which hooks have their turn, and when ------------------------------------------------------------------------


def _in_reverse(points: Callable[[HookPoint], bool]) -> Callable[[Policy], Policy]:
    """The hooks of these points are asked in the reverse order."""

    def change(policy: Policy) -> Policy:
        there = tuple(hook for hook in policy.hooks if points(hook.point))
        others = tuple(hook for hook in policy.hooks if not points(hook.point))
        return evolve(policy, hooks=(*others, *there[::-1]))

    return change


def _without(point: HookPoint) -> Plant:
    """The hooks of the point are not asked."""
    return under_policy(lambda policy: evolve(policy, hooks=_but(policy.hooks, point)))


def _but(hooks: tuple[Hook, ...], point: HookPoint) -> tuple[Hook, ...]:
    return tuple(hook for hook in hooks if hook.point is not point)


def _with_one_more(policy: Policy) -> Policy:
    """A hook has its turn after the model, and nobody has asked for that one."""
    more = Hook(point=HookPoint.AFTER_MODEL, name="nobody")
    return evolve(policy, hooks=(*policy.hooks, more)) if policy.hooks else policy


def _messages_untold(record: StepRecord) -> Iterator[Effect]:
    for effect in record.effects:
        if not (isinstance(effect, TellHook) and effect.context.point is HookPoint.MESSAGE_ADDED):
            yield effect


def _scheduled(schedule: Schedule) -> Plant:
    """Where hooks are asked before calls, their turn comes by another schedule."""

    def change(policy: Policy) -> Policy:
        hooked = any(hook.point is HookPoint.BEFORE_TOOL for hook in policy.hooks)
        return evolve(policy, schedule=schedule) if hooked else policy

    return under_policy(change)


# --- what they say ------------------------------------------------------------------------------------------------


def _heard_as(wanted: Callable[[State, HookAnswered], bool], heard: HookAnswer) -> Plant:
    """The answers of these hooks are taken for another."""

    def change(state: State, delta: Delta) -> Delta:
        unheard = isinstance(delta, HookAnswered) and wanted(state, delta)
        return HookAnswered(delta.operation, heard) if isinstance(delta, HookAnswered) and unheard else delta

    return changing_deltas(change)


def _first_answered(state: State, delta: Delta) -> Delta:
    """Whichever hook of a call answers, it is taken for the one that was asked first."""
    asked = [gate.operation for _, gate in gated_calls(state)]
    if isinstance(delta, HookAnswered) and delta.operation in asked:
        return HookAnswered(min(asked), delta.answer)
    return delta


def _before_call(kind: type[HookAnswer]) -> Callable[[State, HookAnswered], bool]:
    def wanted(state: State, delta: HookAnswered) -> bool:
        entry = call_of_hook(state, delta.operation)
        return isinstance(delta.answer, kind) and entry is not None and entry.hooks.end is None

    return wanted


def _after_call(kind: type[HookAnswer]) -> Callable[[State, HookAnswered], bool]:
    def wanted(state: State, delta: HookAnswered) -> bool:
        entry = call_of_hook(state, delta.operation)
        return isinstance(delta.answer, kind) and entry is not None and entry.hooks.end is not None

    return wanted


def _of_turn(kind: type[HookAnswer]) -> Callable[[State, HookAnswered], bool]:
    return lambda state, delta: isinstance(delta.answer, kind) and isinstance(state, Thinking | Streaming)


def _last_end_accepted(state: State, delta: Delta) -> Delta:
    """At the turn limit a block by a stop hook is taken for its consent."""
    if not isinstance(state, Finishing) or not isinstance(state.gate, OpenHook) or not isinstance(delta, HookAnswered):
        return delta
    limit = state.session.settings.policy.max_turns
    met = state.gate.hook.point is HookPoint.STOP and limit is not None and state.turn.replies >= limit
    return HookAnswered(delta.operation, HookContinue()) if met and isinstance(delta.answer, HookBlock) else delta


def _slow_hooks_let_go(settings: Settings, state: State, delta: Delta) -> Settings:
    """A hook of the turn that is too slow is taken for one that lets go on."""
    if not isinstance(delta, TimerFired) or not isinstance(state, Thinking | Streaming):
        return settings
    return evolve(settings, policy=evolve(settings.policy, hook_failure=HookFailure.OPEN))


def _changed_unchecked(transition: Transition) -> Transition:
    """What a hook changes in the input of a call is taken over without a check."""

    def broken(state: State, ctx: Context) -> Step[State]:
        delta = ctx.delta
        entry = call_of_hook(state, delta.operation) if isinstance(delta, HookAnswered) else None
        if entry is None or not isinstance(delta, HookAnswered) or not isinstance(delta.answer, HookModify):
            return transition(state, ctx)
        after, effects = transition(state, Context(HookAnswered(delta.operation, HookContinue()), ctx.now_ms))
        given, call = delta.answer.input, entry.call.id
        if given is None:
            return transition(state, ctx)

        def change(one: LedgerEntry) -> LedgerEntry:
            return evolve(one, hooks=evolve(one.hooks, input=given)) if one.call.id == call else one

        told = (
            evolve(effect, input=given) if isinstance(effect, StartTool | CheckCall) and effect.call == call else effect
            for effect in effects
        )
        return Step(with_entries(after, change), tuple(told))

    return broken


# --- cancels, retries, siblings -----------------------------------------------------------------------------------


def _on_cancel(change: Callable[[StepRecord], Iterator[Effect]]) -> Plant:
    return changing_effects(
        lambda record: change(record) if isinstance(record.context.delta, CancelAll) else iter(record.effects)
    )


def _hooks_go_on(record: StepRecord) -> Iterator[Effect]:
    for effect in record.effects:
        if not (isinstance(effect, AbortOther) and effect.kind in (OperationKind.HOOK, OperationKind.CORRECTION)):
            yield effect


def _hooks_first(record: StepRecord) -> Iterator[Effect]:
    """Hooks are aborted before the runs."""
    yield from (effect for effect in record.effects if isinstance(effect, AbortOther))
    yield from (effect for effect in record.effects if isinstance(effect, AbortModel | AbortTool))
    yield from (effect for effect in record.effects if not isinstance(effect, AbortOther | AbortModel | AbortTool))


def _all_harmless(transition: Transition) -> Transition:
    """Where a hook wants a run again, every run counts as one that may be repeated."""

    def broken(state: State, ctx: Context) -> Step[State]:
        again = isinstance(ctx.delta, HookAnswered) and isinstance(ctx.delta.answer, HookRetry)
        if not again or state.session is None:
            return transition(state, ctx)
        real = state.session.settings
        state = with_entries(state, lambda entry: evolve(entry, effect=EffectClass.IDEMPOTENT))
        after, effects = transition(with_settings(state, evolve(real, tools=tuple(map(_harmless, real.tools)))), ctx)
        return Step(with_settings(after, real), effects)

    return broken


def _harmless(tool: Tool) -> Tool:
    return tool if tool.profile is None else evolve(tool, profile=evolve(tool.profile, effect=EffectClass.IDEMPOTENT))


def _retries_forgotten(record: StepRecord) -> State:
    def forget(entry: LedgerEntry) -> LedgerEntry:
        hooks: CallHooks = entry.hooks
        return evolve(entry, hooks=evolve(hooks, retries=0)) if hooks.retries else entry

    return with_entries(record.after, forget)


def _in_turns(change: Callable[[Turn], Turn]) -> Plant:
    """The turn forgets something."""

    def apply(record: StepRecord) -> State:
        after = record.after
        if isinstance(after, Streaming | Thinking | Finishing):
            return evolve(after, turn=change(after.turn))
        return after

    return changing_states(apply)


def _looked_at_spares(settings: Settings, _: State, delta: Delta) -> Settings:
    """A failure that hooks have looked at cancels nobody."""
    if not isinstance(delta, HookAnswered):
        return settings
    return evolve(settings, policy=evolve(settings.policy, on_tool_failure=OnToolFailure.CONTINUE))


def _for_own_results(_: Transition) -> Explain:
    """A call that a hook is asked about is said to wait for its own result."""

    def other(reason: Reason) -> Reason:
        return ForOwnResult() if isinstance(reason, ForHook) else reason

    def explain(state: State, ctx: Context) -> Explanation:
        told = explain_kernel(state, ctx)
        waits = tuple(Wait(wait.call, tuple(map(other, wait.reasons))) for wait in told.waits)
        return evolve(told, tell=lambda _: waits)

    return explain


# --- corrections --------------------------------------------------------------------------------------------------


def _correction(change: Callable[[CourseCorrection], CourseCorrection | None]) -> Plant:
    def apply(policy: Policy) -> Policy:
        known = policy.course_correction
        return policy if known is None else evolve(policy, course_correction=change(known))

    return under_policy(apply)


def _unheard_steers(transition: Transition) -> Transition:
    """A correction goes in, whatever the user has said meanwhile, which waits on."""

    def broken(state: State, ctx: Context) -> Step[State]:
        inbox = None if state.session is None else state.session.inbox
        if inbox is None or not inbox.steers or not isinstance(ctx.delta, CorrectionAnswered):
            return transition(state, ctx)
        after, effects = transition(with_inbox(state, evolve(inbox, steers=())), ctx)
        kept = None if after.session is None else after.session.inbox
        return Step(after if kept is None else with_inbox(after, evolve(kept, steers=inbox.steers)), effects)

    return broken


def _told_when_cancelled(record: StepRecord) -> Iterator[Effect]:
    """A correction that is cancelled is told to have been checked."""
    for effect in record.effects:
        yield effect
        if isinstance(effect, AbortOther) and effect.kind is OperationKind.CORRECTION:
            yield CorrectionChecked()


def _told_to_be_injected(record: StepRecord) -> Iterator[Effect]:
    """A correction that says nothing is told to be in the thread."""
    delta = record.context.delta
    unsaid = isinstance(delta, CorrectionAnswered) and delta.text is None and not is_refused(record.effects)
    return chain(record.effects, [CorrectionInjected()] if unsaid else [])


def _checks_forgotten(record: StepRecord) -> State:
    return with_session(record.after, lambda session: evolve(session, course=evolve(session.course, checked=False)))


def _corrections_unbilled(_: State, delta: Delta) -> Delta:
    return evolve(delta, usage=NO_USAGE) if isinstance(delta, CorrectionAnswered) else delta


def _corrections_billed_again(record: StepRecord) -> State:
    """A correction that reports late a second time is counted a second time."""
    delta, before, after = record.context.delta, record.before.session, record.after.session
    if not isinstance(delta, CorrectionAnswered) or not is_refused(record.effects) or before is None or after is None:
        return record.after
    if before.usage != after.usage:
        return record.after
    return with_session(record.after, lambda session: evolve(session, usage=session.usage.plus(delta.usage)))


PLANTED_HOOKS = (
    PlantedBug(
        name="hooks-of-turns-in-reverse",
        law="PROGRESS",
        plant=under_policy(_in_reverse(lambda point: point not in CALL_POINTS)),
    ),
    PlantedBug(
        name="hooks-of-calls-in-reverse",
        law="ASKED",
        plant=under_policy(_in_reverse(lambda point: point in CALL_POINTS)),
    ),
    *(
        PlantedBug(name=f"no-hooks-at-{point.value}", law=law, plant=_without(point))
        for point, law in (
            (HookPoint.BEFORE_INVOCATION, "PROGRESS"),
            (HookPoint.BEFORE_MODEL, "PROGRESS"),
            (HookPoint.AFTER_MODEL, "PROGRESS"),
            (HookPoint.STOP, "PROGRESS"),
            (HookPoint.AFTER_INVOCATION, "PROGRESS"),
            (HookPoint.BEFORE_TOOL, "ASKED"),
            (HookPoint.AFTER_TOOL, "ASKED"),
        )
    ),
    PlantedBug(name="hook-of-nobody", law="PROGRESS", plant=under_policy(_with_one_more)),
    PlantedBug(name="messages-untold-to-hooks", law="PROGRESS", plant=changing_effects(_messages_untold)),
    PlantedBug(name="hooks-asked-out-of-turn", law="NO-CONFLICT", plant=_scheduled(Schedule.ALL)),
    PlantedBug(name="hooks-asked-one-by-one", law="PARALLEL", plant=_scheduled(Schedule.SERIAL)),
    PlantedBug(name="block-of-a-turn-unheard", law="PROGRESS", plant=_heard_as(_of_turn(HookBlock), HookContinue())),
    PlantedBug(name="message-of-a-hook-unheard", law="PROGRESS", plant=_heard_as(_of_turn(HookModify), HookContinue())),
    PlantedBug(name="slow-hook-lets-go", law="PROGRESS", plant=under_settings(_slow_hooks_let_go)),
    PlantedBug(name="blocked-call-runs", law="ASKED", plant=_heard_as(_before_call(HookBlock), HookContinue())),
    PlantedBug(name="first-hook-answered", law="ADDRESS", plant=changing_deltas(_first_answered), hidden=True),
    PlantedBug(name="failed-hook-lets-go", law="ASKED", plant=_heard_as(_before_call(HookFault), HookContinue())),
    PlantedBug(name="blocked-result-told", law="ASKED", plant=_heard_as(_after_call(HookBlock), HookContinue())),
    PlantedBug(name="changed-result-untold", law="ASKED", plant=_heard_as(_after_call(HookModify), HookContinue())),
    PlantedBug(
        name="changed-input-dropped", law="FINAL-ARGS", plant=_heard_as(_before_call(HookModify), HookContinue())
    ),
    PlantedBug(name="changed-input-unchecked", law="FINAL-ARGS", plant=_changed_unchecked),
    PlantedBug(
        name="hooks-have-twice-the-time",
        law="TIMER-DATA",
        plant=under_policy(lambda policy: evolve(policy, hook_timeout_ms=2 * (policy.hook_timeout_ms or 0))),
    ),
    PlantedBug(
        name="hooks-have-all-the-time",
        law="TIMER-DATA",
        plant=under_policy(lambda policy: evolve(policy, hook_timeout_ms=None)),
    ),
    PlantedBug(name="hooks-not-aborted", law="CANCEL-STOP", plant=_on_cancel(_hooks_go_on)),
    PlantedBug(name="hooks-aborted-first", law="CANCEL-STOP", plant=_on_cancel(_hooks_first)),
    PlantedBug(name="dangerous-run-repeated-for-a-hook", law="AT-MOST-ONCE", plant=_all_harmless),
    PlantedBug(name="runs-repeated-without-end", law="AT-MOST-ONCE", plant=changing_states(_retries_forgotten)),
    PlantedBug(
        name="replies-repeated-without-end",
        law="PROGRESS",
        plant=_in_turns(lambda turn: evolve(turn, hook_retries=0)),
    ),
    PlantedBug(
        name="turns-kept-going-without-end", law="PROGRESS", plant=_in_turns(lambda turn: evolve(turn, blocks=0))
    ),
    PlantedBug(name="blocked-end-is-natural", law="BUDGET", plant=changing_deltas(_last_end_accepted)),
    PlantedBug(name="looked-at-failure-spares", law="SIBLING", plant=under_settings(_looked_at_spares)),
    PlantedBug(
        name="hooked-call-waits-for-itself", law="WHY", plant=lambda real: real, explain=_for_own_results, hidden=True
    ),
    PlantedBug(name="never-corrected", law="PROGRESS", plant=_correction(lambda _: None)),
    PlantedBug(
        name="corrected-for-nothing",
        law="PROGRESS",
        plant=_correction(lambda known: evolve(known, after_calls=0, after_writes=0)),
    ),
    PlantedBug(name="corrected-again", law="PROGRESS", plant=changing_states(_checks_forgotten)),
    PlantedBug(name="cancelled-correction-told", law="PROGRESS", plant=_on_cancel(_told_when_cancelled)),
    PlantedBug(name="no-correction-told-as-one", law="PROGRESS", plant=changing_effects(_told_to_be_injected)),
    PlantedBug(name="corrected-though-spoken", law="PROGRESS", plant=_unheard_steers),
    PlantedBug(name="corrections-unbilled", law="BUDGET", plant=changing_deltas(_corrections_unbilled)),
    PlantedBug(name="correction-billed-again", law="BUDGET", plant=changing_states(_corrections_billed_again)),
)
