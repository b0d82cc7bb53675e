"""`loopkernel diagnose FILE`: what keeps a recorded conversation from going on, where it came in, and what to type."""

from collections import Counter
from pathlib import Path

from loopkernel.data.json_text import JsonValue

from loopkernel_adapters.cli.invocation import command
from loopkernel_adapters.cli.json_lines import put
from loopkernel_adapters.cli.outcomes import ExitStatus
from loopkernel_adapters.cli.places import log_at
from loopkernel_adapters.cli.recording_files import is_sound_log, read_in_words, where
from loopkernel_adapters.cli.screen import Screen, in_one_line
from loopkernel_adapters.cli.words import counted
from loopkernel_adapters.transcripts.diagnosing import Diagnosis, diagnosed, is_refused
from loopkernel_adapters.transcripts.entries import FindingKind
from loopkernel_adapters.transcripts.source import Source
from loopkernel_adapters.transcripts.writers.writer import Fault

SHOWN, OF_A_KIND = 12, 3  # faults that are told in full: in all, and of one kind
PLACES = 5  # of the others of a kind


def diagnose(path: Path, screen: Screen, *, as_json: bool, shows_all: bool) -> ExitStatus:
    """Look through the recording, and say what is wrong. Raises Unusable where it cannot be read."""
    with read_in_words(path):
        ours = is_sound_log(path)
        found = None if ours else diagnosed(Source(path))
    if found is None:
        return _of_our_log(path, screen, as_json)
    if as_json:
        put(screen, _as_json(path, found))
    else:
        _tell(path, found, screen, shows_all)
    return ExitStatus.OTHER_END if found.faults else ExitStatus.NATURAL_END


def _of_our_log(path: Path, screen: Screen, as_json: bool) -> ExitStatus:
    """A log of ours cannot hold such faults: it is whole, or it is refused when it is read."""
    found = log_at(path)
    torn = found.torn_tail is not None
    if as_json:
        put(screen, {"file": str(path), "format": "loopkernel", "faults": [], "harmless": {}, "repair": None})
    else:
        tail = "; its last line was never finished, and is cut off when it is opened" if torn else ""
        screen.labelled("recording", f"{path}: a log of loopkernel, {counted(len(found.records), 'record')}{tail}")
        screen.labelled("go on", command("resume", path))
    return ExitStatus.NATURAL_END


def _tell(path: Path, found: Diagnosis, screen: Screen, shows_all: bool) -> None:
    harmless = Counter(finding.kind.value for finding in found.harmless)
    screen.labelled("recording", f"{path}: {found.format}")
    if not found.faults:
        screen.labelled("faults", "none that would keep it from going on" if found.goes_on else "none")
    else:
        refused = sum(is_refused(fault.kind) for fault in found.faults)
        screen.labelled("faults", f"{len(found.faults)}, of which a provider refuses {refused}, sent as they stand")
    left: dict[FindingKind, list[Fault]] = {}
    kinds: Counter[FindingKind] = Counter()
    for fault in found.faults:
        if shows_all or (kinds.total() < SHOWN and kinds[fault.kind] < OF_A_KIND):
            kinds[fault.kind] += 1
            _tell_fault(found, fault, screen)
        else:
            left.setdefault(fault.kind, []).append(fault)
    for kind, others in left.items():
        places = [where(found.format, fault.place.record, fault.place.part) for fault in others[:PLACES]]
        etc = ", ..." if len(others) > PLACES else ""
        screen.labelled("and", f"{len(others)} more of {kind.value}: {', '.join(places)}{etc}")
    if left:
        screen.labelled("", "--all tells each in full")
    if harmless:
        screen.labelled("harmless", _numbers(harmless))
    if found.goes_on:
        screen.labelled("go on", command("continue", path))
    else:
        screen.labelled("go on", "not possible: it holds no conversation that could be gone on with")
    if (repair := _repair_told(path, found)) is not None:
        screen.labelled("or repair", repair)


def _tell_fault(found: Diagnosis, fault: Fault, screen: Screen) -> None:
    screen.labelled("fault", f"{where(found.format, fault.place.record, fault.place.part)}: {fault.text}")
    screen.labelled("", f"invariant: {fault.kind.value}{_of_conversation(fault.conversation)}")
    screen.labelled("", f"effect: {found.effect(fault) or 'none'}")
    screen.labelled("", f"repair: {fault.remedy}")


def _repair_told(path: Path, found: Diagnosis) -> str | None:
    """The command that repairs it into a file beside it; None where it needs none, or nothing is left to begin from."""
    if not found.faults or not (found.own_format or found.goes_on):
        return None
    suffix = path.suffix if found.own_format else ".jsonl"
    return command("repair", path, "--out", path.with_name(f"{path.stem}.repaired{suffix}"))


def _of_conversation(name: str) -> str:
    return f", in the conversation {in_one_line(name)}" if name else ""


def _numbers(kinds: Counter[str]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in kinds.items())


def _as_json(path: Path, found: Diagnosis) -> dict[str, JsonValue]:
    faults: list[JsonValue] = [
        {
            "place": fault.place.record,
            "part": fault.place.part,
            "conversation": fault.conversation,
            "kind": fault.kind.value,
            "text": fault.text,
            "effect": found.effect(fault),
            "repair": fault.remedy,
        }
        for fault in found.faults
    ]
    harmless = Counter(finding.kind.value for finding in found.harmless)
    return {
        "file": str(path),
        "format": found.format,
        "faults": faults,
        "harmless": dict(harmless),
        "repair": _repair_told(path, found),
    }
