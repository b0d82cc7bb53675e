"""Zips with recordings, unpacked within bounds: what a small file could make of a large memory is refused in words.

What the directory of a zip says is believed only as a bound: a member gives at most the bytes that it claims, and all
of them together are judged by the size of the file itself, before the first is unpacked. They are unpacked in pieces.
"""

import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loopkernel.later_typing import override

from loopkernel_adapters.transcripts.source import Unreadable

LARGEST_MEMBER = 1 << 28  # bytes that a file in the zip may unpack to
LARGEST_WHOLE = 1 << 31  # bytes that all of them may unpack to
LARGEST_RATIO = 100  # so many times the size of the zip: recordings shrink to a fiftieth at most
FREE_BYTES = 1 << 24  # so much may be unpacked of any zip
LARGEST_DIRECTORY = 1 << 24  # bytes of the list of its files
MOST_MEMBERS = 100_000
PIECE = 1 << 16
# What is unpacked a piece at a time: the library unpacks the other methods without a bound.
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# What a damaged zip makes the library raise.
DAMAGES = (NotImplementedError, EOFError, RuntimeError, ValueError, zlib.error, lzma.LZMAError, struct.error)
OTHERWISE = (
    "Nothing was unpacked. If you trust it, convert it with `inspect log convert --to json`, and name what it makes"
)


class Refused(Exception):
    """A file of the zip is not unpacked. The message says why."""


@contextmanager
def opened_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """The zip at the path, whose files may be unpacked by `unpacked`. Raises Unreadable, OSError."""
    try:
        with _Bounded(path, "rb") as file, zipfile.ZipFile(file) as archive:
            _demand_bounds(path, archive.infolist())
            yield archive
    except (zipfile.BadZipFile, *DAMAGES) as error:
        raise Unreadable(f"{path} is a damaged zip: {error}") from error


def unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """What a file of the zip holds. Raises Refused."""
    if member.file_size > LARGEST_MEMBER:
        raise Refused(
            f"it would unpack to {member.file_size:,} bytes, and at most {LARGEST_MEMBER:,} of one file are read"
        )
    if member.compress_type not in METHODS:
        raise Refused(f"it is packed by method {member.compress_type}, and only stored and deflated files are read")
    content = bytearray()
    try:
        with archive.open(member) as file:
            while piece := file.read(PIECE):  # at once, the library would unpack more than is claimed, and then cut it
                content += piece
    except (zipfile.BadZipFile, *DAMAGES) as error:
        raise Refused("it is damaged") from error
    return bytes(content)


def _demand_bounds(path: Path, members: list[zipfile.ZipInfo]) -> None:
    if len(members) > MOST_MEMBERS:
        raise Unreadable(f"{path} claims {len(members):,} files, and at most {MOST_MEMBERS:,} are read. {OTHERWISE}")
    whole, size = sum(member.file_size for member in members), path.stat().st_size
    if whole > LARGEST_WHOLE:
        raise Unreadable(
            f"{path} would unpack to {whole:,} bytes, and at most {LARGEST_WHOLE:,} of one zip are read. {OTHERWISE}"
        )
    if whole > max(FREE_BYTES, LARGEST_RATIO * size):
        raise Unreadable(
            f"{path} has {size:,} bytes and would unpack to {whole:,}, which is more than {LARGEST_RATIO} times as "
            f"many, as no recording does. {OTHERWISE}"
        )


class _Bounded(io.FileIO):
    """The file of a zip, whose list of files is read at once, and so must not be of any length."""

    @override
    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > LARGEST_DIRECTORY:
            raise Unreadable(
                f"{self.name!s} claims a list of files of {size:,} bytes, and at most {LARGEST_DIRECTORY:,} are read. "
                f"{OTHERWISE}"
            )
        return super().read(size) or b""
