"""What a second opinion on a run foresees: how each delta is taken, from what deltas and effects have told so far."""

from attrs import Factory, define

from loopkernel.data.choices import OnBusy
from loopkernel.data.deltas import Delta
from loopkernel.data.ids import CallId, ModelOperation, OperationKind
from loopkernel.data.model_deltas import ModelDelta
from loopkernel.data.outside_deltas import (
    OutsideDelta,
    TimerFired,
)
from loopkernel.data.policy import Policy
from loopkernel.data.states import Backoff, Cancelled, Compacting, Done, HandingOff, Idle, Initial, State
from loopkernel.data.thread_deltas import Acquired, Disposed, Forked, Resumed, ThreadDelta
from loopkernel.data.tool_deltas import ToolDelta, ToolLost, ToolStopped
from loopkernel.data.user_deltas import (
    AnswersCall,
    CancelAll,
    CancelCall,
    ChangesSettings,
    DismissError,
    EditMessage,
    Forget,
    RetryNow,
    Say,
    StartHandoff,
    Steer,
)
from loopkernel.data.words import RefusalReason
from loopkernel.testing.witness_calls import SeenCalls
from loopkernel.testing.witness_outcomes import (
    ACCEPTED,
    REFUSED,
    UNFORESEEN,
    ChildReport,
    Fate,
    Outcomes,
    goes_aside,
    kind_of,
    only,
)
from loopkernel.testing.witness_thread import SeenThread, SentByUser

RELEASED = (Initial, Done)
AT_REST = (Idle, Cancelled)


