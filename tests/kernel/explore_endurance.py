"""The scopes of the explorer in which model calls fail, limits are hit, and history is changed."""

from loopkernel.data.choices import ErrorDisplay, OnBusy, OnError, Schedule, TruncatedCalls, TruncationEnd
from loopkernel.data.model_deltas import ModelCompleted, ModelFailed
from loopkernel.data.policy import ClearResults, LoopTiers, Retry, Truncation
from loopkernel.data.usage import Usage
from loopkernel.data.user_deltas import Approve
from loopkernel.data.words import ErrorClass, StopReason
from loopkernel.testing.explorer.scope import ANY_CALL, ANY_REPLY, EndOfRun, OfferedCall, Scope

from tests.kernel.explore_world import ENDS, Case, plain


def fails(error: ErrorClass, retry_after_ms: int | None = None) -> ModelFailed:
    return ModelFailed(ANY_REPLY, error=error, retry_after_ms=retry_after_ms)


RETRIES = Case(
    name="retries",
    policy=plain(
        retry=Retry(base_ms=2, factor=2, cap_ms=3, retries=2),
        retry_after_cap_ms=10,
        fallback_models=("other",),
        queue_limit=1,
        max_turns=2,
    ),
    scope=Scope(
        calls=0,
        rounds=0,
        waiting=1,
        failures=(
            fails(ErrorClass.OVERLOADED),
            fails(ErrorClass.RATE_LIMITED, 7),
            fails(ErrorClass.SERVER, 11),
            fails(ErrorClass.AUTH),
        ),
        lives=True,
    ),
    goals=(
        "a retry is waited for",
        "a retry is made in time",
        "a retry is made by the user",
        "a retry waits as long as the server asks",
        "another model is asked",
        "a message does not wait for a retry",
        "a queued message does not wait for a retry",
        "an error is dismissed during a retry",
        "a retry is cancelled",
        "a steer waits for a retry",
        "a restart keeps a countdown",
        "the turn ends by an error",
        "the turn is interrupted",
        "the turn is disposed of",
    ),
)
SILENCE = Case(
    name="silence",
    policy=plain(retry=Retry(base_ms=2, retries=1), silence_ms=5, queue_limit=1, max_turns=1),
    scope=Scope(
        calls=0,
        rounds=0,
        waiting=1,
        held=1,
        stops=(StopReason.END_TURN, StopReason.REFUSAL),
        times=True,
        lives=True,
        crashes=True,
    ),
    goals=(
        "the stream is silent",
        "a silence is looked at again",
        "a refused reply is dropped",
        "a retry is made in time",
        "a retry is made by the user",
        "a restart keeps a countdown",
        "the turn ends by an error",
        "the turn ends at its limit",
    ),
)
SHOWN = Case(
    name="errors shown and fed back",
    policy=plain(
        retry=Retry(base_ms=2, retries=1),
        errors=ErrorDisplay.SHOWN,
        on_error=OnError.FEED_BACK,
        clear_results=ClearResults(keep=0),
        queue_limit=0,
        on_busy=OnBusy.REJECT,
    ),
    scope=Scope(
        rounds=1,
        waiting=0,
        texts=False,
        held=1,
        offers=((OfferedCall(tool="r"),),),
        ends=(EndOfRun.RETURNS,),
        failures=(fails(ErrorClass.OVERLOADED), fails(ErrorClass.PROMPT_TOO_LONG), fails(ErrorClass.REFUSED)),
    ),
    goals=(
        "an error is fed back",
        "results are cleared to be tried again",
        "an error is shown, and the model asked again",
        "the turn ends by a refusal",
        "the run is over",
    ),
)
KEPT = Case(
    name="failures behind calls",
    policy=plain(
        retry=Retry(base_ms=2, retries=1),
        queue_limit=0,
        on_busy=OnBusy.REJECT,
    ),
    scope=Scope(
        rounds=1,
        waiting=0,
        texts=False,
        held=1,
        offers=((OfferedCall(tool="ewa"), OfferedCall(tool="era")), (OfferedCall(tool="r"),)),
        ends=(EndOfRun.RETURNS,),
        failures=(fails(ErrorClass.OVERLOADED), fails(ErrorClass.AUTH)),
        strays=False,
    ),
    goals=(
        "a failed reply is kept",
        "a failure is recovered behind calls",
        "a retry is waited for",
        "an early run is closed with its reply",
        "the turn ends by an error",
    ),
)


