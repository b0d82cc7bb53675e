"""How fast recordings are read and played, for each format; and what a long one costs, in time and in memory.

The recordings are the small examples of the tests, repeated under new ids. `python -m bench.transcripts` prints the
figures; with `--million`, a recording of a million deltas too (a minute and a half, and 0.8 GB).
"""

import json
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

from attrs import frozen
from loopkernel.data.json_text import JsonValue
from loopkernel_adapters.stores.jsonl import line_of
from loopkernel_adapters.transcripts.counting import Tally
from loopkernel_adapters.transcripts.formats import reader_of
from loopkernel_adapters.transcripts.replaying import AS_RECORDED, reenacted, replayed
from loopkernel_adapters.transcripts.source import Source

EXAMPLES = Path(__file__).parents[1] / "tests" / "adapters" / "transcripts" / "examples"
BYTES = 1_000_000  # of the recording of each format; the laws judge one of a tenth
LONG = (10_000, 100_000)  # deltas
MILLION = 1_000_000
GROWTH_TARGET = 1.5  # of the cost of a delta, from the shortest recording to the longest
MEMORY_TARGET = 200  # bytes that reading may keep of a record of 2,000 bytes
# What records are told apart by. They get a new end with each repetition; numbers are raised.
IDS = frozenset(
    [
        "call_id",
        "cause",
        "id",
        "llm_response_id",
        "messageId",
        "parentUuid",
        "responseId",
        "source_call_id",
        "stepUuid",
        "toolCallId",
        "tool_call_id",
        "tool_call_ids",
        "tool_use_id",
        "uuid",
    ]
)


@frozen
class Repeated:
    """An example, and where in it what is repeated stands: a key of the document, or the lines from one on."""

    example: str
    key: str | None = None
    first: int = 0


FORMATS = (
    Repeated("claude-code/split-replies.jsonl", first=2),
    Repeated("codex/rollout.jsonl", first=2),
    Repeated("swe-agent/function-calling.traj", key="history"),
    Repeated("mini-swe-agent/refused-late.traj.json", key="messages"),
    Repeated("openhands/newer.jsonl", first=1),
    Repeated("inspect/log.json", key="samples"),
    Repeated("gemini-cli/rewritten.jsonl", first=1),
    Repeated("openai-chat/messages.json", key=""),
    Repeated("atif/steps.json", key="steps"),
    Repeated("pi/aborted-failed.jsonl", first=1),
    Repeated("copilot-cli/events.jsonl", first=1),
    Repeated("kimi-cli/events.jsonl", first=1),
    Repeated("loopkernel/session.jsonl"),
    Repeated("provider-stream/gemini.responses"),
)


def report(*, million: bool = False) -> None:
    """Print all figures."""
    with tempfile.TemporaryDirectory(prefix="bench-transcripts-") as folder:
        path = Path(folder) / "recording"
        print(
            f"recordings of {BYTES / 1e6:.0f} MB, per second of CPU: read and counted; played; judged by all laws too"
        )
        print(f"{'format':<16} {'MB read':>8} {'deltas':>8} {'deltas played':>14} {'deltas judged':>14}")
        for repeated in FORMATS:
            _report_format(repeated, path)
        _report_growth(path, (*LONG, MILLION) if million else LONG)
        _report_memory(path)


