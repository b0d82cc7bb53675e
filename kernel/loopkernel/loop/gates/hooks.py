"""Who is asked before the loop goes on: hooks, one after the other, and the course correction (section HOOK).

Hooks that observe are told. A gate is whoever is asked, for no longer than policy says.
"""

from attrs import evolve

from loopkernel.data.choices import HookFailure
from loopkernel.data.effects import AbortOther, AskHook, CheckCorrection, TellHook
from loopkernel.data.hook_calls import HookContext, OpenCorrection, OpenHook
from loopkernel.data.ids import CorrectionOperation, HookOperation, OperationKind, TimerOperation
from loopkernel.data.messages import Message
from loopkernel.data.outside_deltas import HookAnswer, HookBlock, HookContinue, HookFault, HookModify, HookRetry
from loopkernel.data.policy import Hook, Policy
from loopkernel.data.sessions import Session
from loopkernel.data.timers import Timer
from loopkernel.data.words import HookPoint, TimerPurpose
from loopkernel.loop.draft import Draft, L

Gate = OpenHook | OpenCorrection

MAX_RETRIES = 3  # in a row, for a hook (rule HOOK-2)
TOO_SLOW = HookFault("it took too long")

_AFTER = frozenset(point for point in HookPoint if point.value.startswith("after_"))


def hooks_at(policy: Policy, point: HookPoint) -> tuple[Hook, ...]:
    """The hooks of the point, in the order in which they are asked: those after something in reverse (HOOK-1)."""
    if not policy.hooks:
        return ()
    found = tuple(hook for hook in policy.hooks if hook.point is point)
    return found[::-1] if point in _AFTER else found


def context(session: Session, point: HookPoint, *, message: Message | None = None) -> HookContext:
    """What a hook is told of the session; the name is that of each hook that is reached."""
    return HookContext(point=point, name="", thread=session.thread, message=message)


# --- asked ----------------------------------------------------------------------------------------------


def ask_hooks(draft: Draft[L], hooks: tuple[Hook, ...], about: HookContext) -> tuple[Draft[L], OpenHook | None]:
    """The hooks in turn, up to the first that is gated: it is asked, and may take only so long (rule HOOK-4)."""
    for place, hook in enumerate(hooks):
        told = evolve(about, name=hook.name)
        if not hook.gated:
            draft = draft.tell(TellHook(told))
            continue
        draft, number = draft.mint(OperationKind.HOOK)
        operation = HookOperation(number)
        draft, timer = _start_time(draft.tell(AskHook(operation, told)))
        return draft, OpenHook(operation=operation, hook=hook, left=hooks[place + 1 :], timer=timer)
    return draft, None


def ask_again(draft: Draft[L], gate: OpenHook, about: HookContext) -> tuple[Draft[L], OpenHook | None]:
    """The process was restarted: the hook that was being asked is asked again (rule RESUME-3)."""
    return ask_hooks(forget_gate(draft, gate), (gate.hook, *gate.left), about)


def tell_hooks(draft: Draft[L], about: HookContext, left: tuple[Hook, ...] | None = None) -> Draft[L]:
    """The observing hooks of a point at which none is asked are told, or only those of them that are `left`."""
    hooks = hooks_at(draft.session.settings.policy, about.point) if left is None else left
    return draft.tell(*(TellHook(evolve(about, name=hook.name)) for hook in hooks if not hook.gated))


def is_correction_due(session: Session) -> bool:
    """Whether policy wants a correction, and none was asked for since the user spoke (rule HOOK-3)."""
    policy, course = session.settings.policy.course_correction, session.course
    if policy is None or course.checked:
        return False
    return course.calls >= policy.after_calls and course.writes >= policy.after_writes


def ask_correction(draft: Draft[L]) -> tuple[Draft[L], OpenCorrection]:
    """Whoever watches the course is asked, for no longer than a hook."""
    draft, number = draft.mint(OperationKind.CORRECTION)
    operation, session = CorrectionOperation(number), draft.session
    draft = draft.with_session(session.updated(course=evolve(session.course, checked=True)))
    draft, timer = _start_time(draft.tell(CheckCorrection(operation, session.thread)))
    return draft, OpenCorrection(operation, timer)


def _start_time(draft: Draft[L]) -> tuple[Draft[L], Timer | None]:
    limit_ms = draft.session.settings.policy.hook_timeout_ms
    return (
        (draft, None)
        if limit_ms is None
        else draft.start_timer(TimerPurpose.HOOK_TIMEOUT, draft.stamp.now_ms + limit_ms)
    )


# --- answered, or not -----------------------------------------------------------------------------------


def answer_of_hook(
    policy: Policy, gate: OpenHook, answer: HookAnswer
) -> HookContinue | HookBlock | HookModify | HookRetry:
    """The answer; that a hook has failed counts as policy says, of a stop hook as no objection (rule HOOK-4)."""
    if not isinstance(answer, HookFault):
        return answer
    if policy.hook_failure is HookFailure.OPEN or gate.hook.point is HookPoint.STOP:
        return HookContinue()
    return HookBlock(f"hook {gate.hook.name} failed: {answer.why}")


def is_time_of(gate: Gate | None, timer: TimerOperation) -> bool:
    """Whether the timer bounds the gate."""
    return gate is not None and gate.timer is not None and gate.timer.operation == timer


def _kind_of(gate: Gate) -> OperationKind:
    return OperationKind.HOOK if isinstance(gate, OpenHook) else OperationKind.CORRECTION


def forget_gate(draft: Draft[L], gate: Gate | None) -> Draft[L]:
    """Who was asked, if anybody was, is asked no longer, and is not told."""
    return draft if gate is None else draft.abandon(_kind_of(gate), gate.operation)


def abort_gate(draft: Draft[L], gate: Gate | None, *, fired: bool = False) -> Draft[L]:
    """Who was asked, if anybody was, is told to stop; `fired`: since the time has run out."""
    if gate is None:
        return draft
    return abort_asking(draft, gate).close_timer(None if fired else gate.timer)


def abort_asking(draft: Draft[L], gate: Gate) -> Draft[L]:
    """Who was asked is told to stop; the timer is left to the caller."""
    return forget_gate(draft, gate).tell(AbortOther(_kind_of(gate), gate.operation))
