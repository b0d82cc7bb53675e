"""Reading, listing and writing the files of one folder, the workspace, and nothing outside it.

A path is never resolved and then opened, which leaves time to exchange a folder for a link: it is opened one
component after the other, each relative to the folder just opened, and no link is followed. `..` is refused, even
where it would stay within, so that a resource has one key. Names that begin with a dot are hidden from the model:
not listed, offered, read or written. A hard link is a file like any other; written, it becomes a file of its own.
"""

import codecs
import json
import os
import secrets
import stat
import threading
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Self

from attrs import evolve, frozen
from loopkernel.data.json_text import Json, JsonValue, safe_text
from loopkernel.data.tools import AccessMode, Claim, Decision, EffectClass, FieldResource, Tool, ToolProfile

from loopkernel_adapters.bounded_text import beginning_of_file
from loopkernel_adapters.ports import RunContext, ToolError
from loopkernel_adapters.tools.input_schema import JsonObject
from loopkernel_adapters.tools.paths import (
    canonical_path,
    demand_kind,
    demanded,
    ignores_case,
    is_open_name,
    is_plain,
    joined,
    one_spelling,
    shown_path,
    shown_size,
    told,
)
from loopkernel_adapters.tools.registry import FunctionTool

if os.open not in os.supports_dir_fd:  # as on Windows
    raise ImportError(
        "the tools of a coding agent open each file below the folder that it lies in, which this system cannot do: "
        "they need Linux or macOS. Agents, stores, and tools of your own do not"
    )

DEFAULT_READ_BYTES = 65_536
MOST_ENTRIES = 500  # of a folder that are listed
MOST_SORTED = 20_000  # of a folder that are looked at
MOST_OFFERED = 40  # files that a schema gives as examples; a larger workspace gives none
MOST_WRITTEN = 1_000_000  # bytes of a file

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Non-blocking, so that a pipe in the place of a file does not hang; no terminal becomes ours.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_MODE = 0o666  # less what the process masks


@frozen
class FileSeen:
    """A file as it was when it was read: whoever puts another in its place can tell whether it is still that one."""

    mode: int  # permissions
    identity: tuple[int, int, int, int]  # device, number, size, time of the last change

    @staticmethod
    def of(found: os.stat_result) -> "FileSeen":
        """What can be seen of a file without reading it."""
        identity = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        return FileSeen(stat.S_IMODE(found.st_mode), identity)

    @staticmethod
    def of_descriptor(descriptor: int) -> "FileSeen":
        """The same for an opened file."""
        return FileSeen.of(os.fstat(descriptor))


