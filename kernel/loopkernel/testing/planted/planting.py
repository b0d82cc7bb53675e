"""What a planted bug is, how it is judged, and ways to plant one.

A way takes a pure change and gives a `Plant`: from a transition to one of the same signature that differs by that
change. Some change what comes out of the real transition; some run it under another policy, or on another delta,
and hide that.

A broken kernel is judged with an explanation of its own, written as if beside it, so that law WHY judges the
explanation and not the bug.
"""

from collections.abc import Callable, Iterable
from functools import cache
from typing import TypeAlias, final

from attrs import evolve, frozen

from loopkernel.data.causes import Cause
from loopkernel.data.compactions import ContextSize
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import CallModel, Effect
from loopkernel.data.events import MessageAdded
from loopkernel.data.ledgers import Ledger, LedgerEntry
from loopkernel.data.messages import Message
from loopkernel.data.policy import Policy
from loopkernel.data.records import StepRecord
from loopkernel.data.sessions import Inbox, Session, Settings
from loopkernel.data.states import Compacting, Confirming, Dispatching, Executing, State, Streaming
from loopkernel.data.steps import Context, Step
from loopkernel.data.threads import Thread
from loopkernel.judging import check_all, check_pairs
from loopkernel.laws import Judged
from loopkernel.laws.reports import PlanCut, Project
from loopkernel.loop.algorithms.compaction import grown, plan_cut
from loopkernel.loop.algorithms.projection import project
from loopkernel.loop.transition import transition as the_transition
from loopkernel.replaying import Transition
from loopkernel.testing.played.player import (
    Script,
    play,
)
from loopkernel.views.explain import Explanation

Plant: TypeAlias = Callable[[Transition], Transition]
Explain: TypeAlias = Callable[[State, Context], Explanation]


def explaining(transition: Transition) -> Explain:
    """The explanation that goes with a transition: each effect that it has, each call that it leaves waiting."""

    def explain(state: State, ctx: Context) -> Explanation:
        after, effects = transition(state, ctx)
        causes = tuple(Cause(effect, ctx.delta, "DELTA-1", "the transition says so") for effect in effects)
        return Explanation(causes, with_calls(after, lambda ledger: evolve(ledger, plan=None)))

    return explain


@final
@frozen(kw_only=True)
class PlantedBug:
    """A bug by name, the law that catches it, how it is planted, and how the broken kernel explains, cuts and projects.

    One that is `hidden` does not show in the steps of a run, but when one is taken again, explained, cut or projected.
    """

    name: str
    law: str
    plant: Plant
    explain: Callable[[Transition], Explain] = explaining
    plan_cut: PlanCut = plan_cut
    project: Project = project
    hidden: bool = False

    def judged(self, transition: Transition) -> Judged:
        """The transition with the bug in it, and its explanation."""
        broken = self.plant(transition)
        return Judged(transition=broken, explain=self.explain(broken), plan_cut=self.plan_cut, project=self.project)


@cache
def _as_it_must_be(script: Script) -> tuple[StepRecord, ...]:
    """The steps of the run on the kernel that has no bug, which break no law."""
    return play(script, the_transition)


def breached_laws(bug: PlantedBug, scripts: Iterable[Script], *, until_caught: bool = False) -> set[str]:
    """The laws that some run of the kernel with the bug breaks; it is planted anew for each run.

    Where the bug makes no difference there is nothing to judge. With `until_caught` the first run that breaks the law
    of the bug is the last.
    """
    breached: set[str] = set()
    for script in scripts:
        judged = bug.judged(the_transition)
        steps = play(script, judged.transition)
        same = steps == _as_it_must_be(script)
        if same and not bug.hidden:
            continue
        # Else all that the laws of a trace may say is said of the sound kernel.
        told = same and bug.explain is explaining and bug.project is project
        check = check_pairs if told else check_all
        breached.update(breach.law for breach in check(steps, judged=judged).breaches)
        if until_caught and bug.law in breached:
            break
    return breached


# --- ways to plant ------------------------------------------------------------------------------------------


def changing_steps(change: Callable[[StepRecord], Step[State]]) -> Plant:
    """Other steps."""

    def plant(transition: Transition) -> Transition:
        def broken(state: State, ctx: Context) -> Step[State]:
            after, effects = transition(state, ctx)
            return change(StepRecord(state, ctx, after, effects))

        return broken

    return plant


def changing_effects(change: Callable[[StepRecord], Iterable[Effect]]) -> Plant:
    """The same states, other effects."""
    return changing_steps(lambda record: Step(record.after, tuple(change(record))))


