"""How a turn ends, decided by the phase that ends it and carried out in `Finishing`."""

from typing import final

from attrs import frozen

from loopkernel.data.blocks import UserBlock
from loopkernel.data.ids import ReceiptId
from loopkernel.data.ledgers import Ledger
from loopkernel.data.words import CancelReason, ErrorClass, TurnEndReason


@final
@frozen(kw_only=True)
class NextInput:
    """An accepted message that starts a turn as soon as this one has ended."""

    receipt: ReceiptId
    content: tuple[UserBlock, ...]
    key: str | None = None


@final
@frozen(kw_only=True)
class Ending:
    """The reason, and what may follow.

    After a `natural` end the queue goes on; a `gated` one passes the gates of rule INFER-6 first; `cancel`
    is there when everything was cut short; `then` starts a turn whatever else holds. `error` is shown at the end, with
    its `message`; `waiting` are the calls that still wait for a person, of a thread that is released.
    """

    reason: TurnEndReason
    natural: bool = False
    gated: bool = False
    cancel: CancelReason | None = None
    then: NextInput | None = None
    error: ErrorClass | None = None
    message: str = ""
    waiting: Ledger | None = None
