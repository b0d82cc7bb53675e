"""Run the real driver in simulated worlds for some minutes, each from a fresh seed, and judge all laws over every log.

Usage: python -m scripts.simulate [--minutes 5] [--first SEED]. For each world that fails it prints the command
that runs that one again and makes it small; at the end, how often each kind of fault was seen. Exits 1 after a failure.
"""

import argparse
import os
import secrets
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor

from tests.adapters.simulation.batch import Batch, command_for, is_lively

PART = 100  # seeds that one process runs in a row


def part(first: int) -> Batch:
    """The worlds of some seeds."""
    batch = Batch()
    for seed in range(first, first + PART):
        batch.add(seed, is_lively(seed))
    return batch


def parts(first: int, until: float, workers: int) -> Iterator[Batch]:
    """What one part after the other gives, until the time is over."""
    with ProcessPoolExecutor(workers) as processes:
        under_way: list[Future[Batch]] = []
        while time.monotonic() < until or under_way:
            while len(under_way) < 2 * workers and time.monotonic() < until:
                under_way.append(processes.submit(part, first))
                first += PART
            if under_way:
                yield under_way.pop(0).result()


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """The arguments; a first seed is drawn where none is given."""
    parser = argparse.ArgumentParser(description="Run the driver in simulated worlds for some minutes.")
    parser.add_argument("--minutes", type=float, default=5.0, help="begin no further part after so many minutes")
    parser.add_argument("--first", type=int, default=secrets.randbelow(10**9), help="the first seed")
    return parser.parse_args(words)


def main() -> None:
    """Parts until the time is over, then what was seen."""
    arguments = parsed(sys.argv[1:])
    whole = Batch()
    seen: Counter[str] = Counter()
    until = time.monotonic() + 60 * arguments.minutes
    for batch in parts(arguments.first, until, int(os.environ.get("WORKERS", "2"))):
        whole.worlds += batch.worlds
        whole.records += batch.records
        whole.elapsed_ms += batch.elapsed_ms
        whole.failed += batch.failed
        seen += batch.seen
        for failed in batch.failed:
            print(f"{failed.faults[0]}\n    {command_for(failed.plan)}", flush=True)
    for what, times in sorted(seen.items()):
        print(f"{times:>9}  {what}")
    print(f"from seed {arguments.first}: {whole.summary()}")
    sys.exit(1 if whole.failed else 0)


if __name__ == "__main__":
    main()
