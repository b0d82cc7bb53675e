"""How many deltas a second are folded and judged, and states explored, by whichever form of the kernel is installed.

`python -m bench.judging`; by the Python of `.venv-fast`, of the compiled kernel. These are figures of one machine, so
there is no target here: `docs/performance.md` says what was aimed at, beside both forms on one machine.
"""

import gc
import time
from collections.abc import Callable

from loopkernel.data.blocks import TextBlock
from loopkernel.data.deltas import Delta
from loopkernel.data.records import LogRecord
from loopkernel.data.states import Streaming
from loopkernel.data.thread_deltas import Acquired, Created
from loopkernel.data.user_deltas import Say
from loopkernel.judging import check_all
from loopkernel.replaying import fold, replay
from loopkernel.testing.explorer.explore import explore

from bench.agent_table import kernel_form
from bench.workload import READ, UNENDING, round_of
from tests.kernel.explore_cases import SERIAL

SAMPLES = 5  # of which the best counts
REPLAYED, JUDGED = 2_000, 100  # rounds of five deltas
STATES = 200


def log_of(rounds: int) -> tuple[LogRecord, ...]:
    """The log of a run of so many rounds."""
    opening: tuple[Delta, ...] = (
        Created(session_id="bench", policy=UNENDING, tools=(READ,)),
        Acquired(),
        Say(content=(TextBlock("Read the notes."),)),
    )
    opened = [LogRecord(delta, 0) for delta in opening]
    return (*opened, *(LogRecord(delta, number) for number in range(1, rounds + 1) for delta in round_of(number)))


def rate(work: Callable[[], int]) -> float:
    """How many a second of CPU `work` does, as it counts them; the most of several samples."""
    found = []
    for _ in range(SAMPLES):
        gc.collect()
        begun = time.process_time()
        done = work()
        found.append(done / (time.process_time() - begun))
    return max(found)


def measure() -> None:
    """Print the three rates."""
    log, run = log_of(REPLAYED), fold(log_of(JUDGED))

    def replayed() -> int:
        assert isinstance(replay(log), Streaming)
        return len(log)

    def judged() -> int:
        assert not check_all(run).breaches
        return len(run)

    def explored() -> int:
        found = explore(SERIAL.start, SERIAL.moves, laws=SERIAL.laws, view=SERIAL.view, limit=STATES)
        assert found.breach is None
        return found.states

    print(f"a second of CPU; kernel {kernel_form()}")
    for name, work in (("deltas replayed", replayed), ("deltas judged", judged), ("states explored", explored)):
        print(f"{name:<16} {rate(work):>8,.0f}", flush=True)


if __name__ == "__main__":
    measure()
