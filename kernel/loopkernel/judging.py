"""This kernel under its laws: the one place where what judges meets what is judged.

    report = check_all(fold(log))
    print(report)  # laws checked: step ..., trace ..., pair ...; all held

The laws import nothing of the loop. All that they call of it they are given here, as a `Judged`.
"""

from loopkernel import laws
from loopkernel.data.records import StepRecord
from loopkernel.laws import Breach, Judged, Report
from loopkernel.laws.judging import Records
from loopkernel.loop.algorithms.compaction import plan_cut
from loopkernel.loop.algorithms.projection import project
from loopkernel.loop.transition import transition
from loopkernel.views.explain import explain

__all__ = ["KERNEL", "check_all", "check_pairs", "check_step", "check_trace"]

KERNEL = Judged(transition=transition, explain=explain, plan_cut=plan_cut, project=project)


def check_all(records: Records, *, judged: Judged = KERNEL) -> Report:
    """Judge a run by all laws; each of its steps is taken once more for them together."""
    return laws.judge_all(records, judged)


def check_step(
    record: StepRecord, step: int = 0, *, judged: Judged = KERNEL, was_taken: bool = False
) -> tuple[Breach, ...]:
    """Judge one step by the step laws; `step` is the index that breaches name.

    One that `was_taken` is what the judged transition has just given: TOTAL judges that, and does not take it again.
    """
    return laws.judge_step(record, judged, step, was_taken=was_taken)


def check_trace(records: Records, *, judged: Judged = KERNEL) -> Report:
    """Judge a run by the step and trace laws."""
    return laws.judge_trace(records, judged)


def check_pairs(records: Records, *, judged: Judged = KERNEL) -> Report:
    """Judge a run by the pair laws, which take its steps again."""
    return laws.judge_pairs(records, judged)
