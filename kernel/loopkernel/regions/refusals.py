"""How inputs that do not apply are named (rule DELTA-2)."""

from collections.abc import Iterator
from typing import assert_never

from loopkernel.data.events import Refused
from loopkernel.data.ids import CallId
from loopkernel.data.ledgers import Ledger
from loopkernel.data.messages import AssistantMessage
from loopkernel.data.sessions import Session
from loopkernel.data.thread_deltas import Acquired, Created, Disposed, Forked, FromThread, Resumed, ThreadDelta
from loopkernel.data.user_deltas import (
    AnswerAfterCrash,
    AnswerQuestion,
    AnswersCall,
    Approve,
    CallAnswer,
    CancelAll,
    CancelCall,
    ChangeInstructions,
    ChangeMode,
    ChangePolicy,
    ChangesSettings,
    ChangeTools,
    CompactNow,
    Correct,
    Discard,
    DismissError,
    EditMessage,
    Enqueue,
    Permit,
    Reject,
    RetryNow,
    Say,
    SettingsChange,
    StartHandoff,
    Steer,
    Swap,
    UserDelta,
)
from loopkernel.data.words import RefusalReason, UserAction


def action_of(delta: UserDelta | ThreadDelta) -> UserAction:
    """The word for what was wanted."""
    match delta:
        case Say():
            return UserAction.SAY
        case Enqueue():
            return UserAction.ENQUEUE
        case Steer():
            return UserAction.STEER
        case Discard():
            return UserAction.DISCARD
        case EditMessage():
            return UserAction.EDIT
        case CancelAll() | CancelCall():
            return UserAction.CANCEL
        case RetryNow():
            return UserAction.RETRY
        case DismissError():
            return UserAction.DISMISS
        case CompactNow():
            return UserAction.COMPACT
        case StartHandoff():
            return UserAction.HANDOFF
        case AnswersCall():
            return _answer_of(delta)
        case ChangesSettings():
            return _change_of(delta)
        case FromThread():
            return _life_of(delta)
        case _:
            assert_never(delta)


def _answer_of(delta: CallAnswer) -> UserAction:
    match delta:
        case Approve():
            return UserAction.APPROVE
        case Reject():
            return UserAction.REJECT
        case Correct():
            return UserAction.CORRECT
        case Swap():
            return UserAction.SWAP
        case AnswerQuestion():
            return UserAction.ANSWER
        case AnswerAfterCrash():
            return UserAction.AFTER_CRASH
        case _:
            assert_never(delta)


def _change_of(delta: SettingsChange) -> UserAction:
    match delta:
        case ChangeMode():
            return UserAction.MODE
        case Permit():
            return UserAction.PERMIT
        case ChangePolicy():
            return UserAction.POLICY
        case ChangeTools():
            return UserAction.TOOLS
        case ChangeInstructions():
            return UserAction.INSTRUCTIONS
        case _:
            assert_never(delta)


def _life_of(delta: ThreadDelta) -> UserAction:
    match delta:
        case Created():
            return UserAction.CREATE
        case Acquired():
            return UserAction.ACQUIRE
        case Resumed():
            return UserAction.RESUME
        case Forked():
            return UserAction.FORK
        case Disposed():
            return UserAction.DISPOSE
        case _:
            assert_never(delta)


def refusal(delta: UserDelta | ThreadDelta, reason: RefusalReason) -> tuple[Refused]:
    """The input changed nothing."""
    key = delta.key if isinstance(delta, Say | Enqueue | Steer | EditMessage) else None
    return (Refused(action_of(delta), reason, key),)


def answer_refusal(session: Session, ledger: Ledger | None, call: CallId) -> RefusalReason:
    """Why an answer to a call, or a cancel of it, does not apply (rule ASK-2); an open call is not shown yet."""
    if ledger is not None and call.reply == ledger.reply:
        if not 1 <= call.position <= ledger.entries.size:
            return RefusalReason.UNKNOWN
        return RefusalReason.NOT_NOW if ledger.entries[call.position - 1].is_open else RefusalReason.STALE
    for message in _replies_backwards(session):
        if message.reply == call.reply:
            known = any(made.id == call for made in message.calls)
            return RefusalReason.STALE if known else RefusalReason.UNKNOWN
        if message.reply < call.reply:
            break
    return RefusalReason.UNKNOWN


def _replies_backwards(session: Session) -> Iterator[AssistantMessage]:
    messages = session.thread.messages
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if isinstance(message, AssistantMessage):
            yield message
