"""Every run within small scopes: the laws at every edge, every goal met, rest always within reach.

The explorer itself is tried on kernels with planted faults: each is found, by the shortest run that shows it.
"""

import os
from collections.abc import Callable, Iterable
from functools import cache

import pytest
from attrs import evolve, frozen
from loopkernel.data.choices import ApprovalMode, Lifetime, NoProfile, NoProfileApproval, OnBusy, Schedule
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import AbortModel, AbortTool, CallModel, CheckCall, Command, StartTool
from loopkernel.data.events import (
    Dequeued,
    Discarded,
    Event,
    LimitReached,
    Refused,
    ReplyRetracted,
    SessionResumed,
    Steered,
    ToolEnded,
    TurnEnded,
)
from loopkernel.data.messages import ResultMessage
from loopkernel.data.policy import Policy
from loopkernel.data.states import Cancelled, Done, Executing, Initial, State, Streaming
from loopkernel.data.steps import Context, Step
from loopkernel.data.thread_deltas import Acquired, Created
from loopkernel.data.tool_deltas import ToolChecked, ToolFailed, ToolSucceeded
from loopkernel.data.tools import AccessMode, Claim, EffectClass, InvalidCall, Tool, ToolProfile, UnknownTool, ValidCall
from loopkernel.data.user_deltas import CancelAll, ChangeMode
from loopkernel.data.vector import Vector
from loopkernel.data.words import CallStatus, CancelReason, RefusalReason, StopReason, TurnEndReason
from loopkernel.laws import Breach, check_pairs, check_step, check_trace
from loopkernel.replay import LogRecord, StepRecord, Transition, fold
from loopkernel.testing.explore import Exploration, Finding, Laws, View, explore, laws_of_an_edge, outline, without_time
from loopkernel.testing.explore_moves import Move, Scope, moves, strays
from loopkernel.testing.explore_scenario import scenario_text
from loopkernel.testing.judge import ScenarioOutcome, run_scenario
from loopkernel.testing.scenario_document import read_scenarios
from loopkernel.transition import transition

TOOLS = (
    Tool(name="r", profile=ToolProfile(effect=EffectClass.READ_ONLY)),
    Tool(name="w", profile=ToolProfile(effect=EffectClass.IDEMPOTENT)),
    Tool(name="n"),
    Tool(name="d", profile=ToolProfile(effect=EffectClass.DANGEROUS)),
)


@frozen(kw_only=True)
class Case:
    """A scope, and the goals that some step within it must meet."""

    name: str
    policy: Policy
    scope: Scope
    goals: tuple[str, ...]
    view: View = outline
    laws: Laws = check_step

    @property
    def beginning(self) -> tuple[Delta, ...]:
        return (Created(session_id="s", policy=self.policy, tools=TOOLS), Acquired())

    @property
    def start(self) -> State:
        return fold([LogRecord(delta, 0) for delta in self.beginning])[-1].after

    def moves(self, state: State) -> Iterable[Move]:
        return moves(state, self.scope)


# --- goals ----------------------------------------------------------------------------------------------

Goal = Callable[[StepRecord], bool]


def prints(event: type[Event]) -> Goal:
    return lambda record: any(isinstance(effect, event) for effect in record.effects)


def commands(command: type[Command]) -> Goal:
    return lambda record: any(isinstance(effect, command) for effect in record.effects)


def refuses(reason: RefusalReason) -> Goal:
    return lambda record: any(isinstance(effect, Refused) and effect.reason is reason for effect in record.effects)


def ends(reason: TurnEndReason) -> Goal:
    return lambda record: any(isinstance(effect, TurnEnded) and effect.reason is reason for effect in record.effects)


def answers(status: CallStatus, ran: bool) -> Goal:
    def met(record: StepRecord) -> bool:
        results = (effect.result for effect in record.effects if isinstance(effect, ToolEnded))
        return any(result.status is status and result.ran is ran for result in results)

    return met


