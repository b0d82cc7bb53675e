"""What the witness knows of the calls: which are open, what a person has to do with each, and how answers are taken."""

import enum
from collections.abc import Iterator

from attrs import Factory, define

from loopkernel.data.blocks import RawInput
from loopkernel.data.choices import ApprovalMode, RestartDangerous
from loopkernel.data.effects import CheckCall, StartChild, StartTool
from loopkernel.data.events import ApprovalAsked, EditRefused, QuestionAsked, ToolEnded
from loopkernel.data.ids import CallId, CheckOperation, ModelOperation, RunOperation
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.ledgers import ApprovalWait, ChildWait, CrashWait, Ledger, LedgerEntry, QuestionWait
from loopkernel.data.model_deltas import ModelCall
from loopkernel.data.outside_deltas import ChildAsks
from loopkernel.data.tools import Claim, Decision, ValidCall, Verdict
from loopkernel.data.user_deltas import (
    AnswerAfterCrash,
    AnswerQuestion,
    Approve,
    CallAnswer,
    Correct,
    CrashAnswerKind,
    Reject,
    Swap,
)
from loopkernel.data.words import CallStatus, RefusalReason, UserAction
from loopkernel.testing.slow_approval import SlowApprovals
from loopkernel.testing.witness_outcomes import ACCEPTED, REFUSED, Outcomes, only


class Waiting(enum.Enum):
    """What a call waits for from a person."""

    APPROVAL = "approval"
    EDIT = "the check of an edit"
    ANSWER = "the answer to a question"
    WORD = "a word after a crash"
    CHILD = "a word to its sub-agent"


@define
class SeenCall:
    """A call as far as deltas and effects show it. `tool` and `input` are what would run now."""

    call: CallId
    provider_id: str
    tool: str
    input: Json | RawInput
    status: CallStatus | None = None  # None: it is open
    waits: Waiting | None = None
    shown: int = 0  # how often a person was asked
    answered: bool = False
    check: CheckOperation | None = None
    run: RunOperation | None = None  # which goes on, or is over and looked at by hooks
    child: bool = False  # what runs is a sub-agent
    over: bool = False  # the run has reported its end
    edit: tuple[UserAction, str, Json] | None = None  # that is being checked
    claims: tuple[Claim, ...] | None = None  # what its last check has found that it uses
    by_word: bool = False  # a person said after a crash that it is done
    own_report: bool = False  # it ran, and no cancel or timeout ended it
    doubted: bool = False  # of a log that nobody vouches for, and no person has let it run since

    @property
    def open(self) -> bool:
        """Whether it is not answered yet."""
        return self.status is None


