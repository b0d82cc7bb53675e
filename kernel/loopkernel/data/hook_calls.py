"""Hooks that are under way: which one is asked, and what it is asked about (section HOOK)."""

from typing import final

from loopkernel.data.blocks import RawInput
from loopkernel.data.ids import CallId, CorrectionOperation, HookOperation
from loopkernel.data.json_text import Json
from loopkernel.data.messages import Message
from loopkernel.data.model_deltas import Piece
from loopkernel.data.policy import Hook
from loopkernel.data.threads import Thread
from loopkernel.data.timers import Timer
from loopkernel.data.tools import ToolOutput
from loopkernel.data.value_classes import frozen
from loopkernel.data.vector import Vector
from loopkernel.data.words import CallStatus, ErrorClass, HookPoint, StopReason, TurnEndReason


@final
@frozen(kw_only=True)
class HookContext:
    """What a hook is told: where the loop stands, and what it is about.

    `thread` is a handle, no copy. Around a tool call there are `call`, `tool` and `input`; after its run also its
    `end`. After a model call there are the `pieces` of the reply, and how it stopped or failed; at the end of a turn
    its `reason`; of a message that was added, the `message`.
    """

    point: HookPoint
    name: str
    thread: Thread
    call: CallId | None = None
    tool: str | None = None
    input: Json | RawInput | None = None
    end: "RunEnd | None" = None
    pieces: Vector[Piece] = Vector()
    stop: StopReason | None = None
    error: ErrorClass | None = None
    reason: TurnEndReason | None = None
    message: Message | None = None
    stop_hook_active: bool = False


@final
@frozen(kw_only=True)
class RunEnd:
    """How a run, or a sub-agent, has ended by its own report: `done` or `error`, and its output."""

    status: CallStatus
    output: ToolOutput


@final
@frozen(kw_only=True)
class OpenHook:
    """A gated hook that is being asked; `left` are the hooks of the point that come after it."""

    operation: HookOperation
    hook: Hook
    left: tuple[Hook, ...] = ()
    timer: Timer | None = None


@final
@frozen
class OpenCorrection:
    """A course correction that is being asked for (rule HOOK-3)."""

    operation: CorrectionOperation
    timer: Timer | None = None


@final
@frozen(kw_only=True)
class CallHooks:
    """What hooks have to do with a call.

    `open` is being asked. `left` are the hooks still to be asked before the run; None: their turn has not come. `input`
    is what a hook has put in the place of the model's; `blocked`: why one does not let the call run. `end`: the run has
    ended so, and hooks are asked about that. `retries` counts the runs in a row that a hook has had repeated.
    """

    open: OpenHook | None = None
    left: tuple[Hook, ...] | None = None
    input: Json | None = None
    blocked: str | None = None
    end: RunEnd | None = None
    retries: int = 0


NO_HOOKS = CallHooks()
