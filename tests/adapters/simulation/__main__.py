"""The command: `python -m tests.adapters.simulation` runs simulated worlds, or one of them by its seed.

Exit status: 0 unless a world fails, then 1.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence

from loopkernel.testing.scenarios.format.writer import write_scenarios

from tests.adapters.simulation.batch import MODES, Batch, command_for, is_lively, run_seed
from tests.adapters.simulation.drawing import plan_of
from tests.adapters.simulation.running import Outcome, run
from tests.adapters.simulation.shrinking import likeness, scenario_of, shrunk


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.adapters.simulation")
    parser.add_argument("--seed", type=int, help="one world alone, with its log if all is well")
    parser.add_argument(
        "--mode", choices=MODES, help="safety: faults everywhere; liveness: they stop (else: by the seed)"
    )
    parser.add_argument("--seeds", type=int, default=2_000, help="how many worlds to run (2,000)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--laws-every", type=int, default=1, help="judge all laws on every n-th world (1)")
    parser.add_argument("--log", action="store_true", help="with --seed: print the log")
    options = parser.parse_args(arguments)
    if options.seed is not None:
        return _one(options.seed, is_lively(options.seed, options.mode), options.log)
    batch = Batch(laws_every=options.laws_every)
    for seed in range(options.first, options.first + options.seeds):
        outcome = batch.add(seed, is_lively(seed, options.mode))
        if outcome.faults:
            print(f"{outcome.faults[0]}\n    {command_for(outcome.plan)}", flush=True)
    print(batch.summary())
    _print_seen(batch.seen)
    return 1 if batch.failed else 0


def _print_seen(seen: Counter[str]) -> None:
    for what, times in sorted(seen.items()):
        print(f"{times:>8}  {what}")


def _one(seed: int, lively: bool, with_log: bool) -> int:
    """One world; where it fails, the smallest that fails alike."""
    outcome = run_seed(seed, lively, laws=True)
    if with_log:
        print(outcome.log.decode())
    if not outcome.faults:
        print(f"all is well: {outcome.records} records in {outcome.elapsed_ms / 3_600_000:.2f} simulated hours")
        return 0
    for fault in outcome.faults:
        print(fault)
    _print_small(outcome)
    return 1


def _print_small(outcome: Outcome) -> None:
    wanted = likeness(outcome.faults[0])
    by_law = "law " in wanted
    small = shrunk(plan_of(outcome.plan.seed, outcome.plan.lively), lambda plan: fails_alike(plan, wanted, by_law))
    print(f"\n{len(outcome.plan.items)} events, of which these are enough ({small.preset}, {dict(small.options)}):")
    for item in small.items:
        print(f"    {item}")
    scenario = scenario_of(small)
    if scenario is not None:
        print(f"\nas a scenario:\n{write_scenarios([scenario])}")


def fails_alike(plan: object, wanted: str, by_law: bool) -> bool:
    """Whether a plan fails in that way."""
    return any(likeness(fault) == wanted for fault in run(plan, laws=by_law).faults)  # type: ignore[arg-type]


if __name__ == "__main__":
    sys.exit(main())
