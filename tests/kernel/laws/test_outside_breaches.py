"""What the laws say of hooks, compactions, handoffs and sub-agents that are not as they must be."""

from collections.abc import Callable

import pytest
from attrs import evolve
from loopkernel.data.blocks import TextBlock
from loopkernel.data.compactions import Cut
from loopkernel.data.effects import AskHook, CallModel, CheckCorrection, Effect, TellHook
from loopkernel.data.events import (
    ChildFinished,
    ChildStarted,
    CompactionEnded,
    CompactionStarted,
    CorrectionInjected,
    HandoffStarted,
    MessageAdded,
    ThreadCompacted,
    ThreadRewritten,
    ToolEnded,
)
from loopkernel.data.hook_calls import HookContext
from loopkernel.data.ids import CorrectionOperation, HookOperation, MessageId, ReceiptId
from loopkernel.data.ledgers import ChildWait, LedgerEntry
from loopkernel.data.messages import AssistantMessage, Message, ResultMessage, UserMessage, UserOrigin
from loopkernel.data.outside_deltas import (
    ChildAsks,
    ChildEnded,
    CorrectionAnswered,
    HandoffDone,
    HookAnswered,
    SummaryFailed,
    SummaryReady,
)
from loopkernel.data.policy import Compaction
from loopkernel.data.states import Idle, State
from loopkernel.data.tool_deltas import ToolChecked, ToolSucceeded
from loopkernel.data.user_deltas import CompactNow, EditMessage, StartHandoff
from loopkernel.data.vector import Vector
from loopkernel.data.words import CallStatus, HookPoint, TurnEndReason
from loopkernel.judging import KERNEL
from loopkernel.laws.cut_law import FIRST_ALLOWANCE, unsafe_cuts
from loopkernel.laws.judging import judge_run
from loopkernel.laws.reports import PlanCut
from loopkernel.loop.algorithms.compaction import plan_cut
from loopkernel.replaying import StepRecord

from tests.kernel.laws.tampering import (
    CALL,
    Case,
    after,
    changed,
    ended_as,
    findings,
    instead,
    less,
    more,
    session_in,
    with_entry,
    with_request,
)
from tests.kernel.played import PLAYED

CORRECTION = CheckCorrection(CorrectionOperation(99), session_in(PLAYED["corrected"][-1].after).thread)
ENDED = ChildFinished(CALL, TurnEndReason.ERROR)
NOTE = UserMessage(id=MessageId(99), content=(TextBlock("(cut)"),), origin=UserOrigin.SUMMARY)


def without_first_end(step: StepRecord) -> StepRecord:
    """The step, and nobody is told the end of the first call of all."""
    kept = (one for one in step.effects if not (isinstance(one, ToolEnded) and one.result.call == CALL))
    return evolve(step, effects=tuple(kept))


def about_no_call(effect: Effect) -> Effect:
    """A hook is asked, and not about which call."""
    return evolve(effect, context=evolve(effect.context, call=None)) if isinstance(effect, AskHook) else effect


def cut_as(
    change: Callable[[ThreadCompacted], ThreadCompacted], script: str = "summarised", nth: int = 0
) -> tuple[StepRecord, ...]:
    """The run up to its nth summary, which is told to have cut the thread otherwise."""
    told = instead(lambda effect: change(effect) if isinstance(effect, ThreadCompacted) else effect)
    return changed(script, SummaryReady, told, nth)


def put_back_as(change: Callable[[Message], Message]) -> tuple[StepRecord, ...]:
    """The run in which a compacted message is edited: the first message that is put back is told otherwise."""

    def told(effect: ThreadRewritten) -> ThreadRewritten:
        return ThreadRewritten((change(effect.messages[0]), *effect.messages[1:]))

    return changed(
        "edited_beyond_a_cut",
        EditMessage,
        instead(lambda effect: told(effect) if isinstance(effect, ThreadRewritten) else effect),
    )


def new_input(message: Message) -> Message:
    """The message as an input that nobody has sent."""
    return UserMessage(id=MessageId(98), content=(), receipt=ReceiptId(77)) if message.id else message


def emptied(message: Message) -> Message:
    """The message, with nothing in it."""
    return UserMessage(id=message.id, content=())


def hook_told(point: HookPoint, name: str) -> TellHook:
    """A hook of that name observes."""
    thread = session_in(PLAYED["gates_of_turns"][-1].after).thread
    return TellHook(HookContext(point=point, name=name, thread=thread))


