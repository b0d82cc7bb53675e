"""Where the long output of a command goes (rule TOOL-11): a file in the workspace, which the model's tools can read.

It is written as the output comes, without secrets, and found under its name once it is whole. The name follows from the
key of the run, so that a run which is repeated after a crash leaves one file. The folder and the file are the user's
alone, no link is followed, and what is there is bounded. Nothing here takes a file away again: that is for the user.
"""

import codecs
import hashlib
import os
import secrets
from contextlib import suppress
from io import BufferedWriter
from itertools import islice

from loopkernel.data.policy import ResultLimit
from loopkernel.later_typing import override

from loopkernel_adapters.ports import ToolError
from loopkernel_adapters.tools.files import NEW_FILE, Workspace
from loopkernel_adapters.tools.output_bounds import MOST_CHARACTERS, Capture
from loopkernel_adapters.tools.paths import told

FOLDER = "long-outputs"  # of the workspace; a name that tools see
MOST_OF_ONE = 10_000_000  # bytes of a file; what comes after is not kept
MOST_OF_ALL = 100_000_000  # bytes of the folder, beyond which no file is begun
MOST_FILES = 1_000
_OURS_ALONE = 0o600
_FOLDER_OURS_ALONE = 0o700
_NOTHING_TO_COMMIT = b"*\n"  # to git, what is there is none of the user's work
_LONGEST_CHARACTER = 4  # bytes of UTF-8


class OutputFile:
    """The file of one output. It is begun with the first piece; once that or another cannot be written, there is none.

    `problem` says why then, in words for the model. Close it in any case: what was not kept is taken away.
    """

    def __init__(self, workspace: Workspace, key: str) -> None:
        name = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        self._name = f"{name}.txt"
        self._beside = f".{secrets.token_hex(8)}.writing"
        self._workspace = workspace
        self._folder: int | None = None
        self._file: BufferedWriter | None = None
        self.written = 0  # bytes
        self.problem: str | None = None

    @property
    def path(self) -> str:
        """Where it is, in the workspace."""
        return f"{FOLDER}/{self._name}"

    def write(self, piece: bytes) -> None:
        """The next bytes, of which those are left out that are too many for one file."""
        if self.problem is not None:
            return
        try:
            with told(self.path, "written"):
                file = self._begun() if self._file is None else self._file
                self.written += file.write(piece[: MOST_OF_ONE - self.written])
        except ToolError as error:
            self.problem = str(error)

    def keep(self) -> None:
        """All of it is there: it is found under its name from now on, also after a loss of power."""
        if self._file is None or self.problem is not None:
            return
        try:
            with told(self.path, "written"):
                self._file.flush()
                os.fsync(self._file.fileno())
                os.rename(self._beside, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except ToolError as error:
            self.problem = str(error)

    def close(self) -> None:
        """Let go of it. Closing twice is harmless."""
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):  # what is still to be written belongs to what was not kept
                file.close()
        folder, self._folder = self._folder, None
        if folder is not None:
            with suppress(OSError):  # once it is kept it has another name
                os.unlink(self._beside, dir_fd=folder)
            os.close(folder)

    def _begun(self) -> BufferedWriter:
        is_new = False
        with self._workspace.opened_folder(".") as root, suppress(FileExistsError):
            os.mkdir(FOLDER, _FOLDER_OURS_ALONE, dir_fd=root)
            is_new = True
        with self._workspace.opened_folder(FOLDER) as folder:
            _demand_room(folder)
            self._folder = os.dup(folder)
        if is_new:
            with _created(".gitignore", self._folder) as ignored:
                ignored.write(_NOTHING_TO_COMMIT)
        self._file = _created(self._beside, self._folder)
        return self._file


def _created(name: str, folder: int) -> BufferedWriter:
    return os.fdopen(os.open(name, NEW_FILE, _OURS_ALONE, dir_fd=folder), "wb")


def _demand_room(folder: int) -> None:
    """Raises ToolError where the folder is not the user's own, or holds too much."""
    if os.fstat(folder).st_uid != os.geteuid():
        raise ToolError(f"the folder {FOLDER} belongs to another user")
    with os.scandir(folder) as found:
        sizes = [entry.stat(follow_symlinks=False).st_size for entry in islice(found, MOST_FILES + 1)]
    if len(sizes) > MOST_FILES:
        raise ToolError(f"{FOLDER} holds more than {MOST_FILES:,} files; the user may remove them")
    if sum(sizes) + MOST_OF_ONE > MOST_OF_ALL:
        raise ToolError(f"{FOLDER} holds {sum(sizes):,} bytes already; the user may remove its files")


class SpillingCapture(Capture):
    """A capture that keeps an output within the limit whole, and has its file take in one that is longer.

    What it keeps of that is `preview` characters of either end; without a file, `head` and `tail` bytes.
    """

    def __init__(self, limit: ResultLimit, file: OutputFile, head: int, tail: int) -> None:
        preview = _LONGEST_CHARACTER * limit.preview
        super().__init__(max(head, preview), max(tail, preview))
        self._preview = limit.preview
        self._most = min(limit.chars, MOST_CHARACTERS)
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._whole = bytearray()  # as long as the output is within the limit
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
        was_within = self._characters <= self._most
        self._characters += len(text)
        if was_within:
            self._whole += piece
            piece = bytes(self._whole)
        if self._characters > self._most:
            self._whole.clear()
            self._file.write(piece)

    @override
    def text(self) -> str:
        """The whole output, or what is shown of it, with the path of its file, or why there is none."""
        if self._characters <= self._most:
            return self._whole.decode("utf-8", "replace")
        if self._file.problem is not None:
            return f"{super().text()}\n(The output could not be kept in a file: {self._file.problem}.)"
        size = f"{self._characters:,} characters, {self._size:,} bytes"
        kept = "all of it is" if self._file.written == self._size else f"its first {self._file.written:,} bytes are"
        note = f"(The output has {size}; {kept} in {self._file.path}. Above is its beginning, below its end.)"
        return f"{self._first()}\n{note}\n{self._last()}"

    def _first(self) -> str:
        return bytes(self._head).decode("utf-8", "replace")[: self._preview]

    def _last(self) -> str:
        kept = bytes(self._tail)
        if len(self._head) + len(kept) == self._size:  # nothing was left out between the two
            kept = bytes(self._head) + kept
        text = kept.decode("utf-8", "replace")
        return text[len(text) - self._preview :]
