"""What the laws say of a single step that is not as it must be: refusals, timers, held runs, waits, words, starts."""

from collections.abc import Callable

import pytest
from attrs import evolve, frozen
from loopkernel.data.blocks import RawInput
from loopkernel.data.choices import OutputCalls
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import AbortTool, AskHook, Effect, StartChild, StartTool
from loopkernel.data.events import EditRefused, Refused, SessionResumed, ToolEnded
from loopkernel.data.ids import CallId
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import LedgerEntry
from loopkernel.data.outside_deltas import TimerFired
from loopkernel.data.sessions import Session
from loopkernel.data.states import Executing
from loopkernel.data.steps import is_refused
from loopkernel.data.thread_deltas import Disposed, Resumed
from loopkernel.data.timers import Timer
from loopkernel.data.tool_deltas import ToolFailed, ToolStopped, ToolSucceeded
from loopkernel.data.tools import ValidCall
from loopkernel.data.user_deltas import AnswerAfterCrash, Approve, CancelAll, CancelCall, Correct, CrashAnswerKind
from loopkernel.data.words import CallStatus, RefusalReason, UserAction
from loopkernel.judging import check_trace
from loopkernel.laws.ending_laws import entries_in
from loopkernel.laws.step_laws import pending_timers
from loopkernel.laws.views import held_in, ledger_in
from loopkernel.replaying import StepRecord
from loopkernel.testing.planted.planting import with_entries, with_session

from tests.kernel.played import PLAYED

Wanted = Callable[[StepRecord], bool]
Change = Callable[[StepRecord], StepRecord]


@frozen
class Case:
    """The steps that are wanted, what is changed in the first of them, and what the law says of it."""

    law: str
    says: str
    wanted: Wanted
    change: Change


def told(case: Case) -> list[str]:
    """What the law says of the first step that is wanted, of any script, judged as a run of its own."""
    step = next(step for steps in PLAYED.values() for step in steps if case.wanted(step))
    assert check_trace((step,)).held
    return [breach.detail for breach in check_trace((case.change(step),)).breaches if breach.law == case.law]


def of(*kinds: type[Delta]) -> Wanted:
    """Steps of such deltas that are not refused."""
    return lambda step: isinstance(step.context.delta, kinds) and not is_refused(step.effects)


def late(step: StepRecord) -> bool:
    """Whether an aborted run reports an end that nobody waits for any more."""
    delta = step.context.delta
    if not isinstance(delta, ToolSucceeded | ToolFailed) or not is_refused(step.effects):
        return False
    return any(run.operation == delta.operation and not run.background for run in held_in(step.before))


def and_holds(wanted: Wanted) -> Wanted:
    """Such steps before which a run holds what it used."""
    return lambda step: wanted(step) and bool(held_in(step.before)) and held_in(step.before) != held_in(step.after)


def held_as_before(step: StepRecord) -> StepRecord:
    """What was held is held on."""
    return evolve(step, after=with_session(step.after, lambda session: evolve(session, held=held_in(step.before))))


def entries_changed(change: Callable[[LedgerEntry], LedgerEntry]) -> Change:
    """Every call is another after the step."""
    return lambda step: evolve(step, after=with_entries(step.after, change))


def of_pending_timer(step: StepRecord) -> bool:
    """Whether a timer that is waited for fires."""
    delta = step.context.delta
    return isinstance(delta, TimerFired) and any(
        timer.operation == delta.operation for timer in pending_timers(step.before)
    )


def idles(entry: LedgerEntry) -> bool:
    """Whether the call has not started, and nobody is asked about it."""
    return entry.status is CallStatus.QUEUED and entry.check is None and entry.hooks.open is None


def with_idle_call(step: StepRecord) -> bool:
    """Whether the step leaves a call waiting, in a turn whose calls run."""
    return (
        isinstance(step.after, Executing) and step.after is not step.before and any(map(idles, entries_in(step.after)))
    )


def blocked(entry: LedgerEntry) -> LedgerEntry:
    """The call, if it has not started, as one that a hook has blocked."""
    return evolve(entry, hooks=evolve(entry.hooks, blocked="no")) if idles(entry) else entry


def giving_output(step: StepRecord) -> StepRecord:
    """The step, with the tool of a call that has not started as the one that gives the output before all others."""
    tool = next(entry.tool for entry in entries_in(step.after) if idles(entry))

    def asks_for_output(session: Session) -> Session:
        policy = evolve(session.settings.policy, output_tool=tool, output_calls=OutputCalls.SKIP)
        return evolve(session, settings=evolve(session.settings, policy=policy))

    return evolve(step, after=with_session(step.after, asks_for_output))


def with_timer(timer: Timer) -> Callable[[LedgerEntry], LedgerEntry]:
    """The call, bounded by this timer where one bounds it."""
    return lambda entry: entry if entry.timer is None else evolve(entry, timer=timer)


