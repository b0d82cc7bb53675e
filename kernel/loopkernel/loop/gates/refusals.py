"""How inputs that do not apply are named (rule DELTA-2)."""

from collections.abc import Iterator
from typing import assert_never

from loopkernel.data.blocks import ToolResult
from loopkernel.data.events import Refused
from loopkernel.data.ids import CallId, OperationKind
from loopkernel.data.ledgers import Ledger, LedgerEntry
from loopkernel.data.messages import AssistantMessage, Message, ResultMessage
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
    Forget,
    Permit,
    Reject,
    Remember,
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
        case Permit() | Remember():
            return UserAction.PERMIT
        case Forget():
            return UserAction.FORGET
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


def refusal(delta: UserDelta | ThreadDelta, reason: RefusalReason) -> Refused:
    """The input changes nothing."""
    key = delta.key if isinstance(delta, Say | Enqueue | Steer | EditMessage) else None
    return Refused(action_of(delta), reason, key)


def answer_refusal(session: Session, ledger: Ledger | None, call: CallId) -> RefusalReason:
    """Why an answer to a call does not apply (rule ASK-2).

    An answered question is not answered twice, also after the call ended; a call that was never shown cannot be
    answered yet.
    """
    entry = _entry(ledger, call)
    if entry is not None:
        if entry.person.answered:
            return RefusalReason.DUPLICATE
        return RefusalReason.NOT_NOW if entry.is_open and not entry.person.asked else RefusalReason.STALE
    result = _result(session, call)
    if result is None:
        return RefusalReason.STALE if _is_gone(session, ledger, call) else RefusalReason.UNKNOWN
    return RefusalReason.DUPLICATE if result.decided else RefusalReason.STALE


def cancel_refusal(session: Session, ledger: Ledger | None, call: CallId) -> RefusalReason:
    """Why a cancel of a call does not apply: there is no such call, or it has ended, by its own report or otherwise."""
    entry = _entry(ledger, call)
    result = _result(session, call) if entry is None else entry.result
    if result is None:
        return RefusalReason.STALE if _is_gone(session, ledger, call) else RefusalReason.UNKNOWN
    by_its_own_report = result.ran and result.reason is None
    return RefusalReason.DUPLICATE if by_its_own_report else RefusalReason.STALE


def _is_gone(session: Session, ledger: Ledger | None, call: CallId) -> bool:
    """Whether the reply that made the call has left the thread, or never came to stand there."""
    if not 1 <= call.reply <= session.operations.minted[OperationKind.MODEL]:
        return False
    if ledger is not None and ledger.reply == call.reply:
        return False
    replies = (message.reply for message in _backwards(session) if isinstance(message, AssistantMessage))
    return next((reply for reply in replies if reply <= call.reply), None) != call.reply


def _entry(ledger: Ledger | None, call: CallId) -> LedgerEntry | None:
    """The call in the ledger; None if it is not there."""
    if ledger is None or call.reply != ledger.reply or not 1 <= call.position <= ledger.entries.size:
        return None
    return ledger.entries[call.position - 1]


def _result(session: Session, call: CallId) -> ToolResult | None:
    """The answer to the call in the thread; None if it is not there."""
    for message in _backwards(session):
        if isinstance(message, ResultMessage) and message.reply == call.reply:
            return next((result for result in message.results if result.call == call), None)
        if isinstance(message, AssistantMessage | ResultMessage) and message.reply < call.reply:
            break
    return None


def _backwards(session: Session) -> Iterator[Message]:
    messages = session.thread.messages
    for index in range(len(messages) - 1, -1, -1):
        yield messages[index]
