"""Files that are not recordings, or that no memory could hold: told in words, and read a line at a time."""

import gzip
import json
import os
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from loopkernel_adapters.transcripts import archives
from loopkernel_adapters.transcripts import source as sources
from loopkernel_adapters.transcripts.counting import Tally
from loopkernel_adapters.transcripts.entries import Finding, FindingKind
from loopkernel_adapters.transcripts.formats import reader_of
from loopkernel_adapters.transcripts.replaying import replayed
from loopkernel_adapters.transcripts.source import Source, Unreadable

from tests.adapters.transcripts.recordings_world import EXAMPLES, as_numbers, expected, fitting, read

CLAUDE = EXAMPLES / "claude-code" / "split-replies.jsonl"
INSPECT = EXAMPLES / "inspect" / "log.json"


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    "content",
    [
        b"hello",
        b"null",
        b"[]",
        b"{}",
        b"7",
    ],
)
def test_what_is_no_recording_is_told_to_be_none_and_which_formats_are_known(tmp_path: Path, content: bytes) -> None:
    path = written(tmp_path / "file", content)
    with pytest.raises(
        Unreadable, match=r"not a recording in a format that is known here \(claude-code, .*codex, .*\)"
    ):
        replayed(Source(path))


def test_a_folder_is_no_recording(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="is a folder; name the files in it"):
        replayed(Source(tmp_path))


def test_a_pipe_is_told_to_be_none_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Unreadable, match="not a regular file; write what it gives to a file"):
        replayed(Source(tmp_path / "pipe"))


def test_a_file_that_is_not_there_or_may_not_be_read_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        replayed(Source(tmp_path / "nowhere"))
    path = written(tmp_path / "locked", CLAUDE.read_bytes())
    path.chmod(0)
    if os.geteuid() == 0:
        return  # to root nothing is locked
    with pytest.raises(PermissionError):
        replayed(Source(path))


NEWLINE = b"\n"
CHAT = json.dumps(json.loads((EXAMPLES / "openai-chat/messages.json").read_text()), indent=1).encode()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty"),
        (b"\n \n", "is empty"),
        (b"\xff\xfe{\x00", "is text in UTF-16"),
        (gzip.compress(CLAUDE.read_bytes()), "gunzip"),
        (CLAUDE.read_text().encode("utf-16"), "is text in UTF-16"),
        (b"\x00" * 100, "is not text"),
        (CLAUDE.read_bytes()[:50], "breaks off at its end, in line 1"),
        (b"[" * 50_000, "nested too deeply"),
        (b'{"a":' * 50_000, "nested too deeply"),
        (CHAT[:-3], r"breaks off at its end, in line \d+"),
        (CHAT[: CHAT.index(b'"user"') + 3], r"breaks off at its end, in line \d+"),
        (CHAT + CHAT, f"ends in line {CHAT.count(NEWLINE) + 1}, and something else stands behind it"),
        (CHAT.replace(b'"role"', b"role", 1), "property name.* in line 3, column 3"),
        (b'{"a":1}\n{"b":2}\n', "not a recording in a format that is known here"),
        (b"Buy milk.\n", "not a recording in a format that is known here"),
    ],
)
def test_of_what_is_no_recording_it_is_said_why(tmp_path: Path, content: bytes, told: str) -> None:
    with pytest.raises(Unreadable, match=told):
        read(written(tmp_path / "file", content))


@pytest.mark.parametrize(
    "name", ["pi/aborted-failed.jsonl", "claude-code/split-replies.jsonl", "kimi-cli/events.jsonl"]
)
def test_a_session_without_its_first_line_is_taken_by_the_same_reader_alone(tmp_path: Path, name: str) -> None:
    _, _, rest = (EXAMPLES / name).read_bytes().partition(b"\n")
    assert fitting(written(tmp_path / "file", rest)) == [name.partition("/")[0]]
    assert fitting(written(tmp_path / "file", b'{"id":"1","timestamp":"x"}\n' + rest)) == [name.partition("/")[0]]


@pytest.mark.parametrize(
    "changed",
    [
        lambda content: b"\xef\xbb\xbf" + content,
        lambda content: content.replace(b"\n", b"\r\n"),
        lambda content: content.replace(b"\n", b"\n\n  \n"),
        lambda content: content.rstrip(b"\n"),
    ],
    ids=["a byte order mark", "CRLF", "blank lines", "no last newline"],
)
@pytest.mark.parametrize(
    "name", ["claude-code/split-replies.jsonl", "openai-chat/messages.json", "pi/aborted-failed.jsonl"]
)
def test_how_lines_end_changes_nothing(tmp_path: Path, changed: Callable[[bytes], bytes], name: str) -> None:
    entries, tally = read(written(tmp_path / "file", changed((EXAMPLES / name).read_bytes())))
    findings = [entry.kind.value for entry in entries if isinstance(entry, Finding)]
    told = expected(EXAMPLES)[name]["findings"]
    assert as_numbers(tally.counts) == expected(EXAMPLES)[name]["counts"]
    assert isinstance(told, list)
    assert findings == [finding.partition(" @ ")[0] for finding in told]


def test_a_separator_of_unicode_ends_no_line() -> None:
    assert "\u2028" in CLAUDE.read_text()
    assert not [entry for entry in read(CLAUDE)[0] if getattr(entry, "kind", "") is FindingKind.BROKEN_RECORD]