def failed(entry: LedgerEntry) -> LedgerEntry:
    """The call, if it has started, as one that has failed."""
    return entry if idles(entry) else evolve(entry, status=CallStatus.ERROR)


def in_batches(step: StepRecord) -> bool:
    """Whether the step draws batches, at least two, one of them of more than one call."""
    batches = [entry.batch for entry in entries_in(step.after) if entry.batch is not None]
    return ledger_in(step.before) is not ledger_in(step.after) and 1 < len(set(batches)) < len(batches)


def has(kind: type[Effect], times: int = 1) -> Wanted:
    """Steps with so many effects of this kind."""
    return lambda step: sum(isinstance(effect, kind) for effect in step.effects) >= times


def without(kind: type[Effect]) -> Change:
    """The step without effects of this kind."""
    return lambda step: evolve(step, effects=tuple(one for one in step.effects if not isinstance(one, kind)))


def fails_another(step: StepRecord) -> bool:
    """Whether a run fails, and with it a call that depends on it."""
    ended = (effect.result for effect in step.effects if isinstance(effect, ToolEnded))
    return of(ToolFailed)(step) and any(one.status is CallStatus.ERROR and not one.ran for one in ended)


def before_changed(change: Callable[[LedgerEntry], LedgerEntry]) -> Change:
    """Every call was another before the step."""
    return lambda step: evolve(step, before=with_entries(step.before, change))


def asked(entry: LedgerEntry) -> LedgerEntry:
    """The call, and a hook is asked about it."""
    return evolve(entry, hooks=evolve(entry.hooks, open=GATE))


def others_asked(step: StepRecord) -> StepRecord:
    """A hook was asked about the calls whose runs the step does not report."""
    delta = step.context.delta
    reported = delta.operation if isinstance(delta, ToolFailed) else None
    return before_changed(lambda entry: entry if entry.operation == reported else asked(entry))(step)


def said_instead(delta: Delta) -> Change:
    """Another word was said in the step."""
    return lambda step: evolve(step, context=evolve(step.context, delta=delta))


def call_named(step: StepRecord) -> CallId:
    """The call that a person speaks of."""
    delta = step.context.delta
    assert isinstance(delta, Approve | Correct)
    return delta.call


def is_for_good(step: StepRecord) -> bool:
    """Whether a person approves a call for good."""
    return isinstance(step.context.delta, Approve) and step.context.delta.remember is not None


def with_second_run(effect: Effect) -> Effect:
    """A sub-agent is resumed as another run."""
    return evolve(effect, run=effect.run + 1) if isinstance(effect, StartChild) else effect


def shares(step: StepRecord) -> bool:
    """Whether a sub-agent starts, and shares a budget of tokens with others."""
    session = step.after.session
    limited = session is not None and session.settings.policy.max_total_tokens is not None
    return limited and has(StartChild)(step) and len(entries_in(step.after)) > 1


def resolved(step: StepRecord) -> bool:
    """Whether a reference in the input of a call is resolved by the step."""
    pairs = zip(entries_in(step.before), entries_in(step.after), strict=False)
    return any(old.refers and not new.refers and new.check is not None for old, new in pairs)


def checked(entry: LedgerEntry) -> LedgerEntry:
    """The call, whose check has passed."""
    return evolve(entry, check=None, verdict=ValidCall(())) if entry.check is not None else entry


