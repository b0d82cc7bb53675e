"""Judging: one step, a whole run, and the runs that should agree with it, by all the laws of a kind.

`judge_step` judges a step by itself, and so projects the whole of a request. The others judge a run for a cost that is
about linear in it: see `memory`, `request_laws` and `retakes`. `judge_all` follows the run once for all laws, and takes
each of its steps once more for them together.
"""

from collections.abc import Iterable, Iterator, Sequence

from loopkernel.data.errors import demand_kind
from loopkernel.data.records import StepRecord
from loopkernel.data.states import State
from loopkernel.laws.catalogue import LAWS, PAIR_CHECKS, RUN_LAWS
from loopkernel.laws.reports import Breach, Findings, Judged, Report, Tally
from loopkernel.laws.request_laws import order, pair, shown, shown_as_said
from loopkernel.laws.result_law import result
from loopkernel.laws.retakes import Alone
from loopkernel.laws.run_law import RunLaw
from loopkernel.laws.schedule_laws import no_conflict, parallel
from loopkernel.laws.shadow.shadow import Shadow, steps_of
from loopkernel.laws.shadow.step import JudgedStep
from loopkernel.laws.start_laws import final_args
from loopkernel.laws.step_laws import timer_data, total
from loopkernel.laws.waiting_laws import why

Records = Sequence[StepRecord]


def judge_step(record: StepRecord, judged: Judged, step: int = 0, *, was_taken: bool = False) -> tuple[Breach, ...]:
    """Judge one step by the step laws; `step` is the index that breaches name.

    One that `was_taken` is what the judged transition has just given: TOTAL judges that, and does not take it again.
    """
    demand_kind(record, (StepRecord,), "a step is judged as a StepRecord: give one of `fold(records)`")
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
    if records:
        demand_kind(records[0], (StepRecord,), "a run is judged by its steps: give `fold(records)`")
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
