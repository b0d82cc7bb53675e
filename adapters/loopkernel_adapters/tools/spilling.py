"""Where the long output of a command goes (rule TOOL-11): a file in the workspace, which the model's tools can read.

It is kept in memory while the command runs, which would else read what it writes, and stands under its name, without
secrets, once it is whole. The name follows from the key of the run, so that a run which is repeated after a crash
leaves one file. The folder and the file are the user's alone, no link is followed, and what is there is bounded: the
oldest outputs make room for a new one.
"""

import codecs
import hashlib
import os
import re
import secrets
import stat
from contextlib import suppress
from io import BufferedWriter
from itertools import islice

from loopkernel.data.policy import ROOM_FOR_PATH, ResultLimit
from loopkernel.later_typing import override

from loopkernel_adapters.ports import ToolError
from loopkernel_adapters.tools.files import NEW_FILE, Workspace
from loopkernel_adapters.tools.output_bounds import MOST_CHARACTERS, Capture
from loopkernel_adapters.tools.paths import told

FOLDER = "long-outputs"  # of the workspace; a name that tools see
MOST_OF_ONE = 10_000_000  # bytes of a file; what comes after is not kept
MOST_OF_ALL = 100_000_000  # bytes of the folder
MOST_FILES = 1_000
MOST_PREVIEW = (
    MOST_CHARACTERS - ROOM_FOR_PATH
) // 2  # characters of either end: what a run gives back is not cut again
_OURS_ALONE = 0o600
_FOLDER_OURS_ALONE = 0o700
_NOTHING_TO_COMMIT = b"*\n"  # to git, what is there is none of the user's work
_OUTPUT = re.compile(r"[0-9a-f]{16}\.txt|\.[0-9a-f]{16}\.writing")  # the latter where this process was killed
_LONGEST_CHARACTER = 4  # bytes of UTF-8


