"""Deltas of timers, and of hooks, corrections, summaries, sub-agents and handoffs (rule DELTA-4)."""

from typing import final

from attrs import field, frozen

from loopkernel.data.children import ChildCall
from loopkernel.data.ids import (
    CorrectionOperation,
    HandoffOperation,
    HookOperation,
    RunOperation,
    SummaryOperation,
    TimerOperation,
)
from loopkernel.data.json_text import Json, safe_text
from loopkernel.data.texts import safe_optional_text
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.words import TurnEndReason


@final
@frozen
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
@frozen
class HookBlock:
    """Do not go on, for this reason."""

    why: str = field(converter=safe_text)


@final
@frozen
class HookModify:
    """Go on with another input or result, with one more message, or with other words of the message before a turn."""

    input: Json | None = None
    result: str | None = field(default=None, converter=safe_optional_text)
    message: str | None = field(default=None, converter=safe_optional_text)


@final
@frozen
class HookRetry:
    """Do it again."""


@final
@frozen
class HookFault:
    """The hook itself failed."""

    why: str = field(converter=safe_text)


HookAnswer = HookContinue | HookBlock | HookModify | HookRetry | HookFault


@final
@frozen
class HookAnswered(FromOutside):
    """A gated hook answered."""

    operation: HookOperation
    answer: HookAnswer


@final
@frozen
class CorrectionAnswered(FromOutside):
    """The course correction answered; None means nothing to correct."""

    operation: CorrectionOperation
    text: str | None = field(converter=safe_optional_text)
    usage: Usage = NO_USAGE


@final
@frozen
class SummaryReady(FromOutside):
    """The summary of the old part of the thread."""

    operation: SummaryOperation
    text: str = field(converter=safe_text)
    usage: Usage = NO_USAGE


@final
@frozen
class SummaryFailed(FromOutside):
    """No summary could be made."""

    operation: SummaryOperation
    why: str = field(converter=safe_text)
    usage: Usage = NO_USAGE


@final
@frozen
class ChildProgress(FromOutside):
    """A sub-agent has said this."""

    operation: RunOperation
    text: str = field(converter=safe_text)


@final
@frozen
class ChildAsks(FromOutside):
    """These calls of a sub-agent wait for a person now; none: it goes on (rule CHILD-2)."""

    operation: RunOperation
    asked: tuple[ChildCall, ...] = ()


@final
@frozen(kw_only=True)
class ChildEnded(FromOutside):
    """A sub-agent's run ended, after so many tool calls; `text` is the last that it said (rule CHILD-2)."""

    operation: RunOperation
    reason: TurnEndReason
    text: str = field(default="", converter=safe_text)
    usage: Usage = NO_USAGE
    tool_calls: int = 0


@final
@frozen
class HandoffDone(FromOutside):
    """The new thread exists."""

    operation: HandoffOperation
    thread: str = field(converter=safe_text)
    usage: Usage = NO_USAGE


@final
@frozen
class HandoffFailed(FromOutside):
    """There is no new thread."""

    operation: HandoffOperation
    why: str = field(converter=safe_text)
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
