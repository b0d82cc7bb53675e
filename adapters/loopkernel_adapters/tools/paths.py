"""Paths within a workspace: the one spelling of each, the one key of each, and the words for those that cannot be."""

import json
import os
import stat
import sys
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice

from loopkernel.data.json_text import safe_text

from loopkernel_adapters.bounded_text import beginning, hidden
from loopkernel_adapters.ports import ToolError

LONGEST_PATH = 4_096  # bytes
LONGEST_NAME = 255  # bytes
LONGEST_SHOWN = 80  # characters of a path in an error
_MOST_LOOKED_AT = 20_000  # names of a folder, for one that has two cases
DEEPEST = 32  # folders within each other
# Never for tools, also where dot names are: what is written there runs by itself, or is this program's own memory.
PROTECTED = frozenset({".git", ".loopkernel"})


class PathRefused(ValueError):
    """A path that no file of the workspace can have. The message is for the model."""


def canonical_path(path: str, *, dot_names: bool = False) -> str:
    """The one spelling of a path within the workspace: `./a//b/` is `a/b`, the workspace itself is `.`.

    Looks at the text alone. With `dot_names`, names may begin with a dot, but for PROTECTED. Raises PathRefused.
    """
    if path.startswith("/"):
        raise PathRefused(f"{shown_path(path)} is an absolute path; give one relative to the workspace")
    if "\0" in path:
        raise PathRefused(f"{shown_path(path)} holds a NUL character, which no file name can")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise PathRefused(f"{shown_path(path)} holds `..`; give the path without it")
    if not all(is_open_name(part, dot_names) for part in parts):
        names = "these names" if dot_names else "names that begin with a dot"
        raise PathRefused(f"{shown_path(path)} is hidden: {names} are not for tools")
    encoded = [part.encode("utf-8", "surrogatepass") for part in parts]
    too_long = any(len(part) > LONGEST_NAME for part in encoded)
    if too_long or len(parts) > DEEPEST or sum(map(len, encoded)) + len(parts) > LONGEST_PATH:
        raise PathRefused(f"{shown_path(path)} is longer than the path of any file can be")
    return "/".join(parts) or "."


def ignores_case(folder: int) -> bool:
    """Whether the file system takes names that differ in case for one, as far as a name in the folder can show it."""
    with suppress(OSError):
        for name in islice(os.listdir(folder), _MOST_LOOKED_AT):
            if name.swapcase() != name:
                mine = os.stat(name, dir_fd=folder, follow_symlinks=False)
                try:
                    other = os.stat(name.swapcase(), dir_fd=folder, follow_symlinks=False)
                except FileNotFoundError:
                    return False
                return os.path.samestat(mine, other)
    return sys.platform in ("darwin", "win32")  # nothing there to look at: what is usual


def one_spelling(canonical: Callable[[str], str], key: Callable[[str], str]) -> Callable[[str], str]:
    """The key of a path that a call gives in its canonical spelling; of any other one, PathRefused.

    Rules of approval that allow match what a call says as well, and people read it: one file, one spelling.
    """

    def key_of(path: str) -> str:
        spelled = canonical(path)
        if spelled != path:
            raise PathRefused(f"{shown_path(path)} has another spelling; write it as {shown_path(spelled)}")
        return key(path)

    return key_of


def demanded(path: str, canonical: Callable[[str], str]) -> str:
    """The one spelling of a path. Raises ToolError: also of a path that holds a secret and is not spelled so.

    Spelled otherwise, the secret in it would not be found where the path is named.
    """
    try:
        spelled = canonical(path)
    except PathRefused as error:
        raise ToolError(str(error)) from error
    if spelled != path and hidden(path) != path:
        raise ToolError(f"{shown_path(path)} has another spelling; leave out what a path does not need")
    return spelled


def is_open_name(name: str, dot_names: bool) -> bool:
    """Whether tools may see a file or folder of that name."""
    if not name.startswith("."):
        return True
    return dot_names and unicodedata.normalize("NFKC", name).casefold() not in PROTECTED and not _is_half_written(name)


def _is_half_written(name: str) -> bool:
    return name.endswith(".writing")  # as `Workspace.replace` names what it has not put in its place yet


def joined(folder: str, name: str) -> str:
    """The path of a name in a folder, both in their one spelling."""
    return name if folder == "." else f"{folder}/{name}"


def is_plain(path: str, *, dot_names: bool = False) -> bool:
    """Whether the path can be given back as it is: no undecodable bytes, and no more than a path may be."""
    try:
        return safe_text(path) == path and canonical_path(path, dot_names=dot_names) == path
    except PathRefused:
        return False


def shown_path(path: str) -> str:
    """The path in quotation marks, printable, cut where it is long."""
    path = beginning(safe_text(path), LONGEST_SHOWN, "...", cut=True)  # it may be the folder of what a call names
    return json.dumps(path, ensure_ascii=not path.isprintable())


def shown_size(size: int) -> str:
    """So many bytes, in words."""
    return f"{size} {'byte' if size == 1 else 'bytes'}"


@contextmanager
def told(path: str, act: str = "opened") -> Iterator[None]:
    """What the system says about a path, as a ToolError."""
    try:
        yield
    except FileNotFoundError:
        raise ToolError(f"there is no {shown_path(path)}; list the files to see what is there") from None
    except (OSError, ValueError) as error:  # ValueError: a name that cannot be encoded
        words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ToolError(f"{shown_path(path)} cannot be {act}: {words}") from error


_KINDS = {stat.S_IFREG: "a file", stat.S_IFDIR: "a folder", stat.S_IFLNK: "a link, and links are not followed"}


def demand_kind(mode: int, wanted: int, path: str) -> None:
    """Raises ToolError where what has that `st_mode` is not of the wanted kind (S_IFREG, S_IFDIR)."""
    kind = stat.S_IFMT(mode)
    if kind != wanted:
        what = _KINDS.get(kind, "neither a file nor a folder")
        raise ToolError(f"{shown_path(path)} is, or lies in, {what}; {_KINDS[wanted]} is needed here")
