"""Small recordings of every format, written by hand with the oddities of each: counts, findings, and what is played."""

from collections import Counter

import pytest
from loopkernel_adapters.transcripts.entries import FindingKind
from loopkernel_adapters.transcripts.formats import READERS
from loopkernel_adapters.transcripts.replaying import replayed
from loopkernel_adapters.transcripts.source import Source

from tests.adapters.transcripts.recordings_world import (
    EXAMPLES,
    as_numbers,
    examples,
    expected,
    fitting,
    format_of,
    statuses,
)

# How a result of each status stands in the log; what a recording leaves open is lost, or was cancelled by an interrupt.
AS_PLAYED = {"done": "done", "error": "error", "rejected": "rejected-by-user", "cancelled": "cancelled"}


@pytest.mark.parametrize("name", examples())
def test_an_example_is_taken_by_the_reader_of_its_format_alone(name: str) -> None:
    assert fitting(EXAMPLES / name) == [format_of(name)]


@pytest.mark.rule("RESUME-1")
@pytest.mark.parametrize("name", examples())
def test_an_example_is_read_and_played_as_it_was_recorded(name: str) -> None:
    found = replayed(Source(EXAMPLES / name))
    ended: Counter[str] = Counter()
    for conversation in found.conversations:
        ended += statuses(conversation.records)
    assert found.held, found.laws
    assert found.identical
    assert {
        "counts": as_numbers(found.counts),
        "findings": [f"{finding.kind.value} @ {finding.place.record}" for finding in found.findings],
        "bookkeeping": sum(found.bookkeeping.values()),
        "conversations": len(found.conversations),
        "statuses": dict(sorted(ended.items())),
        "unplaced": sum(len(conversation.unplaced) for conversation in found.conversations),
    } == expected(EXAMPLES)[name]


@pytest.mark.parametrize("name", examples())
def test_what_is_expected_of_an_example_agrees_with_itself(name: str) -> None:
    told = expected(EXAMPLES)[name]
    counts, played = told["counts"], told["statuses"]
    assert isinstance(counts, dict)
    assert isinstance(played, dict)
    results: Counter[str] = Counter(counts.get("results", {}))
    orphans, unanswered = counts.get("orphan_results", 0), counts.get("unanswered", 0)
    assert counts.get("calls", 0) == results.total() - orphans + unanswered
    for recorded, status in AS_PLAYED.items():
        assert played.get(status, 0) <= results[recorded] + (unanswered if status == "cancelled" else 0)


def test_every_format_and_every_kind_of_finding_has_an_example() -> None:
    found = {kind for name in examples() for kind in _kinds(name)}
    told_by_diagnosis_alone = {
        FindingKind.RESULT_APART,
        FindingKind.REUSED_RECORD_ID,
        FindingKind.EMPTY_MESSAGE,
        FindingKind.EMPTY_TEXT,
        FindingKind.BROKEN_TEXT,
        FindingKind.UNSIGNED_REASONING,
        FindingKind.ODD_SHAPE,
        FindingKind.ODD_NAME,
        FindingKind.UNUSABLE_IMAGE,
        FindingKind.REPLY_FIRST,
    }
    assert {format_of(name) for name in examples()} == {reader.name for reader in READERS}
    assert found == {kind.value for kind in set(FindingKind) - told_by_diagnosis_alone}
    assert sorted(expected(EXAMPLES)) == examples()


def _kinds(name: str) -> set[str]:
    findings = expected(EXAMPLES)[name]["findings"]
    assert isinstance(findings, list)
    return {finding.partition(" @ ")[0] for finding in findings}
