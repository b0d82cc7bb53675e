"""What it costs to keep a run: its state as text, its log in a file, and going on from either (T9 to T11)."""

import asyncio
import gc
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from loopkernel.codec import state_from_text, state_to_text
from loopkernel.data.states import State
from loopkernel.replaying import START, LogRecord, replay
from loopkernel_adapters.ports import Restored
from loopkernel_adapters.stores.jsonl import JsonlStore, read_log

from bench.agent_work import conversation, driven
from bench.drivers import verdict

SAMPLES = 7
ROUNDS = 1_000


def spent_ms(work: Callable[[], object]) -> float:
    """Milliseconds of CPU, the garbage collector included."""
    gc.collect()
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1e3


def logged(path: Path, rounds: int) -> tuple[LogRecord, ...]:
    """The records of a run of so many rounds, whose log is in that file; the last reply is still under way."""
    asyncio.run(driven(rounds, store=JsonlStore(path)))
    store = JsonlStore(path)
    try:
        return store.load()[:-2]  # without the last reply: it streams
    finally:
        store.close()


def measure_state(records: Sequence[LogRecord]) -> None:
    """T9 and T10: the whole state, in flight, as text and back, beside JSON of the bare messages."""
    state, messages = replay(records), conversation(ROUNDS)
    text = state_to_text(state)
    assert state_from_text(text) == state
    pairs = []
    for _ in range(SAMPLES):
        bare = spent_ms(lambda: json.loads(json.dumps(messages)))
        pairs.append((bare, spent_ms(lambda: state_from_text(state_to_text(state)))))
    bare, whole = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(high / low for low, high in pairs)
    print(f"T9   {'save and load in flight, ms':<34} {whole:>9.2f} {bare:>9.2f} {ratio:>7.2f}  {verdict(ratio, 4)}")
    size, plain = len(text) / ROUNDS, len(json.dumps(messages)) / ROUNDS
    figures = f"{size:>9.0f} {plain:>9.0f} {size / plain:>7.2f}"
    print(f"T10  {'bytes a round, of the state':<34} {figures}  {verdict(size, 300)}")


def gone_on(path: Path) -> float:
    """Milliseconds to come to the state that the log leads to, by the snapshot that its driver has left."""
    store = JsonlStore(path)
    try:
        return spent_ms(lambda: _restored(store.restore()))
    finally:
        store.close()


def _restored(found: Restored) -> State:
    return replay(found.records, START if found.state is None else found.state)


def measure_log(folder: Path, records: Sequence[LogRecord]) -> None:
    """T11: bytes written a round, early and late; and going on from a log of a thousand rounds."""
    sizes = {}
    for rounds in (0, 10, ROUNDS):
        path = folder / f"{rounds}.jsonl"
        asyncio.run(driven(rounds, store=JsonlStore(path)))
        sizes[rounds] = path.stat().st_size
    late, early = (sizes[ROUNDS] - sizes[0]) / ROUNDS, (sizes[10] - sizes[0]) / 10
    print(f"T11  {'bytes logged a round, to 10 rounds':<34} {late:>9.0f} {early:>9.0f} {late / early:>7.2f}  "
          f"{verdict(late / early, 1.1)}")  # fmt: skip
    path = folder / f"{ROUNDS}.jsonl"
    folds, loads, folded_loads, snapshots = [], [], [], []
    for _ in range(SAMPLES):
        folds.append(spent_ms(lambda: replay(records)))
        loads.append(spent_ms(lambda: read_log(path)))
        folded_loads.append(spent_ms(lambda: replay(read_log(path).records)))
        snapshots.append(gone_on(path))
    ratio = statistics.median(
        whole / (fold + load) for fold, load, whole in zip(folds, loads, folded_loads, strict=True)
    )
    whole, fold, load = (statistics.median(column) for column in (folded_loads, folds, loads))
    what = f"read and fold {ROUNDS:,} rounds, ms"
    print(f"T11  {what:<34} {whole:>9.1f} {fold + load:>9.1f} {ratio:>7.2f}  {verdict(ratio, 1.3)}")
    print(f"     {'of which reading the log':<34} {load:>9.1f}")
    print(f"     {'and with the snapshot of its end':<34} {statistics.median(snapshots):>9.1f}")


def measure() -> None:
    """Print the figures, each with its target."""
    print(f"a run of {ROUNDS:,} rounds kept; medians of {SAMPLES} alternate samples of CPU time")
    in_memory = Path("/dev/shm")  # the bytes and the CPU are the same, and no disk is waited for
    with tempfile.TemporaryDirectory(dir=in_memory if in_memory.is_dir() else None) as name:
        records = logged(Path(name) / "log.jsonl", ROUNDS)
        measure_state(records)
        measure_log(Path(name), records)
