"""The rules of the state machine about replies and calls: what the model, the tools and a person report of them."""

from attrs import evolve
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from loopkernel.data.blocks import UserBlock
from loopkernel.data.ids import (
    CallId,
    CheckOperation,
    ModelOperation,
    OperationKind,
    RunOperation,
)
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCall, ModelCompleted, ModelDelta, ModelFailed, ModelText, Redaction
from loopkernel.data.states import Cancelled, Idle
from loopkernel.data.tool_deltas import ToolAsked, ToolChecked, ToolFailed, ToolStopped, ToolSucceeded
from loopkernel.data.tools import AccessMode, Claim, Tool, ToolOutput, ValidCall, Verdict
from loopkernel.data.usage import Usage
from loopkernel.data.user_deltas import (
    AnswerAfterCrash,
    AnswerQuestion,
    Approve,
    CallAnswer,
    Correct,
    CrashAnswerKind,
    Reject,
    Remembrance,
    Say,
    Swap,
)
from loopkernel.data.words import ErrorClass, StopReason
from loopkernel.laws.views import ledger_in
from loopkernel.testing.stateful.steps import JudgedMachine
from loopkernel.testing.strategies.conversation import call_inputs, claims, contents, tool_outputs, verdicts
from loopkernel.testing.strategies.deltas import (
    WAITS_MS,
    RunDelta,
    answer_deltas,
    model_deltas,
    redactions,
    remembrances,
    run_deltas,
)
from loopkernel.testing.strategies.values import json_texts, resource_keys, usages
from loopkernel.testing.strategies.walks import OFFERED
from loopkernel.testing.witness_calls import Waiting

_ended_stops = st.sampled_from((StopReason.END_TURN, StopReason.TOOL_USE)) | st.sampled_from(StopReason)
Calls = list[tuple[Tool, Claim, bool, bool]]  # after the call before, and with its output, where there is one
_calls: st.SearchStrategy[Calls] = st.lists(
    st.tuples(st.sampled_from(OFFERED), claims, st.booleans(), st.booleans()), min_size=1, max_size=3
)


