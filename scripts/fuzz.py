"""Look for a breach for some minutes: every property test with ever new seeds, then the rest that takes time.

The rest is every scope of the explorer, every crash point of the stores, and simulated worlds of the driver.

Usage: python scripts/fuzz.py [--minutes 10] [--seed N] [TEST ...]. TEST: files or tests to look at alone. The round
that is under way when the time is over is finished. Prints the seed of each round and, after a breach, the command that
repeats it. Exits 1 after a breach.
"""

import argparse
import os
import re
import secrets
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = Path(".venv") / "bin" / "python"
EXPLORER = "tests/kernel/test_explore.py"
CRASHES = ("tests/adapters/stores/test_crash_points.py", "tests/adapters/stores/test_effects_under_kills.py")
SIMULATED_MINUTES = 1
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
NOTHING_COLLECTED = 5  # the exit code of pytest


def main() -> None:
    """Rounds of the property tests until the time is over, then the explorer; stops at the first breach."""
    arguments = parsed(sys.argv[1:])
    seed, begun = arguments.seed, time.monotonic()
    rounds = 0
    while rounds == 0 or time.monotonic() - begun < 60 * arguments.minutes:
        report(begun, f"round {rounds + 1}, seed {seed + rounds}")
        run(property_command(seed + rounds, arguments.tests), "fuzz")
        rounds += 1
    if not arguments.tests:
        report(begun, "every scope of the explorer")
        run([str(PYTHON), "-m", "pytest", "-q", *spread(), EXPLORER], "deep")
        report(begun, "every crash point of the stores")
        run([str(PYTHON), "-m", "pytest", "-q", *spread(), *CRASHES], "fuzz")
        report(begun, "simulated worlds of the driver")
        run([str(PYTHON), "scripts/simulate.py", "--minutes", str(SIMULATED_MINUTES), "--first", str(seed)], "fuzz")
    report(begun, f"no breach in {rounds} rounds; to repeat them: make fuzz SEED={seed} MINUTES={arguments.minutes:g}")


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


def run(command: list[str], profile: str) -> None:
    """Run the command; after a breach, say how to repeat it, and exit."""
    environment = {**os.environ, "HYPOTHESIS_PROFILE": profile}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    print("\n".join(result.stdout.rstrip().splitlines()[-1:]), flush=True)
    if result.returncode in (0, NOTHING_COLLECTED):
        return
    print(result.stdout + result.stderr)
    print(told(result.stdout, command, profile), flush=True)
    sys.exit(1)


def told(output: str, command: Sequence[str], profile: str) -> str:
    """How to repeat what has failed: the test alone, from the same seed."""
    seed = next((word for word in command if word.startswith("--hypothesis-seed=")), "")
    failed = FAILED.findall(output)
    lines = [f"HYPOTHESIS_PROFILE={profile} {PYTHON} -m pytest {seed} '{test}'" for test in failed]
    repeat = lines or [f"HYPOTHESIS_PROFILE={profile} {' '.join(command)}"]
    return "A breach was found. To repeat it:\n  " + "\n  ".join(repeat)


def report(begun: float, text: str) -> None:
    """A line of progress, with the minutes since the start."""
    print(f"[{(time.monotonic() - begun) / 60:5.1f} min] {text}", flush=True)


if __name__ == "__main__":
    main()
