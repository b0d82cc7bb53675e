"""Whether what a call uses meets what a pattern names (rule ASK-1): by name alone, whatever the input says.

Names are paths: `a/b` lies within `a`, a relative one within `.`, and `.` within `..`. A pattern names what matches it
and all that lies within that. `*` stands for any characters, `**/` for any number of folders, also for none.
"""

import re
from collections.abc import Iterator

from loopkernel.data.policy import has_lost_way
from loopkernel.data.tools import Claim
from loopkernel.loop.algorithms.patterns import glob_matches

_FOLDERS_AGAIN = re.compile(r"(^|/)(?:\*\*/){2,}")
_MOST_FOLDERS = 6  # times `/**/` in a pattern; one that has more is taken for one that may name anything


def canonical(path: str) -> str:
    """The one spelling of a path: no `.`, no empty part, no `a/..`; nothing left is `.`."""
    parts: list[str] = []
    absolute = path.startswith("/")
    for part in path.split("/"):
        if part == ".." and parts and parts[-1] != "..":
            parts.pop()
        elif part not in ("", ".") and not (part == ".." and absolute):
            parts.append(part)
    return ("/" if absolute else "") + "/".join(parts) or "."


def lies_within(claim: Claim, pattern: str) -> bool:
    """Whether all that the claim uses is surely what the pattern names, or lies within it."""
    spellings = _spellings(pattern, claim)
    if spellings is None:
        return False
    # `../*` does not name `../../a`, though the text matches.
    return any(
        _is_named(name, one) and (_steps_up(name) <= _steps_up(one) or one.startswith("*"))
        for name in _names(claim)
        for one in spellings
    )


def reaches(claim: Claim, pattern: str) -> bool:
    """Whether the claim may use something that the pattern names: the thing, a part of it, or what holds it."""
    spellings = _spellings(pattern, claim)
    if spellings is None:
        return True
    return any(
        _is_named(name, one) or _holds(name, one, tree=claim.tree) for name in _names(claim) for one in spellings
    )


def _names(claim: Claim) -> Iterator[str]:
    for name in (claim.key, *claim.also):
        yield canonical(name.casefold() if claim.ignores_case else name)


def _spellings(pattern: str, claim: Claim) -> tuple[str, ...] | None:
    """The patterns without `**/` that together name the same; none for one that names nothing. None: not known."""
    if claim.ignores_case:
        pattern = pattern.casefold()
    if not pattern:
        return ()
    if has_lost_way(pattern):
        return None
    found = [_FOLDERS_AGAIN.sub(r"\1**/", canonical(pattern))]
    if found[0].startswith("**/"):
        found = [found[0].removeprefix("**/"), found[0].removeprefix("*")]
    for _ in range(_MOST_FOLDERS):
        found = [one for split in found for one in _with_and_without_folders(split)]
    return None if any("/**/" in one for one in found) else tuple(found)


def _with_and_without_folders(pattern: str) -> tuple[str, ...]:
    before, folders, behind = pattern.partition("/**/")
    return (f"{before}/{behind}", f"{before}/*/{behind}") if folders else (pattern,)


def _is_named(name: str, pattern: str) -> bool:
    """Whether the name, or a folder that it lies in, matches."""
    if _leads_up(pattern) and not name.startswith("/") and _steps_up(name) <= _steps_up(pattern):
        return True
    return any(glob_matches(pattern, holder) for holder in _holders(name))


def _holders(name: str) -> Iterator[str]:
    """The name, and the folders that it lies in, as far as they can be told from it."""
    yield name
    if name in ("/", "."):
        return
    parts = name.split("/")
    first = max(_steps_up(name), 1)
    for length in range(len(parts) - 1, first - 1, -1):
        yield "/".join(parts[:length]) or "/"
    if not name.startswith("/") and not _steps_up(name):
        yield "."


def _holds(name: str, pattern: str, *, tree: bool) -> bool:
    """Whether something that lies within what has the name could match.

    Where a `*` alone could lead there, only what uses all that lies within, and the workspace itself, count: else
    every file would be in the way of `*.key`.
    """
    beginning, star, _ = pattern.partition("*")
    if _leads_up(name):
        return not beginning or (not pattern.startswith("/") and _steps_up(pattern) <= _steps_up(name))
    folder = name if name == "/" else f"{name}/"
    return beginning.startswith(folder) or bool(star and (tree or name == "/") and folder.startswith(beginning))


def _leads_up(path: str) -> bool:
    """Whether it is `.`, `..`, `../..` or so on."""
    return path == "." or _steps_up(path) == len(path.split("/"))


def _steps_up(path: str) -> int:
    """How many `..` the path begins with."""
    count = 0
    for part in path.split("/"):
        if part != "..":
            break
        count += 1
    return count