@define
class SeenCalls:
    """All calls of the replies that were kept, and the settings that decide on them."""

    approvals: SlowApprovals = Factory(SlowApprovals)
    calls: dict[CallId, SeenCall] = Factory(dict)
    retracted: set[CallId] = Factory(set)  # with the reply that made them
    gone: set[ModelOperation] = Factory(set)  # replies that are not in the thread
    compacted: set[ModelOperation] = Factory(set)  # those of them that a compaction has taken out

    def open(self) -> list[SeenCall]:
        """The calls that are not answered yet."""
        return [call for call in self.calls.values() if call.open]

    def waiting(self, *kinds: Waiting) -> list[CallId]:
        """The calls that wait so for a person."""
        return [call.call for call in self.calls.values() if call.open and call.waits in kinds]

    def seen(self, delta: ModelCall) -> SeenCall:
        """One more call of a reply."""
        position = 1 + sum(call.reply == delta.operation for call in self.calls)
        call = SeenCall(CallId(delta.operation, position), delta.provider_id, delta.tool, delta.input)
        call.claims = delta.verdict.claims if isinstance(delta.verdict, ValidCall) else None
        self.calls[call.call] = call
        return call

    def forget_reply(self, reply: ModelOperation) -> None:
        """The reply is retracted, and its calls with it."""
        for call in [call for call in self.calls if call.reply == reply]:
            del self.calls[call]
            self.retracted.add(call)

    # --- predictions ------------------------------------------------------------------------------------

    def outcomes_of_answer(self, delta: CallAnswer) -> Outcomes:
        """How a person's word on a call is taken, where the session takes any (rules ASK-2, ASK-3 and TOOL-19)."""
        call = self.calls.get(delta.call)
        if call is None:
            return self._outcomes_without_call(delta.call)
        if call.call.reply in self.compacted:
            return only(RefusalReason.STALE)  # how it was answered has left the thread too
        if not call.open or call.waits is None:
            return _outcomes_of_vain_answer(call)
        if call.waits is Waiting.EDIT:
            return only(RefusalReason.DUPLICATE)
        if call.waits is Waiting.CHILD:
            return REFUSED  # it is the sub-agent that is asked, not its call
        fits: dict[Waiting, type | tuple[type, ...]] = {
            Waiting.APPROVAL: (Approve, Reject, Correct, Swap),
            Waiting.ANSWER: (AnswerQuestion, Reject),
            Waiting.WORD: AnswerAfterCrash,
        }
        if not isinstance(delta, fits[call.waits]):
            return only(RefusalReason.INVALID)
        if isinstance(delta, Correct | Swap) and not self._can_be_resolved(call.call, delta.input.value()):
            return only(RefusalReason.INVALID)
        return ACCEPTED

    def _can_be_resolved(self, call: CallId, value: JsonValue) -> bool:
        """Whether all that the input refers to is there: earlier calls of the reply, which are done (rule CALL-1)."""
        for name in _references(value):
            named = [
                earlier
                for earlier in self.calls.values()
                if earlier.call.reply == call.reply
                and earlier.call.position < call.position
                and earlier.provider_id == name
            ]
            if not named or max(named, key=lambda one: one.call.position).status is not CallStatus.DONE:
                return False
        return True

    def _outcomes_without_call(self, call: CallId) -> Outcomes:
        """No reply has the call, or none has it any more; of a reply that is gone, nobody can say what it had."""
        if call in self.retracted:
            return only(RefusalReason.STALE)
        either = frozenset({RefusalReason.STALE, RefusalReason.UNKNOWN})
        return either if call.reply in self.gone else only(RefusalReason.UNKNOWN)

    def outcomes_of_cancel(self, call: CallId, aside: bool) -> Outcomes:
        """How a cancel of one call is taken; `aside`: its run goes on in the background."""
        seen = self.calls.get(call)
        if aside or (seen is not None and seen.open):
            return ACCEPTED
        if seen is None:
            return self._outcomes_without_call(call)
        if call.reply in self.compacted:
            return only(RefusalReason.STALE)
        if seen.by_word:
            return frozenset({RefusalReason.DUPLICATE, RefusalReason.STALE})
        return only(RefusalReason.DUPLICATE if seen.own_report else RefusalReason.STALE)

    # --- what happens -----------------------------------------------------------------------------------

    def answer(self, delta: CallAnswer) -> None:
        """The person's word was accepted."""
        call = self.calls[delta.call]
        if isinstance(delta, Correct):
            call.waits, call.edit = Waiting.EDIT, (UserAction.CORRECT, call.tool, delta.input)
            return
        if isinstance(delta, Swap):
            call.waits, call.edit = Waiting.EDIT, (UserAction.SWAP, delta.tool, delta.input)
            return
        call.waits, call.answered, call.doubted = None, True, call.doubted and call.waits is Waiting.ANSWER
        call.by_word = isinstance(delta, AnswerAfterCrash) and delta.kind is CrashAnswerKind.DONE
        if isinstance(delta, Approve) and delta.remember is not None and isinstance(call.input, Json):
            self.approvals.remember(delta.remember, call.tool, call.input)

    def reconsider(self) -> list[CallId]:
        """Rules, mode, tools or remembered approvals have changed (rule ASK-5): the calls that are now denied."""
        denied: list[CallId] = []
        for call in self.open():
            if call.waits is Waiting.APPROVAL and isinstance(call.input, Json):
                decision = self._decision(call, call.input)
                if decision is Decision.ALLOW:
                    call.waits = None
                elif decision is Decision.DENY:
                    denied.append(call.call)
        return denied

    def _decision(self, call: SeenCall, given: Json) -> Decision:
        """Whether the call may run; what nobody vouches for is asked about whatever would allow it (rule RESUME-8)."""
        decision = self.approvals.decision(call.tool, given, call.claims, approved=call.doubted)
        if not call.doubted or decision is Decision.DENY:
            return decision
        mode = self.approvals.policy.approval_mode
        if mode is ApprovalMode.BYPASS:
            return self.approvals.decision(call.tool, given, call.claims)
        return Decision.DENY if mode is ApprovalMode.HEADLESS else Decision.ASK

    def judged(self, operation: CheckOperation, verdict: Verdict) -> EditRefused | None:
        """A check has answered: an edit takes the place of the call, or is refused, as is then to be told."""
        call = next((call for call in self.open() if call.check == operation), None)
        if call is None:
            return None
        call.check = None
        if call.edit is None:
            call.claims = verdict.claims if isinstance(verdict, ValidCall) else None
            return None
        (action, name, given), call.edit = call.edit, None
        tool = self.approvals.offered(name)
        if not isinstance(verdict, ValidCall) or tool is None or (tool.profile is not None and tool.profile.child):
            return EditRefused(call.call, action, RefusalReason.INVALID)
        if self.approvals.decision(name, given, verdict.claims, approved=True) is Decision.DENY:
            return EditRefused(call.call, action, RefusalReason.DENIED)
        call.waits, call.answered, call.tool, call.input, call.doubted = None, True, name, given, False
        call.claims = verdict.claims
        return None

    def child_asks(self, delta: ChildAsks) -> None:
        """A sub-agent waits for a person, or goes on."""
        for call in self.open():
            if call.run == delta.operation:
                call.waits = Waiting.CHILD if delta.asked else None

    def run_is_over(self, operation: int) -> None:
        """The run has reported its end; its call is told to have ended, or hooks look at it first."""
        for call in self.open():
            if call.run == operation:
                call.over, call.waits = True, None

    def restart(self, *, doubted: bool = False) -> set[CallId]:
        """The process has died with all runs and checks; gives the calls whose runs were in flight."""
        for call in self.open() if doubted else ():
            call.doubted, call.answered = True, False
        for call in self.open():
            if doubted and call.waits in (Waiting.APPROVAL, Waiting.EDIT):
                call.waits, call.edit = None, None  # it is checked anew, and then asked about
        running = {call.call for call in self.open() if call.run is not None and not call.over}
        for call in self.open():
            call.run, call.check = (call.run if call.over else None), None
            if call.call in running:
                call.waits = None
        return running

    def learn(
        self,
        effect: CheckCall | StartTool | StartChild | ApprovalAsked | QuestionAsked | EditRefused | ToolEnded,
        died: set[CallId],
    ) -> Iterator[str]:
        """An effect about a call; `died` are the calls whose runs the restart of this very step has found in flight."""
        name = effect.result.call if isinstance(effect, ToolEnded) else effect.call
        call = self.calls.get(name)
        if call is None or not call.open:
            yield f"{type(effect).__name__} is about call {name}, which is not open"
            return
        if isinstance(effect, CheckCall):
            call.check = effect.operation
            if call.edit is None:
                call.input = effect.input
            else:
                call.edit = (call.edit[0], effect.tool, effect.input)
        elif isinstance(effect, StartTool | StartChild):
            call.run, call.waits, call.over = effect.operation, None, False
            call.child = isinstance(effect, StartChild)
        elif isinstance(effect, ApprovalAsked):
            yield from self._asked(call, died)
        elif isinstance(effect, QuestionAsked):
            call.shown, call.waits = call.shown + 1, Waiting.ANSWER
        elif isinstance(effect, EditRefused):
            call.waits = Waiting.APPROVAL
        else:
            call.status, call.waits, call.run, call.edit = effect.result.status, None, None, None
            call.own_report = effect.result.ran and effect.result.reason is None

    def _asked(self, call: SeenCall, died: set[CallId]) -> Iterator[str]:
        call.shown += 1
        if call.waits is not None:
            return  # shown again, after the thread was released
        by_word = self.approvals.policy.on_restart.dangerous is RestartDangerous.ASK
        if call.call in died and by_word and self.approvals.is_dangerous(call.tool):
            call.waits, call.answered = Waiting.WORD, False
            return
        call.waits, call.answered = Waiting.APPROVAL, False
        if not isinstance(call.input, Json) or self._decision(call, call.input) is not Decision.ASK:
            yield f"call {call.call} ({call.tool}) is put to a person, who need not be asked"

    # --- what the state must hold -----------------------------------------------------------------------

    def contradictions(self, ledger: Ledger | None) -> Iterator[str]:
        """Where the ledger says otherwise."""
        entries = () if ledger is None else tuple(ledger.entries)
        held = {entry.call.id for entry in entries if entry.is_open}
        if held != {call.call for call in self.open()}:
            yield f"open are the calls {sorted(map(str, held))}, not {[str(call.call) for call in self.open()]}"
            return
        for entry in entries:
            call = self.calls.get(entry.call.id)
            if call is None:
                yield f"the ledger holds call {entry.call.id}, which no reply has"
            elif call.open and _waiting(entry) is not call.waits:
                yield f"call {call.call} waits for {_waiting(entry)}, not for {call.waits}"
            elif call.open and (entry.operation if entry.is_running else None) != call.run:
                yield f"call {call.call} runs as {entry.operation}, not as {call.run}"


def _outcomes_of_vain_answer(call: SeenCall) -> Outcomes:
    """The call does not wait for a person."""
    if not call.shown:
        return only(RefusalReason.NOT_NOW if call.open else RefusalReason.STALE)
    if call.shown > 1:  # which of its questions the answer is meant for, nobody can say
        return frozenset({RefusalReason.DUPLICATE, RefusalReason.STALE})
    return only(RefusalReason.DUPLICATE if call.answered else RefusalReason.STALE)


def _waiting(entry: LedgerEntry) -> Waiting | None:
    wait = entry.person.wait
    if isinstance(wait, ApprovalWait):
        return Waiting.APPROVAL if wait.edit is None else Waiting.EDIT
    if isinstance(wait, QuestionWait):
        return Waiting.ANSWER
    if isinstance(wait, ChildWait):
        return Waiting.CHILD
    return Waiting.WORD if isinstance(wait, CrashWait) else None


def _references(value: JsonValue) -> Iterator[JsonValue]:
    """What stands under each `$result` that is the only key of its object."""
    if isinstance(value, dict):
        if value.keys() == {"$result"}:
            yield value["$result"]
        for part in value.values():
            yield from _references(part)
    elif isinstance(value, list):
        for part in value:
            yield from _references(part)
