"""What an open call waits for, reason by reason: what `explain` tells, and law WHY judges."""

from typing import final

from loopkernel.data.children import ChildCall
from loopkernel.data.ids import CallId
from loopkernel.data.value_classes import frozen


@final
@frozen
class ForReply:
    """The reply is not complete yet."""


@final
@frozen
class ForCheck:
    """Its input is being checked."""


@final
@frozen
class ForOwnResult:
    """It runs."""


@final
@frozen
class ForApproval:
    """A person is to approve it, now or when its turn has come."""


@final
@frozen
class ForAnswer:
    """Its tool has asked a question."""

    question: str


@final
@frozen
class ForHook:
    """A hook is asked about it."""

    name: str


@final
@frozen
class ForChild:
    """Its sub-agent waits for a person."""

    asked: tuple[ChildCall, ...]


@final
@frozen
class ForWord:
    """A person is to say what became of a run that a crash interrupted."""


@final
@frozen
class ForSource:
    """It depends on another call."""

    call: CallId


@final
@frozen
class ForConflict:
    """It must not overlap with a call before it. `key` names what both use; None: one of them may use anything.

    `stopped`: that call is answered, and its run has still to stop.
    """

    call: CallId
    key: str | None
    writes: bool
    stopping: bool = False


@final
@frozen
class ForTurn:
    """Another call goes first: by the schedule, or because it may give the output instead of all others."""

    call: CallId


@final
@frozen
class ForMore:
    """It waits for so many more calls."""

    calls: int


@final
@frozen
class ForSlot:
    """All of so many slots are taken."""

    slots: int


@final
@frozen
class ForShare:
    """All that is left of a budget is reserved for sub-agents under way."""


@final
@frozen
class ForOthers:
    """It gives the output, which is taken when the other calls have ended."""


Reason = (
    ForReply
    | ForCheck
    | ForOwnResult
    | ForApproval
    | ForAnswer
    | ForHook
    | ForChild
    | ForWord
    | ForSource
    | ForConflict
    | ForTurn
    | ForMore
    | ForSlot
    | ForShare
    | ForOthers
)


@final
@frozen
class Wait:
    """An open call, and everything that it waits for; at least one reason."""

    call: CallId
    reasons: tuple[Reason, ...]