def two_run_at_once(record: StepRecord) -> bool:
    return isinstance(record.after, Executing) and record.after.ledger.running == 2


def one_waits_for_the_other(record: StepRecord) -> bool:
    if not isinstance(record.after, Executing):
        return False
    statuses = [entry.status for entry in record.after.ledger.entries if entry.check is None]
    return statuses == [CallStatus.IN_PROGRESS, CallStatus.QUEUED]


def one_runs_beside_a_check(record: StepRecord) -> bool:
    if not isinstance(record.after, Executing):
        return False
    return any(entry.check is not None for entry in record.after.ledger.entries) and record.after.ledger.running > 0


def the_second_ends_first(record: StepRecord) -> bool:
    if not isinstance(record.after, Executing):
        return False
    return [entry.is_open for entry in record.after.ledger.entries] == [True, False]


GOALS: dict[str, Goal] = {
    "the turn ends naturally": ends(TurnEndReason.MODEL_STOP),
    "the turn ends at its limit": lambda record: ends(TurnEndReason.MAX_TURNS)(record) and prints(LimitReached)(record),
    "the turn is aborted": ends(TurnEndReason.USER_ABORT),
    "the turn ends by an error": ends(TurnEndReason.ERROR),
    "the model stays silent": ends(TurnEndReason.STUCK),
    "the turn is interrupted": ends(TurnEndReason.INTERRUPTED),
    "the run is over": lambda record: isinstance(record.after, Done) and prints(TurnEnded)(record),
    "the turn is disposed of": ends(TurnEndReason.DISPOSED),
    "a cancel leads to rest": lambda record: isinstance(record.after, Cancelled) and prints(TurnEnded)(record),
    "a steer goes in": prints(Steered),
    "a queued input is taken": prints(Dequeued),
    "a queued input is discarded": prints(Discarded),
    "a reply is aborted": commands(AbortModel),
    "a reply is retracted": prints(ReplyRetracted),
    "a run is aborted": commands(AbortTool),
    "two calls run at once": two_run_at_once,
    "a call waits for another": one_waits_for_the_other,
    "a call runs beside a check": one_runs_beside_a_check,
    "the second call ends first": the_second_ends_first,
    "a call is done": answers(CallStatus.DONE, ran=True),
    "a call fails": answers(CallStatus.ERROR, ran=True),
    "a call is answered without a run": answers(CallStatus.ERROR, ran=False),
    "a running call is cancelled": answers(CallStatus.CANCELLED, ran=True),
    "a waiting call is cancelled": answers(CallStatus.CANCELLED, ran=False),
    "a run is begun again": lambda record: any(isinstance(e, StartTool) and e.run > 1 for e in record.effects),
    "a check is made again": lambda record: prints(SessionResumed)(record) and commands(CheckCall)(record),
    "a reply is asked again": lambda record: prints(SessionResumed)(record) and commands(CallModel)(record),
    "a call is cancelled for safety": lambda record: any(
        isinstance(effect, ToolEnded) and effect.result.reason is CancelReason.SAFETY for effect in record.effects
    ),
    **{f"refused as {reason.value}": refuses(reason) for reason in RefusalReason},
}
ALWAYS = (
    "the turn is aborted",
    "the turn ends by an error",
    "a cancel leads to rest",
    "a steer goes in",
    "a queued input is taken",
    "a queued input is discarded",
    "a reply is aborted",
    "a run is aborted",
    "a call waits for another",
    "a call is done",
    "a call fails",
    "a call is answered without a run",
    "a running call is cancelled",
    "a waiting call is cancelled",
    *(f"refused as {word}" for word in ("duplicate", "stale", "unknown", "not-now", "full")),
)

# --- the scopes -----------------------------------------------------------------------------------------
# By outline: runs of any length, so any number of turns, cancels, failures and retries; at most one input is queued
# and one steer waits. Exactly: runs of one turn, every history told apart.

