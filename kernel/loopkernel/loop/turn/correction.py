"""Course correction: asked once after enough has happened since the user spoke (rule HOOK-3)."""

from attrs import evolve

from loopkernel.data.effects import AbortOther, CheckCorrection, Effect
from loopkernel.data.hook_calls import OpenCorrection
from loopkernel.data.ids import CorrectionOperation, OperationKind
from loopkernel.data.sessions import Session
from loopkernel.data.timers import Timer
from loopkernel.data.words import TimerPurpose
from loopkernel.loop.gates.timers import close_timer, start_timer

Asking = tuple[Session, OpenCorrection, tuple[Effect, ...]]


def is_correction_due(session: Session) -> bool:
    """Whether policy wants a correction, and none was asked for since the user spoke."""
    policy, course = session.settings.policy.course_correction, session.course
    if policy is None or course.checked:
        return False
    return course.calls >= policy.after_calls and course.writes >= policy.after_writes


def ask_correction(session: Session, now_ms: int) -> Asking:
    """Whoever watches the course is asked, for no longer than a hook."""
    operations, number = session.operations.mint(OperationKind.CORRECTION)
    operation = CorrectionOperation(number)
    limit_ms = session.settings.policy.hook_timeout_ms
    timer: Timer | None = None
    timed: tuple[Effect, ...] = ()
    if limit_ms is not None:
        operations, timer, started = start_timer(operations, TimerPurpose.HOOK_TIMEOUT, now_ms + limit_ms)
        timed = (started,)
    session = evolve(session, operations=operations, course=evolve(session.course, checked=True))
    return session, OpenCorrection(operation, timer), (CheckCorrection(operation, session.thread), *timed)


def ask_correction_again(session: Session, gate: OpenCorrection, now_ms: int) -> Asking:
    """The process was restarted: the question is put again (rule RESUME-3)."""
    return ask_correction(forget_correction(session, gate), now_ms)


def forget_correction(session: Session, gate: OpenCorrection) -> Session:
    """The answer is of no more interest, and nobody is told."""
    return session.with_operations(session.operations.abandon(OperationKind.CORRECTION, gate.operation))


def abort_correction(
    session: Session, gate: OpenCorrection, *, fired: bool = False
) -> tuple[Session, tuple[Effect, ...]]:
    """The question is taken back; `fired`: since its time has run out."""
    aborted = AbortOther(OperationKind.CORRECTION, gate.operation)
    return forget_correction(session, gate), (aborted, *(() if fired else close_timer(gate.timer)))
