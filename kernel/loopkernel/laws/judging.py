"""Judging: one step, a whole run, and the runs that should agree with it, by all the laws of a kind.

`judge_step` judges a step by itself, and so projects the whole of a request. The others judge a run for a cost that is
about linear in it: see `memory`, `request_laws` and `retakes`. `judge_all` follows the run once for all laws, and takes
each of its steps once more for them together.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol, final

from loopkernel.data.records import StepRecord
from loopkernel.data.states import State
from loopkernel.laws.address_law import Address
from loopkernel.laws.asking_laws import AskedLaw
from loopkernel.laws.budget_law import Budget
from loopkernel.laws.cancel_laws import CancelStop
from loopkernel.laws.catalogue import LAWS
from loopkernel.laws.cut_law import CutSafe
from loopkernel.laws.ending_laws import OneEnd
from loopkernel.laws.import_laws import repair_fix
from loopkernel.laws.input_laws import Conserve
from loopkernel.laws.log_laws import Prefix, WriteAhead
from loopkernel.laws.mirror_law import Mirror
from loopkernel.laws.pair_laws import fork_eq, pure
from loopkernel.laws.progress_law import Progress
from loopkernel.laws.repeat_law import AtMostOnce
from loopkernel.laws.reports import Breach, Findings, Judged, Report, Tally
from loopkernel.laws.request_laws import order, pair, shown, shown_as_said
from loopkernel.laws.result_law import result
from loopkernel.laws.retakes import Alone
from loopkernel.laws.retry_law import RetryLaw
from loopkernel.laws.schedule_laws import no_conflict, parallel
from loopkernel.laws.shadow.shadow import Shadow, steps_of
from loopkernel.laws.shadow.step import JudgedStep
from loopkernel.laws.sibling_law import Sibling
from loopkernel.laws.start_laws import final_args
from loopkernel.laws.step_laws import timer_data, total
from loopkernel.laws.task_law import Task
from loopkernel.laws.waiting_laws import why

Records = Sequence[StepRecord]


class RunLaw(Protocol):
    """A law over a run, which is given its steps one after the other, and keeps what it needs of those before."""

    def take(self, step: JudgedStep) -> Iterator[str]:
        """What is wrong with this step."""


RUN_LAWS: Mapping[str, Callable[[State], RunLaw]] = MappingProxyType(
    {
        "ONE-END": OneEnd,
        "CONSERVE": Conserve,
        "CANCEL-STOP": CancelStop,
        "ASKED": AskedLaw,
        "AT-MOST-ONCE": AtMostOnce,
        "WRITE-AHEAD": WriteAhead,
        "SIBLING": Sibling,
        "RETRY-LAW": RetryLaw,
        "BUDGET": Budget,
        "PROGRESS": Progress,
        "PREFIX": Prefix,
        "TASK": Task,
    }
)

PAIR_CHECKS: Mapping[str, Callable[[State, Judged], RunLaw]] = MappingProxyType(
    {
        "PURE": lambda _, judged: _OfEachStep(pure, judged),
        "ADDRESS": lambda _, judged: Address(judged),
        "FORK-EQ": lambda _, judged: _OfEachStep(fork_eq, judged),
        "MIRROR": lambda start, _: Mirror(start),
        "CUT-SAFE": lambda _, judged: CutSafe(judged),
        "REPAIR-FIX": lambda _, judged: _OfEachStep(repair_fix, judged),
    }
)


@final
class _OfEachStep:
    """A law over a run that keeps nothing of the steps before."""

    def __init__(self, check: Callable[[JudgedStep, Judged], Iterator[str]], judged: Judged) -> None:
        self._check, self._judged = check, judged

    def take(self, step: JudgedStep) -> Iterator[str]:
        """What is wrong with this step."""
        return self._check(step, self._judged)


def judge_step(record: StepRecord, judged: Judged, step: int = 0, *, was_taken: bool = False) -> tuple[Breach, ...]:
    """Judge one step by the step laws; `step` is the index that breaches name.

    One that `was_taken` is what the judged transition has just given: TOTAL judges that, and does not take it again.
    """
    alone = Shadow(record.before, Alone(judged, was_taken=was_taken)).follow(record)
    return tuple(
        Breach(law, step, detail) for law, findings in _step_findings(alone, judged) for detail in findings or ()
    )


def judge_all(records: Records, judged: Judged) -> Report:
    """Judge a run by all laws."""
    return _judge_run(records, judged, (*RUN_LAWS, *PAIR_CHECKS))


def judge_trace(records: Records, judged: Judged) -> Report:
    """Judge a run by the step and trace laws."""
    return _judge_run(records, judged, RUN_LAWS)


def judge_pairs(records: Records, judged: Judged) -> Report:
    """Judge a run by the pair laws."""
    return _judge_run(records, judged, PAIR_CHECKS, steps_too=False)


def judge_steps(records: Records, judged: Judged) -> Report:
    """Judge a run by the step laws alone, as `judge_trace` judges it by them."""
    return _judge_run(records, judged, ())


def judge_run(law: str, records: Records, judged: Judged) -> tuple[Breach, ...]:
    """Judge a run by one trace or pair law."""
    return _judge_run(records, judged, (law,), steps_too=False).breaches


def _judge_run(records: Records, judged: Judged, of_run: Iterable[str], *, steps_too: bool = True) -> Report:
    tally = Tally(LAWS)
    checks = {law: _check(law, records[0].before, judged) for law in of_run} if records else {}
    for number, step in enumerate(steps_of(records, judged)):
        for law, findings in _step_findings(step, judged) if steps_too else ():
            tally.judge(law, number, findings)
        for law, check in checks.items():
            tally.find(law, number, check.take(step))
    tally.count_runs(of_run)
    return tally.report()


def _check(law: str, start: State, judged: Judged) -> RunLaw:
    return RUN_LAWS[law](start) if law in RUN_LAWS else PAIR_CHECKS[law](start, judged)


def _step_findings(step: JudgedStep, judged: Judged) -> Iterator[tuple[str, Findings]]:
    """What each step law finds, with what is known of the steps before.

    Of a step that changed nothing the state was judged when it came to be: what is left is that it may change nothing,
    and why it did.
    """
    if step.after is step.before and not step.requests:
        yield "TOTAL", total(step, judged)
        yield "WHY", why(step, judged)
        return
    news = tuple(shown(request, step.memory.thread, judged.project) for request in step.requests)
    yield "PAIR", pair(news)
    yield "ORDER", order(news)
    yield "SHOWN", shown_as_said(news)
    yield "TOTAL", total(step, judged)
    yield "NO-CONFLICT", no_conflict(step)
    yield "PARALLEL", parallel(step)
    yield "FINAL-ARGS", final_args(step)
    yield "RESULT", result(step)
    yield "TIMER-DATA", timer_data(step)
    yield "WHY", why(step, judged)