@pytest.mark.parametrize("width", [0, 1, 4])
def test_a_list_of_objects_is_a_document_however_it_is_laid_out(tmp_path: Path, width: int) -> None:
    value = json.loads((EXAMPLES / "openai-chat/messages.json").read_text())
    laid_out = "[\n" + ",\n".join(json.dumps(message) for message in value) + "\n]"
    for text in (json.dumps(value, indent=width), json.dumps(value), laid_out):
        counts = read(written(tmp_path / "file", text.encode()))[1].counts
        assert as_numbers(counts) == expected(EXAMPLES)["openai-chat/messages.json"]["counts"]


def test_a_line_that_is_too_long_is_passed_over_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, *rest = CLAUDE.read_bytes().splitlines(keepends=True)
    monkeypatch.setattr(sources, "LONGEST_LINE", max(map(len, (first, second, *rest))) + 10)
    path = written(tmp_path / "file", b"".join([first, second, b'{"x":"' + b"y" * 5_000 + b'"}\n', *rest]))
    findings = [entry for entry in read(path)[0] if isinstance(entry, Finding)]
    assert [finding.place.record for finding in findings if finding.kind is FindingKind.BROKEN_RECORD] == [3]


# --- zips ---


def zipped(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "/"), content)
    return path


def _samples() -> dict[str, bytes]:
    log = json.loads(INSPECT.read_text())
    return {f"samples__{sample['id']}_epoch_1.json": json.dumps(sample).encode() for sample in log["samples"]}


def test_a_zip_of_samples_counts_as_the_log_in_json_does(tmp_path: Path) -> None:
    path = zipped(tmp_path / "log.eval", header__json=b"{}", _journal__start=b"{}", **_samples())
    assert as_numbers(read(path)[1].counts) == expected(EXAMPLES)["inspect/log.json"]["counts"]


def test_a_damaged_or_oversized_sample_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = {**_samples(), "samples__9.json": b'{"id": 9, "messages": []}' + b" " * 100_000}
    monkeypatch.setattr(archives, "LARGEST_MEMBER", 50_000)
    path = zipped(tmp_path / "log.eval", **samples)
    content = bytearray(path.read_bytes())
    content[60] ^= 0xFF  # within the first sample
    entries, tally = read(written(path, bytes(content)))
    broken = [
        entry.place.part for entry in entries if isinstance(entry, Finding) and entry.kind is FindingKind.BROKEN_RECORD
    ]
    assert broken == ["samples/1_epoch_1.json", "samples/9.json"]
    (told,) = (each.text for each in entries if isinstance(each, Finding) and each.place.part == "samples/9.json")
    assert "100,025 bytes" in told
    assert "50,000" in told
    assert tally.counts.user_messages == 1


def test_another_zip_is_no_recording(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="is a zip, but no log of Inspect"):
        replayed(Source(zipped(tmp_path / "book.zip", chapter=b"once")))


def test_a_zip_that_is_cut_or_changed_anywhere_never_gives_a_traceback(tmp_path: Path) -> None:
    content = zipped(tmp_path / "log.eval", **_samples()).read_bytes()
    for place in range(0, len(content), 7):
        changed = bytearray(content)
        changed[place] ^= 0x55
        for damaged in (bytes(changed), content[:place]):
            try:
                read(written(tmp_path / "damaged", damaged))
            except Unreadable as error:
                assert str(tmp_path) in str(error)


# --- files that are larger than the memory should be ---

RECORDS = 25_000  # of 2,000 bytes each: 50 MB
BOUND = 200 * RECORDS + 4_000_000  # bytes: ids, and a few lines


def _long_session(path: Path, records: int) -> Path:
    text = "x" * 1_700
    with path.open("w") as file:
        for number in range(0, records, 2):
            asked = {"role": "user", "content": f"{number} {text}"}
            said = {"id": f"m{number}", "role": "assistant", "content": [{"type": "text", "text": text}], "model": "m"}
            for kind, message in (("user", asked), ("assistant", said)):
                record = {"type": kind, "sessionId": "s", "uuid": f"{kind}-{number}", "message": message}
                file.write(json.dumps(record) + "\n")
    return path


def test_a_file_of_lines_is_read_in_memory_that_does_not_grow_with_what_it_says(tmp_path: Path) -> None:
    path = _long_session(tmp_path / "long.jsonl", RECORDS)
    assert path.stat().st_size > 45_000_000
    tracemalloc.start()
    try:
        reader = reader_of(Source(path))
        at_head = tracemalloc.get_traced_memory()[1]
        tally = Tally()
        number = sum(1 for _ in tally.taken(reader.entries(Source(path))))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert number == RECORDS
    assert tally.counts.replies == RECORDS // 2
    assert at_head < 4_000_000
    assert peak < BOUND


def test_the_head_of_a_file_of_lines_is_read_alone_however_its_first_line_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Source, "content", lambda self: pytest.fail("the whole file was read"))
    lines = CLAUDE.read_bytes().splitlines(keepends=True)
    long_first = json.dumps({"type": "user", "sessionId": "s", "message": {"content": "x" * 600_000}}).encode() + b"\n"
    for first in (lines[0], lines[0][:40] + b"\n", b"\xef\xbb\xbf" + lines[0], long_first):
        path = written(tmp_path / "file", first + b"".join(lines[1:]) * 50)
        assert reader_of(Source(path)).name == "claude-code"


def test_time_to_read_grows_with_the_size_of_the_file(tmp_path: Path) -> None:
    def seconds(records: int) -> float:
        path = _long_session(tmp_path / "timed.jsonl", records)
        taken = []
        for _ in range(3):
            begun = time.process_time()
            read(path)
            taken.append(time.process_time() - begun)
        return min(taken)

    assert seconds(4_000) < 3 * 4 * seconds(1_000) + 0.05