def hook_asked(point: HookPoint, name: str) -> AskHook:
    """A gated hook of that name is asked."""
    return AskHook(HookOperation(99), hook_told(point, name).context)


def idle(state: State) -> State:
    """The state, at rest."""
    return Idle(session=session_in(state), stamp=state.stamp)


def succeeds(effect: Effect) -> Effect:
    """The compaction is told to be done."""
    return CompactionEnded(True) if isinstance(effect, CompactionEnded) else effect


def paused(entry: LedgerEntry) -> LedgerEntry:
    """The call, with another rest of time for its sub-agent."""
    return evolve(entry, person=evolve(entry.person, wait=ChildWait((), 7)))


def asked_on_end(point: HookPoint) -> tuple[StepRecord, ...]:
    """The run of the gates, in which a gated hook of the point is asked when the last turn ends."""
    return (*PLAYED["hooks_cut_short"][:-1], more(hook_asked(point, "nobody"))(PLAYED["hooks_cut_short"][-1]))


CASES = [
    Case(
        "CUT-SAFE",
        "stays in front of a cut, and was not there",
        lambda: cut_as(lambda cut: evolve(cut, opening=MessageId(77))),
    ),
    Case(
        "CUT-SAFE",
        "takes nothing out of the thread",
        lambda: cut_as(lambda cut: evolve(cut, first=MessageId(1), opening=None)),
    ),
    Case(
        "CUT-SAFE",
        "is neither a summary nor a note",
        lambda: cut_as(lambda cut: evolve(cut, note=evolve(NOTE, origin=UserOrigin.NUDGE))),
    ),
    Case("CUT-SAFE", "comes first after a cut", lambda: cut_as(lambda cut: evolve(cut, note=None, opening=None))),
    Case(
        "CUT-SAFE",
        "nothing is left of the thread",
        lambda: cut_as(lambda _: ThreadCompacted(opening=None, note=None, first=None)),
    ),
    Case("CUT-SAFE", "is put back, and is another", lambda: put_back_as(emptied)),
    Case("CONSERVE", "no compaction has taken it out", lambda: put_back_as(new_input)),
    Case(
        "PROGRESS",
        "a compaction is told to start before the one before it has ended",
        lambda: changed("compacted_on_request", CompactNow, more(CompactionStarted())),
    ),
    Case(
        "PROGRESS",
        "a compaction is told to end, and none has started",
        lambda: changed("compacted_on_request", SummaryReady, more(CompactionEnded(False))),
    ),
    Case(
        "PROGRESS",
        "a handoff is under way, and was not told to be",
        lambda: changed("handed_off", StartHandoff, less(HandoffStarted)),
    ),
    Case(
        "PROGRESS",
        "a handoff has succeeded, and the run goes on so",
        lambda: changed("handed_off", HandoffDone, after(idle)),
    ),
    Case(
        "PROGRESS",
        "is told to be done, and no summary has come",
        lambda: changed("compacted_on_request", SummaryFailed, instead(succeeds)),
    ),
    Case(
        "PROGRESS",
        "a correction is asked for a second time",
        lambda: changed("corrected", CorrectionAnswered, more(CORRECTION)),
    ),
    Case(
        "PROGRESS",
        "CorrectionInjected is told, and no correction has answered",
        lambda: changed("corrected", ToolSucceeded, more(CorrectionInjected())),
    ),
    Case(
        "PROGRESS",
        "a correction is told to be in the thread, and is not",
        lambda: changed("corrected", CorrectionAnswered, less(MessageAdded)),
    ),
    Case(
        "PROGRESS",
        "has a turn, and is not due",
        lambda: changed("gates_of_turns", HookAnswered, more(hook_told(HookPoint.STOP, "nobody"))),
    ),
    Case("PROGRESS", "and is not due", lambda: asked_on_end(HookPoint.AFTER_INVOCATION)),
    Case(
        "ASKED",
        "has a turn, and is not due",
        lambda: changed("hooks_before_calls", ToolChecked, more(hook_told(HookPoint.AFTER_TOOL, "nobody"))),
    ),
    Case(
        "ONE-END",
        "is told to start a second time",
        lambda: changed("delegated", ChildAsks, more(ChildStarted(CALL))),
    ),
    Case(
        "ONE-END",
        "is told to end, and none is going on",
        lambda: changed(
            "delegated",
            ChildEnded,
            more(ENDED, ENDED),
        ),
    ),
    Case(
        "ONE-END",
        "starts, and is not told to",
        lambda: tuple(less(ChildStarted)(step) for step in PLAYED["delegated"][:12]),
    ),
    Case(
        "ONE-END",
        "has ended as model_stop, and the call as error",
        lambda: changed("delegated", ChildEnded, ended_as(CallStatus.ERROR), 1),
    ),
    Case(
        "MIRROR",
        "the client holds 1 messages, not the kernel's",
        lambda: cut_as(lambda cut: evolve(cut, first=MessageId(99))),
    ),
    Case(
        "CUT-SAFE",
        "nothing is left of the thread",
        lambda: cut_as(lambda cut: evolve(cut, first=MessageId(99), opening=None, note=None)),
    ),
    Case(
        "ONE-END",
        "has ended as max_turns, and the call as done",
        lambda: changed("delegated", ChildEnded, ended_as(CallStatus.DONE)),
    ),
    Case(
        "ASKED",
        "hook before_tool watch at before_tool has its turn before before_tool 1",
        lambda: tuple(instead(about_no_call)(step) for step in PLAYED["hooks_before_calls"]),
    ),
    Case(
        "TIMER-DATA",
        "and it has",
        lambda: changed("delegated", ChildAsks, with_entry(0, paused)),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=[f"{case.law}: {case.says}" for case in CASES])
def test_a_breach_is_told(case: Case) -> None:
    told = findings(case.run(), case.law)
    assert any(case.says in one for one in told), told


def test_a_reply_that_is_taken_back_takes_only_its_own_calls() -> None:
    told = findings((without_first_end(step) for step in PLAYED["early"]), "ONE-END")
    assert "the turn ends, and call 1.1 has no answer" in told
    assert not any("is taken back" in one for one in told), told


# --- cuts that might be made -------------------------------------------------------------------------------------

THREAD = session_in(PLAYED["edited_beyond_a_cut"][31].after).thread.messages


def cut_at(kind: type[Message]) -> PlanCut:
    """A plan that cuts before the last message of the kind."""

    def plan(messages: Vector[Message], _: Compaction) -> Cut | None:
        places = [place for place, message in enumerate(messages) if isinstance(message, kind)]
        return Cut(places[-1]) if places and places[-1] else None

    return plan


def always(messages: Vector[Message], _: Compaction) -> Cut | None:
    """A plan that finds something to cut in whatever is left."""
    return Cut(1) if len(messages) else None


@pytest.mark.rule("COMPACT-2")
def test_the_plan_of_cuts_is_safe() -> None:
    assert list(unsafe_cuts(THREAD, plan_cut)) == []


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        (cut_at(ResultMessage), "0 calls are owed answers, and 2 come"),
        (lambda messages, _: Cut(2, opening=1) if len(messages) > 4 else None, "comes first after a cut"),
        (lambda messages, _: Cut(0) if len(messages) < 99 else None, "is cut to"),
        (always, "there is always something left to cut"),
    ],
)
def test_a_cut_that_is_not_safe_is_told(plan: PlanCut, says: str) -> None:
    told = list(unsafe_cuts(THREAD, plan))
    assert any(says in one for one in told), told


def test_the_last_thread_of_a_run_is_cut_however_long_it_is() -> None:
    long: Vector[Message] = Vector.of(evolve(NOTE, id=MessageId(number)) for number in range(1, FIRST_ALLOWANCE))
    steps = tuple(with_request(lambda _: long)(step) for step in PLAYED["talk"])
    asked = [place for place, step in enumerate(steps) if any(isinstance(effect, CallModel) for effect in step.effects)]
    told = judge_run("CUT-SAFE", steps, evolve(KERNEL, plan_cut=lambda messages, _: Cut(0)))
    assert len(asked) > 1
    assert told
    assert all(breach.detail.startswith(f"of the thread that step {asked[-1]} sent: ") for breach in told)


def test_a_thread_whose_calls_have_no_answers_is_for_pair_to_say() -> None:
    unanswered: Vector[Message] = Vector.of(message for message in THREAD if not isinstance(message, ResultMessage))
    assert any(isinstance(message, AssistantMessage) for message in unanswered)
    assert list(unsafe_cuts(unanswered, always)) == []
    ends = next(place for place, message in enumerate(THREAD) if isinstance(message, ResultMessage))
    assert list(unsafe_cuts(THREAD.first(ends), always)) == []
