"""The command line of mutation testing: choose the mutants, try them, print the score. See specs/mutation.md."""

import argparse
import json
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from attrs import define, evolve, field

from mutation import preloading
from mutation.matrix import Matrix, function_of
from mutation.mutants import Mutant
from mutation.plans import MATRIX_SECONDS, SECONDS_A_MUTANT, Planner
from mutation.recording import RecordingFailed, recorded
from mutation.sampling import sample
from mutation.subject import KERNEL, ROOT, Subject
from mutation.survivors import Kind, Survivor, entry_for, key_of, read_survivors
from mutation.trial import Outcome, TrialFault, Verdict, Way, failure_without_mutant, try_all

CACHE = ROOT / ".mutation_cache"
QUICK = "not slow"  # the marks of the tests that `make test` runs
TARGET = 0.90
MUTANTS = 400
SEED = 1
PROGRESS = 25  # mutants between two lines of progress


@define
class Score:
    """What became of the mutants of a run."""

    outcomes: list[Outcome] = field(factory=list)
    listed: list[Survivor] = field(factory=list)  # in the sample, not tried, counted as alive

    @property
    def dead(self) -> int:
        """How many the tests noticed."""
        return sum(outcome.verdict.is_dead for outcome in self.outcomes)

    @property
    def alive(self) -> list[Outcome]:
        """Those that are in no list, in the order of the files."""
        found = [outcome for outcome in self.outcomes if not outcome.verdict.is_dead]
        return sorted(found, key=lambda outcome: (outcome.mutant.path, outcome.mutant.line))

    @property
    def share(self) -> float:
        """The share of the dead; 1 where nothing was tried."""
        total = len(self.outcomes) + len(self.listed)
        return self.dead / total if total else 1.0

    @property
    def is_met(self) -> bool:
        """Whether the target is met, and no mutant lives that is in no list."""
        return self.share >= TARGET and not self.alive


def main() -> int:
    """Run what the command line asks for. 0 when the target is met, 1 when not, 2 when nothing could be said."""
    arguments = _parsed()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))  # so that no forked process is left
    survivors = {survivor.key: survivor for survivor in read_survivors()}
    try:
        chosen, listed = _chosen(arguments, survivors)
        return _run(arguments, chosen, listed)
    except (LookupError, RecordingFailed, TrialFault) as error:
        print(error)
        return 2


def _run(arguments: argparse.Namespace, chosen: list[Mutant], listed: list[Survivor]) -> int:
    started = time.monotonic()
    subject = evolve(KERNEL, marked=QUICK) if arguments.quick else KERNEL
    cache = CACHE / ("quick" if arguments.quick else "whole")
    print(f"{len(KERNEL.mutants)} mutants in {len(KERNEL.paths)} files; trying {len(chosen)}", flush=True)
    print(f"seed {arguments.seed}; recording which test reaches what, unless that is known ...", flush=True)
    record = recorded(subject, cache, arguments.workers)
    record = record.of(arguments.tests)
    seconds = {test.test: test.seconds for test in record.tests}
    planner = Planner.of(subject, record, MATRIX_SECONDS if arguments.matrix else SECONDS_A_MUTANT)
    del record
    preloading.load()
    print(f"{len(seconds)} tests recorded after {time.monotonic() - started:.0f} s", flush=True)
    score = Score(listed=listed)
    matrix = Matrix()
    planned = ((mutant, matrix.noted(mutant, planner.batches(mutant))) for mutant in chosen)
    way = Way(is_exhaustive=arguments.matrix, is_shown=arguments.mutant is not None)
    results = cache / ("result.jsonl" if way.is_shown else "results.jsonl")
    with results.open("w", encoding="utf-8") as file:
        for outcome in try_all(subject, planned, arguments.workers, way):
            score.outcomes.append(outcome)
            print(_line(outcome), file=file, flush=True)
            _tell_progress(score, len(chosen), started)
    wrong = _control(subject, score.outcomes, seconds)
    if wrong:
        print(f"a test that killed a mutant fails without any mutant too: {wrong}")
        return 2
    if arguments.listed:
        return _report_listed(score)
    if arguments.matrix:
        for line in matrix.told(score.outcomes, map(function_of, seconds)):
            print(line)
    _report(score, arguments, time.monotonic() - started, results)
    return 0 if score.is_met else 1


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m mutation", description="Mutation testing of the kernel.")
    parser.add_argument("--mutants", type=int, default=MUTANTS, help="how many are tried (0: all)")
    parser.add_argument("--seed", type=int, default=SEED, help="which are tried")
    parser.add_argument("--workers", type=int, default=2, help="how many at a time")
    parser.add_argument("--mutant", help="try this one alone, and show its tests")
    parser.add_argument("--only", default="", help="try those alone whose file contains this")
    parser.add_argument("--listed", action="store_true", help="try the listed survivors, and no others")
    parser.add_argument("--tests", nargs="+", default=[""], help="against those tests alone whose names begin so")
    parser.add_argument("--quick", action="store_true", help="against the tests of `make test` alone")
    parser.add_argument("--matrix", action="store_true", help="run every test of each mutant: which kill it, all told")
    return parser.parse_args()


