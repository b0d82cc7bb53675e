"""Deltas of the tool family: reports about checks and tool runs (rule DELTA-4)."""

from typing import final

from attrs import field, frozen

from loopkernel.data.ids import CheckOperation, RunOperation
from loopkernel.data.json_text import safe_text
from loopkernel.data.tools import ToolOutput, Verdict


@frozen
class FromTool:
    """Family: reports about checks and tool runs."""


@final
@frozen
class ToolChecked(FromTool):
    """The adapter's verdict on a call (rule TOOL-18)."""

    operation: CheckOperation
    verdict: Verdict


@final
@frozen
class ToolProgress(FromTool):
    """A running tool says how far it is."""

    operation: RunOperation
    text: str = field(converter=safe_text)


@final
@frozen
class ToolSucceeded(FromTool):
    """The run returned."""

    operation: RunOperation
    output: ToolOutput = ToolOutput()


@final
@frozen
class ToolFailed(FromTool):
    """The run failed; `output` says how, to the model."""

    operation: RunOperation
    output: ToolOutput = ToolOutput()


@final
@frozen
class ToolAsked(FromTool):
    """A running tool asks the user a question (rule TOOL-19)."""

    operation: RunOperation
    question: str = field(converter=safe_text)


@final
@frozen
class ToolStopped(FromTool):
    """An aborted run has stopped (rule TOOL-17)."""

    operation: RunOperation


@final
@frozen
class ToolLost(FromTool):
    """Nobody will ever say how the run has ended (rule TOOL-16)."""

    operation: RunOperation


ToolDelta = ToolChecked | ToolSucceeded | ToolFailed | ToolProgress | ToolAsked | ToolStopped | ToolLost
