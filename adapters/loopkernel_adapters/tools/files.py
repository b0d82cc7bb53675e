"""Reading, listing and writing the files of one folder, the workspace, and nothing outside it.

A path is never resolved and then opened, which leaves time to exchange a folder for a link: it is opened one
component after the other, each relative to the folder just opened, and no link is followed. `..` is refused, even
where it would stay within, so that a resource has one key. Names that begin with a dot are hidden from the model:
not listed, not offered, not read, not written. A hard link is a file of the workspace like any other; written, it
becomes a file of its own.
"""

import codecs
import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Self

from attrs import frozen
from loopkernel.data.json_text import Json, JsonValue, safe_text
from loopkernel.data.tools import AccessMode, Decision, EffectClass, FieldResource, Tool, ToolProfile

from loopkernel_adapters.ports import RunContext, ToolError
from loopkernel_adapters.tools.input_schema import JsonObject
from loopkernel_adapters.tools.registry import FunctionTool

LONGEST_PATH = 4_096  # bytes
LONGEST_NAME = 255  # bytes
LONGEST_SHOWN = 80  # characters of a path in an error
DEEPEST = 32  # folders within each other
DEFAULT_READ_BYTES = 65_536
MOST_ENTRIES = 500  # of a folder that are listed
MOST_SORTED = 20_000  # of a folder that are looked at
MOST_OFFERED = 40  # files that a schema gives as examples; a larger workspace gives none
MOST_WRITTEN = 1_000_000  # bytes of a file

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Non-blocking, so that a pipe in the place of a file does not hang; no terminal becomes ours.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_MODE = 0o666  # less what the process masks


class PathRefused(ValueError):
    """A path that no file of the workspace can have. The message is for the model."""


def canonical_path(path: str) -> str:
    """The one spelling of a path within the workspace: `./a//b/` is `a/b`, the workspace itself is `.`.

    Looks at the text alone. Raises PathRefused.
    """
    if path.startswith("/"):
        raise PathRefused(f"{_shown(path)} is an absolute path; give one relative to the workspace")
    if "\0" in path:
        raise PathRefused(f"{_shown(path)} holds a NUL character, which no file name can")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise PathRefused(f"{_shown(path)} holds `..`; give the path without it")
    if any(part.startswith(".") for part in parts):
        raise PathRefused(f"{_shown(path)} is hidden: names that begin with a dot are not for tools")
    encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
    too_long = any(len(part) > LONGEST_NAME for part in encoded)
    if too_long or len(parts) > DEEPEST or sum(map(len, encoded)) + len(parts) > LONGEST_PATH:
        raise PathRefused(f"{_shown(path)} is longer than the path of any file can be")
    return "/".join(parts) or "."


class Workspace:
    """A folder, opened once; what stands under its name later does not matter. Close it, or use it in `with`.

    Raises OSError when it is no folder or cannot be opened.
    """

    def __init__(self, root: Path) -> None:
        self._root: int | None = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def close(self) -> None:
        """Let go of the folder. Closing twice is harmless."""
        root, self._root = self._root, None
        if root is not None:
            os.close(root)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def read(self, path: str, most_bytes: int = DEFAULT_READ_BYTES) -> str:
        """The text of a file, its first `most_bytes` bytes and then a note when it is larger.

        What is not UTF-8 is replaced by U+FFFD. Raises ToolError.
        """
        with self._opened_file(path) as descriptor:
            size = os.fstat(descriptor).st_size
            content = _read_at_most(descriptor, most_bytes + 1)
        if len(content) <= most_bytes:
            return content.decode("utf-8", "replace")
        # A character that the limit cuts in two is left out, not replaced.
        text = codecs.getincrementaldecoder("utf-8")("replace").decode(content[:most_bytes])
        return f"{text}\n(These are the first {most_bytes} of {max(size, len(content))} bytes.)"

    def names(self, path: str = ".") -> str:
        """The names in a folder, one a line and sorted, folders with a slash. Raises ToolError."""
        with self._opened_folder(path) as descriptor:
            entries = sorted(islice(_entries(descriptor), MOST_SORTED))
        lines = [_line(name, kind) for name, kind in entries[:MOST_ENTRIES]]
        if len(entries) > MOST_ENTRIES:
            lines.append(f"(and {len(entries) - MOST_ENTRIES} more{' at least' * (len(entries) == MOST_SORTED)})")
        return "\n".join(lines) or "(empty)"

    def write(self, path: str, text: str) -> str:
        """Make the text the whole content of a file, new or not, in a folder that exists; what was done, in words.

        The file is written beside its place and then put there, so that nobody finds half of it, also after a crash,
        and nothing that has another name changes. Raises ToolError.
        """
        content = safe_text(text).encode()
        if len(content) > MOST_WRITTEN:
            raise ToolError(f"{len(content)} bytes are too many for one file; write at most {MOST_WRITTEN}")
        path = _demand_path(path)
        parent, _, name = path.rpartition("/")
        with self._opened_folder(parent or ".") as folder, _told(path, "written"):
            mode = _mode_of(folder, name, path)
            beside = f".{secrets.token_hex(8)}.writing"
            descriptor = os.open(beside, _NEW, _NEW_MODE, dir_fd=folder)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    if mode is not None:
                        os.fchmod(file.fileno(), mode)
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                os.unlink(beside, dir_fd=folder)
                raise
        return f"{'Wrote' if mode is None else 'Replaced'} {_shown(path)}, now {len(content)} bytes."

    def contents(self, most: int) -> tuple[list[str], list[str]] | None:
        """The paths of all files and of all folders, sorted; None when they are more than `most` together.

        What cannot be opened is left out. Raises ToolError when the workspace itself cannot be listed.
        """
        files: list[str] = []
        folders = ["."]
        for folder in folders:  # grows while it is gone through
            try:
                with self._opened_folder(folder) as descriptor:
                    entries = list(islice(_entries(descriptor), most + 1))
            except ToolError:
                if folder == ".":
                    raise
                continue
            if len(entries) > most:
                return None
            for name, kind in entries:
                path = name if folder == "." else f"{folder}/{name}"
                if not _is_plain(path):
                    continue
                if kind == stat.S_IFREG:
                    files.append(path)
                elif kind == stat.S_IFDIR:
                    folders.append(path)
                if len(files) + len(folders) > most:
                    return None
        return sorted(files), sorted(folders)

    @contextmanager
    def _opened_file(self, path: str) -> Iterator[int]:
        parent, _, name = _demand_path(path).rpartition("/")
        with self._opened_folder(parent or ".") as folder:
            with _told(path):
                _demand_kind(os.stat(name, dir_fd=folder, follow_symlinks=False), stat.S_IFREG, path)
                descriptor = os.open(name, _FILE, dir_fd=folder)
            try:
                _demand_kind(os.fstat(descriptor), stat.S_IFREG, path)  # of what was really opened
                yield descriptor
            finally:
                os.close(descriptor)

    @contextmanager
    def _opened_folder(self, path: str) -> Iterator[int]:
        if self._root is None:
            raise ToolError("the workspace is closed; nothing can be read from it any more")
        path = _demand_path(path)
        folder = os.dup(self._root)
        try:
            for name in () if path == "." else path.split("/"):
                with _told(path):
                    _demand_kind(os.stat(name, dir_fd=folder, follow_symlinks=False), stat.S_IFDIR, path)
                    inner = os.open(name, _FOLDER, dir_fd=folder)
                os.close(folder)
                folder = inner
            yield folder
        finally:
            os.close(folder)


