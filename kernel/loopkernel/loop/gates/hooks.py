"""Hooks as a region: those that observe are told, the gated ones are asked one after the other (section HOOK)."""

from attrs import evolve, frozen

from loopkernel.data.choices import HookFailure
from loopkernel.data.effects import AbortOther, AskHook, Effect, TellHook
from loopkernel.data.hook_calls import HookContext, OpenHook
from loopkernel.data.ids import HookOperation, OperationKind, TimerOperation
from loopkernel.data.messages import Message
from loopkernel.data.outside_deltas import HookAnswer, HookBlock, HookContinue, HookFault, HookModify, HookRetry
from loopkernel.data.policy import Hook, Policy
from loopkernel.data.sessions import Session
from loopkernel.data.timers import Timer
from loopkernel.data.words import HookPoint, TimerPurpose
from loopkernel.loop.algorithms.redaction import redacted_message
from loopkernel.loop.gates.timers import close_timer, start_timer

MAX_RETRIES = 3  # in a row, for a hook (rule HOOK-2)
TOO_SLOW = HookFault("it took too long")

_AFTER = frozenset({HookPoint.AFTER_INVOCATION, HookPoint.AFTER_MODEL, HookPoint.AFTER_TOOL})


def hooks_at(policy: Policy, point: HookPoint) -> tuple[Hook, ...]:
    """The hooks of the point, in the order in which they are asked: those after something in reverse (HOOK-1)."""
    if not policy.hooks:
        return ()
    found = tuple(hook for hook in policy.hooks if hook.point is point)
    return found[::-1] if point in _AFTER else found


@frozen
class Gated:
    """The session once hooks were told and the next gated one asked; `gate` is None where none is left."""

    session: Session
    gate: OpenHook | None
    effects: tuple[Effect, ...]


def ask_hooks(session: Session, hooks: tuple[Hook, ...], about: HookContext, now_ms: int) -> Gated:
    """The hooks in turn, up to the first that is gated: it is asked, and may take only so long (rule HOOK-4)."""
    effects: list[Effect] = []
    for place, hook in enumerate(hooks):
        context = evolve(about, name=hook.name)
        if not hook.gated:
            effects.append(TellHook(context))
            continue
        operations, number = session.operations.mint(OperationKind.HOOK)
        operation = HookOperation(number)
        effects.append(AskHook(operation, context))
        limit_ms = session.settings.policy.hook_timeout_ms
        timer: Timer | None = None
        if limit_ms is not None:
            operations, timer, started = start_timer(operations, TimerPurpose.HOOK_TIMEOUT, now_ms + limit_ms)
            effects.append(started)
        gate = OpenHook(operation=operation, hook=hook, left=hooks[place + 1 :], timer=timer)
        return Gated(session.with_operations(operations), gate, tuple(effects))
    return Gated(session, None, tuple(effects))


def ask_again(session: Session, gate: OpenHook, about: HookContext, now_ms: int) -> Gated:
    """The process was restarted: the hook that was being asked is asked again (rule RESUME-3)."""
    return ask_hooks(forget_hook(session, gate), (gate.hook, *gate.left), about, now_ms)


def tell_hooks(session: Session, about: HookContext, left: tuple[Hook, ...] | None = None) -> tuple[Effect, ...]:
    """The observing hooks of a point at which none is asked, or only those of them that are `left`."""
    hooks = hooks_at(session.settings.policy, about.point) if left is None else left
    return tuple(TellHook(evolve(about, name=hook.name)) for hook in hooks if not hook.gated)


def tell_message(session: Session, message: Message) -> tuple[Effect, ...]:
    """A message was added; what is told of it holds no secret (rule TOOL-12)."""
    if not session.settings.policy.hooks:
        return ()
    shown = redacted_message(message)
    return tell_hooks(session, context(session, HookPoint.MESSAGE_ADDED, message=shown))


def context(session: Session, point: HookPoint, *, message: Message | None = None) -> HookContext:
    """What a hook is told of the session; the name is that of each hook that is reached."""
    return HookContext(point=point, name="", thread=session.thread, message=message)


def answer_of_hook(
    policy: Policy, gate: OpenHook, answer: HookAnswer
) -> HookContinue | HookBlock | HookModify | HookRetry:
    """The answer; that a hook has failed counts as policy says, of a stop hook as no objection (rule HOOK-4)."""
    if not isinstance(answer, HookFault):
        return answer
    if policy.hook_failure is HookFailure.OPEN or gate.hook.point is HookPoint.STOP:
        return HookContinue()
    return HookBlock(f"hook {gate.hook.name} failed: {answer.why}")


def forget_hook(session: Session, gate: OpenHook) -> Session:
    """The hook is asked no longer; whoever was asked is not told."""
    return session.with_operations(session.operations.abandon(OperationKind.HOOK, gate.operation))


def abort_hook(session: Session, gate: OpenHook, *, fired: bool = False) -> tuple[Session, tuple[Effect, ...]]:
    """The hook is stopped; `fired`: since its time has run out."""
    aborted = AbortOther(OperationKind.HOOK, gate.operation)
    return forget_hook(session, gate), (aborted, *(() if fired else close_timer(gate.timer)))


def is_time_of(gate: OpenHook, timer: TimerOperation) -> bool:
    """Whether the timer bounds the hook."""
    return gate.timer is not None and gate.timer.operation == timer
