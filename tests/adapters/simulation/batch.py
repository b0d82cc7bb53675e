"""Many worlds, and what was seen over all of them."""

import traceback
from collections import Counter

from attrs import Factory, define

from tests.adapters.simulation.drawing import plan_of
from tests.adapters.simulation.plan import Plan
from tests.adapters.simulation.running import Outcome, run

MODES = ("safety", "liveness")


def is_lively(seed: int, mode: str | None = None) -> bool:
    """In which mode a seed is run: every second one each way, unless it is said."""
    return seed % 2 == 1 if mode is None else mode == "liveness"


def command_for(plan: Plan) -> str:
    """The one command that runs this world again."""
    mode = MODES[plan.lively]
    return f"python -m tests.adapters.simulation --seed {plan.seed} --mode {mode}"


def run_seed(seed: int, lively: bool, *, laws: bool) -> Outcome:
    """One world. What the simulation itself raises is a fault too: it is no less worth a look."""
    plan = plan_of(seed, lively)
    try:
        return run(plan, laws=laws)
    except Exception as error:
        told = traceback.format_exception(error)[-2:]
        fault = f"raised {type(error).__name__}: {error} {''.join(told).strip()}"
        return Outcome(plan=plan, faults=(fault,), seen=Counter(), log=b"", elapsed_ms=0, records=0)


@define
class Batch:
    """The worlds so far."""

    laws_every: int = 1
    worlds: int = 0
    records: int = 0
    elapsed_ms: int = 0
    seen: Counter[str] = Factory(Counter)
    failed: list[Outcome] = Factory(list)

    def add(self, seed: int, lively: bool) -> Outcome:
        """Run one more."""
        outcome = run_seed(seed, lively, laws=seed // 2 % self.laws_every == 0)
        self.worlds += 1
        self.records += outcome.records
        self.elapsed_ms += outcome.elapsed_ms
        self.seen += outcome.seen
        if outcome.faults:
            self.failed.append(outcome)
        return outcome

    def summary(self) -> str:
        """In one line."""
        hours = self.elapsed_ms / 3_600_000
        return (
            f"{self.worlds} worlds, {hours:,.0f} simulated hours, {self.records:,} records: {len(self.failed)} failed"
        )
