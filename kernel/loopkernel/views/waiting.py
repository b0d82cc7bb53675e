"""Which calls wait for a person, and what each asks: what a screen shows before it sends an answer.

for call in waiting(state):
    print(call)  # call 1.1 waits for your approval: shell {"command":"ls"}
"""

from typing import assert_never, final

from attrs import frozen

from loopkernel.data.blocks import RawInput
from loopkernel.data.errors import quoted
from loopkernel.data.ids import CallId
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import ApprovalWait, ChildWait, CrashWait, LedgerEntry, QuestionWait
from loopkernel.data.states import (
    Backoff,
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
    State,
    Streaming,
    Thinking,
    demand_state,
)
from loopkernel.data.waits import ForAnswer, ForApproval, ForChild, ForWord, Wait
from loopkernel.data.words import CallStatus
from loopkernel.later_typing import override
from loopkernel.views.waits import told

PersonReason = ForApproval | ForAnswer | ForWord | ForChild


@final
@frozen(kw_only=True)
class PersonWait:
    """A call that waits for a person; `input` is what its tool gets, or has got.

    `reason` says which delta answers it: `ForApproval` is answered by `Approve`, `Reject`, `Correct` or `Swap`,
    `ForAnswer` by `AnswerQuestion`, `ForWord` by `AnswerAfterCrash`. Of `ForChild` the sub-agent is answered.
    """

    call: CallId
    tool: str
    input: Json | RawInput
    reason: PersonReason

    @override
    def __str__(self) -> str:
        given = self.input.text if isinstance(self.input, Json) else quoted(self.input.text)
        return f"{told(Wait(self.call, (self.reason,)))}: {self.tool} {given}"


def waiting(state: State) -> tuple[PersonWait, ...]:
    """Each call that waits for a person now, in the order of the calls. One whose edit is being checked does not."""
    demand_state(state)
    match state:
        case Streaming() | Executing() | Confirming() | Dispatching():
            found = (_wait_of(entry) for entry in state.ledger.entries) if state.ledger.waiting else ()
            return tuple(wait for wait in found if wait is not None)
        case Initial() | Idle() | Thinking() | Finishing() | Compacting() | Backoff() | HandingOff():
            return ()
        case Cancelled() | Done():
            return ()
        case _:
            assert_never(state)


def _wait_of(entry: LedgerEntry) -> PersonWait | None:
    wait = entry.person.wait
    reason: PersonReason
    match wait:
        case ApprovalWait():
            if wait.edit is not None:  # it is not approved before the edit is checked
                return None
            reason = ForApproval()
        case QuestionWait():
            reason = ForAnswer(wait.question)
        case CrashWait():
            reason = ForWord()
        case ChildWait():
            reason = ForChild(wait.asked)
        case None:
            return None
        case _:
            assert_never(wait)
    if entry.status is not CallStatus.BLOCKED_ON_USER:
        return None
    return PersonWait(call=entry.call.id, tool=entry.tool, input=entry.given, reason=reason)
