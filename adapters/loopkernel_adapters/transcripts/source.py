"""A recording as a file: its lines or its document, read so that nothing in it can break the reader.

Lines end at the byte 0x0A alone, since text may hold every other line separator. A file of lines is read line by line,
whatever its size. Of a folder in which each record is a file of its own, each JSON document is a line.
"""

import itertools
import json
import re
import stat
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from attrs import frozen
from loopkernel.data.json_text import JsonValue

from loopkernel_adapters.transcripts.entries import Entry, Finding, FindingKind, Place

HEAD_BYTES = 1 << 18
LONGEST_LINE = 1 << 28  # bytes; what is longer is not a record of a run
HEAD_RECORDS = 40
LARGEST_DOCUMENT = 1 << 31  # bytes
MARKED = 64  # bytes that tell what kind of file it is
MARK = b"\xef\xbb\xbf"  # some programs begin their files with it


class Unreadable(Exception):
    """The file cannot be read as a recording. The message says why, and what to do."""


class NoRecording(Unreadable):
    """The file is not a recording, and not a damaged one: it is something else, or a piece of a recording."""


@frozen
class Line:
    """A line of the file, counted from 1, and what it holds."""

    number: int
    value: JsonValue


@frozen
class RawLine:
    """A line of the file, counted from 1, as it stands there; whether it ended, as every line has to."""

    number: int
    content: bytes
    ended: bool


@frozen
class Head:
    """The beginning of a file, to tell its format by: its first records, or its document where it is one."""

    lines: tuple[JsonValue, ...]
    document: JsonValue
    is_zip: bool
    text: str
    begun: bytes = b""  # its first bytes as they are
    is_folder: bool = False  # its lines are files


@frozen
class Source:
    """A file with a recording."""

    path: Path

    def head(self) -> Head:
        """The beginning of it. Raises Unreadable where it is neither a file nor a folder, OSError."""
        if self.path.is_dir():
            small = (path for path in _documents_in(self.path) if path.stat().st_size <= HEAD_BYTES)
            values = [parsed(path.read_bytes()) for path in itertools.islice(small, HEAD_RECORDS)]
            return Head(tuple(value for value in values if value is not None), None, False, "", is_folder=True)
        self._demand_file()
        if zipfile.is_zipfile(self.path):
            return Head((), None, True, "", b"PK\x03\x04")
        with self.path.open("rb") as file:
            start = file.read(HEAD_BYTES)
            begun, start = start[:MARKED], start.removeprefix(MARK)
            if b"\n" not in start.strip():  # a long first line, or a document
                start += file.readline(LONGEST_LINE) + file.read(HEAD_BYTES)
        found = [parsed(content) for content in start.split(b"\n")[:HEAD_RECORDS] if content.strip()]
        lines = tuple(value for value in found if value is not None)
        document = None
        if _may_be_document(start, found):
            document = self.document_or_none()
            if len(found) > 1 and (document is not None or _opens_alone(start)):
                lines = ()  # what looks like records are lines within the document
        return Head(lines, document, False, start[:4_096].decode("utf-8", "replace"), begun)

    def lines(self) -> Iterator[Line | Finding]:
        """Each line that is JSON, and a finding for each that is not. Raises Unreadable, OSError."""
        for raw in self.raw_lines():
            value = parsed(raw.content)
            if value is not None:
                yield Line(raw.number, value)
            elif raw.ended:
                text = f"line {raw.number} is not JSON; it was passed over"
                yield Finding(place=Place(raw.number), kind=FindingKind.BROKEN_RECORD, text=text)
            else:
                yield torn(raw.number)

    def raw_lines(self) -> Iterator[RawLine]:
        """Each line that is not blank. Of one that is too long, nothing is kept. Raises Unreadable, OSError."""
        if self.path.is_dir():
            for number, path in enumerate(_documents_in(self.path), start=1):
                too_long = path.stat().st_size > LONGEST_LINE
                yield RawLine(number, b"(too long)" if too_long else path.read_bytes(), True)
            return
        self._demand_file()
        with self.path.open("rb") as file:
            number = 0
            while content := file.readline(LONGEST_LINE):
                number += 1
                ended = content.endswith(b"\n")
                if len(content) == LONGEST_LINE and not ended:
                    ended, content = _skipped(file), b"(too long)"
                if number == 1:
                    content = content.removeprefix(MARK)
                if content.strip():
                    yield RawLine(number, content, ended)

    def document(self) -> JsonValue:
        """The whole file as one JSON value. Raises Unreadable."""
        value = self.document_or_none()
        if value is None:
            raise Unreadable(f"{self.path} is not one whole JSON document")
        return value

    def document_or_none(self) -> JsonValue:
        """The whole file as one JSON value; None where it is not."""
        return parsed(self.content().removeprefix(MARK))

    def wrong_in_document(self) -> str | None:
        """Where a file that begins as one document is damaged; None for a whole document, and for a file of lines."""
        text = self.text().lstrip()
        if parsed(text.partition("\n")[0].encode()) is not None:
            return None
        try:
            json.loads(text)
        except RecursionError:
            return "it is nested too deeply"
        except json.JSONDecodeError as error:
            if not text[error.pos :].strip() or error.msg.startswith("Unterminated"):
                return f"it breaks off at its end, in line {error.lineno}"
            if error.msg == "Extra data":
                return f"it ends in line {error.lineno}, and something else stands behind it"
            return f"{error.msg.removesuffix(' at').lower()} in line {error.lineno}, column {error.colno}"
        return None

    def text(self) -> str:
        """The whole file as text. Raises Unreadable, OSError."""
        return self.content().removeprefix(MARK).decode("utf-8", "replace")

    def content(self) -> bytes:
        """The whole file, for the formats that are not lines. Raises Unreadable, OSError."""
        size = self._demand_file()
        if size > LARGEST_DOCUMENT:
            raise Unreadable(f"{self.path} is one document of {size:,} bytes: only files of lines may be so large")
        return self.path.read_bytes()

    def _demand_file(self) -> int:
        """The size of the file. A pipe is none: opening it would wait for whoever writes it."""
        status = self.path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise Unreadable(f"{self.path} is a folder; name the files in it")
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable(f"{self.path} is not a regular file; write what it gives to a file, and name that")
        return status.st_size