def changing_states(change: Callable[[StepRecord], State]) -> Plant:
    """The same effects, other states."""
    return changing_steps(lambda record: Step(change(record), record.effects))


def changing_deltas(change: Callable[[State, Delta], Delta]) -> Plant:
    """Another delta than the one that came in."""

    def plant(transition: Transition) -> Transition:
        return lambda state, ctx: transition(state, Context(change(state, ctx.delta), ctx.now_ms))

    return plant


def changing_messages(change: Callable[[Message, Context], Message]) -> Plant:
    """Other messages go into the thread: into the state, the events and the requests alike.

    Where a compaction begins with the step they stay as they are: it has begun because of how long they are.
    """

    def plant(transition: Transition) -> Transition:
        def broken(state: State, ctx: Context) -> Step[State]:
            after, effects = transition(state, ctx)
            added = {effect.message.id for effect in effects if isinstance(effect, MessageAdded)}
            if after.session is None or not added or isinstance(after, Compacting):
                return Step(after, effects)
            messages = after.session.thread.messages
            size = after.session.size
            for index, message in enumerate(messages):
                if message.id in added:
                    other = change(message, ctx)
                    messages, size = messages.replace(index, other), _recounted(size, message, other)
            thread = evolve(after.session.thread, messages=messages)
            told = tuple(
                MessageAdded(change(effect.message, ctx))
                if isinstance(effect, MessageAdded)
                else with_request_thread(effect, thread)
                if isinstance(effect, CallModel)
                else effect
                for effect in effects
            )
            return Step(with_session(with_thread(after, thread), lambda session: evolve(session, size=size)), told)

        return broken

    return plant


def _recounted(size: ContextSize, message: Message, other: Message) -> ContextSize:
    """How large the thread is with the other message in place of the one: what is put in is counted, too."""
    was, now = grown(ContextSize(), message), grown(ContextSize(), other)
    characters = size.characters + now.characters - was.characters
    return evolve(size, characters=characters, total=size.total + now.total - was.total)


def with_request_thread(command: CallModel, thread: Thread) -> CallModel:
    """The command, with another thread in its request."""
    return evolve(command, request=evolve(command.request, thread=thread))


def with_thread(state: State, thread: Thread) -> State:
    """The state, with another thread in its session."""
    if state.session is None:
        return state
    changed: State = evolve(state, session=evolve(state.session, thread=thread))
    return changed


def under_policy(change: Callable[[Policy], Policy]) -> Plant:
    """The real policy stands in the state, and another one decides."""
    return under_settings(lambda settings, _, __: evolve(settings, policy=change(settings.policy)))


def under_settings(change: Callable[[Settings, State, Delta], Settings]) -> Plant:
    """The real settings stand in the state, and others decide, which may depend on the state and on what comes in."""

    def plant(transition: Transition) -> Transition:
        def broken(state: State, ctx: Context) -> Step[State]:
            if state.session is None:
                return transition(state, ctx)
            real = state.session.settings
            other = change(real, state, ctx.delta)
            after, effects = transition(with_settings(state, other), ctx)
            kept = after.session is None or after.session.settings != other
            return Step(after if kept else with_settings(after, real), effects)

        return broken

    return plant


def with_settings(state: State, settings: Settings) -> State:
    """The state, with other settings."""
    if state.session is None:
        return state
    changed: State = evolve(state, session=evolve(state.session, settings=settings))
    return changed


def with_calls(state: State, change: Callable[[Ledger], Ledger]) -> State:
    """The state, with its calls changed, if it has any."""
    if not isinstance(state, Streaming | Executing | Confirming | Dispatching):
        return state
    changed: State = evolve(state, ledger=change(state.ledger))
    return changed


def with_entries(state: State, change: Callable[[LedgerEntry], LedgerEntry]) -> State:
    """The state, with each of its calls changed."""

    def apply(ledger: Ledger) -> Ledger:
        for place, entry in enumerate(ledger.entries):
            changed = change(entry)
            ledger = ledger if changed is entry else ledger.put(place, changed)
        return ledger

    return with_calls(state, apply)


def with_inbox(state: State, inbox: Inbox) -> State:
    """The state, with other input waiting."""
    if state.session is None:
        return state
    changed: State = evolve(state, session=evolve(state.session, inbox=inbox))
    return changed


def with_session(state: State, change: Callable[[Session], Session]) -> State:
    """The state, with its session changed, if it has one."""
    if state.session is None:
        return state
    changed: State = evolve(state, session=change(state.session))
    return changed