class CallRules(JudgedMachine):
    """Replies come in, fail or are cut; their calls are checked, put to a person, run and end."""

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

    @precondition(lambda self: self.is_open(OperationKind.MODEL))
    @rule(data=st.data(), answers=st.lists(st.booleans(), min_size=1, max_size=2))
    def ask_and_answer(self, data: st.DataObject, answers: list[bool]) -> None:
        """A reply with calls that a person is asked about, and the first answers to them."""
        operation = ModelOperation(self.number(OperationKind.MODEL, data))
        asked = next(tool for tool in OFFERED if tool.name == "edit")
        self.call_all(operation, [(asked, Claim("a", AccessMode.WRITE), False, False) for _ in answers])
        for approved in answers:
            waiting = self.witness.seen.waiting(Waiting.APPROVAL)
            if waiting:
                self.deliver(Approve(call=waiting[0]) if approved else Reject(call=waiting[0]))

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
    @rule(data=st.data())
    def repeat_itself(self, data: st.DataObject) -> None:
        """The model makes the same call as ever, and gets the same answer."""
        operation = ModelOperation(self.number(OperationKind.MODEL, data))
        self.call_all(operation, [(OFFERED[0], Claim("a", AccessMode.READ), False, False)])
        for number in self.tool_runs():
            self.deliver(ToolSucceeded(RunOperation(number)))

    @precondition(lambda self: self.is_open(OperationKind.MODEL))
    @rule(data=st.data(), stop=st.sampled_from(StopReason))
    def answer_in_words(self, data: st.DataObject, stop: StopReason) -> None:
        """The reply is a text."""
        operation = ModelOperation(self.number(OperationKind.MODEL, data))
        self.deliver(ModelText(operation, "a"))
        self.deliver(ModelCompleted(operation, stop))

    @precondition(lambda self: self.is_open(OperationKind.MODEL))
    @rule(data=st.data(), stop=_ended_stops, usage=usages, redaction=st.none() | redactions)
    def complete(self, data: st.DataObject, stop: StopReason, usage: Usage, redaction: Redaction | None) -> None:
        """The reply is complete."""
        operation = ModelOperation(self.number(OperationKind.MODEL, data))
        self.deliver(ModelCompleted(operation, stop, usage, redaction))

    @precondition(lambda self: self.is_open(OperationKind.MODEL))
    @rule(data=st.data(), text=st.booleans(), cut_call=st.booleans(), usage=usages)
    def cut_off(self, data: st.DataObject, text: bool, cut_call: bool, usage: Usage) -> None:
        """The reply hits the output limit, perhaps in the middle of a call."""
        operation = ModelOperation(self.number(OperationKind.MODEL, data))
        if text:
            self.deliver(ModelText(operation, "a"))
        self.deliver(ModelCompleted(operation, StopReason.MAX_TOKENS, usage, cut_call=cut_call))

    @precondition(lambda self: self.is_open(OperationKind.MODEL))
    @rule(
        data=st.data(),
        error=st.sampled_from((ErrorClass.OVERLOADED, ErrorClass.PROMPT_TOO_LONG)) | st.sampled_from(ErrorClass),
        wait_ms=st.none() | st.sampled_from(WAITS_MS),
        usage=usages,
    )
    def fail(self, data: st.DataObject, error: ErrorClass, wait_ms: int | None, usage: Usage) -> None:
        """The model call fails; the server may say when to ask again."""
        operation = ModelOperation(self.number(OperationKind.MODEL, data))
        self.deliver(ModelFailed(operation, error=error, retry_after_ms=wait_ms, usage=usage))

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

    def tool_runs(self) -> list[int]:
        """The runs that go on, but for sub-agents."""
        ledger = ledger_in(self.state)
        children = {e.operation for e in (() if ledger is None else ledger.entries) if e.child is not None}
        return [run for run in self.witness.open_operations(OperationKind.RUN) if run not in children]

    @precondition(lambda self: bool(self.tool_runs()))
    @rule(data=st.data(), output=tool_outputs, done=st.booleans())
    def end_run(self, data: st.DataObject, output: ToolOutput, done: bool) -> None:
        """A run returns or fails."""
        operation = RunOperation(data.draw(st.sampled_from(self.tool_runs()), label="run"))
        self.deliver(ToolSucceeded(operation, output) if done else ToolFailed(operation, output))

    @precondition(lambda self: bool(self.tool_runs()))
    @rule(final=st.booleans())
    def end_all_runs(self, final: bool) -> None:
        """All runs return; what they return may be final."""
        for number in self.tool_runs():
            self.deliver(ToolSucceeded(RunOperation(number), ToolOutput(final=final)))

    @precondition(lambda self: self.is_open(OperationKind.RUN))
    @rule(data=st.data(), delta=run_deltas)
    def report_on_run(self, data: st.DataObject, delta: RunDelta) -> None:
        """Anything that a tool can report: progress, a question, that it has stopped."""
        self.deliver(evolve(delta, operation=RunOperation(self.number(OperationKind.RUN, data))))

    @precondition(lambda self: bool(self.tool_runs()))
    @rule(data=st.data(), asks=st.booleans())
    def go_on(self, data: st.DataObject, asks: bool) -> None:
        """A run has a question, or goes on in the background."""
        operation = RunOperation(data.draw(st.sampled_from(self.tool_runs()), label="run"))
        aside = ToolSucceeded(operation, ToolOutput(background=True))
        self.deliver(ToolAsked(operation, "a") if asks else aside)

    @precondition(lambda self: bool(self.witness.aborted))
    @rule(data=st.data(), delta=st.just(None) | run_deltas)
    def stop_aborted(self, data: st.DataObject, delta: RunDelta | None) -> None:
        """An aborted run has stopped, or reports all the same."""
        operation = RunOperation(data.draw(st.sampled_from(sorted(self.witness.aborted)), label="run"))
        self.deliver(ToolStopped(operation) if delta is None else evolve(delta, operation=operation))