GRAPH = Case(
    name="graph",
    policy=Policy(schedule=Schedule.GRAPH, queue_limit=1),
    scope=Scope(calls=2, rounds=2),
    goals=(
        *(goal for goal in ALWAYS if goal != "a call waits for another"),
        "the turn ends naturally",
        "the model stays silent",
        "a reply is retracted",
        "two calls run at once",
        "the second call ends first",
    ),
)
SERIAL = Case(
    name="serial",
    policy=Policy(schedule=Schedule.SERIAL, queue_limit=1, max_turns=2, empty_reply_nudges=0),
    scope=Scope(calls=2, rounds=2, texts=False),
    goals=(*ALWAYS, "the turn ends at its limit", "the turn ends naturally"),
)
EXACT = Case(
    name="exact",
    policy=Policy(schedule=Schedule.GRAPH, queue_limit=1),
    scope=Scope(calls=2, rounds=1, turns=1),
    goals=("two calls run at once", "the second call ends first", "refused as stale", "refused as duplicate"),
    view=without_time,
)
MODES = Case(
    name="modes",
    policy=Policy(schedule=Schedule.SERIAL, queue_limit=0, on_busy=OnBusy.INTERRUPT),
    scope=Scope(
        calls=2,
        rounds=1,
        texts=False,
        waiting=0,
        also=(ChangeMode(ApprovalMode.PLAN), ChangeMode(ApprovalMode.DEFAULT)),
    ),
    goals=("a call is done", "a call is answered without a run", "a call waits for another", "the turn is interrupted"),
    laws=laws_of_an_edge,
)
CRASHES = Case(
    name="crashes",
    policy=Policy(schedule=Schedule.SERIAL, queue_limit=0),
    scope=Scope(calls=2, rounds=1, waiting=0, lives=True, crashes=True, tools=("r", "d")),
    goals=(
        "a run is begun again",
        "a check is made again",
        "a reply is asked again",
        "a call is cancelled for safety",
        "the turn is disposed of",
    ),
    laws=laws_of_an_edge,
)
CONFLICTS = Case(
    name="conflicts",
    policy=Policy(schedule=Schedule.GRAPH, queue_limit=0, on_busy=OnBusy.REJECT),
    scope=Scope(
        calls=2,
        rounds=1,
        texts=False,
        waiting=0,
        verdicts=tuple(ValidCall(claims) for claims in (None, (), *((Claim("a", mode),) for mode in AccessMode))),
    ),
    goals=("a call waits for another", "two calls run at once", "the second call ends first"),
)
NO_PROFILE = Case(
    name="no profile",
    policy=Policy(
        lifetime=Lifetime.TASK,
        no_profile=NoProfile.NO_CONFLICT,
        no_profile_approval=NoProfileApproval.ALLOW,
        max_parallel=1,
        queue_limit=1,
    ),
    scope=Scope(calls=2, rounds=1, texts=False, tools=("n", "r")),
    goals=("the run is over", "a call waits for another", "a call runs beside a check", "the second call ends first"),
)
QUICK = (GRAPH, SERIAL, EXACT, MODES, CRASHES, CONFLICTS, NO_PROFILE)
DEEP = (
    evolve(GRAPH, name="graph, all laws", laws=laws_of_an_edge),
    evolve(SERIAL, name="serial, all laws", laws=laws_of_an_edge),
    evolve(EXACT, name="exact, two rounds", scope=evolve(EXACT.scope, rounds=2)),
    Case(
        name="three calls",
        policy=Policy(schedule=Schedule.GRAPH, queue_limit=1, max_parallel=2),
        scope=Scope(calls=3, rounds=1, texts=False),
        goals=(*ALWAYS, "two calls run at once"),
    ),
    Case(
        name="everything else",
        policy=Policy(schedule=Schedule.SERIAL, queue_limit=1, max_turns=2),
        scope=Scope(
            calls=2,
            rounds=2,
            lives=True,
            crashes=True,
            progress=True,
            verdicts=(ValidCall(), UnknownTool(), InvalidCall("a")),
            stops=(StopReason.END_TURN, StopReason.PAUSE, StopReason.MAX_TOKENS, StopReason.REFUSAL),
        ),
        goals=(*ALWAYS, "the turn is disposed of", "the turn ends at its limit"),
    ),
)
IS_DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"
CASES = (*QUICK, *DEEP) if IS_DEEP else QUICK
MOST_RUNS = 300 if IS_DEEP else 15  # of each case, from its first state to its last


