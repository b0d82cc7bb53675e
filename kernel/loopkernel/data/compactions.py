"""Compaction as data: how large the thread is, where it is cut, and what was cut out of it (section COMPACT)."""

from typing import final

from loopkernel.data.ids import MessageId
from loopkernel.data.messages import Message
from loopkernel.data.value_classes import frozen
from loopkernel.data.vector import Vector


@final
@frozen
class ContextSize:
    """How much a request will hold: the tokens last reported, and the characters that came after that report.

    `total` counts the characters of the whole thread: what is left to go by when a rewrite has made the report void.
    """

    tokens: int = 0
    characters: int = 0
    total: int = 0


@final
@frozen
class Cut:
    """What of a thread is kept: the messages from index `until` on, and the one at `opening`, if any, in front."""

    until: int
    opening: int | None = None


@final
@frozen(kw_only=True)
class Removal:
    """What one compaction took out of the thread: enough to put it back (rule INPUT-4).

    The messages stood before the rest; the one that stayed, `opening`, among them, behind `before` of them. `note` took
    their place.
    """

    messages: Vector[Message]
    opening: MessageId | None = None
    before: int = 0
    note: MessageId | None = None


@final
@frozen(kw_only=True)
class Compactions:
    """What is remembered of compactions.

    `failures` in a row; none is tried before `again_ms` once there were too many (rule COMPACT-4). `useless_at`: one
    that shrank nothing left so many messages (rule COMPACT-5). `requested`: the user has asked for one. `removals` are
    all that the thread lost, oldest first.
    """

    failures: int = 0
    again_ms: int | None = None
    useless_at: int | None = None
    requested: bool = False
    removals: Vector[Removal] = Vector()


NO_COMPACTIONS = Compactions()
