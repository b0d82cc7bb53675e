"""The scopes that the explorer goes through, and the goals that each of them must meet."""

import os

from attrs import evolve
from loopkernel.data.choices import (
    ApprovalMode,
    Lifetime,
    NoProfile,
    NoProfileApproval,
    OnBusy,
    OnReject,
    OnToolFailure,
    OutputCalls,
    RestartDangerous,
    Schedule,
)
from loopkernel.data.json_text import Json
from loopkernel.data.policy import FieldPattern, OnRestart
from loopkernel.data.tools import (
    AccessMode,
    Claim,
    ValidCall,
)
from loopkernel.data.user_deltas import (
    Approve,
    ChangeMode,
    Correct,
    Forget,
    Reject,
    RememberCall,
    RememberPattern,
    RememberTool,
    Swap,
)
from loopkernel.testing.explorer.explore import laws_of_an_edge
from loopkernel.testing.explorer.scope import ANY_CALL, Answer, EndOfRun, OfferedCall, Scope
from loopkernel.testing.explorer.views import whole

from tests.kernel.explore_three_calls import SCHEDULES
from tests.kernel.explore_world import ENDS, ONE_TURN, Case, plain

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
    policy=plain(schedule=Schedule.GRAPH, queue_limit=1),
    scope=Scope(calls=2, rounds=1),
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
    policy=plain(schedule=Schedule.SERIAL, queue_limit=1, max_turns=2, empty_reply_nudges=0),
    scope=Scope(calls=2, rounds=2, texts=False),
    goals=(*ALWAYS, "the turn ends at its limit", "the turn ends naturally"),
)
EXACT = Case(
    name="exact",
    policy=plain(schedule=Schedule.GRAPH, queue_limit=1),
    scope=Scope(calls=2, rounds=1, turns=1),
    goals=("two calls run at once", "the second call ends first", "refused as stale", "refused as duplicate"),
    view=whole,
)
MODES = Case(
    name="modes",
    policy=plain(schedule=Schedule.SERIAL, queue_limit=0, on_busy=OnBusy.INTERRUPT),
    scope=Scope(
        calls=2,
        rounds=1,
        texts=False,
        waiting=0,
        also=(ChangeMode(ApprovalMode.PLAN), ChangeMode(ApprovalMode.DEFAULT)),
    ),
    goals=("a call is done", "a call is answered without a run", "a call waits for another", "the turn is interrupted"),
)
CRASHES = Case(
    name="crashes",
    policy=plain(schedule=Schedule.SERIAL, queue_limit=0),
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
    policy=plain(schedule=Schedule.GRAPH, queue_limit=0, on_busy=OnBusy.REJECT),
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
    policy=plain(
        lifetime=Lifetime.TASK,
        no_profile=NoProfile.NO_CONFLICT,
        no_profile_approval=NoProfileApproval.ALLOW,
        max_parallel=1,
        queue_limit=1,
    ),
    scope=Scope(calls=2, rounds=1, texts=False, tools=("n", "r"), ends=(*ENDS, EndOfRun.LOST)),
    goals=(
        "a call is lost",
        "the run is over",
        "a call waits for another",
        "a call runs beside a check",
        "the second call ends first",
    ),
)

# --- the scopes with approvals, dependencies and runs that outlast their calls --------------------------------
# The calls come with their verdicts; what they touch is what the profiles of their tools say.

