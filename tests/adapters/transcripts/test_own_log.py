"""Logs of our own, read as recordings: what a log was made of is what is told of it, and damage is a finding."""

import tempfile
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.thread_deltas import Created
from loopkernel_adapters.ports import StoreCorrupt
from loopkernel_adapters.stores.jsonl import JsonlStore, line_of, parse_log
from loopkernel_adapters.transcripts.entries import Finding, FindingKind, ModelTrouble, ReplyPart, UserSaid
from loopkernel_adapters.transcripts.replaying import Conversation, replayed
from loopkernel_adapters.transcripts.source import Source

from tests.adapters.transcripts.recordings_world import EXAMPLES, examples, fitting, read, statuses

LOG = EXAMPLES / "loopkernel" / "session.jsonl"
CONVERSATIONS = [name for name in examples() if not name.startswith("loopkernel/")]


def _logged(conversation: Conversation, path: Path) -> Path:
    store = JsonlStore(path)
    store.append(conversation.records, durable=False)
    store.close()
    return path


@pytest.mark.rule("RESUME-1")
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_the_log_of_a_recording_tells_what_the_recording_told(name: str, tmp_path: Path) -> None:
    for number, conversation in enumerate(replayed(Source(EXAMPLES / name)).conversations):
        path = _logged(conversation, tmp_path / f"{number}.jsonl")
        assert fitting(path) == ["loopkernel"]
        again = replayed(Source(path))
        played = [one.records for one in again.conversations]
        assert again.held, again.laws
        assert again.identical
        assert sum(map(len, played)) > 0 or not statuses(conversation.records)
        assert (statuses(played[0]) if played else {}) == statuses(conversation.records)
        assert again.counts.orphan_results == 0


def test_the_log_of_a_log_is_a_fixed_point(tmp_path: Path) -> None:
    """What a play has put into a log by itself, such as its tools, it puts there again, where nobody interrupted it."""
    for name in ("claude-code/split-replies.jsonl", "mini-swe-agent/bare-list.json", "openai-chat/messages.json"):
        (first,) = replayed(Source(EXAMPLES / name)).conversations
        (second,) = replayed(Source(_logged(first, tmp_path / f"{Path(name).stem}-1"))).conversations
        (third,) = replayed(Source(_logged(second, tmp_path / f"{Path(name).stem}-2"))).conversations
        assert [record.delta for record in third.records][2:] == [record.delta for record in second.records][2:]


def test_pieces_of_a_reply_and_its_end_are_told_with_their_times() -> None:
    entries, _ = read(LOG)
    said = [entry for entry in entries if isinstance(entry, UserSaid)]
    parts = [entry for entry in entries if isinstance(entry, ReplyPart)]
    assert all(entry.at_ms for entry in said)
    assert {part.stop.value for part in parts if part.stop is not None} == {"tool_use", "end_turn"}
    assert [entry.error.value for entry in entries if isinstance(entry, ModelTrouble)] == ["overloaded"]
    assert [part.error.value for part in parts if part.error is not None] == ["rate_limited"]


@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_every_changed_bit_of_a_log_is_a_finding_and_the_store_refuses_the_same_file(place: float, bit: int) -> None:
    content = bytearray(LOG.read_bytes())
    content[int(place * len(content))] ^= 1 << bit
    findings = _findings_in(bytes(content))
    assert findings
    if content.endswith(b"\n"):
        with pytest.raises(StoreCorrupt):
            parse_log(bytes(content), "log")
    else:
        assert [finding.kind for finding in findings] == [FindingKind.TORN_TAIL]
        assert parse_log(bytes(content), "log").torn_tail is not None


@given(place=st.floats(0, 1, exclude_max=True))
def test_a_log_that_is_cut_within_a_line_has_a_torn_tail_and_tells_what_was_before(place: float) -> None:
    content = LOG.read_bytes()
    first = content.index(b"\n") + 1
    cut = first + int(place * (len(content) - first))
    findings = _findings_in(content[:cut])
    torn = content[:cut].rpartition(b"\n")[2]
    assert [finding.kind for finding in findings if finding.kind is FindingKind.TORN_TAIL] == (
        [FindingKind.TORN_TAIL] if torn else []
    )


def test_lines_that_are_missing_moved_or_doubled_are_told() -> None:
    lines = LOG.read_bytes().splitlines(keepends=True)
    missing = _findings_in(b"".join([*lines[:5], *lines[7:]]))
    doubled = _findings_in(b"".join([*lines[:6], lines[5], *lines[6:]]))
    moved = _findings_in(b"".join([*lines[:5], lines[6], lines[5], *lines[7:]]))
    assert "this is record 8: those from 6 on are missing" in missing[0].text
    assert [finding.kind for finding in doubled] == [FindingKind.REPEATED_RECORD]
    assert [finding.kind for finding in moved] == [FindingKind.BROKEN_RECORD, FindingKind.REPEATED_RECORD]


def test_a_log_of_other_rules_says_so() -> None:
    record = parse_log(LOG.read_bytes(), "log").records[0]
    assert isinstance(record.delta, Created)
    other = evolve(record, delta=evolve(record.delta, rules_version=record.delta.rules_version - 1))
    lines = LOG.read_bytes().splitlines(keepends=True)
    found = _findings_in(b"".join([line_of(1, other), *lines[1:]]))
    assert found[0].kind is FindingKind.ODD_FIELD
    assert "rules" in found[0].text


def _findings_in(content: bytes) -> list[Finding]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        path.write_bytes(content)
        return [entry for entry in read(path)[0] if isinstance(entry, Finding)]
