"""How a turn ends, decided by the phase that ends it and carried out in `Finishing`."""

from typing import final

from loopkernel.data.blocks import UserBlock
from loopkernel.data.ids import MessageId, ModelOperation, ReceiptId
from loopkernel.data.ledgers import Ledger
from loopkernel.data.value_classes import frozen
from loopkernel.data.words import CancelReason, ErrorClass, RequestReason, TurnEndReason


@final
@frozen(kw_only=True)
class NextInput:
    """An accepted message that starts a turn as soon as this one has ended.

    With `replaces` it takes the place of that message, and what follows that is dropped (rule INPUT-4).
    """

    receipt: ReceiptId
    content: tuple[UserBlock, ...]
    key: str | None = None
    replaces: MessageId | None = None


@final
@frozen
class NextQueued:
    """The oldest queued input starts a turn as soon as this one has ended; there is one."""


@final
@frozen(kw_only=True)
class Ending:
    """The reason, and what may follow.

    After a `natural` end the queue goes on; a `gated` one passes the gates of rule INFER-6 first; `cancel`
    is there when everything was cut short; `then` starts a turn whatever else holds. `error` is shown at the end, with
    its `message`; `waiting` are the calls that still wait for a person, of a thread that is released. `final` ends a
    session too (rule RETRY-7); `forked` leaves the new lineage at rest, a task too (rule RESUME-6).
    """

    reason: TurnEndReason
    natural: bool = False
    gated: bool = False
    cancel: CancelReason | None = None
    then: NextInput | NextQueued | None = None
    error: ErrorClass | None = None
    message: str = ""
    waiting: Ledger | None = None
    final: bool = False
    forked: bool = False


@final
@frozen(kw_only=True)
class Failure:
    """A model call has failed, and nothing has been done about it yet; `retry_after_ms` is what the server asked.

    `begun`: something of the reply had come, of which the last `unfinished` characters belong to no whole block.
    """

    request: ModelOperation
    error: ErrorClass
    message: str = ""
    retry_after_ms: int | None = None
    begun: bool = False
    unfinished: int | None = None


@final
@frozen
class GoOn:
    """The model is asked again, for this reason."""

    reason: RequestReason


# What follows when the calls of a reply are answered, where something other than the next request does.
Settled = Ending | Failure | GoOn
