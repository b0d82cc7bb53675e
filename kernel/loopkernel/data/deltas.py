"""Deltas: everything that can come in. Six families, each a sealed union with one base class.

A handler matches on the family first (`case FromModel():`), then on the delta.
"""

from loopkernel.data.model_deltas import ModelDelta
from loopkernel.data.outside_deltas import OutsideDelta, TimerFired
from loopkernel.data.thread_deltas import ThreadDelta
from loopkernel.data.tool_deltas import ToolDelta
from loopkernel.data.user_deltas import UserDelta

Delta = ModelDelta | ToolDelta | UserDelta | TimerFired | OutsideDelta | ThreadDelta
