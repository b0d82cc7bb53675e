"""Runs written by hand, which together take every edge of the table of states.

No part of them is drawn: another process, under another hash seed, gets the same ones.
"""

from collections.abc import Iterator

from loopkernel.data.blocks import RawInput
from loopkernel.data.choices import (
    ApprovalMode,
    ErrorDisplay,
    Lifetime,
    NoProfileApproval,
    OnBusy,
    OnReject,
    Schedule,
)
from loopkernel.data.endings import Ending
from loopkernel.data.ids import (
    CallId,
    CheckOperation,
    HookOperation,
    MessageId,
    ModelOperation,
    RunOperation,
    TimerOperation,
)
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import (
    ModelCall,
    ModelFailed,
    ModelInput,
    ModelOpaque,
    ModelReasoning,
    ModelServerCall,
    ModelStarted,
    ModelText,
    ModelUsage,
)
from loopkernel.data.outside_deltas import HookAnswered, HookContinue, TimerFired
from loopkernel.data.policy import LoopTiers, Policy, Retry, Truncation
from loopkernel.data.sessions import Session, Settings, Stamp, Turn
from loopkernel.data.states import Finishing, Initial, State
from loopkernel.data.steps import Context, Step
from loopkernel.data.thread_deltas import Acquired, Disposed, Forked, Resumed
from loopkernel.data.tool_deltas import (
    ToolAsked,
    ToolChecked,
    ToolFailed,
    ToolProgress,
    ToolStopped,
    ToolSucceeded,
)
from loopkernel.data.tools import (
    InvalidCall,
    ToolOutput,
)
from loopkernel.data.usage import Usage
from loopkernel.data.user_deltas import (
    AnswerQuestion,
    Approve,
    CancelAll,
    CancelCall,
    ChangeInstructions,
    ChangeMode,
    CompactNow,
    Correct,
    Discard,
    DismissError,
    EditMessage,
    Enqueue,
    RememberTool,
    RetryNow,
    Say,
    Steer,
)
from loopkernel.data.words import ErrorClass, StopReason, TurnEndReason
from loopkernel.loop.transition import transition

from tests.architecture.scripted_gates import GATED_RUNS
from tests.architecture.scripted_words import HELLO, READS, TOOLS, WRITES, Log, call, completed, created, running, text