class OutputFile:
    """The file of one output, which is there once it is kept; `problem` says in words for the model why it is not."""

    def __init__(self, workspace: Workspace, key: str) -> None:
        name = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        self._name = f"{name}.txt"
        self._workspace = workspace
        self._content = bytearray()
        self.problem: str | None = None

    @property
    def path(self) -> str:
        """Where it is, in the workspace."""
        return f"{FOLDER}/{self._name}"

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return len(self._content)

    def write(self, piece: bytes) -> None:
        """The next bytes, of which those are left out that are too many for one file."""
        self._content += piece[: MOST_OF_ONE - len(self._content)]

    def keep(self) -> None:
        """All of it is there: it is found under its name from now on, after a loss of power too. Waits for the disk."""
        try:
            with told(self.path, "written"):
                self._put()
        except ToolError as error:
            self.problem = str(error)

    def _put(self) -> None:
        try:
            with self._workspace.opened_folder(".") as root:
                with suppress(FileExistsError):
                    os.mkdir(FOLDER, _FOLDER_OURS_ALONE, dir_fd=root)
                with self._workspace.opened_folder(FOLDER) as folder:
                    _demand_ours(folder)
                    _make_room(folder, self._name, self.size)
                    _keep_from_git(folder)
                    self._put_into(folder)
                    os.fsync(folder)
                os.fsync(root)
        except FileNotFoundError:
            raise ToolError(f"the folder of the workspace, or {FOLDER} in it, was removed meanwhile") from None

    def _put_into(self, folder: int) -> None:
        beside = f".{secrets.token_hex(8)}.writing"
        try:
            with _created(beside, folder) as file:
                file.write(self._content)
                file.flush()
                os.fsync(file.fileno())
            os.rename(beside, self._name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            with suppress(OSError):
                os.unlink(beside, dir_fd=folder)
            raise


def _created(name: str, folder: int) -> BufferedWriter:
    return os.fdopen(os.open(name, NEW_FILE, _OURS_ALONE, dir_fd=folder), "wb")


def _keep_from_git(folder: int) -> None:
    with suppress(FileExistsError), _created(".gitignore", folder) as ignored:
        ignored.write(_NOTHING_TO_COMMIT)


def _demand_ours(folder: int) -> None:
    """Raises ToolError where another user may put something into the folder."""
    found = os.fstat(folder)
    if found.st_uid != os.geteuid():
        raise ToolError(f"the folder {FOLDER} belongs to another user")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ToolError(f"other users may write into the folder {FOLDER}; the user may end that: chmod go-w {FOLDER}")


def _make_room(folder: int, name: str, size: int) -> None:
    """Remove the oldest outputs, until there is room for a file of that name and size.

    Raises ToolError where files that are not ours leave none.
    """
    outputs: list[tuple[int, str, int]] = []  # when it was written, its name, its size
    files = held = 0  # of all that is there
    with os.scandir(folder) as found:
        for entry in islice(found, 2 * MOST_FILES):
            if entry.name == name:
                continue  # the new one takes its place
            with suppress(FileNotFoundError):  # a run beside this one has made room
                seen = entry.stat(follow_symlinks=False)
                files, held = files + 1, held + seen.st_size
                if _OUTPUT.fullmatch(entry.name) and stat.S_ISREG(seen.st_mode) and seen.st_uid == os.geteuid():
                    outputs.append((seen.st_mtime_ns, entry.name, seen.st_size))
    others, bytes_of_others = files - len(outputs), held - sum(output[2] for output in outputs)
    if others >= MOST_FILES or bytes_of_others + size > MOST_OF_ALL:
        raise ToolError(f"{FOLDER} is full of other files ({others:,} or more, {bytes_of_others:,} bytes); remove some")
    for _, oldest, freed in sorted(outputs):
        if files < MOST_FILES and held + size <= MOST_OF_ALL:
            return
        with suppress(FileNotFoundError):
            os.unlink(oldest, dir_fd=folder)
        files, held = files - 1, held - freed


class SpillingCapture(Capture):
    """A capture that keeps an output within the limit whole, and has its file take in one that is longer.

    What it keeps of that is `preview` characters of either end; without a file, `head` and `tail` bytes.
    """

    def __init__(self, limit: ResultLimit, file: OutputFile, head: int, tail: int) -> None:
        self._preview = min(limit.preview, MOST_PREVIEW)
        kept = _LONGEST_CHARACTER * self._preview
        super().__init__(max(head, kept), max(tail, kept))
        self._most = min(limit.chars, MOST_CHARACTERS)
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._whole = bytearray()  # as long as the output is within the limit
        self._spills = False
        self._characters = 0

    @override
    def _keep(self, piece: bytes) -> None:
        super()._keep(piece)
        self._take(piece, self._decoder.decode(piece))

    @override
    def end(self, *, cut: bool = False) -> None:
        super().end(cut=cut)
        self._take(b"", self._decoder.decode(b"", True))

    def _take(self, piece: bytes, text: str) -> None:
        self._characters += len(text)
        if self._spills:
            self._file.write(piece)
            return
        self._whole += piece
        if self._characters > self._most:
            self._spill()

    def _spill(self) -> None:
        self._spills = True
        self._file.write(bytes(self._whole))
        self._whole.clear()

    def keep(self, beneath: int = 0) -> None:
        """Once it has ended: put it into its file where it is too long, or is so with that many characters beneath it.

        Waits for the disk.
        """
        if not self._spills and self._characters + beneath > self._most:
            self._spill()
        if self._spills:
            self._file.keep()

    @override
    def text(self) -> str:
        """The whole output, or what is shown of it, with the path of its file, or why there is none."""
        if not self._spills:
            return self._whole.decode("utf-8", "replace")
        if self._file.problem is not None:
            return f"{super().text()}\n(The output could not be kept in a file: {self._file.problem}.)"
        size = f"{self._characters:,} characters, {self._size:,} bytes"
        kept = "all of it is" if self._file.size == self._size else f"its first {self._file.size:,} bytes are"
        note = f"The output has {size}; {kept} in {self._file.path}. Above is its beginning, below its end."
        return f"{self._first()}\n({note} Leave {FOLDER} out of searches.)\n{self._last()}"

    def _first(self) -> str:
        return bytes(self._head).decode("utf-8", "replace")[: self._preview]

    def _last(self) -> str:
        kept = bytes(self._tail)
        if len(self._head) + len(kept) == self._size:  # nothing was left out between the two
            kept = bytes(self._head) + kept
        text = kept.decode("utf-8", "replace")
        return text[len(text) - self._preview :]
