"""Server-sent events out of bytes that come in pieces of any size, cut anywhere: each event as soon as it is whole.

Read here and not by a vendor's client, since theirs hold a chain of generators that a closed stream leaves to the
event loop to clean up, and copy a long event once for each piece of it. Pure; constant work for each byte.
"""

from collections.abc import AsyncIterator, Iterator

from attrs import frozen

LARGEST_EVENT = 32 * 1024 * 1024  # bytes; what is larger is not a reply of a model


@frozen
class ServerEvent:
    """One event: its name (empty where it has none), and its data, the lines joined by line breaks."""

    name: str
    data: str


class DamagedStream(ValueError):
    """What came is not a stream of events: not UTF-8, or an event beyond all bounds. The message says which."""


async def whole_text(pieces: AsyncIterator[bytes]) -> str:
    """All of an answer that is not a stream. Raises DamagedStream."""
    body = bytearray()
    async for piece in pieces:
        body += piece
        if len(body) > LARGEST_EVENT:
            raise DamagedStream(f"the reply is larger than {LARGEST_EVENT} bytes")
    return body.decode("utf-8", "replace")


class EventReader:
    """Takes the bytes of a stream piece by piece, and gives the events that they complete."""

    def __init__(self, largest: int = LARGEST_EVENT) -> None:
        self._largest = largest
        self._line: list[bytes] = []  # the pieces of the line that has not ended
        self._after_return = False  # a line feed that comes next belongs to the line that has ended
        self._name = ""
        self._data: list[str] = []
        self._size = 0  # of the event that has not ended

    def feed(self, piece: bytes) -> Iterator[ServerEvent]:
        """The events that end within the next piece, one by one. Raises DamagedStream, behind those that are sound."""
        if self._after_return and piece:
            piece = piece.removeprefix(b"\n")
            self._after_return = False
        self._after_return = self._after_return or piece.endswith(b"\r")
        for line in piece.splitlines(keepends=True):  # of bytes: splits at line feeds and returns alone
            self._size += len(line)
            if self._size > self._largest:
                raise DamagedStream(f"an event is larger than {self._largest} bytes")
            self._line.append(line)
            if line.endswith((b"\n", b"\r")):
                whole = b"".join(self._line).rstrip(b"\r\n")
                self._line.clear()
                event = self._read(whole)
                if event is not None:
                    yield event

    def end(self) -> list[ServerEvent]:
        """The stream has ended as it should: its last event, of which only the line breaks behind it may be missing.

        What is less than a whole event is given as well. Its data cannot be whole then, and is not JSON.
        """
        if self._line:
            self._read(b"".join(self._line))
            self._line.clear()
        event = self._read(b"")
        return [] if event is None else [event]

    def _read(self, line: bytes) -> ServerEvent | None:
        """Take a whole line; the event that it ends, if it is empty and there is one."""
        if not line:
            event = ServerEvent(self._name, "\n".join(self._data)) if self._data else None
            self._name = ""
            self._data.clear()
            self._size = 0
            return event
        try:
            field, _, value = line.decode().partition(":")
        except UnicodeDecodeError as error:
            raise DamagedStream(f"a line is not UTF-8: {error.reason}") from error
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
        elif field == "event":
            self._name = value
        return None
