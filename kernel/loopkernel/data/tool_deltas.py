"""Deltas of the tool family: reports about checks and tool runs (rule DELTA-4)."""

from typing import final

from loopkernel.data.checked_fields import checked_fields
from loopkernel.data.ids import CheckOperation, RunOperation
from loopkernel.data.tools import ToolOutput, Verdict
from loopkernel.data.value_classes import frozen


@frozen
class FromTool:
    """Family: reports about checks and tool runs."""


@final
@frozen(field_transformer=checked_fields)
class ToolChecked(FromTool):
    """The adapter's verdict on a call (rule TOOL-18)."""

    operation: CheckOperation
    verdict: Verdict


@final
@frozen(field_transformer=checked_fields)
class ToolProgress(FromTool):
    """A running tool says how far it is."""

    operation: RunOperation
    text: str


@final
@frozen(field_transformer=checked_fields)
class ToolSucceeded(FromTool):
    """The run returned."""

    operation: RunOperation
    output: ToolOutput = ToolOutput()


@final
@frozen(field_transformer=checked_fields)
class ToolFailed(FromTool):
    """The run failed; `output` says how, to the model."""

    operation: RunOperation
    output: ToolOutput = ToolOutput()


@final
@frozen(field_transformer=checked_fields)
class ToolAsked(FromTool):
    """A running tool asks the user a question (rule TOOL-19)."""

    operation: RunOperation
    question: str


@final
@frozen(field_transformer=checked_fields)
class ToolStopped(FromTool):
    """An aborted run has stopped (rule TOOL-17)."""

    operation: RunOperation


@final
@frozen(field_transformer=checked_fields)
class ToolLost(FromTool):
    """Nobody will ever say how the run has ended (rule TOOL-16)."""

    operation: RunOperation


ToolDelta = ToolChecked | ToolSucceeded | ToolFailed | ToolProgress | ToolAsked | ToolStopped | ToolLost
