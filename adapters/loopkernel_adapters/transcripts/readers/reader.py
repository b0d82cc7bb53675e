"""What a reader of a format is."""

from abc import ABC, abstractmethod
from collections.abc import Iterator

from loopkernel_adapters.transcripts.entries import Entry
from loopkernel_adapters.transcripts.source import Head, Source


class Reader(ABC):
    """A format: how it is told from others by its content, and what its records say."""

    name: str  # as `replay --json` gives it
    counts_reasoning = True  # whether its pieces of reasoning are items of their own, and so are counted
    times_pieces = False  # whether it tells when each piece of a reply came

    @abstractmethod
    def fits(self, head: Head) -> bool:
        """Whether the file is of this format. Never raises."""

    @abstractmethod
    def entries(self, source: Source) -> Iterator[Entry]:
        """What the recording says, in its order. Whatever is wrong with it is a finding; only an OSError is raised,

        and Unreadable where the file is not even a document of this format.
        """
