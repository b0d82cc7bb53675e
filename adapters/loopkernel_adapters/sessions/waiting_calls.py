"""Calls that wait for a person, as a program sees them, and a program's answers as deltas."""

from collections.abc import Awaitable, Callable

from attrs import frozen
from loopkernel.data.blocks import RawInput
from loopkernel.data.ids import CallId
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import CrashWait, LedgerEntry
from loopkernel.data.states import State
from loopkernel.data.user_deltas import (
    AnswerAfterCrash,
    AnswerQuestion,
    Approve,
    CallAnswer,
    CrashAnswerKind,
    Reject,
)
from loopkernel_adapters.driver.asyncio_driver import Driver
from loopkernel_adapters.driver.children import WITH_CALLS, waiting_calls
from loopkernel_adapters.optional_ports import Address


@frozen(kw_only=True)
class WaitingCall:
    """A call that waits for a person: to be approved, or since its running tool asks `question`.

    `path` is the id of the call, behind those of the calls whose sub-agents it was made in. `after_crash`: it was
    running when the process ended, and nobody knows how far it came.
    """

    path: tuple[CallId, ...]
    tool: str
    input: Json | RawInput
    question: str | None = None
    after_crash: bool = False

    @property
    def within(self) -> Address:
        """The sub-agent that made the call; () for the session itself."""
        return self.path[:-1]


# What may be said to a waiting call.
#   to an approval: True lets it run, False does not, and a text does not and is told to the model as the reason
#   to a question: a text answers it, None or False declines
#   after a crash: True runs it again, None or False cancels it, and a text is what it has given
#   to any: a delta of the user family, for all that a person can do (another input, a remembered approval)
Answer = bool | str | None | CallAnswer
Approver = Callable[[WaitingCall], Answer | Awaitable[Answer]]


def calls_waiting_in(driver: Driver) -> tuple[WaitingCall, ...]:
    """The calls of the session and of its sub-agents that wait for a person, in the model's order."""
    return calls_waiting(driver.state_of)


def calls_waiting(state_of: Callable[[Address], State | None]) -> tuple[WaitingCall, ...]:
    """As `calls_waiting_in`, of the session whose state, and those of its sub-agents, are found by their addresses."""
    found: list[WaitingCall] = []
    own = state_of(())
    for asked in () if own is None else waiting_calls(own):
        entry = _entry(state_of(asked.path[:-1]), asked.path[-1])
        if entry is not None:
            after_crash = isinstance(entry.person.wait, CrashWait)
            found.append(
                WaitingCall(
                    path=asked.path,
                    tool=entry.tool,
                    input=entry.given,
                    question=entry.question,
                    after_crash=after_crash,
                )
            )
    return tuple(found)


def _entry(state: State | None, call: CallId) -> LedgerEntry | None:
    if not isinstance(state, WITH_CALLS):
        return None
    return next((entry for entry in state.ledger.entries if entry.call.id == call), None)


def answer_in_full(waiting: WaitingCall, answer: Answer) -> CallAnswer:
    """The delta that says so. Raises TypeError where the answer does not fit what is asked."""
    call = waiting.path[-1]
    if isinstance(answer, CallAnswer):
        return answer
    if not isinstance(answer, bool | str | None):  # a caller without a type checker
        raise TypeError(
            f"the answer to {waiting.tool} is of type {type(answer).__name__}; it is True, False, a text, None, or a "
            "delta that answers, such as Correct(call=..., input=...)"
        )
    if waiting.question is not None:
        if answer is True:
            raise TypeError(f"the question of {waiting.tool} is answered with a text, or declined with None")
        return AnswerQuestion(call=call, value=Json.of(answer) if isinstance(answer, str) else None)
    if waiting.after_crash:
        if isinstance(answer, str):
            return AnswerAfterCrash(call=call, kind=CrashAnswerKind.DONE, text=answer)
        return AnswerAfterCrash(call=call, kind=CrashAnswerKind.RERUN if answer else CrashAnswerKind.CANCEL)
    if answer is True:
        return Approve(call=call)
    if answer is None:
        raise TypeError(f"{waiting.tool} waits for an approval: True lets it run, False or a reason does not")
    return Reject(call=call, why=answer if isinstance(answer, str) else "")
