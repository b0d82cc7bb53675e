"""The effects, all that can go out: commands to carry out, and with `loopkernel.events` what happened.

specs/embedding.md says of each command what it asks for and what it expects back. Public: all that stands in `__all__`.
"""

from loopkernel.data.compactions import Cut
from loopkernel.data.effects import (
    AbortModel,
    AbortOther,
    AbortTool,
    AnswerTool,
    AskHook,
    CallModel,
    CancelTimer,
    CheckCall,
    CheckCorrection,
    Command,
    Effect,
    HandOff,
    Request,
    StartChild,
    StartTimer,
    StartTool,
    Summarise,
    TellChild,
    TellHook,
)
from loopkernel.data.hook_calls import HookContext, RunEnd
from loopkernel.data.ids import (
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
from loopkernel.data.projected import ProjectedMessage, Role
from loopkernel.data.words import CancelReason, HookPoint, RequestReason, TimerPurpose
from loopkernel.loop.algorithms.projection import project

__all__ = [
    "AbortModel",
    "AbortOther",
    "AbortTool",
    "AnswerTool",
    "AskHook",
    "CallModel",
    "CancelReason",
    "CancelTimer",
    "CheckCall",
    "CheckCorrection",
    "CheckOperation",
    "Command",
    "CorrectionOperation",
    "Cut",
    "Effect",
    "HandOff",
    "HandoffOperation",
    "HookContext",
    "HookOperation",
    "HookPoint",
    "ModelOperation",
    "OperationKind",
    "ProjectedMessage",
    "Request",
    "RequestReason",
    "Role",
    "RunEnd",
    "RunOperation",
    "StartChild",
    "StartTimer",
    "StartTool",
    "Summarise",
    "SummaryOperation",
    "TellChild",
    "TellHook",
    "TimerOperation",
    "TimerPurpose",
    "project",
]