GATE = next(
    entry.hooks.open for step in PLAYED["hooks_before_calls"] for entry in entries_in(step.after) if entry.hooks.open
)
REFUSED = Refused(UserAction.REPORT, RefusalReason.DUPLICATE)
CASES = (
    Case(
        "TOTAL",
        "is refused, and yet it has effects",
        lambda step: is_refused(step.effects) and not late(step),
        lambda step: evolve(step, effects=(*step.effects, SessionResumed())),
    ),
    Case(
        "TOTAL",
        "refused otherwise than as stale",
        late,
        lambda step: evolve(step, effects=(REFUSED, *step.effects[1:])),
    ),
    Case(
        "TOTAL",
        "is refused, and yet it is counted",
        late,
        lambda step: evolve(step, after=evolve(step.after, stamp=evolve(step.after.stamp, version=99))),
    ),
    Case(
        "TIMER-DATA",
        "has fired, and is still pending",
        of_pending_timer,
        lambda step: evolve(step, after=evolve(step.before, stamp=step.after.stamp)),
    ),
    Case(
        "PARALLEL",
        "has stopped, and still holds its resources",
        and_holds(of(ToolStopped)),
        held_as_before,
    ),
    Case(
        "PARALLEL",
        "is gone, and the run still holds its resources",
        lambda step: of(Resumed)(step) and any(not run.background for run in held_in(step.before)),
        held_as_before,
    ),
    Case(
        "PARALLEL",
        "is blocked by a hook, but it waits instead of being answered",
        with_idle_call,
        entries_changed(blocked),
    ),
    Case(
        "TIMER-DATA",
        "one timer bounds two things",
        lambda step: len({entry.timer for entry in entries_in(step.after) if entry.timer is not None}) > 1,
        lambda step: entries_changed(with_timer(next(one.timer for one in entries_in(step.after) if one.timer)))(step),
    ),
    Case(
        "PARALLEL",
        "can never run, since a call that it depends on did not succeed",
        lambda step: (
            isinstance(step.after, Executing) and any(one.links and idles(one) for one in entries_in(step.after))
        ),
        entries_changed(failed),
    ),
    Case(
        "PARALLEL",
        "gives the output, and waits for nothing",
        lambda step: with_idle_call(step) and of(Approve)(step),  # it waits for a slot
        giving_output,
    ),
    Case(
        "PARALLEL",
        "is put into another batch than the calls before it, and need not be",
        in_batches,
        entries_changed(lambda entry: evolve(entry, batch=entry.call.id.position - 1)),
    ),
    Case(
        "NO-CONFLICT",
        "is put into a batch with calls that it conflicts with",
        in_batches,
        entries_changed(lambda entry: evolve(entry, batch=0)),
    ),
    Case(
        "ASKED",
        "is taken, and nobody was asked about it",
        of(Approve),
        before_changed(lambda entry: evolve(entry, person=evolve(entry.person, wait=None))),
    ),
    Case(
        "ASKED",
        "waits for an approval, and an answer after a crash is taken",
        of(Approve),
        lambda step: said_instead(AnswerAfterCrash(call=call_named(step), kind=CrashAnswerKind.RERUN))(step),
    ),
    Case(
        "ASKED",
        "is taken that refers to an output which is not there",
        of(Correct),
        lambda step: said_instead(Correct(call=call_named(step), input=Json.of({"$result": "p9"})))(step),
    ),
    Case(
        "ASKED",
        "an edit of call 1.2 is taken that refers to an output which is not there",
        of(Correct),
        lambda step: said_instead(Correct(call=call_named(step), input=Json.of({"$result": 1})))(step),
    ),
    Case(
        "ASKED",
        "1 approvals are remembered, and a person has said it of 0",
        lambda step: of(Approve)(step) and is_for_good(step),
        before_changed(lambda entry: evolve(entry, call=evolve(entry.call, input=RawInput("{")))),
    ),
    Case(
        "CANCEL-STOP",
        "waits for a person, and is not left as it is",
        lambda step: of(Disposed)(step) and any(entry.is_open for entry in entries_in(step.after)),
        before_changed(lambda entry: evolve(entry, person=evolve(entry.person, answered=True))),
    ),
    Case(
        "PROGRESS",
        "has its turn, and another one of that point has not answered",
        has(AskHook),
        lambda step: evolve(step, effects=(*step.effects, *(one for one in step.effects if isinstance(one, AskHook)))),
    ),
    Case(
        "CANCEL-STOP",
        "the hook that is asked about call",
        of(CancelCall),
        before_changed(asked),
    ),
    Case(
        "SIBLING",
        "which depends on a call that did not succeed, is not answered with an error",
        fails_another,
        without(ToolEnded),
    ),
    Case("SIBLING", "is not aborted", lambda step: of(ToolFailed)(step) and has(AbortTool)(step), without(AbortTool)),
    Case(
        "SIBLING",
        "is not left alone",
        lambda step: of(ToolFailed)(step) and not has(ToolEnded, 2)(step) and len(entries_in(step.after)) > 1,
        others_asked,
    ),
    Case(
        "AT-MOST-ONCE",
        "which is another one",
        lambda step: any(isinstance(effect, StartChild) and effect.resumed for effect in step.effects),
        lambda step: evolve(step, effects=tuple(map(with_second_run, step.effects))),
    ),
    Case("FINAL-ARGS", "is taken, and it is not valid", has(EditRefused), without(EditRefused)),
    Case("FINAL-ARGS", "are resolved, and it is not checked again", resolved, entries_changed(checked)),
    Case(
        "FINAL-ARGS",
        "but its arguments do not parse",
        has(StartTool),
        entries_changed(lambda entry: evolve(entry, call=evolve(entry.call, input=RawInput("{")))),
    ),
    Case(
        "BUDGET",
        "tokens that are left for 1",
        shares,
        entries_changed(lambda entry: evolve(entry, call=evolve(entry.call, tool="read"))),
    ),
    Case(
        "NO-CONFLICT",
        "goes on, and holds something else than it used",
        lambda step: of(CancelAll)(step) and bool(held_in(step.after)) and not held_in(step.before),
        lambda step: evolve(
            step,
            after=with_session(
                step.after,
                lambda session: evolve(
                    session, held=tuple(evolve(run, claims=() if run.claims != () else None) for run in session.held)
                ),
            ),
        ),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=[f"{case.law}: {case.says}" for case in CASES])
def test_a_law_says_what_is_wrong_with_the_step(case: Case) -> None:
    found = told(case)
    assert any(case.says in one for one in found), found
