"""Answers to the commands that this driver has no port for: hooks, corrections, sub-agents, handoffs.

Each operation gets a report that says so, so that nothing waits for ever.
"""

from typing import assert_never

from loopkernel.data.effects import AskHook, CheckCorrection, HandOff, StartChild
from loopkernel.data.outside_deltas import (
    ChildEnded,
    CorrectionAnswered,
    HandoffFailed,
    HookAnswered,
    HookFault,
    OutsideDelta,
)
from loopkernel.data.words import TurnEndReason

PortlessCommand = AskHook | CheckCorrection | StartChild | HandOff


def answer_without_port(command: PortlessCommand) -> OutsideDelta:
    """The report of an operation that cannot be carried out."""
    match command:
        case AskHook():
            return HookAnswered(command.operation, HookFault(f"this driver has no hook {command.context.name}"))
        case CheckCorrection():
            return CorrectionAnswered(command.operation, None)
        case StartChild():
            return ChildEnded(
                operation=command.operation, reason=TurnEndReason.ERROR, text="this driver starts no sub-agents"
            )
        case HandOff():
            return HandoffFailed(command.operation, "this driver hands nothing over")
        case _:
            assert_never(command)
