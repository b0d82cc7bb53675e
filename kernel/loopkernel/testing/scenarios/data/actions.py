"""What a scenario's user, operator and machine do, and when: one class for each word of the action table."""

import enum
from collections.abc import Mapping
from typing import Annotated, final

from attrs import Factory, frozen

from loopkernel.data.choices import ApprovalMode
from loopkernel.data.policy import ApprovalRule, FieldPattern
from loopkernel.data.remembered import Remembered
from loopkernel.testing.scenarios.data.marks import Line, Mark, Name, Position, WrittenAs
from loopkernel.testing.scenarios.data.world import JsonValue, ToolScript


@final
@frozen
class At:
    """At this instant, in milliseconds of virtual time from the start."""

    ms: Annotated[int, WrittenAs("at")] = 0


@final
@frozen(kw_only=True)
class When:
    """`after_ms` after the step that printed the `nth` trace line (from 1) that matches the pattern."""

    pattern: Annotated[Line, WrittenAs("when")]
    nth: Position = 1
    after_ms: int = 0


Timing = At | When


@final
@frozen
class Say:
    """The user says this."""

    text: str


@final
@frozen
class Enqueue:
    """The user queues this for the end of the turn."""

    text: str


@final
@frozen
class Steer:
    """The user wants this in the next request."""

    text: str


@final
@frozen
class Discard:
    """The input with this queue number, or all (None), is taken out of the queue."""

    number: Annotated[Position | None, Mark.ALL]


@final
@frozen
class Edit:
    """The `message`-th message that the user sent (from 1) is replaced."""

    message: Position
    text: str


class Remember(enum.Enum):
    """What an approval covers from now on (rule ASK-3)."""

    CALL = "call"
    TOOL = "tool"
    PATTERN = "pattern"


@final
@frozen(kw_only=True)
class Approve:
    """The call may run. `pattern` is given when `remember` is PATTERN."""

    call: Annotated[Name, Mark.ALONE]
    remember: Remember | None = None
    pattern: tuple[FieldPattern, ...] = ()


@final
@frozen(kw_only=True)
class Reject:
    """The call may not run, or its question is declined."""

    call: Annotated[Name, Mark.ALONE]
    why: str | None = None


@final
@frozen(kw_only=True)
class Correct:
    """The call may run with this input instead."""

    call: Name
    input: JsonValue


@final
@frozen(kw_only=True)
class Swap:
    """This runs in the call's place."""

    call: Name
    tool: str
    input: JsonValue = Factory(dict)


@final
@frozen(kw_only=True)
class Answer:
    """The answer to what the call's tool asked."""

    call: Name
    value: JsonValue


class CrashVerdict(enum.Enum):
    """What a person makes of a dangerous call that a crash interrupted (rule RESUME-3)."""

    DONE = "done"
    RERUN = "rerun"
    CANCEL = "cancel"


@final
@frozen(kw_only=True)
class AfterCrash:
    """A person's word on a dangerous call that waits after a restart."""

    call: Name
    verdict: Annotated[CrashVerdict, WrittenAs("as")]
    text: str | None = None


@final
@frozen
class Cancel:
    """The call, or everything (None), is cancelled."""

    call: Annotated[Name | None, Mark.ALL]


@final
@frozen
class RetryNow:
    """The user does not wait for the retry."""


@final
@frozen
class DismissError:
    """The shown error goes away."""


@final
@frozen
class CompactNow:
    """The thread is compacted on request."""


@final
@frozen
class ChangeMode:
    """The approval mode changes."""

    mode: ApprovalMode


@final
@frozen
class Permit:
    """An approval rule is added."""

    rule: ApprovalRule


@final
@frozen
class Forget:
    """A remembered approval is taken back; None: all of them (rule ASK-3)."""

    remembered: Annotated[Remembered | None, Mark.ALL] = None


@final
@frozen
class StartHandoff:
    """The work is handed to a new thread."""

    goal: str


@final
@frozen
class ReportAgain:
    """The report behind the trace line that matches is delivered a second time."""

    pattern: Line


@final
@frozen(kw_only=True)
class Crash:
    """The process dies, and is restarted from its log `down_ms` later, by a person who gives that mode.

    `doubted`: nobody vouches for the log any more. The person's own policy is then that of the scenario, in the mode
    that is given, or `default`, and the person's tools are those that are offered now.
    """

    down_ms: int = 0
    mode: ApprovalMode | None = None
    doubted: bool = False


@final
@frozen
class Dispose:
    """The thread is released."""


@final
@frozen
class Fork:
    """The run goes on in a new lineage from here."""


@final
@frozen
class ChangeTools:
    """These tools are offered from now on; None: no longer."""

    tools: Mapping[str, ToolScript | None]


UserAction = (
    Say
    | Enqueue
    | Steer
    | Discard
    | Edit
    | Approve
    | Reject
    | Correct
    | Swap
    | Answer
    | AfterCrash
    | Cancel
    | RetryNow
    | DismissError
    | CompactNow
    | ChangeMode
    | Permit
    | Forget
    | StartHandoff
    | ReportAgain
    | Crash
    | Dispose
    | Fork
    | ChangeTools
)


@final
@frozen(kw_only=True)
class TimedAction:
    """An action and its time. Of actions due at the same instant, the first in the file goes first."""

    timing: Timing
    action: UserAction