def _documents_in(folder: Path) -> list[Path]:
    """The JSON documents in the folder and below it, those with a smaller number in their name first."""
    found = [path for path in folder.rglob("*.json") if path.is_file() and not _is_hidden(path.relative_to(folder))]
    return sorted(found, key=lambda path: [_by_number(part) for part in path.relative_to(folder).parts])


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _by_number(name: str) -> list[tuple[int, str]]:
    """The name in pieces, so that 10 stands behind 9."""
    return [(int(piece), "") if piece.isdecimal() else (0, piece) for piece in re.split(r"(\d{1,18})", name)]


def _may_be_document(start: bytes, lines: list[JsonValue]) -> bool:
    """Whether the file, which begins so, may be one document: then it is read whole, and a file of lines must not be.

    `lines` are the first lines as JSON, None where one is none. A file of lines begins with a whole one; or, where that
    is damaged, another object begins at the beginning of a line, which is seldom so in a document that is an object,
    and whose first line is then the brace alone.
    """
    first = start.lstrip()[:1]
    if first == b"{":
        return len(lines) <= 1 or (lines[0] is None and (_opens_alone(start) or b"\n{" not in start))
    return first == b"[" and (len(lines) <= 1 or lines[0] is None)


def _opens_alone(start: bytes) -> bool:
    """Whether the first line is the beginning of a document, and nothing else."""
    return start.lstrip().split(b"\n", 1)[0].strip() in (b"{", b"[")


def _skipped(file: BinaryIO) -> bool:
    """Go on to the next line; whether this one ended."""
    while content := file.readline(LONGEST_LINE):
        if content.endswith(b"\n"):
            return True
    return False


def torn(number: int) -> Finding:
    """Of the last line, that it was never finished."""
    text = f"line {number}, the last, was never finished; it was passed over"
    return Finding(place=Place(number), kind=FindingKind.TORN_TAIL, text=text)


def parsed(content: bytes) -> JsonValue:
    """The JSON value of the bytes; None where they are none, or hold `null`. Recordings may hold what logs may not."""
    try:
        return cast(JsonValue, json.loads(content.decode("utf-8", "replace")))  # what loads gives, but for its Any
    except (ValueError, RecursionError):
        return None


# --- what a reader of a format is ------------------------------------------------------------------------


class Reader(ABC):
    """A format: how it is told from others by its content, and what its records say."""

    name: str  # as `replay --json` gives it
    counts_reasoning = True  # whether its pieces of reasoning are items of their own, and so are counted
    holds_results = True  # whether the results of calls are in it; in streams of replies they are not
    takes_folders = False  # whether a recording may be a folder, in which each record is a file
    times_pieces = False  # whether it tells when each piece of a reply came

    @abstractmethod
    def fits(self, head: Head) -> bool:
        """Whether the file is of this format. Never raises."""

    @abstractmethod
    def entries(self, source: Source) -> Iterator[Entry]:
        """What the recording says, in its order. Whatever is wrong with it is a finding; only an OSError is raised,

        and Unreadable where the file is not even a document of this format.
        """
