"""The rules of the state machine about hooks, corrections, summaries, handoffs and sub-agents."""

from collections.abc import Sequence

from attrs import evolve
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from loopkernel.data.children import ChildCall
from loopkernel.data.ids import (
    CorrectionOperation,
    HandoffOperation,
    HookOperation,
    ModelOperation,
    OperationKind,
    RunOperation,
    SummaryOperation,
)
from loopkernel.data.outside_deltas import (
    ChildAsks,
    ChildEnded,
    ChildProgress,
    CorrectionAnswered,
    HandoffDone,
    HandoffFailed,
    HookAnswer,
    HookAnswered,
    HookContinue,
    SummaryFailed,
    SummaryReady,
)
from loopkernel.data.states import Compacting, Finishing, HandingOff, Streaming, Thinking
from loopkernel.data.thread_deltas import Disposed, Forked, Resumed
from loopkernel.data.tools import Claim
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.user_deltas import CancelAll, CompactNow, EditMessage, Enqueue, Say, StartHandoff, Steer
from loopkernel.data.words import TurnEndReason
from loopkernel.laws.views import ledger_in
from loopkernel.testing.stateful.calls import CallRules
from loopkernel.testing.strategies.conversation import claims
from loopkernel.testing.strategies.deltas import ChildDelta, child_calls, child_deltas, hook_answers
from loopkernel.testing.strategies.values import raw_texts, usages
from loopkernel.testing.strategies.walks import AGENT

_texts = st.sampled_from(("a", "b")) | raw_texts
_billed = st.just(NO_USAGE) | usages
# What a user may want, or the process meet, while something other than the model and the tools is waited for.
Intrusion = Say | Enqueue | Steer | CancelAll | Resumed | Disposed | Forked
_intrusions: st.SearchStrategy[Intrusion] = st.sampled_from(
    (
        *(Say(content=()), Enqueue(content=()), Steer(content=())),
        *(CancelAll(), Resumed(), Disposed(), Forked(session_id="t")),
    )
)


