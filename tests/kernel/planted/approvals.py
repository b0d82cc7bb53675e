"""Planted bugs about approvals that are remembered, and about what follows a rejection.

As in `bugs`: each is caught by its own law, and by no other.
"""

from attrs import evolve
from loopkernel.data.choices import OnReject
from loopkernel.data.ledgers import LedgerEntry
from loopkernel.data.policy import Policy
from loopkernel.data.states import State
from loopkernel.data.steps import Context, Step, is_refused
from loopkernel.data.user_deltas import Forget
from loopkernel.data.words import CallStatus
from loopkernel.replaying import Transition
from loopkernel.testing.planted.planting import PlantedBug, under_policy, with_entries


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


def _the_rest_goes_on(policy: Policy) -> Policy:
    """Where a rejection halts the turn, the other calls go on until it does."""
    return evolve(policy, on_reject=OnReject.CONTINUE) if policy.on_reject is OnReject.HALT else policy


PLANTED_APPROVALS = (
    PlantedBug(name="let-through-for-good", law="ASKED", plant=_let_through_for_good),
    PlantedBug(name="rest-goes-on-after-a-rejection", law="ASKED", plant=under_policy(_the_rest_goes_on)),
)
