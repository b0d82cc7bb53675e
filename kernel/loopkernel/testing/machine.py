"""A Hypothesis state machine over the kernel: every rule sends one delta, well-timed or not, in any state.

Beside the kernel runs a witness, written apart from it and far simpler: it knows from commands and deltas alone what
is open, what was cut short, what was billed and what the user sent, and so predicts how each report and each message
is taken. Every step is judged by the step laws; at the end the whole run is judged, replayed, and written and read.
"""

from collections.abc import Callable, Sequence
from typing import ClassVar

from attrs import Factory, define, evolve
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from loopkernel.codec import record_from_text, record_to_text, state_from_text, state_to_text
from loopkernel.data.blocks import MediaBlock, TextBlock, UserBlock
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import AbortModel, AbortTool, CallModel, CheckCall, Effect, StartTool
from loopkernel.data.events import Refused, ToolEnded, TurnEnded
from loopkernel.data.ids import CallId, CheckOperation, ModelOperation, OperationKind, QueueNumber, RunOperation
from loopkernel.data.json_text import Json
from loopkernel.data.messages import UserMessage
from loopkernel.data.model_deltas import (
    FromModel,
    ModelCall,
    ModelCompleted,
    ModelDelta,
    ModelFailed,
    ModelText,
    ModelUsage,
)
from loopkernel.data.policy import Policy
from loopkernel.data.states import Done, Executing, Initial, State, Streaming
from loopkernel.data.steps import Context, is_refused
from loopkernel.data.thread_deltas import Acquired, Created, Disposed, Resumed, ThreadDelta
from loopkernel.data.tool_deltas import FromTool, ToolChecked, ToolDelta, ToolFailed, ToolStopped, ToolSucceeded
from loopkernel.data.tools import ToolOutput, ValidCall, Verdict
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.user_deltas import CancelAll, CancelCall, Discard, Enqueue, Say, Steer, UserDelta
from loopkernel.data.words import InputFate, RefusalReason, StopReason
