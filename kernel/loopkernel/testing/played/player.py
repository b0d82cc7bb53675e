"""A run played by hand: a player that keeps what is open outside, so that moves need no operation ids.

It goes on where a broken kernel does something else than was expected, and `settle` answers all that is open, within
a bound. Its tools are in `tools`.
"""

from collections.abc import Callable
from typing import final

from loopkernel.data.blocks import TextBlock
from loopkernel.data.children import ChildCall
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import (
    AbortModel,
    AbortOther,
    AbortTool,
    AskHook,
    CallModel,
    CancelTimer,
    CheckCall,
    CheckCorrection,
    Effect,
    HandOff,
    StartChild,
    StartTimer,
    StartTool,
    Summarise,
)
from loopkernel.data.events import ApprovalAsked, QuestionAsked, ToolEnded
from loopkernel.data.foreign import ForeignMessage
from loopkernel.data.ids import (
    CallId,
    CheckOperation,
    ModelOperation,
    OperationKind,
    RunOperation,
    TimerOperation,
)
from loopkernel.data.model_deltas import (
    ModelCall,
    ModelCompleted,
    ModelFailed,
    ModelText,
)
from loopkernel.data.outside_deltas import (
    ChildAsks,
    ChildEnded,
    CorrectionAnswered,
    HandoffDone,
    HandoffFailed,
    HookAnswer,
    HookAnswered,
    HookContinue,
    SummaryFailed,
    SummaryReady,
    TimerFired,
)
from loopkernel.data.policy import Policy
from loopkernel.data.records import StepRecord
from loopkernel.data.steps import Context
from loopkernel.data.thread_deltas import Acquired, Created, Resumed
from loopkernel.data.tool_deltas import ToolAsked, ToolChecked, ToolFailed, ToolLost, ToolStopped, ToolSucceeded
from loopkernel.data.tools import (
    Tool,
    ToolOutput,
)
from loopkernel.data.usage import Usage
from loopkernel.data.user_deltas import AnswerAfterCrash, AnswerQuestion, Approve, CrashAnswerKind, Say
from loopkernel.data.words import ErrorClass, StopReason, TimerPurpose, TurnEndReason
from loopkernel.replaying import Transition
from loopkernel.testing.played.tools import NOTHING, POLICY, TOOLS, USAGE, Call, verdict_on
from loopkernel.testing.run import Run

Other = AskHook | CheckCorrection | Summarise | HandOff

MOVE_MS = 10  # what each move takes
MOST_ROUNDS = 20  # after which `settle` gives up: the laws say what is wrong


