"""The states that a run can be in, and what they are made of. Public: all that stands in `__all__`.

A state is read, kept with `loopkernel.codec`, and given to `transition`; it is never built by hand, but for `Initial`.
"""

from loopkernel.data.ledgers import Ledger, LedgerEntry, Person
from loopkernel.data.sessions import (
    Inbox,
    OpenReply,
    QueuedInput,
    Recovery,
    Session,
    Settings,
    ShownError,
    Stamp,
    Turn,
    WaitingSteer,
)
from loopkernel.data.states import (
    AfterModel,
    AtRest,
    Backoff,
    BeforeEnd,
    BeforeRequest,
    Cancelled,
    Compacting,
    Confirming,
    Dispatching,
    Done,
    Executing,
    Finishing,
    HandingOff,
    Idle,
    Initial,
    Live,
    State,
    Streaming,
    Thinking,
)
from loopkernel.data.timers import Timer
from loopkernel.data.waits import ForAnswer, ForApproval, ForChild, ForWord
from loopkernel.data.words import CallStatus, TimerPurpose
from loopkernel.loop.algorithms.interaction import Interaction
from loopkernel.views.deadlines import next_deadline
from loopkernel.views.explain import accepted_inputs, interaction_of
from loopkernel.views.waiting import PersonWait, waiting

__all__ = [
    "AfterModel",
    "AtRest",
    "Backoff",
    "BeforeEnd",
    "BeforeRequest",
    "CallStatus",
    "Cancelled",
    "Compacting",
    "Confirming",
    "Dispatching",
    "Done",
    "Executing",
    "Finishing",
    "ForAnswer",
    "ForApproval",
    "ForChild",
    "ForWord",
    "HandingOff",
    "Idle",
    "Inbox",
    "Initial",
    "Interaction",
    "Ledger",
    "LedgerEntry",
    "Live",
    "OpenReply",
    "Person",
    "PersonWait",
    "QueuedInput",
    "Recovery",
    "Session",
    "Settings",
    "ShownError",
    "Stamp",
    "State",
    "Streaming",
    "Thinking",
    "Timer",
    "TimerPurpose",
    "Turn",
    "WaitingSteer",
    "accepted_inputs",
    "interaction_of",
    "next_deadline",
    "waiting",
]
