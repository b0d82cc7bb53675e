"""A zip that would unpack to more than a recording can is refused in words, and takes no memory by then."""

import bz2
import struct
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import pytest
from loopkernel_adapters.transcripts import archives
from loopkernel_adapters.transcripts.entries import Finding
from loopkernel_adapters.transcripts.replaying import replayed
from loopkernel_adapters.transcripts.source import Source, Unreadable

from tests.adapters.transcripts.recordings_world import read

MEBIBYTE = 1 << 20
BOMB = 48 * MEBIBYTE  # bytes, which are packed to a thousandth


def zipped(path: Path, *members: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


def peak_of(path: Path, refusal: str) -> int:
    """The most memory that reading takes, which is refused in these words."""
    tracemalloc.start()
    try:
        with pytest.raises(Unreadable, match=refusal):
            replayed(Source(path))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_zip_that_unpacks_to_a_thousand_times_its_size_is_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path / "bomb.eval", ("samples/1.json", b'{"id": 1, "messages": []}' + b" " * BOMB))
    size = path.stat().st_size
    assert peak_of(path, f"bomb.eval has {size:,} bytes and would unpack to {BOMB + 25:,}.*100 times") < MEBIBYTE


def test_a_member_gives_no_more_than_it_claims_also_while_it_is_unpacked(tmp_path: Path) -> None:
    path = zipped(tmp_path / "liar.eval", ("samples/1.json", b'{"id": 1, "messages": []}' + b" " * BOMB))
    content = path.read_bytes()
    sizes = struct.pack("<L", BOMB + 25)
    assert content.count(sizes) == 2  # before the member, and in the directory
    path.write_bytes(content.replace(sizes, struct.pack("<L", 25)))
    tracemalloc.start()
    try:
        entries, _ = read(path)
        assert tracemalloc.get_traced_memory()[1] < 4 * MEBIBYTE
    finally:
        tracemalloc.stop()
    assert [type(entry) for entry in entries] == [Finding]  # its checksum is that of all its bytes


def test_a_zip_of_too_many_files_or_bytes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = zipped(tmp_path / "many.eval", *((f"samples/{number}.json", b"{}") for number in range(40)))
    monkeypatch.setattr(archives, "MOST_MEMBERS", 39)
    with pytest.raises(Unreadable, match=r"many\.eval claims 40 files, and at most 39"):
        replayed(Source(path))
    monkeypatch.setattr(archives, "LARGEST_DIRECTORY", 39 * 46)
    with pytest.raises(Unreadable, match=r"many\.eval claims a list of files of [0-9,]+ bytes, and at most 1,794"):
        replayed(Source(path))
    monkeypatch.undo()
    monkeypatch.setattr(archives, "LARGEST_WHOLE", 79)
    with pytest.raises(Unreadable, match=r"many\.eval would unpack to 80 bytes, and at most 79"):
        replayed(Source(path))


def test_a_method_whose_pieces_have_no_bound_is_passed_over_in_words(tmp_path: Path) -> None:
    packed = zipped(tmp_path / "bz2.eval", ("samples/1.json", b"{}" + b" " * 1_000_000), method=zipfile.ZIP_BZIP2)
    assert len(bz2.compress(b" " * 1_000_000)) * archives.LARGEST_RATIO < 1_000_000
    entries, _ = read(packed)
    assert [entry.text for entry in entries if isinstance(entry, Finding)] == [
        "samples/1.json holds no sample (it is packed by method 12, and only stored and deflated files are read); "
        "it was passed over"
    ]


def test_what_shrinks_as_recordings_do_is_read_whatever_its_size(tmp_path: Path) -> None:
    text = b"".join(zlib.compress(b"%d" % number).hex().encode() for number in range(20_000))
    sample = b'{"id": 1, "messages": [{"role": "user", "content": "%b"}]}' % text
    _, tally = read(zipped(tmp_path / "log.eval", ("samples/1.json", sample)))
    assert tally.counts.user_messages == 1