@cache
def explored(case: Case) -> Exploration:
    """Everything within the case's scope."""
    goals = {name: GOALS[name] for name in case.goals}
    return explore(case.start, case.moves, laws=case.laws, view=case.view, goals=goals)


@pytest.mark.rule("DELTA-2")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_run_holds_the_laws_and_can_come_to_rest(case: Case) -> None:
    found = explored(case)
    if found.breach is not None:
        run = (*case.beginning, *found.breach.deltas)
        pytest.fail(f"{found.breach.breach}\n{scenario_text(run, str(found.breach.breach))}")
    assert found.stranded is None
    assert found.unmet == ()
    assert found.complete
    assert found.held
    assert found.edges > 10 * found.states > 1_000


def noisy(case: Case, deltas: Iterable[Delta]) -> list[StepRecord]:
    """The run, with everything ill-timed that can come before each of its deltas."""
    state: State = Initial()
    steps: list[StepRecord] = []
    for due in (*case.beginning, *deltas):
        disturbances = strays(state) if state.session is not None else ()
        for delta in (*disturbances, due):
            context = Context(delta, 0)
            after, effects = transition(state, context)
            steps.append(StepRecord(state, context, after, effects))
            state = after
    return steps


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_shortest_runs_hold_the_laws_of_whole_runs(case: Case) -> None:
    found = explored(case)
    numbers = range(found.states)[:: found.states // MOST_RUNS + 1]
    assert len(numbers) > MOST_RUNS // 3
    for number in numbers:
        steps = noisy(case, found.run_to(number))
        for report in (check_trace(steps), check_pairs(steps)):
            assert report.held, str(report)


@pytest.mark.parametrize("case", [GRAPH, SERIAL], ids=lambda case: case.name)
def test_an_outline_hides_nothing_that_matters(case: Case) -> None:
    """States of one outline lead, by deltas of the same kinds, to states of the same outlines."""
    led: dict[object, dict[object, set[object]]] = {}

    def note(record: StepRecord) -> tuple[Breach, ...]:
        targets = led.setdefault(outline(record.before), {}).setdefault(without_time(record.before), set())
        if record.after is not record.before:
            targets.add((type(record.context.delta), outline(record.after)))
        return ()

    small = evolve(case, scope=evolve(case.scope, calls=2, rounds=1))
    explore(small.start, small.moves, laws=note, view=without_time, limit=2_000)
    told_apart = 0
    for alike in led.values():
        first, *others = alike.values()
        assert all(other == first for other in others)
        told_apart += len(others)
    assert told_apart > 500


# --- the explorer finds what is wrong -------------------------------------------------------------------


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
    assert len(finding.deltas) == length


@pytest.mark.parametrize(("broken", "law"), [planted[:2] for planted in PLANTED], ids=name_of)
def test_the_printed_scenario_shows_the_fault(broken: Transition, law: str) -> None:
    finding = found_in(broken)
    run = (*EXACT.beginning, *finding.deltas)
    (scenario,) = read_scenarios(scenario_text(run, str(finding.breach), transition=broken), "found.yaml")
    assert law in scenario.about
    assert run_scenario(scenario, broken).outcome is ScenarioOutcome.FAIL
    assert run_scenario(scenario).outcome is ScenarioOutcome.PASS


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
    assert len(found.breach.deltas) == 2
    said = fold([LogRecord(found.breach.deltas[0], 0)], GRAPH.start)[-1].after
    again = explore(said, GRAPH.moves, laws=no_cancel, view=outline)
    assert again.breach is not None
    assert again.breach.deltas == (CancelAll(),)