EVERY_ANSWER: tuple[Answer, ...] = (
    Approve(call=ANY_CALL),
    Approve(call=ANY_CALL, remember=RememberCall()),
    Approve(call=ANY_CALL, remember=RememberTool()),
    Approve(call=ANY_CALL, remember=RememberPattern((FieldPattern("path", "a*"),))),
    Reject(call=ANY_CALL),
    Correct(call=ANY_CALL, input=Json.of({"path": "b"})),
    Swap(call=ANY_CALL, tool="wa", input=Json.of({"path": "b"})),
    Swap(call=ANY_CALL, tool="never", input=Json.of({"path": "b"})),
)
ANSWERS = Case(
    name="answers",
    policy=plain(on_reject=OnReject.SKIP_REST, approval_timeout_ms=1_000, queue_limit=0),
    scope=evolve(
        ONE_TURN,
        offers=((OfferedCall(tool="qwa"),), (OfferedCall(tool="qwa"), OfferedCall(tool="qd", after=(0,)))),
        ends=(EndOfRun.RETURNS,),
        answers=EVERY_ANSWER,
        times=True,
    ),
    goals=(
        "an approval is remembered",
        "the rest is skipped",
        "an edit is being checked",
        "an edit is refused",
        "a call starts edited",
        "time runs out for an approval",
        "refused as duplicate",
        "refused as invalid",
        "refused as not-now",
    ),
)
REMEMBERED = Case(
    name="remembered",
    policy=plain(on_reject=OnReject.HALT, queue_limit=0),
    scope=evolve(
        ONE_TURN,
        offers=((OfferedCall(tool="qd"),), (OfferedCall(tool="qd"), OfferedCall(tool="qr"))),
        answers=(Approve(call=ANY_CALL), Approve(call=ANY_CALL, remember=RememberTool()), Reject(call=ANY_CALL)),
        also=(
            *map(ChangeMode, (ApprovalMode.DEFAULT, ApprovalMode.BYPASS, ApprovalMode.HEADLESS, ApprovalMode.PLAN)),
            Forget(),
        ),
    ),
    goals=(
        "an approval is taken back",
        "two calls wait for a person",
        "an approval lets another call run",
        "the turn ends by a rejection",
        "refused as stale",
        "a call is answered without a run",
    ),
)
QUESTIONS = Case(
    name="questions",
    policy=plain(
        on_tool_failure=OnToolFailure.CANCEL_SIBLINGS,
        on_restart=OnRestart(dangerous=RestartDangerous.ASK),
        queue_limit=0,
        on_busy=OnBusy.REJECT,
    ),
    scope=evolve(
        ONE_TURN,
        offers=((OfferedCall(tool="da"),), (OfferedCall(tool="wa"), OfferedCall(tool="r"))),
        questions=True,
        times=True,
        crashes=True,
    ),
    goals=(
        "a tool asks",
        "a question is answered",
        "a question is declined",
        "time runs out for a run",
        "an aborted run does not stop in time",
        "a call waits for a run that has not stopped",
        "a call starts since an aborted run has stopped",
        "a call starts since an aborted run has reported late",
        "a failing call cancels its siblings",
        "a call waits for a word after a crash",
        "a person has a run begun again",
        "a run is begun again",
    ),
)
EARLY = Case(
    name="early starts",
    policy=plain(queue_limit=0, on_busy=OnBusy.REJECT),
    scope=evolve(
        ONE_TURN,
        offers=(
            (OfferedCall(tool="era"), OfferedCall(tool="ewa")),
            (OfferedCall(tool="ewa"), OfferedCall(tool="r", uses=0), OfferedCall(tool="era", after=(0,))),
        ),
        ends=ENDS,
        crashes=True,
    ),
    goals=(
        "a call starts early",
        "a failed reply is kept",
        "an early run is closed with its reply",
        "a reply is asked again",
        "references are resolved",
        "a call cannot be reached",
        "the turn ends by an error",
    ),
)
BACKGROUND = Case(
    name="background",
    policy=plain(queue_limit=0, on_busy=OnBusy.REJECT),
    scope=evolve(
        ONE_TURN,
        turns=None,
        offers=((OfferedCall(tool="wa"),), (OfferedCall(tool="ra"),)),
        ends=(EndOfRun.RETURNS, EndOfRun.GOES_ON, EndOfRun.LOST),
        lives=True,
        crashes=True,
        held=2,
    ),
    goals=(
        "a run goes on in the background",
        "a run ends in the background",
        "a run in the background is cancelled",
        "a call waits for a run that has not stopped",
        "the turn is disposed of",
        "a run is begun again",
    ),
)
RELEASED = Case(
    name="released",
    policy=plain(queue_limit=0, on_busy=OnBusy.REJECT, approval_timeout_ms=1_000),
    scope=evolve(
        ONE_TURN,
        offers=((OfferedCall(tool="qwa"),), (OfferedCall(tool="r"), OfferedCall(tool="qd"))),
        ends=(EndOfRun.RETURNS,),
        answers=(Approve(call=ANY_CALL), Reject(call=ANY_CALL), Correct(call=ANY_CALL, input=Json.of({}))),
        lives=True,
        crashes=True,
        strays=False,
    ),
    goals=(
        "a thread is released with a call that waits",
        "a released call is shown again",
        "a call starts by an approval",
        "a call starts edited",
        "the turn is disposed of",
    ),
)


def with_output(output_calls: OutputCalls) -> Case:
    """A call that gives the output, beside others, and what it refers to."""
    return Case(
        name=f"output, others {output_calls.value}",
        policy=plain(
            output_tool="out", output_calls=output_calls, output_required=True, queue_limit=0, on_busy=OnBusy.REJECT
        ),
        scope=evolve(
            ONE_TURN,
            offers=(
                (OfferedCall(tool="wa"), OfferedCall(tool="qd")),
                (OfferedCall(tool="out"), OfferedCall(tool="out", uses=0)),
                (OfferedCall(tool="ra"),),
            ),
            ends=ENDS,
            cancels=1,
            strays=False,
        ),
        goals=("the turn ends by its output", "the output is demanded", "the turn ends by an error"),
    )


OUTPUTS = tuple(map(with_output, OutputCalls))

QUICK = (EXACT, CONFLICTS, NO_PROFILE, ANSWERS, OUTPUTS[0])
# The others of these take the place of the quick ones where the suite runs again under another Python.
OTHERS = (
    *(GRAPH, SERIAL, CRASHES, *SCHEDULES),
    *(MODES, QUESTIONS, EARLY, *OUTPUTS[1:]),
    *(REMEMBERED, BACKGROUND, RELEASED),
)
# Those whose runs are judged by outline, where outlines are compared.
COMPARED = (GRAPH, SERIAL, *SCHEDULES, ANSWERS, QUESTIONS, EARLY, BACKGROUND, RELEASED, *OUTPUTS)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "quick")


def of_profile(quick: tuple[Case, ...], others: tuple[Case, ...]) -> tuple[Case, ...]:
    """The cases that the profile goes through: none under a third Python, to whose version nothing in them goes."""
    chosen = {"quick": quick, "fuzz": quick, "matrix": others, "again": (), "deep": (*quick, *others)}
    return chosen[PROFILE]


CASES = of_profile(QUICK, OTHERS)
MOST_RUNS = 8  # of each case, from its first state to its last
