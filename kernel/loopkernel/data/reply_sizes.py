"""How much a reply has brought (rule LIMIT-4)."""

from typing import final

from loopkernel.data.value_classes import frozen, maker


@final
@frozen
class ReplySize:
    """How many characters a reply has brought so far (rule LIMIT-4).

    `said`: its text, its reasoning and what else stands in it; `written`: the pieces of arguments; `called`: the
    arguments of its complete calls, most of which have come in pieces before.
    """

    said: int = 0
    written: int = 0
    called: int = 0

    @property
    def chars(self) -> int:
        """All of it. Arguments count once, though they come in pieces and then whole."""
        return self.said + max(self.written, self.called)


new_reply_size = maker(ReplySize)
NOTHING_SAID = ReplySize()
