"""Handoff: the work is carried over to a new thread (rule HANDOFF-1)."""

from loopkernel.data.effects import AbortOther, HandOff
from loopkernel.data.events import HandoffEnded, HandoffStarted
from loopkernel.data.ids import HandoffOperation, OperationKind
from loopkernel.loop.draft import Draft, L


def begin_handoff(draft: Draft[L], goal: str) -> tuple[Draft[L], HandoffOperation]:
    """A new thread is asked for, to begin with a summary of this one and what is queued."""
    draft, number = draft.mint(OperationKind.HANDOFF)
    operation, session = HandoffOperation(number), draft.session
    command = HandOff(operation=operation, goal=goal, thread=session.thread, queue=session.inbox.queue)
    return draft.tell(HandoffStarted(), command), operation


def abort_handoff(draft: Draft[L], operation: HandoffOperation) -> Draft[L]:
    """The new thread is not wanted any more."""
    return forget_handoff(draft.tell(AbortOther(OperationKind.HANDOFF, operation)), operation)


def forget_handoff(draft: Draft[L], operation: HandoffOperation) -> Draft[L]:
    """What becomes of the new thread is of no more interest."""
    return draft.abandon(OperationKind.HANDOFF, operation).tell(HandoffEnded(None))
