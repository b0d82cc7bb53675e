"""Deltas of the thread family: what happens to the session itself (rule DELTA-4)."""

from typing import final

from attrs import field

from loopkernel.data.checked_fields import checked_fields
from loopkernel.data.foreign import ForeignMessage
from loopkernel.data.policy import Policy
from loopkernel.data.remembered import Remembered
from loopkernel.data.tools import Tool, named_once
from loopkernel.data.value_classes import frozen

RULES_VERSION = 7  # of the rules that this kernel folds logs by (rule RESUME-1)


@frozen
class FromThread:
    """Family: what happens to the session itself."""


@final
@frozen(kw_only=True, field_transformer=checked_fields)
class Created(FromThread):
    """The first record of every log (rule DELTA-8). `start` is a conversation from elsewhere to go on from,
    `remembered` are approvals that hold from the start. `nonce` is a text that no other run has: it stands in the
    idempotency keys of tool runs, so that no two runs of one id share a key.

    A log that was begun under another `rules_version` is refused, never folded in silence (rule RESUME-1).
    """

    session_id: str
    policy: Policy = Policy()
    tools: tuple[Tool, ...] = field(default=(), validator=named_once)
    instructions: str = ""
    rules_version: int = field(default=RULES_VERSION, metadata={"absent": 1})  # a log that does not say: the first
    start: tuple[ForeignMessage, ...] = ()
    remembered: tuple[Remembered, ...] = ()
    nonce: str = ""


@final
@frozen
class Acquired(FromThread):
    """The driver owns the thread and is ready to carry out commands."""


@final
@frozen(kw_only=True, field_transformer=checked_fields)
class Resumed(FromThread):
    """The process was restarted, or a released thread is taken up again.

    The settings that are given hold from this very step on, before anything goes on (rule RESUME-7); None leaves what
    there is. `doubted`: nobody vouches for the log, so it gives no authority (rule RESUME-8): what is not given here
    is as by default, and no call that is open starts before it was asked about anew. `nonce`, if it is given, stands in
    the keys of the calls of later replies: the log may be a copy, whose original has gone on. `clock_behind_ms`: so far
    the clock of the machine was found to be behind the last time in the log.
    """

    policy: Policy | None = None
    tools: tuple[Tool, ...] | None = field(default=None, validator=named_once)
    instructions: str | None = None
    remembered: tuple[Remembered, ...] | None = None
    doubted: bool = False
    nonce: str = ""
    clock_behind_ms: int = 0


@final
@frozen(kw_only=True, field_transformer=checked_fields)
class Forked(FromThread):
    """A new lineage begins at the state that the log has reached (rule RESUME-6)."""

    session_id: str


@final
@frozen
class Disposed(FromThread):
    """The thread is released."""


ThreadDelta = Created | Acquired | Resumed | Forked | Disposed