ROUNDS: Log = (
    *created(Policy()),
    Say(content=HELLO, key="k1"),
    Say(content=HELLO, key="k1"),
    ModelStarted(ModelOperation(1), "default"),
    ModelReasoning(ModelOperation(1), "hm"),
    text(1),
    ModelInput(ModelOperation(1), '{"pa'),
    call(1, "read"),
    call(1, "write", "notes"),
    call(1, "shell"),
    ModelCall(ModelOperation(1), provider_id="c4", tool="read", input=RawInput("{")),
    ModelServerCall(ModelOperation(1), provider_id="c5", tool="search", input=Json.of([1, None])),
    ModelOpaque(ModelOperation(1), Json.of({"signed": True})),
    ModelUsage(ModelOperation(1), Usage(input=5)),
    ToolChecked(CheckOperation(1), READS),
    completed(1, StopReason.TOOL_USE),
    Enqueue(content=HELLO, key="k2"),
    Steer(content=HELLO),
    ToolChecked(CheckOperation(2), WRITES),
    ToolChecked(CheckOperation(3), InvalidCall("no such option")),
    ToolProgress(RunOperation(1), "half"),
    ToolSucceeded(RunOperation(1), ToolOutput(content=HELLO)),
    ToolSucceeded(RunOperation(1)),
    ToolFailed(RunOperation(2)),
    completed(2, StopReason.PAUSE),
    completed(3),
    ModelText(ModelOperation(4), "and on"),
    completed(4),
    Discard(),
    ChangeInstructions("Be exact."),
    Forked(session_id="s2"),
)
CANCELS: Log = (
    *created(Policy()),
    Say(content=HELLO),
    text(1),
    call(1),
    CancelAll(),
    text(1),
    ModelUsage(ModelOperation(1), Usage(output=9)),
    ToolChecked(CheckOperation(1), READS),
    ChangeMode(ApprovalMode.BYPASS),
    RetryNow(),
    *running(2),
    Approve(call=CallId(ModelOperation(2), 1)),
    CancelAll(),
    ToolSucceeded(RunOperation(1)),
    Enqueue(content=HELLO),
    call(3, verdict=READS),
    call(3, "write", "notes", verdict=WRITES),
    completed(3, StopReason.TOOL_USE),
    CancelCall(CallId(ModelOperation(3), 2)),
    ToolStopped(RunOperation(2)),
    Say(content=HELLO),
    *running(4),
    ToolAsked(RunOperation(3), "Which one?"),
    text(5),
    completed(5, StopReason.STOP_SEQUENCE),
)
FAILURES: Log = (
    *created(Policy(max_turns=2, retry=None)),
    Say(content=HELLO),
    text(1),
    ModelFailed(ModelOperation(1), error=ErrorClass.SERVER, message="out of order"),
    Acquired(),
    DismissError(),
    RetryNow(),
    *running(2),
    ToolFailed(RunOperation(1)),
    *running(3),
    ToolSucceeded(RunOperation(2)),
    CompactNow(),
    Say(content=HELLO),
    completed(4),
    completed(5),
    HookAnswered(HookOperation(1), HookContinue()),
)
LIVES: Log = (
    *created(Policy(on_busy=OnBusy.INTERRUPT)),
    Disposed(),
    Disposed(),
    text(1),
    Resumed(),
    Say(content=HELLO),
    text(1),
    Say(content=HELLO),
    *running(2),
    Say(content=HELLO),
    CancelAll(),
    Disposed(),
    Resumed(),
    Say(content=HELLO),
    *running(4),
    Disposed(),
    Resumed(),
)
TASK: Log = (
    *created(Policy(lifetime=Lifetime.TASK)),
    Say(content=HELLO),
    *running(1),
    Enqueue(content=HELLO),
    ToolSucceeded(RunOperation(1), ToolOutput(content=HELLO, final=True)),
    Say(content=HELLO),
    completed(1),
    Disposed(),
)
EDITS: Log = (
    *created(Policy(approval_timeout_ms=90, on_reject=OnReject.SKIP_REST, silence_ms=None)),
    Say(content=HELLO),
    call(1, "shell", verdict=READS),
    call(1, "shell", verdict=WRITES),
    call(1, verdict=READS),
    completed(1, StopReason.TOOL_USE),
    ToolSucceeded(RunOperation(1)),
    RetryNow(),
    Correct(call=CallId(ModelOperation(1), 1), input=Json.of({"path": "b"})),
    Disposed(),
    Resumed(),
    ToolChecked(CheckOperation(2), WRITES),
    ToolAsked(RunOperation(1), "Which one?"),
    AnswerQuestion(call=CallId(ModelOperation(1), 1), value=Json.of(2)),
    Resumed(),
    TimerFired(TimerOperation(3)),
    completed(2),
    completed(3),
    Say(content=HELLO),
    call(4, "shell", verdict=READS),
    call(4, "shell", verdict=READS),
    completed(4, StopReason.TOOL_USE),
    Approve(call=CallId(ModelOperation(4), 1), remember=RememberTool()),
    ToolAsked(RunOperation(2), "Which one?"),
    CancelAll(),
    ToolStopped(RunOperation(2)),
)
WITHOUT_RETRIES = Policy(
    no_profile_approval=NoProfileApproval.ALLOW, schedule=Schedule.BATCHES, silence_ms=None, retry=None
)
EARLY: Log = (
    *created(WITHOUT_RETRIES, early=True),
    Say(content=HELLO),
    call(1, "write", verdict=WRITES),
    ModelCall(
        ModelOperation(1), provider_id="later", tool="read", input=Json.of({"path": {"$result": "cnotes/a.txt"}})
    ),
    ToolSucceeded(RunOperation(1), ToolOutput(content=HELLO, background=True)),
    ModelFailed(ModelOperation(1), error=ErrorClass.SERVER),
    RetryNow(),
    call(2, "read", verdict=READS),
    completed(2, StopReason.TOOL_USE),
    ToolSucceeded(RunOperation(1), ToolOutput(content=HELLO)),
    ToolSucceeded(RunOperation(2)),
    call(3, "read", verdict=READS),
    TimerFired(TimerOperation(3)),
    ModelFailed(ModelOperation(3), error=ErrorClass.SERVER),
    TimerFired(TimerOperation(4)),
)
RELEASED: Log = (
    *created(Policy()),
    Say(content=HELLO),
    call(1, "shell", verdict=READS),
    completed(1, StopReason.TOOL_USE),
    Disposed(),
    Resumed(),
    Resumed(),
    CancelAll(),
)
RETRIES: Log = (
    *created(
        Policy(
            retry=Retry(base_ms=20, retries=2, jitter_ms=5),
            fallback_models=("small",),
            silence_ms=60,
            max_total_tokens=10_000,
            errors=ErrorDisplay.SHOWN,
        ),
        early=True,
    ),
    Say(content=HELLO),
    text(1),
    ModelFailed(ModelOperation(1), error=ErrorClass.SERVER, retry_after_ms=30),
    Steer(content=HELLO),
    TimerFired(TimerOperation(9)),
    Resumed(),
    RetryNow(),
    TimerFired(TimerOperation(4)),
    ModelFailed(ModelOperation(2), error=ErrorClass.UNKNOWN),
    call(3, "write", verdict=WRITES),
    ModelFailed(ModelOperation(3), error=ErrorClass.NETWORK),
    ToolSucceeded(RunOperation(1)),
    TimerFired(TimerOperation(8)),
    TimerFired(TimerOperation(9)),
    text(4),
    ModelFailed(ModelOperation(4), error=ErrorClass.OVERLOADED),
    ChangeInstructions("Be exact."),
    DismissError(),
    Say(content=HELLO),
    ModelFailed(ModelOperation(5), error=ErrorClass.OVERLOADED),
    Steer(content=HELLO),
    Enqueue(content=HELLO),
    ModelFailed(ModelOperation(6), error=ErrorClass.OVERLOADED),
    Steer(content=HELLO),
    Say(content=HELLO),
    ModelFailed(ModelOperation(7), error=ErrorClass.OVERLOADED),
    Forked(session_id="s2"),
)
TRUNCATIONS: Log = (
    *created(Policy(on_truncation=Truncation(continuations=1), loop=LoopTiers(note=2, disable=None, stop=3))),
    Say(content=HELLO),
    text(1),
    completed(1, StopReason.MAX_TOKENS),
    text(2),
    completed(2, StopReason.MAX_TOKENS),
    call(3, verdict=READS),
    completed(3, StopReason.MAX_TOKENS),
    EditMessage(message=MessageId(1), content=HELLO),
    *running(4),
    ToolSucceeded(RunOperation(2)),
    *running(5),
    ToolSucceeded(RunOperation(3)),
    *running(6),
    ToolSucceeded(RunOperation(4)),
    Say(content=HELLO),
    text(7),
    completed(7, StopReason.REFUSAL),
    RetryNow(),
    CancelAll(),
    Forked(session_id="s3"),
    Say(content=HELLO),
    text(9),
    Forked(session_id="s4"),
    Say(content=HELLO),
    call(10, "shell", verdict=READS),
    completed(10, StopReason.TOOL_USE),
    Forked(session_id="s5"),
    Disposed(),
)
RUNS: dict[str, Log] = {
    "retries": RETRIES,
    "truncations": TRUNCATIONS,
    "released while a person is asked": RELEASED,
    "rounds": ROUNDS,
    "cancels": CANCELS,
    "failures": FAILURES,
    "lives": LIVES,
    "edits": EDITS,
    "early": EARLY,
    "task": TASK,
    "not created": (Acquired(), Say(content=HELLO), completed(1), Disposed()),
}

# The end of a turn, as it is entered.
SESSION = Session(settings=Settings(session_id="s1", tools=TOOLS))
TURN = Turn(number=1, opened_ms=0)
FINISHING = Finishing(
    session=SESSION,
    stamp=Stamp(2),
    turn=TURN,
    ending=Ending(reason=TurnEndReason.MODEL_STOP, natural=True, gated=True),
)
RUNS_FROM: tuple[tuple[str, State, Log], ...] = tuple(
    (name, Initial(), log) for name, log in (*RUNS.items(), *GATED_RUNS.items())
)


def time_of(place: int) -> int:
    """When the delta at this place of a run comes, in milliseconds: mostly later than the one before it."""
    return 10 * place - 15 * (place % 3)


def steps() -> Iterator[tuple[str, State, Context, Step[State]]]:
    """Every step of every run, in order: the run's name, the state before, the context, the outcome."""
    for name, start, log in RUNS_FROM:
        state = start
        for place, delta in enumerate(log):
            context = Context(delta, time_of(place))
            step = transition(state, context)
            yield name, state, context, step
            state = step.next
