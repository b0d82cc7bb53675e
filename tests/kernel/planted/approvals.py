"""Planted bugs about approvals that are remembered. As in `planted`: each is caught by its own law, and by no other."""

from attrs import evolve
from loopkernel.data.ledgers import LedgerEntry
from loopkernel.data.states import State
from loopkernel.data.steps import Context, Step, is_refused
from loopkernel.data.user_deltas import Forget
from loopkernel.data.words import CallStatus
from loopkernel.replay import Transition
from loopkernel.testing.planted.planting import PlantedBug, with_entries


def _let_through_for_good(transition: Transition) -> Transition:
    """What a remembered approval has let through goes on as if approved itself, when that is taken back."""

    def keep(entry: LedgerEntry) -> LedgerEntry:
        let_through = entry.status is CallStatus.QUEUED and entry.person.asked
        return evolve(entry, person=evolve(entry.person, approved=True)) if let_through else entry

    def broken(state: State, ctx: Context) -> Step[State]:
        step = transition(state, ctx)
        if not isinstance(ctx.delta, Forget) or is_refused(step.effects):
            return step
        return transition(with_entries(state, keep), ctx)

    return broken


PLANTED_APPROVALS = (PlantedBug(name="let-through-for-good", law="ASKED", plant=_let_through_for_good),)
