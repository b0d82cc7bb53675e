"""The states: one frozen class per phase, each with just what its handler needs (rules STATE-1 and STATE-2).

Only states that wait for something can be seen; the others are passed through within one step.
"""

import enum
from typing import final, get_args

from loopkernel.data.compactions import Cut
from loopkernel.data.endings import Ending, Failure, Settled
from loopkernel.data.errors import demand_kind
from loopkernel.data.hook_calls import OpenCorrection, OpenHook
from loopkernel.data.ids import HandoffOperation, QueueNumber, SummaryOperation
from loopkernel.data.ledgers import Ledger
from loopkernel.data.model_deltas import ModelCompleted, Piece
from loopkernel.data.reply_sizes import NOTHING_SAID, ReplySize
from loopkernel.data.sessions import OpenReply, Session, Stamp, Turn
from loopkernel.data.timers import Timer
from loopkernel.data.value_classes import frozen, maker
from loopkernel.data.vector import Vector
from loopkernel.data.words import CancelReason, ErrorClass, TurnEndReason


@final
@frozen(kw_only=True)
class Initial:
    """Not created yet (no session), created but not acquired, or released (rule STATE-3).

    `ledger` holds the calls that waited for a person when the thread was released (rule CANCEL-2).
    """

    session: Session | None = None
    stamp: Stamp = Stamp()
    ledger: Ledger | None = None


@final
@frozen(kw_only=True)
class Idle:
    """At rest: nothing is open, the user may speak."""

    session: Session
    stamp: Stamp


class BeforeRequest(enum.Enum):
    """How far the gates before a request are passed (rule INFER-1)."""

    NOTHING = "nothing"
    COMPACTION = "compaction"
    HOOKS = "hooks"


class BeforeEnd(enum.Enum):
    """How far the gates at the end of a turn are passed (rule INFER-6)."""

    NOTHING = "nothing"
    STOP_HOOKS = "stop_hooks"
    CORRECTION = "correction"
    HOOKS = "hooks"


@final
@frozen(kw_only=True)
class Thinking:
    """A request is being prepared; seen only while a hook is asked."""

    session: Session
    stamp: Stamp
    turn: Turn
    gate: OpenHook | None = None
    passed: BeforeRequest = BeforeRequest.NOTHING


@final
@frozen(kw_only=True)
class AfterModel:
    """The model call has ended so, and a hook is asked about it before anything else is done (rule HOOK-1)."""

    gate: OpenHook
    end: ModelCompleted | Failure


@final
@frozen(kw_only=True)
class Streaming:
    """A model call is under way. `pieces` is the partial reply as it came; `ledger` holds its calls.

    The stream was last heard of at `heard_ms`; when `silence` is over, that is looked at (rule INFER-11). `after`: the
    stream is over. `time_limit`: when the turn has no more time, and `size`: what the reply has brought (rule LIMIT-4).
    """

    session: Session
    stamp: Stamp
    turn: Turn
    reply: OpenReply
    pieces: Vector[Piece]
    ledger: Ledger
    heard_ms: int = 0
    silence: Timer | None = None
    after: AfterModel | None = None
    time_limit: Timer | None = None
    size: ReplySize = NOTHING_SAID


new_streaming = maker(Streaming)


@final
@frozen(kw_only=True)
class Executing:
    """Calls of the last reply are not all answered. `settled` is what follows then, where it is known already."""

    session: Session
    stamp: Stamp
    turn: Turn
    ledger: Ledger
    settled: Settled | None = None


new_executing = maker(Executing)


@final
@frozen(kw_only=True)
class Confirming:
    """As `Executing`, but all that is under way waits for a person (rule STATE-5)."""

    session: Session
    stamp: Stamp
    turn: Turn
    ledger: Ledger
    settled: Settled | None = None


@final
@frozen(kw_only=True)
class Dispatching:
    """As `Executing`, but all that is under way and waits for no person is sub-agents (rule STATE-5)."""

    session: Session
    stamp: Stamp
    turn: Turn
    ledger: Ledger
    settled: Settled | None = None


@final
@frozen(kw_only=True)
class AtRest:
    """Where a session is at rest, to which it comes back: after a `cancel` of everything, or not.

    Input that was queued behind number `queued` has come since.
    """

    queued: QueueNumber
    cancel: CancelReason | None = None


@final
@frozen(kw_only=True)
class Compacting:
    """A summary of what `cut` leaves out is being made: in a turn, where the prompt was too long for its `failure`.

    Else the user has asked for it at rest.
    """

    session: Session
    stamp: Stamp
    within: Turn | AtRest
    operation: SummaryOperation
    cut: Cut
    failure: Failure | None = None


@final
@frozen(kw_only=True)
class Backoff:
    """A failed model call waits to be tried again (rule RETRY-4): `error` is why, the timer is the countdown."""

    session: Session
    stamp: Stamp
    turn: Turn
    timer: Timer
    error: ErrorClass


@final
@frozen(kw_only=True)
class Finishing:
    """A turn is ending; seen only while a hook or a correction is asked."""

    session: Session
    stamp: Stamp
    turn: Turn
    ending: Ending
    gate: OpenHook | OpenCorrection | None = None
    passed: BeforeEnd = BeforeEnd.NOTHING


@final
@frozen(kw_only=True)
class HandingOff:
    """The work is being carried over to a new thread; nothing else starts (rule HANDOFF-1)."""

    session: Session
    stamp: Stamp
    within: AtRest
    operation: HandoffOperation
    goal: str


@final
@frozen(kw_only=True)
class Cancelled:
    """At rest after a cancel of everything; the next user input starts again from here (rule STATE-4)."""

    session: Session
    stamp: Stamp
    reason: CancelReason


@final
@frozen(kw_only=True)
class Done:
    """The run is over (rule STATE-7). `cancel` is there when everything was cut short."""

    session: Session
    stamp: Stamp
    reason: TurnEndReason
    cancel: CancelReason | None = None


State = (
    Streaming
    | Executing
    | Idle
    | Thinking
    | Finishing
    | Confirming
    | Dispatching
    | Compacting
    | Backoff
    | HandingOff
    | Cancelled
    | Done
    | Initial
)

# Every state that has a session for certain.
Live = (
    Streaming
    | Executing
    | Idle
    | Thinking
    | Finishing
    | Confirming
    | Dispatching
    | Compacting
    | Backoff
    | HandingOff
    | Cancelled
    | Done
)


def demand_state(given: object) -> None:
    """For functions that anybody may call: raises TypeError for what is not a state, as a Machine in its place."""
    demand_kind(given, get_args(State), "a state is due, as `machine.state` is one")