def truncated(calls: TruncatedCalls, then: TruncationEnd, errors: ErrorDisplay) -> Case:
    """Higher limits, then prompts to go on, then the end, with calls that are whole, cut, or have started."""
    return Case(
        name=f"truncation, calls {calls.value}",
        policy=plain(
            max_output_tokens=1,
            on_truncation=Truncation(escalate_to=(1, 2), continuations=1, then=then, calls=calls),
            errors=errors,
            queue_limit=0,
            on_busy=OnBusy.REJECT,
        ),
        scope=Scope(
            rounds=1,
            waiting=0,
            texts=False,
            held=1,
            offers=((OfferedCall(tool="ewa"), OfferedCall(tool="qd")),),
            ends=(EndOfRun.RETURNS,),
            completions=(
                ModelCompleted(ANY_REPLY, StopReason.MAX_TOKENS),
                ModelCompleted(ANY_REPLY, StopReason.MAX_TOKENS, cut_call=True),
            ),
            strays=False,
        ),
        goals=(
            "a truncated reply is asked again",
            "a truncated reply is continued",
            "a truncated reply is kept, and a higher limit follows",
            "a reply is retracted",
            *(
                ("the turn ends by its output limit", "a cut call is answered")
                if then is TruncationEnd.FAIL
                else ("the turn ends naturally", "calls are replaced by notes")
            ),
        ),
    )


TRUNCATIONS = (
    truncated(TruncatedCalls.ERROR, TruncationEnd.FAIL, ErrorDisplay.SHOWN),
    truncated(TruncatedCalls.NOTE, TruncationEnd.NATURAL, ErrorDisplay.WITHHELD),
)
BUDGETS = Case(
    name="budgets",
    policy=plain(
        schedule=Schedule.GRAPH,
        max_parallel=2,
        max_total_tokens=2,
        max_tool_calls=2,
        empty_reply_nudges=0,
        queue_limit=0,
        on_busy=OnBusy.REJECT,
    ),
    scope=Scope(
        rounds=1,
        waiting=0,
        texts=False,
        held=0,
        offers=((OfferedCall(tool="r"),), (OfferedCall(tool="qd"),), (OfferedCall(tool="ra", after=(0,)),)),
        ends=ENDS,
        stops=(),
        completions=(ModelCompleted(ANY_REPLY, StopReason.END_TURN, Usage(1, 0)),),
        strays=False,
    ),
    goals=(
        "a budget of tokens is spent",
        "a budget of calls is spent",
        "calls are left out for a budget",
        "a run is awaited after a budget",
        "the turn ends by a budget",
        "the turn ends naturally",
    ),
)
TIME = Case(
    name="a budget of time",
    policy=plain(
        max_wall_ms=3,
        tool_timeout_ms=2,
        queue_limit=0,
        on_busy=OnBusy.REJECT,
    ),
    scope=Scope(
        rounds=1,
        waiting=0,
        texts=False,
        held=1,
        offers=((OfferedCall(tool="wa"),), (OfferedCall(tool="ra"),)),
        ends=(EndOfRun.RETURNS,),
        times=True,
        strays=False,
    ),
    goals=(
        "a budget of time is spent",
        "calls are left out for a budget",
        "the turn ends by a budget",
        "time runs out for a run",
    ),
)
HISTORY = Case(
    name="edits and forks",
    policy=plain(retry=Retry(base_ms=2, retries=1), queue_limit=0),
    scope=Scope(
        rounds=1,
        waiting=0,
        texts=False,
        offers=((OfferedCall(tool="d"), OfferedCall(tool="qd")),),
        verdicts=(),
        held=1,
        ends=(EndOfRun.RETURNS,),
        answers=(Approve(call=ANY_CALL),),
        edits=True,
        forks=True,
        strays=False,
    ),
    goals=(
        "a message is edited at rest",
        "a message is edited while the model answers",
        "a message is edited while calls run",
        "a message is edited during a retry",
        "a fork at rest",
        "a fork keeps a cut reply",
        "a fork does not know of a dangerous run",
        "a fork ends a countdown",
        "the turn is edited away",
        "the turn is interrupted",
    ),
)
REPETITION = Case(
    name="repetition",
    policy=plain(
        loop=LoopTiers(note=2, disable=3, disable_turns=1, stop=4, window=4),
        queue_limit=0,
        on_busy=OnBusy.REJECT,
    ),
    scope=Scope(
        rounds=5,
        waiting=0,
        texts=False,
        held=1,
        offers=((OfferedCall(tool="r"),),),
        ends=(EndOfRun.RETURNS,),
        strays=False,
    ),
    goals=(
        "repetition is noted",
        "a tool is disabled",
        "a disabled tool is offered again",
        "a disabled tool is called",
        "the turn ends by repetition",
    ),
)
QUICK_ENDURANCE = (RETRIES, SHOWN, TRUNCATIONS[0], BUDGETS, HISTORY)
OTHER_ENDURANCE = (SILENCE, KEPT, *TRUNCATIONS[1:], TIME, REPETITION)