def _chosen(
    arguments: argparse.Namespace, survivors: dict[tuple[str, str, str, str, int], Survivor]
) -> tuple[list[Mutant], list[Survivor]]:
    """The mutants to try, and the listed ones of the sample, which are not tried but count."""
    if arguments.mutant is not None:
        found = [mutant for mutant in KERNEL.mutants if mutant.digest == arguments.mutant]
        if not found:
            raise LookupError(f"no mutant is called {arguments.mutant}")
        return found, []
    if arguments.listed:
        return [mutant for mutant in KERNEL.mutants if key_of(mutant) in survivors], []
    equivalent = {key for key, survivor in survivors.items() if survivor.kind is Kind.EQUIVALENT}
    within = [mutant for mutant in KERNEL.mutants if key_of(mutant) not in equivalent and arguments.only in mutant.path]
    sampled = sample(within, arguments.mutants or len(within), arguments.seed)
    return (
        [mutant for mutant in sampled if key_of(mutant) not in survivors],
        [survivors[key_of(mutant)] for mutant in sampled if key_of(mutant) in survivors],
    )


def _tell_progress(score: Score, total: int, started: float) -> None:
    outcome, count = score.outcomes[-1], len(score.outcomes)
    if not outcome.verdict.is_dead:
        print(f"  {outcome.verdict.value}: {outcome.mutant.told}", flush=True)
    if count % PROGRESS == 0 or count == total:
        print(f"{count:>5} of {total}, {score.dead} dead, {time.monotonic() - started:.0f} s", flush=True)


def _line(outcome: Outcome) -> str:
    mutant = outcome.mutant
    told = {
        "mutant": mutant.digest,
        "file": mutant.path,
        "line": mutant.line,
        "function": mutant.function,
        "operator": mutant.operator,
        "before": mutant.before,
        "after": mutant.after,
        "verdict": outcome.verdict.value,
        "tests": outcome.tests,
        "seconds": round(outcome.seconds, 2),
    }
    return json.dumps(told)


def _control(subject: Subject, outcomes: Iterable[Outcome], seconds: dict[str, float]) -> str:
    """Every test that killed a mutant passes without one: the name of one that does not."""
    killers = {test for outcome in outcomes if outcome.verdict is Verdict.KILLED for test in outcome.tests}
    tests = {test: seconds[test] for test in sorted(killers) if test in seconds}
    return failure_without_mutant(subject, tests) if tests else ""


def _report(score: Score, arguments: argparse.Namespace, seconds: float, results: Path) -> None:
    tried = len(score.outcomes)
    print(f"\n{score.dead} of {tried + len(score.listed)} mutants are dead: {score.share:.1%} (target {TARGET:.0%})")
    if score.listed:
        print(f"{len(score.listed)} of the living are in mutation/survivors.toml and were not tried")
    for line in _told_alive(score.alive):
        print(line)
    print(f"seed {arguments.seed}, {seconds:.0f} s; every outcome is in {results.relative_to(ROOT)}")
    print("repeat one: make mutants MUTANT=NAME    another sample: make mutants MUTANTS=n SEED=s")


def _report_listed(score: Score) -> int:
    """Which of the listed have died since, and are to be taken out of the list."""
    dead = [outcome for outcome in score.outcomes if outcome.verdict.is_dead]
    for outcome in dead:
        print(f"listed, but dead by {outcome.test}: {outcome.mutant.told}")
    print(f"{len(score.alive)} of {len(score.outcomes)} listed mutants live")
    return 1 if dead else 0


def _told_alive(alive: list[Outcome]) -> Iterator[str]:
    if alive:
        print(f"{len(alive)} live and are in no list. Write a test that kills each, or list it with its reason:\n")
    for outcome in alive:
        mutant = outcome.mutant
        yield f"# {mutant.digest}, {mutant.operator}, {outcome.verdict.value}: {mutant.path}:{mutant.line}"
        yield entry_for(mutant) + "\n"


if __name__ == "__main__":
    sys.exit(main())
