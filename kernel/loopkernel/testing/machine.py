"""A Hypothesis state machine over the kernel: every rule sends one delta, well-timed or not, in any state.

A witness follows the run and predicts how each delta is taken; the step laws judge every step. At the end the trace
and pair laws judge the whole run, and it is replayed, written and read.
"""

from typing import ClassVar

from attrs import evolve
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from typing_extensions import override

from loopkernel.codec import record_from_text, record_to_text, state_from_text, state_to_text
from loopkernel.data.blocks import UserBlock
from loopkernel.data.deltas import Delta
from loopkernel.data.events import Refused
from loopkernel.data.ids import (
    CallId,
    CheckOperation,
    ModelOperation,
    OperationKind,
    QueueNumber,
    RunOperation,
    TimerOperation,
)
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCall, ModelCompleted, ModelDelta, ModelFailed
from loopkernel.data.outside_deltas import TimerFired
from loopkernel.data.states import Cancelled, Done, Idle, Initial, State
from loopkernel.data.steps import Context
from loopkernel.data.thread_deltas import Acquired, Created, Disposed, Resumed, ThreadDelta
from loopkernel.data.tool_deltas import ToolAsked, ToolChecked, ToolFailed, ToolStopped, ToolSucceeded
from loopkernel.data.tools import Claim, Tool, ToolOutput, ValidCall, Verdict
from loopkernel.data.usage import Usage
from loopkernel.data.user_deltas import (
    AnswerAfterCrash,
    AnswerQuestion,
    Approve,
    CallAnswer,
    CancelAll,
    CancelCall,
    Correct,
    CrashAnswerKind,
    Discard,
    Enqueue,
    Reject,
    Remembrance,
    RetryNow,
    Say,
    Steer,
    Swap,
    UserDelta,
)
from loopkernel.data.words import ErrorClass, StopReason
from loopkernel.laws import KERNEL, Judged, check_pairs, check_step, check_trace
from loopkernel.replay import LogRecord, StepRecord, replay
from loopkernel.testing.strategies.conversation import call_inputs, claims, contents, tool_outputs, verdicts
from loopkernel.testing.strategies.deltas import (
    RunDelta,
    answer_deltas,
    deltas,
    model_deltas,
    remembrances,
    run_deltas,
    settings_deltas,
    thread_deltas,
    user_deltas,
)
from loopkernel.testing.strategies.values import KEYS, json_texts, queue_numbers, resource_keys, times_ms, usages
from loopkernel.testing.strategies.walks import OFFERED, creations_that_run
from loopkernel.testing.witness import Witness
from loopkernel.testing.witness_calls import Waiting

_keys = st.none() | st.sampled_from((*KEYS, "k3", "k4"))
_ended_stops = st.sampled_from((StopReason.END_TURN, StopReason.TOOL_USE)) | st.sampled_from(StopReason)
Calls = list[tuple[Tool, Claim, bool, bool]]  # after the call before, and with its output, where there is one
_calls: st.SearchStrategy[Calls] = st.lists(
    st.tuples(st.sampled_from(OFFERED), claims, st.booleans(), st.booleans()), min_size=1, max_size=3
)
WITHOUT_RUN = (Waiting.APPROVAL, Waiting.EDIT, Waiting.WORD)  # what a call may wait for in a released thread