def _demand_path(path: str) -> str:
    try:
        return canonical_path(path)
    except PathRefused as error:
        raise ToolError(str(error)) from error


@contextmanager
def _told(path: str, act: str = "opened") -> Iterator[None]:
    """What the system says about a path, as a ToolError."""
    try:
        yield
    except FileNotFoundError:
        raise ToolError(f"there is no {_shown(path)}; list the files to see what is there") from None
    except (OSError, ValueError) as error:  # ValueError: a name that cannot be encoded
        words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ToolError(f"{_shown(path)} cannot be {act}: {words}") from error


_KINDS = {stat.S_IFREG: "a file", stat.S_IFDIR: "a folder", stat.S_IFLNK: "a link, and links are not followed"}


def _demand_kind(found: os.stat_result, wanted: int, path: str) -> None:
    kind = stat.S_IFMT(found.st_mode)
    if kind != wanted:
        what = _KINDS.get(kind, "neither a file nor a folder")
        raise ToolError(f"{_shown(path)} is, or lies in, {what}; {_KINDS[wanted]} is needed here")


def _mode_of(folder: int, name: str, path: str) -> int | None:
    """The permissions of the file that is to be replaced; None when there is none."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    _demand_kind(found, stat.S_IFREG, path)
    return stat.S_IMODE(found.st_mode)


def _read_at_most(descriptor: int, most_bytes: int) -> bytes:
    pieces: list[bytes] = []
    left = most_bytes
    while left > 0 and (piece := os.read(descriptor, left)):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _entries(folder: int) -> Iterator[tuple[str, int]]:
    """The visible names in an opened folder, and what each is, as the type bits of its mode."""
    with os.scandir(folder) as found:
        for entry in found:
            if not entry.name.startswith("."):
                yield entry.name, _kind(entry)


def _kind(entry: os.DirEntry[str]) -> int:
    if entry.is_symlink():
        return stat.S_IFLNK
    if entry.is_dir(follow_symlinks=False):
        return stat.S_IFDIR
    return stat.S_IFREG if entry.is_file(follow_symlinks=False) else 0


def _is_plain(path: str) -> bool:
    """Whether the path can be given back as it is: no undecodable bytes, and no more than a path may be."""
    try:
        return safe_text(path) == path and canonical_path(path) == path
    except PathRefused:
        return False


def _line(name: str, kind: int) -> str:
    marks = {stat.S_IFREG: "", stat.S_IFDIR: "/", stat.S_IFLNK: " (a link, not followed)"}
    name = safe_text(name)
    return f"{name if name.isprintable() else json.dumps(name)}{marks.get(kind, ' (neither file nor folder)')}"


def _shown(path: str) -> str:
    path = safe_text(path)
    path = path if len(path) <= LONGEST_SHOWN else f"{path[:LONGEST_SHOWN]}..."
    return json.dumps(path, ensure_ascii=not path.isprintable())


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
                resource_key=canonical_path,
            ),
            FunctionTool(
                tool=_tool(
                    "list_files",
                    "List the files of the workspace.",
                    {"path": {**_path_field(folders), "default": "."}},
                    required=[],
                    profile=_READS,
                ),
                function=self._list_files,
                resource_key=canonical_path,
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
                resource_key=canonical_path,
            ),
        )

    def _read_file(self, given: JsonObject, _: RunContext) -> str:
        return self.workspace.read(str(given["path"]), self.most_bytes)

    def _list_files(self, given: JsonObject, _: RunContext) -> str:
        return self.workspace.names(str(given["path"]))

    def _write_file(self, given: JsonObject, _: RunContext) -> str:
        return self.workspace.write(str(given["path"]), str(given["text"]))


_READS = ToolProfile(effect=EffectClass.READ_ONLY, resources=(FieldResource("path", AccessMode.READ),))
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