class Workspace:
    """A folder, opened once; what stands under its name later does not matter. Close it, or use it in `with`.

    With `dot_names`, names that begin with a dot are names like others, but for `.git` and `.loopkernel`.
    Raises OSError when it is not a folder or cannot be opened.
    """

    def __init__(self, root: Path | str, *, dot_names: bool = False) -> None:
        self._root: int | None = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._lock = threading.Lock()  # a thread must not copy a descriptor that another one closes
        self._dot_names = dot_names
        self._ignores_case = ignores_case(self._root)
        places = dict.fromkeys((os.path.abspath(root), os.path.realpath(root)))
        self._places = tuple(place for place in places if safe_text(place) == place)

    def close(self) -> None:
        """Let go of the folder. Closing twice is harmless."""
        with self._lock:
            root, self._root = self._root, None
            if root is not None:
                os.close(root)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def canonical(self, path: str) -> str:
        """The one spelling of a path here. Raises PathRefused."""
        return canonical_path(path, dot_names=self._dot_names)

    def key(self, path: str) -> str:
        """The one key of what the path names; where the file system has `A` for `a`, they have one key.

        No link is followed, so a path is a file, or cannot be used at all. Raises PathRefused.
        """
        path = self.canonical(path)
        return unicodedata.normalize("NFC", path).casefold() if self._ignores_case else path

    def named(self, claim: Claim) -> Claim:
        """The claim of a key with all that rules may call it by: its absolute paths, and whether case counts."""
        paths = (place if claim.key == "." else f"{place.rstrip('/')}/{claim.key}" for place in self._places)
        return evolve(claim, also=tuple(paths), ignores_case=self._ignores_case)

    def read(self, path: str, most_bytes: int = DEFAULT_READ_BYTES) -> str:
        """The text of a file, its first `most_bytes` bytes and then a note when it is larger.

        What is not UTF-8 is replaced by U+FFFD. Raises ToolError.
        """
        with self.opened_file(path) as descriptor:
            size = os.fstat(descriptor).st_size
            content, read = beginning_of_file(descriptor, most_bytes)
        if len(content) <= most_bytes:
            return content.decode("utf-8", "replace")
        text = codecs.getincrementaldecoder("utf-8")("replace").decode(content[:most_bytes])  # no half a character
        return f"{text}\n(These are the first {most_bytes} of {max(size, read)} bytes.)"

    def names(self, path: str = ".") -> str:
        """The names in a folder, one a line and sorted, folders with a slash. Raises ToolError."""
        with self.opened_folder(path) as descriptor:
            entries = sorted(islice(self.entries(descriptor), MOST_SORTED))
        lines = [_line(name, kind) for name, kind in entries[:MOST_ENTRIES]]
        if len(entries) > MOST_ENTRIES:
            lines.append(f"(and {len(entries) - MOST_ENTRIES} more{' at least' * (len(entries) == MOST_SORTED)})")
        return "\n".join(lines) or "(empty)"

    def write(self, path: str, text: str, *, make_folders: bool = False) -> str:
        """Make the text the whole content of a file, new or not; what was done, in words.

        Its folder has to exist, or is made with `make_folders`. Raises ToolError.
        """
        content = safe_text(text).encode()
        path = self.demanded(path)
        parent, _, name = path.rpartition("/")
        if make_folders and parent:
            self._make_folders(parent)
        with self.opened_folder(parent or ".") as folder, told(path, "written"):
            seen = _seen(folder, name, path)
            replace(folder, name, content, seen.mode if seen is not None else None)
        return f"{'Wrote' if seen is None else 'Replaced'} {shown_path(path)}, now {shown_size(len(content))}."

    def rewrite(self, path: str, content: bytes, seen: FileSeen) -> None:
        """Put the content in the place of a file that is still the one that was seen. Raises ToolError."""
        path = self.demanded(path)
        parent, _, name = path.rpartition("/")
        with self.opened_folder(parent or ".") as folder, told(path, "written"):
            if _seen(folder, name, path) != seen:
                raise ToolError(f"{shown_path(path)} was changed meanwhile, and is left as it is; read it again")
            replace(folder, name, content, seen.mode)

    def _make_folders(self, path: str) -> None:
        made = "."
        for name in path.split("/"):
            with self.opened_folder(made) as folder, told(path, "made"), suppress(FileExistsError):
                os.mkdir(name, dir_fd=folder)
            made = joined(made, name)

    def contents(self, most: int) -> tuple[list[str], list[str]] | None:
        """The paths of all files and of all folders, sorted; None when they are more than `most` together.

        What cannot be opened is left out. Raises ToolError when the workspace itself cannot be listed.
        """
        files: list[str] = []
        folders = ["."]
        for folder in folders:  # grows while it is gone through
            try:
                with self.opened_folder(folder) as descriptor:
                    entries = list(islice(self.entries(descriptor), most + 1))
            except ToolError:
                if folder == ".":
                    raise
                continue
            if len(entries) > most:
                return None
            for name, kind in entries:
                path = joined(folder, name)
                if not is_plain(path, dot_names=self._dot_names):
                    continue
                if kind == stat.S_IFREG:
                    files.append(path)
                elif kind == stat.S_IFDIR:
                    folders.append(path)
                if len(files) + len(folders) > most:
                    return None
        return sorted(files), sorted(folders)

    @contextmanager
    def opened_file(self, path: str) -> Iterator[int]:
        """A descriptor of a regular file, for reading, closed at the end. Raises ToolError."""
        parent, _, name = self.demanded(path).rpartition("/")
        with self.opened_folder(parent or ".") as folder:
            with told(path):
                demand_kind(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode, stat.S_IFREG, path)
                descriptor = os.open(name, _FILE, dir_fd=folder)
            try:
                demand_kind(os.fstat(descriptor).st_mode, stat.S_IFREG, path)  # of what was really opened
                yield descriptor
            finally:
                os.close(descriptor)

    @contextmanager
    def opened_folder(self, path: str) -> Iterator[int]:
        """A descriptor of a folder, closed at the end. Raises ToolError."""
        path = self.demanded(path)
        with self._lock:
            if self._root is None:
                raise ToolError("the workspace is closed; nothing can be read from it any more")
            folder = os.dup(self._root)
        try:
            for name in () if path == "." else path.split("/"):
                with told(path):
                    demand_kind(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode, stat.S_IFDIR, path)
                    inner = os.open(name, _FOLDER, dir_fd=folder)
                os.close(folder)
                folder = inner
            yield folder
        finally:
            os.close(folder)

    def entries(self, folder: int) -> Iterator[tuple[str, int]]:
        """The names in an opened folder that tools may see, and what each is, as the type bits of its mode."""
        with os.scandir(folder) as found:
            for entry in found:
                if is_open_name(entry.name, self._dot_names):
                    yield entry.name, _kind(entry)

    def demanded(self, path: str) -> str:
        """The one spelling of a path here. Raises ToolError."""
        return demanded(path, self.canonical)


