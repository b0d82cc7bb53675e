"""How far the runs of the explorer go, and what a single move of them is.

Every text is one letter, and no usage is reported, so that runs which differ in nothing that matters meet in one state.
"""

import enum

from attrs import frozen

from loopkernel.data.blocks import TextBlock
from loopkernel.data.children import ChildCall
from loopkernel.data.deltas import Delta
from loopkernel.data.ids import CallId, ModelOperation
from loopkernel.data.model_deltas import ModelCompleted, ModelFailed
from loopkernel.data.outside_deltas import HookAnswer, HookBlock, HookContinue
from loopkernel.data.states import Cancelled, Done, Idle, Initial
from loopkernel.data.tools import ToolOutput, UnknownTool, ValidCall, Verdict
from loopkernel.data.user_deltas import Approve, Correct, Reject, Swap, UserDelta
from loopkernel.data.words import ErrorClass, StopReason, TurnEndReason

A = (TextBlock("a"),)
OUTPUT = ToolOutput(content=A)
RESTS = (Idle, Cancelled, Done, Initial)
ANY_REPLY = ModelOperation(0)  # stands for the reply that a report of a scope is about
ANY_CALL = CallId(ANY_REPLY, 0)  # stands for the call that an answer of a scope is sent to
ASKED_BY_CHILD = ChildCall((CallId(ModelOperation(1), 1),))  # the call of a sub-agent that a person is asked about


class MoveKind(enum.Enum):
    """Who sends a delta, and whether it is due."""

    REPORT = "report"  # owed by the outside for what is open
    ANSWER = "answer"  # owed by a person to a call that waits
    USER = "user"
    CRASH = "crash"  # the process dies, and is restarted from its log
    ILL_TIMED = "ill-timed"  # late, too early, sent twice, about nothing, or not for this phase


OWED = (MoveKind.REPORT, MoveKind.ANSWER)


@frozen
class Move:
    """A delta that may come in a state, and when; one that is not `explored` is judged, and not gone on from."""

    kind: MoveKind
    delta: Delta
    now_ms: int = 0
    explored: bool = True


class EndOfRun(enum.Enum):
    """What a run may report of its end."""

    RETURNS = "returns"
    FAILS = "fails"
    STOPS = "stops"
    LOST = "lost"
    GOES_ON = "goes on"  # in the background


@frozen(kw_only=True)
class OfferedCall:
    """A call that a reply may hold.

    `after` are the places, from 0, of the earlier calls that it declares to depend on, and `uses` that of one to whose
    output its input refers. If it is `checked`, the adapter is asked; else the verdict comes with the call.
    """

    tool: str
    after: tuple[int, ...] = ()
    uses: int | None = None
    checked: bool = False


Answer = Approve | Reject | Correct | Swap


@frozen(kw_only=True)
class Scope:
    """How far runs go: `calls` a reply, `rounds` with calls a turn, `turns` in all (None: any number).

    At most `waiting` messages wait, queued or as steers, and of the latter one at a time. The call at place n
    names `tools[n]`, the first again after the last, and is checked; or it is one of `offers[n]`. Checks answer with
    one of the `verdicts`; where there are none, that the call is valid and uses what the profile of its tool says, or,
    for an edit, that it is invalid. `answers` are what a person may say to a call that waits for an approval.
    `also` is what else the user may want at any time.
    """

    calls: int = 2
    rounds: int = 2
    turns: int | None = None
    waiting: int = 2
    steers: bool = True
    tools: tuple[str, ...] = ("r", "w")
    offers: tuple[tuple[OfferedCall, ...], ...] = ()
    verdicts: tuple[Verdict, ...] = (ValidCall(), UnknownTool())
    stops: tuple[StopReason, ...] = (StopReason.END_TURN,)
    completions: tuple[ModelCompleted, ...] = ()
    failures: tuple[ModelFailed, ...] = (ModelFailed(ANY_REPLY, error=ErrorClass.NETWORK),)
    ends: tuple[EndOfRun, ...] = (EndOfRun.RETURNS, EndOfRun.FAILS, EndOfRun.STOPS)
    answers: tuple[Answer, ...] = (Approve(call=ANY_CALL), Reject(call=ANY_CALL))
    cancels: int | None = None  # of single calls, in each reply
    held: int = 0  # the user waits while more runs than these have been aborted and not stopped, or go on aside
    texts: bool = True
    progress: bool = False
    questions: bool = False  # a run may ask one
    hook_answers: tuple[HookAnswer, ...] = (HookContinue(), HookBlock("a"))
    child_ends: tuple[TurnEndReason, ...] = (TurnEndReason.MODEL_STOP, TurnEndReason.ERROR)
    child_asks: bool = False  # a sub-agent may wait for a person
    times: bool = False  # time runs out for whatever is timed: a little early, on time, and late
    lives: bool = False  # the thread is released and taken up again
    crashes: bool = False  # the process is restarted, and goes on
    edits: bool = False
    forks: bool = False  # a lineage of its own begins, once
    strays: bool = True
    also: tuple[UserDelta, ...] = ()
