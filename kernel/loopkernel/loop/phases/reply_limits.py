"""A reply under way meets a limit: it is stopped, what it said is kept, and the turn ends (rule LIMIT-4).

Its calls that have not started never do; the runs that started early are awaited, as rule LIMIT-2 says.
"""

from attrs import evolve

from loopkernel.data.effects import Effect
from loopkernel.data.events import LimitReached
from loopkernel.data.states import Executing, Finishing, Streaming
from loopkernel.data.steps import Step
from loopkernel.data.words import LimitName
from loopkernel.loop.algorithms.budget import reply_too_long
from loopkernel.loop.gates.timers import close_timer
from loopkernel.loop.turn.cancelling import stop_reply
from loopkernel.loop.turn.limits import OUT_OF_BUDGET, budget_hit


def end_by_limit(
    state: Streaming, limit: LimitName, told: tuple[Effect, ...] = ()
) -> Step[Streaming | Executing | Finishing]:
    """The limit is met. `told` is what the step did before, and what stands in the reply."""
    closed = (*close_timer(state.silence), *close_timer(state.time_limit))
    session, stopped = stop_reply(state.session, state.reply, state.pieces, state.ledger, closed)
    effects = (*told, *stopped, LimitReached(limit))
    if not state.ledger.entries.size:
        ended = Finishing(session=session, stamp=state.stamp, turn=state.turn, ending=OUT_OF_BUDGET)
        return Step(ended, effects)
    executing = Executing(
        session=session, stamp=state.stamp, turn=state.turn, ledger=state.ledger, settled=OUT_OF_BUDGET
    )
    return Step(executing, effects)


def end_if_too_long(state: Streaming, told: tuple[Effect, ...]) -> Step[Streaming | Executing | Finishing]:
    """After one more piece, of which `told` tells: the reply may have passed its size."""
    if reply_too_long(state.session.settings.policy, state.size.chars):
        return end_by_limit(state, LimitName.REPLY_SIZE, told)
    return Step(state, told)


def end_if_spent(state: Streaming) -> Step[Streaming | Executing | Finishing]:
    """After a report of what the reply has used so far: that may have taken the run to a budget."""
    billed = evolve(state.session, usage=state.session.usage.plus(state.reply.usage))
    spent = budget_hit(billed, state.turn, state.stamp.now_ms)
    return Step(state, ()) if spent is None else end_by_limit(state, spent)
