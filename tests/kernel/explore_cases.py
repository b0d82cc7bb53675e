"""The scopes that the explorer goes through, and the goals that each of them must meet."""

import os
from collections.abc import Callable, Iterable

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
from loopkernel.data.policy import Policy
from loopkernel.data.states import Cancelled, Done, Executing, State
from loopkernel.data.thread_deltas import Acquired, Created
from loopkernel.data.tools import AccessMode, Claim, EffectClass, InvalidCall, Tool, ToolProfile, UnknownTool, ValidCall
from loopkernel.data.user_deltas import ChangeMode
from loopkernel.data.words import CallStatus, CancelReason, RefusalReason, StopReason, TurnEndReason
from loopkernel.laws import check_step
from loopkernel.replay import LogRecord, StepRecord, fold
from loopkernel.testing.explore import Laws, View, laws_of_an_edge, outline, without_time
from loopkernel.testing.explore_moves import Move, Scope, moves

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
