"""What is kept of an output that may have no end: its beginning, its end, and how much was between them.

Secrets are hidden as it comes, before any of it is left out.
"""

import codecs

from loopkernel_adapters.bounded_text import HiddenBytes

_CONTINUES = range(0x80, 0xC0)  # a byte of UTF-8 that does not begin a character


class Capture:
    """Takes bytes as they come and keeps the first `head` and the last `tail` of them, in bounded memory.

    The secrets that are in force when it is made are in none of what it keeps.
    """

    def __init__(self, head: int, tail: int) -> None:
        self._head_size = head
        self._tail_size = tail
        self._head = bytearray()
        self._tail = bytearray()
        self._hiding = HiddenBytes()
        self._size = 0  # bytes, once secrets were hidden
        self.total = 0  # bytes that have come

    def add(self, piece: bytes) -> None:
        """The next bytes."""
        self.total += len(piece)
        self._keep(self._hiding.feed(piece))

    def end(self, *, cut: bool = False) -> None:
        """There is no more; `cut` where the output was broken off."""
        self._keep(self._hiding.end(cut=cut))

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        room = self._head_size - len(self._head)
        self._head += piece[:room]
        self._tail += piece[room:]
        if len(self._tail) > 2 * self._tail_size:  # not each time, which would copy the end for each byte
            del self._tail[: len(self._tail) - self._tail_size]

    def text(self) -> str:
        """What was kept, and between the two parts how many bytes were left out. No character is cut in two."""
        head, tail = bytes(self._head), bytes(self._tail[max(0, len(self._tail) - self._tail_size) :])
        if len(head) + len(tail) == self._size:
            return (head + tail).decode("utf-8", "replace")
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        begin = decoder.decode(head)
        cut = len(decoder.getstate()[0])
        rests = min(4, len(tail))  # a character has four bytes at most: where more continue, it is no text
        whole = next((place for place in range(rests) if tail[place] not in _CONTINUES), rests % 4)
        left_out = self._size - len(head) - len(tail) + cut + whole
        return f"{begin}\n({left_out} bytes are left out here)\n{tail[whole:].decode('utf-8', 'replace')}"

    def last_line(self, longest: int) -> str:
        """The end of the last line that is not blank."""
        recent = bytes((self._head + self._tail)[-4 * longest :]).decode("utf-8", "replace").strip()
        return recent.rpartition("\n")[2][-longest:]
