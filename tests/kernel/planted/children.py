"""Planted bugs about sub-agents. As in `bugs`: each is caught by its own law, and by no other."""

from collections.abc import Callable, Iterator

from attrs import evolve
from loopkernel.data.blocks import TextBlock
from loopkernel.data.children import Reservation
from loopkernel.data.choices import Lifetime, OnToolFailure
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import AbortTool, Effect, StartChild
from loopkernel.data.events import ChildFinished, SessionResumed
from loopkernel.data.foreign import ForeignUser
from loopkernel.data.ids import RunOperation
from loopkernel.data.ledgers import LedgerEntry
from loopkernel.data.outside_deltas import ChildAsks, ChildEnded
from loopkernel.data.policy import Policy
from loopkernel.data.records import StepRecord
from loopkernel.data.sessions import Settings
from loopkernel.data.states import State
from loopkernel.data.steps import Context, Step, is_refused
from loopkernel.data.thread_deltas import Created
from loopkernel.data.tool_deltas import ToolStopped
from loopkernel.data.usage import NO_USAGE
from loopkernel.data.user_deltas import CancelAll
from loopkernel.data.waits import ForChild, ForConflict, ForOwnResult, ForShare, ForSlot, Reason, Wait
from loopkernel.data.words import TurnEndReason
from loopkernel.laws.ending_laws import entries_in
from loopkernel.replaying import Transition
from loopkernel.testing.planted.planting import (
    Plant,
    PlantedBug,
    changing_deltas,
    changing_effects,
    changing_states,
    changing_steps,
    under_settings,
    with_entries,
    with_session,
)
from loopkernel.views.explain import Explanation
from loopkernel.views.explain import explain as explain_kernel

from tests.kernel.planted.child_times import PLANTED_CHILD_TIMES

_MANY = 1_000

# --- starts -------------------------------------------------------------------------------------------------------


def _started(change: Callable[[StartChild], Iterator[StartChild]]) -> Plant:
    """Sub-agents start otherwise."""

    def apply(record: StepRecord) -> Iterator[Effect]:
        for effect in record.effects:
            if isinstance(effect, StartChild):
                yield from change(effect)
            else:
                yield effect

    return changing_effects(apply)


def _twice(start: StartChild) -> Iterator[StartChild]:
    yield start
    yield start


def _as_new(start: StartChild) -> Iterator[StartChild]:
    yield evolve(start, resumed=False)


def _one_for_all(start: StartChild) -> Iterator[StartChild]:
    yield evolve(start, created=evolve(start.created, session_id="child"))


def _other_task(start: StartChild) -> Iterator[StartChild]:
    yield evolve(start, task="whatever")


def _given(change: Callable[[Policy], Policy]) -> Plant:
    """Sub-agents are given another policy."""

    def apply(start: StartChild) -> Iterator[StartChild]:
        yield evolve(start, created=evolve(start.created, policy=change(start.created.policy)))

    return _started(apply)


def _nothing_reserved(record: StepRecord) -> State:
    """What a sub-agent may spend is given to others too."""

    def forget(entry: LedgerEntry) -> LedgerEntry:
        return entry if entry.child is None else evolve(entry, child=evolve(entry.child, reserved=Reservation()))

    return with_entries(record.after, forget)


def _more_tokens(policy: Policy) -> Policy:
    return policy if policy.max_total_tokens is None else evolve(policy, max_total_tokens=2 * policy.max_total_tokens)


def _more_money(policy: Policy) -> Policy:
    return policy if policy.max_cost_usd is None else evolve(policy, max_cost_usd=3 * policy.max_cost_usd)


def _more_calls(policy: Policy) -> Policy:
    return policy if policy.max_tool_calls is None else evolve(policy, max_tool_calls=policy.max_tool_calls + 5)


