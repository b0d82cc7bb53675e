"""The shown error: at most one, cleared by the next accepted delta (rule DELTA-5)."""

from attrs import evolve

from loopkernel.data.effects import Effect
from loopkernel.data.events import ErrorShown
from loopkernel.data.sessions import Session, ShownError
from loopkernel.data.words import ErrorClass


def show_error(session: Session, error: ErrorClass, message: str) -> tuple[Session, tuple[Effect, ...]]:
    """The user sees the error from now on."""
    return evolve(session, error=ShownError(error, message)), (ErrorShown(error, message),)
