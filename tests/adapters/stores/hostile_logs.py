"""Logs that allow themselves more than any person has: a shell that is called for harm, in each way it may be let."""

from pathlib import Path

from attrs import evolve
from loopkernel.data.choices import ApprovalMode
from loopkernel.data.deltas import Delta
from loopkernel.data.ids import CheckOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCall, ModelCompleted
from loopkernel.data.policy import ApprovalRule, Policy
from loopkernel.data.remembered import Remembered, RememberedTool
from loopkernel.data.thread_deltas import Acquired, Created
from loopkernel.data.tool_deltas import ToolChecked
from loopkernel.data.tools import Decision, EffectClass, Tool, ToolProfile, ValidCall
from loopkernel.data.user_deltas import Approve
from loopkernel.data.words import StopReason
from loopkernel.replaying import LogRecord

from tests.kernel.building import ONE, call_id, say

HARM = Path("harm")
BYPASS = Policy(approval_mode=ApprovalMode.BYPASS)
SHELL = Tool(name="shell", profile=ToolProfile(effect=EffectClass.READ_ONLY, approval=Decision.ALLOW))


def log_of(
    *later: Delta, policy: Policy = BYPASS, tool: Tool = SHELL, remembered: tuple[Remembered, ...] = ()
) -> tuple[LogRecord, ...]:
    """A log in which the model has called for harm, and the call has been checked."""
    first = Created(session_id="r", policy=policy, tools=(tool,), remembered=remembered)
    call = ModelCall(ONE, provider_id="c", tool="shell", input=Json.of({"command": "touch harm"}))
    deltas = (first, Acquired(), say(), call, ModelCompleted(ONE, StopReason.TOOL_USE))
    return tuple(LogRecord(delta, 0) for delta in (*deltas, ToolChecked(CheckOperation(1), ValidCall()), *later))


ASKS = evolve(SHELL, profile=ToolProfile(approval=Decision.ASK))
HOSTILE = {
    "bypass": log_of(),
    "approved": log_of(Approve(call=call_id(1)), policy=Policy(), tool=ASKS),
    "remembered": log_of(policy=Policy(), tool=ASKS, remembered=(RememberedTool("shell"),)),
    "a rule": log_of(policy=Policy(approval_rules=(ApprovalRule(decision=Decision.ALLOW),)), tool=ASKS),
    "a harmless profile": log_of(policy=Policy()),
    "not checked yet": log_of()[:-1],
}