@final
class Player(Run):
    """Plays one run against a transition. Each move takes MOVE_MS."""

    def __init__(self, transition: Transition) -> None:
        super().__init__(transition)
        self.model: ModelOperation | None = None
        self.checks: dict[CheckOperation, CheckCall] = {}
        self.runs: dict[RunOperation, CallId] = {}
        self.aborted: list[RunOperation] = []
        self.asked: dict[CallId, bool] = {}  # whether it is a question of a running tool
        self.timers: dict[TimerOperation, StartTimer] = {}
        self.others: dict[tuple[OperationKind, int], Other] = {}
        self.children: dict[RunOperation, CallId] = {}

    def deliver(self, delta: Delta, *, earlier_ms: int = 0) -> None:
        """One delta. Where the kernel raises, nothing has happened: that is what law TOTAL is told by."""
        self.now_ms += MOVE_MS
        now_ms = self.now_ms - earlier_ms
        try:
            effects = self.take(delta, now_ms).effects
        except Exception:  # whatever it is: the laws judge the step
            self.steps.append(StepRecord(self.state, Context(delta, now_ms), self.state, ()))
            return
        for effect in effects:
            self._keep(effect)

    def _keep(self, effect: Effect) -> None:
        if isinstance(effect, CallModel):
            self.model = effect.operation
        elif isinstance(effect, AbortModel):
            self.model = None
        elif isinstance(effect, CheckCall):
            self.checks[effect.operation] = effect
        elif isinstance(effect, StartTool):
            self.runs[effect.operation] = effect.call
        elif isinstance(effect, StartChild):
            self.children[effect.operation] = effect.call
        elif isinstance(effect, AskHook):
            self.others[OperationKind.HOOK, effect.operation] = effect
        elif isinstance(effect, CheckCorrection):
            self.others[OperationKind.CORRECTION, effect.operation] = effect
        elif isinstance(effect, Summarise):
            self.others[OperationKind.SUMMARY, effect.operation] = effect
        elif isinstance(effect, HandOff):
            self.others[OperationKind.HANDOFF, effect.operation] = effect
        elif isinstance(effect, AbortOther):
            self.others.pop((effect.kind, effect.operation), None)
        elif isinstance(effect, AbortTool):
            self.runs.pop(effect.operation, None)
            self.children.pop(effect.operation, None)
            self.aborted.append(effect.operation)
        elif isinstance(effect, ApprovalAsked | QuestionAsked):
            self.asked[effect.call] = isinstance(effect, QuestionAsked)
        elif isinstance(effect, ToolEnded):
            self.asked.pop(effect.result.call, None)
        elif isinstance(effect, StartTimer):
            self.timers[effect.operation] = effect
        elif isinstance(effect, CancelTimer):
            self.timers.pop(effect.operation, None)

    def begin(
        self, policy: Policy = POLICY, tools: tuple[Tool, ...] = TOOLS, start: tuple[ForeignMessage, ...] = ()
    ) -> None:
        """A session with these settings, ready for the user; `start` is a conversation from elsewhere."""
        self.deliver(Created(session_id="s", policy=policy, tools=tools, instructions="be brief", start=start))
        self.deliver(Acquired())

    def say(self, text: str, key: str | None = None) -> None:
        """The user says something."""
        self.deliver(Say(content=(TextBlock(text),), key=key))

    def stream(self, *calls: Call, text: str = "") -> None:
        """The open model call says something and makes calls; it does not end."""
        if self.model is None:
            return
        if text:
            self.deliver(ModelText(self.model, text))
        for place, call in enumerate(calls, 1):
            if self.model is not None:
                named = f"p{place}"
                made = ModelCall(self.model, provider_id=named, tool=call.tool, input=call.input, after=call.after)
                self.deliver(made)

    def complete(self, stop: StopReason = StopReason.END_TURN) -> None:
        """The open model call ends."""
        operation, self.model = self.model, None
        if operation is not None:
            self.deliver(ModelCompleted(operation, stop, USAGE))

    def reply(self, *calls: Call, text: str = "", stop: StopReason | None = None) -> None:
        """A whole reply, and the verdicts on its calls."""
        self.stream(*calls, text=text)
        self.complete(stop or (StopReason.TOOL_USE if calls else StopReason.END_TURN))
        self.check()

    def fail(
        self,
        error: ErrorClass = ErrorClass.SERVER,
        retry_after_ms: int | None = None,
        *,
        unfinished: int | None = None,
    ) -> None:
        """The open model call fails; the server may ask to wait, and so much of what came last may not be whole."""
        operation, self.model = self.model, None
        if operation is not None:
            self.deliver(
                ModelFailed(operation, error=error, retry_after_ms=retry_after_ms, usage=USAGE, unfinished=unfinished)
            )

    def fail_again(self, error: ErrorClass = ErrorClass.SERVER, retry_after_ms: int | None = None) -> None:
        """The wait for the next try is over, and it fails too."""
        self.expire(TimerPurpose.RETRY)
        self.fail(error, retry_after_ms)

    def check(self) -> None:
        """Every open check answers, in order."""
        while self.checks:
            operation = next(iter(self.checks))
            self.deliver(ToolChecked(operation, verdict_on(self.checks.pop(operation))))

    def end(self, place: int = 0, *, fails: bool = False, text: str | None = None, background: bool = False) -> None:
        """The open run at this place reports its end; its output names its call, unless it is another `text`.

        With `background` it goes on behind the answer.
        """
        if place >= len(self.runs):
            return
        operation = list(self.runs)[place]
        call = self.runs[operation] if background else self.runs.pop(operation)
        output = ToolOutput(content=(TextBlock(text or f"output of {call}"),), background=background)
        self.deliver(ToolFailed(operation, output) if fails else ToolSucceeded(operation, output))

    def stop(self, *, reports: bool = False, child: bool = False) -> None:
        """The run that was aborted first has stopped, or reports its end all the same; so does a sub-agent."""
        if self.aborted:
            operation = self.aborted.pop(0)
            if child:
                late = ChildEnded(operation=operation, reason=TurnEndReason.USER_ABORT, usage=USAGE, tool_calls=1)
                self.deliver(late)
                return
            self.deliver(ToolSucceeded(operation) if reports else ToolStopped(operation))

    def lose(self, place: int = 0, *, aborted: bool = False) -> None:
        """Nobody will say how the open run at this place has ended, or the run that was aborted so."""
        runs = self.aborted if aborted else list(self.runs)
        if place < len(runs):
            operation = runs[place]
            if aborted:
                self.aborted.remove(operation)
            else:
                del self.runs[operation]
            self.deliver(ToolLost(operation))

    def ask(self, question: str, place: int = 0) -> None:
        """The open run at this place asks the user something."""
        if place < len(self.runs):
            self.deliver(ToolAsked(list(self.runs)[place], question))

    def answer(self, answer: HookAnswer | str | None = None, *, usage: Usage = USAGE) -> None:
        """Who was asked first answers: a hook so, or it lets go on; of the others this is the text.

        Without a text there is nothing to correct, no summary of the thread, and no new one.
        """
        if not self.others:
            return
        text = answer if isinstance(answer, str) else None
        operation = next(iter(self.others))
        match self.others.pop(operation):
            case AskHook(number):
                self.deliver(
                    HookAnswered(number, HookContinue() if answer is None or isinstance(answer, str) else answer)
                )
            case CheckCorrection(number):
                self.deliver(CorrectionAnswered(number, text, usage))
            case Summarise() as asked:
                failed = SummaryFailed(asked.operation, "no", usage)
                self.deliver(failed if text is None else SummaryReady(asked.operation, text, usage))
            case HandOff() as asked:
                failed_handoff = HandoffFailed(asked.operation, "no")
                self.deliver(failed_handoff if text is None else HandoffDone(asked.operation, text))

    def approve(self, call: CallId) -> None:
        """A person approves the call."""
        self.asked.pop(call, None)
        self.deliver(Approve(call=call))

    def child_asks(self, *positions: int) -> None:
        """The first sub-agent waits for a person, about calls of its first reply; about none: it goes on."""
        operation = next(iter(self.children), None)
        if operation is not None:
            asked = tuple(ChildCall((CallId(ModelOperation(1), position),)) for position in positions)
            self.deliver(ChildAsks(operation, asked))

    def child_ends(self, reason: TurnEndReason = TurnEndReason.MODEL_STOP, *, place: int = 0, calls: int = 1) -> None:
        """The sub-agent at this place comes to an end."""
        if place < len(self.children):
            operation = list(self.children)[place]
            call = self.children.pop(operation)
            self.deliver(
                ChildEnded(operation=operation, reason=reason, text=f"done {call}", usage=USAGE, tool_calls=calls)
            )

    def expire(self, purpose: TimerPurpose) -> None:
        """The time of the first timer of this purpose is over."""
        timer = next((timer for timer in self.timers.values() if timer.purpose is purpose), None)
        if timer is not None:
            del self.timers[timer.operation]
            self.now_ms = max(self.now_ms, timer.deadline_ms - MOVE_MS)
            self.deliver(TimerFired(timer.operation))

    def crash(self) -> None:
        """The process dies, and all that ran in it; another one takes the session up."""
        self.model = None
        self.checks, self.runs, self.aborted, self.timers = {}, {}, [], {}
        self.others, self.children = {}, {}
        self.deliver(Resumed())

    def settle(self) -> None:
        """All that is open ends: checks, waits for a person, runs, then the model with a word, until nothing is."""
        for _ in range(MOST_ROUNDS):
            self.check()
            for call, question in tuple(self.asked.items()):
                self.asked.pop(call, None)
                self._answer(call, question=question)
            while self.others:
                self.answer(None if next(iter(self.others))[0] is not OperationKind.SUMMARY else "so far")
            while self.runs:
                self.end()
            while self.children:
                self.child_ends()
            while self.aborted:
                self.stop()
            if self.model is None and not (self.checks or self.asked or self.runs or self.others or self.children):
                return
            if self.model is not None:
                self.reply(text="done")

    def _answer(self, call: CallId, *, question: bool) -> None:
        """Who is asked says yes."""
        if question:
            self.deliver(AnswerQuestion(call=call, value=NOTHING))
            return
        self.deliver(Approve(call=call))
        self.deliver(AnswerAfterCrash(call=call, kind=CrashAnswerKind.CANCEL))


Script = Callable[[Player], None]


def play(script: Script, transition: Transition) -> tuple[StepRecord, ...]:
    """The steps of the run that the script plays."""
    player = Player(transition)
    script(player)
    return tuple(player.steps)
