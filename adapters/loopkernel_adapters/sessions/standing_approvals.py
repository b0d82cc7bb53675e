"""The approvals that a session remembers, and those that its sub-agents under way remember beside them."""

from collections.abc import Callable, Iterator

from attrs import frozen
from loopkernel.data.remembered import Remembered
from loopkernel.data.states import State
from loopkernel_adapters.driver.children import WITH_CALLS
from loopkernel_adapters.optional_ports import Address


@frozen
class StandingApproval:
    """An approval that is remembered: what it is about runs unasked. `within`: the sub-agent that alone remembers it.

    `Forget(approval.remembered)`, sent `within`, takes it back; `Forget()`, sent to the session, takes back every one.
    """

    remembered: Remembered
    within: Address = ()


def standing_approvals(state_of: Callable[[Address], State | None]) -> tuple[StandingApproval, ...]:
    """Those of the session first, in the order in which they were given."""
    return tuple(_standing(state_of, (), ()))


def _standing(
    state_of: Callable[[Address], State | None], within: Address, above: tuple[Remembered, ...]
) -> Iterator[StandingApproval]:
    state = state_of(within)
    if state is None or state.session is None:
        return
    remembered = tuple(dict.fromkeys(state.session.settings.remembered))
    yield from (StandingApproval(each, within) for each in remembered if each not in above)
    for entry in state.ledger.entries if isinstance(state, WITH_CALLS) else ():
        if entry.child is not None and entry.is_open:
            yield from _standing(state_of, (*within, entry.call.id), (*above, *remembered))
