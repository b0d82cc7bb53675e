"""Judges all recordings in a folder by the laws, from someone else's test suite, with three lines:

    from loopkernel_adapters.testing import recordings

    test_recordings = recordings("path/to/folder")

This is a test for each file. It fails, in words, where the file cannot be read, where a law is broken when it is
played, or where the log that it gives is not the same when it is replayed.
"""

import inspect
from collections.abc import Callable, Collection
from pathlib import Path

import pytest
from loopkernel.data.policy import Policy

from loopkernel_adapters.transcripts.entries import FindingKind
from loopkernel_adapters.transcripts.replaying import AS_RECORDED, Replayed, replayed
from loopkernel_adapters.transcripts.source import Source, Unreadable


def recordings(
    folder: str | Path,
    *,
    pattern: str = "**/*",
    policy: Policy = AS_RECORDED,
    forbidden: Collection[FindingKind] = (),
) -> Callable[[Path | None], None]:
    """A test for each file in the folder that the pattern names; to be assigned to a name that begins with `test_`.

    A folder that is not absolute is one beside the file of the tests. `policy` is what the recordings are played under;
    `forbidden` are findings that fail a test too, such as `loopkernel_adapters.testing.FindingKind.UNANSWERED`. Hidden
    files are left out. Where there are no files at all, the test fails.
    """
    place = _beside_the_caller() / folder
    found: list[Path | None] = [path for path in sorted(place.glob(pattern)) if _is_meant(path, place)]

    @pytest.mark.parametrize("recording", found or [None], ids=lambda path: _name(path, place))
    def judge(recording: Path | None) -> None:
        """Plays the recording."""
        if recording is None:
            pytest.fail(f"there are no recordings in {place} (pattern {pattern})", pytrace=False)
        fault = fault_of(recording, policy, forbidden)
        if fault is not None:
            pytest.fail(fault, pytrace=False)

    return judge


def fault_of(recording: Path, policy: Policy = AS_RECORDED, forbidden: Collection[FindingKind] = ()) -> str | None:
    """The first thing that is wrong with the recording, in words; None where all is well."""
    try:
        found = replayed(Source(recording), policy)
    except Unreadable as error:
        return f"{error}. Where it is meant to be none, leave it out with `pattern`"
    except OSError as error:
        return f"{recording} cannot be read: {error.strerror}"
    return _broken_law(recording, found) or _forbidden_finding(recording, found, forbidden)


def _broken_law(recording: Path, found: Replayed) -> str | None:
    for conversation in found.conversations:
        name = f" ({conversation.name})" if conversation.name else ""
        for breach in conversation.breaches:
            return f"{recording}{name} breaks a law: {breach}"
        if not conversation.identical:
            return f"{recording}{name} gives a log that is another one when it is replayed"
    return None


def _forbidden_finding(recording: Path, found: Replayed, forbidden: Collection[FindingKind]) -> str | None:
    finding = next((finding for finding in found.findings if finding.kind in forbidden), None)
    if finding is None:
        return None
    return f"{recording}, record {finding.place.record}: {finding.kind.value}: {finding.text}"


def _is_meant(path: Path, place: Path) -> bool:
    return path.is_file() and not any(part.startswith(".") for part in path.relative_to(place).parts)


def _name(path: Path | None, place: Path) -> str:
    return "none" if path is None else str(path.relative_to(place))


def _beside_the_caller() -> Path:
    """The folder of the file that called `recordings`; the current one where the caller is not a file."""
    frame = inspect.currentframe()
    caller = None if frame is None or frame.f_back is None else frame.f_back.f_back
    file = None if caller is None else caller.f_globals.get("__file__")
    return Path(file).parent if isinstance(file, str) else Path.cwd()
