"""Plays of the state machine: rows of moves, each about what is open or at rest just then, so that a run gets far."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Protocol, TypeVar

from attrs import evolve
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from loopkernel.data.choices import Lifetime
from loopkernel.data.deltas import Delta
from loopkernel.data.ids import (
    CheckOperation,
    CorrectionOperation,
    HandoffOperation,
    HookOperation,
    ModelOperation,
    OperationKind,
    RunOperation,
    SummaryOperation,
)
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCall, ModelCompleted, ModelFailed, ModelText
from loopkernel.data.outside_deltas import (
    ChildAsks,
    ChildEnded,
    ChildProgress,
    CorrectionAnswered,
    HandoffDone,
    HandoffFailed,
    HookAnswer,
    HookAnswered,
    HookBlock,
    HookContinue,
    HookFault,
    HookModify,
    HookRetry,
    SummaryFailed,
    SummaryReady,
    TimerFired,
)
from loopkernel.data.states import Cancelled, Done, Idle, Initial
from loopkernel.data.thread_deltas import Acquired, Disposed, Forked, Resumed
from loopkernel.data.timers import Timer
from loopkernel.data.tool_deltas import ToolAsked, ToolChecked, ToolFailed, ToolLost, ToolStopped, ToolSucceeded
from loopkernel.data.tools import AccessMode, Claim, Tool, ToolOutput, ValidCall
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.user_deltas import (
    AnswerAfterCrash,
    AnswerQuestion,
    Approve,
    CancelAll,
    CancelCall,
    ChangePolicy,
    CompactNow,
    CrashAnswerKind,
    DismissError,
    EditMessage,
    Enqueue,
    Reject,
    RetryNow,
    Say,
    StartHandoff,
    Steer,
)
from loopkernel.data.words import ErrorClass, StopReason, TurnEndReason
from loopkernel.laws.step_laws import pending_timers
from loopkernel.testing.explorer.scope import ASKED_BY_CHILD
from loopkernel.testing.stateful.outside import OutsideRules
from loopkernel.testing.strategies.walks import AGENT, OFFERED
from loopkernel.testing.witness_calls import Waiting

T = TypeVar("T")
Move = Callable[[], None]
WORDS = "a word or two"  # so that what is said adds up to something
_CLAIM = Claim("a", AccessMode.WRITE)
_INPUT = Json.of({"path": "a"})
_SPENT = (NO_USAGE, Usage(input=3))
_ASKS, _READS, _WRITES = (next(tool for tool in OFFERED if tool.name == name) for name in ("edit", "read", "write"))
_REPLIES: tuple[StopReason | ErrorClass | tuple[Tool, ...] | None, ...] = (
    *[StopReason.END_TURN] * 4,
    *(StopReason.MAX_TOKENS, StopReason.PAUSE, StopReason.REFUSAL, StopReason.GUARDRAIL_INTERVENED),
    *(StopReason.STOP_SEQUENCE, StopReason.CONTENT_FILTERED, None, None),
    *(ErrorClass.OVERLOADED, ErrorClass.PROMPT_TOO_LONG, ErrorClass.PROMPT_TOO_LONG, ErrorClass.AUTH),
    *((_READS,), (_ASKS,), (AGENT,), (_READS, _ASKS), (_READS, AGENT), (AGENT, _ASKS), (AGENT, AGENT)),
    *((_WRITES, _ASKS), (_WRITES, AGENT), (_WRITES,)),
)
_OUTPUTS = (ToolOutput(), ToolOutput(), ToolOutput(final=True), ToolOutput(background=True))
_LEFT_BEHIND: tuple[Delta, ...] = (Resumed(), Disposed(), Forked(session_id="t"), CompactNow())
_BESIDE: tuple[Delta, ...] = (Steer(content=()), Enqueue(content=()), DismissError(), RetryNow())
_FROM_REST: tuple[Delta, ...] = (RetryNow(), StartHandoff("a"))
_ANSWERS: tuple[HookAnswer, ...] = (
    *[HookContinue()] * 4,
    *(HookBlock("no"), HookRetry(), HookFault("broken")),
    *(HookModify(input=Json.of({"path": "b"})), HookModify(result="b"), HookModify(message="b")),
)


class Choose(Protocol):
    """One of these, whichever it is."""

    def __call__(self, options: Sequence[T], /) -> T: ...


def drawing(data: st.DataObject) -> Choose:
    """What Hypothesis chooses."""

    def choose(options: Sequence[T], /) -> T:
        return data.draw(st.sampled_from(options))

    return choose


class PlayRules(OutsideRules):
    """What is asked is answered, what runs ends, who is at rest is spoken to; now and then something cuts it short."""

    @rule(data=st.data(), most=st.integers(4, 16))
    def play(self, data: st.DataObject, most: int) -> None:
        """A row of any moves."""
        self.go(drawing(data), most, self.moves)

    @precondition(lambda self: isinstance(self.state, Idle | Cancelled))
    @rule(data=st.data(), most=st.integers(4, 16))
    def play_from_rest(self, data: st.DataObject, most: int) -> None:
        """A message, and a row of moves that cut nothing short."""
        self.deliver(Say(content=()))
        self.go(drawing(data), most, self.answers)

    @precondition(lambda self: not isinstance(self.state, Idle | Cancelled | Done | Initial))
    @rule(data=st.data(), most=st.integers(1, 6))
    def play_and_break_off(self, data: st.DataObject, most: int) -> None:
        """A row of moves that cut nothing short, and something that does."""
        self.go(drawing(data), most, self.answers)
        self.go(drawing(data), 1, self.wishes)

    def go(self, choose: Choose, most: int, moves: Callable[[Choose], Iterator[Move]]) -> None:
        """A row of moves, each chosen of those that may come just then."""
        for _ in range(most):
            found = list(moves(choose))
            if found:
                choose(found)()

    # --- what may come ------------------------------------------------------------------------------------

    def moves(self, choose: Choose) -> Iterator[Move]:
        """What is owed, or wanted."""
        owed = list(self.answers(choose))
        yield from (*owed, *owed)
        yield from self.wishes(choose)

    def answers(self, choose: Choose) -> Iterator[Move]:
        """What is owed for what is open."""
        seen = self.witness
        yield from (
            partial(self.go_on_with_reply, choose, number) for number in seen.open_operations(OperationKind.MODEL)
        )
        for number in seen.open_operations(OperationKind.CHECK):
            yield partial(self.deliver, ToolChecked(CheckOperation(number), ValidCall((_CLAIM,))))
        for number in seen.open_operations(OperationKind.HOOK):
            yield partial(self.say_as_hook, choose, HookOperation(number))
        for number in seen.open_operations(OperationKind.CORRECTION):
            for text in (None, WORDS):
                yield partial(self.deliver, CorrectionAnswered(CorrectionOperation(number), text))
        for number in seen.open_operations(OperationKind.SUMMARY):
            yield partial(self.deliver, SummaryReady(SummaryOperation(number), "", Usage(input=1)))
            yield partial(self.deliver, SummaryFailed(SummaryOperation(number), "no"))
        for number in seen.open_operations(OperationKind.HANDOFF):
            yield partial(self.deliver, HandoffDone(HandoffOperation(number), "t"))
            yield partial(self.deliver, HandoffFailed(HandoffOperation(number), "no"))
        yield from self._ends_of_runs(choose)
        yield from self._words_of_persons()
        yield from (partial(self.expire, timer) for timer in pending_timers(self.state)[:2])

    def wishes(self, choose: Choose) -> Iterator[Move]:
        """What the user may want, and the process meet."""
        state = self.state
        if isinstance(state, Done):
            return
        if isinstance(state, Initial):
            yield from (partial(self.deliver, delta) for delta in (Acquired(), Resumed()))
            return
        yield partial(self.deliver, Say(content=()))
        yield partial(self.deliver, choose(_BESIDE))
        yield partial(self.deliver, choose(_LEFT_BEHIND))
        sent = self.witness.thread.editable()
        if sent:
            yield partial(self.deliver, EditMessage(message=sent[0], content=()))
        if isinstance(state, Idle | Cancelled):
            yield self.change_lifetime
            yield partial(self.deliver, choose(_FROM_REST))
            return
        yield partial(self.deliver, CancelAll())
        yield from (partial(self.deliver, CancelCall(call)) for call in self.witness.open_calls[:1])

    def change_lifetime(self) -> None:
        """A task becomes a session, or the other way round."""
        session = self.state.session
        if session is not None:
            policy = session.settings.policy
            task = policy.lifetime is Lifetime.SESSION
            self.deliver(ChangePolicy(evolve(policy, lifetime=Lifetime.TASK if task else Lifetime.SESSION)))

    # --- the moves ----------------------------------------------------------------------------------------

    def go_on_with_reply(self, choose: Choose, number: int) -> None:
        """The reply is a text, has calls, is empty, or fails, perhaps when a call of it has started early."""
        operation, usage = ModelOperation(number), choose(_SPENT)
        kind = choose(_REPLIES)
        if isinstance(kind, ErrorClass):
            self.deliver(ModelFailed(operation, error=kind, usage=usage))
        elif isinstance(kind, StopReason):
            self.deliver(ModelText(operation, WORDS))
            self.deliver(ModelCompleted(operation, kind, usage))
        elif kind is None:
            self.deliver(ModelCompleted(operation, StopReason.END_TURN, usage))
        else:
            for place, tool in enumerate(kind, 1):
                verdict = ValidCall((Claim(f"{place}", AccessMode.WRITE),))
                made = ModelCall(operation, provider_id=f"c{place}", tool=tool.name, input=_INPUT, verdict=verdict)
                self.deliver(made)
            if kind[0] is _WRITES and choose((True, False)):
                self.deliver(ModelFailed(operation, error=ErrorClass.OVERLOADED, usage=usage))
            else:
                self.deliver(ModelCompleted(operation, StopReason.TOOL_USE, usage))

    def say_as_hook(self, choose: Choose, operation: HookOperation) -> None:
        """A hook says anything; mostly to go on."""
        self.deliver(HookAnswered(operation, choose(_ANSWERS)))

    def expire(self, timer: Timer) -> None:
        """The time is over."""
        self.now_ms = max(self.now_ms, timer.deadline_ms)
        self.deliver(TimerFired(timer.operation))

    def _ends_of_runs(self, choose: Choose) -> Iterator[Move]:
        for number in self.tool_runs():
            run = RunOperation(number)
            end: Delta = ToolSucceeded(run, choose(_OUTPUTS))
            yield partial(self.deliver, end)
            other: tuple[Delta, ...] = (ToolFailed(run), ToolAsked(run, "a"), ToolLost(run))
            yield partial(self.deliver, choose(other))
        for run in self.sub_agents():
            for reason in (TurnEndReason.MODEL_STOP, TurnEndReason.ERROR):
                yield partial(self.deliver, ChildEnded(operation=run, reason=reason, text="a", tool_calls=1))
            yield partial(self.say_as_sub_agent, choose, run)
        for number in sorted(self.witness.aborted):
            yield partial(self.deliver, ToolStopped(RunOperation(number)))

    def say_as_sub_agent(self, choose: Choose, run: RunOperation) -> None:
        """A sub-agent says something, waits for a person, or goes on."""
        if choose((True, False, False)):
            self.deliver(ChildProgress(run, "a"))
        else:
            self.deliver(ChildAsks(run, choose(((), (ASKED_BY_CHILD,), (ASKED_BY_CHILD,)))))

    def _words_of_persons(self) -> Iterator[Move]:
        for call in self.witness.seen.waiting(Waiting.APPROVAL):
            yield partial(self.deliver, Approve(call=call))
            yield partial(self.deliver, Reject(call=call))
        for call in self.witness.seen.waiting(Waiting.ANSWER):
            yield partial(self.deliver, AnswerQuestion(call=call, value=None))
        for call in self.witness.seen.waiting(Waiting.WORD):
            yield partial(self.deliver, AnswerAfterCrash(call=call, kind=CrashAnswerKind.RERUN))
