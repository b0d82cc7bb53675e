"""What the sub-agents of a run record while the run is open here, for whoever follows one of them.

Their logs are written group by group, and read whole when somebody comes. What has come since the run was opened is
kept, so that a reader who comes in the middle has all of it: that which the log held before, and that.
"""

from collections.abc import Awaitable, Callable, Sequence
from weakref import WeakValueDictionary

from loopkernel.data.records import LogRecord

from loopkernel_adapters.server.feed import Feed

# What the log of that sub-agent held before that record was added to it.
Before = Callable[[str, LogRecord], Awaitable[Sequence[LogRecord]]]


class AgentLogs:
    """The sub-agents of one open run, by the ids of their sessions."""

    def __init__(self) -> None:
        self._since: dict[str, list[LogRecord]] = {}
        self._feeds: WeakValueDictionary[str, Feed] = WeakValueDictionary()

    def take(self, session_id: str, records: Sequence[LogRecord]) -> None:
        """The next records of the sub-agent."""
        self._since.setdefault(session_id, []).extend(records)
        feed = self._feeds.get(session_id)
        if feed is not None:
            feed.take(records)

    async def feed(self, session_id: str, before: Before) -> Feed | None:
        """The events of the sub-agent; None where it has recorded nothing here. Raises what reading a log raises."""
        since = self._since.get(session_id)
        if since is None or session_id in self._feeds:
            return self._feeds.get(session_id)
        feed, known = Feed(), await before(session_id, since[0])
        while feed.length < len(known) + len(since):
            await feed.catch_up((*known, *since))
        return self._feeds.setdefault(session_id, feed)  # another reader may have been quicker

    def end(self) -> None:
        """Nothing more will be told here."""
        for feed in list(self._feeds.values()):
            feed.end()
