"""The laws: what holds for every run, as predicates over a step, over a run, and over two runs that should agree.

They are judged apart from the code that they judge: no law looks into a handler or a region, and what can be
told in another way (conflicts, the queue, the bill, the turn) is told so. Only TOTAL, WHY and the pair laws take a
step again, with the `Judged` transition and explanation that they are given.

    records = fold(log)
    report = judge_all(records, judged)
    print(report)  # laws checked: step ..., trace ..., pair ...; all held

Nothing of the loop is imported here: `loopkernel.judging` brings the laws and this kernel together.
"""

from loopkernel.laws.catalogue import JUDGED, LAWS
from loopkernel.laws.judging import judge_all, judge_pairs, judge_step, judge_trace
from loopkernel.laws.reports import Breach, Judged, Law, LawKind, Report

__all__ = [
    "JUDGED",
    "LAWS",
    "Breach",
    "Judged",
    "Law",
    "LawKind",
    "Report",
    "judge_all",
    "judge_pairs",
    "judge_step",
    "judge_trace",
]
