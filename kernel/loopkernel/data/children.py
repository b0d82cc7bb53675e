"""Sub-agents, as their parent's ledger knows them (section CHILD)."""

from fractions import Fraction
from typing import final

from loopkernel.data.checked_fields import checked_fields
from loopkernel.data.ids import CallId
from loopkernel.data.value_classes import frozen


@final
@frozen(kw_only=True, field_transformer=checked_fields)
class Reservation:
    """What of its parent's budgets a sub-agent may spend; None: that budget has no limit (rule LIMIT-2)."""

    tokens: int | None = None
    cost_usd: float | None = None
    tool_calls: int | None = None


@final
@frozen(kw_only=True)
class Taken:
    """What is reserved for the sub-agents under way, added up; `shares` is how many there are."""

    shares: int = 0
    tokens: int = 0
    cost_usd: Fraction = Fraction(0)
    tool_calls: int = 0


@final
@frozen(kw_only=True, field_transformer=checked_fields)
class ChildRun:
    """A sub-agent that runs for a call: its session, and what is reserved for it. `text` is the last it has said.

    `forgets`: it was told while it ran that an approval is taken back, and may die before it has heard (rule ASK-3).
    """

    session_id: str
    reserved: Reservation = Reservation()
    text: str = ""
    forgets: bool = False


@final
@frozen(field_transformer=checked_fields)
class ChildCall:
    """A call within a sub-agent: its id there, or where that is a call to a sub-agent too, a path of ids downwards."""

    path: tuple[CallId, ...]
