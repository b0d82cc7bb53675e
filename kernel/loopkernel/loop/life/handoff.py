"""Handoff: the work is carried over to a new thread (rule HANDOFF-1)."""

from attrs import evolve

from loopkernel.data.effects import AbortOther, Effect, HandOff
from loopkernel.data.events import HandoffEnded, HandoffStarted
from loopkernel.data.ids import HandoffOperation, OperationKind
from loopkernel.data.sessions import Session

Handed = tuple[Session, tuple[Effect, ...]]


def begin_handoff(session: Session, goal: str) -> tuple[Session, HandoffOperation, tuple[Effect, ...]]:
    """A new thread is asked for, to begin with a summary of this one and what is queued."""
    operations, number = session.operations.mint(OperationKind.HANDOFF)
    operation = HandoffOperation(number)
    command = HandOff(operation=operation, goal=goal, thread=session.thread, queue=session.inbox.queue)
    return evolve(session, operations=operations), operation, (HandoffStarted(), command)


def abort_handoff(session: Session, operation: HandoffOperation) -> Handed:
    """The new thread is not wanted any more."""
    session, ended = drop_handoff(session, operation)
    return session, (AbortOther(OperationKind.HANDOFF, operation), *ended)


def drop_handoff(session: Session, operation: HandoffOperation) -> Handed:
    """What becomes of the new thread is of no more interest."""
    operations = session.operations.abandon(OperationKind.HANDOFF, operation)
    return session.with_operations(operations), (HandoffEnded(None),)
