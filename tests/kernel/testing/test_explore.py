"""The explorer itself: on kernels with planted faults, each is found by the shortest run that shows it."""

import pytest
from attrs import evolve
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import CallModel
from loopkernel.data.ids import MessageId, ModelOperation
from loopkernel.data.messages import ResultMessage
from loopkernel.data.model_deltas import ModelCompleted, ModelFailed
from loopkernel.data.outside_deltas import TimerFired
from loopkernel.data.states import Backoff, Initial, State, Streaming
from loopkernel.data.steps import Context, Step
from loopkernel.data.thread_deltas import Disposed, Forked, Resumed
from loopkernel.data.tool_deltas import ToolChecked, ToolFailed, ToolSucceeded
from loopkernel.data.user_deltas import CancelAll, DismissError, EditMessage, Enqueue, RetryNow, Say, Steer
from loopkernel.data.vector import Vector
from loopkernel.data.words import ErrorClass, RefusalReason, StopReason
from loopkernel.laws import Breach
from loopkernel.loop.transition import transition
from loopkernel.replaying import LogRecord, StepRecord, Transition, fold
from loopkernel.testing.explorer.as_scenario import scenario_text
from loopkernel.testing.explorer.explore import Finding, explore
from loopkernel.testing.explorer.scope import A, Scope
from loopkernel.testing.explorer.views import outline
from loopkernel.testing.scenarios.data import actions
from loopkernel.testing.scenarios.data.scenario import Scenario
from loopkernel.testing.scenarios.format.document import read_scenarios
from loopkernel.testing.scenarios.judge import Judgement, ScenarioOutcome, run_scenario

from tests.kernel.explore_cases import EXACT, GRAPH
from tests.kernel.explore_endurance import RETRIES
from tests.kernel.explore_goals import refuses


def deaf_to_failures(state: State, ctx: Context) -> Step[State]:
    """A kernel that drops the failure of a tool in silence."""
    return Step(state, ()) if isinstance(ctx.delta, ToolFailed) else transition(state, ctx)


def forgets_a_result(state: State, ctx: Context) -> Step[State]:
    """A kernel that asks the model with one of two results missing."""
    after, effects = transition(state, ctx)
    return Step(after, tuple(_cut(effect) if isinstance(effect, CallModel) else effect for effect in effects))


def _cut(call: CallModel) -> CallModel:
    thread = call.request.thread
    messages = list(thread)
    last = messages[-1]
    if isinstance(last, ResultMessage) and len(last.results) == 2:
        messages[-1] = evolve(last, results=last.results[:1])
    return CallModel(call.operation, evolve(call.request, thread=evolve(thread, messages=Vector.of(messages))))


def falls_over_late_results(state: State, ctx: Context) -> Step[State]:
    """A kernel that raises when the result of a cancelled run comes in."""
    step = transition(state, ctx)
    if isinstance(ctx.delta, ToolSucceeded) and refuses(RefusalReason.STALE)(StepRecord(state, ctx, *step)):
        raise KeyError(ctx.delta.operation)
    return step


def never_hears_the_second_call(state: State, ctx: Context) -> Step[State]:
    """A kernel that takes no verdict on a second call: it waits for ever."""
    if isinstance(ctx.delta, ToolChecked) and ctx.delta.operation == 2:
        return Step(state, (transition(Initial(), ctx).effects))
    return transition(state, ctx)


# Said, called, checked, completed, failed. Said, called twice, both unknown, completed. Said, called, checked,
# completed, cancelled, reported.
PLANTED: list[tuple[Transition, str, int]] = [
    (deaf_to_failures, "TOTAL", 5),
    (forgets_a_result, "PAIR", 6),
    (falls_over_late_results, "TOTAL", 6),
]


def found_in(broken: Transition) -> Finding:
    """What the exact exploration finds wrong with a kernel."""
    found = explore(EXACT.start, EXACT.moves, view=EXACT.view, step=broken)
    assert found.breach is not None
    assert not found.complete
    assert not found.held
    return found.breach


def name_of(value: object) -> str:
    return str(getattr(value, "__name__", value))


@pytest.mark.parametrize(("broken", "law", "length"), PLANTED, ids=name_of)
def test_a_planted_fault_is_found_by_its_shortest_run(broken: Transition, law: str, length: int) -> None:
    finding = found_in(broken)
    assert finding.breach.law == law
    assert len(finding.run) == length


@pytest.mark.parametrize(("broken", "law"), [planted[:2] for planted in PLANTED], ids=name_of)
def test_the_printed_scenario_shows_the_fault(broken: Transition, law: str) -> None:
    finding = found_in(broken)
    run = (*EXACT.beginning, *finding.run)
    (scenario,) = read_scenarios(scenario_text(run, str(finding.breach), transition=broken), "found.yaml")
    assert law in scenario.about
    assert run_scenario(scenario, broken).outcome is ScenarioOutcome.FAIL
    assert run_scenario(scenario).outcome is ScenarioOutcome.PASS


