"""What the laws say of cancels and of input that are not as they must be."""

from collections.abc import Callable

import pytest
from attrs import evolve
from loopkernel.data.blocks import TextBlock
from loopkernel.data.effects import (
    AbortModel,
    AbortTool,
    CheckCall,
)
from loopkernel.data.events import (
    Dequeued,
    InputSettled,
    Queued,
    TurnEnded,
    WorkCancelled,
)
from loopkernel.data.ids import (
    CheckOperation,
    QueueNumber,
    ReceiptId,
)
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCompleted
from loopkernel.data.states import Idle, State
from loopkernel.data.steps import Context
from loopkernel.data.tool_deltas import ToolSucceeded
from loopkernel.data.user_deltas import CancelAll, CancelCall, Discard, Enqueue, Say
from loopkernel.data.words import (
    CallStatus,
    CancelReason,
    InputFate,
    TurnEndReason,
)
from loopkernel.replaying import StepRecord

from tests.kernel.laws.tampering import (
    CALL,
    Case,
    Steps,
    after,
    at,
    changed,
    ended_as,
    findings,
    instead,
    less,
    more,
    request_of,
    session_in,
)
from tests.kernel.played import PLAYED

# --- cancels --------------------------------------------------------------------------------------------------

CHECK = CheckCall(operation=CheckOperation(99), call=CALL, tool="read", input=Json.of({}))


def _after_the_cancel() -> Steps:
    """Something starts in a step that is refused, after everything was cancelled."""
    steps = PLAYED["cancelled"]
    place = at(steps, CancelAll) + 1
    return (*steps[:place], more(CHECK)(steps[place]))


def _at_rest(state: State) -> State:
    return Idle(session=session_in(state), stamp=state.stamp)


CANCELS = (
    Case("CANCEL-STOP", "CheckCall starts after a cancel, without new input", _after_the_cancel),
    Case(
        "CANCEL-STOP",
        "everything is cancelled, and nothing says so",
        lambda: changed("cancelled", CancelAll, less(WorkCancelled)),
    ),
    Case(
        "CANCEL-STOP",
        "one cancel is told 2 times",
        lambda: changed("cancelled", CancelAll, more(WorkCancelled(CancelReason.USER_CANCELLED))),
    ),
    Case(
        "CANCEL-STOP",
        "work is cancelled as user:cancelled, and the turn ends: not at all",
        lambda: changed("cancelled", CancelAll, less(TurnEnded)),
    ),
    Case(
        "CANCEL-STOP",
        "CheckCall starts in the step of the cancel",
        lambda: changed("cancelled", CancelAll, more(CHECK)),
    ),
    Case(
        "CANCEL-STOP",
        "after the cancel the state is Idle",
        lambda: changed("cancelled", CancelAll, after(_at_rest)),
    ),
    Case(
        "CANCEL-STOP",
        "call 1.1 is not answered as cancelled",
        lambda: changed("cancelled", CancelAll, ended_as(CallStatus.ERROR)),
    ),
    Case(
        "CANCEL-STOP",
        "model call 2 is not aborted",
        lambda: changed("cancelled", CancelAll, less(AbortModel), 1),
    ),
    Case(
        "CANCEL-STOP",
        "the run of call 1.1 is not aborted",
        lambda: changed("one_cancelled", CancelCall, less(AbortTool)),
    ),
    Case(
        "CANCEL-STOP",
        "call 1.1 is not answered as cancelled by the user",
        lambda: changed("one_cancelled", CancelCall, ended_as(CallStatus.CANCELLED)),
    ),
    Case(
        "CANCEL-STOP",
        "request 1 follows, though the user cancelled a call of the reply before it",
        lambda: changed("one_cancelled", CancelCall, more(request_of("one_cancelled"))),
    ),
    Case(
        "CANCEL-STOP",
        "the turn ends as model_stop, though the user cancelled a call of it",
        lambda: changed(
            "one_cancelled",
            ToolSucceeded,
            instead(
                lambda effect: (
                    TurnEnded(TurnEndReason.MODEL_STOP, effect.usage) if isinstance(effect, TurnEnded) else effect
                )
            ),
        ),
    ),
)


# --- input ----------------------------------------------------------------------------------------------------


def _settled_again(fate: InputFate) -> Callable[[StepRecord], StepRecord]:
    """The first input of the run gets another fate."""
    return more(InputSettled(ReceiptId(1), fate))


def _same_key_again() -> Steps:
    """The second input comes with the key of the first, and is accepted."""
    return changed(
        "waiting",
        Enqueue,
        lambda step: evolve(
            step, context=Context(Enqueue(content=(TextBlock("third"),), key="second"), step.context.now_ms)
        ),
        1,
    )


SAY_OTHER = Say(content=(TextBlock("something else"),))

INPUT = (
    Case(
        "CONSERVE",
        "receipt 99 belongs to no input",
        lambda: changed("talk", ModelCompleted, more(InputSettled(ReceiptId(99), InputFate.IN_THREAD))),
    ),
    Case(
        "CONSERVE",
        "Say is accepted, and gets 0 new receipts",
        lambda: changed("talk", Say, less(InputSettled)),
    ),
    Case("CONSERVE", "the key 'second' is accepted a second time", _same_key_again),
    Case(
        "CONSERVE",
        "receipt 1 was in-thread, and is now queued",
        lambda: changed("talk", ModelCompleted, _settled_again(InputFate.QUEUED)),
    ),
    Case(
        "CONSERVE",
        "receipt 1 is in the thread with another content than was sent",
        lambda: changed("talk", Say, lambda step: evolve(step, context=Context(SAY_OTHER, step.context.now_ms))),
    ),
    Case(
        "CONSERVE",
        "receipt 2 waits with another content than was sent",
        lambda: changed(
            "waiting",
            Enqueue,
            lambda step: evolve(step, context=Context(Enqueue(content=()), step.context.now_ms)),
        ),
    ),
    Case(
        "CONSERVE",
        "queued input 9 belongs to no receipt",
        lambda: changed("talk", ModelCompleted, more(Queued(QueueNumber(9)))),
    ),
    Case(
        "CONSERVE",
        "queued input 3 is taken, and it is not the oldest of 1, 2, 3",
        lambda: changed("waiting", Enqueue, more(Dequeued(QueueNumber(3))), 2),
    ),
    Case(
        "CONSERVE",
        "receipt 3 was told to be discarded; in the inbox it is queued",
        lambda: changed("waiting", Discard, lambda step: evolve(step, after=step.before)),
    ),
)


CASES = (*CANCELS, *INPUT)


@pytest.mark.parametrize("case", CASES, ids=[f"{case.law}: {case.says}" for case in CASES])
def test_the_law_says_what_is_wrong(case: Case) -> None:
    told = findings(case.run(), case.law)
    assert any(case.says in detail for detail in told), told
