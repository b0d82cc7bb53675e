"""Identities, all minted by the kernel from counters in state. Each kind is a type of its own.

An operation is something started outside; every report about it names its id. Ids of one kind count
from 1 within a lineage, so "never minted" can be told from "closed".
"""

import enum
from typing import NewType

from loopkernel.data.checked_fields import checked_fields
from loopkernel.data.value_classes import frozen
from loopkernel.later_typing import override

ModelOperation = NewType("ModelOperation", int)  # equals the number of its request and of its reply
CheckOperation = NewType("CheckOperation", int)
RunOperation = NewType("RunOperation", int)
TimerOperation = NewType("TimerOperation", int)
HookOperation = NewType("HookOperation", int)
CorrectionOperation = NewType("CorrectionOperation", int)
SummaryOperation = NewType("SummaryOperation", int)
HandoffOperation = NewType("HandoffOperation", int)

MessageId = NewType("MessageId", int)
ReceiptId = NewType("ReceiptId", int)
QueueNumber = NewType("QueueNumber", int)


class OperationKind(enum.IntEnum):
    """Its place in the counters: model, check, run, timer, hook, correction, summary, handoff."""

    MODEL = 0
    CHECK = 1
    RUN = 2
    TIMER = 3
    HOOK = 4
    CORRECTION = 5
    SUMMARY = 6
    HANDOFF = 7


@frozen(field_transformer=checked_fields)
class CallId:
    """A tool call: the reply that made it, and its position there, both from 1 (rule TOOL-14)."""

    reply: ModelOperation
    position: int

    @override
    def __str__(self) -> str:
        return f"{self.reply}.{self.position}"