FAILED = ModelFailed(ModelOperation(1), error=ErrorClass.OVERLOADED, retry_after_ms=7)
IN_BACKOFF: list[tuple[Delta, type]] = [
    (Say(content=A), actions.Say),
    (Enqueue(content=A), actions.Enqueue),
    (Steer(content=A), actions.Steer),
    (EditMessage(message=MessageId(1), content=A), actions.Edit),
    (EditMessage(message=MessageId(99), content=A), actions.Edit),
    (RetryNow(), actions.RetryNow),
    (DismissError(), actions.DismissError),
    (CancelAll(), actions.Cancel),
    (Forked(session_id="t"), actions.Fork),
    (Resumed(), actions.Crash),
    (Disposed(), actions.Dispose),
]


def judged_run(*deltas: LogRecord) -> tuple[Scenario, Judgement]:
    """The run, told, read and played."""
    (scenario,) = read_scenarios(scenario_text((*RETRIES.beginning, *deltas), "told"), "told.yaml")
    return scenario, run_scenario(scenario)


@pytest.mark.parametrize(("delta", "action"), IN_BACKOFF, ids=name_of)
def test_what_comes_during_a_retry_is_told_as_an_action(delta: Delta, action: type) -> None:
    scenario, judged = judged_run(*(LogRecord(one, 0) for one in (Say(content=A), FAILED, delta)))
    assert isinstance(scenario.user[-1].action, action)
    assert "cannot say" not in scenario.about
    assert judged.outcome is ScenarioOutcome.PASS, judged.differences


def test_a_delay_is_told_by_its_instant() -> None:
    """A retry that is waited for comes when its time has passed, and the scenario waits as long."""
    run = (LogRecord(Say(content=A), 0), LogRecord(FAILED, 0))
    backoff = fold((*RETRIES.beginning, *run))[-1].after
    assert isinstance(backoff, Backoff)
    fired = LogRecord(TimerFired(backoff.timer.operation), backoff.timer.deadline_ms)
    done = LogRecord(ModelCompleted(ModelOperation(2), StopReason.STOP_SEQUENCE), fired.now_ms)
    _, judged = judged_run(*run, fired, done)
    assert judged.outcome is ScenarioOutcome.PASS
    lines = {line.text: line.at_ms for line in judged.trace}
    assert lines["request 2"] - lines["retry in 7"] == 7


def test_a_delay_that_passes_too_early_cannot_be_told() -> None:
    run = (LogRecord(Say(content=A), 0), LogRecord(FAILED, 0))
    backoff = fold((*RETRIES.beginning, *run))[-1].after
    assert isinstance(backoff, Backoff)
    fired = LogRecord(TimerFired(backoff.timer.operation), backoff.timer.deadline_ms - 1)
    scenario, _ = judged_run(*run, fired)
    assert "fires before its time" in scenario.about


def test_a_state_that_waits_for_ever_is_found() -> None:
    case = evolve(GRAPH, scope=Scope(calls=2, rounds=1, texts=False, waiting=1))
    found = explore(case.start, case.moves, laws=lambda _: (), view=outline, step=never_hears_the_second_call)
    assert found.complete
    assert found.stranded is not None
    assert not found.held
    assert len(found.stranded) == 4  # said, called twice, completed; a cancel by the user does not count


def test_a_goal_that_nothing_meets_is_named() -> None:
    case = evolve(GRAPH, scope=Scope(calls=1, rounds=1, texts=False, waiting=1))
    found = explore(case.start, case.moves, view=outline, goals={"never": lambda _: False, "idle": lambda _: True})
    assert found.unmet == ("never",)
    assert not found.held


def test_a_limit_leaves_the_graph_incomplete() -> None:
    found = explore(GRAPH.start, GRAPH.moves, view=outline, limit=50)
    assert found.states == 50
    assert not found.complete
    assert not found.held


def test_the_shortest_run_begins_where_the_search_does() -> None:
    """From the middle of a run on, only what is still to come is told."""

    def no_cancel(record: StepRecord) -> tuple[Breach, ...]:
        cancelled = isinstance(record.context.delta, CancelAll) and isinstance(record.before, Streaming)
        return (Breach("X", 0, "cancelled"),) if cancelled else ()

    found = explore(GRAPH.start, GRAPH.moves, laws=no_cancel, view=outline)
    assert found.breach is not None
    assert len(found.breach.run) == 2
    said = fold(found.breach.run[:1], GRAPH.start)[-1].after
    again = explore(said, GRAPH.moves, laws=no_cancel, view=outline)
    assert again.breach is not None
    assert again.breach.run == (LogRecord(CancelAll(), 0),)