def _report_format(repeated: Repeated, path: Path) -> None:
    size = _write(repeated, path, BYTES)
    source = Source(path)
    name = reader_of(source).name
    reading = _seconds(lambda: _count(source))
    deltas, playing = _played(source)
    _write(repeated, path, BYTES // 10)
    begun = time.process_time()
    found = replayed(source)
    judging = time.process_time() - begun
    assert found.held, f"{repeated.example}: {found.laws}"
    assert found.identical, repeated.example
    print(
        f"{name:<16} {size / reading / 1e6:>8.1f} {deltas:>8,} {deltas / playing:>14,.0f} "
        f"{found.deltas / judging:>14,.0f}"
    )


def _played(source: Source) -> tuple[int, float]:
    """How many deltas the recording gives, and the seconds of CPU that it takes."""
    begun = time.process_time()
    played = reenacted(source, reader_of(source), AS_RECORDED, Tally(), [])
    return sum(len(one.records) for one in played.values()), time.process_time() - begun


def _report_growth(path: Path, lengths: tuple[int, ...]) -> None:
    """One conversation of ever more deltas: the cost of a delta must not grow."""
    print(f"microseconds a delta to play one conversation (claude-code); target: growth of at most {GROWTH_TARGET} x")
    costs = []
    for length in lengths:
        _write(FORMATS[0], path, length * 385)
        deltas, taken = _played(Source(path))
        costs.append(taken / deltas * 1e6)
        print(f"  {deltas:>9,} deltas {taken:>8.2f} s {costs[-1]:>8.1f} us a delta")
    growth = costs[-1] / costs[0]
    print(f"  growth {growth:.2f} x  {'met' if growth <= GROWTH_TARGET else 'MISSED'}")


def _report_memory(path: Path) -> None:
    """A file of lines, twice as long: what reading it keeps must be ids alone."""
    peaks = []
    for size in (10_000_000, 20_000_000):
        record = {"type": "user", "sessionId": "s", "message": {"role": "user", "content": "x" * 1_900}}
        number = 0
        with path.open("w") as file:
            while file.tell() < size:
                number += 1
                file.write(json.dumps({**record, "uuid": f"record-{number}"}) + "\n")
        tracemalloc.start()
        _count(Source(path))
        peaks.append((number, tracemalloc.get_traced_memory()[1]))
        tracemalloc.stop()
    (few, low), (many, high) = peaks
    kept = (high - low) / (many - few)
    verdict = "met" if kept <= MEMORY_TARGET else "MISSED"
    print(f"memory to read 10 and 20 MB of lines: {low / 1e6:.1f} and {high / 1e6:.1f} MB, {kept:.0f} bytes a record")
    print(f"  target: at most {MEMORY_TARGET}  {verdict}")


def _count(source: Source) -> None:
    reader = reader_of(source)
    for _ in Tally(counts_reasoning=reader.counts_reasoning).taken(reader.entries(source)):
        pass


def _seconds(work: Callable[[], None]) -> float:
    """The least CPU time of three runs."""
    taken = []
    for _ in range(3):
        begun = time.process_time()
        work()
        taken.append(time.process_time() - begun)
    return min(taken)


def _write(repeated: Repeated, path: Path, size: int) -> int:
    """Write a recording of at least that many bytes; gives back its size."""
    example = EXAMPLES / repeated.example
    if repeated.example.startswith("loopkernel/"):
        _write_log(path, size)
    elif repeated.key is None:
        _write_lines(example, repeated.first, path, size)
    else:
        _write_document(json.loads(example.read_text()), repeated.key, path, size)
    return path.stat().st_size


def _write_lines(example: Path, first: int, path: Path, size: int) -> None:
    records = list(_records(example))
    with path.open("w") as file:
        for record in records[:first]:
            file.write(json.dumps(record) + "\n")
        number = 0
        while file.tell() < size:
            number += 1
            for record in records[first:]:
                file.write(json.dumps(_renamed(record, number)) + "\n")


def _records(example: Path) -> Iterator[JsonValue]:
    """The lines that are whole."""
    for line in example.read_bytes().split(b"\n"):
        try:
            yield json.loads(line)
        except ValueError:
            continue


def _write_document(document: JsonValue, key: str, path: Path, size: int) -> None:
    whole = document if isinstance(document, dict) else {}
    items = whole[key] if key else document
    assert isinstance(items, list)
    times = size // len(json.dumps(document)) + 1
    repeated = [_renamed(item, number) for number in range(1, times + 1) for item in items]
    path.write_text(json.dumps({**whole, key: repeated} if key else repeated))


def _write_log(path: Path, size: int) -> None:
    """A log of our own, of what another recording gives."""
    _write(FORMATS[0], path, size)
    source = Source(path)
    played = reenacted(source, reader_of(source), AS_RECORDED, Tally(), [])
    with path.open("wb") as file:
        for number, record in enumerate(played[""].records, start=1):
            file.write(line_of(number, record))
            if file.tell() >= size:
                return


def _renamed(value: JsonValue, number: int, of_id: bool = False) -> JsonValue:
    """The value with ids of its own."""
    if isinstance(value, dict):
        return {key: _renamed(item, number, key in IDS) for key, item in value.items()}
    if isinstance(value, list):
        return [_renamed(item, number, of_id) for item in value]
    if of_id and isinstance(value, str):
        return f"{value}-{number}"
    if of_id and isinstance(value, int):
        return value + number * 1_000
    return value


if __name__ == "__main__":
    report(million="--million" in sys.argv)