def replace(folder: int, name: str, content: bytes, mode: int | None) -> None:
    """Make the content a whole file of that name in an opened folder. `mode` is the permissions, None for a new file.

    It is written beside its place and then put there, so that nobody finds half of it, also after a crash, and nothing
    that has another name changes. Raises OSError, and ToolError where it is too much.
    """
    if len(content) > MOST_WRITTEN:
        raise ToolError(f"{len(content)} bytes are too many for one file; write at most {MOST_WRITTEN}")
    beside = f".{secrets.token_hex(8)}.writing"
    descriptor = os.open(beside, NEW_FILE, _NEW_MODE, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside, dir_fd=folder)
        raise


def _seen(folder: int, name: str, path: str) -> FileSeen | None:
    """The file that is to be replaced; None when there is none. Raises ToolError where it is not a file."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    demand_kind(found.st_mode, stat.S_IFREG, path)
    return FileSeen.of(found)


def read_at_most(descriptor: int, most_bytes: int) -> bytes:
    """What comes next from the descriptor, to the end of the file or that many bytes."""
    pieces: list[bytes] = []
    left = most_bytes
    while left > 0 and (piece := os.read(descriptor, left)):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _kind(entry: os.DirEntry[str]) -> int:
    if entry.is_symlink():
        return stat.S_IFLNK
    if entry.is_dir(follow_symlinks=False):
        return stat.S_IFDIR
    return stat.S_IFREG if entry.is_file(follow_symlinks=False) else 0


def _line(name: str, kind: int) -> str:
    marks = {stat.S_IFREG: "", stat.S_IFDIR: "/", stat.S_IFLNK: " (a link, not followed)"}
    name = safe_text(name)
    return f"{name if name.isprintable() else json.dumps(name)}{marks.get(kind, ' (neither file nor folder)')}"


@frozen
class FileTools:
    """`read_file`, `list_files` and `write_file` for a workspace; the last asks a person before each run.

    The schemas give what is there as examples, when it is little.
    """

    workspace: Workspace
    most_bytes: int = DEFAULT_READ_BYTES

    def all(self) -> tuple[FunctionTool, ...]:
        """The tools, with the files that are there now. Raises ToolError when the workspace cannot be listed."""
        contents = self.workspace.contents(MOST_OFFERED)
        files, folders = contents if contents is not None else ([], [])
        return (
            FunctionTool(
                tool=_tool(
                    "read_file",
                    "Read a text file of the workspace.",
                    {"path": _path_field(files)},
                    required=["path"],
                    profile=_READS,
                ),
                function=self._read_file,
                resource_key=one_spelling(self.workspace.canonical, self.workspace.key),
                named=self.workspace.named,
            ),
            FunctionTool(
                tool=_tool(
                    "list_files",
                    "List the files of the workspace.",
                    {"path": {**_path_field(folders), "default": "."}},
                    required=[],
                    profile=_LISTS,
                ),
                function=self._list_files,
                resource_key=one_spelling(self.workspace.canonical, self.workspace.key),
                named=self.workspace.named,
            ),
            FunctionTool(
                tool=_tool(
                    "write_file",
                    "Write a text file of the workspace, in place of what it held.",
                    {"path": {"type": "string"}, "text": {"type": "string"}},
                    required=["path", "text"],
                    profile=_WRITES,
                ),
                function=self._write_file,
                resource_key=one_spelling(self.workspace.canonical, self.workspace.key),
                named=self.workspace.named,
            ),
        )

    def _read_file(self, given: JsonObject, _: RunContext) -> str:
        return self.workspace.read(str(given["path"]), self.most_bytes)

    def _list_files(self, given: JsonObject, _: RunContext) -> str:
        return self.workspace.names(str(given["path"]))

    def _write_file(self, given: JsonObject, _: RunContext) -> str:
        return self.workspace.write(str(given["path"]), str(given["text"]))


_READS = ToolProfile(effect=EffectClass.READ_ONLY, resources=(FieldResource("path", AccessMode.READ),))
_LISTS = ToolProfile(effect=EffectClass.READ_ONLY, resources=(FieldResource("path", AccessMode.READ, tree=True),))
_WRITES = ToolProfile(
    effect=EffectClass.IDEMPOTENT,
    resources=(FieldResource("path", AccessMode.WRITE),),
    approval=Decision.ASK,
)


def _path_field(known: list[str]) -> JsonObject:
    examples: list[JsonValue] = [*known]
    return {"type": "string", **({"examples": examples} if examples else {})}


def _tool(name: str, description: str, fields: JsonObject, *, required: list[JsonValue], profile: ToolProfile) -> Tool:
    schema: JsonObject = {
        "type": "object",
        "properties": fields,
        "required": required,
        "additionalProperties": False,
    }
    return Tool(name=name, description=description, input_schema=Json.of(schema), profile=profile)
