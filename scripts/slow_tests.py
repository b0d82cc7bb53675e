"""Print which tests `make test` leaves to `make slow`: those whose cases take long together.

Usage: python -m scripts.slow_tests REPORT [--seconds S] > tests/slow.txt, where the report is one that pytest's
`--junit-xml` writes of a run of all tests. A line is a test function without its parameters, as pytest names it, or a
file that was put there by hand: what it imports takes longer than its tests, it loads the embedded model (which the run
that is reported may not have), or `make check` runs it.

Time alone chooses. What the others still catch is measured: `make mutants QUICK=1` tries mutants of the kernel against
them, and a test that is needed for its 90 % is kept out of the list by a line in KEPT.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 0.05  # of all cases of one function: what is left takes a minute on two idle cores
OF_THE_KERNEL = 0.25  # the same in tests/kernel, which catches most mutants
KEPT = frozenset(
    {
        "tests/adapters/cli/test_consent.py::test_what_only_looks_like_consent_runs_nothing",  # consent
        "tests/specs/test_scenarios.py::test_the_kernel_does_what_the_scenario_says",  # the contract itself
        # Nothing else that is quick notices what they do.
        "tests/kernel/data/test_policy.py::test_every_number_that_is_too_small_is_named_and_no_other",
        "tests/kernel/loop/history/test_compaction.py::test_an_edit_finds_the_thread_as_it_was_before_what_was_cut_out",
    }
)


def main() -> None:
    """Read the report and print the list."""
    parser = argparse.ArgumentParser(prog="python -m scripts.slow_tests", description=__doc__.partition("\n")[0])
    parser.add_argument("report", type=Path, help="a report of a whole run, by pytest's --junit-xml")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="how long the cases of a quick test may take")
    arguments = parser.parse_args()
    if not arguments.report.is_file():
        sys.exit(f"{arguments.report} is not a file: `python -m pytest --junit-xml FILE` writes one")
    taken: defaultdict[str, float] = defaultdict(float)
    for function, seconds in cases(arguments.report):
        taken[function] += seconds
    for function in sorted(taken):
        most = OF_THE_KERNEL if function.startswith("tests/kernel/") else arguments.seconds
        if taken[function] > most and function not in KEPT:
            print(function)


def cases(report: Path) -> Iterator[tuple[str, float]]:
    """Each case of a report: its function, as pytest names it, and its seconds."""
    for case in ElementTree.parse(report).iter("testcase"):
        if classname := case.get("classname"):  # a module that is skipped as a whole has none
            yield function_of(classname, case.get("name", "")), float(case.get("time", "0"))


def function_of(classname: str, name: str) -> str:
    """The name that pytest gives to a function: the file of the module, its class if it has one, and its own name."""
    parts = classname.split(".")
    for length in range(len(parts), 0, -1):
        file = Path(*parts[:length]).with_suffix(".py")
        if (ROOT / file).is_file():
            return "::".join([file.as_posix(), *parts[length:], name.partition("[")[0]])
    return f"{classname}::{name}"


if __name__ == "__main__":
    main()