class KernelMachine(RuleBasedStateMachine):
    """Any run of the kernel. A subclass may put a broken one in its place, to see it fail."""

    judged: ClassVar[Judged] = KERNEL

    def __init__(self) -> None:
        super().__init__()
        self.state: State = Initial()
        self.now_ms = 0
        self.steps: list[StepRecord] = []
        self.witness = Witness()
        self.sound = True  # no step has failed: the whole run may be judged

    # --- one step -----------------------------------------------------------------------------------------

    def deliver(self, delta: Delta) -> None:
        """Send a delta, and judge how it is taken."""
        self.sound = False
        before = self.state
        foreseen = self.witness.outcomes(before, delta)
        context = Context(delta, self.now_ms)
        after, effects = self.judged.transition(before, context)
        record = StepRecord(before, context, after, effects)
        refusal = next((effect.reason for effect in effects if isinstance(effect, Refused)), None)
        assert refusal in foreseen, f"{delta} in {type(before).__name__} gives {refusal}, not one of {foreseen}"
        breaches = check_step(record, len(self.steps), judged=self.judged)
        assert not breaches, "; ".join(map(str, breaches))
        wrong = [*self.witness.take(delta, refusal, effects, isinstance(after, Done))]
        wrong += self.witness.contradictions(after)
        assert not wrong, f"after {delta} in {type(before).__name__}: " + "; ".join(wrong)
        self.state = after
        self.steps.append(record)
        self.sound = True

    def number(self, kind: OperationKind, data: st.DataObject) -> int:
        """An open operation of the kind."""
        return data.draw(st.sampled_from(self.witness.open_operations(kind)), label=kind.name)

    def is_open(self, kind: OperationKind) -> bool:
        """Whether an operation of the kind is open."""
        return bool(self.witness.open_operations(kind))

    # --- life ---------------------------------------------------------------------------------------------

    @initialize(created=creations_that_run)
    def begin(self, created: Created) -> None:
        """Every run begins so."""
        self.deliver(created)
        self.deliver(Acquired())

    @rule(delta=thread_deltas)
    def live(self, delta: ThreadDelta) -> None:
        """Disposal, and what else happens to a session."""
        self.deliver(delta)

    @precondition(lambda self: isinstance(self.state, Initial))
    @rule(delta=st.sampled_from((Acquired(), Resumed())))
    def take_up(self, delta: Acquired | Resumed) -> None:
        """A released thread is taken up again."""
        self.deliver(delta)

    @precondition(lambda self: self.is_open(OperationKind.RUN) or self.is_open(OperationKind.CHECK))
    @rule()
    def restart(self) -> None:
        """The process dies with calls in flight, and is restarted."""
        self.deliver(Resumed())

    @precondition(lambda self: bool(self.witness.seen.waiting(*WITHOUT_RUN)))
    @rule(delta=st.sampled_from((Acquired(), Resumed())))
    def release_and_take_up(self, delta: Acquired | Resumed) -> None:
        """The thread is released while calls wait for a person, and taken up again."""
        self.deliver(Disposed())
        self.deliver(delta)

    @rule(now_ms=times_ms)
    def let_time_pass(self, now_ms: int) -> None:
        """The clock of the driver moves, now and then backwards."""
        self.now_ms = now_ms

    # --- the user -----------------------------------------------------------------------------------------

    @rule(content=contents, key=_keys)
    def say(self, content: tuple[UserBlock, ...], key: str | None) -> None:
        """A user message."""
        self.deliver(Say(content=content, key=key))

    @rule(content=contents, key=_keys)
    def enqueue(self, content: tuple[UserBlock, ...], key: str | None) -> None:
        """A message for the end of the turn."""
        self.deliver(Enqueue(content=content, key=key))

    @rule(content=contents, key=_keys)
    def steer(self, content: tuple[UserBlock, ...], key: str | None) -> None:
        """A message for the next request."""
        self.deliver(Steer(content=content, key=key))

    @rule(number=st.none() | queue_numbers)
    def discard(self, number: QueueNumber | None) -> None:
        """Queued input is taken back."""
        self.deliver(Discard(number))

    @precondition(lambda self: self.witness.turns_open > 0)
    @rule()
    def cancel_all(self) -> None:
        """Everything is to stop."""
        self.deliver(CancelAll())

    @precondition(lambda self: bool(self.witness.open_calls))
    @rule(data=st.data())
    def cancel_open_call(self, data: st.DataObject) -> None:
        """One call is to stop."""
        self.deliver(CancelCall(data.draw(st.sampled_from(self.witness.open_calls))))

    @precondition(lambda self: bool(self.witness.seen.calls))
    @rule(data=st.data())
    def cancel_any_call(self, data: st.DataObject) -> None:
        """One call is to stop, whatever became of it."""
        self.deliver(CancelCall(data.draw(st.sampled_from(list(self.witness.seen.calls)), label="call")))

    # --- a person, about a call ---------------------------------------------------------------------------

    def asked(self, data: st.DataObject, *kinds: Waiting) -> CallId:
        """A call that waits so for a person."""
        return data.draw(st.sampled_from(self.witness.seen.waiting(*kinds)), label="call")

    @precondition(lambda self: bool(self.witness.seen.waiting(Waiting.APPROVAL)))
    @rule(data=st.data(), remember=st.none() | remembrances)
    def approve(self, data: st.DataObject, remember: Remembrance | None) -> None:
        """A call may run, and perhaps others like it."""
        self.deliver(Approve(call=self.asked(data, Waiting.APPROVAL), remember=remember))

    @precondition(lambda self: bool(self.witness.seen.waiting(Waiting.APPROVAL, Waiting.ANSWER)))
    @rule(data=st.data())
    def reject(self, data: st.DataObject) -> None:
        """A call may not run, or its question is declined."""
        self.deliver(Reject(call=self.asked(data, Waiting.APPROVAL, Waiting.ANSWER)))

    @precondition(lambda self: bool(self.witness.seen.waiting(Waiting.APPROVAL)))
    @rule(data=st.data(), tool=st.none() | st.sampled_from(OFFERED), given=call_inputs, verdict=st.none() | verdicts)
    def edit(self, data: st.DataObject, tool: Tool | None, given: Json, verdict: Verdict | None) -> None:
        """Another input, or another tool, in the place of the model's; the check may answer at once."""
        call = self.asked(data, Waiting.APPROVAL)
        self.deliver(Correct(call=call, input=given) if tool is None else Swap(call=call, tool=tool.name, input=given))
        check = self.witness.seen.calls[call].check
        if verdict is not None and check is not None:
            self.deliver(ToolChecked(check, verdict))

    @precondition(lambda self: bool(self.witness.seen.waiting(Waiting.ANSWER)))
    @rule(data=st.data(), value=st.none() | json_texts)
    def answer_question(self, data: st.DataObject, value: Json | None) -> None:
        """The answer to what a tool has asked."""
        self.deliver(AnswerQuestion(call=self.asked(data, Waiting.ANSWER), value=value))

    @precondition(lambda self: bool(self.witness.seen.waiting(Waiting.WORD)))
    @rule(data=st.data(), kind=st.sampled_from(CrashAnswerKind))
    def answer_after_crash(self, data: st.DataObject, kind: CrashAnswerKind) -> None:
        """What became of a run that a restart has found in flight."""
        self.deliver(AnswerAfterCrash(call=self.asked(data, Waiting.WORD), kind=kind, text="a"))

    @precondition(lambda self: bool(self.witness.seen.calls))
    @rule(data=st.data(), answer=answer_deltas)
    def answer_any_call(self, data: st.DataObject, answer: CallAnswer) -> None:
        """A person's word on any call, whether it waits for one or not."""
        call = data.draw(st.sampled_from(list(self.witness.seen.calls)), label="call")
        self.deliver(evolve(answer, call=call))

    @rule(delta=settings_deltas | st.just(RetryNow()))
    def change(self, delta: UserDelta) -> None:
        """Other settings; or the same question again."""
        self.deliver(delta)

    # --- the model ----------------------------------------------------------------------------------------

    @precondition(lambda self: isinstance(self.state, Idle | Cancelled))
    @rule(content=contents, calls=_calls)
    def ask_for_calls(self, content: tuple[UserBlock, ...], calls: Calls) -> None:
        """A user message at rest, and a whole reply to it."""
        self.deliver(Say(content=content))
        for number in self.witness.open_operations(OperationKind.MODEL):
            self.call_all(ModelOperation(number), calls)

    @precondition(lambda self: self.is_open(OperationKind.MODEL))
    @rule(data=st.data(), calls=_calls)
    def reply_with_calls(self, data: st.DataObject, calls: Calls) -> None:
        """A whole reply."""
        self.call_all(ModelOperation(self.number(OperationKind.MODEL, data)), calls)

    def call_all(self, operation: ModelOperation, calls: Calls) -> None:
        """Valid calls of offered tools, so that runs start; some depend on the one before them."""
        for place, (tool, claim, follows, uses) in enumerate(calls):
            before = f"c{place}"
            given = Json.of({"path": {"$result": before} if uses and place else claim.key})
            verdict = None if uses and place else ValidCall((claim,))
            after = (before,) if follows and place else ()
            self.deliver(
                ModelCall(
                    operation, provider_id=f"c{place + 1}", tool=tool.name, input=given, after=after, verdict=verdict
                )
            )
        self.deliver(ModelCompleted(operation, StopReason.TOOL_USE))

    @precondition(lambda self: self.is_open(OperationKind.MODEL))
    @rule(data=st.data(), tool=st.sampled_from(OFFERED), resource=resource_keys, verdict=st.none() | verdicts)
    def call_tool(self, data: st.DataObject, tool: Tool, resource: str, verdict: Verdict | None) -> None:
        """The reply holds one more call, of a tool that is mostly offered."""
        operation = ModelOperation(self.number(OperationKind.MODEL, data))
        arguments = Json.of({"path": resource})
        self.deliver(ModelCall(operation, provider_id="c1", tool=tool.name, input=arguments, verdict=verdict))

    @precondition(lambda self: self.is_open(OperationKind.MODEL))
    @rule(data=st.data(), stop=_ended_stops, usage=usages)
    def complete(self, data: st.DataObject, stop: StopReason, usage: Usage) -> None:
        """The reply is complete."""
        self.deliver(ModelCompleted(ModelOperation(self.number(OperationKind.MODEL, data)), stop, usage))

    @precondition(lambda self: self.is_open(OperationKind.MODEL))
    @rule(data=st.data(), error=st.sampled_from(ErrorClass), usage=usages)
    def fail(self, data: st.DataObject, error: ErrorClass, usage: Usage) -> None:
        """The model call fails."""
        operation = ModelOperation(self.number(OperationKind.MODEL, data))
        self.deliver(ModelFailed(operation, error=error, usage=usage))

    @precondition(lambda self: self.is_open(OperationKind.MODEL))
    @rule(data=st.data(), delta=model_deltas)
    def answer(self, data: st.DataObject, delta: ModelDelta) -> None:
        """Anything that a model can report."""
        self.deliver(evolve(delta, operation=ModelOperation(self.number(OperationKind.MODEL, data))))

    # --- tools --------------------------------------------------------------------------------------------

    @precondition(lambda self: self.is_open(OperationKind.CHECK))
    @rule(data=st.data(), verdict=verdicts)
    def judge_call(self, data: st.DataObject, verdict: Verdict) -> None:
        """A call is checked."""
        self.deliver(ToolChecked(CheckOperation(self.number(OperationKind.CHECK, data)), verdict))

    @precondition(lambda self: self.is_open(OperationKind.CHECK))
    @rule(claim=claims)
    def judge_all(self, claim: Claim) -> None:
        """All calls that are being checked are valid."""
        for number in self.witness.open_operations(OperationKind.CHECK):
            self.deliver(ToolChecked(CheckOperation(number), ValidCall((claim,))))

    @precondition(lambda self: self.is_open(OperationKind.RUN))
    @rule(data=st.data(), output=tool_outputs, done=st.booleans())
    def end_run(self, data: st.DataObject, output: ToolOutput, done: bool) -> None:
        """A run returns or fails."""
        operation = RunOperation(self.number(OperationKind.RUN, data))
        self.deliver(ToolSucceeded(operation, output) if done else ToolFailed(operation, output))

    @precondition(lambda self: self.is_open(OperationKind.RUN))
    @rule(data=st.data(), delta=run_deltas)
    def report_on_run(self, data: st.DataObject, delta: RunDelta) -> None:
        """Anything that a tool can report: progress, a question, that it has stopped."""
        self.deliver(evolve(delta, operation=RunOperation(self.number(OperationKind.RUN, data))))

    @precondition(lambda self: self.is_open(OperationKind.RUN))
    @rule(data=st.data(), asks=st.booleans())
    def go_on(self, data: st.DataObject, asks: bool) -> None:
        """A run has a question, or goes on in the background."""
        operation = RunOperation(self.number(OperationKind.RUN, data))
        aside = ToolSucceeded(operation, ToolOutput(background=True))
        self.deliver(ToolAsked(operation, "a") if asks else aside)

    @precondition(lambda self: bool(self.witness.aborted))
    @rule(data=st.data(), delta=st.just(None) | run_deltas)
    def stop_aborted(self, data: st.DataObject, delta: RunDelta | None) -> None:
        """An aborted run has stopped, or reports all the same."""
        operation = RunOperation(data.draw(st.sampled_from(sorted(self.witness.aborted)), label="run"))
        self.deliver(ToolStopped(operation) if delta is None else evolve(delta, operation=operation))

    # --- time ---------------------------------------------------------------------------------------------

    @precondition(lambda self: self.is_open(OperationKind.TIMER))
    @rule(data=st.data(), late_ms=st.integers(0, 2))
    def run_out_of_time(self, data: st.DataObject, late_ms: int) -> None:
        """A deadline has passed: of a run, of a person, or of the time to stop in."""
        number = self.number(OperationKind.TIMER, data)
        self.now_ms = max(self.now_ms, self.witness.deadlines[number] + late_ms)
        self.deliver(TimerFired(TimerOperation(number)))

    # --- ill-timed ----------------------------------------------------------------------------------------

    @rule(delta=deltas | user_deltas)
    def anything(self, delta: Delta) -> None:
        """Any delta, mostly about what is closed or was never begun."""
        self.deliver(delta)

    @precondition(lambda self: bool(self.steps))
    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        """An earlier delta once more."""
        index = data.draw(st.integers(1, len(self.steps)), label="how many deltas ago")
        self.deliver(self.steps[-index].context.delta)

    # --- the end ------------------------------------------------------------------------------------------

    @override
    def teardown(self) -> None:
        """The run as a whole: judged, replayed, written and read."""
        if not self.sound:
            return
        for judge in (check_trace, check_pairs):
            report = judge(self.steps, judged=self.judged)
            assert report.held, str(report)
        log = [LogRecord(step.context.delta, step.context.now_ms) for step in self.steps]
        read = [record_from_text(record_to_text(record)) for record in log]
        assert read == log
        assert replay(read, transition=self.judged.transition) == self.state
        written = state_to_text(self.state)
        assert state_from_text(written) == self.state
        assert state_to_text(state_from_text(written)) == written
