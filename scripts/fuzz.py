"""Look for a breach for some minutes: every property test with ever new seeds, then the rest that takes time.

The rest is every scope of the explorer, every crash point of the stores, and simulated worlds of the driver: on two
cores some eight minutes more.

Usage: python scripts/fuzz.py [--minutes 10] [--seed N] [TEST ...]. TEST: files or tests to look at alone. The round
that is under way when the time is over is finished. Prints the seed of each round, what has ended, and at the end all
that was run; after a breach, the command that repeats it. At a terminal, a bar below shows how far each of them is.
Exits 1 after a breach, 2 where there is nothing to run.
"""

import argparse
import os
import re
import secrets
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from loopkernel_adapters.cli.progress import Progress

ROOT = Path(__file__).resolve().parent.parent
PYTHON = Path(os.path.relpath(sys.executable, ROOT))  # of .venv; or of .venv-fast, where the kernel is compiled
CRASHES = ("tests/adapters/stores/test_crash_points.py", "tests/adapters/stores/test_effects_under_kills.py")
SIMULATED_MINUTES = 1
FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
PERCENT = re.compile(r"\[ *(\d+)%\]$")  # at the end of a line of pytest
COUNTED = re.compile(r"^(\d+) of (\d+): ")  # at the beginning of one of the explorer
REPEAT = "A breach was found. To repeat it:"
PROFILE = "fuzz"
NOTHING_COLLECTED = 5  # the exit code of pytest


def main() -> None:
    """Rounds of the property tests until the time is over, then the rest; stops at the first breach."""
    arguments = parsed(sys.argv[1:])
    seed, begun = arguments.seed, time.monotonic()
    ran: list[str] = []
    while not ran or time.monotonic() - begun < 60 * arguments.minutes:
        this = seed + len(ran)
        what = f"round {len(ran) + 1}, seed {this}"
        report(begun, what)
        ran.append(f"{what}: {run(property_command(this, arguments.tests), what)}")
    rounds = len(ran)
    if not arguments.tests:
        for what, command in rest(seed):
            report(begun, what)
            ran.append(f"{what}: {run(command, what)}")
    print("\n".join(("what ran:", *(f"  {line}" for line in ran))))
    seen = f"no breach in {rounds} {'round' if rounds == 1 else 'rounds'}"
    report(begun, f"{seen}; to repeat: make fuzz SEED={seed} MINUTES={arguments.minutes:g}")


def rest(seed: int) -> tuple[tuple[str, list[str]], ...]:
    """What comes after the rounds, and the commands."""
    minutes = str(SIMULATED_MINUTES)
    return (
        ("every scope of the explorer", [str(PYTHON), "-m", "tests.kernel.explore_deep", "--seed", str(seed)]),
        ("every crash point of the stores", [str(PYTHON), "-m", "pytest", "-q", *spread(), *CRASHES]),
        (
            "simulated worlds of the driver",
            [str(PYTHON), "-m", "scripts.simulate", "--minutes", minutes, "--first", str(seed)],
        ),
    )


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """The arguments; a seed is drawn where none is given."""
    parser = argparse.ArgumentParser(description="Look for a breach for some minutes.")
    parser.add_argument("--minutes", type=float, default=10.0, help="begin no further round after so many minutes")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000), help="that of the first round")
    parser.add_argument("tests", nargs="*", help="files or tests to look at alone")
    return parser.parse_args(words)


def spread() -> tuple[str, ...]:
    """The options by which tests are spread over processes."""
    return "-n", os.environ.get("WORKERS", "2"), "--dist", "worksteal"


def property_command(seed: int, tests: Sequence[str]) -> list[str]:
    """One round: the tests that generate their examples, from that seed."""
    found = ["-m", "hypothesis", f"--hypothesis-seed={seed}", *(tests or ("tests",))]
    return [str(PYTHON), "-m", "pytest", "-q", "--maxfail=1", *spread(), *found]


def run(command: list[str], what: str) -> str:
    """Run the command, print what it says while it does, and return its last line; exit after a breach."""
    environment = {**os.environ, "HYPOTHESIS_PROFILE": PROFILE}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        lines = list(shown(process.stdout or (), what))
    if process.returncode == NOTHING_COLLECTED:
        print(f"nothing was looked at: no test to run in {' '.join(command)}", flush=True)
        sys.exit(2)
    if process.returncode != 0:
        print(told("\n".join(lines), command), flush=True)
        sys.exit(1)
    return lines[-1] if lines else "said nothing"


def shown(output: Iterable[str], what: str) -> Iterator[str]:
    """The lines, each printed as it comes, and below them how much of that is done."""
    progress, done = Progress(100), 0
    progress.at(done, what)
    for line in map(str.rstrip, output):
        progress.clear()
        print(f"  {line}", flush=True)
        done = percent_in(line, done)
        progress.at(done, what)
        yield line
    progress.clear()


def percent_in(line: str, before: int) -> int:
    """How much is done, which most lines do not tell; then it is as much as before."""
    if found := PERCENT.search(line):
        return int(found[1])
    if found := COUNTED.search(line):
        return 100 * int(found[1]) // max(1, int(found[2]))
    return before


def told(output: str, command: Sequence[str]) -> str:
    """How to repeat what has failed: the test alone, from the same seed; or as the command itself has said."""
    if REPEAT in output:
        return output[output.index(REPEAT) :]
    seed = next((word for word in command if word.startswith("--hypothesis-seed=")), "")
    failed = FAILED.findall(output)
    lines = [f"HYPOTHESIS_PROFILE={PROFILE} {PYTHON} -m pytest {seed} {shlex.quote(test)}" for test in failed]
    repeat = lines or [f"HYPOTHESIS_PROFILE={PROFILE} {' '.join(command)}"]
    return f"{REPEAT}\n  " + "\n  ".join(repeat)


def report(begun: float, text: str) -> None:
    """A line of progress, with the minutes since the start."""
    print(f"[{(time.monotonic() - begun) / 60:5.1f} min] {text}", flush=True)


if __name__ == "__main__":
    main()
