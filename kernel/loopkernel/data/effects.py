"""Effects: everything that can go out. A command asks the driver to do something; an event tells what happened.

Each command carries the operation id by which its reports are known.
"""

from typing import final

from loopkernel.data.compactions import Cut
from loopkernel.data.events import Event
from loopkernel.data.hook_calls import HookContext
from loopkernel.data.ids import (
    CallId,
    CheckOperation,
    CorrectionOperation,
    HandoffOperation,
    HookOperation,
    ModelOperation,
    OperationKind,
    RunOperation,
    SummaryOperation,
    TimerOperation,
)
from loopkernel.data.json_text import Json
from loopkernel.data.policy import ResultLimit
from loopkernel.data.sessions import QueuedInput
from loopkernel.data.thread_deltas import Created
from loopkernel.data.threads import Thread
from loopkernel.data.tools import Tool
from loopkernel.data.user_deltas import ChangeMode, ChangePolicy, Forget, Permit, Remember
from loopkernel.data.value_classes import frozen, maker
from loopkernel.data.words import CancelReason, RequestReason, TimerPurpose


@final
@frozen(kw_only=True)
class Request:
    """What the model is asked: a handle on the persistent thread, no copy of it.

    `number` counts the model calls of the lineage from 1. The messages are the projection of the thread, which an
    adapter may cache by thread (`loopkernel.project(request.thread, request.model)`).
    Without `stream` the reply is wanted whole, where the adapter can ask so.
    """

    number: ModelOperation
    reason: RequestReason
    model: str
    instructions: str
    tools: tuple[Tool, ...]
    thread: Thread
    max_output_tokens: int | None
    forced_tool: str | None = None
    stream: bool = True


new_request = maker(Request)


@final
@frozen
class CallModel:
    """Ask the model. Reports: the model family."""

    operation: ModelOperation
    request: Request


@final
@frozen
class AbortModel:
    """Stop a model call; no report is owed."""

    operation: ModelOperation


@final
@frozen(kw_only=True)
class CheckCall:
    """Judge a call: tool known, input valid, canonical resources. Report: `ToolChecked`."""

    operation: CheckOperation
    call: CallId
    tool: str
    input: Json


new_check_call = maker(CheckCall)


@final
@frozen(kw_only=True)
class StartTool:
    """Run a tool. Reports: the rest of the tool family.

    `key` is the same for every run of a call that may be repeated, and shared by no other call. Where `spill` is given,
    an output of more than its `chars` goes to a file, and its `preview` to the model (rule TOOL-11).
    """

    operation: RunOperation
    call: CallId
    run: int
    tool: str
    input: Json
    key: str
    spill: ResultLimit | None = None


new_start_tool = maker(StartTool)


@final
@frozen
class AbortTool:
    """Stop a run. Its report, or `ToolStopped`, says when it has stopped."""

    operation: RunOperation
    reason: CancelReason


@final
@frozen(kw_only=True)
class AnswerTool:
    """Give the answer to a tool's question back to its run; None means declined."""

    operation: RunOperation
    value: Json | None


@final
@frozen(kw_only=True)
class StartTimer:
    """Report `TimerFired` when `deadline_ms` has passed."""

    operation: TimerOperation
    purpose: TimerPurpose
    deadline_ms: int


new_start_timer = maker(StartTimer)


@final
@frozen
class CancelTimer:
    """Forget a timer."""

    operation: TimerOperation


@final
@frozen
class AskHook:
    """Ask a gated hook. Report: `HookAnswered`."""

    operation: HookOperation
    context: HookContext


@final
@frozen
class TellHook:
    """Tell a hook that only observes; no report is owed."""

    context: HookContext


@final
@frozen
class CheckCorrection:
    """Ask whether the course must be corrected. Report: `CorrectionAnswered`."""

    operation: CorrectionOperation
    thread: Thread


@final
@frozen(kw_only=True)
class Summarise:
    """Summarise the messages of the thread that `cut` leaves out. Report: `SummaryReady` or `SummaryFailed`."""

    operation: SummaryOperation
    thread: Thread
    cut: Cut


@final
@frozen(kw_only=True)
class StartChild:
    """Run a sub-agent, a kernel of its own, in the place of a tool.

    Reports: `ChildProgress`, `ChildAsks`, `ChildEnded`. Its log begins with `created`, is acquired, and then the user
    says `task`. `resumed`: it may be under way already; it is resumed from its log, which `created` names, and begins
    only where there is none.
    """

    operation: RunOperation
    call: CallId
    run: int
    tool: str
    input: Json
    created: Created
    task: str
    resumed: bool = False


@final
@frozen
class TellChild:
    """Pass a change of mode, rules or policy, or a remembered approval, on to a running sub-agent."""

    operation: RunOperation
    delta: ChangeMode | Permit | Remember | Forget | ChangePolicy


@final
@frozen(kw_only=True)
class HandOff:
    """Make a new thread from a summary and the queue. Report: `HandoffDone` or `HandoffFailed`."""

    operation: HandoffOperation
    goal: str
    thread: Thread
    queue: tuple[QueuedInput, ...] = ()


@final
@frozen
class AbortOther:
    """Stop a hook, correction, summary or handoff; no report is owed."""

    kind: OperationKind
    operation: int


Command = (
    CallModel
    | AbortModel
    | CheckCall
    | StartTool
    | AbortTool
    | AnswerTool
    | StartTimer
    | CancelTimer
    | AskHook
    | TellHook
    | CheckCorrection
    | Summarise
    | StartChild
    | TellChild
    | HandOff
    | AbortOther
)

Effect = Command | Event