def _keeps_half(policy: Policy) -> Policy:
    """The sub-agent gets half of its share."""
    tokens, cost, calls = policy.max_total_tokens, policy.max_cost_usd, policy.max_tool_calls
    return evolve(
        policy,
        max_total_tokens=None if tokens is None else max(tokens // 2, 1),
        max_cost_usd=None if cost is None else cost / 2,
        max_tool_calls=None if calls is None else calls // 2,
    )


def _created(change: Callable[[Created], Created]) -> Plant:
    """Sub-agents begin with something else."""

    def apply(start: StartChild) -> Iterator[StartChild]:
        yield evolve(start, created=change(start.created))

    return _started(apply)


def _overreserved(transition: Transition) -> Transition:
    """Sub-agents under way count as if far more tool calls were reserved for them."""

    def reserve(calls: int) -> Callable[[LedgerEntry], LedgerEntry]:
        def change(entry: LedgerEntry) -> LedgerEntry:
            child = entry.child
            if child is None or child.reserved.tool_calls is None or child.reserved.tool_calls + calls < 0:
                return entry
            reserved = evolve(child.reserved, tool_calls=child.reserved.tool_calls + calls)
            return evolve(entry, child=evolve(child, reserved=reserved))

        return change

    def broken(state: State, ctx: Context) -> Step[State]:
        after, effects = transition(with_entries(state, reserve(_MANY)), ctx)
        return Step(with_entries(after, reserve(-_MANY)), effects)

    return broken


# --- reports ------------------------------------------------------------------------------------------------------


def _reported(change: Callable[[ChildEnded], ChildEnded]) -> Plant:
    """What a sub-agent reports at its end is taken for something else."""

    def apply(_: State, delta: Delta) -> Delta:
        return change(delta) if isinstance(delta, ChildEnded) else delta

    return changing_deltas(apply)


def _billed_again(record: StepRecord) -> State:
    """A sub-agent that reports late a second time is counted a second time."""
    delta, before, after = record.context.delta, record.before.session, record.after.session
    if not isinstance(delta, ChildEnded) or not is_refused(record.effects) or before is None or after is None:
        return record.after
    if before.usage != after.usage:
        return record.after
    return with_session(record.after, lambda session: evolve(session, usage=session.usage.plus(delta.usage)))


def _end_untold(record: StepRecord) -> Iterator[Effect]:
    return (effect for effect in record.effects if not isinstance(effect, ChildFinished))


def _siblings_spared(settings: Settings, _: State, delta: Delta) -> Settings:
    """A sub-agent that ends with an error cancels nobody."""
    if not isinstance(delta, ChildEnded):
        return settings
    return evolve(settings, policy=evolve(settings.policy, on_tool_failure=OnToolFailure.CONTINUE))


def _children(state: State) -> list[LedgerEntry]:
    return [entry for entry in entries_in(state) if entry.has_run and entry.child is not None]


def _first_ends(state: State, delta: Delta) -> Delta:
    """Whatever sub-agent has ended, the first that is under way is taken for it."""
    going = [entry.operation for entry in _children(state)]
    if isinstance(delta, ChildEnded) and delta.operation in going and going[0] is not None:
        return evolve(delta, operation=going[0])
    return delta


def _first_asks(state: State, delta: Delta) -> Delta:
    """Whatever sub-agent asks, the first that is under way is taken for it."""
    going = [entry.operation for entry in _children(state)]
    if isinstance(delta, ChildAsks) and delta.operation in going and going[0] is not None:
        return evolve(delta, operation=going[0])
    return delta


def _late_end_frees_nothing(record: StepRecord) -> Step[State]:
    """What a sub-agent uses that was given up is not free when it ends at last."""
    before, after = record.before.session, record.after.session
    if not isinstance(record.context.delta, ChildEnded) or not is_refused(record.effects) or before is None:
        return Step(record.after, record.effects)
    if after is None or after.held == before.held:
        return Step(record.after, record.effects)
    used = evolve(before, usage=after.usage, operations=after.operations, started=after.started)
    return Step(with_session(record.before, lambda _: used), record.effects[:1])


def _late_end_resumes(record: StepRecord) -> Iterator[Effect]:
    """A sub-agent that ends late is told as if the session went on."""
    yield from record.effects
    if isinstance(record.context.delta, ChildEnded) and is_refused(record.effects):
        yield SessionResumed()


# --- cancels, waits -----------------------------------------------------------------------------------------------


def _not_aborted(record: StepRecord) -> Iterator[Effect]:
    """A cancel of everything leaves the sub-agents going."""
    going: set[RunOperation | None] = set()
    if isinstance(record.context.delta, CancelAll):
        going.update(entry.operation for entry in _children(record.before))
    for effect in record.effects:
        if not (isinstance(effect, AbortTool) and effect.operation in going):
            yield effect


def _stopped_at_once(transition: Transition) -> Transition:
    """A sub-agent that is aborted counts as stopped: what it uses is free."""

    def broken(state: State, ctx: Context) -> Step[State]:
        after, effects = transition(state, ctx)
        going, stamp = {entry.operation for entry in _children(state)}, after.stamp
        for effect in effects:
            if isinstance(effect, AbortTool) and effect.operation in going:
                after, told = transition(after, Context(ToolStopped(effect.operation), ctx.now_ms))
                effects = (*effects, *told)
        counted: State = evolve(after, stamp=stamp)
        return Step(counted, effects)

    return broken


def _explained(name: str, of: type[Reason], other: Reason) -> PlantedBug:
    """Calls that wait for something are said to wait for something else."""

    def explain(state: State, ctx: Context) -> Explanation:
        told = explain_kernel(state, ctx)
        waits = tuple(
            Wait(wait.call, tuple(other if isinstance(reason, of) else reason for reason in wait.reasons))
            for wait in told.waits
        )
        return evolve(told, tell=lambda _: waits)

    return PlantedBug(name=name, law="WHY", plant=lambda real: real, explain=lambda _: explain, hidden=True)


PLANTED_CHILDREN = (
    PlantedBug(name="child-started-twice", law="AT-MOST-ONCE", plant=_started(_twice)),
    PlantedBug(name="child-begun-anew", law="AT-MOST-ONCE", plant=_started(_as_new)),
    PlantedBug(name="one-session-for-all-children", law="AT-MOST-ONCE", plant=_started(_one_for_all)),
    PlantedBug(name="child-told-otherwise", law="FINAL-ARGS", plant=_started(_other_task)),
    PlantedBug(name="shares-given-twice", law="BUDGET", plant=changing_states(_nothing_reserved)),
    PlantedBug(name="child-given-more-tokens", law="BUDGET", plant=_given(_more_tokens)),
    PlantedBug(name="child-given-more-money", law="BUDGET", plant=_given(_more_money)),
    PlantedBug(name="child-given-more-calls", law="BUDGET", plant=_given(_more_calls)),
    PlantedBug(name="child-without-end", law="BUDGET", plant=_given(lambda policy: evolve(policy, max_turns=None))),
    PlantedBug(
        name="child-goes-on-for-ever",
        law="BUDGET",
        plant=_given(lambda policy: evolve(policy, lifetime=Lifetime.SESSION)),
    ),
    PlantedBug(
        name="child-says-too-much",
        law="BUDGET",
        plant=_given(lambda policy: evolve(policy, max_output_tokens=None)),
    ),
    PlantedBug(
        name="child-may-delegate",
        law="BUDGET",
        plant=_given(lambda policy: evolve(policy, child=evolve(policy.child, depth=1))),
    ),
    PlantedBug(name="child-given-half-a-share", law="BUDGET", plant=_given(_keeps_half)),
    PlantedBug(
        name="child-given-no-tools", law="FINAL-ARGS", plant=_created(lambda created: evolve(created, tools=()))
    ),
    PlantedBug(
        name="child-instructed-otherwise",
        law="FINAL-ARGS",
        plant=_created(lambda created: evolve(created, instructions="be long")),
    ),
    PlantedBug(
        name="child-with-a-past",
        law="FINAL-ARGS",
        plant=_created(lambda created: evolve(created, start=(ForeignUser((TextBlock("before"),)),))),
    ),
    PlantedBug(name="reserved-beyond-the-share", law="PARALLEL", plant=_overreserved),
    PlantedBug(name="late-end-of-a-child-frees-nothing", law="TOTAL", plant=changing_steps(_late_end_frees_nothing)),
    PlantedBug(name="late-end-of-a-child-resumes", law="TOTAL", plant=changing_effects(_late_end_resumes)),
    PlantedBug(name="child-unbilled", law="BUDGET", plant=_reported(lambda end: evolve(end, usage=NO_USAGE))),
    PlantedBug(name="calls-of-a-child-uncounted", law="BUDGET", plant=_reported(lambda end: evolve(end, tool_calls=0))),
    PlantedBug(name="late-child-billed-again", law="BUDGET", plant=changing_states(_billed_again)),
    PlantedBug(name="end-of-a-child-untold", law="ONE-END", plant=changing_effects(_end_untold)),
    PlantedBug(
        name="failed-child-is-done",
        law="ONE-END",
        plant=_reported(lambda end: evolve(end, reason=TurnEndReason.MODEL_STOP)),
    ),
    PlantedBug(name="failed-child-spares", law="SIBLING", plant=under_settings(_siblings_spared)),
    PlantedBug(name="first-child-ends", law="ADDRESS", plant=changing_deltas(_first_ends), hidden=True),
    PlantedBug(name="first-child-asks", law="ADDRESS", plant=changing_deltas(_first_asks), hidden=True),
    PlantedBug(name="children-not-aborted", law="CANCEL-STOP", plant=changing_effects(_not_aborted)),
    PlantedBug(name="aborted-child-holds-nothing", law="NO-CONFLICT", plant=_stopped_at_once),
    _explained("asking-child-waits-for-itself", ForChild, ForOwnResult()),
    _explained("share-told-as-a-slot", ForShare, ForSlot(1)),
    _explained("child-waits-for-a-share", ForOwnResult, ForShare()),
    _explained("conflict-told-as-a-share", ForConflict, ForShare()),
    *PLANTED_CHILD_TIMES,
)
