"""Deltas of timers, and of hooks, corrections, summaries, sub-agents and handoffs (rule DELTA-4)."""

from typing import final

from loopkernel.data.checked_fields import checked_fields
from loopkernel.data.children import ChildCall
from loopkernel.data.ids import (
    CorrectionOperation,
    HandoffOperation,
    HookOperation,
    RunOperation,
    SummaryOperation,
    TimerOperation,
)
from loopkernel.data.json_text import Json
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.value_classes import frozen
from loopkernel.data.words import TurnEndReason


@final
@frozen(field_transformer=checked_fields)
class TimerFired:
    """The deadline of a timer has passed. It is its own family."""

    operation: TimerOperation


@frozen
class FromOutside:
    """Family: reports of hooks, corrections, summaries, sub-agents and handoffs."""


@final
@frozen
class HookContinue:
    """Go on."""


@final
@frozen(field_transformer=checked_fields)
class HookBlock:
    """Do not go on, for this reason."""

    why: str


@final
@frozen(field_transformer=checked_fields)
class HookModify:
    """Go on with another input or result, with one more message, or with other words of the message before a turn."""

    input: Json | None = None
    result: str | None = None
    message: str | None = None


@final
@frozen
class HookRetry:
    """Do it again."""


@final
@frozen(field_transformer=checked_fields)
class HookFault:
    """The hook itself failed."""

    why: str


HookAnswer = HookContinue | HookBlock | HookModify | HookRetry | HookFault


@final
@frozen(field_transformer=checked_fields)
class HookAnswered(FromOutside):
    """A gated hook answered."""

    operation: HookOperation
    answer: HookAnswer


@final
@frozen(field_transformer=checked_fields)
class CorrectionAnswered(FromOutside):
    """The course correction answered; None means nothing to correct."""

    operation: CorrectionOperation
    text: str | None
    usage: Usage = NO_USAGE


@final
@frozen(field_transformer=checked_fields)
class SummaryReady(FromOutside):
    """The summary of the old part of the thread."""

    operation: SummaryOperation
    text: str
    usage: Usage = NO_USAGE


@final
@frozen(field_transformer=checked_fields)
class SummaryFailed(FromOutside):
    """No summary could be made."""

    operation: SummaryOperation
    why: str
    usage: Usage = NO_USAGE


@final
@frozen(field_transformer=checked_fields)
class ChildProgress(FromOutside):
    """A sub-agent has said this."""

    operation: RunOperation
    text: str


@final
@frozen(field_transformer=checked_fields)
class ChildAsks(FromOutside):
    """These calls of a sub-agent wait for a person now; none: it goes on (rule CHILD-2)."""

    operation: RunOperation
    asked: tuple[ChildCall, ...] = ()


@final
@frozen(kw_only=True, field_transformer=checked_fields)
class ChildEnded(FromOutside):
    """A sub-agent's run ended, after so many tool calls; `text` is the last that it said (rule CHILD-2)."""

    operation: RunOperation
    reason: TurnEndReason
    text: str = ""
    usage: Usage = NO_USAGE
    tool_calls: int = 0


@final
@frozen(field_transformer=checked_fields)
class HandoffDone(FromOutside):
    """The new thread exists."""

    operation: HandoffOperation
    thread: str
    usage: Usage = NO_USAGE


@final
@frozen(field_transformer=checked_fields)
class HandoffFailed(FromOutside):
    """There is no new thread."""

    operation: HandoffOperation
    why: str
    usage: Usage = NO_USAGE


OutsideDelta = (
    HookAnswered
    | CorrectionAnswered
    | SummaryReady
    | SummaryFailed
    | ChildProgress
    | ChildAsks
    | ChildEnded
    | HandoffDone
    | HandoffFailed
)