class OutsideRules(CallRules):
    """What the kernel asks outside, beside the model and the tools, is answered in every way."""

    # --- hooks and corrections ----------------------------------------------------------------------------

    @precondition(lambda self: self.is_open(OperationKind.HOOK))
    @rule(data=st.data(), answer=hook_answers)
    def answer_hook(self, data: st.DataObject, answer: HookAnswer) -> None:
        """A hook that is asked says anything."""
        self.deliver(HookAnswered(HookOperation(self.number(OperationKind.HOOK, data)), answer))

    @precondition(lambda self: self.is_open(OperationKind.HOOK))
    @rule(answers=st.lists(st.just(HookContinue()) | hook_answers, min_size=3, max_size=6))
    def answer_hooks(self, answers: list[HookAnswer]) -> None:
        """All hooks that are asked, and those asked after them, answer; mostly they let the loop go on."""
        for answer in answers:
            asked = self.witness.open_operations(OperationKind.HOOK)
            if not asked:
                return
            self.deliver(HookAnswered(HookOperation(asked[0]), answer))

    @precondition(lambda self: self.is_open(OperationKind.CORRECTION))
    @rule(data=st.data(), text=st.none() | _texts, usage=_billed)
    def correct_course(self, data: st.DataObject, text: str | None, usage: Usage) -> None:
        """The course is to be corrected, or not."""
        operation = CorrectionOperation(self.number(OperationKind.CORRECTION, data))
        self.deliver(CorrectionAnswered(operation, text, usage))

    # --- compaction and handoff ---------------------------------------------------------------------------

    @rule(twice=st.booleans())
    def compact(self, twice: bool) -> None:
        """The user wants the thread to be smaller."""
        self.deliver(CompactNow())
        if twice:
            self.deliver(CompactNow())

    @precondition(lambda self: self.is_open(OperationKind.SUMMARY))
    @rule(data=st.data(), text=st.none() | _texts, usage=_billed)
    def summarise(self, data: st.DataObject, text: str | None, usage: Usage) -> None:
        """The summary is ready, or could not be made."""
        operation = SummaryOperation(self.number(OperationKind.SUMMARY, data))
        if text is None:
            self.deliver(SummaryFailed(operation, "no", usage))
        else:
            self.deliver(SummaryReady(operation, text, usage))

    @rule(goal=_texts)
    def hand_off(self, goal: str) -> None:
        """The work is to go on in a new thread."""
        self.deliver(StartHandoff(goal))

    @precondition(lambda self: self.is_open(OperationKind.HANDOFF))
    @rule(data=st.data(), done=st.booleans())
    def end_handoff(self, data: st.DataObject, done: bool) -> None:
        """There is a new thread, or none."""
        operation = HandoffOperation(self.number(OperationKind.HANDOFF, data))
        self.deliver(HandoffDone(operation, "t") if done else HandoffFailed(operation, "no"))

    @precondition(
        lambda self: (
            isinstance(self.state, Thinking | Compacting | Finishing | HandingOff)
            or (isinstance(self.state, Streaming) and self.state.after is not None)
        )
    )
    @rule(data=st.data(), delta=_intrusions | st.none())
    def intrude(self, data: st.DataObject, delta: Intrusion | None) -> None:
        """The user, or the process, does not wait for that; None: a message is edited."""
        sent = self.witness.thread.editable()
        if delta is None and sent:
            self.deliver(EditMessage(message=data.draw(st.sampled_from(sent), label="message"), content=()))
        else:
            self.deliver(delta or CancelAll())

    # --- sub-agents ---------------------------------------------------------------------------------------

    def sub_agents(self) -> Sequence[RunOperation]:
        """The runs of sub-agents that go on."""
        ledger = ledger_in(self.state)
        entries = () if ledger is None else ledger.entries
        return [e.operation for e in entries if e.child is not None and e.has_run and e.operation is not None]

    @precondition(lambda self: self.is_open(OperationKind.MODEL))
    @rule(data=st.data(), claim=claims, count=st.integers(1, 2))
    def call_sub_agents(self, data: st.DataObject, claim: Claim, count: int) -> None:
        """The reply calls sub-agents, and nothing else."""
        self.call_all(ModelOperation(self.number(OperationKind.MODEL, data)), [(AGENT, claim, False, False)] * count)

    @precondition(lambda self: bool(self.sub_agents()))
    @rule(data=st.data(), reason=st.sampled_from(TurnEndReason), text=_texts, usage=_billed, calls=st.integers(0, 2))
    def end_sub_agent(self, data: st.DataObject, reason: TurnEndReason, text: str, usage: Usage, calls: int) -> None:
        """A sub-agent has ended."""
        operation = data.draw(st.sampled_from(self.sub_agents()), label="run")
        ended = ChildEnded(operation=operation, reason=reason, text=text, usage=usage, tool_calls=calls)
        self.deliver(ended)

    @precondition(lambda self: bool(self.sub_agents()))
    @rule(data=st.data(), asked=st.just(()) | st.lists(child_calls, min_size=1, max_size=2, unique=True).map(tuple))
    def ask_from_below(self, data: st.DataObject, asked: tuple[ChildCall, ...]) -> None:
        """Calls of a sub-agent wait for a person now; or none does any more."""
        self.deliver(ChildAsks(data.draw(st.sampled_from(self.sub_agents()), label="run"), asked))

    @precondition(lambda self: bool(self.sub_agents()))
    @rule(data=st.data(), text=_texts)
    def hear_of_sub_agent(self, data: st.DataObject, text: str) -> None:
        """A sub-agent has said something."""
        self.deliver(ChildProgress(data.draw(st.sampled_from(self.sub_agents()), label="run"), text))

    @precondition(lambda self: self.is_open(OperationKind.RUN) or bool(self.witness.aborted))
    @rule(data=st.data(), delta=child_deltas)
    def report_as_sub_agent(self, data: st.DataObject, delta: ChildDelta) -> None:
        """Anything that a sub-agent can report, of any run, be it of a tool, or aborted."""
        runs = [*self.witness.open_operations(OperationKind.RUN), *sorted(self.witness.aborted)]
        self.deliver(evolve(delta, operation=RunOperation(data.draw(st.sampled_from(runs), label="run"))))