@define
class Foresight:
    """What is known of a run so far: it says how a delta will be taken.

    Runs that outlast the answers to their calls are `aborted` or `aside`, with the calls.
    """

    seen: SeenCalls = Factory(SeenCalls)
    thread: SeenThread = Factory(SeenThread)
    operations: dict[tuple[OperationKind, int], Fate] = Factory(dict)
    deadlines: dict[int, int] = Factory(dict)  # of the timers that were started
    aborted: dict[int, CallId] = Factory(dict)
    aside: dict[int, CallId] = Factory(dict)
    repeated: set[int] = Factory(set)  # of those aside: begun again by a restart, they may say once more that they are
    turns_open: int = 0

    @property
    def policy(self) -> Policy:
        """The policy that holds now."""
        return self.seen.approvals.policy

    @property
    def open_calls(self) -> list[CallId]:
        """The calls that are not answered yet."""
        return [call.call for call in self.seen.open()]

    # --- predictions ------------------------------------------------------------------------------------

    def outcomes(self, state: State, delta: Delta) -> Outcomes:
        """How the state may take the delta."""
        if isinstance(delta, ModelDelta | ToolDelta | OutsideDelta | TimerFired):
            return self._outcomes_of_report(delta)
        if isinstance(delta, ThreadDelta):
            return self._outcomes_of_life(state, delta)
        if isinstance(state, RELEASED):
            return only(RefusalReason.NOT_NOW)
        return self._outcomes_of_wish(state, delta)

    def _outcomes_of_report(self, delta: ModelDelta | ToolDelta | OutsideDelta | TimerFired) -> Outcomes:
        kind, number = kind_of(delta), delta.operation
        if kind is OperationKind.RUN and number in self.aborted:
            return ACCEPTED if isinstance(delta, ToolStopped | ToolLost) else only(RefusalReason.STALE)
        if kind is OperationKind.RUN and number in self.aside and goes_aside(delta):
            return ACCEPTED if number in self.repeated else only(RefusalReason.DUPLICATE)
        fate = self.operations.get((kind, number))
        if fate is None:
            return only(RefusalReason.UNKNOWN)
        if fate is Fate.REPORTED and kind is not OperationKind.TIMER:
            return only(RefusalReason.DUPLICATE)
        if fate is not Fate.OPEN:
            return only(RefusalReason.STALE)
        if kind is OperationKind.RUN:
            child = any(call.child for call in self.seen.open() if call.run == number)
            return ACCEPTED if child is isinstance(delta, ChildReport) else REFUSED
        return ACCEPTED

    def _outcomes_of_life(self, state: State, delta: ThreadDelta) -> Outcomes:
        """Of what happens to the session itself."""
        released = isinstance(state, Initial)
        if isinstance(delta, Disposed):
            return only(RefusalReason.NOT_NOW) if isinstance(state, Done) else ACCEPTED
        if isinstance(delta, Acquired | Resumed):
            takes = released and state.session is not None
            if isinstance(delta, Resumed):
                takes = takes or not isinstance(state, RELEASED)
            return ACCEPTED if takes else only(RefusalReason.NOT_NOW)
        if isinstance(delta, Forked):
            return only(RefusalReason.NOT_NOW) if isinstance(state, RELEASED) else ACCEPTED
        return UNFORESEEN if released and state.session is None else only(RefusalReason.NOT_NOW)

    def _outcomes_of_wish(self, state: State, delta: Delta) -> Outcomes:
        if isinstance(delta, SentByUser):
            return self._outcomes_of_message(state, delta)
        if isinstance(state, Backoff) and isinstance(delta, RetryNow | DismissError):
            return ACCEPTED
        if isinstance(delta, CancelAll):
            cuttable = self.turns_open or isinstance(state, Compacting | HandingOff)
            return ACCEPTED if cuttable else only(RefusalReason.NOT_NOW)
        if isinstance(delta, StartHandoff):
            return ACCEPTED if isinstance(state, AT_REST) else only(RefusalReason.NOT_NOW)
        if isinstance(delta, CancelCall | AnswersCall):
            self.seen.gone, self.seen.compacted = self._gone(), self.thread.compacted_replies()
        if isinstance(delta, CancelCall):
            return self.seen.outcomes_of_cancel(delta.call, delta.call in self.aside.values())
        if isinstance(delta, AnswersCall):
            return self.seen.outcomes_of_answer(delta)
        if isinstance(delta, Forget) and delta.remembered is not None:
            return ACCEPTED if delta.remembered in self.seen.approvals.remembered else only(RefusalReason.UNKNOWN)
        return ACCEPTED if isinstance(delta, ChangesSettings) else UNFORESEEN

    def _gone(self) -> set[ModelOperation]:
        """The replies that were asked for, and are neither under way nor in the thread."""
        asked = {number for kind, number in self.operations if kind is OperationKind.MODEL}
        gone = asked - set(self.open_operations(OperationKind.MODEL)) - set(self.thread.replies())
        return {ModelOperation(number) for number in gone}

    def _outcomes_of_message(self, state: State, delta: SentByUser) -> Outcomes:
        if delta.key is not None and delta.key in self.thread.keys:
            return only(RefusalReason.DUPLICATE)
        if isinstance(delta, EditMessage):
            if isinstance(state, HandingOff) or (isinstance(state, Compacting) and not self.turns_open):
                return UNFORESEEN
            return ACCEPTED if delta.message in self.thread.editable() else only(RefusalReason.UNKNOWN)
        if isinstance(state, (*AT_REST, Backoff)) or isinstance(delta, Steer):
            return ACCEPTED
        if isinstance(delta, Say) and self.policy.on_busy is OnBusy.REJECT:
            return only(RefusalReason.NOT_NOW)
        if isinstance(delta, Say) and self.policy.on_busy is OnBusy.INTERRUPT:
            return ACCEPTED
        if state.session is None:
            return REFUSED
        full = len(state.session.inbox.queue) >= self.policy.queue_limit
        return only(RefusalReason.FULL) if full else ACCEPTED

    def open_operations(self, kind: OperationKind) -> list[int]:
        """The operations of the kind that are open."""
        return [n for (other, n), fate in self.operations.items() if other is kind and fate is Fate.OPEN]
